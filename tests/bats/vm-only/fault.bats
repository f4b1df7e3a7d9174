#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The device goes away while streams are on it: speed is lost, no byte is.

# shellcheck disable=SC2015,SC2016,SC2030,SC2031,SC2034,SC2154 # A && B || C; set here, used there
load ../../lib/common
load ../../lib/case
load ../../lib/real

setup() {
	t=$BATS_TEST_TMPDIR
	server=wait client=wait
	port
	device_up
}

teardown() {
	stop_all
	device_up
	rm -f "$t"/{a,got} # the machine's disk is its memory
}

device_down() { rdma link delete "$RDMA_DEV"; }

device_up() {
	ip link set "$RDMA_NETDEV" up
	[ -e "/sys/class/infiniband/$RDMA_DEV" ] ||
		rdma link add "$RDMA_DEV" type "${RDMA_DEV%%[0-9]*}" netdev "$RDMA_NETDEV"
	holds 60 grep -q ACTIVE "/sys/class/infiniband/$RDMA_DEV/ports/1/state"
}

# transfer MEGABYTES: from client to server with nc, in the background.  (Not both
# ways at once: a listening nc ends with its peer, whatever it has still to send.)
transfer() {
	random "$t/a" "$1"
	as server timeout 100 nc -d -l "$ADDR" "$port" >"$t/got" 3>&- &
	spid=$!
	listening "$port"
	as client timeout 100 nc -N "$ADDR" "$port" <"$t/a" 3>&- &
	cpid=$!
	sr_started+=("$spid" "$cpid")
}

# moved MEGABYTES: waits until the server has got so much
moved() {
	local i
	for i in {1..600}; do
		[ "$(stat -c %s "$t/got")" -lt $(($1 << 20)) ] || return 0
		sleep 0.05
	done
	echo "only $(stat -c %s "$t/got") bytes after 30 s"
	return 1
}

