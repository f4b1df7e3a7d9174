#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# sockrail-stat: what it shows of live processes, and what it makes of pages that it cannot
# trust.

# shellcheck disable=SC2154 # pid is set by what is loaded
load ../../lib/common

setup() {
	unset "${!SOCKRAIL_@}" LD_PRELOAD
	STAT=$SR_BUILD/sockrail-stat
}
teardown() {
	stop_all
	rm -rf "${dir:-$BATS_TEST_TMPDIR}"
}

# running [ENVIRONMENT]... [-- ARGUMENT]: the process with streams, in $pid
running() {
	local settings=()
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		settings+=("$1")
		shift
	done
	shift || :
	start streams env SOCKRAIL_LINKS=shm SOCKRAIL_REPORT="$BATS_TEST_TMPDIR/report" \
		"${settings[@]}" "$SOCKRAIL" "$SR_TOP/tests/lib/streams.py" "$@"
	until grep -q ready "$BATS_TEST_TMPDIR/streams.out"; do sleep 0.05; done
}

# figures [FILE]: role, counters and link of each stream, as JSON or report has them
figures() {
	python3 -c '
import json, sys
text = sys.stdin.read()
try:
    all = json.loads(text)["streams"]
except ValueError:
    all = map(json.loads, text.splitlines())
keys = ["role", "local", "peer", "link", "tx_plain", "tx_shm", "tx_verbs", "rx_plain",
        "rx_shm", "rx_verbs", "switches", "reason", "error"]
print("\n".join(sorted(str([s[k] for k in keys]) for s in all if s["role"] != "listen")))'
}

@test "its figures are those of the report" {
	running
	shown=$("$STAT" --json --pid="$pid" | figures)
	[[ $shown = *"'shm', "* ]]
	kill -USR1 "$pid"
	until grep -q closed "$BATS_TEST_TMPDIR/streams.out"; do sleep 0.05; done
	until [ "$(wc -l <"$BATS_TEST_TMPDIR/report")" = 2 ]; do sleep 0.05; done
	[ "$shown" = "$(figures <"$BATS_TEST_TMPDIR/report")" ]
}

@test "ended streams stay in their process's totals" {
	running
	kill -USR1 "$pid"
	until grep -q closed "$BATS_TEST_TMPDIR/streams.out"; do sleep 0.05; done
	until [ "$(wc -l <"$BATS_TEST_TMPDIR/report")" = 2 ]; do sleep 0.05; done
	run -0 --separate-stderr "$STAT" --json --pid="$pid"
	[[ $output = *'"made":3,"ended":2,"ended_linked":2,'* ]]
	run -0 --separate-stderr "$STAT" --openmetrics --pid="$pid"
	sum=$(awk '/^sockrail_tx_(plain|shm)_bytes_total/ { n += $2 } END { print n }' <<<"$output")
	[ "$sum" = 600000 ]
}

@test "so does one whose connect did not block, without a report" {
	start streams env SOCKRAIL_LINKS=shm "$SOCKRAIL" python3 -uc '
import select, socket, time
server = socket.create_server(("127.0.0.1", 0))
client = socket.socket()
client.setblocking(False)
client.connect_ex(server.getsockname())
select.select([], [client], [])
client.send(b"x" * 100)
client.close()
print("ready")
time.sleep(60)'
	until grep -q ready "$BATS_TEST_TMPDIR/streams.out"; do sleep 0.05; done
	run -0 --separate-stderr "$STAT" --json --pid="$pid"
	[[ $output = *'"made":2,"ended":1,"ended_linked":0,"tx_plain":100,'* ]]
}

@test "a plain stream has its reason, and the summary says what to do" {
	running SOCKRAIL_UPGRADE=never
	run -0 --separate-stderr "$STAT" -H --pid="$pid"
	[ "${#lines[@]}" = 2 ]
	[[ ${lines[0]} = plain*300k*never ]]
	run -0 --separate-stderr "$STAT" --summary --pid="$pid"
	[[ $output = *"2  never: "*"To do: A knob or a rule says so: sockrail --show-config"* ]]
}

