# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Pods of one host: network namespaces on a bridge, and a directory that all of them see.  After
# common.bash.

# shellcheck disable=SC2034,SC2154 # of the tests

# pods_up: pod 1 and pod 2, $pod_of_servers and $pod_of_clients before what runs in them, and
# $dir
pods_up() {
	[ "$(id -u)" = 0 ] || skip "needs root"
	need ip unshare python3
	t=$BATS_TEST_TMPDIR
	bridge=srb$$ pods=()
	ip link add "$bridge" type bridge || skip "no bridge here"
	ip link set "$bridge" up
	pod 1
	pod 2
	pod_of_servers=(ip netns exec "sr1-$$")
	pod_of_clients=(ip netns exec "sr2-$$")
	dir=$(mktemp -d /tmp/sr.XXXXXX)
	chmod 1777 "$dir"
}

pods_down() {
	local n
	stop_all
	for n in "${pods[@]}"; do ip netns del "$n"; done
	[ -z "${bridge:-}" ] || ip link del "$bridge" 2>/dev/null || true
	rm -rf "${dir:-/nonexistent}" "${other:-/nonexistent}"
}

# pod N: a network namespace with the address 10.213.99.N
pod() {
	local n=sr$1-$$
	ip netns add "$n"
	pods+=("$n")
	ip link add "sr$1.$$" type veth peer name eth0 netns "$n" || skip "no veth here"
	ip link set "sr$1.$$" master "$bridge" up
	ip -n "$n" addr add "10.213.99.$1/24" dev eth0
	ip -n "$n" link set eth0 up
	ip -n "$n" link set lo up
}

# serves POD [PORT]: does somebody listen there?
serves() { ip netns exec "sr$1-$$" ss -Hltn "sport = :${2:-$port}" | grep .; }
