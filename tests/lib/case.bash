# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Behaviour cases, after common.bash: both halves of a case of tests/progs run
# over kernel TCP and with Sockrail in several ways, and must print and return the
# same each time.  The reports show which way the bytes went.
#
#   SR_TEST_MODES  of wait lazy eager client server nodevice (default: all of them
#                  natively, wait and lazy in the virtual machine, which is slow).
#                  client, server: only that half has Sockrail; nodevice: both have,
#                  but nothing to make a link of

# Seconds for one half of a pair: many times what it takes, as only a failure lasts so long
case_limit=100
if [ "$SR_TEST_WHERE" = vm ]; then
	: "${SR_TEST_MODES:=wait lazy}"
	case_limit=120
elif [ "${SR_TEST_SANITIZER:-}" = valgrind ]; then
	case_limit=400
fi
: "${SR_TEST_MODES:=wait lazy eager client server nodevice}"

# pair DIR SERVER-POLICY CLIENT-POLICY PROGRAM CASE [[ROLE:]NAME=VALUE...]: runs both
# halves, each under Sockrail with that SOCKRAIL_UPGRADE, or without it if the
# policy is "none".  Leaves HALF.out, .err, .status, .report and .log in DIR.
pair() {
	local dir=$1 server=$2 client=$3 prog=$4 name=$5 port pid fd
	shift 5
	mkdir -p "$dir" && mkfifo "$dir/port" || return
	exec {fd}<>"$dir/port"
	half server "$server" "$dir/port" "$@" 3>&- &
	pid=$!
	sr_started+=("$pid")
	if ! read -rt "$case_limit" -u "$fd" port; then
		echo "$prog $name: the server did not start" >&2
		cat "$dir/server.err" >&2
		kill "$pid"
		return 1
	fi
	exec {fd}>&-
	[ "$server" = none ] || open_rendezvous "$port" "$@"
	half client "$client" "$port" "$@" 3>&-
	wait "$pid" || true
}

# open_rendezvous PORT [[ROLE:]NAME=VALUE...]: a lazy server opens its rendezvous in
# the background, and on a busy machine later than its client may ask
open_rendezvous() {
	local i
	[[ $SR_TEST_LINK = shm && "${*:2}" != *SOCKRAIL_LINKS=* ]] || return 0
	for ((i = 0; i < 50; i++)); do
		! grep -q "@sockrail.*:$1\b" /proc/net/unix || return 0
		sleep 0.02
	done
}

# half ROLE POLICY PORT [[ROLE:]NAME=VALUE...]: for pair; with ROLE: only there.
# What it runs under, with Sockrail and without: ${case_under[@]}, ${case_alone[@]}
case_under=("$SOCKRAIL")
case_alone=()
# shellcheck disable=SC2154 # sr_answer_ms is common.bash's
half() {
	local role=$1 policy=$2 port=$3 under=("${case_alone[@]}") status=0 setting
	local -x CASE_DIR=$dir SOCKET_WRAPPER_DIR=$dir # native/chain.bats: a place for each pair
	shift 3
	if [ "$policy" != none ]; then
		local -x SOCKRAIL_LINKS=$SR_TEST_LINK SOCKRAIL_UPGRADE=$policy \
			SOCKRAIL_UPGRADE_BYTES=2000 SOCKRAIL_UPGRADE_WAIT_MS=15000 \
			SOCKRAIL_ANSWER_MS=$sr_answer_ms \
			SOCKRAIL_LOG=debug SOCKRAIL_LOG_FILE=$dir/$role.log \
			SOCKRAIL_REPORT=$dir/$role.report
		for setting; do
			case $setting in
			"$role":*) local -x "${setting#*:}" ;;
			server:* | client:*) ;;
			*) local -x "$setting" ;;
			esac
		done
		under=("${case_under[@]}")
		[ "${SR_TEST_SANITIZER:-}" != valgrind ] || under=(valgrind "${under[@]}")
	fi
	timeout -k 2 "$case_limit" "${under[@]}" \
		"$PROGS/$prog" "$role" "$name" "${case_addr:-$ADDR}" "$port" \
		>"$dir/$role.out" 2>"$dir/$role.err" </dev/null || status=$?
	echo "$status" >"$dir/$role.status"
}

