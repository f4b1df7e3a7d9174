#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The tests' own tests: what judges the reports fails when it should, and every
# case of the programs is used.

# shellcheck disable=SC2034 # read by what is loaded
load ../../lib/common
load ../../lib/case

setup() {
	SR_TEST_LINK=shm
	dir=$BATS_TEST_TMPDIR
}

# lines SERVER CLIENT: reports of one stream, as changed by sed scripts
lines() {
	echo '{"program":"s","pid":1,"role":"accept","local":"[::1]:5","peer":"[::1]:6","link":"shm","tx_plain":0,"tx_shm":70,"tx_verbs":0,"rx_plain":0,"rx_shm":90,"rx_verbs":0,"switches":2,"reason":null,"error":null}' |
		sed "$1" >"$dir/server.report"
	echo '{"program":"c","pid":2,"role":"connect","local":"[::1]:6","peer":"[::1]:5","link":"shm","tx_plain":0,"tx_shm":90,"tx_verbs":0,"rx_plain":0,"rx_shm":70,"rx_verbs":0,"switches":2,"reason":null,"error":null}' |
		sed "$2" >"$dir/client.report"
}

accepted() { way "$dir" "$1" "$2" 1 1 "${3:-none}"; }
differ() { ! same "$@"; }
refused() { ! way "$dir" "$1" "$2" 1 1 "${3:-none}"; }

@test "a report in which all went by the link passes" {
	lines '' ''
	accepted wait link
	accepted wait mixed
	accepted wait some
	accepted wait any
	accepted lazy link
}

@test "nothing by the link: in mode wait refused, unless nothing is known" {
	local plain='s/link":"shm"/link":"plain"/;s/_shm":/_plain":/g;s/_plain":0,//g;s/tx_plain":[0-9]*/&,"tx_shm":0/;s/rx_plain":[0-9]*/&,"rx_shm":0/'
	lines "$plain" "$plain"
	refused wait some
	accepted wait any
	accepted lazy some
	accepted eager some
	accepted nodevice some
	lines '' "$plain"
	accepted wait some
}

@test "missing, additional and empty reports are refused" {
	lines d ''
	refused wait link
	refused wait any
	lines '' d
	refused lazy link
	lines p ''
	refused eager link
	rm -f "$dir"/*.report
	refused wait link
	refused client link
	refused server link
}

@test "every key must be there" {
	for key in program pid role local peer link tx_plain tx_shm tx_verbs \
		rx_plain rx_shm rx_verbs switches reason error; do
		lines '' "s/\"$key\"/\"other\"/"
		refused wait any
	done
}

@test "plain bytes, another link, a reason: not all went by the link" {
	lines '' 's/tx_plain":0/tx_plain":1/'
	refused wait link
	lines 's/rx_plain":0/rx_plain":1/' ''
	refused wait link
	lines '' 's/reason":null/reason":"timeout"/'
	refused wait link
	lines '' 's/tx_verbs":0/tx_verbs":1/'
	refused wait any
	lines '' 's/link":"shm"/link":"plain"/'
	refused wait link
	lines '' 's/switches":2/switches":0/'
	refused wait link
}

@test "what one end sent the other received" {
	lines 's/rx_shm":90/rx_shm":89/' ''
	refused wait link
	refused lazy any
	lines '' 's/rx_shm":70/rx_shm":71/'
	refused eager any
	case_lossy=1 accepted eager any
}

@test "lazy with -L, and mixed, want some bytes on the link" {
	local none='s/_shm":[0-9]*/_shm":0/g;s/tx_plain":0/tx_plain":5/;s/rx_plain":0/rx_plain":5/'
	lines "$none" "$none"
	accepted lazy link
	refused wait mixed
	case_lazy=1 refused lazy link
	lines '' ''
	case_lazy=1 accepted lazy link
}

@test "one side alone: no link, and the reason is given" {
	local plain='s/link":"shm"/link":"plain"/;s/_shm":[0-9]*/_shm":0/g;s/tx_plain":0/tx_plain":90/'
	lines d ''
	refused client link
	lines d "$plain"
	refused client link
	lines d "$plain;s/reason\":null/reason\":\"no-listener\"/"
	accepted client link
	lines "$plain;s/reason\":null/reason\":\"no-listener\"/" d
	refused server link
	lines "$plain;s/reason\":null/reason\":\"not-asked\"/" d
	accepted server link
}

@test "a difference in output, error output or status is found" {
	mkdir "$dir/a" "$dir/b"
	for f in server client; do
		for k in out err status; do
			echo x | tee "$dir/a/$f.$k" >"$dir/b/$f.$k"
		done
	done
	same "$dir/a" "$dir/b"
	for f in server.out client.out server.err client.status; do
		echo y >"$dir/a/$f"
		differ "$dir/a" "$dir/b"
		echo x >"$dir/a/$f"
	done
}

@test "every case of every program is in a test" {
	local p c rc=0
	for p in "$SR_TOP"/tests/progs/*.c; do
		grep -q "struct tcp_case cases" "$p" || continue # not a program of cases
		p=$(basename "$p" .c)
		while read -r c; do
			grep -qrE "(((compare|pair .*|beside .*|held .*) $p|ends [^ ]+ [^ ]+|between|library|stranger|heir|changed|moves|late|all_said|coming|PROGS/$p\" server) $c|either ${c%-*})( |\$)" \
				--include=*.bats "$SR_TOP/tests/bats" ||
				{ echo "$p $c is nowhere"; rc=1; }
		done < <("$PROGS/$p" list)
	done
	return $rc
}
