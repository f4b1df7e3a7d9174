#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# tests/faults/run on a fabric that fails: some rounds of each kind, 200 in all in
# tests/check full.

load ../../lib/common
load ../../lib/real

teardown() { "$SR_TOP/tests/faults/fabric" heal; }

# fabric KIND
fabric() {
	local rounds
	fabric_rounds "$1" "$(brief 9 3)"
	"$SR_TOP/tests/faults/run" --link verbs --kind "$1" --rounds "$rounds" --seed 1
}

@test "the interface goes down and comes up" { fabric link-down; }
@test "the device is deleted and made anew" { fabric device-deleted; }
@test "packets are lost" { fabric loss; }
@test "packets are late" { fabric delay; }
@test "packets overtake each other" { fabric reordering; }
@test "packets come twice" { fabric duplication; }
