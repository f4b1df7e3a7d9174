#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# How much is there, how much has room.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "SO_RCVLOWAT: the stream becomes plain" {
	compare buffer lowat -w mixed -r 'option|peer-dropped'
}

@test "FIONREAD and SIOCOUTQ" {
	compare buffer queues
}

@test "small buffers hold a sender back" {
	compare buffer bounded -w plain -r 'option|not-asked|refused|no-match'
}

@test "sends that may hardly wait find room" {
	compare buffer hurry -n 60 -w some
}

@test "a first write that may not wait is taken" {
	compare buffer first -m wait
}

@test "a write of more than one call transfers" {
	[ "$SR_TEST_WHERE" != vm ] || skip "2 GB are too many for an emulated CPU"
	compare buffer huge -m "wait eager client"
}

@test "small sends that must not block, while a link is made" {
	compare buffer crumbs -n 40 -w some
}

@test "sends that may not wait fill the buffer" {
	compare buffer fill -m "wait eager" SOCKRAIL_RING=64k:64k
}
