#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Random calls on both ends of a connection: each has the result that it has over TCP.

load ../lib/common
load ../lib/case

teardown() { stop_all; }

# calls_are_tcps MODE SEEDS BYTES [late]: the sequences of so many seeds, of which so many
# bytes have to go by the link
calls_are_tcps() {
	local mode=$1 seeds=$2 bytes=$3 tcp=$BATS_TEST_TMPDIR/tcp out=$BATS_TEST_TMPDIR/out
	shift 3
	[[ " $SR_TEST_MODES " = *" $mode "* ]] || skip "for policy $mode"
	plain "$PROGS/calls" "$ADDR" 1 "$seeds" "$@" >"$tcp"
	SOCKRAIL_UPGRADE=$mode SOCKRAIL_UPGRADE_BYTES=2000 \
		rail "$PROGS/calls" "$ADDR" 1 "$seeds" "$@" >"$out" || echo "status $?" >>"$out"
	if ! cmp -s "$tcp" "$out"; then
		diff -U 8 --label "over TCP" --label "$mode" "$tcp" "$out" | head -n 60
		return 1
	fi
	went_by_link "$bytes"
}

@test "random calls, on a link from the first byte on" {
	calls_are_tcps wait 100 200000
}

@test "random calls, while a link is made behind 2000 bytes" {
	calls_are_tcps lazy 60 2000 late
}

@test "random calls, while a link is made at once" {
	calls_are_tcps eager 60 20000 late
}
