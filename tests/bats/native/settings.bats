#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Files of settings, profiles, --show-config and --require, as a user meets them.

# shellcheck disable=SC2154 # set by bats and by what is loaded
load ../../lib/common

setup() {
	unset "${!SOCKRAIL_@}" LD_PRELOAD
	export SOCKRAIL_CONFIG_DIR=$BATS_TEST_TMPDIR/sockrail.d SOCKRAIL_LINKS=shm
	mkdir "$SOCKRAIL_CONFIG_DIR"
	rules=$BATS_TEST_TMPDIR/rules
}

teardown() { stop_all; }

# serve [NAME=VALUE...]: an echo server; its port in $port
serve() {
	export SOCKRAIL_ANSWER_MS=$sr_answer_ms # the machine may be busy
	rm -f "$BATS_TEST_TMPDIR/server.out"
	start server env "$@" "$SOCKRAIL" python3 -u -c '
import socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1])
while True:
    c, _ = s.accept()
    while d := c.recv(65536):
        c.sendall(d)
    c.close()'
	port=$(first_word server)
}

client='
import socket, sys
c = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for i in range(100):
    c.sendall(b"x" * 1000)
    n = 0
    while n < 1000: n += len(c.recv(1000 - n))
c.shutdown(socket.SHUT_WR); assert not c.recv(1)
sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)'

# ways FILE: bytes that the streams of a report sent by TCP, and by shared memory
ways() {
	python3 -c 'import json, sys
r = [json.loads(l) for l in open(sys.argv[1])]
print(sum(s["tx_plain"] for s in r), sum(s["tx_shm"] for s in r), r[0]["reason"])' "$1"
}

# run_client [OPTION...]: its report in $report
run_client() {
	report=$BATS_TEST_TMPDIR/client.report
	rm -f "$report"
	"$SOCKRAIL" -s report="$report" "$@" python3 -c "$client" "$port"
	ways=$(ways "$report")
	echo "$* $ways"
}

@test "a rule for an address, another for a port: the first one counts" {
	serve SOCKRAIL_UPGRADE=wait
	run_client -s upgrade=wait
	[ "$ways" = "0 100000 None" ]
	echo "connect 127.0.0.0/8:$port never" >"$rules"
	echo "connect :$port wait" >>"$rules"
	run_client -s upgrade=wait -s rules="$rules"
	[ "$ways" = "100000 0 never" ]
	# No stream but those of a rule.
	printf 'upgrade=never\nconnect :%s wait\n' "$port" >"$rules"
	run_client -s rules="$rules"
	[ "$ways" = "0 100000 None" ]
	printf 'upgrade=never\nconnect :1 wait\n' >"$rules"
	run_client -s rules="$rules"
	[ "$ways" = "100000 0 never" ]
	echo "connect [::1]:$port never" >"$rules"
	run_client -s upgrade=wait -s rules="$rules"
	[ "$ways" = "0 100000 None" ]
}

@test "a rule for what listens" {
	echo "listen 127.0.0.1 never" >"$rules"
	serve SOCKRAIL_UPGRADE=wait SOCKRAIL_RULES="$rules"
	run_client -s upgrade=wait -s upgrade_wait_ms=300
	[ "$ways" = "100000 0 no-listener" ]
	stop_all
	printf 'upgrade=never\nlisten *:1-65535 lazy\n' >"$rules"
	serve SOCKRAIL_RULES="$rules"
	run_client -s upgrade=wait
	[ "$ways" = "0 100000 None" ]
}

@test "the directory's files, a profile, the environment: what is set, and where" {
	echo 'spin_us=7' >"$SOCKRAIL_CONFIG_DIR/20-b.conf"
	printf 'spin_us=8\nmemory=9m\nlisten :22 never # ssh\n' >"$SOCKRAIL_CONFIG_DIR/10-a.conf"
	run -0 env SOCKRAIL_LOG=info "$SOCKRAIL" -s upgrade=eager -p throughput --show-config
	expected="UPGRADE=eager command line
LOG=info environment
MEMORY=1g */profiles/throughput.conf:*
SPIN_US=8 $SOCKRAIL_CONFIG_DIR/10-a.conf:1
listen :22 never $SOCKRAIL_CONFIG_DIR/10-a.conf:3"
	echo "$output"
	while read -r line; do
		found=
		while read -r have; do
			# shellcheck disable=SC2053 # a pattern
			[[ $(tr -s ' ' <<<"$have") = $line ]] && found=1
		done <<<"$output"
		[ -n "$found" ] || { echo "missing: $line"; false; }
	done <<<"$expected"
	[[ $output != *MEMORY=9m* && $output != *SPIN_US=7* ]]
}

@test "each profile that is installed is understood" {
	for profile in latency throughput memory safe; do
		run -0 --separate-stderr "$SOCKRAIL" --profile "$profile" -c
		[ -z "$stderr" ]
		[[ $output = *"/$profile.conf:"* ]]
	done
	for name in nonesuch ./nonesuch "$BATS_TEST_TMPDIR/none"; do
		run -125 --separate-stderr "$SOCKRAIL" --profile "$name" true
		[[ $stderr = "sockrail: -p $name: "*"No such file"* ]]
		[ "${#stderr_lines[@]}" = 1 ]
	done
	run -0 --separate-stderr env SOCKRAIL_PROFILE=nonesuch "$SOCKRAIL" true
	[[ $stderr = *nonesuch.conf*ENOENT* ]]
}

