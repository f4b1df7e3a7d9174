#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Programs that are built with a sanitizer start, do what they do over TCP, and hear nothing
# of the library's own accesses, nor of its memory when they end.

# shellcheck disable=SC2030,SC2031 # each test has its own environment
load ../../lib/common

setup() {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "the library has a sanitizer of its own"
	dir=$BATS_TEST_TMPDIR
	unset TSAN_OPTIONS ASAN_OPTIONS
}

teardown() { stop_all; }

# sanitized COMPILER FLAG...: the program over TCP, and by links from the first byte on and
# later
sanitized() {
	local policy want="2700 round trips"
	need "$1"
	"$@" -g -O1 -pthread -o "$dir/program" "$SR_TOP/tests/lib/sanitized.c"
	run -0 timeout 60 "$dir/program"
	[ "$output" = "$want" ]
	for policy in wait lazy; do
		REPORT=$dir/$policy SOCKRAIL_UPGRADE=$policy run -0 rail timeout 60 "$dir/program"
		[ "$output" = "$want" ] || { echo "$policy: $output"; return 1; }
		REPORT=$dir/$policy went_by_link 1000000
	done
}

@test "clang: address, static" { sanitized clang -fsanitize=address; }
@test "clang: thread" { sanitized clang -fsanitize=thread; }
@test "clang: memory" { sanitized clang -fsanitize=memory; }
@test "clang: undefined" { sanitized clang -fsanitize=undefined; }
@test "gcc: thread" { sanitized gcc -fsanitize=thread; }
@test "gcc: thread, static" { sanitized gcc -fsanitize=thread -static-libtsan; }
@test "gcc: undefined" { sanitized gcc -fsanitize=undefined; }

# What tells a sanitizer of memory is not among the functions that such a program exports.
@test "gcc: address, static" {
	export ASAN_OPTIONS=detect_leaks=0
	sanitized gcc -fsanitize=address -static-libasan
}

# A shared runtime refuses to be behind another preloaded library, unless it is told.
@test "clang: address, shared" {
	need clang
	export ASAN_OPTIONS=verify_asan_link_order=0
	sanitized clang -fsanitize=address -shared-libsan \
		-Wl,-rpath,"$(dirname "$(clang -print-file-name=libclang_rt.asan-x86_64.so)")"
}

@test "gcc: address, shared" {
	export ASAN_OPTIONS=verify_asan_link_order=0
	sanitized gcc -fsanitize=address
}
