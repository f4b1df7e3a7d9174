#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# How streams end: in order, by reset, by a kill, at exit.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "closed with unread bytes: ECONNRESET" {
	compare close unread -w mixed -r peer-dropped -l
}

@test "SO_LINGER of no time: ECONNRESET" {
	compare close linger0 -w mixed -r peer-dropped -l
}

@test "SO_LINGER of no time, with a tail held back" {
	compare close linger0-held -w mixed -r peer-dropped -l
}

@test "SO_LINGER: close waits" {
	compare close linger
}

@test "writing to a peer that has gone: EPIPE" {
	compare close gone -w mixed -r peer-dropped -l
}

@test "SIGPIPE, and when not" {
	compare close sigpipe -l -c 0
}

@test "the reader is killed" {
	compare close killed-reader -w mixed -r peer-dropped -l -s 0
}

@test "the writer is killed: no silent truncation" {
	compare close killed-writer -w mixed -r peer-dropped -l -s 0
}

@test "the peer is killed while all is quiet" {
	compare close killed-idle -w mixed -r peer-dropped -l -s 0
}

@test "the peer is killed at any moment, both directions in use" {
	local us
	for us in 0 300 1000 3000 10000 30000 60000; do
		compare close killed-any -w any -l -s 0+ -c 0+ KILL_US=$us
		rm -r "$BATS_TEST_TMPDIR"/killed-any.*
	done
	compare close killed-any -w mixed -r peer-dropped -l -c 0+ KILL_US=300000
}

@test "shutdown in its three ways, and after the end" {
	compare close shutdown -l
}

@test "a server that will not read" {
	compare close deaf -w any -n 5
}

@test "exit with bytes under way" {
	compare close exit -w mixed -r peer-dropped
}

@test "_exit with bytes under way" {
	compare close quick-exit -w mixed -r peer-dropped -c 0+
}

@test "close and exit with bytes under way" {
	compare close close-exit -w mixed -r peer-dropped
}

@test "return from main with bytes under way" {
	compare close return -w mixed -r peer-dropped
}

@test "close under a sleeping reader" {
	# On a link close(2) does not wait for the sleeper to return.
	skip "a gap: a reader asleep on a link does not keep its stream open"
	compare close close-under
}

@test "shutdown under a sleeping reader" {
	compare close shutdown-under -w mixed -r peer-dropped -l
}

@test "reset with bytes unread" {
	compare close reset-unread -w mixed -r peer-dropped -l
	compare close reset-asked -w mixed -r peer-dropped -l
}

@test "reset of a sleeping reader" {
	compare close reset-sleeper -w mixed -r peer-dropped -l
}

@test "streams that carry nothing" {
	compare close empty -w any -n 21
}
