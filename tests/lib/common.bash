# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Loaded by every bats file.  Where a test runs, and over which link, it is told
# by the environment, so that the same tests run everywhere:
#
#   SR_BUILD          build tree (default: the source tree)
#   SR_TEST_LINK      shm (default) or verbs
#   SR_TEST_WHERE     native (default) or vm
#   SR_TEST_DEVICE    rxe, siw, none: the virtual machine's
#   SR_TEST_SANITIZER address, thread, valgrind or nothing
#
# RDMA_ADDR and others in the virtual machine: see tests/lab/rdma-vm --help.

bats_require_minimum_version 1.5.0

SR_TOP=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)
: "${SR_BUILD:=$SR_TOP}" "${SR_TEST_LINK:=shm}" "${SR_TEST_WHERE:=native}"
PROGS=$SR_BUILD/tests/progs	# the small TCP programs
SOCKRAIL=$SR_BUILD/sockrail	# the launcher
if [ "$SR_TEST_LINK" = verbs ]; then
	ADDR=${RDMA_ADDR:-127.0.0.1} ADDR6=fd09::1
else
	ADDR=127.0.0.1 ADDR6=::1
fi
export SR_TOP SR_BUILD SR_TEST_LINK SR_TEST_WHERE PROGS SOCKRAIL ADDR ADDR6

# need COMMAND...: skips the test where one is missing, but not in CI
need() {
	local c
	for c in "$@"; do
		command -v "$c" >/dev/null && continue
		[ "${CI:-}" != true ] || { echo "$c is not installed" >&2; return 1; }
		skip "$c is not installed"
	done
}

# in_full: skips what only tests/check full has time for, in an emulated machine
in_full() { [ "${SR_TEST_SHORT:-}" != 1 ] || skip "a part of tests/check full"; }

# The machine may be busy, and a first answer late: policy wait would let bytes go by TCP.
sr_answer_ms=15000

# rail COMMAND...: runs it under Sockrail, over the link under test, upgraded
# from the first byte on unless SOCKRAIL_UPGRADE says otherwise.  The report of
# the streams is appended to $REPORT (default: one file per test).
rail() {
	[ -z "$sr_answer_ms" ] || local -x SOCKRAIL_ANSWER_MS=${SOCKRAIL_ANSWER_MS:-$sr_answer_ms}
	SOCKRAIL_LINKS=${SOCKRAIL_LINKS:-$SR_TEST_LINK} \
		SOCKRAIL_UPGRADE=${SOCKRAIL_UPGRADE:-wait} \
		SOCKRAIL_REPORT=${REPORT:-$BATS_TEST_TMPDIR/report} \
		"$SOCKRAIL" "$@"
}

# plain COMMAND...: the same without Sockrail, so that a test can be a loop over
# the two:  for how in plain rail; do $how ...; done
plain() { "$@"; }

# start NAME COMMAND...: in the background; stdout and stderr in
# $BATS_TEST_TMPDIR/NAME.out and .err, the process id in $pid.  stop_all ends it.
start() {
	local name=$1
	shift
	: >"$BATS_TEST_TMPDIR/$name.out" # before it runs: not what another one has said
	"$@" >"$BATS_TEST_TMPDIR/$name.out" 2>"$BATS_TEST_TMPDIR/$name.err" \
		</dev/null 3>&- &
	pid=$!
	sr_started+=("$pid")
}

# holds SECONDS COMMAND...: waits until it is true
holds() {
	local end=$((SECONDS + $1))
	while [ $SECONDS -le $end ]; do
		! "${@:2}" >/dev/null 2>&1 || return 0
		sleep 0.05
	done
	echo "not true after $1 seconds: ${*:2}" >&2
	return 1
}

# libsodium: the file that the library loads, whichever of its names this release has
libsodium() { realpath "$(ldconfig -p | awk '$1 ~ /^libsodium\.so\.2[36]$/ { print $NF; exit }')"; }

# gone PID: has it ended?  (It may be a zombie.)
gone() { ! grep -qs '^State:[^ZX]*$' "/proc/$1/status"; }

# has_lines FILE N: at least so many
has_lines() { [ "$(wc -l <"$1")" -ge "$2" ]; }