@test "the size of a ring, while a stream is on a link" {
	running SOCKRAIL_RING=32k:32k
	run -0 --separate-stderr "$STAT" -iH --pid="$pid"
	[ "$(grep -c ' tx_ring:32.8k$' <<<"$output")" = 2 ]
	[ "$(grep -c ' rx_ring:32.8k$' <<<"$output")" = 2 ]
	run -0 --separate-stderr "$STAT" --prometheus --pid="$pid"
	[[ $output = *"sockrail_tx_ring_bytes{program=\"python3\",pid=\"$pid\"} 65536"* ]]
	kill "$pid"
	running SOCKRAIL_UPGRADE=never
	run -0 --separate-stderr "$STAT" --json --pid="$pid" state plain
	[ "$(grep -c '"tx_ring":0,.*"rx_ring":0,' <<<"$output")" = 2 ]
}

@test "a stopped process is shown, a killed one is not" {
	running
	kill -STOP "$pid"
	run -0 --separate-stderr "$STAT" -H --pid="$pid"
	[ "$(grep -c '^shm ' <<<"$output")" = 2 ]
	kill -KILL "$pid"
	wait "$pid" || :
	run -1 "$STAT" --pid="$pid"
	[[ $output = "sockrail-stat: process $pid: No such process" ]]
	run -0 "$STAT" -p
	[[ $output != *"pid=$pid,"* ]]
}

@test "a child of fork has a page of its own" {
	running -- fork
	until [ "$(grep -c ready "$BATS_TEST_TMPDIR/streams.out")" = 2 ]; do sleep 0.05; done
	child=$(pgrep -P "$pid")
	shown=$("$STAT" --json --pid="$pid")
	[[ $shown = *'"made":3,'* ]]
	run -0 --separate-stderr "$STAT" --json --pid="$child"
	# Two of its own, and the listener, which it has used.  What it has inherited and
	# not used is the parent's to show.
	[[ $output = *'"made":3,'* ]]
	[ "$(grep -o '"tx_plain":[0-9]*,"tx_shm":[0-9]*' <<<"$output" |
		awk -F'[:,]' '{ n += $2 + $4 } END { print n }')" = 600000 ]
	kill "$child"
}

