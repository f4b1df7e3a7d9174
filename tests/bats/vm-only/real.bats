#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Real input: programs as Debian ships them, over a queue pair; and with one
# side plain.  (iperf is in iperf.bats.)

# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # set here, used there
load ../../lib/common
load ../../lib/real

setup() {
	t=$BATS_TEST_TMPDIR
	port
}

teardown() {
	stop_all
	rm -rf "$t"/{a,b,got*,www} # the machine's disk is its memory
}

# ------------------------------------------------------------- [::] and IPv4

any6_run() {
	as server timeout 100 nc -6 -l -d :: "$port" >"$t/got" 3>&- &
	sr_started+=("$!")
	listening "$port" && as client timeout 100 nc -4 -N "$ADDR" "$port" <"$t/a" &&
		wait "${sr_started[-1]}" && cmp "$t/a" "$t/got" && result=same
}

@test "a server that listens on [::], and a client by IPv4" {
	need nc
	random "$t/a" 2
	each_way $((2 << 20)) any6_run wait:wait
}

# ---------------------------------------------------------------------- nc

# One direction after the other: a listening nc ends when its peer has ended and
# nothing is under way, whatever is left of its own input.
nc_run() {
	local most=0 siw=0 least
	rm -f "$t"/got.*
	nc_one "$t/a" "$t/got.a" client && nc_one "$t/b" "$t/got.b" server || return
	if [[ $server$client = *none* ]]; then
		[ "$most$siw" = 00 ]
	else
		# The last look at a transfer is before its end.
		least=$(($(stat -c %s "$t/a") / 2))
		[ "$client" = wait ] || least=$((least / 4))
		[ "$most" -ge 2 ] && { [[ $RDMA_DEV != siw* ]] || [ "$siw" -ge "$least" ]; }
	fi || { echo "$most queue pairs, $siw bytes on siw's connections"; return 1; }
	result=$(stat -c %s "$t"/got.*)
}

# nc_one FILE COPY WHO-SENDS
nc_one() {
	local send=(-N) take=(-d) client_pid n size
	size=$(stat -c %s "$1")
	if [ "$3" = server ]; then
		paced server "$size" <"$1" 3>&- |
			as server timeout 280 nc -l "${send[@]}" "$ADDR" "$port" 3>&- &
	else
		as server timeout 280 nc -l "${take[@]}" "$ADDR" "$port" >"$2" 3>&- &
	fi
	pid=$!
	sr_started+=("$pid")
	listening "$port" || return
	if [ "$3" = server ]; then
		as client timeout 280 nc "${take[@]}" "$ADDR" "$port" >"$2" 3>&- &
	else
		paced client "$size" <"$1" 3>&- |
			as client timeout 280 nc "${send[@]}" "$ADDR" "$port" 3>&- &
	fi
	client_pid=$!
	sr_started+=("$client_pid")
	while kill -0 $client_pid 2>/dev/null; do
		n=$(qps)
		[ "$n" -le "$most" ] || most=$n
		n=$(siw_bytes "$port")
		[ "$n" -le "$siw" ] || siw=$n
		sleep 0.3
	done
	wait $client_pid && await && cmp "$1" "$2"
}

@test "nc: 200 MB of random data each way, or 80" {
	local mb
	need nc openssl
	mb=$(brief 200 80)
	random "$t/a" "$mb"
	random "$t/b" "$mb"
	# a listening nc sends at once, before there can be a link
	slack=$(brief 30 40)
	each_way $((mb << 21)) nc_run wait:wait
}

@test "nc: lazy, and with one side plain" {
	in_full
	need nc openssl
	random "$t/a" 50
	random "$t/b" 40
	each_way 94371840 nc_run lazy:lazy
	random "$t/a" 10
	random "$t/b" 8
	each_way 18874368 nc_run "none:wait wait:none"
}

# ------------------------------------------------------------------- socat

socat_run() {
	rm -f "$t/got"
	start server as server timeout 150 socat -u \
		"TCP-LISTEN:$port,bind=$ADDR,reuseaddr" "CREATE:$t/got"
	listening "$port" || return
	paced client 33554432 <"$t/a" |
		as client timeout 150 socat -u - "TCP:$ADDR:$port" &&
		await && cmp "$t/a" "$t/got" || return
	result=$(sha256sum <"$t/got")
}

@test "socat: one-shot file transfer" {
	need socat openssl
	random "$t/a" 32
	each_way 33554432 socat_run
}

