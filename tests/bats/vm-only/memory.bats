#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Rings over RDMA: their size by rules, and how many streams have links within the locked
# memory that containers get, 8 MB.

# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # shells of their own; set here, used in what is loaded
load ../../lib/common

setup() {
	[ "${RDMA_DEV:-none}" != none ] || skip "no RDMA device"
	need setpriv prlimit
	t=$BATS_TEST_TMPDIR
	port
}

teardown() { stop_all; }

# limited NAME COMMAND...: without the privilege to lock more
limited() {
	local name=$1
	shift
	SOCKRAIL_UPGRADE_WAIT_MS=15000 REPORT=$t/$name.report \
		rail setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock prlimit --memlock=8388608 "$@"
}

# crowd BUSY IDLE: busy streams in 8 MB, and those that come later and do little
crowd() {
	in_full
	local server all=$(($1 + $2))
	start server limited server "$SR_TOP/tests/lib/crowd.py" server "$ADDR" "$port" "$all"
	server=$pid
	listening "$port"
	limited client timeout 400 "$SR_TOP/tests/lib/crowd.py" client "$ADDR" "$port" "$@"
	await
	pid=$server
	await # its report is written when it ends
	for name in server client; do
		cat "$t/$name.report"
		[ "$(grep -c '"link":"verbs:' "$t/$name.report")" = "$all" ]
	done
	# They were busy: rings grew
	[ "$(went tx_verbs "$t/client.report")" -gt $(($1 * 4000000)) ]
}

@test "8 MB: ten busy streams leave links to fifty that come later" {
	local -x SOCKRAIL_CARRIERS=0
	crowd 10 50
}

# 8 MB are 170 queue pairs, without any ring.
@test "8 MB: on shared queue pairs two busy streams leave links to 180 that come later" {
	unset SOCKRAIL_CARRIERS
	crowd 2 180
}

# domains: in how many protection domains has the device memory?
domains() {
	rdma resource show mr dev "$RDMA_DEV" | grep -oE 'pdn [0-9]+' | sort -u | wc -l
}

# queue_pairs: how many has the device, but those of the kernel?
queue_pairs() {
	rdma resource show qp | grep -F "$RDMA_DEV" | grep -c 'type RC' || true
}

# sharers: of the queue pair that most streams of a process share, by sockrail-stat: how many they
# are, and its number
sharers() {
	"$SR_BUILD/sockrail-stat" --json | grep -oE '"qp":[0-9]+' | sort | uniq -c | sort -rn |
		sed -n 's/ *\([0-9]*\) "qp":/\1 /p;q'
}

# begin_twenty BUSY: of twenty streams between two processes; all have been served, and are open.
# Sets $most, the most queue pairs that there were, and $server.  (Both ends are on this host, so
# each queue pair has its other end here, too.)
begin_twenty() {
	local now
	need rdma
	# the machine is slow: an ask waits behind the busy streams' bytes
	export CROWD_HOLD=$t/go SOCKRAIL_UPGRADE_WAIT_MS=30000
	REPORT=$t/server.report start server rail "$SR_TOP/tests/lib/crowd.py" server "$ADDR" "$port" 20
	server=$pid
	listening "$port"
	REPORT=$t/client.report start client rail "$SR_TOP/tests/lib/crowd.py" client "$ADDR" "$port" \
		"$1" $((20 - $1))
	most=0
	while kill -0 "$pid" && ! grep -q served "$t/client.out"; do
		now=$(queue_pairs)
		[ "$now" -le "$most" ] || most=$now
		sleep 0.05
	done
}

# end_twenty: each had a link at both ends
end_twenty() {
	: >"$t/go"
	await
	pid=$server
	await
	cat "$t"/*.report
	[ "$(grep -c '"link":"verbs:' "$t/client.report")" = 20 ]
	[ "$(grep -c '"link":"verbs:' "$t/server.report")" = 20 ]
	[ "$(went tx_verbs "$t/client.report")" -gt 1000000 ]
	echo "$most queue pairs"
}

@test "SOCKRAIL_CARRIERS: twenty streams between two processes share one queue pair" {
	local most server streams qp
	local -x SOCKRAIL_CARRIERS=1
	begin_twenty 1
	# The kernel knows the queue pair by the same number
	read -r streams qp < <(sharers)
	echo "$streams streams on queue pair $qp"
	[ "$streams" = 20 ]
	[ "$("$SR_BUILD/sockrail-stat" -H qp = "$qp" | wc -l)" = 20 ]
	rdma resource show qp | grep 'type RC' | grep -qw "lqpn $qp"
	end_twenty
	[ "$most" = 2 ]
}

# The client's streams are in no epoll set, so it makes as many as it may.
@test "twenty streams between two processes share up to eight queue pairs, each with a protection domain" {
	local most server streams qp
	unset SOCKRAIL_CARRIERS
	begin_twenty 8
	read -r streams qp < <(sharers)
	echo "$streams streams on queue pair $qp; $(queue_pairs) queue pairs, $(domains) protection domains"
	[ "$streams" -ge 2 ]
	[ "$(domains)" = "$(queue_pairs)" ]
	end_twenty
	[ "$most" -gt 2 ] && [ "$most" -le 16 ]
}

# (For a while each link has its first rings or larger ones; both ends are on this host.)
@test "each link has a protection domain of its own, if it has a queue pair of its own" {
	need rdma
	local -x SOCKRAIL_CARRIERS=0
	start server rail "$SR_TOP/tests/lib/crowd.py" server "$ADDR" "$port" 5
	listening "$port"
	start client rail "$SR_TOP/tests/lib/crowd.py" client "$ADDR" "$port" 5 0
	until [ "$(domains)" = 10 ]; do
		kill -0 "$pid" || { rdma resource; tail "$t"/*.{out,err}; false; }
		sleep 0.1
	done
	await
	[ "$(went tx_verbs)" -gt 5000000 ]
}

@test "a rule sizes the rings of its streams" {
	echo "listen :$port ring=64k:64k" >"$t/listen"
	echo "connect :$port ring=32k:32k" >"$t/connect"
	start server env SOCKRAIL_RULES="$t/listen" bash -c '. "$0"; sleep 60 | rail nc -l "$@"' \
		"$SR_TOP/tests/lib/common.bash" "$ADDR" "$port"
	listening "$port"
	start client env SOCKRAIL_RULES="$t/connect" bash -c \
		'. "$0"; (echo hello && sleep 60) | rail nc "$@"' \
		"$SR_TOP/tests/lib/common.bash" "$ADDR" "$port"
	until grep -q hello "$t/server.out"; do sleep 0.1; done
	run -0 --separate-stderr "$SR_BUILD/sockrail-stat" --json sport = ":$port"
	[[ $output = *'"rx_ring":65536'* ]]
	run -0 --separate-stderr "$SR_BUILD/sockrail-stat" --json dport = ":$port"
	[[ $output = *'"tx_ring":32768,'*'"rx_ring":32768'* ]]
}
