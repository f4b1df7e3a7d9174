#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Signal handlers: what they interrupt, what they do, who installs them.

load ../lib/common
load ../lib/case

setup() {
	needs_signals
}

teardown() { stop_all; }

# forks CASE: and in mode wait all of its streams were on the link at first.  (Lazy, over
# RDMA, they may be about to switch, which sockrail(7) is about.)
forks() {
	local report=$BATS_TEST_TMPDIR/$1.wait/client.report modes=$SR_TEST_MODES
	[ "$SR_TEST_LINK" = shm ] || modes='wait'
	compare signal_fork "$1" -w some -l -n 9+ -m "$modes"
	[ "$SR_TEST_LINK" = shm ] && [ -e "$report" ] || return 0
	[ "$(grep -c '"tx_shm":[1-9]' "$report")" = 9 ]
}

@test "two handlers, one with SA_RESTART, while the thread does not sleep yet" {
	compare signal restart -n 2 -w mixed -r peer-dropped SOCKRAIL_SPIN_US=1000000
}

@test "a recv of no byte that is interrupted" {
	compare signal restart-none -n 2 -w some -l
}

@test "ppoll and pselect with signal masks, while the thread does not sleep yet" {
	compare poll sigmask SOCKRAIL_SPIN_US=1000000
}

@test "ppoll and pselect let a signal in that has come, or something is ready" {
	compare poll sigmask-now
}

@test "a signal handler sleeps in a call, and nothing is allocated" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "a sanitizer has a malloc() of its own"
	compare signal_asleep asleep -n 2
}

@test "a signal handler interrupts malloc and uses a stream, and nothing is allocated" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "a sanitizer has a malloc() of its own"
	compare signal_asleep in-malloc -w mixed
}

@test "a handler uses the stream that it interrupts" {
	compare signal storm -w mixed
}

@test "the same, nonblocking and with poll" {
	compare signal storm-nonblock -w mixed
}

@test "a handler uses two streams" {
	compare signal storm-other -w mixed -n 2 -l -r peer-dropped
}

@test "SIGCHLD, time after time, under load" {
	compare signal sigchld -w mixed
}

@test "a handler runs while close and dup2 wait for a peer that is stopped" {
	needs_signals
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "a sanitizer has a malloc() of its own"
	compare signal_asleep stopped -n 2 -w some -r 'epoll|peer-dropped'
	run -1 grep -h "not back on TCP yet" "$BATS_TEST_TMPDIR"/stopped.*/server.log
}

@test "siglongjmp out of calls that wait" {
	compare signal_jump jump -w some
}

@test "siglongjmp out of send" {
	compare signal_jump jump-send -w some -n 2 -l
}

@test "exit in a handler, at any time" {
	compare signal_jump exit -w some -n 2 -l
}

@test "a handler forks in a call that sleeps: the child exits" {
	forks fork-exit
}

@test "a handler forks in a call that sleeps: the child uses the stream, and exits" {
	forks fork-use
}

@test "sigaction, signal and their like say what the program did" {
	compare signal_action actions -w some
}
