#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Options, ioctls, names, and calls that must fail.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "SO_RCVTIMEO and SO_SNDTIMEO" {
	compare option timeouts
}

@test "SO_RCVLOWAT" {
	compare option lowat
}

@test "SO_RCVLOWAT, awake for each message" {
	compare option lowat SOCKRAIL_SPIN_US=50000
}

@test "SO_RCVLOWAT: asleep with bytes there while the link is made" {
	compare option asleep -L -w mixed
}

@test "FIONREAD and SIOCOUTQ" {
	compare option queues
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

@test "sockets of other kinds are left alone" {
	compare option others
}

@test "SO_RCVTIMEO below 0" {
	compare option timeo-below
}

@test "SO_RCVLOWAT beyond what a link holds" {
	compare option lowat-large -w any
}

@test "connect(AF_UNSPEC), and connected anew" {
	compare option dissolve -w any -n 2 -c 1
}

@test "lengths beyond an ssize_t" {
	compare option lengths
}
