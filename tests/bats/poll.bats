#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Waiting: poll, select and their twins, non-blocking I/O.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "poll: every bit at every stage of a stream" {
	compare poll poll
}

@test "select and pselect" {
	compare poll select
}

@test "non-blocking connect, accept4, both directions in a poll loop" {
	compare poll_loop nonblock -w mixed
}

@test "both directions in a select loop" {
	compare poll_loop select-pump -w mixed
}

@test "messages that find the other end asleep, in every kind of wait" {
	compare poll_loop sleepers -L
}

@test "small sends that must not block" {
	compare poll_loop room -L -w mixed -n 5
}

@test "a busy stream and a pipe in one poll set" {
	compare poll_loop busy -l -w mixed -r peer-dropped
}

@test "a busy stream and a pipe in one poll set, which is asked now and then" {
	compare poll_loop busy -l -w mixed -r peer-dropped SOCKRAIL_UNASKED_US=1
}

@test "sixteen streams in one poll set" {
	compare poll_loop many -n 16
}

@test "sets with a descriptor twice, -1 and closed ones" {
	compare poll odd-sets
}

@test "sets of as many as may be open: beyond that EINVAL" {
	not_in_valgrind "does not lower the limit of descriptors"
	compare poll many-entries
}

@test "a set of more entries than there is memory" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "the sanitizers' poll reads them all"
	compare poll no-number
}

@test "connected once is connected" {
	compare poll connected -w some
}

@test "waits of less than a millisecond are not shorter than asked" {
	compare poll brief
}

@test "one direction was used, the sender shuts both" {
	compare poll sender-shuts -w some
}

@test "one direction was used, the receiver shuts both" {
	compare poll receiver-shuts -w some
}

@test "ppoll and pselect with signal masks" {
	compare poll sigmask
}