# ------------------------------------------------------------ HTTP, Python

http_start() {
	start server as server python3 -m http.server "$@" --bind "$ADDR" --directory "$t/www" "$port"
	listening "$port"
}

http_setup() {
	need python3 openssl "$@"
	mkdir "$t/www"
	random "$t/www/file" 8
}

# what curl says of each file, on its error output
curl_says='%{stderr}%{http_code} %{size_download} %{num_redirects}\n'

curl_row() {
	http_start || return
	as client timeout 250 curl -sS --fail -w "$curl_says" "http://$ADDR:$port/file?[1-$rows]" \
		2>"$t/client.err" |
		cmp - <(for ((i = 0; i < rows; i++)); do cat "$t/www/file"; done) || return
	result=$(<"$t/client.err")
	stop_all
}

@test "curl: 8 MB files from python3 -m http.server, 50 in a row (siw: 20), or fewer" {
	http_setup curl
	rows=$(brief 50 20)
	[ "$SR_TEST_DEVICE" != siw ] || rows=$(brief 20 10)
	each_way $((rows * 8388608)) curl_row wait:wait
}

# All by one stream.  Behind the first file the server opens a FIFO, which lasts until somebody
# opens it to write: lazy, until both ends are ready for the link.
curl_gated() {
	local row=("http://$ADDR:$port/file" "http://$ADDR:$port/gate" "http://$ADDR:$port/file?[2-$rows]")
	http_start --protocol HTTP/1.1 || return
	open_gate 3>&- &
	sr_started+=("$!")
	as client timeout 250 curl -sS --fail -w "$curl_says" "${row[@]}" 2>"$t/client.err" |
		cmp - <(for ((i = 0; i < rows; i++)); do cat "$t/www/file"; done) || return
	result=$(<"$t/client.err")
	stop_all
}

open_gate() {
	[ "$server$client" != lazylazy ] || holds 90 grep -q 'handshake done' "$t/server.report.log"
	: >"$t/www/gate"
}

@test "curl: five of them by one stream, lazy, and with one side plain" {
	http_setup curl
	mkfifo "$t/www/gate"
	rows=5
	each_way 41943040 curl_gated "lazy:lazy none:wait wait:none"
}

curl_parallel() {
	local i
	rm -f "$t"/got.*
	http_start || return
	as client timeout 150 curl -sS --fail --parallel --parallel-max 8 \
		-w "${curl_says#*\}}" "http://$ADDR:$port/file?[1-8]" -o "$t/got.#1" \
		>"$t/client.out" 2>"$t/client.err" || return
	result=$(<"$t/client.out")
	stop_all
	for i in {1..8}; do cmp "$t/www/file" "$t/got.$i" || return; done
}

@test "curl: 8 MB files, 8 in parallel" {
	http_setup curl
	lazy_share=0 # so short a stream may end before it has a link
	each_way 67108864 curl_parallel
}

wget_run() {
	rm -f "$t"/got
	http_start || return
	as client timeout 150 wget -q -S -O "$t/got" "http://$ADDR:$port/file" 2>"$t/client.err" || return
	result=$(grep -v Date: "$t/client.err")
	stop_all
	cmp "$t/www/file" "$t/got"
}

@test "wget" {
	in_full
	http_setup wget
	lazy_share=0
	each_way 8388608 wget_run
}

echo_run() {
	start server as server timeout 150 python3 "$SR_TOP/tests/lib/echo.py" server "$ADDR" "$port" 64
	listening "$port" || return
	as client timeout 150 python3 "$SR_TOP/tests/lib/echo.py" client "$ADDR" "$port" 64 >"$t/client.out" || return
	await || return
	grep -q '^64 ' "$t/client.out" || return
	result=$(<"$t/client.out")
}

@test "a threaded echo in Python, 64 streams" {
	need python3
	# Of so many one or the other runs into a time limit of the library's, where the machine
	# is slow; and siw refuses one now and then, also when it is asked again.
	slack=40
	local -x SOCKRAIL_UPGRADE_WAIT_MS=30000
	each_way 5000000 echo_run "none:wait wait:none wait:wait"
	# the emulated machine makes ten queue pairs a second on a bad day
	[ "${SR_TEST_SHORT:-}" = 1 ] || SOCKRAIL_CARRIERS=0 each_way 5000000 echo_run wait:wait
	lazy_share=0
	each_way 5000000 echo_run lazy:lazy
}
