#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The sockrail command: what it passes on and what it refuses.

load ../../lib/common

setup() {
	unset "${!SOCKRAIL_@}" LD_PRELOAD
	lib=$SR_BUILD/.libs/libsockrail.so.0
}

teardown() { stop_all; }

@test "the build tree's library comes first in LD_PRELOAD, what was there stays" {
	run -0 "$SOCKRAIL" printenv LD_PRELOAD
	[[ $output = "$lib"* ]]
	run -0 env LD_PRELOAD=libm.so.6:libdl.so.2 "$SOCKRAIL" printenv LD_PRELOAD
	[[ $output = "$lib":*libm.so.6:libdl.so.2 ]]
}

@test "a sockrail under a sockrail adds nothing" {
	run -0 "$SOCKRAIL" printenv LD_PRELOAD
	once=$output
	run -0 "$SOCKRAIL" "$SOCKRAIL" printenv LD_PRELOAD
	[ "$output" = "$once" ]
}

@test "SOCKRAIL_PRELOAD_LIBRARY names another library" {
	cp "$lib" "$BATS_TEST_TMPDIR/copy.so"
	run -0 env SOCKRAIL_PRELOAD_LIBRARY="$BATS_TEST_TMPDIR/copy.so" \
		"$SOCKRAIL" printenv LD_PRELOAD
	[[ $output = "$BATS_TEST_TMPDIR/copy.so"* ]]
}

@test "a library that is not there, or cannot be named: 125" {
	run -125 env SOCKRAIL_PRELOAD_LIBRARY=/nowhere/lib.so "$SOCKRAIL" true
	[[ $output = *"/nowhere/lib.so: No such file"* ]]
	mkdir "$BATS_TEST_TMPDIR/a b"
	cp "$lib" "$BATS_TEST_TMPDIR/a b/lib.so"
	run -125 env SOCKRAIL_PRELOAD_LIBRARY="$BATS_TEST_TMPDIR/a b/lib.so" \
		"$SOCKRAIL" true
	[[ $output = *"no space"* ]]
}

@test "the command's exit status; 127 not found, 126 not executable" {
	run -7 "$SOCKRAIL" sh -c 'exit 7'
	run -127 "$SOCKRAIL" no-such-command
	[[ $output = *"sockrail: no-such-command: No such file"* ]]
	run -126 "$SOCKRAIL" /etc/passwd
	[[ $output = *"/etc/passwd: Permission denied"* ]]
}

@test "--show-config runs no command, and says so" {
	run -125 "$SOCKRAIL" -c true
	[ "$output" = "sockrail: --show-config runs no command" ]
}

@test "options of the command are the command's" {
	run -0 "$SOCKRAIL" printf '%s\n' -s --help
	[ "$output" = "-s
--help" ]
	run -0 "$SOCKRAIL" -- printf '%s\n' --version
	[ "$output" = --version ]
}

@test "-s sets a knob, in either case; an unknown one is an error" {
	run -0 "$SOCKRAIL" -s UPGRADE=never printenv SOCKRAIL_UPGRADE
	[ "$output" = never ]
	run -0 "$SOCKRAIL" --set upgrade=eager printenv SOCKRAIL_UPGRADE
	[ "$output" = eager ]
	run -125 "$SOCKRAIL" -s UPGRAD=never true
	[[ $output = *"UPGRAD=never: no such knob"* ]]
	run -125 "$SOCKRAIL" -s lonks= true
	[[ $output = *"lonks=: no such knob"* ]]
	run -125 "$SOCKRAIL" -s UPGRADE true
	[[ $output = *"no value"* ]]
}

@test "--version, --help, no command" {
	run -0 "$SOCKRAIL" --version
	[[ $output =~ ^sockrail\ [0-9]+\.[0-9]+ ]]
	run -0 "$SOCKRAIL" --help
	[[ $output = *UPGRADE* ]]
	# On a terminal of 80 columns
	for command in "$SOCKRAIL" "$SOCKRAIL check" "$SR_BUILD/sockrail-stat"; do
		# shellcheck disable=SC2086 # words
		[ "$($command --help | awk 'length > 80')" = "" ]
	done
	run -125 "$SOCKRAIL"
	run -125 "$SOCKRAIL" --no-such-option true
}

@test "a program with a malloc of its own that opens files" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "the sanitizers bring their own malloc"
	run -0 "$SR_BUILD/tests/progs/allocator"
	[ "$output" = ready ]
	run -0 timeout 100 "$SOCKRAIL" "$SR_BUILD/tests/progs/allocator"
	[ "$output" = ready ]
}

# example WORD: the line of the manual's examples with it, but for the server's address
example() {
	local line
	line=$(grep "^\$ .*$1" "$SR_TOP/man/sockrail.1")
	[ -n "$line" ]
	line=${line#\$ }
	line=${line/http:\/\/server/http:\/\/127.0.0.1:$port}
	line=${line/redis-benchmark/redis-benchmark -p $port -n 10000}
	line=${line/-h server/-h 127.0.0.1}
	echo "${line/verbs/shm}"
}

@test "the examples of the manual" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "curl hangs with a sanitizer's library alone"
	need curl python3
	# shellcheck disable=SC2154 # set by what is loaded
	export PATH=$SR_BUILD:$PATH SOCKRAIL_ANSWER_MS=$sr_answer_ms
	cd "$BATS_TEST_TMPDIR"
	mkdir served
	head -c 1000000 /dev/urandom >served/file
	port
	start server rail python3 -m http.server --bind 127.0.0.1 --directory served "$port"
	listening "$port"
	run -0 bash -c "$(example curl)"
	cmp file served/file
	grep -q '"program":"curl",.*"role":"connect"' streams.json
	[[ $(example redis-server) = "sockrail redis-server &" ]]
	command -v redis-server >/dev/null || skip "redis-server is not installed: only curl was run"
	port
	start redis sockrail -s report="$PWD/redis.json" redis-server --port "$port" --save ''
	listening "$port"
	run -0 bash -c "$(example ' -d 16384')"
	run -0 bash -c "$(example require)"
	redis-cli -p "$port" shutdown nosave || :
	await
	[ "$(went rx_shm redis.json)" -gt 10000000 ]
}
