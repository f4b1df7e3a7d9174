#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Two pods on a kernel that has unix_diag as a module, as Debian's, and does not load it.

# shellcheck disable=SC2034,SC2154 # read by what is loaded, set there
load ../../lib/common
load ../../lib/case
load ../../lib/pods
load ../../lib/told

SR_TEST_LINK=shm

setup() {
	modinfo -n unix_diag >/dev/null || skip "not a module of this kernel"
	unloaded=/etc/modprobe.d/sockrail-test.conf
	pods_up
	pods_talk
}

teardown() {
	rm -f "${unloaded:-/nonexistent}"
	pods_down
}

@test "without unix_diag two pods stay on TCP, and are told what to do; with it there is a link" {
	echo 'install unix_diag /bin/false' >"$unloaded"
	! grep -q '^unix_diag ' /proc/modules || rmmod unix_diag
	serve
	talk
	until_true grep 'plain: no-match' "$t/client.err"
	on_tcp no-match
	grep -q 'modprobe unix_diag' "$t/client.err"
	unset SOCKRAIL_UPGRADE
	run -1 --separate-stderr "$SOCKRAIL" check --json -n
	told problem unix_diag "no links by the directory" no-match
	rm "$unloaded"
	SOCKRAIL_UPGRADE=lazy talk
	linked
}
