#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Options, ioctls, names, and calls that must fail.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "SO_RCVTIMEO and SO_SNDTIMEO" {
	compare option timeouts
}

@test "options are as the program set them" {
	compare option options
}

@test "O_NONBLOCK and FD_CLOEXEC on a stream in use" {
	compare option modes
}

@test "getsockname and getpeername" {
	compare option names
}

@test "MSG_OOB: the stream becomes plain and the byte arrives" {
	compare option oob -w mixed -r 'option|peer-dropped'
}

@test "calls that must fail do, with the kernel's errno" {
	compare option errors -w mixed -r 'option|peer-dropped'
}

@test "an address or a value that is no memory: EFAULT, and the stream keeps its link" {
	compare option fault
}

@test "sockets of other kinds are left alone" {
	compare option others
}

@test "SO_RCVTIMEO below 0" {
	compare option timeo-below -w mixed -r 'option|peer-dropped'
}

@test "connect(AF_UNSPEC), and connected anew" {
	compare option dissolve -w some -n 2 -c 1
}

@test "lengths beyond an ssize_t" {
	compare option lengths
}

@test "O_ASYNC: SIGIO comes from TCP" {
	needs_signals
	compare option async -w mixed -r 'option|peer-dropped'
	compare option fioasync -w mixed -r 'option|peer-dropped'
}

@test "options of a listener are those of what it accepts" {
	compare option inherit -n 3 -w some
}

@test "SO_TIMESTAMP, set on a listener" {
	compare option stamps -n 2 -w some
}
