#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# There is an RDMA device, but a link cannot be had: the program runs as over
# TCP, and the report names the reason.

# shellcheck disable=SC2015,SC2016,SC2030,SC2031,SC2034,SC2154 # A && B || C; set here, used there
load ../../lib/common
load ../../lib/case
load ../../lib/real

setup() {
	t=$BATS_TEST_TMPDIR
	server=wait client=wait
	port
}

teardown() { stop_all; }

# reason ROLE WORDS: of all lines of that role, and no byte went by a link
reason() {
	local lines
	lines=$(cat "$t"/*.report | grep "\"role\": *\"$1\"")
	[ -n "$lines" ] && ! grep -qvE "\"reason\": *\"($2)\"" <<<"$lines" &&
		[ "$(went tx_verbs "$t"/*.report)" = 0 ] ||
		{ echo "$1 is not $2:"; cat "$t"/*.report; tail -n 20 "$t"/*.log; return 1; }
}

# hello [COMMAND...]: a small transfer; COMMAND... runs both programs
hello() {
	start server as server "$@" timeout 100 nc -N -l "$ADDR" "$port"
	listening "$port"
	echo hello | as client "$@" timeout 100 nc -N "$ADDR" "$port" || return
	await
	[ "$(<"$t/server.out")" = hello ]
}

@test "no libibverbs, or no librdmacm" {
	need unshare
	local lib path
	for lib in libibverbs.so.1 librdmacm.so.1; do
		rm -f "$t"/*.report
		path=$(realpath "$(ldconfig -p | awk -v l="$lib" '$1 == l { print $NF; exit }')")
		# Hidden from these two programs only.
		hello unshare -m sh -c 'mount --bind /dev/null "$1"; shift; exec "$@"' sh "$path"
		reason connect no-library
		port
	done
}

# slow: a stream that lasts; each end has a command in front, here or there
slow() {
	start server as server "${there[@]}" timeout 100 nc -N -l "$ADDR" "$port"
	listening "$port"
	{ head -c 5000 /dev/zero; sleep 3; } | as client "${here[@]}" timeout 100 nc -N "$ADDR" "$port" || return
	await
}

# The policies eager and wait go on without it.
@test "no libsodium, here or at the peer" {
	need unshare
	local -x SOCKRAIL_UPGRADE_BYTES=1000
	local path hide=(unshare -m sh -c 'mount --bind /dev/null "$1"; shift; exec "$@"' sh) here=() there=()
	path=$(libsodium)
	hello "${hide[@]}" "$path"
	[ "$(went tx_verbs "$t"/*.report)" = 6 ]
	client=lazy
	for end in here there; do
		rm -f "$t"/*.report
		port
		here=() there=()
		declare -n hidden=$end
		hidden=("${hide[@]}" "$path")
		slow
		reason connect no-libsodium
	done
	rm -f "$t"/*.report
	port
	here=() there=()
	slow # with it there is a link
	[ "$(went rx_plain "$t"/*.report)" = 5000 ]
	grep -q '"link": *"verbs' "$t/client.report"
}

@test "no device that SOCKRAIL_DEVICE names" {
	SOCKRAIL_DEVICE=nosuch0 hello
	reason connect no-device
}

@test "a plain server: its refusal comes at once" {
	server=none
	hello
	reason connect no-listener
}

# somebody PORT: a listener of the RDMA CM that is none of ours
somebody() {
	local p=$1
	[ "${RDMA_DEV%%[0-9]*}" != siw ] || p=$(($1 + 10000))
	start somebody timeout 100 rping -s -a "$ADDR" -p "$p" -C 1
	somebody_pid=$pid
	sleep 1
	kill -0 "$somebody_pid"
}

@test "another program's RDMA listener answers" {
	need rping
	server=none
	somebody "$port"
	hello
	reason connect no-listener
}

@test "the listener never answers" {
	need rping
	server=none
	somebody "$port"
	# timeout(1) started rping; that one must stand still
	pkill -STOP -P "$(pgrep -P "$somebody_pid" timeout || echo "$somebody_pid")"
	SOCKRAIL_UPGRADE_WAIT_MS=20000 hello
	reason connect timeout
	pkill -KILL -P "$(pgrep -P "$somebody_pid" timeout || echo "$somebody_pid")"
}

@test "RLIMIT_MEMLOCK too small" {
	need setpriv prlimit
	# root is not bound by the limit
	chmod 666 /dev/infiniband/*
	chmod 777 "$t"
	local parent=$t
	while [ "$parent" != / ]; do
		chmod o+x "$parent"
		parent=${parent%/*}
		[ -n "$parent" ] || parent=/
	done
	# 64 kB is what Debian gives; so little does not even hold one ring
	hello prlimit --memlock=4096:4096 setpriv --reuid 65534 --regid 65534 --clear-groups
	reason connect memlock
}

@test "another user's program works over RDMA, too" {
	need setpriv
	chmod 666 /dev/infiniband/*
	chmod 777 "$t"
	hello setpriv --reuid 65534 --regid 65534 --clear-groups
	[ "$(went tx_verbs "$t/client.report")" = 6 ]
}

@test "the server accepts, but its device is gone" {
	need nc
	start server as server timeout 100 nc -N -l "$ADDR" "$port"
	listening "$port"
	rdma link delete "$RDMA_DEV"
	echo hello | as client timeout 100 nc -N "$ADDR" "$port"
	await
	rdma link add "$RDMA_DEV" type "${RDMA_DEV%%[0-9]*}" netdev "$RDMA_NETDEV"
	holds 60 grep -q ACTIVE "/sys/class/infiniband/$RDMA_DEV/ports/1/state"
	[ "$(<"$t/server.out")" = hello ]
	reason connect no-device
}
