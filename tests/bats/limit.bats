#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Numbers of descriptors: how many a program can have, and which are open.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "a listener that is closed while a thread sleeps in a set leaves nothing" {
	compare limit closed -n 5 -w some -m wait # so that no link comes later
}

# (A log that begins when no number is left goes to standard error.)
@test "the last number is the program's" {
	[ "$SR_TEST_LINK" = shm ] || skip "a device has descriptors of its own"
	compare limit last -n 100 -w plain -m "lazy eager" \
		-r 'descriptors|timeout|no-listener|not-asked|short|peer-dropped' SOCKRAIL_LOG=error
	compare limit listens -n 0 -w plain -m "lazy eager" SOCKRAIL_LOG=error
}

@test "numbers that the program has not opened are not open" {
	compare limit others
}
