#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Policy lazy, where nobody would answer: of many short streams the later ones are plain
# at once, and one of small messages soon.  Where somebody does, they never are.

# shellcheck disable=SC2154 # set by what is loaded
load ../../lib/common

setup() {
	export SOCKRAIL_LINKS=shm SOCKRAIL_UPGRADE=lazy REPORT=$BATS_TEST_TMPDIR/report
	port
}

teardown() {
	stop_all
}

serve() { start server "$@" python3 "$SR_TOP/tests/lib/echo.py" server 127.0.0.1 "$port" 200; }

# Forty short streams, one after the other; at the word another long one.
client='
import os, socket, sys, time

def talk(size, blocking):
    with socket.socket() as s:
        s.setblocking(blocking)
        s.connect_ex(("127.0.0.1", int(sys.argv[1])))
        s.setblocking(True)
        for _ in range(20 if size > 100 else 1):
            s.sendall(b"x" * size)
            left = size
            while left:
                left -= len(s.recv(left))
            time.sleep(.005)

for i in range(40):
    talk(10, i % 2)
print("short", flush=True)
if sys.argv[2:]:
    while not os.path.exists(sys.argv[2]):
        time.sleep(.01)
    talk(50000, True)
'

reports() { grep -c "\"role\":\"connect\".*\"reason\":$1," "$REPORT" || true; }

@test "short streams to a plain server: the later ones are plain at once" {
	serve
	listening "$port"
	rail python3 -c "$client" "$port"
	[ "$(reports '"short"')" -ge 16 ]
	[ "$(reports '"no-listener"')" -ge 10 ]
	[ "$(reports '.*')" -eq 40 ]
	[ "$(went rx_plain)" -eq 400 ]
}

@test "and are not when the server has come back with Sockrail" {
	serve
	server=$pid
	listening "$port"
	start client rail python3 -c "$client" "$port" "$BATS_TEST_TMPDIR/word"
	talker=$pid
	until grep -q short "$BATS_TEST_TMPDIR/client.out"; do
		kill -0 "$talker"
		sleep 0.05
	done
	kill "$server"
	pid=$server
	await || true
	serve rail
	listening "$port"
	sleep 0.5
	touch "$BATS_TEST_TMPDIR/word"
	pid=$talker
	await
	[ "$(reports '"no-listener"')" -ge 10 ]
	went_by_link 100000
	grep -q '"role":"connect".*"link":"shm"' "$REPORT"
}

@test "short streams to a server with Sockrail stay lazy" {
	serve rail
	listening "$port"
	sleep 0.5
	rail python3 -c "$client" "$port"
	[ "$(reports '"short"')" -eq 40 ]
}

@test "a stream of small messages to a plain server is plain before it would ask" {
	serve
	listening "$port"
	rail python3 -c '
import os, socket, sys, time

with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
    for _ in range(300):
        s.sendall(b"x")
        s.recv(1)
        time.sleep(.001)
print(len(os.listdir("/proc/self/task")), "thread")
' "$port" >"$BATS_TEST_TMPDIR/out"
	[ "$(<"$BATS_TEST_TMPDIR/out")" = "1 thread" ]
	[ "$(reports '"no-listener"')" -eq 1 ]
	[ "$(went rx_plain)" -eq 300 ]
}
