#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A peer on the same host that breaks off or lies while a link is made: the
# program's stream is as over TCP, and the report says what was wrong.

# shellcheck disable=SC2034 # read by what is loaded
load ../../lib/common
load ../../lib/case

SR_TEST_LINK=shm

# All of them first, beside each other: some take seconds, for nothing happens.
# What the two said is in $BATS_FILE_TMPDIR/answer.HOW and ask.HOW.
setup_file() {
	command -v python3 >/dev/null || return 0
	local how
	for how in other-user foreign foreign-file foreign-more foreign-doorbell silent no-ack not-sealed one-only hang-up other-word no-hello other-version drop plain; do
		beside meet answer "$how" || true # its test will say so
	done
	for how in other-user no-user foreign foreign-doorbell other-name other-offer other-role no-mark other-mark end-lost plain; do
		beside meet ask "$how" || true
	done
	joined || true
}

setup() { need python3; }
teardown_file() { stop_all; }

# meet answer|ask HOW: the impostor, and an honest client or server, which is under
# Sockrail if the impostor asks for a link, or takes requests
meet() {
	local t=$BATS_FILE_TMPDIR/$1.$2 port streams=1
	local impostor=(python impostor "$1" "$2") honest=(rail timeout 100 python3 "$SR_TOP/tests/lib/echo.py")
	local -x REPORT=$t/report SOCKRAIL_LOG=debug SOCKRAIL_LOG_FILE=$t/log SOCKRAIL_UPGRADE_WAIT_MS=6000
	mkdir "$t"
	[ "$2" != end-lost ] || streams=2
	[ "$2" != plain ] || unset 'honest[0]'
	port
	if [ "$1" = answer ]; then
		"${impostor[@]}" "$ADDR" "$port" >"$t/server.out" 2>"$t/err" </dev/null &
		listening "$port" && "${honest[@]}" client "$ADDR" "$port" 1 >"$t/out" 2>"$t/client.err"
	else
		"${honest[@]}" server "$ADDR" "$port" $streams >"$t/server.out" 2>"$t/server.err" </dev/null &
		listening "$port" && "${impostor[@]}" "$ADDR" "$port" >"$t/out" 2>"$t/err"
	fi
	wait $!
}

python() { timeout 100 python3 "$SR_TOP/tests/lib/$1.py" "${@:2}"; }

# ends DIR ROLE REASON: of the only stream in the report, of which no byte went by a
# link; the impostor was content with its peer on TCP
ends() {
	[ ! -s "$1/err" ] && reason_is "$1" "$2" "$3" &&
		[ "$(went '[rt]x_shm' "$1/report")" = 0 ] && return 0
	tail -n 20 "$1"/*
	return 1
}

# answered HOW REASON: what the client said and what became of its stream
answered() {
	local t=$BATS_FILE_TMPDIR/answer
	diff "$t.plain/out" "$t.$1/out"
	ends "$t.$1" connect "$2"
}

# asked HOW ANSWER REASON: what the impostor was told, and the server's stream
asked() {
	local t=$BATS_FILE_TMPDIR/ask
	grep -x "all came back" "$t.plain/out"
	grep -x "all came back" "$t.$1/out" || { tail -n 20 "$t.$1"/*; return 1; }
	grep -x "the answer: $2" "$t.$1/out"
	ends "$t.$1" accept "$3"
}

@test "the answerer hangs up: no-match" {
	answered hang-up no-match
}

@test "the answerer says no word that is known: refused" {
	answered other-word refused
}

@test "the answerer says nothing: timeout" {
	answered silent timeout
}

@test "the answerer's memory can be shrunk: protocol" {
	answered not-sealed protocol
}

@test "the answerer's ok lacks a descriptor: descriptors" {
	answered one-only descriptors
}

@test "the answerer says ok, and goes: peer-dropped" {
	answered no-hello peer-dropped
}

@test "the answerer's hello is of another version: protocol" {
	answered other-version protocol
}

@test "the answerer goes between the handshake and the switch: peer-dropped" {
	answered drop peer-dropped
}

@test "the answerer never agrees to the switch: timeout" {
	answered no-ack timeout
}

@test "the asker means another connection: no-match" {
	asked other-name no-match not-asked
}

others() { [ "$(id -u)" = 0 ] || skip "only root can become others"; }

@test "the answerer is another user: it gets no offer" {
	others
	answered other-user user
}

@test "the asker is another user: it does not learn whether there is such a connection" {
	others
	asked other-user user not-asked
	asked no-user user not-asked
}

@test "the asker is another user, and the stream is its own: a link" {
	others
	asked foreign ok peer-dropped
}

@test "the asker is such a user, and sends descriptors over the link: they stay unread" {
	others
	asked foreign-doorbell ok peer-dropped
}

@test "the answerer is another user, and the stream is its own: a link" {
	others
	answered foreign peer-dropped
}

@test "the answerer is such a user, and its ok has another file, or more: no link" {
	others
	answered foreign-file protocol
	answered foreign-more descriptors
}

@test "the answerer is such a user, and sends descriptors over the link: they stay unread" {
	others
	answered foreign-doorbell peer-dropped
}

@test "the asker's offer is of another version: protocol" {
	asked other-offer protocol not-asked
}

@test "the asker's hello has the wrong role: protocol" {
	asked other-role ok protocol
}

@test "the asker goes between the switch and the mark: peer-dropped" {
	asked no-mark ok peer-dropped
}

@test "the asker's mark is not ours: its bytes are the program's" {
	asked other-mark ok peer-dropped
}

@test "the asker does not learn that its end has arrived: all comes again, and is dropped" {
	local t=$BATS_FILE_TMPDIR/ask.end-lost
	[ ! -s "$t/err" ] && grep -x "all came back" "$t/out" &&
		[ "$(went rx_shm "$t/report")" = 1000 ] && return 0
	tail -n 20 "$t"/*
	return 1
}
