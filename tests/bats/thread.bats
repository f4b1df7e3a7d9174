#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Several threads on streams, and signals during calls.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "64 streams, a thread for each" {
	compare thread echo64 -n 64
}

@test "two writers of one stream: records stay together" {
	compare thread writers
}

@test "two readers of one stream: every byte once" {
	compare thread readers -w any
}

@test "one reads, one writes, one polls" {
	compare thread crowd -w mixed -r peer-dropped
}

@test "pthread_cancel of a sleeping reader" {
	[ "${SR_TEST_SANITIZER:-}" != thread ] ||
		skip "ThreadSanitizer holds signals back, and with them the cancellation"
	compare thread cancel
}

@test "EINTR, SA_RESTART, and short counts" {
	[ "${SR_TEST_SANITIZER:-}" != thread ] ||
		skip "ThreadSanitizer holds signals back"
	compare thread eintr -L
}

@test "ppoll and pselect with signal masks" {
	compare thread sigmask
}

@test "a signal handler uses a stream" {
	[ "${SR_TEST_SANITIZER:-}" != thread ] ||
		skip "ThreadSanitizer holds signals back"
	compare thread handler -n 2
}
