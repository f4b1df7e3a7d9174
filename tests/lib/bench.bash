# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Sourced by the scripts of tests/bench: the build, and servers with their clients.  What
# a "way" to run a program is, they say themselves:
#
#   as WAY  leaves what goes before a command in $as, its caller's

# shellcheck disable=SC2154 # $top is theirs
started=()

# use_build NAME: $SR_BUILD, for the benchmark of that name
use_build() {
	if [ -z "${SR_BUILD:-}" ]; then
		SR_BUILD=$top
		[ -x "$top/sockrail" ] || SR_BUILD=$top/build-check/main
	fi
	export SR_BUILD
	[ -x "$SR_BUILD/sockrail" ] || { echo "$1: $SR_BUILD/sockrail: not built" >&2; exit 1; }
}

# make_work: $work, a directory that lives as long as we do
make_work() {
	work=$(mktemp -d) || exit 1
	trap cleanup EXIT
	trap 'exit 130' INT TERM
}

cleanup() {
	stop
	wait 2>/dev/null
	rm -rf "$work"
}

# program NAME [OPTION...]: the path of tests/bench/NAME, built here, with the compiler's
# options, where the build has none
program() {
	local built=$SR_BUILD/tests/bench/$1
	if [ ! -x "$built" ]; then
		built=$work/$1
		${CC:-gcc} -O2 -std=gnu11 -D_GNU_SOURCE -pthread "${@:2}" -o "$built" \
			"$top/tests/bench/$1.c" || return
	fi
	echo "$built"
}

# new_port: one that nobody uses, in $port; below the ephemeral ones
new_port() {
	while :; do
		port=$((10000 + RANDOM % 20000))
		[ -n "$(ss -Htan "sport = :$port")" ] || return 0
	done
}

# under WAY COMMAND...: the client's side
under() {
	local as
	as "$1"
	"${as[@]}" "${@:2}"
}

# start WAY COMMAND...: the server's side, in the background, until stop
start() {
	local as
	as "$1"
	"${as[@]}" "${@:2}" 2>>"$work/errors" >/dev/null &
	started+=("$!")
}

# listening TENTHS: until somebody listens on $port; false if nobody does by then
listening() {
	local i
	for ((i = 0; i < $1 * 2; i++)); do
		[ -z "$(ss -Hltn "sport = :$port")" ] || return 0
		sleep 0.05
	done
	return 1
}

# stop: all that were started
stop() {
	[ ${#started[@]} -gt 0 ] || return 0
	kill "${started[@]}" 2>/dev/null
	wait "${started[@]}" 2>/dev/null
	started=()
}

# stop_last: the one that was started last
stop_last() {
	kill "${started[-1]}" 2>/dev/null
	wait "${started[-1]}" 2>/dev/null
	unset 'started[-1]'
}

# median: of the numbers on standard input
median() { sort -g | awk '{ a[NR] = $1 } END { print NR ? a[int((NR + 1) / 2)] : 0 }'; }

# share FILE: of the bytes in the reports there, by links, in percent
share() {
	awk '
		{
			while (match($0, /"[rt]x_[a-z]*":[0-9]+/)) {
				split(substr($0, RSTART, RLENGTH), f, ":")
				n[f[1] ~ /plain/] += f[2]
				$0 = substr($0, RSTART + RLENGTH)
			}
		}
		END { printf "%.1f", n[0] + n[1] ? 100 * n[0] / (n[0] + n[1]) : 0 }' "$1"
}
