#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Another user on this host.  If he takes the name of a rendezvous, streams stay on TCP;
# if he calls on it, others have their links as if he were not there.

# shellcheck disable=SC2034,SC2154 # read by what is loaded, set there
load ../../lib/common
load ../../lib/case

SR_TEST_LINK=shm

setup() {
	need python3
	[ "$(id -u)" = 0 ] || skip "only root can become others"
	t=$BATS_TEST_TMPDIR
	port
}
teardown() { stop_all; }

# stranger ROLE HOW: until it is ready
stranger() {
	start stranger timeout 60 python3 "$SR_TOP/tests/lib/stranger.py" "$1" "$2" "$ADDR" "$port"
	said stranger ready
}

# said NAME LINE: once what was started has written this line
said() {
	local i
	for ((i = 0; i < 200; i++)); do
		! grep -qx "$2" "$t/$1.out" || return 0
		sleep 0.05
	done
	tail "$t/$1".*
	return 1
}

# serve SCRIPT ARGUMENT...: a server under Sockrail
serve() {
	REPORT=$t/server.report start server rail timeout 60 \
		python3 "$SR_TOP/tests/lib/$1.py" "${@:2}"
	said server ready
}

# client: of the same user
client() {
	SOCKRAIL_UPGRADE_WAIT_MS=8000 REPORT=$t/client.report rail timeout 30 \
		python3 "$SR_TOP/tests/lib/echo.py" client "$ADDR" "$port" 1
}

# linked: all bytes of the client went by the link
linked() {
	[ "$(went '[rt]x_plain' "$t/client.report")" = 0 ] &&
		[ "$(went tx_shm "$t/client.report")" -gt 0 ] && return 0
	cat "$t/client.report"
	return 1
}

# over_tcp REASON: the name is taken, so the streams stay on TCP
over_tcp() {
	[ "$(went '[rt]x_shm' "$t/client.report")" = 0 ] &&
		reason_is "$t" connect "$1" && return 0
	cat "$t/client.report"
	return 1
}

@test "a name that a stranger holds, who accepts nobody: TCP, and he hears nothing" {
	stranger squat open
	serve echo server "$ADDR" "$port" 1
	client
	over_tcp user
}

@test "a name that a stranger holds, to whom nobody can connect: TCP" {
	stranger squat full
	serve echo server "$ADDR" "$port" 1
	client
	over_tcp refused
}

# call HOW: strangers call on the server, which sees them only when they have done all
call() {
	local server
	server=$(ss -Hltnp "sport = :$port" | sed -n 's/.*pid=\([0-9]*\).*/\1/p')
	kill -STOP "$server"
	stranger call "$1"
	kill -CONT "$server"
}

# called HOW: and its client has a link all the same
called() {
	serve echo server "$ADDR" "$port" 1
	call "$1"
	client
	linked
}

@test "strangers who send what takes long to close, and go" {
	called leave
}

@test "strangers who send what takes long to close, and stay" {
	called stay
}

@test "strangers who connect, and say nothing" {
	called silent
}

@test "strangers who send what takes long to close: the server forks quickly" {
	serve forking server "$ADDR" "$port"
	REPORT=$t/client.report start client rail timeout 30 \
		python3 "$SR_TOP/tests/lib/forking.py" client "$ADDR" "$port" "$t/go"
	local client=$pid
	said client talked
	call leave
	: >"$t/go"
	said client quick
	pid=$client
	await	# and reports
	[ "$(went tx_shm "$t/client.report")" -gt 0 ]
}
