#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A peer that speaks another version of the protocol: streams stay on TCP, with a reason.

# shellcheck disable=SC2154 # set by bats and by what is loaded
load ../lib/common

# It is built here, but not in a virtual machine, which takes what was built before.
setup_file() {
	[ "$SR_TEST_WHERE" != vm ] && [ -z "${SR_TEST_SANITIZER:-}" ] || return 0
	"$SR_TOP/tests/lib/previous" "$SR_BUILD/previous" >"$BATS_FILE_TMPDIR/word" 2>&1 ||
		[ $? = 77 ] || { cat "$BATS_FILE_TMPDIR/word"; false; }
}

setup() {
	t=$BATS_TEST_TMPDIR new=$SOCKRAIL old=$SR_BUILD/previous/build/sockrail
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "the old one would have no sanitizer"
	[ -x "$old" ] || skip "no build of another version: $(cat "$BATS_FILE_TMPDIR/word" 2>/dev/null)"
}

teardown() { stop_all; }

# meet SERVER CLIENT POLICY: 4 MB and more there and back by a stream, a little by two
meet() {
	port
	rm -f "$t"/*.report
	SOCKRAIL=$1 SOCKRAIL_UPGRADE=$3 REPORT=$t/server.report \
		start server rail "$SR_TOP/tests/lib/crowd.py" server "$ADDR" "$port" 3
	listening "$port"
	SOCKRAIL=$2 SOCKRAIL_UPGRADE=$3 REPORT=$t/client.report \
		rail timeout 100 "$SR_TOP/tests/lib/crowd.py" client "$ADDR" "$port" 1 2
	await
	cat "$t"/*.report "$t/server.err"
	[ "$(went tx_plain "$t/client.report")" = "$(went rx_plain "$t/server.report")" ]
	[ "$(went rx_plain "$t/client.report")" = "$(went tx_plain "$t/server.report")" ]
	[ ! -s "$t/server.err" ] # nothing is worth a warning
}

# stays_plain SERVER CLIENT: under each policy all bytes go by TCP, and there is a reason;
# in the last one the client waits for it, in the others a stream may end before
stays_plain() {
	local why=no-listener policy
	[ "$SR_TEST_LINK" = shm ] || why=protocol
	for policy in eager lazy wait; do
		meet "$1" "$2" "$policy"
		[ "$(cat "$t"/*.report | grep -c '"link":"plain"')" = 6 ]
		[ "$(went tx_plain "$t/client.report")" -gt 4000000 ]
		[ "$(cat "$t"/*.report | grep -c '"reason":null')" = 0 ]
	done
	[ "$(grep -c "\"reason\":\"$why\"" "$t/client.report")" = 3 ]
}

@test "a server of another version" {
	stays_plain "$old" "$new"
}

@test "a client of another version" {
	stays_plain "$new" "$old"
}

@test "both of another version have their link" {
	meet "$old" "$old" wait
	[ "$(went "tx_$SR_TEST_LINK" "$t/client.report")" -gt 4000000 ]
}
