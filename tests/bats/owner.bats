#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Streams that several processes hold, and processes that end: no byte is lost, no
# process takes another's, nobody hangs.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "both ends have ended: a child's exit takes nothing from its parent" {
	compare owner ended-child -w some -l
}

@test "both ends have ended: the parent's exit takes nothing from its child" {
	compare owner ended-parent -w some -l -s 1 -c 2
}

@test "fork with much unread: one process closes, the other goes on" {
	compare owner unread -w some -l -s 6 -c 9
}

@test "system with a little unread, and the end" {
	compare owner left -w some -l -n 8 -m "wait lazy eager"
}

@test "system with much unread" {
	compare owner unread-system -w some -l -n 6
}

@test "the sender ends while its reader pauses" {
	compare owner paused -w some -l -s 10 -c 6+ -m "wait lazy eager"
}

@test "the sender is killed while its reader pauses" {
	[ "$SR_TEST_LINK" = shm ] || skip "a queue pair ends with its process"
	compare owner killed -w some -l -s 4 -c 0+ -m "wait lazy eager"
}

@test "a sender's end that is a reset" {
	compare owner reset -w some -l -s 2 -c 0+
}

@test "exit while another thread sends" {
	compare owner thread -w some -l -s 5 -c 0+
}

@test "the reader forks in the moment in which its sender exits" {
	[ "$SR_TEST_LINK" = shm ] || skip "for shared memory"
	compare owner moment -w some -l -s 24 -c 12+ -m "wait lazy"
}

@test "2,000 forks while streams come and go" {
	[ "$SR_TEST_WHERE" = native ] || skip "too slow in the virtual machine"
	not_in_valgrind "forks too slowly"
	compare owner forks -w some -l -n 2+
}

@test "listen, connect, accept, close, fork" {
	compare owner lone -w some -l -n 1+
}

@test "children that inherit a stream exit at once" {
	not_in_valgrind "forks too slowly"
	compare owner late -w some -l
}

@test "fork leaves a stream on its link, if the child does not use it" {
	compare owner stays -w link
}
