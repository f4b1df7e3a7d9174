#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Several threads on streams.

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
	compare thread readers -w some
}

@test "one reads, one writes, one polls" {
	compare thread crowd -w mixed -r peer-dropped
}

@test "pthread_cancel before a call that need not wait" {
	[ -z "${SR_TEST_SANITIZER:-}" ] ||
		skip "the sanitizers hold cancellation back, or go on watching frames that it has left"
	compare thread ended
}

@test "of many threads that sleep an arrival wakes one" {
	[ -z "${SR_TEST_SANITIZER:-}" ] ||
		skip "the sanitizers hold cancellation back, or go on watching frames that it has left"
	# lazy, over RDMA: a link may come up meanwhile, which wakes its thread
	local modes=$SR_TEST_MODES
	[ "$SR_TEST_LINK" = shm ] || modes='wait'
	compare thread one-wakes -n 6 -m "$modes" SOCKRAIL_CARRIERS=0
}

# Two of those that sleep have the queue pair's doorbell, so that one may wake in vain.
@test "of many threads that share a queue pair an arrival wakes at most two" {
	[ "$SR_TEST_LINK" = verbs ] || skip "over RDMA only"
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "the sanitizers hold cancellation back"
	local -x CASE_WAKES=1
	compare thread one-wakes -n 6 -m wait SOCKRAIL_CARRIERS=1
}

# In a sanitizer the last thread of the process may be the sanitizer's own.
@test "a number is closed and comes back while a call sleeps: the call gets none of its bytes" {
	compare thread again -n 2 -w some -l
}

@test "the same, of streams that stay on TCP" {
	compare thread again -n 2 -w plain -r 'short|not-asked' -l -m lazy SOCKRAIL_UPGRADE_BYTES=1g
}

@test "a number is closed while a call sleeps, and is a linked stream then: the call wakes" {
	compare thread again-linked -n 2 -w some -r 'short|not-asked|no-match' -l -m "wait lazy"
	compare thread again-part -n 2 -w some -r 'short|not-asked|no-match' -l -m lazy
}

@test "the process ends with its last thread: the first one has called pthread_exit" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "sanitizers have threads of their own"
	compare thread_last exits
	compare thread_last begins
}

@test "the same: the first thread was cancelled" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "sanitizers have threads of their own"
	compare thread_last cancelled
}

@test "the same: a child of fork, whose first thread returns" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "sanitizers have threads of their own"
	compare thread_last forked
}

@test "a signal kills the process when its first thread has ended" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "sanitizers have threads of their own"
	compare thread_last killed -c 0 -w mixed -r peer-dropped
}

@test "249 and 320 kB of thread-local data" {
	compare thread_tls tls
	compare thread_tls_more tls-more
}

@test "calls on streams fit into the smallest stack" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "the sanitizers' frames are larger"
	compare thread_stack small -w some -n 300+ -l -m "wait lazy"
}
