#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Another user on the host of a client, or of a server, with RDMA: he asks and answers for
# streams that are not his (tests/faults/attack.c), and what he gets is counted.  Meanwhile
# others go on, and the stream that he wants; what comes back to them is compared.

# shellcheck disable=SC2034,SC2154 # read by what is loaded, set there
load ../../lib/common
load ../../lib/case
load ../../lib/real

export SOCKRAIL_UPGRADE=lazy SOCKRAIL_UPGRADE_BYTES=1000

setup() {
	if [ "$SR_TEST_DEVICE" = siw ]; then
		[[ $BATS_TEST_DESCRIPTION = "the ring of another"* ]] || skip "by the same code"
		export ATTACK_PORT_OFFSET=10000
	fi
	need python3 setpriv openssl
	[ -x "$SR_BUILD/tests/faults/attack" ] || skip "built without verbs"
	t=$BATS_TEST_TMPDIR
	chmod 666 /dev/infiniband/*
	chmod 777 "$t"
	local parent=$t
	while [ "$parent" != / ]; do
		parent=$(dirname "$parent")
		chmod o+x "$parent"
	done
	# A page that anybody can read, and what he cannot
	{ seq 1000 | head -c 1000; openssl rand -hex 8000; } >"$t/words"
	port
}
teardown() { stop_all; }


honest() { python3 "$SR_TOP/tests/lib/honest.py" "$1" "$ADDR" "$port" "${@:2}"; }

# attack NAME ARGUMENT...: what he got is in $told
attack() {
	setpriv --reuid 65533 --regid 65533 --clear-groups \
		"$SR_BUILD/tests/faults/attack" "$@" >"$t/attack.out" || { tail -n 5 "$t"/*.*; return 1; }
	told=$(tail -n 1 "$t/attack.out")
	echo "# ${*:1:2}: $told" >&3
}

# peace: a server, and clients with links that go on until all is over
peace() {
	REPORT=$t/server.report SOCKRAIL_LOG=info SOCKRAIL_LOG_FILE=$t/server.log \
		start server rail timeout 100 python3 "$SR_TOP/tests/lib/honest.py" server "$ADDR" "$port"
	said server ready
	REPORT=$t/client.report start client rail timeout 100 \
		python3 "$SR_TOP/tests/lib/honest.py" client "$ADDR" "$port" 2 "$t/over"
	client=$pid
	said client ready
}

# victims NUMBER [COMMAND...]: streams, whose ports are in $sport
victims() {
	start victims "${@:2}" timeout 100 python3 "$SR_TOP/tests/lib/honest.py" \
		script "$ADDR" "$port" "$1" "$t/over" "$t/words"
	victims=$pid
	said victims "ready [0-9 ]*"
	read -r -a sport < <(sed -n 's/^ready //p' "$t/victims.out")
}

# all_well: all have what is theirs, and the honest ones on a link
all_well() {
	: >"$t/over"
	for pid in $victims $client; do
		await || { tail -n 5 "$t"/*.*; return 1; }
	done
	tail -qn 1 "$t"/*.out | sed -n 's/.*streams, /# /p' >&3
	[ -z "$client" ] || [ "$(went tx_verbs "$t/client.report")" -gt 0 ]
}
victims='' client=''

# ask STREAM HOW ...
ask() { attack ask "$2" "$ADDR" "$port" "${sport[$1]}" "$t/words" "${@:3}"; }

# got ASKED LINKS SHARES TAGS SWITCHES ACKS BYTES MATCHES: patterns
got() {
	local want="asked $1, links $2, shares $3, tags $4, switches $5, acks $6, bytes $7, matches $8,"
	# shellcheck disable=SC2053
	[[ $told = $want* ]] || { echo "$told, and not: $want"; return 1; }
}

@test "asking for a stream: no byte, whatever he knows, and three guesses" {
	peace
	victims 5
	ask 0 silent 17000 # he knows all, and keeps it back
	got 5 5 5 0 0 0 0 0
	ask 1 counts 1000
	got 11 '*' 3 0 0 0 0 0
	[[ $told = *"refusal history" ]]
	ask 2 guess 1000
	got 5 3 3 0 0 0 0 0
	[[ $told = *"refusal history" ]]
	ask 3 record 17000 "$t/record" # he is shown the tag, and lacks TCP
	got 1 1 1 1 0 1 0 0
	ask 3 replay 0 "$t/record"
	got 1 1 1 0 0 0 0 0
	ask 4 replay 0 "$t/record"
	got 1 1 1 0 0 0 0 0
	all_well
}

@test "the ring of another stream of that server: no access, whoever knows its key" {
	SOCKRAIL_RING=128k:1m peace	# registered from the beginning
	victims 2
	ask 0 neighbour 1000 "${sport[1]}"
	[ "$told" = "writes to his ring 1, to his neighbour's 0" ]
	all_well
}

# false_answer HOW KNOWN TIMES: in a server's place; the client asks so often
false_answer() {
	rm -f "$t"/{attack,victims}.out "$t/over"
	attack answer "$1" "$ADDR" "$port" "$t/words" "$2" "$3" &
	local attacker=$!
	said attack ready
	SOCKRAIL_AGAIN_MS=100 REPORT=$t/$1.report victims 1 rail
	: >"$t/over.ticks"
	wait "$attacker"
	told=$(tail -n 1 "$t/attack.out")
	rm "$t/over.ticks"
}

@test "answering for a server without Sockrail: three guesses, and none afterwards" {
	start server timeout 100 python3 "$SR_TOP/tests/lib/honest.py" server "$ADDR" "$port"
	said server ready
	if [ "$(brief all few)" = all ]; then
		false_answer counts 1000 1
		got 1 0 0 0 0 0 0 0
		all_well
		[ "$(went '[rt]x_verbs' "$t/counts.report")" = 0 ]
	fi
	false_answer guess 1000 3
	got 3 0 3 3 0 0 0 0
	all_well
	[ "$(went '[rt]x_verbs' "$t/guess.report")" = 0 ]
	grep '"reason": *"history"' "$t/guess.report"
	# So that the counts show themselves of use: he knows all.
	false_answer take 17000 1
	got 1 0 1 1 1 0 '[1-9]*' 1
}

@test "a flood of requests: links go on, and are made" {
	local n
	n=$(brief 4000 800)
	peace
	victims 3 # some of the requests name these
	attack flood "$n" "$ADDR" "$port"
	got "$n" '*' 0 0 0 0 0 0
	all_well
}
