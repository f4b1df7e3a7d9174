#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Several processes accept at one address: each stream gets its link, in whichever of
# them it is.

# shellcheck disable=SC2030,SC2031,SC2154 # set by what is loaded
load ../lib/common

setup() {
	[[ " ${SR_TEST_MODES:-wait} " = *" wait "* ]] || skip "for policy wait"
	need python3
	port
	mkfifo "$BATS_TEST_TMPDIR/in"
	exec 9<>"$BATS_TEST_TMPDIR/in"
}

teardown() {
	stop_server
	stop_all
}

# stop_server: and workers that have no parent any more
stop_server() {
	xargs -r kill 2>/dev/null <"$BATS_TEST_TMPDIR/server.out" || true
	stop_all
}

workers=$SR_TOP/tests/lib/workers.py

# serve WAY HOW N: with N workers, under rail or plain, which listen
serve() {
	start server "$1" python3 "$workers" "$2" "$3" "$ADDR" "$port"
	printed server $(($3 + 1))
}

asks() { "$1" python3 "$workers" client "$2" "$ADDR" "$port" <&9; }

# client WAY N: a client of N streams, which exchanges more on each once all are on links;
# prints the pids of their workers.  (On a busy machine a worker may not say in 200 ms that it
# has a stream, whose first bytes go by TCP then.)
client() {
	local client lost=0 n=1
	start client asks "$1" "$2"
	client=$pid
	printed client "$2"
	until [ "$1" = plain ] || linked_now "$2"; do
		[ $((n += 1)) -le 40 ]
		echo again >&9
		printed client $(($2 * n))
	done
	echo again >&9
	printed client $(($2 * (n + 1)))
	echo end >&9
	pid=$client
	await
	sed "$2q" "$BATS_TEST_TMPDIR/client.out"
}

# printed NAME N: waits until what was started by that name has printed N lines
printed() { holds 60 has_lines "$BATS_TEST_TMPDIR/$1.out" "$2"; }

# linked_each N BYTES: N streams of clients had links, and sent at least so many bytes by each
linked_each() {
	grep '"role":"connect"' "$BATS_TEST_TMPDIR/report" >"$BATS_TEST_TMPDIR/connect"
	[ "$(grep -c "\"link\":\"$SR_TEST_LINK" "$BATS_TEST_TMPDIR/connect")" -eq "$1" ] &&
		[ "$(went "tx_$SR_TEST_LINK" "$BATS_TEST_TMPDIR/connect")" -ge $(($1 * $2)) ] && return
	sed 's/.*"link"/"link"/' "$BATS_TEST_TMPDIR/connect" >&2
	return 1
}

# linked N: that many streams of the client's had links, and went by these then
linked() {
	grep '"role":"connect"' "$BATS_TEST_TMPDIR/report" >"$BATS_TEST_TMPDIR/connect"
	if [ "$(grep -c "\"link\":\"$SR_TEST_LINK" "$BATS_TEST_TMPDIR/connect")" -ne "$1" ] ||
		[ "$(went "tx_$SR_TEST_LINK" "$BATS_TEST_TMPDIR/connect")" -lt $(($1 * 300000)) ]; then
		sed 's/.*"link"/"link"/' "$BATS_TEST_TMPDIR/connect" >&2
		return 1
	fi
}

# each HOW: 12 streams of 3 workers, over TCP and by links
each() {
	local way
	for way in plain rail; do
		serve $way "$1" 3
		client $way 12 >"$BATS_TEST_TMPDIR/pids"
		[ "$(grep -c '[0-9]' "$BATS_TEST_TMPDIR/pids")" -eq 12 ]
		stop_server
	done
	linked 12
}

@test "workers of one listening socket" {
	each fork
}

@test "workers with listening sockets of their own" {
	each reuse
}