# first_word NAME: of what something that was started prints; waits for it
first_word() {
	holds 60 test -s "$BATS_TEST_TMPDIR/$1.out" &&
		awk '{ print $1; exit }' "$BATS_TEST_TMPDIR/$1.out"
}

# said NAME PATTERN: waits, for $said_seconds (60), until what was started has written a
# line that is of this pattern (grep -E), whole
said() {
	holds "${said_seconds:-60}" grep -qxE "$2" "$BATS_TEST_TMPDIR/$1.out" ||
		{ tail "$BATS_TEST_TMPDIR/$1".*; return 1; }
}

# await [SECONDS]: waits for the last started command; its exit status
await() {
	local i
	for ((i = 0; i < ${1:-100} * 20; i++)); do
		kill -0 "$pid" 2>/dev/null || { wait "$pid"; return; }
		sleep 0.05
	done
	echo "process $pid is still running" >&2
	return 124
}

# beside COMMAND...: in the background, beside at most two others: they mostly
# sleep, and there may be two cores only.  False if one of those before has failed.
beside() {
	[ ${#sr_beside[@]} -lt 3 ] || joined || return
	afresh "$@" 3>&- &
	sr_beside+=("$!")
	sr_started+=("$!")
}

# joined: waits for all that runs beside; false if one of them has failed
joined() {
	local p failed=0
	for p in "${sr_beside[@]}"; do wait "$p" || failed=1; done
	sr_beside=()
	return $failed
}
sr_beside=()

# afresh COMMAND...: for beside; what runs beside it is not its own
afresh() {
	sr_beside=()
	"$@"
}

# stop_all: to be called from teardown.  Ends what was started, and its descendants
# (a function in the background is a shell with children), and sees them gone: the
# next server may want the same port.  Not wait alone: bats itself may have a
# watchdog in the background.
stop_all() {
	local p all=() next=("${sr_started[@]}")
	while [ ${#next[@]} -gt 0 ]; do
		all+=("${next[@]}")
		mapfile -t next < <(IFS=, && pgrep -P "${next[*]}")
	done
	kill "${all[@]}" 2>/dev/null || true
	for p in "${all[@]}"; do
		pid=$p
		await 3 2>/dev/null || [ $? -ne 124 ] || kill -KILL "$p" || true
	done 2>/dev/null
	sr_started=() sr_beside=()
}
sr_started=()

# listening PORT [SECONDS]: waits until somebody listens on it
listening() {
	local row
	printf -v row ':%04X [0-9A-F]*:0000 0A ' "$1"
	holds "${2:-60}" grep -qs "$row" /proc/net/tcp /proc/net/tcp6 ||
		{ echo "nobody listens on port $1" >&2; return 1; }
}

# port: a TCP port that nobody uses, in $port; below the ephemeral ones
port() {
	while :; do
		port=$((10000 + RANDOM % 20000))
		[ -n "$(ss -Htan "sport = :$port")" ] || return 0
	done
}

# went KEY [FILE...]: the sum of a number in reports: tx_plain, rx_verbs ...; KEY is
# a pattern of awk, so that [rt]x_plain is both directions
went() {
	local key=$1
	shift
	[ $# -gt 0 ] || set -- "${REPORT:-$BATS_TEST_TMPDIR/report}"
	cat "$@" 2>/dev/null | awk -v key="\"$key\": *[0-9]" '
		{
			while (match($0, key)) {
				$0 = substr($0, RSTART + RLENGTH - 1)
				n += $0 + 0
			}
		}
		END { printf "%d\n", n }'
}

# went_by_link BYTES: at least so many were sent over the link under test
went_by_link() {
	local n
	n=$(went "tx_$SR_TEST_LINK")
	[ "$n" -ge "$1" ] && return 0
	echo "$n bytes went by $SR_TEST_LINK, wanted at least $1; the report:" >&2
	cat "${REPORT:-$BATS_TEST_TMPDIR/report}" >&2
	return 1
}

# device_packets: packets that the RDMA devices have sent, 0 if they don't count
device_packets() {
	cat /sys/class/infiniband/*/ports/*/hw_counters/sent_pkts \
		/sys/class/infiniband/*/ports/*/counters/port_xmit_packets \
		2>/dev/null | awk '{ n += $1 } END { printf "%d\n", n }'
}
