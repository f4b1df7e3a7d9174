#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# sockrail check where there is an RDMA device.

# shellcheck disable=SC2154 # set by bats and by what is loaded
load ../../lib/common

setup() {
	unset "${!SOCKRAIL_@}" LD_PRELOAD
	[ "${RDMA_DEV:-none}" != none ] || skip "no RDMA device"
}

teardown() { stop_all; }

# told TEXT...: is each of them in the output, but for how lines are broken?
told() {
	local flat text
	flat=$(tr -s ' \n' ' ' <<<"$output")
	for text; do
		[[ $flat = *"$text"* ]] || { echo "not told: $text" "$output"; return 1; }
	done
}

@test "the device, and a measurement over it" {
	run -0 "$SOCKRAIL" check
	told "ok RDMA libraries:" "ok connection manager:" "ok device $RDMA_DEV, port 1: 4: ACTIVE" \
		"network device $RDMA_NETDEV" "by shm" "by verbs:$RDMA_DEV"
}

@test "a server by the device's address: the way, its Sockrail, a measurement" {
	port
	start serve "$SOCKRAIL" check --serve "$port"
	listening "$port"
	SOCKRAIL_LINKS=verbs run -0 "$SOCKRAIL" check "$RDMA_ADDR:$port"
	told "has a link by verbs:$RDMA_DEV" "measured: TCP" "by verbs:$RDMA_DEV"
	[[ $RDMA_DEV = siw* ]] || told "packets of full length pass both ways"
	# Another host's address, and a device that is none of this host's
	SOCKRAIL_DEVICE=nosuch run "$SOCKRAIL" check -n "${RDMA_ADDR%.*}.77:$port"
	[ "$status" = 1 ]
	told "problem route:" "SOCKRAIL_DEVICE allows" "Reason in reports: no-device"
	run "$SOCKRAIL" check -n "${RDMA_ADDR%.*}.77:$port"
	told "ok route: to ${RDMA_ADDR%.*}.77 by $RDMA_NETDEV, a network device of $RDMA_DEV"
}

@test "no locked memory: a problem, and the reason word" {
	need setpriv prlimit
	run -1 setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock \
		prlimit --memlock=4096 "$SOCKRAIL" check
	told "problem locked memory: 4 kB" "by TCP" "Reason in reports: memlock"
}

@test "a unit that hides the device: a problem" {
	printf '[Service]\nExecStart=/bin/ls\nPrivateDevices=yes\n' >"$BATS_TEST_TMPDIR/a.service"
	run -1 "$SOCKRAIL" check -n --unit a --unit-path "$BATS_TEST_TMPDIR"
	told "problem PrivateDevices=:" "Drop-in: PrivateDevices=no"
}
