#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Two hosts, and at a random moment one of them loses its device, its interface, or packets
# (tests/faults/fabric), while bytes go both ways: rounds of each kind, 200 in all in
# tests/check full.  Each byte has to arrive, as it does over TCP, and to have begun by link.

# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # set here, used there
load ../../lib/common
load ../../lib/real
load ../../lib/hosts

megabytes=12

# exchange: each end sends a file and keeps what it gets.  (Not by nc: its listening end
# stops sending when it has read all.)
exchange() {
	rm -f "$t"/*.report "$t/got" "$out"
	remote "socat -t 60 - TCP4-LISTEN:$port,bind=$RDMA_PEER_ADDR <$shared/b >$out" || return
	as client timeout 100 socat -t 60 - "TCP4:$RDMA_PEER_ADDR:$port" <"$t/a" >"$t/got" 3>&- &
	cpid=$!
	sr_started+=("$cpid")
}

exchanged() {
	wait "$cpid" && await 60 && cmp "$t/a" "$out" && cmp "$shared/b" "$t/got"
}

# strike KIND N: here or there, when some of the bytes have come.  False: all is over already.
strike() {
	local fabric="$SR_TOP/tests/faults/fabric strike $1 $2"
	local env="RDMA_DEV=$RDMA_DEV RDMA_NETDEV=$RDMA_NETDEV RDMA_ADDR=$RDMA_PEER_ADDR RDMA_PEER_ADDR=$RDMA_ADDR"
	until [ "$(stat -c %s "$t/got")" -ge $(($2 % 6000 * 1000)) ]; do
		kill -0 "$cpid" 2>/dev/null || return
	done
	if (($2 % 2)); then $fabric; else peer "$env $fabric"; fi || return
	struck=$((struck + 1))
}

# rounds KIND
rounds() {
	need socat openssl
	local rounds i seed linked=0 struck=0 reasons='' policies=(wait eager lazy)
	fabric_rounds "$1" 3
	random "$t/a" "$megabytes"
	random "$shared/b" "$megabytes"
	server=none client=none exchange
	exchanged
	for ((i = 0; i < rounds; i++)); do
		seed=$RANDOM
		server=${policies[i % 3]} client=${policies[i % 3]}
		port
		out=$shared/out.$port
		exchange
		strike "$1" "$seed" || true
		exchanged || {
			echo "round $i of $rounds, $server, seed $seed"
			tail -n 20 "$t"/*.report "$t"/*.log "$shared/report.$port"
			return 1
		}
		if [ "$(by_link)" -gt 100000 ]; then
			linked=$((linked + 1))
		else
			reasons+=", $server: $(grep -ho '"reason":"[a-z-]*"' "$t"/*.report)"
		fi
		rm -f "$out"
		device_up
		there device_up
	done
	echo "# $1: $rounds rounds, $linked with a link, $struck struck$reasons" >&3
	[ "$linked" -ge $((rounds / 2)) ] && [ "$struck" -ge $((rounds / 2)) ]
}

@test "two hosts: the interface goes down and comes up" { rounds link-down; }
@test "two hosts: the device is deleted and made anew" { rounds device-deleted; }
@test "two hosts: packets are lost" { rounds loss; }
@test "two hosts: packets are late" { rounds delay; }
@test "two hosts: packets overtake each other" { rounds reordering; }
@test "two hosts: packets come twice" { rounds duplication; }
