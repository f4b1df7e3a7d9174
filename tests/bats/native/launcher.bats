#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The sockrail command: what it passes on and what it refuses.

load ../../lib/common

setup() {
	unset "${!SOCKRAIL_@}" LD_PRELOAD
	lib=$SR_BUILD/.libs/libsockrail-preload.so
}

@test "the build tree's library comes first in LD_PRELOAD, what was there stays" {
	run -0 "$SOCKRAIL" printenv LD_PRELOAD
	[[ $output = "$lib"* ]]
	run -0 env LD_PRELOAD=libm.so.6:libdl.so.2 "$SOCKRAIL" printenv LD_PRELOAD
	[[ $output = "$lib":*libm.so.6:libdl.so.2 ]]
}

@test "a sockrail under a sockrail adds nothing" {
	run -0 "$SOCKRAIL" printenv LD_PRELOAD
	once=$output
	run -0 "$SOCKRAIL" "$SOCKRAIL" printenv LD_PRELOAD
	[ "$output" = "$once" ]
}

@test "SOCKRAIL_PRELOAD_LIBRARY names another library" {
	cp "$lib" "$BATS_TEST_TMPDIR/copy.so"
	run -0 env SOCKRAIL_PRELOAD_LIBRARY="$BATS_TEST_TMPDIR/copy.so" \
		"$SOCKRAIL" printenv LD_PRELOAD
	[[ $output = "$BATS_TEST_TMPDIR/copy.so"* ]]
}

@test "a library that is not there, or cannot be named: 125" {
	run -125 env SOCKRAIL_PRELOAD_LIBRARY=/nowhere/lib.so "$SOCKRAIL" true
	[[ $output = *"/nowhere/lib.so: No such file"* ]]
	mkdir "$BATS_TEST_TMPDIR/a b"
	cp "$lib" "$BATS_TEST_TMPDIR/a b/lib.so"
	run -125 env SOCKRAIL_PRELOAD_LIBRARY="$BATS_TEST_TMPDIR/a b/lib.so" \
		"$SOCKRAIL" true
	[[ $output = *"no space"* ]]
}

@test "the command's exit status; 127 not found, 126 not executable" {
	run -7 "$SOCKRAIL" sh -c 'exit 7'
	run -127 "$SOCKRAIL" no-such-command
	[[ $output = *"sockrail: no-such-command: No such file"* ]]
	run -126 "$SOCKRAIL" /etc/passwd
	[[ $output = *"/etc/passwd: Permission denied"* ]]
}

@test "options of the command are the command's" {
	run -0 "$SOCKRAIL" printf '%s\n' -s --help
	[ "$output" = "-s
--help" ]
	run -0 "$SOCKRAIL" -- printf '%s\n' --version
	[ "$output" = --version ]
}

@test "-s sets a knob, in either case; an unknown one is an error" {
	run -0 "$SOCKRAIL" -s UPGRADE=never printenv SOCKRAIL_UPGRADE
	[ "$output" = never ]
	run -0 "$SOCKRAIL" --set upgrade=eager printenv SOCKRAIL_UPGRADE
	[ "$output" = eager ]
	run -125 "$SOCKRAIL" -s UPGRAD=never true
	[[ $output = *"UPGRAD=never: no such knob"* ]]
	run -125 "$SOCKRAIL" -s lonks= true
	[[ $output = *"lonks=: no such knob"* ]]
	run -125 "$SOCKRAIL" -s UPGRADE true
	[[ $output = *"no value"* ]]
}

@test "--version, --help, no command" {
	run -0 "$SOCKRAIL" --version
	[[ $output =~ ^sockrail\ [0-9]+\.[0-9]+ ]]
	run -0 "$SOCKRAIL" --help
	[[ $output = *UPGRADE* ]]
	run -125 "$SOCKRAIL"
	run -125 "$SOCKRAIL" --no-such-option true
}

@test "a program with a malloc of its own that opens files" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "the sanitizers bring their own malloc"
	run -0 "$SR_BUILD/tests/progs/allocator"
	[ "$output" = ready ]
	run -0 timeout 20 "$SOCKRAIL" "$SR_BUILD/tests/progs/allocator"
	[ "$output" = ready ]
}
