#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What was built: what the library exports, needs and calls, and how it is installed.

load ../../lib/common

setup() { library=$SR_BUILD/.libs/libsockrail.so; }

# names: what include/calls.def and the public header list
names() {
	sh "$SR_TOP/include/export-map" names "${CC:-gcc} -E -I$SR_TOP/include" \
		"$SR_TOP/include/calls.def" "$SR_TOP/include/sockrail.h"
}

@test "the library exports the calls of calls.def, the functions of sockrail.h, nothing else" {
	diff <(names) <(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' |
		LC_ALL=C sort -u)
}

@test "it does not need the RDMA libraries to be loaded" {
	run -1 grep -E 'NEEDED.*(ibverbs|rdmacm)' < <(readelf -d "$library")
}

# One package serves all systems from RHEL 9 (glibc 2.34) on, wherever it was built.
@test "what was built needs no newer C library than glibc 2.34" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "a sanitizer's library needs what it needs"
	need readelf
	local most=2.34 file newer
	for file in "$library" "$SR_BUILD"/sockrail{,-check,-stat}; do
		readelf -VW "$file" | grep -oE 'Name: GLIBC_[A-Z0-9_.]+' | sed 's/.*GLIBC_//' |
			sort -Vu >"$BATS_TEST_TMPDIR/versions"
		[ -s "$BATS_TEST_TMPDIR/versions" ]
		newer=$(sort -Vu "$BATS_TEST_TMPDIR/versions" - <<<"$most" | sed "1,/^$most\$/d")
		[ -z "$newer" ] && continue
		echo "${file##*/} needs glibc" "${newer//$'\n'/ }"
		for v in $newer; do readelf --dyn-syms -W "$file" | grep "@GLIBC_$v"; done
		return 1
	done
}

@test "configure says in one line what a system lacks" {
	local source
	source=$(sed -n "s/^abs_srcdir = //p" "$SR_BUILD/Makefile")
	cd "$BATS_TEST_TMPDIR"
	mkdir -p src/launcher
	cp -r "$source"/{configure,build-aux} .
	cp "$source/src/launcher/sockrail.c" src/launcher
	run -1 ./configure -q CPPFLAGS=-U__LP64__
	echo "$output"
	[ "$output" = "configure: error: Sockrail needs glibc 2.34 or later, and a 64-bit (LP64) system" ]
}

@test "it is bound at start, stays loaded, and uses initial-exec TLS" {
	readelf -d "$library" | grep -q 'FLAGS_1.*NOW.*NODELETE'
	run -1 grep -E 'TLSDESC|DTPMOD' < <(readelf -r "$library")
}

@test "the engine calls no intercepted name but through real.c" {
	local core=$SR_BUILD/.libs/libsockrail-core.a
	[ -e "$core" ]
	bad=$(nm -A --undefined-only "$core" | grep -v 'real\.o:' |
		awk '{ print $NF, $1 }' | LC_ALL=C sort |
		LC_ALL=C join - <(names | grep -v '^sr_'))
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
	path=$(find "$d" -name libsockrail.so.0 -printf '/%P')
	grep -qF "$path" "$(find "$d" -path '*/bin/sockrail')"
	SOCKRAIL_PRELOAD_LIBRARY=$d/$path run "$(find "$d" -path '*/bin/sockrail')" check --json -n
	[[ $output = *'"ok","what":"library","found":"'"$d"* ]] || { echo "$output"; false; }
}

# Preloaded besides, it is there once.
@test "the streams of a program that is linked to the library have links" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "a sanitizer's library has to be first"
	local d=$BATS_TEST_TMPDIR
	cat >"$d/linked.c" <<-'END'
	#include <assert.h>
	#include <sockrail.h>

	int main(void)
	{
		struct sr_info info = {0};
		struct sockaddr addr;
		socklen_t len = sizeof(addr);
		int listener = socket(AF_INET, SOCK_STREAM, 0), a, b;
		char buf[8] = "1234567";

		assert(!listen(listener, 1) && !getsockname(listener, &addr, &len));
		a = socket(AF_INET, SOCK_STREAM, 0);
		assert(!connect(a, &addr, len));
		b = accept(listener, NULL, NULL);
		for (int i = 0; i < 5000 && info.tx_state != SR_STATE_LINK; i++) {
			assert(send(a, buf, sizeof(buf), 0) == sizeof(buf));
			assert(recv(b, buf, sizeof(buf), MSG_WAITALL) == sizeof(buf));
			assert(!sr_info(a, &info, sizeof(info)));
			poll(NULL, 0, 1);
		}
		return info.tx_state != SR_STATE_LINK;
	}
	END
	gcc -Wall -Werror -I"$SR_TOP/include" -o "$d/linked" "$d/linked.c" \
		-L"$SR_BUILD/.libs" -lsockrail -Wl,-rpath,"$SR_BUILD/.libs"
	export SOCKRAIL_LINKS=shm SOCKRAIL_UPGRADE=eager
	run -0 "$d/linked"
	run -0 "$SOCKRAIL" "$d/linked"
	[ "$(LD_PRELOAD=$library.0 ldd "$d/linked" | grep -c libsockrail)" = 1 ]
}

@test "the public header compiles alone, as C and as C++" {
	echo '#include <sockrail.h>' >"$BATS_TEST_TMPDIR/a.c"
	gcc -std=c99 -Wall -Wextra -pedantic -Werror -I"$SR_TOP/include" \
		-fsyntax-only "$BATS_TEST_TMPDIR/a.c"
	command -v g++ >/dev/null || skip "no C++ compiler"
	g++ -x c++ -Wall -Werror -I"$SR_TOP/include" -fsyntax-only \
		"$BATS_TEST_TMPDIR/a.c"
}
