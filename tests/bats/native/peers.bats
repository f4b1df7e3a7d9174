#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Policy lazy, where nobody answers: who has asked in vain is remembered, and the next
# streams to that peer are plain at once, for a while.

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

# Forty streams, one after the other, of as many calls as argv[2] says; at the word, the file
# argv[3], another long one, which ends when the log argv[4] says that it has a link.
client='
import os, socket, sys, time

def has_link():
    with open(sys.argv[4]) as log:
        return "tx on the link" in log.read()

def talk(size, blocking, enough=lambda: True):
    with socket.socket() as s:
        s.setblocking(blocking)
        s.connect_ex(("127.0.0.1", int(sys.argv[1])))
        s.setblocking(True)
        calls = 20 if size > 100 else int(sys.argv[2])
        while calls:
            s.sendall(b"x" * size)
            left = size
            while left:
                left -= len(s.recv(left))
            time.sleep(.001)
            calls -= enough()

for i in range(40):
    talk(10, i % 2)
print("short", flush=True)
if sys.argv[3:]:
    while not os.path.exists(sys.argv[3]):
        time.sleep(.01)
    talk(50000, True, has_link)
'

reports() { grep -c "\"role\":\"connect\".*\"reason\":$1," "$REPORT" || true; }

@test "streams to a plain server: one asks, the next are plain at once" {
	serve
	listening "$port"
	rail -s log=info python3 -c "$client" "$port" 70 2>"$BATS_TEST_TMPDIR/log"
	[ "$(reports '"no-listener"')" -eq 40 ]
	[ "$(went rx_plain)" -eq 28000 ]
	[ "$(grep -c 'plain: no-listener' "$BATS_TEST_TMPDIR/log")" -le 15 ]
}

@test "and are not when the server has come back with Sockrail" {
	serve
	server=$pid
	listening "$port"
	start client rail -s log=debug python3 -c "$client" "$port" 70 "$BATS_TEST_TMPDIR/word" \
		"$BATS_TEST_TMPDIR/client.err"
	talker=$pid
	holds 60 grep -q short "$BATS_TEST_TMPDIR/client.out"
	kill "$server"
	pid=$server
	await || true
	serve rail
	listening "$port"
	sleep 10 # no longer is anybody left alone
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
	holds 60 grep -q "@sockrail.*:$port\b" /proc/net/unix # its rendezvous
	rail python3 -c "$client" "$port" 1
	[ "$(reports '"short"')" -eq 40 ]
}

@test "a stream of small messages to a plain server is plain when it asks" {
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
