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
	SOCKRAIL=$SOCKRAIL STAT=$STAT run --separate-stderr unshare -rmn \
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
			told problem route "to ${address%.*}.9 by $name, which is of no RDMA device"
		else
			told ok route "to ${address%.*}.9 by $name, a network device of $device"
		fi
	done
}
