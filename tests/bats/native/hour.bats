#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# tests/bench/hour: the file of a first hour on hardware.

load ../../lib/common

report=$BATS_TEST_DIRNAME/../../bench/report

@test "what a report to be sent does not have: addresses and names" {
	cat >"$BATS_TEST_TMPDIR/in" <<-END
	10.0.0.1:80->10.0.0.2:5001 and 10.0.0.1 again, [fe80::1%eth0]:7, ::1
	gid fe80:0000:0000:0000:0202:c9ff:fe00:0001, guid 0202:c9ff:fe00:0001
	mac 02:42:ac:11:00:02, ::ffff:10.0.0.1
	node1.example.org has node1, not node12; /home/me/tree/sockrail
	mlx5_0: firmware 20.8.0.9, version 1.2.3.4, 12:34:56, pci 0000:03:00.0, verbs:mlx5_0
	END
	"$report" --hide node1.example.org node1 /home/me/tree <"$BATS_TEST_TMPDIR/in" \
		>"$BATS_TEST_TMPDIR/out"
	diff "$BATS_TEST_TMPDIR/out" - <<-END
	address-3:80->address-4:5001 and address-3 again, [address-1%eth0]:7, address-2
	gid address-5, guid address-6
	mac address-7, address-8
	name-1 has name-2, not node12; name-3/sockrail
	mlx5_0: firmware 20.8.0.9, version 1.2.3.4, 12:34:56, pci 0000:03:00.0, verbs:mlx5_0
	END
}

@test "the file of a first hour has what it should, and no more" {
	local file=$BATS_TEST_TMPDIR/file
	"$report" --send "$file" 127.0.0.1:9
	grep -x '== host' "$file"
	grep -x '== devices' "$file"
	grep -x '== sockrail check' "$file"
	grep -x '== sockrail check address-1:9' "$file"
	grep -x '== sockrail-stat --devices' "$file"
	grep '^ok  *measured: TCP' "$file"
	if grep -F -e 127.0.0.1 -e "$(hostname)" -e "$(cd "$BATS_TEST_DIRNAME/../../.." && pwd)" \
		"$file"; then
		false
	fi
}
