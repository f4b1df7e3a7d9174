# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Pods of one host: network namespaces on a bridge, and a directory that all of them see.  After
# common.bash and, for those who talk, case.bash.

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

# ------------------------------------------------- a server and a client of one stream

# pods_talk: for these, after pods_up; $server and $client are before what runs in pods of
# their own, with own processes and files, too, and $limited behind them.  (The timeout of
# coreutils 9.10 fails as the first process of a namespace, so that is a shell.)
pods_talk() {
	port
	limited=(sh -c '"$@"; exit' sh timeout 100)
	export SOCKRAIL_DIR=$dir SOCKRAIL_UPGRADE=lazy SOCKRAIL_AGAIN_MS=50
	server=("${pod_of_servers[@]}" unshare --mount --pid --fork --mount-proc --ipc --uts --kill-child)
	client=("${pod_of_clients[@]}" unshare --mount --pid --fork --mount-proc --ipc --uts --kill-child)
	host=10.213.99.1
}

# serve [COMMAND...]: in the first pod; an echo server of one process
serve() {
	[ $# -gt 0 ] || set -- python3 "$SR_TOP/tests/lib/honest.py" server 0.0.0.0 "$port"
	REPORT=$t/server.report SOCKRAIL_LOG=info start server rail "${server[@]}" "${limited[@]}" "$@"
	holds 60 serves 1
}

# echo.py is over too soon, so this talks on until there is "$t/over", and ten times more
talk='
import os, socket, sys, time
left = 10
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as s:
    while left:
        left -= os.path.exists(sys.argv[3])
        data = os.urandom(5000)
        s.sendall(data)
        if s.recv(5000, socket.MSG_WAITALL) != data:
            sys.exit("other bytes")
        time.sleep(0.005)
'

# talk: a client in the second pod
talk() {
	rm -f "$t/over" "$t/client.report"
	REPORT=$t/client.report SOCKRAIL_LOG=debug start client rail "${client[@]}" "${limited[@]}" \
		python3 -c "$talk" "$host" "$port" "$t/over"
	talker=$pid
}

# until_true COMMAND...: the client talks on until it is
until_true() {
	holds 60 "$@" || { tail "$t"/*.err "$t"/*.out; return 1; }
	: >"$t/over"
	pid=$talker
	await || { tail "$t"/*.err "$t"/*.out; return 1; }
}

# on_links N: the client's streams, all of them
on_links() {
	[ "$(grep -c '"link": *"shm' "$t/client.report")" = "$1" ] &&
		[ "$(went tx_shm "$t/client.report")" -gt 0 ] &&
		[ "$(went rx_shm "$t/client.report")" -gt 0 ] && return 0
	cat "$t/client.report"
	return 1
}

# on_tcp REASON: no byte of the client went by a link
on_tcp() {
	[ "$(went '[rt]x_shm' "$t/client.report")" = 0 ] && reason_is "$t" connect "$1" && return 0
	cat "$t/client.report" "$t/client.err"
	return 1
}

# linked: the client's bytes go by shared memory
linked() {
	until_true grep 'tx on the link' "$t/client.err"
	on_links 1
}
