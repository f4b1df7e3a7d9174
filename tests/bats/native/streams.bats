#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# tests/bench/streams: that its figures are of what they say.

# shellcheck disable=SC2030,SC2031 # $output, which bats sets
load ../../lib/common

streams=$BATS_TEST_DIRNAME/../../bench/streams

setup() { [ -z "${SR_TEST_SANITIZER:-}" ] || skip "no figures with a sanitizer"; }

# figure SCENE DEVICE COLUMN: of the first table in $output
figure() { awk -v s="$1" -v d="$2" -v c="$3" '$1 == s && $2 == d { print $c; exit }' <<<"$output"; }

# between LEAST MOST VALUE
between() { awk -v a="$1" -v b="$2" -v v="$3" 'BEGIN { exit !(v ~ /^[0-9.]+$/ && v >= a && v <= b) }'; }

@test "counts for a message: of the device in memory what it was asked, of TCP who slept" {
	[ -x "$SR_BUILD/tests/bench/scenes_fake" ] || skip "built without verbs"
	run -0 "$streams" --device fake --device tcp --rounds 20 --seconds 0 --streams 0 loop-1 loop-10
	echo "$output"
	for scene in loop-1 loop-10; do
		# requests, posts, events, arms
		for column in 3 4 5 6; do
			between 0.01 10 "$(figure $scene fake $column)"
		done
		between 0 0 "$(figure $scene fake 14)" # all on links
		between 0.8 1.2 "$(figure $scene tcp 14)"
	done
	# One request under way: a message wakes a thread, unless it is late to fall asleep.
	between 0.01 0.6 "$(figure loop-1 tcp 9)"
	between 0.01 2 "$(figure loop-1 fake 9)"
	# It is sent, received and waited for; where threads may be traced.
	calls=$(figure loop-1 tcp 12)
	[ "$calls" = - ] || between 2.5 3.5 "$calls"
}

# idle WAY: reads a row of the table of idle streams in $output
idle() { read -r _ _ _ pinned fds qps _ < <(sed -n '/idle streams/,$p' <<<"$output" | grep "^$1"); }

@test "an idle stream has a descriptor, and on the device more only with a queue pair of its own" {
	[ -x "$SR_BUILD/tests/bench/scenes_fake" ] || skip "built without verbs"
	SOCKRAIL_CARRIERS=1 run -0 "$streams" --device fake --device tcp --rounds 1 --seconds 0 --streams 10 loop-1
	echo "$output"
	idle tcp
	[ "$fds $qps" = "1.00 0.00" ]
	idle fake
	between 1 1.5 "$fds"
	between 0 0.3 "$qps"
	SOCKRAIL_CARRIERS=0 run -0 "$streams" --device fake --rounds 1 --seconds 0 --streams 10 loop-1
	echo "$output"
	idle fake
	between 0.01 1000 "$pinned"
	between 1.5 4 "$fds"
	between 1 1 "$qps"
}

@test "a scene or a device that there is not is refused in a line" {
	run -2 "$streams" nothing
	[ "$output" = "streams: no such scene" ]
	run -2 "$streams" --device nothing
	[ "$output" = "streams: there is no device 'nothing'" ]
}

@test "in time: a round trip, beside bulk, and after the server stood still" {
	run -0 "$streams" --device tcp --device shm --seconds 0.2 --streams 0 paced beside-bulk stopped-0.5
	echo "$output"
	for way in tcp shm; do
		between 0.001 1000000 "$(figure paced $way 4)"
		between 0.001 1000000 "$(figure beside-bulk $way 6)" # beside
		between 0.001 1000000 "$(figure beside-bulk $way 8)" # MB/s
		between 0.001 60000 "$(figure stopped-0.5 $way 6)" # after
	done
}
