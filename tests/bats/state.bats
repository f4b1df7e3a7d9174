#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What getsockopt and ioctl say of a stream agrees with what its calls say.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "TCP_INFO: the states of a stream that ends by halves" {
	compare state half
}

@test "bytes unread, not acknowledged, not sent" {
	compare state queues
}

@test "a second send behind the peer's close fails" {
	[ "$SR_TEST_LINK" = shm ] || skip "other links learn of the close later"
	compare state behind -n 20 -w some -l
	compare state told -w some -l
	compare state deaf -w some -l
}
