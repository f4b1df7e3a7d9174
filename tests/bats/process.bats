#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Descriptors that are copied, inherited, executed with, passed.

# shellcheck disable=SC2034 # case_limit is for compare
load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "dup, dup2, dup3, F_DUPFD, and closing the first" {
	compare process dup -n 2
}

@test "close everything from 3 up, close_range, closefrom" {
	compare process close-all -n 2
}

@test "a child for each stream" {
	# (the parent has the library's listener, and no stream of that name)
	# (where a child is late it has none)
	# (nodevice: the parent, too, has reports, of no bytes)
	compare process fork-child -w some -l -s 3+ -c 3
}

# (Not in mode server, whose policy is wait: there the child says that it has the stream.  Not in
# mode nodevice: the parent, too, has reports, of no bytes.)
@test "a child that answers one request has no thread of the library" {
	compare process fork-brief -w plain -l -s 1+ -c 3 -m "lazy eager client" \
		-r 'short|not-asked|no-match|fork'
}

@test "parent and child use a stream in turn, and at once" {
	compare process fork-both -w some -l -c 1+
}

# What is loaded then are the libraries of RDMA.  (Without the lock for it, 1 or 2 of 100
# children aborted over rxe.)
@test "forked while the first stream is made" {
	[ "$SR_TEST_WHERE" = native ] || local case_limit=400
	compare process loads -w some -l -n 1+
}

# The child would wait for ever for a lock of malloc that the service thread had.
@test "forked while another thread is in a malloc that does nothing about fork" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "a sanitizer has its own malloc"
	[ "$SR_TEST_LINK" = shm ] || skip "a device is opened for longer than fork waits"
	compare fork_malloc locked -n 2 -w some -l -m "wait eager client server" \
		-r 'fork|short|peer-dropped|not-asked'
}

@test "as inetd: the stream is stdin and stdout of cat" {
	compare process inetd -w some -l -s 0+
}

@test "exec with bytes unread and unsent" {
	compare process exec -w some -l -s 0+
}

@test "system, posix_spawn, vfork and exec on the way" {
	compare process spawn -w some -l -c 1+
}

@test "an exec that fails" {
	compare process failed-exec -w some
}

@test "SCM_RIGHTS to itself" {
	compare process pass-self -w some -l -s 1+
}

@test "fdopen" {
	compare process stdio -w mixed -r 'stdio|peer-dropped'
}

@test "fdopen of a stream that is half closed" {
	compare process half-stdio -w some -l -r 'stdio|peer-dropped|short'
}

@test "dprintf" {
	# -l: what libc writes is not counted
	compare process dprintf -w some -l -r 'stdio|peer-dropped'
}

@test "half of the descriptors that the limit allows are the program's" {
	compare process limit -w some -l -n 1+
}

@test "more clients than descriptors" {
	[ "$SR_TEST_LINK" = shm ] || skip "only shared memory needs descriptors for a stream"
	compare process crowd -w some -l -n 201
}

# Whose bytes they are, whatever the processes that hold a stream do to it and to themselves.
@test "random sequences of fork, exec, SCM_RIGHTS, close and exit" {
	local n=100 reports="$BATS_TEST_TMPDIR/walk.wait/server.report"
	[ "$SR_TEST_WHERE" = native ] || local n=25 case_limit=400
	[ -z "${SR_TEST_SANITIZER:-}" ] || n=10
	CASE_SEEDS="1 $n" compare process_walk walk -w some -l -n 1+ -m "wait lazy eager"
	[[ " $SR_TEST_MODES " != *" wait "* ]] ||
		[ "$(grep -c "\"tx_$SR_TEST_LINK\":[1-9]" "$reports")" -gt "$n" ]
}
