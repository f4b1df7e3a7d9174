#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The knobs as a user meets them: warnings, log lines, and what costs nothing.

# shellcheck disable=SC2154 # set by bats and by what is loaded
load ../lib/common
load ../lib/case

setup() {
	unset "${!SOCKRAIL_@}" LD_PRELOAD
	dir=$BATS_TEST_TMPDIR/pair
}

teardown() { stop_all; }

# warnings COMMAND...: a program that opens no stream, its error output in $output
warnings() { run -0 --separate-stderr "$@" "$SOCKRAIL" true; output=$stderr; }

@test "io_uring_setup through the C library: ENOSYS, or the streams stay plain" {
	try() {
		"$@" python3 -c 'import ctypes; c = ctypes.CDLL(None, use_errno=True)
r = c.syscall(ctypes.c_long(425), ctypes.c_long(0), ctypes.c_long(0)); print(r, ctypes.get_errno())'
	}
	plain=$(try env)
	[ "$plain" != "-1 38" ] || skip "this kernel has no io_uring"
	[ "$(SOCKRAIL_LINKS=shm try "$SOCKRAIL")" = "-1 38" ]
	[ "$(SOCKRAIL_LINKS=shm SOCKRAIL_IO_URING=1 try "$SOCKRAIL")" = "$plain" ]
	[ "$(SOCKRAIL_UPGRADE=never try "$SOCKRAIL")" = "$plain" ]
}

@test "a log file that cannot be opened: one warning, and standard error" {
	warnings env SOCKRAIL_LOG_FILE=/no/such/log SOCKRAIL_RING=0 SOCKRAIL_SPIN_US=x
	echo "$output"
	[ "${#stderr_lines[@]}" = 3 ]
	[[ ${stderr_lines[0]} = *SOCKRAIL_LOG_FILE*'"/no/such/log"'*"standard error"* ]]
	[[ ${stderr_lines[1]} = *SOCKRAIL_RING* ]]
	[[ ${stderr_lines[2]} = *SOCKRAIL_SPIN_US* ]]
	warnings env SOCKRAIL_LOG_FILE=/no/such/log
	[ -z "$output" ]
}

@test "the log says when a stream is upgraded, and when not, why" {
	pair "$dir" wait wait basic chat SOCKRAIL_LOG=info
	grep -E "$SR_TEST_LINK" "$dir/client.log"
	grep -E "$SR_TEST_LINK" "$dir/server.log"
	pair "$dir.2" none wait basic chat SOCKRAIL_LOG=info
	grep no-listener "$dir.2/client.log"
}

@test "the log of an ordinary end gives no reason" {
	local c
	for c in chat upload half-close-client half-close-server series; do
		pair "$dir.$c" wait wait basic "$c" SOCKRAIL_LOG=info
	done
	pair "$dir.lazy" lazy lazy basic big SOCKRAIL_LOG=info
	run -1 grep 'has ended' "$dir".*/*.log
	run -0 grep -h 'is closed' "$dir".*/*.log
	run -1 grep -vE "link ${SR_TEST_LINK}[^ ]* is closed$" <<<"$output"
}

# have_queue_pairs N NAME=VALUE: a client's three streams, which are in no epoll set
have_queue_pairs() {
	local port t=$BATS_TEST_TMPDIR server shown
	rm -f "$t/go"
	port
	start server rail python3 "$SR_TOP/tests/lib/crowd.py" server "$ADDR" "$port" 3
	server=$pid
	listening "$port"
	CROWD_HOLD=$t/go start client rail env "$2" \
		python3 "$SR_TOP/tests/lib/crowd.py" client "$ADDR" "$port" 0 3
	said client served
	shown=$("$SR_BUILD/sockrail-stat" --json dport = ":$port")
	echo "$2: $shown"
	: >"$t/go"
	await
	pid=$server
	await
	[ "$(grep -oE '"qp":[0-9]+' <<<"$shown" | sort -u | wc -l)" = "$1" ]
}

@test "SOCKRAIL_CARRIERS: as many queue pairs at most; with 0, or a rule that says so, one for each stream" {
	[ "$SR_TEST_LINK" = verbs ] || skip "over RDMA only"
	need python3
	have_queue_pairs 1 SOCKRAIL_CARRIERS=1
	have_queue_pairs 2 SOCKRAIL_CARRIERS=2
	have_queue_pairs 3 SOCKRAIL_CARRIERS=8
	have_queue_pairs 3 SOCKRAIL_CARRIERS=0
	echo "connect $ADDR carriers=0" >"$BATS_TEST_TMPDIR/rules"
	have_queue_pairs 3 SOCKRAIL_RULES="$BATS_TEST_TMPDIR/rules"
}

@test "nothing is logged that was not asked for" {
	pair "$dir" wait wait basic chat SOCKRAIL_LOG=warn
	[ ! -s "$dir/client.log" ]
	[ ! -s "$dir/server.log" ]
}

@test "a program without streams: no thread, no RDMA library, no descriptor" {
	run -0 "$SOCKRAIL" grep -E '^Threads:' /proc/self/status
	[[ $output =~ Threads:[[:space:]]+1$ ]]
	run -1 "$SOCKRAIL" grep -E 'ibverbs|rdmacm' /proc/self/maps
	ls /proc/self/fd >"$BATS_TEST_TMPDIR/without"
	"$SOCKRAIL" ls /proc/self/fd >"$BATS_TEST_TMPDIR/with"
	diff "$BATS_TEST_TMPDIR/without" "$BATS_TEST_TMPDIR/with"
}

@test "the wait is bounded when the peer does not answer" {
	# The server accepts, and then its process stands still.
	cat >"$BATS_TEST_TMPDIR/stopped" <<-'END'
		import os, signal, socket, sys
		s = socket.create_server((sys.argv[1], 0))
		print(s.getsockname()[1], flush=True)
		c, _ = s.accept()
		os.kill(os.getpid(), signal.SIGSTOP)
		while c.recv(1000):
		    pass
	END
	need python3
	start server rail python3 "$BATS_TEST_TMPDIR/stopped" "$ADDR"
	port=$(first_word server)
	local from=${EPOCHREALTIME/./} took status=0 reason
	REPORT=$BATS_TEST_TMPDIR/client.report SOCKRAIL_UPGRADE_WAIT_MS=400 \
		rail timeout 100 nc -N "$ADDR" "$port" >/dev/null < <(echo hello; sleep 1) &
	local client=$!
	sleep 3
	pkill -CONT -f "$BATS_TEST_TMPDIR/stopped"
	wait "$client" || status=$?
	took=$(((${EPOCHREALTIME/./} - from) / 1000))
	[ "$status" = 0 ]
	[ "$took" -lt 60000 ]
	[ "$(went tx_plain "$BATS_TEST_TMPDIR/client.report")" = 6 ]
	# The RDMA CM waits longer than this stream lives.
	[ "$SR_TEST_LINK" = shm ] && reason=timeout || reason='timeout|short'
	grep -E "\"reason\": *\"($reason)\"" "$BATS_TEST_TMPDIR/client.report"
}
