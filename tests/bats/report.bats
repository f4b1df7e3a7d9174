#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# SOCKRAIL_REPORT: exact counts, and why a stream stayed or became plain.

# shellcheck disable=SC2154,SC2034 # set by bats and by what is loaded; read by case.bash
load ../lib/common
load ../lib/case

teardown() { stop_all; }

# run_pair SERVER-POLICY CLIENT-POLICY PROGRAM CASE [SOCKRAIL_NAME=VALUE...]
run_pair() {
	dir=$BATS_TEST_TMPDIR/$4.$RANDOM
	pair "$dir" "$@"
}

value() { reported "$dir" "$@"; }

# is ROLE KEY VALUE: in the report of run_pair; VALUE is a pattern of [[
is() {
	local v
	v=$(value "$1" "$2")
	# shellcheck disable=SC2053
	[[ $v = $3 ]] && return 0
	echo "$1 $2 is $v, not $3" >&2
	tail -n 20 "$dir"/*.report "$dir"/*.log >&2
	return 1
}

@test "bytes, addresses, names: exactly" {
	run_pair wait wait basic upload
	is connect tx_"$SR_TEST_LINK" 10485760
	is connect rx_"$SR_TEST_LINK" 4
	is connect tx_plain 0
	is connect rx_plain 0
	is accept rx_"$SR_TEST_LINK" 10485760
	is accept tx_"$SR_TEST_LINK" 4
	is accept tx_plain 0
	is accept rx_plain 0
	is connect program '*basic'
	is connect reason null
	is connect error null
	is connect link "$SR_TEST_LINK*"
	is connect peer "$ADDR:*"
	is accept local "$(value connect peer)"
	is accept peer "$(value connect local)"
	[ "$(value accept pid)" != "$(value connect pid)" ]
}

@test "a worker that writes over its name is still of its program" {
	compare process renamed -w any
	local mode=${SR_TEST_MODES%% *}
	[ "$(reported "$BATS_TEST_TMPDIR/renamed.$mode" accept program)" = process ]
}

@test "never: all plain, counted all the same" {
	run_pair never never basic upload
	is connect tx_plain 10485760
	is connect rx_plain 4
	is accept rx_plain 10485760
	is accept tx_plain 4
	is connect link plain
	is connect switches 0
	is connect reason never
	is accept reason never
}

@test "LINKS=none: off" {
	run_pair wait wait basic chat SOCKRAIL_LINKS=none
	is connect reason off
	is accept reason off
	is connect link plain
}

@test "lazy starts plain and goes on by link" {
	[ "$SR_TEST_LINK" = shm ] || skip "10 MB are over before there is a queue pair"
	run_pair lazy lazy basic big SOCKRAIL_UPGRADE_BYTES=300k
	[ "$(value connect tx_plain)" -ge 300000 ]
	[ "$(value connect tx_"$SR_TEST_LINK")" -ge 1000000 ]
	[ "$(($(value connect tx_plain) + $(value connect tx_"$SR_TEST_LINK")))" = \
		"$(($(value accept rx_plain) + $(value accept rx_"$SR_TEST_LINK")))" ]
	is connect reason null
}

@test "only the client: no-listener; only the server: not-asked" {
	run_pair none wait basic upload
	is connect reason no-listener
	is connect tx_plain 10485760
	run_pair wait none basic upload
	is accept reason not-asked
	is accept rx_plain 10485760
}

@test "fdopen: stdio" {
	run_pair wait wait process stdio
	is accept reason stdio
}

@test "an end that was a reset names its errno" {
	run_pair wait wait reset unread
	is connect error ECONNRESET
	run_pair never never reset unread
	is connect error ECONNRESET
}

@test "lines of many streams in one file are whole JSON objects" {
	need python3
	run_pair wait wait thread echo64 SOCKRAIL_UPGRADE_WAIT_MS=20000
	[ "$(wc -l <"$dir/server.report")" = 64 ]
	cat "$dir"/*.report | python3 -c '
import json, sys
n = 0
for line in sys.stdin:
    o = json.loads(line)
    n += 1
    assert isinstance(o["pid"], int) and isinstance(o["program"], str), o
    for k in o:
        if k[:3] in ("tx_", "rx_") or k == "switches":
            assert isinstance(o[k], int) and o[k] >= 0, o
    assert o["role"] in ("connect", "accept") and o["reason"] is None, o
assert n == 128, n'
}

@test "a child uses the epoll set that it inherited: epoll" {
	run_pair wait wait epoll_process heir
	is connect reason epoll
}

# warned DIR PATTERN [HALF]: both ends ended well, and each, or that one, said once that it
# cannot write to it
warned() {
	local half halves=${3:-server client}
	[ "$(cat "$1"/*.status)" = $'0\n0' ]
	for half in $halves; do
		[ "$(cat "$1/$half".{err,log} 2>/dev/null | grep -c "warn: .*$2")" = 1 ]
	done
}

@test "a report or a log that is neither file nor device: a warning, and no wait" {
	local name=$BATS_TEST_TMPDIR/fifo
	mkfifo "$name"
	run_pair wait wait thread echo64 SOCKRAIL_REPORT="$name"
	warned "$dir" "$name"
	exec {fd}<>"$name" # a reader, who does not read
	run_pair wait wait thread echo64 SOCKRAIL_REPORT="$name"
	warned "$dir" "$name"
	run_pair wait wait basic chat SOCKRAIL_LOG_FILE="$name"
	warned "$dir" "$name"
	run ! read -rt 0.1 -u "$fd"
}

@test "a report or a log that is a symbolic link is not followed" {
	local name=$BATS_TEST_TMPDIR/link target=$BATS_TEST_TMPDIR/target
	ln -s "$target" "$name"
	run_pair wait wait basic chat SOCKRAIL_REPORT="$name"
	warned "$dir" "$name.*ELOOP"
	: >"$target"
	run_pair wait wait basic chat SOCKRAIL_LOG_FILE="$name"
	warned "$dir" "$name.*ELOOP"
	[ ! -s "$target" ]
}

@test "RLIMIT_FSIZE: a warning, and no SIGXFSZ" {
	local name=$BATS_TEST_TMPDIR/full
	[ "${SR_TEST_SANITIZER:-}" != thread ] || skip "its own run-time library crashes"
	head -c 2000 /dev/zero >"$name"
	(ulimit -f 1 && pair "$name.report" wait wait basic chat \
		SOCKRAIL_REPORT="$name" SOCKRAIL_LOG=warn)
	warned "$name.report" "$name.*EFBIG"
	# There is no link, of which the server could say anything.
	(ulimit -f 1 && pair "$name.log" wait wait basic chat SOCKRAIL_LOG_FILE="$name")
	warned "$name.log" "$name.*EFBIG" client
}

# once DIR: no stream has two lines of one end
once() {
	local twice
	twice=$(cat "$1"/*.report | sed 's/.*"role":\("[a-z]*","local":"[^"]*","peer":"[^"]*"\).*/\1/' |
		sort | uniq -d)
	[ -z "$twice" ] || { echo "twice: $twice"; return 1; }
}

