#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What was built: what the libraries export, need and call, and how they install.

load ../../lib/common

setup() {
	engine=$SR_BUILD/.libs/libsockrail.so
	preload=$SR_BUILD/.libs/libsockrail-preload.so
}

# calls: the names of include/calls.def
calls() {
	sh "$SR_TOP/include/export-map" calls "${CC:-gcc} -E" \
		"$SR_TOP/include/calls.def" | sed -n 's/^\t\([a-z_].*\);/\1/p'
}

# exports LIBRARY: the dynamic symbols it defines
exports() {
	nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | LC_ALL=C sort -u
}

@test "the preloaded library exports the calls of calls.def and nothing else" {
	diff <(calls | LC_ALL=C sort -u) <(exports "$preload")
}

@test "the engine exports the functions of sockrail.h and nothing else" {
	run -1 grep -v '^sr_' < <(exports "$engine")
	diff <(sh "$SR_TOP/include/export-map" header \
		"${CC:-gcc} -E -I$SR_TOP/include" "$SR_TOP/include/sockrail.h" |
		sed -n 's/^\t\(sr_.*\);/\1/p') <(exports "$engine")
}

@test "neither library needs the RDMA libraries to be loaded" {
	for lib in "$engine" "$preload"; do
		run -1 grep -E 'NEEDED.*(ibverbs|rdmacm)' < <(readelf -d "$lib")
	done
}

@test "both are bound at start, stay loaded, and use initial-exec TLS" {
	for lib in "$engine" "$preload"; do
		readelf -d "$lib" | grep -q 'FLAGS_1.*NOW.*NODELETE'
		run -1 grep -E 'TLSDESC|DTPMOD' < <(readelf -r "$lib")
	done
}

@test "the engine calls no intercepted name but through real.c" {
	local core=$SR_BUILD/.libs/libsockrail-core.a
	[ -e "$core" ]
	bad=$(nm -A --undefined-only "$core" | grep -v 'real\.o:' |
		awk '{ print $NF, $1 }' | LC_ALL=C sort |
		LC_ALL=C join - <(calls | LC_ALL=C sort -u))
	echo "$bad"
	[ -z "$bad" ]
}

@test "installed: header, pkg-config, manual, and the command finds its library" {
	need pkg-config
	local d=$BATS_TEST_TMPDIR/root
	make -s -C "$SR_BUILD" install DESTDIR="$d" >"$BATS_TEST_TMPDIR/log" 2>&1 ||
		{ cat "$BATS_TEST_TMPDIR/log"; return 1; }
	local pc
	pc=$(find "$d" -name sockrail.pc)
	PKG_CONFIG_SYSROOT_DIR=$d PKG_CONFIG_PATH=${pc%/*} \
		pkg-config --exists --print-errors sockrail
	[ -n "$(find "$d" -path '*/include/sockrail.h')" ]
	# Where the command looks when it is not in a build tree
	local path
	path=$(find "$d" -name libsockrail-preload.so -printf '/%P')
	grep -qF "$path" "$(find "$d" -path '*/bin/sockrail')"
	SOCKRAIL_PRELOAD_LIBRARY=$d/$path LD_LIBRARY_PATH=$d/${path%/*/*} \
		run "$(find "$d" -path '*/bin/sockrail')" check --json -n
	[[ $output = *'"ok","what":"library","found":"'"$d"* ]] || { echo "$output"; false; }
}

@test "the public header compiles alone, as C and as C++" {
	echo '#include <sockrail.h>' >"$BATS_TEST_TMPDIR/a.c"
	gcc -std=c99 -Wall -Wextra -pedantic -Werror -I"$SR_TOP/include" \
		-fsyntax-only "$BATS_TEST_TMPDIR/a.c"
	command -v g++ >/dev/null || skip "no C++ compiler"
	g++ -x c++ -Wall -Werror -I"$SR_TOP/include" -fsyntax-only \
		"$BATS_TEST_TMPDIR/a.c"
}
