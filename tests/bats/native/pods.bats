#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Two pods of one host, which are network namespaces on a bridge, and have a directory in
# common: shared memory between them.  And another user who may write to the directory.

# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # read by what is loaded, set there
load ../../lib/common
load ../../lib/case
load ../../lib/pods
load ../../lib/told

SR_TEST_LINK=shm

setup() {
	pods_up
	pods_talk
}

teardown() { pods_down; }

# for_good: the client has no link, and will not ask again
for_good() { grep 'plain: ' "$t/client.err" | tail -n 1 | grep -v 'asks again'; }

# lines N TEXT FILE: are there so many?
lines() { [ "$(grep -c -- "$2" "$3")" -ge "$1" ]; }

# no_names: has nobody a name in the directory any more?
no_names() { [ -z "$(ls "$dir")" ]; }

@test "two pods: shared memory, by the directory" {
	serve
	talk
	linked
	grep -q 'has proven the stream' "$t/client.err"
}

@test "two pods: a directory at one end is none" {
	serve
	SOCKRAIL_DIR='' talk
	until_true grep 'plain: off' "$t/client.err"
	on_tcp off
	stop_all
	port
	SOCKRAIL_DIR='' serve
	talk
	until_true grep 'plain: no-listener' "$t/client.err"
	on_tcp no-listener
}

# check: in the second pod; the lines in $output
check() {
	run --separate-stderr "${client[@]}" "$SOCKRAIL" check --json "$host:$port"
}

@test "two pods: sockrail check measures the link, or says that it cannot know" {
	unset SOCKRAIL_UPGRADE
	start server "${server[@]}" "$SOCKRAIL" check --serve "$port"
	holds 60 serves 1
	check
	[ "$status" = 0 ]
	told ok measured ", by shm"
	SOCKRAIL_DIR='' check
	[ "$status" = 1 ]
	told problem "$host port $port" "no link"
	told problem route "of this host: SOCKRAIL_DIR"
	stop_all
	port
	serve
	check
	[ "$status" = 0 ]
	told warning "$host port $port" "SOCKRAIL_DIR is not known"
}

# inmost POD: a process of its that others there have started
inmost() { ip netns pids "sr$1-$$" | sort -n | tail -n 1; }

