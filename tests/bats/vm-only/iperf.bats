#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# iperf3 and iperf as Debian ships them, over a queue pair; and with one side plain.

# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # set here, used there
load ../../lib/common
load ../../lib/real

setup() {
	t=$BATS_TEST_TMPDIR
	port
}

# iperf closes its streams with bytes under way
iperf_setup() {
	need "$1"
	slack=2
}

teardown() { stop_all; }

both="wait:wait none:wait wait:none lazy:lazy"

# ------------------------------------------------------------------ iperf3

# one server, one client with $options; it says how much it moved
lazy_seconds=10
iperf3_run() {
	# Many megabytes may be gone before a lazy stream has its link.
	[ "$client" != lazy ] ||
		options=("${options[@]/-n/-t}") options=("${options[@]/%[0-9]*M/$lazy_seconds}")
	start server as server iperf3 -s -1 -B "$ADDR" -p "$port"
	listening "$port" || return
	as client timeout 150 iperf3 -c "$ADDR" -p "$port" -J "${options[@]}" >"$t/client.out" || return
	await || return
	! grep -q '"error"' "$t/client.out" || return
	result=$(grep -c '"local_port"' "$t/client.out")
	moved=$(awk '/"sum_received"/ { f = 1 } f && /"bytes"/ { gsub(/[^0-9]/, ""); print; exit }' "$t/client.out")
	[ "$moved" -gt 0 ]
}

@test "iperf3" {
	iperf_setup iperf3
	options=(-n 32M)
	each_way 33554432 iperf3_run
}

@test "iperf3 -R" {
	in_full
	iperf_setup iperf3
	options=(-R -n 32M)
	each_way 33554432 iperf3_run
}

# Its last command, with time for the device of an emulated machine.
@test "the first hour on hardware ends with status 0" {
	iperf_setup iperf3
	local -x SOCKRAIL_LINKS=verbs SOCKRAIL_UPGRADE_WAIT_MS=60000 SOCKRAIL_ANSWER_MS=60000
	start server "$SOCKRAIL" -s upgrade=wait iperf3 -s -1 -B "$ADDR" -p "$port"
	listening "$port"
	"$SOCKRAIL" --require=verbs iperf3 -R -c "$ADDR" -p "$port" -t 2
	await
}

@test "iperf3 --bidir" {
	in_full
	iperf_setup iperf3
	options=(--bidir -n 16M)
	# It ends when the first direction has its bytes, with others under way.
	slack=40
	each_way 16777216 iperf3_run "$both"
}

@test "iperf3 -P 4" {
	iperf_setup iperf3
	options=(-P 4 -n 8M)
	slack=15
	each_way 8388608 iperf3_run "wait:wait lazy:lazy"
	# Over TCP much may be under way when it counts itself done.
	options=(-P 4 -n 8M)
	each_way 4000000 iperf3_run "none:wait wait:none"
}

@test "iperf3 -l 64" {
	iperf_setup iperf3
	# More than TCP's buffers take, or the server may be told of the end before it
	# has counted a byte.
	options=(-l 64 -n 4M)
	# The server closes with bytes under way; and most may be through before there is
	# a link.
	slack=40 lazy_share=1 lazy_seconds=10
	each_way 4194304 iperf3_run "wait:wait lazy:lazy"
	# over TCP it may count itself done earlier
	options=(-l 64 -n 4M)
	each_way 100000 iperf3_run "none:wait wait:none"
}

@test "iperf3 -t" {
	in_full
	iperf_setup iperf3
	options=(-t 2)
	slack=40 # the server closes with bytes under way
	each_way 2000000 iperf3_run "$both"
	[ "$moved" -gt 2000000 ]
}

# ----------------------------------------------------------------- iperf 2

# Once more if it fails: iperf 2.1.8's server frees the report of a group as soon as
# all its threads that have begun are through, although a connection that was accepted
# may still want it.  (Over plain TCP, too: with one thread begun 0.3 s late it
# corrupts its heap.)  The faster the transfers, the likelier.
iperf_run() {
	iperf_once || { stop_all && rm -f "$t"/*.report "$t"/*.log && iperf_once; }
}

iperf_once() {
	[ "$client" != lazy ] || options=("${options[@]/-n/-t}") options=("${options[@]/%[0-9]M/10}")
	start server as server iperf -s -B "$ADDR" -p "$port"
	listening "$port" || return
	as client timeout 100 iperf -c "$ADDR" -p "$port" "${options[@]}" >"$t/client.out" 2>&1 || return
	stop_all
	! grep -qiE 'error|fail|refused' "$t/client.out" && grep -q Bytes "$t/client.out" || return
	result=$(grep -c 'connected with' "$t/client.out")
}

@test "iperf -P 4" {
	in_full
	iperf_setup iperf
	options=(-P 4 -n 12M)
	each_way 50331648 iperf_run "$both"
}

@test "iperf -d" {
	in_full
	iperf_setup iperf
	options=(-d -n 8M -L $((port + 1)))
	lazy_share=2 # one of the two streams asks before its peer listens
	each_way 8388608 iperf_run "$both"
}
