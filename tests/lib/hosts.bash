# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# hosts.bash - tests between two hosts: the server on node b, the client here.  `peer`
# (tests/lab/rdma-vm) runs a command there.

# shellcheck disable=SC2034,SC2154 # set here, used there

setup() {
	t=$BATS_TEST_TMPDIR
	server=wait client=wait
	port
	shared=/run/rdma-x # both nodes see it
	out=$shared/out.$port off=
}

teardown() {
	stop_all
	[ -z "$off" ] || return 0
	peer "pkill -f '[n]c .*$port'; rm -f $out" || true
	device_up
	there device_up
}

# soft-RoCE (6.1) makes no connection any more after one has ended while the interface was
# down (so it is with rping), until the device is made anew.
device_up() {
	ip link set "$RDMA_NETDEV" up
	rdma link delete "$RDMA_DEV" 2>/dev/null || true
	rdma link add "$RDMA_DEV" type "${RDMA_DEV%%[0-9]*}" netdev "$RDMA_NETDEV"
	sleep 0.5
}

# there FUNCTION: on node b
there() {
	peer "$(declare -f "$1"); RDMA_NETDEV=$RDMA_NETDEV; $1"
}

# remote COMMAND...: in the background on node b, under Sockrail unless $server
# is none
remote() {
	local under="env SOCKRAIL_LINKS=verbs SOCKRAIL_UPGRADE=$server SOCKRAIL_UPGRADE_WAIT_MS=15000 SOCKRAIL_REPORT=$t/server.report $SOCKRAIL"
	[ "$server" != none ] || under=
	peer "mkdir -p $t; $under timeout 100 $*; s=\$?; cp $t/server.report $shared/report.$port 2>/dev/null; exit \$s" 3>&- &
	pid=$!
	sr_started+=("$pid")
	for _ in {1..300}; do
		[ -z "$(peer "ss -Hltn 'sport = :$port'")" ] || return 0
	done
	return 1
}
