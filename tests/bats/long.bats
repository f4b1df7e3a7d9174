#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Single calls that move more than TCP's buffers hold, on streams that get their link
# while the call lasts: what is left of the call goes by the link.  And a client that always
# has bytes unread.

# shellcheck disable=SC2154,SC2034 # set by bats; read by case.bash
bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/case

teardown() { stop_all; }

# moves CASE DIRECTION: of 24 MB, TCP's buffers have some 10.  Over verbs the devices are those
# of an emulated machine, in which a link may be made for a second while the call moves on by
# TCP: there it counts that the direction has switched inside the call.
moves() {
	local dir=$BATS_TEST_TMPDIR/$1.lazy case_steps=('go log handshake done') least=4000000
	[ "$SR_TEST_LINK" = shm ] || least=1
	held "$BATS_TEST_TMPDIR/$1.tcp" none none long_call "$1"
	held "$dir" lazy lazy long_call "$1"
	same "$dir" "$BATS_TEST_TMPDIR/$1.tcp"
	way "$dir" lazy any 1 1 none
	[ "$(went "$2_$SR_TEST_LINK" "$dir/client.report")" -ge "$least" ] && return
	tail -n 20 "$dir"/*.report "$dir"/*.log
	return 1
}

@test "a long send of the end that asks for the link" {
	moves send tx
}

@test "a long sendfile" {
	moves file tx
}

@test "a long sendfile whose peer closes: no signal" {
	compare long_call broken-file -l -m lazy -w mixed
}

@test "a long send of the end that answers" {
	moves answer rx
}

@test "a long receive" {
	moves take rx
}

# The link is made while the server is asleep in its send, with a request unread.  It is
# given up, because the client has to read first; and soon there is another.
@test "a client that has bytes unread soon has another link" {
	local dir=$BATS_TEST_TMPDIR/lazy
	local case_steps=('go log tx is to switch' 'linked log tx on the link')
	held "$BATS_TEST_TMPDIR/tcp" none none long_call ahead
	held "$dir" lazy lazy long_call ahead SOCKRAIL_AGAIN_MS=3600000
	same "$dir" "$BATS_TEST_TMPDIR/tcp"
	way "$dir" lazy any 1 1 none
	grep -E 'has ended: (timeout|peer-dropped)' "$dir/client.log"
	grep 'tx on the link' "$dir/client.log"
}