# (the socket is known from the first accept(2) on)
@test "workers of a listening socket that came by exec" {
	local way
	for way in plain rail; do
		serve $way exec 3
		client $way 1
		client $way 12 >"$BATS_TEST_TMPDIR/pids"
		[ "$(grep -c '[0-9]' "$BATS_TEST_TMPDIR/pids")" -eq 12 ]
		stop_server
	done
	sed -i 0,/connect/d "$BATS_TEST_TMPDIR/report"
	linked 12
}

# The first stream is the one for which the worker joins the keeper.
@test "a worker that accepts late" {
	local way
	for way in plain rail; do
		serve $way late 1
		$way python3 "$workers" steady 0 "$ADDR" "$port"
		$way python3 "$workers" steady 0 "$ADDR" "$port"
		stop_server
	done
	grep '"role":"connect"' "$BATS_TEST_TMPDIR/report" >"$BATS_TEST_TMPDIR/connect"
	[ "$(went tx_plain "$BATS_TEST_TMPDIR/connect")" -eq 0 ]
	[ "$(went "tx_$SR_TEST_LINK" "$BATS_TEST_TMPDIR/connect")" -eq 224000 ]
}

# the process that holds the address's name, as the kernel shows it
keeper() {
	ss -xlpH 2>/dev/null |
		sed -n "s/.*@sockrail.*:$port\/keeper .*pid=\([0-9]*\).*/\1/p" | grep .
}

# end PID: kills it, and waits until it is gone, as it may accept a stream till then
end() {
	kill -KILL "$1"
	until gone "$1"; do sleep 0.01; done
}

@test "workers are killed one after the other, the keeper first" {
	local way worker
	for way in plain rail; do
		serve $way fork 4
		for _ in 1 2 3 4; do
			client $way 8 >"$BATS_TEST_TMPDIR/pids"
			[ "$(grep -c '[0-9]' "$BATS_TEST_TMPDIR/pids")" -eq 8 ]
			worker=$(keeper) || worker=$(sort "$BATS_TEST_TMPDIR/pids" | sed 1q)
			end "$worker"
		done
		stop_server
	done
	linked 32
}

@test "the other workers' streams go on when the keeper is killed" {
	local way client worker lost n
	for way in plain rail; do
		serve $way reuse 3
		start client asks $way 12
		client=$pid lost=0 n=1
		printed client 12
		until [ $way = plain ] || linked_now 12; do
			[ $((n += 1)) -le 40 ]
			echo again >&9
			printed client $((12 * n))
		done
		worker=$(keeper) || worker=$(sed 12q "$BATS_TEST_TMPDIR/client.out" | sort | sed 1q)
		lost=$(sed 12q "$BATS_TEST_TMPDIR/client.out" | grep -c "^$worker\$") || true
		end "$worker"
		echo again >&9
		printed client $((12 * (n + 1)))
		[ "$(sed "1,$((12 * n))d" "$BATS_TEST_TMPDIR/client.out" | grep -c '^-')" -eq "$lost" ]
		[ $way = plain ] || linked_now 12
		asked
	done
	linked 12
}

@test "the keeper is killed before it has answered" {
	local way client keeper parent lost i out=$BATS_TEST_TMPDIR/client.out
	for way in plain rail; do
		serve $way fork 3
		parent=$(sed 1q "$BATS_TEST_TMPDIR/server.out")
		keeper=$(keeper) || keeper=$parent
		kill -STOP "$keeper"
		start client asks $way 12
		client=$pid
		sleep 1
		kill -KILL "$keeper"
		printed client 12
		lost=$(grep -c '^-' "$out") || true
		# The parent accepts nobody; a worker may have, and takes that with it.
		[ "$lost" -eq 0 ] || [ "$keeper" != "$parent" ]
		i=1
		while [ $i -lt 4 ] || { [ $i -lt 40 ] && [ $way = rail ] && ! linked_now 12; }; do
			sleep 0.5
			echo again >&9
			i=$((i + 1))
			printed client $((12 * i))
		done
		[ "$(grep -c '^-' "$out")" -eq $((lost * i)) ]
		[ $way = plain ] || linked_now 12
		asked
	done
}