# all_there: everything arrived, in spite of all
all_there() {
	wait $cpid && wait $spid && cmp "$t/a" "$t/got" ||
		{ tail -n 20 "$t"/*.log "$t"/*.report; return 1; }
}

# used_both_ways: some of the bytes went by the link, and some did not
used_both_ways() {
	local way
	for way in "$SR_TEST_LINK" plain; do
		[ "$(went "tx_$way" "$t/client.report")" -gt 1000000 ] &&
			[ "$(went "rx_$way" "$t/server.report")" -gt 1000000 ] ||
			{ cat "$t"/*.report; return 1; }
	done
}

@test "rdma link delete in mid-transfer" {
	need nc openssl
	transfer 100
	moved 10
	[ "$(qps)" -ge 2 ]
	device_down
	all_there
	used_both_ways
	grep -h '"reason": *"device-failed"' "$t"/*.report
}

@test "rdma link delete, and the device comes back" {
	need nc openssl
	transfer 150
	moved 10
	device_down
	moved 25
	device_up
	all_there
	used_both_ways
	# It serves the next stream as if nothing had happened.
	rm "$t"/*.report
	port
	transfer 1
	all_there
	[ "$(plain_bytes)" = 0 ]
}

@test "the RDMA netdev goes down in mid-transfer" {
	# siw_netdev_down() walks a list whose members go meanwhile (Linux 6.1): an oops
	[ "$SR_TEST_DEVICE" != siw ] || skip "siw's module may crash the kernel"
	need nc openssl
	transfer 60
	moved 10
	ip link set "$RDMA_NETDEV" down
	sleep 1
	ip link set "$RDMA_NETDEV" up
	all_there
	[ "$(went "tx_$SR_TEST_LINK" "$t"/*.report)" -gt 1000000 ]
}

@test "rdma link delete while the stream is idle" {
	need nc
	mkfifo "$t/in"
	exec 7<>"$t/in"
	start server as server timeout 100 nc -N -l "$ADDR" "$port"
	listening "$port"
	as client timeout 100 nc -N "$ADDR" "$port" <"$t/in" >"$t/got" 3>&- 7>&- &
	cpid=$!
	sr_started+=("$cpid")
	echo before >&7
	for _ in {1..100}; do [ ! -s "$t/server.out" ] || break; sleep 0.1; done
	[ "$(<"$t/server.out")" = before ]
	device_down
	sleep 2
	echo after >&7
	for _ in {1..100}; do ! grep -q after "$t/server.out" || break; sleep 0.1; done
	exec 7>&-
	kill "$cpid" 2>/dev/null || true
	[ "$(<"$t/server.out")" = "before
after" ]
}

# between CASE STEP...: the device goes away when the file "gone" is made
between() {
	local c=$1
	shift
	case_steps=('- out got' "$@")
	held "$t/tcp" none none reason "$c"
	(until [ -e "$t/rail/gone" ]; do sleep 0.02; done; device_down) 3>&- &
	sr_started+=("$!")
	held "$t/rail" lazy lazy reason "$c" SOCKRAIL_UPGRADE_BYTES=500k
	# who is told first by the device tells the other end before that is
	same "$t/rail" "$t/tcp" && way "$t/rail" lazy plain 1 1 'device-failed|peer-dropped' &&
		grep -q '"reason": *"device-failed"' "$t/rail"/*.report &&
		[ "$(went tx_verbs "$t/rail"/*.report)" = 0 ] &&
		[ "$(went switches "$t/rail"/*.report)" = 0 ] ||
		{ tail -n 20 "$t/rail"/*.log "$t/rail"/*.report; return 1; }
}

# A send that sleeps in the kernel keeps the client's direction from leaving TCP.
@test "rdma link delete between the handshake and the switch" {
	between asleep 'gone log handshake done' 'go log link .* has ended'
}

# The parent, which accepts nothing, redirects what is asked for to the workers, and has
# no link itself.
@test "rdma link delete under a prefork server, and the device comes back" {
	need python3
	local workers=$SR_TOP/tests/lib/workers.py
	start server as server python3 "$workers" fork 2 0.0.0.0 "$port"
	holds 60 has_lines "$t/server.out" 3
	for _ in 1 2; do
		as client python3 "$workers" client 8 "$ADDR" "$port" </dev/null >"$t/pids"
		[ "$(grep -c '[0-9]' "$t/pids")" -eq 8 ]
		[ "$(went tx_plain "$t/client.report")" = 0 ] # (a worker's pid comes by TCP)
		rm "$t/client.report"
		device_down 3>&- &
		sr_started+=("$!")
		holds 60 test ! -e "/sys/class/infiniband/$RDMA_DEV"
		holds 60 gone "$!"
		device_up
	done
	xargs kill <"$t/server.out"
}

# sixty_four QUEUE-PAIRS: streams at once, and the device goes away when it has so many queue pairs
sixty_four() {
	need python3
	start server as server timeout 100 python3 "$SR_TOP/tests/lib/echo.py" server "$ADDR" "$port" 64
	listening "$port"
	local server_pid=$pid
	as client timeout 100 python3 "$SR_TOP/tests/lib/echo.py" client "$ADDR" "$port" 64 >"$t/client.out" 3>&- &
	cpid=$!
	sr_started+=("$cpid")
	until [ "$(qps)" -ge "$1" ]; do
		kill -0 "$cpid" || { echo "never $1 queue pairs"; return 1; }
		sleep 0.05
	done
	device_down
	wait $cpid
	pid=$server_pid
	await
	grep '^64 ' "$t/client.out"
	[ "$(wc -l <"$t/client.report")" = 64 ]
	grep -q '"reason": *"device-failed"' "$t/client.report"
}

@test "64 streams at once, and the device goes away under them" {
	local -x SOCKRAIL_CARRIERS=0
	sixty_four 20
}

@test "64 streams at once, and the device goes away under the queue pairs that they share" {
	unset SOCKRAIL_CARRIERS
	sixty_four 8
}

@test "the device comes and goes while links are being made" {
	local i mode
	pair "$t/tcp" none none basic series
	for mode in wait eager; do
		for i in 1 2 3; do
			# at another moment of the attaching each time
			(sleep "0.$((i * 2))"; device_down; sleep 0.3; device_up) 3>&- &
			local chaos=$!
			pair "$t/$mode.$i" $mode $mode basic series \
				SOCKRAIL_UPGRADE_WAIT_MS=1000
			wait $chaos
			same "$t/$mode.$i" "$t/tcp" || { tail -n 20 "$t/$mode.$i"/*.log; return 1; }
			[ "$(wc -l <"$t/$mode.$i/client.report")" = 40 ]
		done
	done
}
