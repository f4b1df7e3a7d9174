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
# the server's network.  (The timeout of coreutils 9.10 fails as the first process of a namespace,
# so there is a shell before it.)
transfer() {
	local limited=(sh -c '"$@"; exit' sh timeout 100)
	rm -f "$t"/*.report
	REPORT=$t/server.report start server "$1" "${into[@]}" \
		"${limited[@]}" nc -N -l "$host" "$port"
	for _ in {1..100}; do
		[ -z "$("${look[@]}" ss -Hltn "sport = :$port")" ] || break
		sleep 0.05
	done
	REPORT=$t/client.report "$1" "${outof[@]}" "${limited[@]}" nc -N "$host" "$port" <"$t/data"
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

# argv: ROLE, port, the client's port, the network namespace of the socket; the process
# is in another one
twin='
import ctypes, socket, sys

role, port, own, net = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

def enter(file):
    if ctypes.CDLL(None).setns(file.fileno(), 0):
        raise OSError("setns")

with open("/proc/self/ns/net") as here, open(net) as there:
    enter(there)
    s = socket.socket()
    enter(here)
if role == "server":
    s.bind(("127.0.0.1", port))
    s.listen()
    conn, _ = s.accept()
    conn.sendall(b"+")
    print("accepted", flush=True)
    while data := conn.recv(1000):
        print(data, flush=True)
    print("end", flush=True)
else:
    s.bind(("127.0.0.1", own))
    s.connect(("127.0.0.1", port))
    s.recv(1)
    if role == "talk":
        s.sendall(b"hello")
        s.close()
    else:
        s.recv(1)
'

# shown NAME LINE: once it is in what was started
shown() { holds 60 grep -q "$2" "$t/$1.out" || { tail "$t/$1".*; return 1; }; }

# twins SERVER TALKER: network namespaces of the sockets of the two under Sockrail, which
# are not connected with each other; but each has the addresses of the other's peer
twins() {
	local at=("$port" $((port + 1)))
	REPORT=$t/server.report start server rail python3 -c "$twin" server "${at[@]}" "$1"
	start other python3 -c "$twin" server "${at[@]}" "$2"
	for look in "$1" "$2"; do
		for _ in {1..100}; do
			[ -z "$(nsenter --net="$look" ss -Hltn "sport = :$port")" ] || break
			sleep 0.05
		done
	done
	start hold python3 -c "$twin" hold "${at[@]}" "$1"
	shown server accepted
	REPORT=$t/talk.report rail python3 -c "$twin" talk "${at[@]}" "$2"
	shown other end
	[ "$(cat "$t/other.out")" = "accepted
b'hello'
end" ]
	[ "$(went '[rt]x_shm' "$t/talk.report")" = 0 ]
	grep -q '"reason": *"no-match"' "$t/talk.report"
}

@test "a socket of another network namespace whose addresses one here has, too: TCP" {
	need python3 nsenter
	net=sockrail$$
	ip netns add "$net"
	ip -n "$net" link set lo up
	twins /proc/self/ns/net "/run/netns/$net"
	stop_all
	rm "$t"/*.report
	port
	twins "/run/netns/$net" /proc/self/ns/net
}
