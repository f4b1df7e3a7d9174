#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The calls that move bytes, their flags and their odd results.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "MSG_PEEK" {
	compare io peek
}

@test "MSG_PEEK and FIONREAD see across a switch" {
	compare io peek-across
}

@test "MSG_WAITALL, short at the end and at a timeout" {
	compare io waitall
}

@test "MSG_DONTWAIT: EAGAIN when empty and when full" {
	compare io dontwait
}

@test "MSG_TRUNC discards" {
	compare io trunc
}

@test "MSG_MORE and TCP_CORK hold back, but not for ever" {
	# While a direction switches, what TCP held back is pushed out.
	SR_TEST_MODES="wait" compare io more
}

@test "MSG_MORE and TCP_CORK while the rings grow" {
	compare io more-bulk
}

@test "syscall(2) with the numbers of these calls" {
	compare io number
}

@test "readv, writev, recvmsg, sendmsg" {
	compare io iov
}

@test "recvmmsg, sendmmsg" {
	compare io mmsg
}

@test "preadv2 and other calls that files share" {
	compare io file-calls
}

@test "the fortified twins" {
	compare io fortified
}

@test "sendfile" {
	compare io sendfile
}

@test "sendfile from devices, pipes and files that cannot be spliced from" {
	compare io sendfile-odd
}

@test "sendfile after the end: an error and one signal" {
	compare io sendfile-over
}

@test "splice from and to a pipe" {
	compare io splice -w any -r option
}

@test "nothing is left in the buffer behind the bytes that came" {
	compare io behind -w any -n 60
}

@test "asynchronous I/O of the C library" {
	compare io aio -l -w mixed -r 'stdio|peer-dropped'
}
