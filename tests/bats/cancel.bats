#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Cancellation while a call sleeps, call by call.

load ../lib/common
load ../lib/case

setup() {
	needs_signals
}

teardown() { stop_all; }

@test "pthread_cancel during each call that sleeps" {
	[ -z "${SR_TEST_SANITIZER:-}" ] ||
		skip "the sanitizers go on watching frames that cancellation has left"
	compare cancel all -n 2
}

@test "pthread_cancel during connect" {
	compare cancel connect -n 4
}

@test "threads that may be cancelled at any instruction" {
	[ -z "${SR_TEST_SANITIZER:-}" ] ||
		skip "the sanitizers go on watching frames that cancellation has left"
	compare cancel_any async -w mixed -r peer-dropped -L -l
}

@test "the same, asleep in sendfile" {
	[ -z "${SR_TEST_SANITIZER:-}" ] ||
		skip "the sanitizers go on watching frames that cancellation has left"
	compare cancel_any asleep -m wait
}

@test "with a cancellation pending: dup2, fdopen, posix_spawn, popen" {
	compare cancel_any points -n 4 -w mixed -r 'stdio|exec|peer-dropped'
}

@test "pthread_cancel during a close that lingers" {
	[ -z "${SR_TEST_SANITIZER:-}" ] ||
		skip "the sanitizers go on watching frames that cancellation has left"
	compare cancel_any lingering -w mixed
}