@test "two pods: sockrail-stat shows a pod its own ends, and the host those of all" {
	serve
	talk
	holds 60 grep 'tx on the link' "$t/client.err"
	run -0 --separate-stderr "$SR_BUILD/sockrail-stat" -H dport = ":$port"
	[[ $output =~ \ $host:$port\ +shm ]]
	run -0 --separate-stderr "$SR_BUILD/sockrail-stat" -H sport = ":$port"
	[[ $output =~ \ $host:$port\ .*:[0-9]+\ +shm ]]
	run -0 --separate-stderr nsenter -t "$(inmost 2)" -m -r -p -n "$SR_BUILD/sockrail-stat" -aH
	[[ ${#lines[@]} = 1 && $output =~ \ $host:$port\ +shm ]]
	linked
}

@test "two pods: the policies eager and wait do not ask by the directory" {
	local policy
	serve
	for policy in eager wait; do
		SOCKRAIL_UPGRADE=$policy talk
		until_true grep 'plain: off' "$t/client.err"
		on_tcp off
	done
}

@test "several processes accept at one address: the keeper sends askers to them" {
	local i
	serve python3 "$SR_TOP/tests/lib/workers.py" fork 4 0.0.0.0 "$port"
	mkfifo "$t/again"
	exec 7<>"$t/again"
	REPORT=$t/client.report SOCKRAIL_LOG=debug rail "${client[@]}" "${limited[@]}" \
		python3 "$SR_TOP/tests/lib/workers.py" client 12 "$host" "$port" \
		<&7 >"$t/client.out" 2>"$t/client.err" 3>&- &
	pid=$!
	sr_started+=("$pid")
	for ((i = 0; i < 300; i++)); do
		! lines 12 'tx on the link' "$t/client.err" || break
		echo again >&7
		sleep 0.1
	done
	echo again >&7
	echo end >&7
	await
	exec 7>&-
	on_links 12
}

@test "the server's address is one of IPv6" {
	ip -n "sr1-$$" addr add fd99::1/64 dev eth0 nodad || skip "no IPv6 here"
	ip -n "sr2-$$" addr add fd99::2/64 dev eth0 nodad
	host=fd99::1
	serve python3 -c '
import socket, sys
with socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6) as listener:
    conn, _ = listener.accept()
    while data := conn.recv(65536):
        conn.sendall(data)
' "$port"
	talk
	linked
}

# A process that ends takes its names along; one that is killed leaves them to the next.
deserted() { [ -z "$(ip netns pids "sr1-$$")" ]; }

@test "names: an orderly end removes them, and the next process those of one that was killed" {
	local old
	serve python3 "$SR_TOP/tests/lib/echo.py" server 0.0.0.0 "$port" 1
	talk
	holds 60 grep 'tx on the link' "$t/client.err"
	[ "$(find "$dir" -type s | wc -l)" = 2 ]
	: >"$t/over"
	holds 60 no_names

	serve
	talk
	linked
	ip netns pids "sr1-$$" | xargs kill -KILL || true # a namespace ends with its first process
	old=$(cd "$dir" && echo *)
	[ "$old" != '*' ]
	touch -h -d '1 minute ago' "$dir"/*
	holds 60 deserted
	serve
	talk
	linked
	for name in $old; do [ ! -e "$dir/$name" ]; done
}

@test "other processes have names of that address: each is asked, until one has the stream" {
	local i places
	pod 3
	serve
	SOCKRAIL_LOG=info start second rail ip netns exec "sr3-$$" timeout 100 \
		python3 "$SR_TOP/tests/lib/honest.py" server 0.0.0.0 "$port"
	holds 60 serves 3
	# It has a rendezvous when it has a stream
	SOCKRAIL_LOG=info start other rail "${client[@]}" "${limited[@]}" \
		python3 -c "$talk" 10.213.99.3 "$port" "$t/over"
	holds 60 grep 'link shm up' "$t/other.err"
	places=("$dir"/6.there.*)
	for i in {1..5}; do ln "${places[0]}" "$dir/6.tcp4:$host:$port.000000000000000$i"; done
	talk
	linked
}

@test "no libsodium, at either end: TCP, and the reason" {
	local path hide end plain=("${server[@]}" : "${client[@]}")
	path=$(libsodium)
	# shellcheck disable=SC2016 # for the shell in there
	hide=(sh -c 'mount --bind /dev/null "$0" && exec "$@"' "$path")
	for end in server client; do
		declare -n hidden=$end
		local kept=("${hidden[@]}")
		hidden+=("${hide[@]}")
		port
		serve
		talk
		until_true grep 'no-libsodium' "$t/client.err"
		on_tcp no-libsodium
		hidden=("${kept[@]}")
	done
}

# ------------------------------------------------------------------- NAT

# router HOOK RULE...: a third pod passes on what the client sends to $host, and translates it
router() {
	local all=/proc/sys/net/ipv4/conf/all pod=sr7-$$
	need nft
	pod 7
	# Both are its neighbours: it must not tell them so
	ip netns exec "$pod" sh -c "echo 1 >/proc/sys/net/ipv4/ip_forward
		echo 0 >$all/send_redirects; echo 0 >/proc/sys/net/ipv4/conf/eth0/send_redirects"
	ip netns exec "$pod" nft add table ip nat || skip "no nftables here"
	ip netns exec "$pod" nft add chain ip nat c "{ type nat hook $1 priority 0; }" || skip "no NAT here"
	ip netns exec "$pod" nft add rule ip nat c "${@:2}"
	ip -n "sr2-$$" route add "$host" via 10.213.99.7
}

# translated REASON: the client's bytes arrive, by TCP, and both ends say why
translated() {
	until_true grep "plain: $1" "$t/client.err"
	on_tcp "$1"
}

@test "NAT: a service's address, at which no process has names: no-listener" {
	host=10.213.98.1
	router prerouting ip daddr "$host" dnat to 10.213.99.1
	ip -n "sr1-$$" route add 10.213.99.2 via 10.213.99.7
	serve
	talk
	translated no-listener
}

@test "NAT: the client's address becomes another: the server finds no such stream, no-match" {
	router postrouting snat to 10.213.99.7
	serve
	talk
	translated no-match
	[ "$(went '[rt]x_shm' "$t/server.report")" = 0 ]
}

# --------------------------------------------------------- another user

# neighbour ROLE HOW: in a pod of his own
neighbour() {
	pod 9
	other=$(mktemp -d /tmp/sr.XXXXXX)
	chmod 1777 "$other"
	start neighbour ip netns exec "sr9-$$" timeout 100 python3 "$SR_TOP/tests/lib/neighbour.py" \
		"$1" "$2" "$other" "$host" "$port"
	said neighbour ready
}

# in_the_way HOW REASON PATTERN: the client finds nobody but the neighbour, until it has heard that
in_the_way() {
	neighbour squat "$1"
	serve
	SOCKRAIL_DIR=$other talk
	until_true grep -x "$3" "$t/neighbour.out"
	on_tcp "$2"
	run -1 grep 'with [1-9]' "$t/neighbour.out"
	run -1 grep Traceback "$t/neighbour.err"
}

@test "a neighbour has the server's names, and says nothing: TCP, and the next one is asked" {
	neighbour squat silent
	ln -s "$other" "$t/other"
	serve
	SOCKRAIL_DIR=$other talk
	until_true lines 3 '^offer' "$t/neighbour.out"
	on_tcp 'timeout|short'
}

@test "a neighbour has the server's names, and gives memory at once: TCP" {
	in_the_way ok 'refused' '^gone.*'
}

@test "a neighbour has the server's names, and guesses: TCP for good after three" {
	neighbour squat guess
	serve
	SOCKRAIL_DIR=$other talk
	until_true grep 'it stays on TCP' "$t/client.err"
	on_tcp history
	[ "$(grep -c 'heard 2' "$t/neighbour.out")" = 3 ]
	run -1 grep 'with [1-9]' "$t/neighbour.out"
}

@test "a neighbour has the server's names, hears the client's proof, and goes: TCP" {
	neighbour squat go
	serve
	SOCKRAIL_DIR=$other talk
	until_true grep 'it stays on TCP' "$t/client.err"
	on_tcp history
	run -1 grep 'with [1-9]' "$t/neighbour.out"
}

@test "a neighbour in the middle, who passes on all packets: no memory goes to him, and TCP" {
	pod 9
	other=$(mktemp -d /tmp/sr.XXXXXX)
	chmod 1777 "$other"
	serve
	start neighbour ip netns exec "sr9-$$" timeout 100 python3 "$SR_TOP/tests/lib/neighbour.py" \
		relay "$dir" "$other" "$host" "$port"
	said neighbour ready
	SOCKRAIL_DIR=$other talk
	until_true grep 'it stays on TCP' "$t/client.err"
	on_tcp history
	grep -x 'passes on prove' "$t/neighbour.out"
	grep -x 'passes on 2 with 0' "$t/neighbour.out"
	run -1 grep 'with [1-9]' "$t/neighbour.out"
}

# asked HOW: the neighbour asks for the client's stream, which then has a link all the same
asked() {
	local own
	serve
	mkfifo "$t/ask"
	pod 9
	ip netns exec "sr9-$$" timeout 100 python3 "$SR_TOP/tests/lib/neighbour.py" ask "$1" \
		"$dir" "$host" "$port" <"$t/ask" >"$t/neighbour.out" 2>"$t/neighbour.err" 3>&- &
	sr_started+=("$!")
	exec 8>"$t/ask"
	said neighbour ready
	SOCKRAIL_DIR=$t talk # it finds no names
	holds 60 grep 'plain: no-listener' "$t/client.err"
	own=$(ip netns exec "sr2-$$" ss -Htn dst "$host:$port" | awk '{ print $4; exit }')
	for _ in 1 2 3; do echo "$own" >&8; done
	until_true lines 3 'gone' "$t/neighbour.out"
	exec 8>&-
	run -1 grep 'with [1-9]' "$t/neighbour.out"
	run -1 grep Traceback "$t/neighbour.err"
	[ "$(went '[rt]x_shm' "$t/client.report")" = 0 ]
}

@test "a neighbour asks for a stream, and guesses: he gets nothing, and after three nobody does" {
	asked guess
	[ "$(grep -c 'answer prove' "$t/neighbour.out")" = 3 ]
	grep -q 'it stays on TCP' "$t/server.err"
}

@test "a neighbour asks for a stream, and sends descriptors with his question" {
	asked descriptors
	[ "$(grep -c 'answer none' "$t/neighbour.out")" = 3 ]
}
