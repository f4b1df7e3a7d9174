#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# How streams end that nobody closed in order: resets, kills, SIGPIPE.

# shellcheck disable=SC2154 # set by what is loaded
load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "closed with unread bytes: ECONNRESET" {
	compare reset unread -w mixed -r peer-dropped -l
	compare reset unread-before -w mixed -r 'peer-dropped|short' -l
}

@test "SO_LINGER of no time, with a tail held back" {
	compare reset linger0-held -w mixed -r peer-dropped -l
}

@test "writing to a peer that has gone: EPIPE" {
	compare reset gone -w mixed -r peer-dropped -l
}

@test "SIGPIPE, and when not" {
	not_in_valgrind "ignores the mask that a handler leaves to its thread"
	compare reset sigpipe -l -c 0
	compare reset sigpipe-shut -l
	compare reset sigpipe-calls -l
}

@test "the peer goes under a long write: a count, an error, a signal" {
	not_in_valgrind "ignores the mask that a handler leaves to its thread"
	compare reset sigpipe-cut -l -w mixed -r peer-dropped
}

# The reset is there before the link goes, so nothing is sent by TCP once more.
@test "closed with unread bytes: none of them goes by TCP in vain" {
	local way report=$BATS_TEST_TMPDIR/client.report
	[[ " $SR_TEST_MODES " = *" wait "* ]] || skip "for policy wait"
	need python3
	port
	for way in plain rail; do
		start server $way timeout 100 python3 -c "import socket, time
s = socket.create_server(('$ADDR', $port))
while True:
    c, _ = s.accept()
    while len(c.recv(200000)) == 200000:
        pass
    time.sleep(0.05)
    c.close()"
		listening "$port"
		REPORT=$report $way python3 -c "import socket
for _ in range(20):
    c = socket.create_connection(('$ADDR', $port))
    c.setblocking(False)
    try:
        while True:
            c.send(bytes(65536))
    except (BlockingIOError, ConnectionError): # a slow server may have closed it already
        c.setblocking(True)
    try:
        c.sendall(b'go')
        c.recv(1)
    except ConnectionError:
        pass
    c.close()"
		stop_all
	done
	[ "$(grep -c "\"link\":\"$SR_TEST_LINK" "$report")" -eq 20 ]
	[ "$SR_TEST_LINK" != shm ] || [ "$(went tx_plain "$report")" -eq 0 ] || { cat "$report"; return 1; }
}

@test "the reader is killed" {
	compare reset killed-reader -w mixed -r peer-dropped -l -s 0
}

@test "the writer is killed: no silent truncation" {
	compare reset killed-writer -w mixed -r peer-dropped -l -s 0
}

@test "the peer is killed while all is quiet" {
	compare reset killed-idle -w mixed -r peer-dropped -l -s 0
}

@test "the peer is killed at any moment, both directions in use" {
	local us
	for us in 0 300 1000 3000 10000 30000 60000; do
		compare reset killed-any -w any -l -s 0+ -c 0+ KILL_US=$us
		rm -r "$BATS_TEST_TMPDIR"/killed-any.*
	done
	# on its link, for which its first send waits in mode wait
	compare reset killed-any -w mixed -r peer-dropped -l -c 0+ KILL_BYTES=10000000
}

@test "reset behind the peer's end, with bytes unread" {
	# (not in mid-switch: before its end has been read TCP's is ECONNRESET to us)
	compare reset end-reset -n 2 -w some -l -m "wait client server nodevice"
}

@test "reset with bytes unread" {
	compare reset reset-unread -w mixed -r peer-dropped -l
	compare reset reset-asked -w mixed -r peer-dropped -l
}

@test "reset of a sleeping reader" {
	compare reset reset-sleeper -w mixed -r peer-dropped -l
}

@test "reset: which call returns the error, and what later ones do" {
	compare reset reset-order -w some -l -n 28
}
