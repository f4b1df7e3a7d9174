#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the C library does to descriptors inside its functions, and what goes around us.

# shellcheck disable=SC2154 # set by what is loaded
load ../lib/common
load ../lib/case

teardown() { stop_all; }

# post_switches DIR: notes "1" and "2", when so many switches to a link are over at the client
post_switches() {
	local n
	for n in 1 2; do
		until [ "$(grep -cs 'tx on the link' "$1/client.log")" = "$n" ]; do sleep 0.02; done
		: >"$1/$n"
	done
}

@test "daemon: the stream goes on in the background" {
	compare around daemon -w some -l -s 1 -c 2
}

@test "daemon: the stream gets a link again in the background" {
	local mode dir
	for mode in none wait lazy eager; do
		[[ " none $SR_TEST_MODES " = *" $mode "* ]] || continue
		dir=$BATS_TEST_TMPDIR/$mode
		mkdir -p "$dir"
		if [ "$mode" = none ]; then
			touch "$dir/1" "$dir/2"
		else
			post_switches "$dir" 3>&- &
			sr_started+=($!)
		fi
		pair "$dir" "$mode" "$mode" around daemon-long SOCKRAIL_AGAIN_MS=20
		same "$dir" "$BATS_TEST_TMPDIR/none" || { tail -n 12 "$dir"/*.log; return 1; }
	done
}

@test "daemon: away from terminal and directory" {
	compare around daemon-away -w some -l -s 1 -c 2
}

@test "wordexp runs a command that writes to the stream" {
	compare around wordexp -w some -l
}
