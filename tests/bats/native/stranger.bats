#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Another user on this host.  If he takes the name of a rendezvous, streams stay on TCP;
# if he calls on it, others have their links as if he were not there.

# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # read by what is loaded, set there
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
	start stranger timeout 100 python3 "$SR_TOP/tests/lib/stranger.py" "$1" "$2" "$ADDR" "$port"
	said stranger ready
	! grep Traceback "$t/stranger".*
}

# serve SCRIPT ARGUMENT...: a server under Sockrail
serve() {
	REPORT=$t/server.report start server rail timeout 100 "${command[@]}" \
		python3 "$SR_TOP/tests/lib/$1.py" "${@:2}"
	said server ready
}

# client: of the same user
client() {
	SOCKRAIL_UPGRADE_WAIT_MS=8000 REPORT=$t/client.report rail timeout 100 \
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

@test "strangers who send what resets when it is closed" {
	called reset
}

@test "strangers who connect, and say nothing" {
	called silent
}

@test "strangers who send what takes long to close: the server forks quickly" {
	serve forking server "$ADDR" "$port"
	REPORT=$t/client.report start client rail timeout 100 \
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

@test "strangers who own streams, and send what takes long to close by their links" {
	serve echo server "$ADDR" "$port" 4
	stranger own leave
	client
	linked
}

@test "strangers who move sleeping readers to another futex, and are killed" {
	serve echo server "$ADDR" "$port" 2
	local server=$pid
	REPORT=$t/client.report rail timeout 100 python3 "$SR_TOP/tests/lib/stranger.py" \
		requeue 2 "$ADDR" "$port" || [ $? = 137 ]
	pid=$server
	await	# its threads are told that the streams were reset
	[ "$(went rx_shm "$t/server.report")" -gt 0 ]
}

@test "a crowd of strangers: the server has descriptors left" {
	local command=(prlimit --nofile=200)
	serve echo server "$ADDR" "$port" 1
	stranger crowd 300
	client
	linked
}

# meanwhile STREAMS COMMAND...: while it runs, clients of the server go on, and new ones
# come, some of them without Sockrail; all that comes back to them is compared.  $told is
# what the stranger got
meanwhile() {
	local client plain
	start plain timeout 100 python3 "$SR_TOP/tests/lib/honest.py" client "$ADDR" "$port" 2 "$t/over"
	plain=$pid
	SOCKRAIL_UPGRADE=lazy SOCKRAIL_UPGRADE_BYTES=2000 REPORT=$t/client.report \
		start client rail timeout 100 \
		python3 "$SR_TOP/tests/lib/honest.py" client "$ADDR" "$port" "$1" "$t/over"
	client=$pid
	said client ready
	"${@:2}"
	said stranger '.*got .*'
	: >"$t/over"
	pid=$plain
	await
	pid=$client
	await
	told=$(grep got "$t/stranger.out")
	echo "# $told; $(tail -n 1 "$t/client.out")" >&3
}

@test "10,000 requests of a stranger, for others' streams, too: he gets no link" {
	serve honest server "$ADDR" "$port"
	meanwhile 20 stranger flood 10000
	[[ $told = *"requests, got 0 links or descriptors" ]]
	[ "$(went tx_shm "$t/client.report")" -gt 0 ]
	echo "# $(grep -c '"link":"shm"' "$t/client.report") streams had links" >&3
}

# A worker joins whoever has the name, and follows him when he goes.
@test "the keeper's name is a stranger's: TCP, and he learns no more than whose streams are" {
	local keeper
	stranger keep 20000
	keeper=$pid
	serve honest server "$ADDR" "$port"
	meanwhile 4 true
	[[ $told =~ ^got\ 1\ joins,\ ([0-9]+)\ streams,\ 0\ descriptors$ ]]
	[ "${BASH_REMATCH[1]}" -gt 0 ]
	[ "$(went '[rt]x_shm' "$t/client.report")" = 0 ]
	rm "$t/client.report"
	kill "$keeper"
	for _ in {1..100}; do
		! grep -q "@sockrail-6/tcp4:$ADDR:$port\$" /proc/net/unix || break
		sleep 0.05
	done
	client
	linked
}

# keeper SIGNAL: to the process that holds the address's name
keeper() {
	local pids
	pids=$(ss -xlpH | sed -n "s/.*@sockrail.*:$port\/keeper .*pid=\([0-9]*\).*/\1/p")
	kill -"$1" "$pids"
}

# found N: has the stranger been asked for streams N times?
found() { [ "$(grep -cx found "$t/stranger.out")" -ge "$1" ]; }

# connected: is the client's stream there?
connected() { ss -tnH state established dst "$ADDR:$port" | grep .; }

# meant HOW: while the server has not accepted the client's stream, a process that was
# root's when it joined the keeper says that it has it
meant() {
	local asker client=(python3 -c '
import os, select, socket, sys
with socket.socket() as stream:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    stream.bind((sys.argv[1], int(sys.argv[3] or 0)))
    stream.connect((sys.argv[1], int(sys.argv[2])))
    left = 20
    while left:
        stream.sendall(bytes(5000))
        missing = 5000
        while missing:  # a stream asks again in calls
            if select.select([stream], [], [], 0.05)[0]:
                got = len(stream.recv(missing))
                if not got:
                    raise EOFError
                missing -= got
        left -= os.path.exists(os.environ["HOLD"] + "/go")
')
	export HOLD=$t
	mkfifo "$t/port"
	SOCKRAIL_UPGRADE=wait REPORT=$t/server.report start server rail timeout 100 \
		"$PROGS/reason_heir" server late-echo "$ADDR" "$t/port"
	read -r port <"$t/port"
	[ "$1" != unread ] || keeper STOP
	stranger heir "$1"
	SOCKRAIL_UPGRADE=eager SOCKRAIL_LOG=info REPORT=$t/client.report \
		start client rail timeout 100 "${client[@]}" \
		"$ADDR" "$port" "$(sed -n '/^[0-9]*$/p' "$t/stranger.out")"
	asker=$pid
	if [ "$1" = unread ]; then
		holds 60 connected
		keeper CONT
	fi
	# Each time the keeper waits 30 ms for the answer, which may be too short once.
	holds 60 found 3
	sleep 0.1 # an asker would have been sent by then
	: >"$t/accept"
	holds 60 grep 'link shm up' "$t/client.err"
	: >"$t/go"
	pid=$asker
	await
	run -1 grep called "$t/stranger.out"
	[ "$(went tx_shm "$t/client.report")" -ge 70000 ]
}

@test "a worker that has become another user says that it has a stream: nobody goes there" {
	meant have
}

@test "a worker that has become another user claims a stream: nobody goes there" {
	meant claim
}

@test "a worker that has become another user had claimed a stream of that name: nobody goes there" {
	meant reuse
}

@test "a worker had claimed a stream of that name, and the keeper reads it late: nobody goes there" {
	meant unread
}

# The socket that listens is root's, the one that is accepted the other user's.
@test "a server that has its socket from root, and accepts late" {
	users
	start server rail timeout 100 python3 -c '
import os, socket, sys, time
with socket.socket() as listener:
    listener.bind((sys.argv[1], int(sys.argv[2])))
    os.setgroups([])
    os.setegid(65533)
    os.seteuid(65533)
    listener.listen()
    print("ready", flush=True)
    while not os.path.exists(sys.argv[3]):
        time.sleep(0.01)
    conn, _ = listener.accept()
    while data := conn.recv(65536):
        conn.sendall(data)
' "$ADDR" "$port" "$t/go"
	said server ready
	(sleep 0.3 && : >"$t/go") &
	# Policy wait does not wait for that: the link comes later, to a client that talks on.
	REPORT=$t/client.report rail timeout 100 \
		python3 "$SR_TOP/tests/lib/workers.py" steady 20 "$ADDR" "$port"
	[ "$(went '[rt]x_shm' "$t/client.report")" -gt 3000000 ]
}

# served FIRST: two processes accept at a socket of root's, the second one of www-data,
# the first one FIRST's; root and another user have links with both
served() {
	users
	local uid
	mkdir "$t/open"
	for uid in 0 1000; do
		start "server$uid" rail timeout 100 python3 -c '
import os, socket, sys
def become(uid):
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
def echo(conn):
    while data := conn.recv(65536):
        conn.sendall(data)
        os.write(write, b"x")
read, write = os.pipe()
with socket.socket() as listener:
    listener.bind((sys.argv[1], int(sys.argv[2])))
    listener.listen()
    if not os.fork():
        become(33)
        os.read(read, 1)
    else:
        become(int(sys.argv[3]))
    print("ready", flush=True)
    while True:
        echo(listener.accept()[0])
' "$ADDR" "$port" "$1"
		said "server$uid" ready
		SOCKRAIL_UPGRADE_WAIT_MS=8000 REPORT=$t/open/report rail timeout 100 \
			python3 -c '
import os, socket, sys, time
os.setgroups([])
os.setgid(int(sys.argv[3]))
os.setuid(int(sys.argv[3]))
def talk(s):
    s.sendall(bytes(10000))
    left = 10000
    while left:
        left -= len(s.recv(65536))
held = []
for i in range(2):
    s = socket.socket()
    s.connect((sys.argv[1], int(sys.argv[2])))
    held.append(s)
    talk(s)
end = time.monotonic() + 3  # as long as a link may take that is not there at once
while time.monotonic() < end:
    time.sleep(0.01)
    talk(held[0])
    talk(held[1])
' "$ADDR" "$port" "$uid"
		[ "$(grep -c '"link":"shm"' "$t/open/report")" = 2 ] || { cat "$t/open/report"; return 1; }
		rm "$t/open/report"
		stop_all
		port
	done
}

@test "a server of www-data with a socket from root: links with root and another user" {
	served 33
}

@test "a process of root's, and one of www-data that joins it: links with both" {
	served 0
}
