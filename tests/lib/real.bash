# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Programs as Debian ships them, after common.bash.  A test is a function that
# runs a server and a client, each through `as`; each_way calls it several times
# and looks at which way the bytes went.  SR_TEST_FIGURES=FILE: appends that there.

# sized NATIVE EMULATED [ALL]: how much.  The virtual machine is slow; with SR_TEST_FULL=1
# there is time for NATIVE there, and here for ALL.
sized() {
	case $SR_TEST_WHERE.${SR_TEST_FULL:-} in
	vm.1) echo "$1" ;;
	vm.*) echo "$2" ;;
	*.1) echo "${3:-$1}" ;;
	*) echo "$1" ;;
	esac
}

# shellcheck disable=SC2034 # of the tests: seconds for a client
[ "${SR_TEST_FULL:-}" = 1 ] && limit=1000 || limit=100

# brief FULL SHORT: how much; SR_TEST_SHORT=1 says that tests/check has no time
brief() { [ "${SR_TEST_SHORT:-}" = 1 ] && echo "$2" || echo "$1"; }

# fabric_rounds KIND N: $rounds of a kind of tests/faults/fabric: N, or of all kinds 200 in
# tests/check full; skips if that kind is not here
fabric_rounds() {
	local kinds
	mapfile -t kinds < <("$SR_TOP/tests/faults/fabric" kinds)
	[[ " ${kinds[*]} " = *" $1 "* ]] || skip "tests/faults/fabric says why"
	rounds=$2
	# shellcheck disable=SC2034 # the caller's
	[ "${SR_TEST_FULL:-}" != 1 ] || rounds=$((200 / ${#kinds[@]}))
}

# as server|client COMMAND...: under Sockrail, or not, as each_way wants it
as() {
	local policy=${!1} report=$BATS_TEST_TMPDIR/$1.report level=info
	shift
	[ "$policy" != lazy ] || level=debug # for paced
	if [ "$policy" = none ]; then
		"$@"
	else
		SOCKRAIL_UPGRADE=$policy SOCKRAIL_UPGRADE_WAIT_MS=${SOCKRAIL_UPGRADE_WAIT_MS:-5000} REPORT=$report \
			SOCKRAIL_LOG=$level SOCKRAIL_LOG_FILE=$report.log rail "$@"
	fi
}

# paced server|client BYTES: cat; where both ends are lazy, one that goes slowly until the
# stream, by which that end sends so many, has its link: it must not be over before
paced() {
	# shellcheck disable=SC2154 # each_way's
	if [ "$server$client" = lazylazy ]; then
		python3 "$SR_TOP/tests/lib/pace.py" "$2" "$BATS_TEST_TMPDIR/$1.report.log"
	else
		cat
	fi
}

# each_way BYTES FUNCTION [PAIRS]: FUNCTION without Sockrail first, then once for
# each pair of policies; what it leaves in $result must be the same each time.  With
# Sockrail at both ends at least BYTES must go by the link and none plain (but for
# $slack per cent, with programs that close streams with bytes under way); lazy or
# eager, at least $lazy_share or $eager_share per cent of all that went; else all of it
# plain
lazy_share=10 eager_share=25 slack=0 result=
# shellcheck disable=SC2034 # read through their names
each_way() {
	local all=$1 run=$2 pairs=${3:-wait:wait lazy:lazy none:wait wait:none}
	local p server client before packets bytes linked plain oracle t=$BATS_TEST_TMPDIR
	for p in none:none $pairs; do
		server=${p%:*} client=${p#*:}
		bytes=$((all * (100 - slack) / 100))
		rm -f "$t"/*.report "$t"/*.log
		before=$(device_packets)
		"$run" || { complain "$p: the programs failed"; return 1; }
		packets=$(($(device_packets) - before))
		[ "$p" != none:none ] || oracle=$result
		[ "$result" = "$oracle" ] ||
			{ complain "$p: the result is $result, over TCP it is $oracle"; return 1; }
		if [ "$p" = none:none ]; then
			! compgen -G "$t/*.report" >/dev/null || { complain "$p: a report"; return 1; }
			[ "$packets" = 0 ] || { complain "$p: $packets packets"; return 1; }
			continue
		fi
		linked=$(by_link) plain=$(plain_bytes)
		[ -z "${SR_TEST_FIGURES:-}" ] ||
			echo "$BATS_TEST_DESCRIPTION, $p: $linked bytes by link, $plain plain" >>"$SR_TEST_FIGURES"
		if [[ $p = *none* ]]; then
			[ "$linked" = 0 ] || { complain "$p: bytes by link"; return 1; }
			[ "$plain" -ge "$bytes" ] ||
				{ complain "$p: fewer than $bytes bytes in the report"; return 1; }
			# asking for a link takes a few packets
			[ "$packets" -lt 500 ] || { complain "$p: $packets packets"; return 1; }
			continue
		fi
		case $p in
		lazy:lazy) bytes=$(((linked + plain) * lazy_share / 100)) ;;
		eager:eager) bytes=$(((linked + plain) * eager_share / 100)) ;;
		esac
		[ "$linked" -ge "$bytes" ] || { complain "$p: fewer than $bytes bytes by link"; return 1; }
		[ "$p" != wait:wait ] || [ "$plain" -le $(((linked + plain) * slack / 100)) ] ||
			{ complain "$p: plain bytes"; return 1; }
		# the path MTU of the devices is at most 4096 bytes, and a client's report may
		# have both ends (MPI)
		! counts_packets || [ "$packets" -ge $((bytes / 8400)) ] ||
			{ complain "$p: only $packets packets"; return 1; }
	done
}

complain() {
	echo "$1 ($(by_link) bytes by link, $(plain_bytes) plain)"
	tail -n 8 "$BATS_TEST_TMPDIR"/*.{report,log,out,err} 2>/dev/null
}

# What the client counted, both directions; where it is plain, the server.
by_link() { both_ways "$SR_TEST_LINK"; }
plain_bytes() { both_ways plain; }
both_ways() {
	local r=$BATS_TEST_TMPDIR/client.report
	[ -s "$r" ] || r=$BATS_TEST_TMPDIR/server.report
	went "[rt]x_$1" "$r"
}

# counts_packets: does the device under test count them?  (siw does not.)
counts_packets() {
	[ "$SR_TEST_LINK" = verbs ] &&
		[ -e "/sys/class/infiniband/$RDMA_DEV/ports/1/hw_counters/sent_pkts" ]
}

# siw_bytes PORT: bytes that soft-iWARP has sent on the TCP connections under its queue
# pairs now; they are at the rendezvous port of PORT, and no process owns them
siw_bytes() {
	local p=$(($1 + 10000))
	ss -HtinpO "( sport = :$p or dport = :$p )" 2>/dev/null | awk '
		!/users:/ && match($0, /bytes_acked:[0-9]+/) { n += substr($0, RSTART + 12, RLENGTH - 12) }
		END { printf "%d\n", n }'
}

# qps: queue pairs that are connected now
qps() { rdma resource show qp 2>/dev/null | grep -c 'type RC'; }

# random FILE MEGABYTES: incompressible, different each time; quick
random() {
	openssl enc -aes-128-ctr -nosalt -pass "pass:$RANDOM$RANDOM" -pbkdf2 -iter 1 \
		-in /dev/zero 2>/dev/null | head -c "$2"M >"$1"
}

# haproxy_config MODE FROM TO [OPTION]: how haproxy passes a port of $ADDR on to another
haproxy_config() {
	cat <<-END
		defaults
			mode $1
			${4-}
			timeout connect 20s
			timeout client 60s
			timeout server 60s
		frontend f
			bind $ADDR:$2
			default_backend b
		backend b
			server s $ADDR:$3
	END
}
