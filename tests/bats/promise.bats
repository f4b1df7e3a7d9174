#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Options that promise something about what goes over the wire (include/options.def).

load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "each option that a link cannot carry, of either end" {
	compare promise each -n 18 -w plain -r 'option|not-asked|no-listener|short'
	[[ " $SR_TEST_MODES " = *" wait "* ]] || return 0
	for role in server client; do
		[ "$(grep -c '"reason":"option"' "$BATS_TEST_TMPDIR/each.wait/$role.report")" -ge 9 ]
		for option in SO_MAX_PACING_RATE TCP_NOTSENT_LOWAT TCP_WINDOW_CLAMP IP_MINTTL IP_OPTIONS \
			SO_ATTACH_FILTER SO_RCVBUF TCP_TX_DELAY; do
			grep -q "a link cannot carry the option $option (" \
				"$BATS_TEST_TMPDIR/each.wait/$role.log"
		done
	done
}

@test "neutral values, promises that were taken back, and what promises nothing" {
	compare promise neutral
}

@test "an option that a link cannot carry, set on a link" {
	compare promise later -w mixed -r 'option|peer-dropped'
	[[ " $SR_TEST_MODES " = *" wait "* ]] || return 0
	grep -q "a link cannot carry the option SO_[A-Z_]* (" "$BATS_TEST_TMPDIR/later.wait"/*.log
}

@test "an option that the kernel refuses leaves a stream on its link" {
	compare promise refused
}

@test "signed segments" {
	compare promise signed -w plain -r 'option|not-asked|no-listener|short'
	[[ " $SR_TEST_MODES " = *" wait "* ]] || return 0
	reason_is "$BATS_TEST_TMPDIR/signed.wait" connect option
}

@test "a listener that another process has set up" {
	compare promise other -n 3 -w plain -r 'option|not-asked|no-listener|short' -m wait
	[[ " $SR_TEST_MODES " = *" wait "* ]] || return 0
	grep '"reason":"option"' "$BATS_TEST_TMPDIR/other.wait/server.report"
}