# all_said CASE LINES: each stream has its line, and one, and no timer has come to it.  (Only
# the service thread gathers, and in policy lazy it has nothing to do.)
all_said() {
	compare report "$1" -m wait -w some -r 'short|not-asked|exec' -n "$2" \
		SOCKRAIL_REPORT_MS=3600000
	[[ " $SR_TEST_MODES " != *" wait "* ]] || once "$BATS_TEST_TMPDIR/$1.wait"
}

@test "many streams, and the end of the process: by exit, by _exit, by quick_exit" {
	all_said exit 100
	all_said _exit 100
	all_said quick_exit 100
	all_said thread 100
}

@test "many streams, and _exit in a handler while they end" {
	needs_signals
	all_said handler 200
}

@test "many streams, and another program in the process" {
	all_said exec 100
}

@test "many streams, and children at any time, with streams of their own" {
	all_said fork 220
}

@test "many streams: lines are gathered, and written within SOCKRAIL_REPORT_MS" {
	local name=$BATS_TEST_TMPDIR/on
	run_pair wait wait report killed SOCKRAIL_REPORT_MS=3600000
	[ "$(cat "$dir"/*.report | wc -l)" -lt 100 ]
	run_pair lazy lazy report killed SOCKRAIL_REPORT_MS=0
	[ "$(cat "$dir"/*.report | wc -l)" = 200 ]
	# What runs on has its lines written, too.
	pair "$name" wait wait report on &
	sr_started+=("$!")
	holds 60 has_lines "$name/server.report" 100
	holds 60 has_lines "$name/client.report" 100
	: >"$name/enough"
	wait "$!"
	[ "$(cat "$name"/*.report | wc -l)" = 200 ]
	[ "$(cat "$name"/*.status)" = $'0\n0' ]
}

@test "--require: each line is written at once" {
	local -x SOCKRAIL_REPORT_MS=3600000
	case_under=("$SOCKRAIL" --require)
	run_pair lazy lazy report killed
	[ "$(cat "$dir"/*.report | wc -l)" = 200 ]
}

@test "a server's child that becomes another user: its line is there" {
	local name=$BATS_TEST_TMPDIR/secret
	users
	(umask 077 && : >"$name")
	run_pair lazy lazy report user server:SOCKRAIL_REPORT="$name"
	[ "$(grep -c '"role":"accept"' "$name")" = 2 ]
	run ! grep -s EACCES "$dir"/*.log "$dir"/*.err
}

@test "a program that becomes another user before it has a stream: its line is there" {
	local name=$BATS_TEST_TMPDIR/secret
	users
	(umask 077 && : >"$name")
	run_pair lazy lazy basic chat client:CASE_UID=65533 client:SOCKRAIL_REPORT="$name"
	[ "$(grep -c '"role":"connect"' "$name")" = 1 ]
}