# held DIR SERVER-POLICY CLIENT-POLICY PROGRAM CASE [[ROLE:]NAME=VALUE...]: as pair,
# with a program that holds on until there is a file in $HOLD.  $case_steps has, in
# this order, "FILE log PATTERN" or "FILE out PATTERN": the file is made when there
# is such a line in the client's log (there is none over TCP) or output.  FILE may
# be -, for none.
case_steps=()
held() {
	local dir=$1 maker
	mkdir -p "$dir"
	steps "$2$3" 3>&- &
	maker=$!
	sr_started+=("$maker")
	HOLD=$dir pair "$@"
	kill "$maker" 2>/dev/null || true
	wait "$maker" || true
}

# has_said FILE PATTERN: is there a line like that?  It starts no process, which may take long in
# an emulated machine: what a step lets go on has a second, or less, before its peer gives up.
has_said() {
	local line
	[ -e "$1" ] || return
	while IFS= read -r line; do
		[[ ! $line =~ $2 ]] || return 0
	done <"$1"
	return 1
}

steps() {
	local step name file pattern never
	exec {never}<> <(:)
	for step in "${case_steps[@]}"; do
		read -r name file pattern <<<"$step"
		[ "$file$1" = lognonenone ] ||
			until has_said "$dir/client.$file" "$pattern"; do
				read -rt 0.02 -u "$never" || true
			done
		[ "$name" = - ] || : >"$dir/$name"
	done
}

