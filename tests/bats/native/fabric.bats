#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# sockrail check and sockrail-stat where there is RDMA hardware, as sysfs shows it.

# shellcheck disable=SC2154 # set by bats and by what is loaded
load ../../lib/common
load ../../lib/told

setup() {
	unset "${!SOCKRAIL_@}" LD_PRELOAD
	unshare -rmn sh -c 'ip link add veth7 type veth peer name veth8 &&
		mount -t tmpfs none /sys/class' || skip "no namespaces for this user"
}

# in_fabric: what is on standard input, in bash, with the functions of tests/lib/fabric.bash
in_fabric() {
	{ echo "set -e; . $SR_TOP/tests/lib/fabric.bash"; cat; } >"$BATS_TEST_TMPDIR/script"
	STAT=$SR_BUILD/sockrail-stat run --separate-stderr unshare -rmn \
		bash "$BATS_TEST_TMPDIR/script"
}

@test "the way to a peer: IPoIB, its child, a bond, a VLAN, a macvlan, siw, rxe" {
	local way
	export WAYS="ib0,10.99.1.1,mlx5_0 ib0.8001,10.99.2.1,mlx5_0 bond1,10.99.3.1,mlx5_0
		eth0,10.99.4.1,mlx5_1 eth0.100,10.99.5.1,mlx5_1 mac0,10.99.6.1,mlx5_1
		bond0,10.99.7.1,mlx5_bond_0 eth2,10.99.8.1,siw0 eth3,10.99.9.1,rxe0
		eth4,10.99.10.1,none"
	in_fabric <<-"EOF"
		for i in $WAYS; do
			IFS=, read -r name address device <<<"$i"
			netdev "$name" "$address"
		done
		fabric
		device mlx5_0 "1: CA" InfiniBand
		gid fe80:0000:0000:0000:0002:c903:00bf:4f01
		gid 0000:0000:0000:0000:0000:0000:0000:0000
		hardware ib0 80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:bf:4f:01
		hardware ib0.8001 80:00:02:09:fe:80:00:00:00:00:00:00:00:02:c9:03:00:bf:4f:01
		hardware bond1 80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:bf:4f:01
		hardware ib7 80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:bf:4f:02
		device mlx5_1 "1: CA" Ethernet
		gid fe80:0000:0000:0000:0e42:a1ff:fe00:0001 "IB/RoCE v1" eth0
		gid fe80:0000:0000:0000:0e42:a1ff:fe00:0001 "RoCE v2" eth0
		gid 0000:0000:0000:0000:0000:ffff:0a63:0501 "RoCE v2" eth0.100
		gid 0000:0000:0000:0000:0000:ffff:0a63:0601 "RoCE v2" mac0
		device mlx5_bond_0 "1: CA" Ethernet
		gid 0000:0000:0000:0000:0000:ffff:0a63:0701 "RoCE v2" bond0
		device siw0 "4: RNIC" Ethernet
		gid 0e42:a100:0002:0000:0000:0000:0000:0000
		hardware eth2 0e:42:a1:00:00:02
		hardware lo 00:00:00:00:00:00
		device rxe0 "1: CA" Ethernet
		gid 0000:0000:0000:0000:0000:ffff:0a63:0901 "RoCE v2" eth3
		device efa_0 "7: unspecified" Unspecified
		gid fe80:0000:0000:0000:0e42:a1ff:fe00:0009
		device usnic_0 "6: usNIC UDP" Ethernet
		for i in $WAYS; do
			IFS=, read -r name address device <<<"$i"
			"$SOCKRAIL" check --json --no-streams "${address%.*}.9:7" || :
		done
	EOF
	told ok "device mlx5_0, port 1" "InfiniBand, network device bond1, ib0, ib0.8001,"
	told ok "device mlx5_1, port 1" "network device eth0, eth0.100, mac0, 4 addresses"
	told warning "device efa_0, port 1" "not used"
	told warning "device usnic_0, port 1" "not used"
	for way in $WAYS; do
		IFS=, read -r name address device <<<"$way"
		if [ "$device" = none ]; then
			told problem route "to ${address%.*}.9 by $name, which belongs to no RDMA device"
		else
			told ok route "to ${address%.*}.9 by $name, a network device of $device"
		fi
	done
}