# linked_now N: are all of the client's N streams but those that were lost?
linked_now() {
	[ "$("$SR_BUILD/sockrail-stat" -H dst ":$port" state "$SR_TEST_LINK" | wc -l)" -eq $(($1 - lost)) ]
}

# asked: the client of asks ends, and then the server
asked() {
	echo end >&9
	pid=$client
	await
	stop_server
}

# The keeper is the parent, which has forty descriptors, and half of them are the program's.
@test "workers that the keeper has no descriptor for do not ask it again and again" {
	local ended begin=$SECONDS
	[ "$SR_TEST_LINK" = shm ] || skip "so many processes open a device in the virtual machine for long"
	SOCKRAIL_LOG=debug start server rail prlimit --nofile=40:40 \
		python3 "$workers" fork 24 "$ADDR" "$port"
	printed server 25
	start client asks rail 60
	printed client 60
	echo again >&9
	printed client 120
	echo end >&9
	await
	ended=$(grep -c 'keeper: the line has ended' "$BATS_TEST_TMPDIR/server.err")
	echo "$ended lines to the keeper have ended"
	[ "$ended" -gt 0 ]
	[ "$ended" -lt $((300 + 60 * (SECONDS - begin))) ]
}

# named: is there a keeper of the address?
named() { grep -qE "@sockrail[^ ]*:$port/keeper" /proc/net/unix; }

# (lazy: a client that sends little would be over before the rendezvous opens)
@test "a daemon that waits for a connection answers before there is one" {
	local way call policy=lazy bytes=112000
	[ "$SR_TEST_LINK" = shm ] || policy=eager bytes=1000
	for way in plain rail; do
		for call in accept poll select epoll; do
			SOCKRAIL_UPGRADE=$policy start server "$way" python3 "$workers" in-$call 1 "$ADDR" "$port"
			printed server 1
			[ $way = plain ] || holds 60 named
			$way python3 "$workers" steady 0 "$ADDR" "$port"
			stop_server
			port
		done
	done
	linked_each 4 $bytes
}

# found HOW: a stream whose process is not there at once has its link later
found() {
	local way
	for way in plain rail; do
		start server "$way" python3 "$workers" "$1" 0 "$ADDR" "$port"
		printed server 1
		$way python3 "$workers" steady 20 "$ADDR" "$port"
		stop_server
	done
	grep '"role":"connect"' "$BATS_TEST_TMPDIR/report" >"$BATS_TEST_TMPDIR/connect"
	[ "$(went "[rt]x_$SR_TEST_LINK" "$BATS_TEST_TMPDIR/connect")" -ge 3000000 ] ||
		{ cat "$BATS_TEST_TMPDIR/connect"; return 1; }
}

@test "a child that takes its time before it uses its stream" {
	# The child sleeps 0.7 s, and is asked for with growing pauses.
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "a sanitizer makes the child too slow"
	export SOCKRAIL_UPGRADE=lazy
	found later
}

@test "a listening socket with TCP_DEFER_ACCEPT" {
	[ "$(id -u)" != 0 ] || chmod a+x "$BATS_RUN_TMPDIR" "${BATS_TEST_TMPDIR%/*}"
	found defer
}

# (lazy: it is the listening socket that has to be ready, and not a stream that asks.  Over
# RDMA that wants more of a history than the eight bytes that there are.)
@test "a server that listens anew for each stream" {
	local way i policy=lazy
	[ "$SR_TEST_LINK" = shm ] || policy=eager
	for way in plain rail; do
		SOCKRAIL_UPGRADE=$policy start server "$way" python3 "$workers" anew 4 "$ADDR" "$port"
		printed server 1
		for i in 1 2 3 4; do
			client $way 1
			printed server $((i + 1))
			sleep 0.5 # the old one's end, and the new one's beginning, are in the background
		done
		stop_server
	done
	linked 4
}