@test "mistakes: file, line and word, and the program runs" {
	printf '\nconnect :80 upgrad=never\n' >"$rules"
	run -0 --separate-stderr "$SOCKRAIL" -s rules="$rules" true
	[[ $stderr = *"$rules:2:"*'"upgrad"'* ]]
	[ "${#stderr_lines[@]}" = 1 ]
	# Whoever wants to know beforehand has a status.
	mkfifo "$BATS_TEST_TMPDIR/fifo"
	printf 'upgrade=never\0\n' >"$BATS_TEST_TMPDIR/zero"
	for wrong in "rules=$rules" upgrade=banana rules=/nowhere "rules=$BATS_TEST_TMPDIR/fifo" \
		rules=/etc "rules=$BATS_TEST_TMPDIR/zero" config_dir=/nowhere; do
		run -1 --separate-stderr timeout 10 "$SOCKRAIL" -s log=info -s "$wrong" --show-config
		[[ $stderr = *"warn: "* ]]
		[ "${#stderr_lines[@]}" = 1 ]
		[[ $output = *"command line"* && $output != *never* ]]
	done
	# The default need not be there.
	run -0 --separate-stderr env -u SOCKRAIL_CONFIG_DIR "$SOCKRAIL" true
	[ -z "$stderr" ]
}

@test "the example of the manual, and that of README.md, are understood" {
	sed -n '/^upgrade=never /,/^\.Ed/{/^\.Ed/!p;}' "$SR_TOP/man/sockrail.7" >"$rules"
	[ "$(wc -l <"$rules")" = 3 ]
	run -0 --separate-stderr "$SOCKRAIL" -s rules="$rules" --show-config
	[ -z "$stderr" ]
	[[ $output = *"UPGRADE=never"*"10.0.0.0/8:6379"*":5432"* ]]
	diff "$rules" <(sed -n 's/^    \(\(upgrade=never\|connect\|listen\) .*\)/\1/p' \
		"$SR_TOP/README.md") -b
}

@test "--require: status 3 and the reason if bytes went by TCP, else the command's" {
	serve SOCKRAIL_UPGRADE=wait
	run -0 "$SOCKRAIL" --require python3 -c "$client" "$port"
	[ -z "$output" ]
	run -7 "$SOCKRAIL" --require=shm python3 -c "$client" "$port" 7
	run -0 env SOCKRAIL_REQUIRE=shm "$SOCKRAIL" python3 -c "$client" "$port"
	run -3 "$SOCKRAIL" -s upgrade=lazy --require=shm python3 -c "$client" "$port"
	[[ $output = *"-> 127.0.0.1:$port: "*"bytes by TCP"*"1 of 1 streams"* ]]
	run -3 "$SOCKRAIL" --require=verbs python3 -c "$client" "$port"
	[[ $output = *"100000 bytes"* || $output = *"200000 bytes by shm"* ]]
	# shellcheck disable=SC2016 # the shell's own
	run -3 "$SOCKRAIL" -s links=none -r sh -c 'python3 -c "$0" "$1"; exit 5' "$client" "$port"
	[[ $output = *"200000 bytes by TCP: off: "* ]]
	# Nothing was proven.
	run -3 "$SOCKRAIL" --require true
	[[ $output = *"no stream"* ]]
	echo "connect :$port never" >"$rules"
	run -3 "$SOCKRAIL" -s rules="$rules" -r python3 -c "$client" "$port"
	[[ $output = *'no stream has moved a byte, except those with the reason "never"'* ]]
	# (nothing is what a variable of a script has that is not set)
	for kind in tcp ''; do
		run -125 "$SOCKRAIL" --require="$kind" true
		[ "$output" = "sockrail: --require=$kind: not link, verbs or shm" ]
	done
	run -0 env SOCKRAIL_REQUIRE= "$SOCKRAIL" true
}

@test "--require: ten streams are named, and the others counted" {
	serve
	many='
import socket, sys
for i in range(int(sys.argv[2])):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as c:
        c.sendall(b"x")
        c.recv(1)'
	run -3 "$SOCKRAIL" -s links=none -r python3 -c "$many" "$port" 13
	[ "$(grep -c 'bytes by TCP: off' <<<"$output")" = 10 ]
	[[ $output = *"and 3 more streams: "*"13 of 13 streams"* ]]
	run -3 "$SOCKRAIL" -s links=none -r python3 -c "$many" "$port" 10
	[ "$(grep -c 'bytes by TCP: off' <<<"$output")" = 10 ]
	[[ $output != *" more: "* ]]
}

@test "--require: the user's report file, the command's signals, statuses 126 and 127" {
	serve SOCKRAIL_UPGRADE=wait
	echo 'not a line of ours' >"$BATS_TEST_TMPDIR/report"
	run -0 "$SOCKRAIL" -s report="$BATS_TEST_TMPDIR/report" -r python3 -c "$client" "$port"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/report")" = 2 ]
	start slow "$SOCKRAIL" -r sleep 60
	holds 60 pgrep -P "$pid" -x sleep
	kill "$pid"
	status=0
	await || status=$?
	[ "$status" = 143 ]
	run -127 "$SOCKRAIL" -r no-such-command
	[[ $output = *"no-such-command: No such file"* ]]
}