@test "cards: rate, firmware, NUMA node, kinds of address, class, states, port mapper" {
	in_fabric <<-"EOF"
		fabric
		device roce "1: CA" Ethernet
		card MT4129 28.39.3004 1
		gid fe80:0000:0000:0000:0e42:a1ff:fe00:0001 "IB/RoCE v1" eth0
		gid fe80:0000:0000:0000:0e42:a1ff:fe00:0001 "RoCE v2" eth0
		default tos 106
		default mode "IB/RoCE v1"
		device v1 "1: CA" Ethernet
		card MT4099 2.42.5000 -1
		gid fe80:0000:0000:0000:0e42:a1ff:fe00:0002 "IB/RoCE v1" eth1
		device lane "1: CA" InfiniBand "4: ACTIVE" "25 Gb/sec (1X EDR)"
		card MT4123 20.39.1002 0
		gid fe80:0000:0000:0000:0002:c903:00bf:4f01
		device nosm "1: CA" InfiniBand "2: INIT"
		gid fe80:0000:0000:0000:0002:c903:00bf:4f02
		device cable "1: CA" InfiniBand "1: DOWN"
		gid fe80:0000:0000:0000:0002:c903:00bf:4f03
		echo "2: Polling" >"$port/phys_state"
		device chelsio "4: RNIC" Ethernet
		card T62100 1.27.1.0 0
		gid 0e42:a100:0002:0000:0000:0000:0000:0000
		device rxe0 "1: CA" Ethernet "4: ACTIVE" "2.5 Gb/sec (1X SDR)"
		gid fe80:0000:0000:0000:0e42:a1ff:fe00:0003 "RoCE v2" eth2
		ulimit -l 1024
		"$SOCKRAIL" check --json --no-streams
	EOF
	told ok "device roce, port 1" \
		"4: ACTIVE, RoCE v1 and v2, network device eth0, 2 addresses, 100 Gb/sec (4X EDR)"
	told problem "device roce" "MT4129, firmware 28.39.3004, NUMA node 1, libibverbs has no driver"
	told ok "traffic class, roce port 1" "106 (DSCP 26); the driver does not report PFC"
	told warning "device roce, port 1" "asks by RoCE v1" timeout
	told problem "device v1" "MT4099, firmware 2.42.5000, libibverbs"
	told warning "device v1, port 1" "addresses of RoCE v1 only" timeout
	told warning "device lane, port 1" "modprobe ib_ipoib" no-device
	told warning "device lane, port 1" "one lane of its cable: 25 Gb/sec (1X EDR)"
	told problem "device nosm, port 1" "start one (opensm" no-device
	told problem "device cable, port 1" "check the cable" no-device
	told warning "port mapper" "systemctl enable --now iwpmd"
	told ok "device rxe0, port 1" "RoCE v2, network device eth2, 1 addresses"
	told warning "locked memory" "about 15 queue pairs" memlock # 48 and 20 kB each
	untold ok "device rxe0, port 1" "2.5 Gb/sec"
	untold ok "traffic class, rxe0 port 1" ""
}

@test "check: counters that grow while it measures, and what to do" {
	in_fabric <<-"EOF"
		ip link set lo up
		fabric
		device quiet "1: CA" Ethernet
		counter rnr_nak_retry_err 12
		counter symbol_error 3 counters
		"$SOCKRAIL" check --json || :
		device mlx5_0 "1: CA" Ethernet
		counter local_ack_timeout_err 5
		grow packet_seq_err
		grow np_cnp_sent
		"$SOCKRAIL" check --json || :
		kill $growing
	EOF
	told ok counters "none that tells of trouble has grown"
	told warning "counters, mlx5_0 port 1" "sent again (packet_seq_err by "
	told ok "counters, mlx5_0 port 1" "the network is congested, and senders were told to slow"
	untold warning "counters, mlx5_0 port 1" local_ack_timeout_err
	untold warning "counters, quiet port 1" ""
}

@test "sockrail-stat --devices: what has counted, what it tells of, and live" {
	in_fabric <<-"EOF"
		fabric
		device mlx5_0 "1: CA" Ethernet
		counter packet_seq_err 1234567
		counter local_ack_timeout_err 0
		counter port_xmit_discards 9 counters
		device new "1: CA" InfiniBand
		counter rnr_nak_retry_err 0
		device siw0 "4: RNIC" Ethernet
		"$STAT" --devices
		echo ALL
		"$STAT" --devices --all --no-header
		device zlive "1: CA" Ethernet
		grow out_of_sequence
		timeout 20 "$STAT" --devices --watch=0.5 | grep -m 1 "zlive:1 .* [1-9][0-9]* *lost"
		kill $growing
		"$STAT" --devices dport = :80 2>&1 || echo "status $?"
	EOF
	echo "$output"
	[[ $output = *"mlx5_0:1 "*packet_seq_err*1.23M*lost*"mlx5_0:1 "*port_xmit_discards*9*cable* ]]
	[[ $output = *"new:1           all 1 counters are 0"*"siw0:1          its driver counts nothing"* ]]
	[[ $output = *"lost       packets were lost"*ALL*local_ack_timeout_err*" 0 "*late* ]]
	[[ $output = *"zlive:1 "*"do not go together"*"status 2"* ]]
}
