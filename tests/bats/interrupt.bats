#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Signals while a call sleeps, call by call.

load ../lib/common
load ../lib/case

setup() {
	needs_signals
}

teardown() { stop_all; }

@test "a signal during each call that receives" {
	compare interrupt receive -n 2
}

@test "the same where something had come" {
	compare interrupt receive-more -n 2
}

@test "a signal during each call that sends" {
	compare interrupt send -n 2
}

@test "the same where some was sent" {
	compare interrupt send-much -n 2
}

@test "a signal anywhere in a long call that sends" {
	compare interrupt send-through -n 2
}

@test "a signal during each call that waits" {
	compare interrupt wait -n 2
}

@test "a signal during accept" {
	compare interrupt accept -n 4
}

@test "a signal during connect" {
	compare interrupt connect -n 4
}
