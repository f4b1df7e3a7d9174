#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A short run of tests/faults/run, which is the place for a long one.

load ../../lib/common

@test "faults at random, of processes and of a client and a server: no byte, no hang" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "too slow under a sanitizer"
	"$SR_TOP/tests/faults/run" --seconds 25 --seed 1 --link shm --keep "$BATS_TEST_TMPDIR/kept"
}
