#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A port that is used again while the server still holds the reset connection before:
# both have the same addresses and ports, and the new one waits to be accepted.

# shellcheck disable=SC2154 # set by what is loaded
load ../../lib/common

setup() {
	need python3
	t=$BATS_TEST_TMPDIR
	port
}

teardown() { stop_all; }

# argv: ROLE, the server's port, the client's port or 0
script='
import socket, struct, sys

role, port, own = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def connect():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", own))
    s.connect(("127.0.0.1", port))
    return s

if role == "server":
    with socket.create_server(("127.0.0.1", port)) as listener:
        old, _ = listener.accept()
        old.sendall(b"+")
        sys.stdin.readline()
        for _ in range(2):
            conn, _ = listener.accept()
            with conn:
                while data := conn.recv(1000):
                    print(data, flush=True)
elif role == "old":
    s = connect()
    s.recv(1)
    print("there", flush=True)
    sys.stdin.readline()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
else:
    with connect() as s:
        s.sendall(role.encode())
'

# act NAME [rail]: in the background; it goes on when a line is written to $t/NAME.in
act() {
	local name=$1
	mkfifo "$t/$name.in"
	# shellcheck disable=SC2016 # for the shell in there
	REPORT=$t/$name.report start "$name" "${@:2}" \
		bash -c 'exec python3 -c "$0" "${@:2}" <>"$1"' "$script" "$t/$name.in" \
		"$name" "$port" "$own"
}

# shown FILE TEXT: once it is there
shown() { holds 60 grep -q "$2" "$t/$1" || { tail "$t"/*.{out,err}; return 1; }; }

@test "the client's port is used again: no mark for the reset connection's link" {
	export SOCKRAIL_LOG=debug
	own=$((port + 1))
	act server rail
	listening "$port"
	act old
	local old=$pid
	shown old.out there
	# Who asks for a connection that nobody has accepted makes the server look at all
	# that it has.
	own=0 act other rail
	shown other.err no-match
	echo >"$t/old.in"
	pid=$old await
	act new rail
	shown new.err 'asks for a link'
	echo >"$t/server.in"
	await
	shown server.out new
	[ "$(cat "$t/server.out")" = "b'other'"$'\n'"b'new'" ]
	cat "$t/new.err"
	[ "$(went tx_shm "$t/new.report")" = 3 ]
}