# read_report: for awk; the flat objects of a report, key[] of one line
read_report='
function read_line(s,    k, v) {
	split("", key)
	while (match(s, /"[a-z_]+": *("[^"]*"|null|[0-9]+)/)) {
		k = substr(s, RSTART, RLENGTH)
		s = substr(s, RSTART + RLENGTH)
		v = k; sub(/^"[a-z_]+": */, "", v); gsub(/"/, "", v)
		sub(/^"/, "", k); sub(/".*/, "", k)
		key[k] = v
	}
}'

# reported DIR ROLE KEY: of the only line of that role in the reports there; strings
# without quotes
reported() {
	cat "$1"/*report | awk -v role="$2" -v want="$3" "$read_report"'
		{ read_line($0); if (key["role"] == role) { n++; v = key[want] } }
		END { if (n != 1) { print n + 0 " lines"; exit }; print v }'
}

# reason_is DIR ROLE REASON: its reason (a|b), null if there is none
reason_is() {
	local reason
	reason=$(reported "$1" "$2" reason)
	[[ $reason =~ ^($3)$ ]] || { echo "$2: $reason, not $3"; return 1; }
}

# way DIR MODE WAY SERVER-LINES CLIENT-LINES REASONS: do the reports say what
# they must?  Lines is a number, or N+ for at least N.
#   link     every stream had the link, and in wait mode no byte went plain
#   mixed    as link, but some of the bytes may have gone plain
#   some     in wait mode at least one byte went by the link; else only the sums are known
#   plain    every stream ended plain, for one of the REASONS (a|b)
#   any      only the sums are known; tests/lib/way-any says why
# Whatever the way: no byte by another kind of link, and, when both ends
# reported, what one end sent the other received.
way() {
	local dir=$1 mode=$2
	shift 2
	: >>"$dir/server.report"
	: >>"$dir/client.report"
	awk -v link="$SR_TEST_LINK" -v mode="$mode" -v way="$1" -v slines="$2" \
		-v clines="$3" -v reasons="$4" -v lossy="${case_lossy:-0}" -v lazy="${case_lazy:-0}" "$read_report"'
	function bad(why) { print FILENAME ": " why ": " $0; failed = 1 }
	function few(have, want, who,   least) {
		least = want ~ /\+$/; sub(/\+$/, "", want)
		if (least ? have < want + 0 : have != want + 0) {
			print who ": " have " report lines, wanted " want
			failed = 1
		}
	}
	{
		read_line($0)
		n = split("program pid role local peer link tx_plain tx_shm tx_verbs " \
			"rx_plain rx_shm rx_verbs switches reason error", names, " ")
		for (i = 1; i <= n; i++)
			if (!(names[i] in key)) bad("no key " names[i])
		loose = way == "any" || way == "some"
		other = link == "shm" ? "verbs" : "shm"
		linked = key["tx_" link] + key["rx_" link]
		plain = key["tx_plain"] + key["rx_plain"]
		if (key["tx_" other] + key["rx_" other]) bad("bytes by " other)
		if (key["role"] == "accept") slines_seen++
		else if (key["role"] == "connect") clines_seen++
		else bad("role")
		some += linked
		id = key["role"] == "accept" ? key["peer"] " " key["local"] \
			: key["local"] " " key["peer"]
		tx[key["role"], id] += key["tx_plain"] + key["tx_" link]
		rx[key["role"], id] += key["rx_plain"] + key["rx_" link]
		seen[id]++
		onlink = key["link"] == link || index(key["link"], link ":") == 1
		if (linked && !onlink) bad("link")
		if (linked && key["switches"] + 0 == 0) bad("switches")
		if (mode == "client" || mode == "server") {
			if (linked || key["link"] != "plain") bad("one side, yet a link")
			if (!plain && !loose) bad("no bytes")
			if (!loose && key["reason"] !~ "^(" (mode == "client" ? \
			    "no-listener" : "not-asked") "|short|" reasons ")$")
				bad("reason")
		} else if (mode == "nodevice") {
			if (linked || key["link"] != "plain") bad("a link of nothing")
			if (!plain && !loose) bad("no bytes")
			if (!loose && key["reason"] !~ \
			    "^(no-device|no-library|not-asked|short|" reasons ")$")
				bad("reason")
		} else if (way == "plain") {
			if (key["reason"] !~ "^(" reasons ")$") bad("reason")
		} else if (mode == "wait" && way == "link") {
			if (!linked || plain) bad("not all by " link)
			if (key["reason"] != "null") bad("reason")
		} else if (mode == "wait" && way == "mixed") {
			if (!linked) bad("nothing by " link)
			if (key["reason"] !~ "^(null|" reasons ")$") bad("reason")
		} else if (mode == "lazy" && lazy && linked) {
			lazy = 0
		}
	}
	END {
		if ((mode == "lazy" && lazy) || (mode == "wait" && way == "some" && !some)) {
			print "nothing by " link
			failed = 1
		}
		if (mode != "client") few(slines_seen + 0, slines, "server")
		if (mode != "server") few(clines_seen + 0, clines, "client")
		# Where nothing is upgraded a handler that does not return may leave
		# the last call uncounted.
		if (mode == "nodevice" && loose) exit failed
		if (mode !~ /client|server/ && !lossy) for (id in seen) {
			if (seen[id] != 2) continue
			if (tx["accept", id] != rx["connect", id] ||
			    tx["connect", id] != rx["accept", id]) {
				print "the ends differ: " id ": server sent " \
				    tx["accept", id] ", client received " \
				    rx["connect", id] "; client sent " \
				    tx["connect", id] ", server received " \
				    rx["accept", id]
				failed = 1
			}
		}
		exit failed
	}' "$dir/server.report" "$dir/client.report"
}

# needs_signals: skips a test whose handlers have to run when the signal comes
needs_signals() {
	[ "${SR_TEST_SANITIZER:-}" != thread ] ||
		skip "ThreadSanitizer holds signals back"
	not_in_valgrind "ignores the mask that a handler leaves to its thread"
}

# not_in_valgrind WHY: skips the test there
not_in_valgrind() {
	[ "${SR_TEST_SANITIZER:-}" != valgrind ] || skip "valgrind $1"
}

# same DIR ORACLE: did both halves do what they do over TCP?
same() {
	local half what failed=0
	for half in server client; do
		for what in out err status; do
			[ "$(<"$2/$half.$what")" = "$(<"$1/$half.$what")" ] && continue
			diff -u --label "$half.$what over TCP" --label "$half.$what" \
				"$2/$half.$what" "$1/$half.$what"
			failed=1
		done
	done
	return $failed
}

# users: the two ends may be of different users, and write to one directory
users() {
	local up=$BATS_TEST_TMPDIR
	[ "$SR_TEST_LINK" = shm ] || skip "for shared memory only"
	[ "$(id -u)" = 0 ] || skip "only root can become others"
	umask 0
	while [ -n "$up" ]; do
		chmod go+x "$up"
		up=${up%/*}
	done
}

# compare PROGRAM CASE [OPTION...] [SOCKRAIL_NAME=VALUE...]
#   -w WAY     link (default), mixed, some, plain, any: see way
#   -r A|B     the reasons allowed in the reports
#   -n N       streams of both ends (default 1; N+ for at least)
#   -s N, -c N the same for server, client
#   -l         bytes may be lost on the way (reset, kill)
#   -L         lazy, too, must get some bytes on the link: the case lasts long enough
#              (of several streams one: a switch may be given up on a busy machine)
#   -m MODES   only these (of those in SR_TEST_MODES)
#   -a ADDRESS instead of $ADDR
compare() {
	local prog=$1 name=$2 way=link reasons=none slines=1 clines=1 mode opt
	local case_lossy=0 case_lazy=0 case_addr=$ADDR modes=$SR_TEST_MODES
	local OPTIND=1 base=$BATS_TEST_TMPDIR/$2
	shift 2
	while getopts w:r:n:s:c:lLm:a: opt; do
		case $opt in
		w) way=$OPTARG ;;
		r) reasons=$OPTARG ;;
		n) slines=$OPTARG clines=$OPTARG ;;
		s) slines=$OPTARG ;;
		c) clines=$OPTARG ;;
		l) case_lossy=1 ;;
		L) case_lazy=1 ;;
		m) modes=$OPTARG ;;
		a) case_addr=$OPTARG ;;
		*) return 2 ;;
		esac
	done
	shift $((OPTIND - 1))
	# There a link may be late for all of a case.
	[ "$way.${SR_TEST_SANITIZER:-}" != some.valgrind ] || way=any
	beside in_mode tcp "$@"
	for mode in $modes; do
		[[ " $SR_TEST_MODES " != *" $mode "* ]] || beside in_mode "$mode" "$@" || return 1
	done
	joined || return 1
	if [ -s "$base.tcp/server.err" ] || [ -s "$base.tcp/client.err" ] ||
		[[ $(<"$base.tcp/server.status") = 124 || $(<"$base.tcp/client.status") = 124 ]]; then
		echo "$prog $name fails over TCP:"
		head "$base.tcp"/*.err "$base.tcp"/*.status "$base.tcp"/*.out
		return 1
	fi
	for mode in $modes; do
		[[ " $SR_TEST_MODES " = *" $mode "* ]] || continue
		same "$base.$mode" "$base.tcp" &&
			way "$base.$mode" "$mode" "$way" "$slines" "$clines" "$reasons" &&
			continue
		echo "^ $prog $name, $mode"
		tail -n 12 "$base.$mode"/*.report "$base.$mode"/*.log 2>/dev/null
		return 1
	done
}

# in_mode MODE [[ROLE:]NAME=VALUE...]: for compare
in_mode() {
	local mode=$1 dir=$base.$1
	shift
	case $mode in
	tcp) pair "$dir" none none "$prog" "$name" ;;
	client) pair "$dir" none wait "$prog" "$name" "$@" ;;
	server) pair "$dir" wait none "$prog" "$name" "$@" ;;
	nodevice) pair "$dir" lazy lazy "$prog" "$name" "$@" \
		SOCKRAIL_LINKS=verbs SOCKRAIL_DEVICE=none0 ;;
	*) pair "$dir" "$mode" "$mode" "$prog" "$name" "$@" ;;
	esac
}
