#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The calls that move bytes, their flags and their odd results.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "MSG_PEEK" {
	compare io_flag peek
}

@test "MSG_PEEK and FIONREAD see across a switch" {
	compare io_flag peek-across
}

@test "MSG_WAITALL, short at the end and at a timeout" {
	compare io_flag waitall
}

@test "MSG_DONTWAIT: EAGAIN when empty and when full" {
	compare io_flag dontwait
}

@test "MSG_TRUNC discards, and makes the stream plain" {
	compare io_flag trunc -w some -r 'option|peer-dropped'
}

@test "MSG_TRUNC waits for a peer that is stopped" {
	compare io_flag trunc-stopped -w some -r 'option|peer-dropped'
}

@test "MSG_MORE and TCP_CORK hold back, but not for ever" {
	# While a direction switches, what TCP held back is pushed out.
	SR_TEST_MODES="wait" compare io_flag more
}

@test "TCP_NODELAY pushes out what MSG_MORE and TCP_CORK hold back" {
	compare io_flag push
}

@test "MSG_MORE and TCP_CORK while the rings grow" {
	compare io_flag more-bulk
}

@test "syscall(2): descriptors and sets by number" {
	compare io_call number
}

@test "readv, writev, recvmsg, sendmsg" {
	compare io_message iov
}

@test "TCP_INQ: how much is left, and 1 at the end" {
	compare io_message inq
}

@test "TCP_INQ: a reader that trusts it, and edges" {
	compare io_message inq-edge -w mixed
}

@test "recvmmsg and sendmmsg make the stream plain" {
	compare io_message mmsg -w some -r 'option|peer-dropped'
}

@test "preadv2 and other calls that files share" {
	compare io_call file-calls -w some -r 'option|peer-dropped'
}

@test "the fortified twins" {
	compare io_call fortified
}

@test "sendfile" {
	compare io_call sendfile
}

@test "sendfile from devices, pipes and files that cannot be spliced from" {
	compare io_call sendfile-odd -w some -r 'option|peer-dropped'
}

@test "sendfile after the end: an error and one signal" {
	not_in_valgrind "ignores the mask that a handler leaves to its thread"
	compare io_call sendfile-over
}

@test "splice from and to a pipe" {
	compare io_call splice -w some -r option
}

@test "asynchronous I/O of the C library" {
	compare io_call aio -l -w mixed -r 'stdio|peer-dropped'
}

@test "recv without room for a byte makes the stream plain" {
	compare io_message none -w some -r 'option|peer-dropped'
}

@test "the fields of a message, also after an error" {
	compare io_message fields -w some -r 'option|peer-dropped'
	compare io_message fields-reset -w some -r 'option|peer-dropped' -l
}

@test "counts and lengths beyond what the kernel takes" {
	compare io_message beyond -w some -r 'option|peer-dropped'
}

@test "MSG_PEEK with MSG_WAITALL makes the stream plain" {
	compare io_flag peek-all -w some -r 'option|peer-dropped'
}
