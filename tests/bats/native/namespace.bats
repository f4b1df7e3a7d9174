#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Containers: the shared memory link between namespaces, where they share the
# network; TCP where they do not.  Each transfer runs over plain TCP first.

# shellcheck disable=SC2034,SC2154 # read by what is loaded, set there
load ../../lib/common

setup() {
	[ "$(id -u)" = 0 ] || skip "needs root"
	need unshare ip openssl
	t=$BATS_TEST_TMPDIR
	SR_TEST_LINK=shm
	head -c 3000000 /dev/urandom >"$t/data"
	host=127.0.0.1
	into=() outof=() look=()
	port
}

teardown() {
	stop_all
	[ -z "${net:-}" ] || ip netns del "$net" 2>/dev/null || true
}

# transfer plain|rail: the server in ${into[@]}, the client in ${outof[@]}; ${look[@]}:
# the server's network
transfer() {
	rm -f "$t"/*.report
	REPORT=$t/server.report start server "$1" "${into[@]}" \
		timeout 20 nc -N -l "$host" "$port"
	for _ in {1..100}; do
		[ -z "$("${look[@]}" ss -Hltn "sport = :$port")" ] || break
		sleep 0.05
	done
	REPORT=$t/client.report "$1" "${outof[@]}" timeout 20 nc -N "$host" "$port" <"$t/data"
	await
	cmp "$t/data" "$t/server.out"
}

linked() {
	transfer plain
	port
	transfer rail
	[ "$(went tx_shm "$t/client.report")" -eq 3000000 ]
	[ "$(went rx_shm "$t/server.report")" -eq 3000000 ]
	[ "$(went tx_plain "$t/client.report")" -eq 0 ]
}

@test "mount, PID, IPC and UTS namespaces" {
	into=(unshare --mount --pid --fork --mount-proc --ipc --uts)
	linked
	into=() outof=(unshare --mount --pid --fork --mount-proc --ipc --uts)
	linked
}

@test "a user namespace with the same user" {
	unshare --user --map-root-user true 2>/dev/null || skip "no user namespaces here"
	into=(unshare --user --map-root-user --pid --fork)
	linked
	into=() outof=(unshare --user --map-root-user --pid --fork)
	linked
}

@test "a user namespace that maps nobody: TCP, and the reason" {
	unshare --user true 2>/dev/null || skip "no user namespaces here"
	into=(unshare --user)
	transfer plain
	port
	transfer rail
	[ "$(went tx_plain "$t/client.report")" -eq 3000000 ]
	grep -q '"reason": *"user"' "$t/client.report"
}

@test "another network namespace on this host: TCP, and the reason" {
	net=sockrail$$
	ip netns add "$net"
	ip link add "sr$$" type veth peer name eth0 netns "$net" || skip "no veth here"
	ip addr add 10.213.77.1/30 dev "sr$$"
	ip link set "sr$$" up
	ip -n "$net" addr add 10.213.77.2/30 dev eth0
	ip -n "$net" link set eth0 up
	host=10.213.77.2
	into=(ip netns exec "$net")
	look=(ip netns exec "$net")
	transfer plain
	port
	transfer rail
	[ "$(went tx_plain "$t/client.report")" -eq 3000000 ]
	grep -q '"reason": *"off"' "$t/client.report"
	grep -q '"reason": *"not-asked"' "$t/server.report"
}

@test "a PID namespace where memory may not be executed" {
	local n
	[ -e /proc/sys/vm/memfd_noexec ] || skip "this kernel has no vm.memfd_noexec"
	for n in 1 2; do
		# shellcheck disable=SC2016 # for the shell in there
		outof=(unshare --pid --fork --mount-proc
			sh -c 'echo "$0" >/proc/sys/vm/memfd_noexec && exec "$@"' "$n")
		linked
	done
}