@test "a child of fork has none of its parent's stalls" {
	start streams env SOCKRAIL_LINKS=shm SOCKRAIL_UPGRADE=wait \
		SOCKRAIL_ANSWER_MS="$sr_answer_ms" "$SOCKRAIL" python3 -uc '
import os, socket, threading, time
listener = socket.create_server(("127.0.0.1", 0))
ends = []
def take():
    ends.append(listener.accept()[0])
    ends[0].recv(1)
taker = threading.Thread(target=take)
taker.start()
client = socket.create_connection(listener.getsockname())
client.sendall(b"x")
taker.join()
client.setblocking(False)
try:
    while client.send(b"x" * 100000):
        pass
except BlockingIOError:
    pass
while True:
    try:
        ends[0].recv(1 << 20, socket.MSG_DONTWAIT)
    except BlockingIOError:
        break
client.setblocking(True)
if os.fork() == 0:
    for i in range(20):
        client.send(b"x")
    print("ready", os.getpid())
else:
    client.close()
    ends[0].recv(1)
time.sleep(60)'
	until grep -q ready "$BATS_TEST_TMPDIR/streams.out"; do sleep 0.05; done
	until [[ $("$STAT" --json --pid="$pid") =~ \"ended\":1,[^{]*\"stalls\":([0-9]+) ]]; do
		sleep 0.05
	done
	[ "${BASH_REMATCH[1]}" -ge 1 ]
	child=$(awk '/ready/ { print $2 }' "$BATS_TEST_TMPDIR/streams.out")
	run -0 --separate-stderr "$STAT" --json --pid="$child"
	[[ $output = *'"tx_plain":20,'* ]]
	[ "$(grep -c '"stalls":[1-9]' <<<"$output")" = 0 ]
	kill "$child"
}

@test "users, filters and the listening socket in ss's words" {
	running
	port=$(awk '/ready/ { print $2 }' "$BATS_TEST_TMPDIR/streams.out")
	run -0 --separate-stderr "$STAT" -H -p sport = :"$port"
	[ "${#lines[@]}" = 1 ]
	[[ $output = shm*"127.0.0.1:$port "*"users:((\"python3\",pid=$pid,fd="*"))" ]]
	run -0 --separate-stderr "$STAT" -H dst 127.0.0.0/8:"$port" and state shm
	[ "${#lines[@]}" = 1 ]
	run -0 --separate-stderr "$STAT" -H dst 128.0.0.0/8:"$port"
	[ -z "$output" ]
	run -0 --separate-stderr "$STAT" -H sport = :"$port" and qp = 17 # over shared memory it has none
	[ -z "$output" ]
	run -0 --separate-stderr "$STAT" -lntH src :"$port"
	[[ $output = listen*"127.0.0.1:$port "* ]]
	for words in 'source :80' 'sport = :http' 'dport =' 'src 1.2.3/8' 'state up' 'qp = 1x'; do
		# shellcheck disable=SC2086 # words
		run -2 "$STAT" $words
		[ "${#lines[@]}" = 1 ]
	done
	run -2 "$STAT" --pid=me
	run -2 "$STAT" --output=file
	for words in 'sport > :80' 'state established' 'sport = :80 or dport = :80' \
		'( sport = :80 )' exclude; do
		# shellcheck disable=SC2086 # words
		run -2 "$STAT" $words
		[ "${#lines[@]}" = 1 ]
	done
	run -2 "$STAT" 'sport = :80'
	[ "$output" = "sockrail-stat: filter: sport = :80: not src, dst, sport, dport, state, qp or and" ]
}

@test "options that do not go together: one line that names both, status 2" {
	for pair in --json,--openmetrics --summary,--prometheus --watch,--json --watch,--summary \
		--listening,--json; do
		run -2 timeout 100 "$STAT" "${pair%,*}" "${pair#*,}"
		[ "$output" = "sockrail-stat: ${pair/,/ and } do not go together" ]
	done
	run -0 "$STAT" --json --json
}

@test "80 columns hold all but long names" {
	running
	need script
	run -0 script -qec "stty cols 80 rows 24; '$STAT' -pi --pid=$pid; '$STAT' --summary --pid=$pid" /dev/null
	[ "$(expand <<<"${output//$'\r'/}" | awk 'length > 80' | wc -l)" = 0 ]
	kill "$pid"
	running SOCKRAIL_LINKS=none
	run -0 --separate-stderr "$STAT" --summary --pid="$pid"
	[ "$(awk 'length > 79' <<<"$output")" = "" ]
	[[ $output = *"       2  off: SOCKRAIL_LINKS names no kind of link that leads to the peer
          To do: SOCKRAIL_LINKS, or links= in a rule, leaves out the kind that
          leads there: sockrail --show-config. To pods or containers of this
          host: SOCKRAIL_DIR" ]]
}

@test "--watch shows bytes per second" {
	running
	run -124 --separate-stderr timeout 4 "$STAT" --watch=0.2 -H --pid="$pid"
	[[ $output = *"shm            0      0 127.0.0.1:"* ]]
	run -1 "$STAT" --watch=0.2 --pid=999999
	local streams=$pid
	start watch "$STAT" --watch=0.2 --pid="$streams"
	until [ -s "$BATS_TEST_TMPDIR/watch.out" ]; do sleep 0.05; done
	kill -KILL "$streams"
	status=0
	await || status=$?
	[ "$status" = 1 ]
	[ "$(<"$BATS_TEST_TMPDIR/watch.err")" = "sockrail-stat: process $streams: No such process" ]
}

@test "OpenMetrics in a file, whole and well-formed" {
	running
	file=$BATS_TEST_TMPDIR/sockrail.prom
	run -0 "$STAT" --openmetrics --output="$file"
	[ "$(stat -c %a "$file")" = 644 ]
	[ "$(ls "$file"*)" = "$file" ]
	[ "$(tail -n 1 "$file")" = "# EOF" ]
	# Each sample belongs to the family above it; a counter ends in _total.
	awk '
		/^# TYPE / { family = $3; type = $4; if (seen[family]++) exit 1; next }
		/^# UNIT / { if ($3 != family || substr(family, length(family) - length($4)) != "_" $4) exit 1; next }
		/^# HELP / || /^# EOF/ { next }
		{ want = family (type == "counter" ? "_total" : "")
		  if (!match($0, /^[a-z_]+(\{[^}]*\})? [0-9]+$/) ||
		      substr($0, 1, length(want)) != want) { print; exit 1 } }' "$file"
	run -1 "$STAT" --json --pid="$pid" --output=/nowhere/file
	[[ $output = "sockrail-stat: /nowhere/file: No such file or directory" ]]
	command -v promtool >/dev/null || skip "promtool is not installed: format checked, not linted"
	"$STAT" --prometheus | promtool check metrics
}

@test "another user's process is counted, not shown" {
	[ "$(id -u)" = 0 ] || skip "needs root"
	need setpriv
	running
	dir=$(mktemp -d) # which nobody can reach
	cp "$STAT" "$dir/stat"
	chmod 755 "$dir"
	run -0 --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups "$dir/stat" -p
	[[ $output != *"pid=$pid,"* ]]
	# shellcheck disable=SC2154 # set by run
	[[ $stderr = *" of other users not shown" ]]
	run -1 setpriv --reuid=65534 --regid=65534 --clear-groups "$dir/stat" --pid="$pid"
	[[ $output = "sockrail-stat: process $pid: Permission denied" ]]
}

@test "a page that is of another version, not sealed, or noise" {
	running
	for fd in /proc/"$pid"/fd/*; do
		[[ $(readlink "$fd") = /memfd:sockrail-stat* ]] && cat "$fd" >"$BATS_TEST_TMPDIR/page"
	done
	for how in other unsealed noise; do
		start "$how" "$SR_TOP/tests/lib/page.py" "$how" "$BATS_TEST_TMPDIR/page"
		until grep -q ready "$BATS_TEST_TMPDIR/$how.out"; do sleep 0.05; done
		declare "$how=$pid"
	done
	# shellcheck disable=SC2154 # declared above
	run -1 "$STAT" --pid="$other"
	[[ $output = "sockrail-stat: process $other runs another version of Sockrail (page 99, not "[0-9]*"): not shown" ]]
	# shellcheck disable=SC2154
	run -1 "$STAT" --pid="$unsealed"
	[[ $output = *"no streams, or runs without Sockrail" ]]
	# shellcheck disable=SC2154
	for form in -aip --summary --json --openmetrics; do
		run -0 --separate-stderr "$STAT" "$form" --pid="$noise"
		[[ $output != *$'\e'* ]]
	done
	"$STAT" --json --pid="$noise" | python3 -m json.tool >/dev/null
	"$STAT" --json 2>/dev/null | python3 -m json.tool >/dev/null
}

@test "queue pairs of two devices may have the same number" {
	running
	for fd in /proc/"$pid"/fd/*; do
		[[ $(readlink "$fd") = /memfd:sockrail-stat* ]] && cat "$fd" >"$BATS_TEST_TMPDIR/page"
	done
	start devices "$SR_TOP/tests/lib/page.py" devices "$BATS_TEST_TMPDIR/page"
	until grep -q ready "$BATS_TEST_TMPDIR/devices.out"; do sleep 0.05; done
	run -0 --separate-stderr "$STAT" --summary --pid="$pid"
	[[ $output = *"  2 queue pairs with 2 streams"* ]]
	run -0 --separate-stderr "$STAT" -H --pid="$pid" qp = 17
	[ "$(grep -c 'verbs:rxe[01]' <<<"$output")" = 2 ]
}

@test "a process without room for a page works as well" {
	start small bash -c 'ulimit -f 1000; exec "$@"' - "$SOCKRAIL" "$SR_TOP/tests/lib/streams.py"
	until grep -q ready "$BATS_TEST_TMPDIR/small.out"; do sleep 0.05; done
	run -1 "$STAT" --pid="$pid"
	[[ $output = *"no streams, or runs without Sockrail" ]]
}

@test "the examples of the manual run" {
	running
	while read -r line; do
		line=${line#.Dl [\$#] } line=${line/\/var\/lib\/prometheus\/node-exporter/$BATS_TEST_TMPDIR}
		# shellcheck disable=SC2086 # words
		run -0 "$STAT" ${line#sockrail-stat}
	done < <(grep '^\.Dl ' "$SR_TOP/man/sockrail-stat.1")
	[ -s "$BATS_TEST_TMPDIR/sockrail.prom" ]
}
