#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shutdown, and who is left in TIME_WAIT.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "shutdown in its three ways, and after the end" {
	compare shutdown shutdown -l
}

@test "shutdown(SHUT_RD) after a return to TCP" {
	compare shutdown back -w some -r 'option|peer-dropped'
	compare shutdown back-both -w some -r 'option|peer-dropped'
}

@test "shutdown of what is over: ENOTCONN" {
	compare shutdown over -w some -n 3
}

@test "a server that will not read" {
	compare shutdown read-end -w any -n 5
}

@test "shut down by who has only received" {
	compare shutdown one-way -w some -n 2
}

@test "TIME_WAIT is where the stream was closed first" {
	compare shutdown second -w some -n 6
	compare shutdown second-both -w some -n 6
}

@test "both have shut down, with bytes unread" {
	[ "${SR_TEST_DEVICE:-}" != siw ] || skip "iWARP does not tell what has arrived"
	compare shutdown both-shut -n 2 -w some -l
}
