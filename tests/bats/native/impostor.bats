#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A peer on the same host that breaks off or lies while a link is made: the
# program's stream is as over TCP, and the report says what was wrong.

# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # set here, used there
load ../../lib/common

setup() {
	need python3
	SR_TEST_LINK=shm t=$BATS_TEST_TMPDIR
	port
}

teardown() { stop_all; }

python() { timeout 30 python3 "$SR_TOP/tests/lib/$1.py" "${@:2}"; }

# ends REASON: of the only stream in the report, of which no byte went by a link
ends() {
	[ "$(wc -l <"$REPORT")" = 1 ] && grep -E "\"reason\": *\"$1\"" "$REPORT" &&
		[ "$(went tx_shm)$(went rx_shm)" = 00 ] && return 0
	echo "not $1:"
	cat "$REPORT"
	tail -n 20 "$t/log"
	return 1
}

# logged COMMAND...: with a log
logged() { SOCKRAIL_LOG=debug SOCKRAIL_LOG_FILE=$t/log "$@"; }

# answered HOW REASON: a client under Sockrail, the impostor answers
answered() {
	local how under
	for how in plain "$1"; do
		under=(plain)
		[ "$how" = plain ] || under=(logged rail)
		port
		REPORT=$t/report.$how
		start server python impostor answer "$how" "$ADDR" "$port"
		listening "$port"
		SOCKRAIL_UPGRADE_WAIT_MS=6000 "${under[@]}" python3 "$SR_TOP/tests/lib/echo.py" \
			client "$ADDR" "$port" 1 >"$t/out.$how"
		await
	done
	[ ! -s "$t/server.err" ] || { cat "$t/server.err"; return 1; }
	diff "$t/out.plain" "$t/out.$how"
	ends "$2"
}

# asked HOW ANSWER REASON: an echo server under Sockrail, the impostor asks
asked() {
	local how under
	for how in plain "$1"; do
		under=(plain)
		[ "$how" = plain ] || under=(logged rail)
		port
		REPORT=$t/report.$how
		start server "${under[@]}" timeout 30 python3 "$SR_TOP/tests/lib/echo.py" \
			server "$ADDR" "$port" 1
		listening "$port"
		python impostor ask "$how" "$ADDR" "$port" >"$t/out.$how" ||
			{ tail -n 20 "$t/log"; return 1; }
		await
		grep -x "all came back" "$t/out.$how"
	done
	grep -x "the answer: $2" "$t/out.$how" || { cat "$t/out.$how"; return 1; }
	ends "$3"
}

@test "the answerer hangs up: refused" {
	answered hang-up refused
}

@test "the answerer says nothing: timeout" {
	answered silent timeout
}

@test "the answerer says ok, and goes: no-listener" {
	answered no-hello no-listener
}

@test "the answerer's hello is of another version: protocol" {
	answered other-version protocol
}

@test "the answerer shows another history: history" {
	answered other-history history
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

@test "the asker's offer is of another version: protocol" {
	asked other-offer protocol not-asked
}

@test "the asker's hello has the wrong role: protocol" {
	asked other-role ok protocol
}

@test "the asker shows another history: history" {
	asked other-proof ok history
}

@test "the asker goes between the switch and the mark: peer-dropped" {
	asked no-mark ok peer-dropped
}

@test "the asker's mark is not ours: its bytes are the program's" {
	asked other-mark ok peer-dropped
}
