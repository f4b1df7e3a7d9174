# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# fabric.bash - RDMA devices as sysfs shows them, for tests: a tree in tmpfs, in namespaces of
# the test's own.  Run by `in_fabric SCRIPT` (fabric.bats): the script makes netdevs, then
# calls fabric, then the others.

# netdev NAME ADDRESS: which exists in this namespace
netdev() {
	ip link add "$1" type veth peer name "p-$1"
	ip addr add "$2/24" dev "$1"
	ip link set "p-$1" up
	ip link set "$1" up
}

# From here on /sys is ours, and knows no netdev.
fabric() {
	mount -t tmpfs none /sys/class
	mkdir -p /sys/class/infiniband /sys/class/net
}

# hardware NETDEV ADDRESS: its hardware address
hardware() {
	mkdir -p "/sys/class/net/$1"
	echo "$2" >"/sys/class/net/$1/address"
}

# device NAME NODE-TYPE LAYER [STATE [RATE]]: with one port
device() {
	port=/sys/class/infiniband/$1/ports/1
	mkdir -p "$port"/{gids,gid_attrs/{types,ndevs},hw_counters,counters}
	echo "$2" >"$port/../../node_type"
	echo "$3" >"$port/link_layer"
	echo "${4:-4: ACTIVE}" >"$port/state"
	echo "${5:-100 Gb/sec (4X EDR)}" >"$port/rate"
}

# gid GID [TYPE [NETDEV]]: one more, of the device made last
gid() {
	local i
	i=$(find "$port/gids" -type f | wc -l)
	echo "$1" >"$port/gids/$i"
	echo "${2:-IB/RoCE v1}" >"$port/gid_attrs/types/$i"
	[ -z "${3:-}" ] || echo "$3" >"$port/gid_attrs/ndevs/$i"
}

# card HCA FIRMWARE NUMA: of the device made last, which is no software then
card() {
	local device=${port%/ports/*}
	mkdir "$device/device"
	echo "$1" >"$device/hca_type"
	echo "$2" >"$device/fw_ver"
	echo "$3" >"$device/device/numa_node"
}

# default ATTRIBUTE VALUE: in configfs, of the device made last
default() {
	local device=${port%/ports/*}
	mountpoint -q /sys/kernel || mount -t tmpfs none /sys/kernel
	device=/sys/kernel/config/rdma_cm/${device##*/}/ports/1
	mkdir -p "$device"
	echo "$2" >"$device/default_roce_$1"
}

# counter NAME VALUE [counters]: of the port made last
counter() { echo "$2" >"$port/${3:-hw_counters}/$1"; }

# grow NAME: a counter that grows all the time, until the script ends
grow() {
	local file=$port/hw_counters/$1 i=1000
	echo $i >"$file"
	while sleep 0.05; do
		i=$((i + 7))
		echo $i >"$file.new"
		mv "$file.new" "$file"
	done &
	growing="${growing:-} $!"
	# shellcheck disable=SC2064,SC2086 # numbers, of now
	trap "kill $growing 2>/dev/null || :" EXIT
}
