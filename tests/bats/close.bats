#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# How streams end: close and exit, also under a sleeper.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "SO_LINGER: close waits" {
	compare close linger -w mixed -r peer-dropped
}

@test "SO_LINGER and SIOCOUTQ: for the peer's host, not its program" {
	[ "${SR_TEST_DEVICE:-}" != siw ] || skip "iWARP does not tell the two apart"
	compare close unread -n 2 -w some
}

@test "exit with bytes under way" {
	compare close exit -w mixed -r peer-dropped
}

@test "_exit with bytes under way" {
	compare close quick-exit -w mixed -r peer-dropped -c 0+
}

@test "close, with no descriptor left" {
	not_in_valgrind "does not lower the limit of descriptors"
	compare close full -w mixed -r 'descriptors|peer-dropped' -n 3
}

@test "close, with no descriptor allowed" {
	not_in_valgrind "does not lower the limit of descriptors"
	# There is none to write the report with.
	compare close locked -w mixed -r 'descriptors|peer-dropped' -c 0+ client:SOCKRAIL_LOG=error
}

@test "close and exit with bytes under way" {
	compare close close-exit -w mixed -r peer-dropped
}

@test "return from main with bytes under way" {
	compare close return -w mixed -r peer-dropped
}

@test "close under a sleeping poll: it ends" {
	compare close poll-under -w some -l
}

@test "a handler closes what its thread sleeps on" {
	needs_signals
	compare close close-in-handler -w some -l
}

@test "shutdown under a sleeping reader" {
	compare close shutdown-under -w mixed -r peer-dropped -l
}

@test "streams that carry nothing" {
	compare close empty -w some -n 21
}

@test "5,000 upgraded streams leave nothing behind" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "a sanitizer keeps freed memory"
	[ "$SR_TEST_WHERE" = native ] || skip "too slow in the virtual machine"
	compare close steady -w some -n 5500 -m "wait lazy"
}
