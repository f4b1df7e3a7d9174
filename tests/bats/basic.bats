#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Bytes both ways: sizes, directions, half close.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "echo of 29 sizes, 1 byte to 1 MB" {
	compare basic echo
}

@test "echo of 10 MB in one piece" {
	compare basic big
}

@test "download: the server sends all" {
	compare basic download
}

@test "upload: the client sends all" {
	compare basic upload
}

@test "the server speaks first" {
	compare basic greeting -w mixed
}

@test "half close, client first" {
	compare basic half-close-client
}

@test "half close, server first" {
	compare basic half-close-server
}

@test "the client exits with the last byte of the answer" {
	compare basic last-byte
}

@test "both directions at once, a thread for each" {
	compare basic duplex
}

@test "the same, without a word before" {
	# The server may have sent all of it before there is a link, and drops that.
	compare basic rush -w mixed -r peer-dropped
}

@test "requests and answers of random sizes in turn" {
	compare basic chat
}

@test "5000 writes of one byte" {
	compare basic crumbs
}

@test "a reader that lets everything fill up" {
	compare basic slow-reader -w mixed -r unread\|peer-dropped
}

@test "40 short streams in a row" {
	compare basic series -n 40
}

@test "streams with data wait in the accept queue" {
	compare basic backlog -w some -n 7 SOCKRAIL_ANSWER_MS=600
}

@test "140 streams that ask at one time" {
	[ "$SR_TEST_LINK" = shm ] || skip "so many queue pairs take the virtual machine minutes"
	not_in_valgrind "is too slow for so many links within a second"
	compare basic crowd -n 141
}

@test "the smallest rings" {
	compare basic duplex SOCKRAIL_RING=4k:4k
}

@test "IPv6" {
	compare basic chat -a "$ADDR6"
}

@test "a request and its answer in turns, both ends in epoll sets" {
	compare epoll_loop turns
}

@test "listen on a connected socket" {
	compare basic refused -n 20 -w some -r 'option|peer-dropped'
}
