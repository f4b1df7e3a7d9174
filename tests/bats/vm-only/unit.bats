#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The unit tests that want a device, where there is one: no skip here.

load ../../lib/common

@test "unit test link_verbs" {
	cd "$BATS_TEST_TMPDIR"
	"$SR_BUILD/tests/unit/link_verbs"
}
