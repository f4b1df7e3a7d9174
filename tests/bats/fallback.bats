#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Wherever no link can be had the program runs as over TCP, without delay, and
# the report names the reason.  (What needs an RDMA device is in vm-only.)

# shellcheck disable=SC2154 # set by what is loaded
load ../lib/common
load ../lib/case

teardown() { stop_all; }

# falls_back SERVER CLIENT REASON [SOCKRAIL_NAME=VALUE...]: policies as in pair
falls_back() {
	local dir=$BATS_TEST_TMPDIR/fall.$RANDOM server=$1 client=$2 reason=$3
	shift 3
	pair "$dir.tcp" none none basic chat
	pair "$dir" "$server" "$client" basic chat "$@"
	same "$dir" "$dir.tcp"
	report=$(cat "$dir"/*.report)
	[ "$(went tx_verbs "$dir"/*.report)" = 0 ]
	[ "$(went tx_shm "$dir"/*.report)" = 0 ]
	[ "$(went tx_plain "$dir"/*.report)" -gt 100000 ]
	! grep -qvE "\"reason\": *\"($reason)\"" <<<"$report" || {
		echo "not $reason: $report" >&2
		tail -n 20 "$dir"/*.log >&2
		return 1
	}
}

@test "no RDMA device" {
	falls_back wait wait 'no-device|no-library' \
		SOCKRAIL_LINKS=verbs SOCKRAIL_DEVICE=none0
}

@test "a plain server, and a plain client" {
	falls_back none wait no-listener
	falls_back wait none not-asked
	# lazy: it may be over before the last answer
	falls_back none lazy 'no-listener|timeout'
	falls_back lazy none not-asked
}

# greet: a word over TCP, to a server run by "${there[@]}", from a client by "${here[@]}"
there=() here=()
greet() {
	t=$BATS_TEST_TMPDIR
	port
	REPORT=$t/server.report start server rail timeout 100 "${there[@]}" \
		nc -N -l "$ADDR" "$port"
	listening "$port"
	echo hello | REPORT=$t/client.report rail timeout 100 "${here[@]}" nc -N "$ADDR" "$port"
	await
	[ "$(cat "$t/server.out")" = hello ]
}

@test "the two ends know no common kind of link" {
	there=(env SOCKRAIL_LINKS=none)
	greet
	grep '"reason": *"no-listener"' "$t/client.report"
}

@test "the limit on the memory of rings: streams above it stay plain" {
	local dir=$BATS_TEST_TMPDIR/memory
	pair "$dir.tcp" none none thread echo64
	pair "$dir" wait wait thread echo64 SOCKRAIL_MEMORY=512k \
		SOCKRAIL_UPGRADE_WAIT_MS=20000
	same "$dir" "$dir.tcp"
	[ "$(wc -l <"$dir/client.report")" = 64 ]
	grep '"reason": *"memory"' "$dir/client.report"
}

# "${limited[@]}" N COMMAND...: with that many descriptors, and none but the first three
# inherited.  Half of the limit is all that the library takes.
# shellcheck disable=SC2016 # for that bash
limited=(bash -c 'for i in {3..30}; do eval "exec $i>&-"; done; ulimit -n "$1"; exec "${@:2}"' -)

@test "the limit on descriptors: no link" {
	[ "$SR_TEST_LINK" = shm ] || skip "only shared memory needs descriptors for a stream"
	here=(prlimit --nofile=11:11)
	greet
	grep '"reason": *"descriptors"' "$t/client.report"
	grep '"reason": *"not-asked"' "$t/server.report"
}

@test "the limit on descriptors: no link, as the server says" {
	[ "$SR_TEST_LINK" = shm ] || skip "only shared memory needs descriptors for a stream"
	there=("${limited[@]}" 16)
	greet
	grep '"reason": *"descriptors"' "$t/client.report"
}

@test "the limit on descriptors: none for the service thread" {
	[ "$SR_TEST_LINK" = shm ] || skip "for shared memory only"
	there=("${limited[@]}" 6) here=("${limited[@]}" 6)
	greet
	grep '"reason": *"descriptors"' "$t/client.report"
	grep '"reason": *"descriptors"' "$t/server.report"
}

@test "forty short streams to a plain server: it is asked once, and left alone" {
	local dir=$BATS_TEST_TMPDIR/plain
	pair "$dir.tcp" none none basic series
	pair "$dir" none wait basic series
	same "$dir" "$dir.tcp"
	[ "$(grep -c 'asks for a link' "$dir/client.log")" -eq 1 ]
	pair "$dir.lazy" none lazy basic series
	same "$dir.lazy" "$dir.tcp"
	: >>"$dir.lazy/client.log"
	[ "$(grep -c 'asks for a link' "$dir.lazy/client.log")" -le 1 ]
}
