#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Two hosts: what happens to streams between them.

# shellcheck disable=SC2015,SC2016,SC2030,SC2031,SC2034,SC2154 # A && B || C; set here, used there
load ../../lib/common
load ../../lib/real
load ../../lib/hosts

send_options=

# upload MEGABYTES: from here to node b, which keeps only the checksum; the same has
# to work without Sockrail first
upload() {
	random "$t/a" "$1"
	over_tcp send arrived
	send
}

over_tcp() {
	local server=none client=none c
	for c; do $c || return; done
	! compgen -G "$t/*.report" >/dev/null
}

send() {
	peer "rm -f $out"
	remote "nc -N -l $RDMA_PEER_ADDR $port | sha256sum >$out; :"
	# shellcheck disable=SC2086 # options of nc
	as client timeout 100 nc -N $send_options "$RDMA_PEER_ADDR" "$port" <"$t/a" 3>&- &
	cpid=$!
	sr_started+=("$cpid")
}

arrived() {
	wait $cpid && await 60 &&
		[ "$(sha256sum <"$t/a")" = "$(<"$out")" ] ||
		{ tail -n 20 "$t"/*.log "$t"/*.report; return 1; }
}

@test "nc between two hosts" {
	need nc openssl
	upload 40
	arrived
	[ "$(went tx_verbs "$t/client.report")" = 41943040 ]
	[ "$(plain_bytes)" = 0 ]
}

# classes CLASS: most of what went by UDP to port 4791 while a file was sent had this traffic
# class, both ways.  (The CM's messages are few.)
classes() {
	local fd pid
	mkfifo "$t/end"
	exec {fd}<>"$t/end"
	python3 "$BATS_TEST_DIRNAME/classes.py" "$RDMA_NETDEV" <"$t/end" >"$t/classes" 3>&- {fd}>&- &
	pid=$!
	sr_started+=("$pid")
	until grep -q ready "$t/classes"; do kill -0 "$pid" && sleep 0.1; done
	random "$t/a" 4
	send
	arrived
	exec {fd}>&-
	wait "$pid"
	cat "$t/classes"
	[ "$(went tx_verbs "$t/client.report")" = 4194304 ]
	[ "$(sort -k 1,1 -k 3,3nr "$t/classes" | awk '$3 && !seen[$1]++ { print $1, $2 }')" = \
		"in $1"$'\n'"out $1" ]
}

# (b acknowledges what it gets: its packets have the asker's class, too.)
@test "no traffic class: none in the packets of RDMA" {
	need nc openssl python3
	classes 0x00
}

@test "SOCKRAIL_TOS is the traffic class of the packets of RDMA, both ways" {
	need nc openssl python3
	SOCKRAIL_TOS=104 classes 0x68
}

@test "IP_TOS is the traffic class of the packets of RDMA, both ways" {
	need nc openssl python3
	send_options='-T 0x88'
	classes 0x88
}

iperf3_bidir() {
	remote iperf3 -s -1 -p "$port"
	as client timeout 100 iperf3 -c "$RDMA_PEER_ADDR" -p "$port" --bidir -n 8M
	await
}

@test "iperf3 between two hosts, both directions" {
	need iperf3
	over_tcp iperf3_bidir
	iperf3_bidir
	[ "$(by_link)" -ge 9000000 ] # together, whoever is first ends it
}

@test "a plain server on the other host" {
	server=none
	upload 5
	arrived
	grep '"reason": *"no-listener"' "$t/client.report"
	[ "$(by_link)" = 0 ]
}

@test "the other host has no RDMA device: the request is never answered" {
	peer rdma link delete "$RDMA_DEV"
	SOCKRAIL_UPGRADE_WAIT_MS=20000 upload 5
	arrived
	grep '"reason": *"timeout"' "$t/client.report"
	[ "$(by_link)" = 0 ]
}

# Those of RDMA, of 4,096 bytes or more
lose_long_packets() {
	tc qdisc replace dev "$RDMA_NETDEV" root handle 1: prio
	tc filter add dev "$RDMA_NETDEV" parent 1: protocol ip u32 \
		match ip protocol 17 0xff match ip dport 4791 0xffff \
		match u16 0x1000 0x1000 at 2 action drop
}

# The network's MTU is less than the devices' (4,096) at some place, and nobody says so.
@test "long packets of RDMA are lost: the stream stays on TCP, and says path" {
	need nc openssl tc
	lose_long_packets
	SOCKRAIL_UPGRADE_WAIT_MS=20000 upload 5
	arrived
	tc -s filter show dev "$RDMA_NETDEV" parent 1: >"$t/dropped"
	tc qdisc del dev "$RDMA_NETDEV" root
	grep -q 'dropped [1-9]' "$t/dropped" || { cat "$t/dropped"; false; }
	grep '"reason": *"path"' "$t/client.report"
	[ "$(by_link)" = 0 ]
}

@test "sockrail check to another host: packets of full length pass, or path" {
	need tc
	remote "$SOCKRAIL" check --serve "$port"
	SOCKRAIL_LINKS=verbs run "$SOCKRAIL" check "$RDMA_PEER_ADDR:$port"
	[[ $(tr -s ' \n' ' ' <<<"$output") = *"packets of full length pass both ways"* ]] || {
		echo "$output"
		false
	}
	lose_long_packets
	SOCKRAIL_LINKS=verbs run "$SOCKRAIL" check "$RDMA_PEER_ADDR:$port"
	tc qdisc del dev "$RDMA_NETDEV" root
	[[ $status = 1 && $output = *"Reason in reports: path"* ]] || { echo "$output"; false; }
}

# on_the_way: waits until a good part has been sent
on_the_way() {
	while kill -0 $cpid; do
		[ "$(device_packets)" -lt $((before + 2500)) ] || return 0
		sleep 0.1
	done
	complain "$(($(device_packets) - before)) packets"
	return 1
}

for_device() {
	random "$t/a" 70
	over_tcp send arrived
	before=$(device_packets)
	send
	on_the_way
	"$@"
	arrived
	[ "$(went tx_verbs "$t/client.report")" -gt 1000000 ]
	[ "$(went tx_plain "$t/client.report")" -gt 1000000 ]
}

@test "rdma link delete here, in mid-transfer" {
	for_device rdma link delete "$RDMA_DEV"
}

@test "rdma link delete there, in mid-transfer" {
	for_device peer rdma link delete "$RDMA_DEV"
}

# TCP runs over the same netdev: both ways are cut, and both must recover.
@test "the network is down for some seconds, in mid-transfer" {
	random "$t/a" 70
	over_tcp send arrived
	before=$(device_packets)
	send
	on_the_way
	ip link set "$RDMA_NETDEV" down
	sleep 4
	ip link set "$RDMA_NETDEV" up
	arrived
	[ "$(went tx_verbs "$t/client.report")" -gt 1000000 ]
}

# fares KIND: packets fare so for a second in mid-transfer, and the stream stays on its link
# or goes back to TCP
fares() {
	random "$t/a" 20
	over_tcp send arrived
	before=$(device_packets)
	send
	on_the_way
	"$SR_TOP/tests/faults/fabric" strike "$1" 900
	arrived
	[ "$(went tx_verbs "$t/client.report")" -gt 1000000 ]
}

@test "packets are lost, in mid-transfer" { fares loss; }
@test "packets are late, in mid-transfer" { fares delay; }
@test "packets overtake each other, in mid-transfer" { fares reordering; }
@test "packets come twice, in mid-transfer" { fares duplication; }

# connected ROLE HOW: a client (gone.py) that has exchanged bytes with node b, and waits
# for a line from $t/ROLE.in; the error that ends it comes to $t/ROLE.said
connected() {
	remote "$BATS_TEST_DIRNAME/gone.py" echo "$RDMA_PEER_ADDR" "$port" </dev/null
	rm -f "$t/$1.in"
	mkfifo "$t/$1.in"
	as "$1" timeout 90 "$BATS_TEST_DIRNAME/gone.py" "$2" "$RDMA_PEER_ADDR" "$port" \
		<>"$t/$1.in" >"$t/$1.said" 3>&- &
	cpid=$!
	sr_started+=("$cpid")
	until grep -q ready "$t/$1.said"; do
		kill -0 $cpid || return
		sleep 0.1
	done
}

# cut_off HOW [COMMAND...]: node b is reached no more, by TCP neither, and then COMMAND
cut_off() {
	connected client "$1"
	peer ip link set "$RDMA_NETDEV" down
	"${@:2}"
	echo go >"$t/client.in"
	wait $cpid || return
	there device_up
	peer "pkill -f '[g]one.py echo.*$port'; :"
}

# same TCP OURS: errors that ended clients
same() {
	[[ $1 = E* && $1 = "$2" ]] || { echo "over TCP '$1', under Sockrail '$2'"; return 1; }
}

# as_tcp HOW [COMMAND...]: the same as over TCP, and the stream was on a link
as_tcp() {
	local tcp
	server=none client=none cut_off "$@"
	tcp=$(tail -n 1 "$t/client.said")
	device_up
	port
	cut_off "$@"
	same "$tcp" "$(tail -n 1 "$t/client.said")"
	[ "$(went tx_verbs "$t/client.report")" -gt 50000 ]
}

@test "the other host is cut off: TCP_USER_TIMEOUT ends a sender as over TCP" {
	as_tcp user-timeout
}

@test "the other host is cut off: keepalive ends a reader as over TCP" {
	as_tcp keepalive
}

# The link's end then writes to TCP, which with bytes on their way asks by keepalive no more.
@test "the other host is cut off, the device gone: keepalive ends a reader as over TCP" {
	as_tcp keepalive rdma link delete "$RDMA_DEV"
}

# The last case of the last file: node b is off then.
@test "the other host is powered off: a sender and a reader end as over TCP" {
	local sender=wait tcp_sender=none reader=wait tcp_reader=none role pids=()
	local -x SOCKRAIL_UPGRADE_WAIT_MS=20000
	for role in tcp_sender sender tcp_reader reader; do
		server=${!role}
		port
		connected "$role" "$([[ $role = *sender ]] && echo user-timeout || echo keepalive)"
		pids+=("$cpid")
	done
	off=1
	peer 'echo o >/proc/sysrq-trigger' 3>&- & # it will not answer
	sr_started+=($!)
	for role in tcp_sender sender tcp_reader reader; do echo go >"$t/$role.in"; done
	wait "${pids[@]}"
	for role in sender reader; do
		same "$(tail -n 1 "$t/tcp_$role.said")" "$(tail -n 1 "$t/$role.said")"
		[ "$(went tx_verbs "$t/$role.report")" -gt 50000 ]
	done
}
