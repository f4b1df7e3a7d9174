#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the C library does to descriptors inside its functions, and what goes around us.

# shellcheck disable=SC2154 # set by what is loaded
load ../lib/common
load ../lib/case

teardown() { stop_all; }

# post_switches DIR: notes "1" and "2", when so many switches to a link are over at the client
post_switches() {
	local n
	for n in 1 2; do
		until [ "$(grep -cs 'tx on the link' "$1/client.log")" = "$n" ]; do sleep 0.02; done
		: >"$1/$n"
	done
}

@test "daemon: the stream goes on in the background" {
	compare around daemon -w some -l -s 1 -c 2
}

@test "daemon: the stream gets a link again in the background" {
	local mode dir
	for mode in none wait lazy eager; do
		[[ " none $SR_TEST_MODES " = *" $mode "* ]] || continue
		dir=$BATS_TEST_TMPDIR/$mode
		mkdir -p "$dir"
		if [ "$mode" = none ]; then
			touch "$dir/1" "$dir/2"
		else
			post_switches "$dir" 3>&- &
			sr_started+=($!)
		fi
		pair "$dir" "$mode" "$mode" around daemon-long SOCKRAIL_AGAIN_MS=20
		same "$dir" "$BATS_TEST_TMPDIR/none" || { tail -n 12 "$dir"/*.log; return 1; }
	done
}

@test "daemon: away from terminal and directory" {
	compare around daemon-away -w some -l -s 1 -c 2
}

@test "wordexp runs a command that writes to the stream" {
	compare around wordexp -w some -l
}

# library CASE: the library of the case uses a stream that is on a link when it is loaded
library() {
	export PLUG=$BATS_TEST_TMPDIR/plug.so
	need "${CC:-gcc}"
	"${CC:-gcc}" -shared -fPIC -o "$PLUG" "$SR_TOP/tests/lib/plug.c"
	compare around "$1" -w mixed -l -r 'foreign-library|peer-dropped'
	grep -l '"reason": *"foreign-library"' "$BATS_TEST_TMPDIR/$1".*/*.report
}

@test "a library that looks into the C library first (RTLD_DEEPBIND)" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "AddressSanitizer refuses RTLD_DEEPBIND"
	library deepbind
}

@test "a library with a C library of its own (dlmopen)" {
	library namespace
}

@test "functions that are looked up in the C library by name (dlsym, dlvsym)" {
	compare around by-name -l
}

@test "dlopen finds a library by the RUNPATH of its caller" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "AddressSanitizer refuses RTLD_DEEPBIND"
	local d=$BATS_TEST_TMPDIR mode
	need "${CC:-gcc}"
	mkdir "$d/lib"
	"${CC:-gcc}" -shared -fPIC -o "$d/lib/libplug.so" "$SR_TOP/tests/lib/plug.c"
	# shellcheck disable=SC2016 # $ORIGIN is for the dynamic linker
	"${CC:-gcc}" -o "$d/finds" -Wl,-rpath,'$ORIGIN/lib' -xc - <<-'END'
		#define _GNU_SOURCE
		#include <dlfcn.h>
		int main(void)
		{
			return !dlopen("libplug.so", RTLD_NOW | RTLD_DEEPBIND) ||
			       !dlopen("libplug.so", RTLD_NOW) ||
			       !dlmopen(LM_ID_BASE, "libplug.so", RTLD_NOW);
		}
	END
	run -0 "$d/finds"
	run -0 "$SOCKRAIL" "$d/finds"
}

@test "pidfd_spawn, of a newer C library: its child writes to the stream" {
	local lib=$BATS_TEST_TMPDIR/newer_libc.so
	need "${CC:-gcc}"
	"${CC:-gcc}" -shared -fPIC -o "$lib" "$SR_TOP/tests/lib/newer_libc.c"
	LD_PRELOAD=$lib compare around pidfd -w mixed -l -r 'exec|peer-dropped'
}

# stranger CASE WRITER: somebody writes to a stream that is on a link.  Both ends are told so, and
# each log says why.
stranger() {
	local dir=$BATS_TEST_TMPDIR/$1 role
	pair "$dir" wait wait around "$1"
	for role in server client; do
		grep -q '^next: -1 ECONNRESET$' "$dir/$role.out" || { head "$dir"/{server,client}.*; return 1; }
		[ "$(<"$dir/$role.status")" = 0 ]
		[ "$(reported "$dir" "$([ $role = server ] && echo accept || echo connect)" error)" = ECONNRESET ]
	done
	# (The peer may see as many bytes, and reset the stream, before the writer's end looks at it.)
	[ "$1" = stranger-child ] || [ "$1" = stranger-many ] ||
		grep -q 'warn: .* while it was on a link bytes were written to its socket' "$dir/$2.log"
	[ "$1" = stranger ] || grep -q 'warn: .* bytes came by TCP that Sockrail did not write' "$dir"/*.log
}

@test "a byte written around the library while the stream is on a link" {
	stranger stranger server
}

@test "some bytes, at either end" {
	stranger stranger-many server
	stranger stranger-client client
}

@test "some bytes before the stream goes back to TCP" {
	stranger stranger-back server
}

@test "some bytes of a child that was made without fork" {
	stranger stranger-child server
}
