#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Addresses that are no memory of the program's.

load ../lib/common
load ../lib/case

setup() {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "the sanitizers look at what is pointed to"
}

teardown() { stop_all; }

# -l: what a call has taken that fails then, nobody has counted.

@test "bad pointers, to a stream that stays plain: EFAULT" {
	compare pointer plain -m "client server nodevice" -r option -w plain -l
}

@test "bad pointers, without any kind of link: EFAULT" {
	compare pointer never -m "client server" -r "off|option" -w plain -l SOCKRAIL_LINKS=none
}

@test "bad pointers, to a listener and other sockets: EFAULT" {
	compare pointer other -l
}
