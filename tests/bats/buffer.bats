#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# How much is there, how much has room.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "SO_RCVLOWAT" {
	compare buffer lowat
}

@test "SO_RCVLOWAT, awake for each message" {
	compare buffer lowat SOCKRAIL_SPIN_US=50000
}

@test "SO_RCVLOWAT: asleep with bytes there while the link is made" {
	compare buffer asleep -L -w mixed
}

@test "FIONREAD and SIOCOUTQ" {
	compare buffer queues
}

@test "SO_RCVLOWAT beyond what a link holds" {
	compare buffer lowat-large -w any
}

@test "small buffers hold a sender back" {
	compare buffer bounded -w plain -r 'option|not-asked|refused|no-match'
}

@test "sends that may not wait find room" {
	compare buffer hurry -n 60 -w any
}

@test "a first write that may not wait is taken" {
	compare buffer first -m wait
}

@test "SO_RCVLOWAT, lowered while bytes are there" {
	compare buffer lowered
}

@test "a write of more than one call transfers" {
	[ "$SR_TEST_WHERE" != vm ] || skip "2 GB are too many for an emulated CPU"
	compare buffer huge -m "wait eager client"
}
