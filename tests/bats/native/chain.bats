#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Other preloaded libraries, before ours and behind it: a program does the same as with
# that library alone, and by link where that library leaves sockets alone.

# shellcheck disable=SC2034 # case.bash reads case_alone and case_under
load ../../lib/common
load ../../lib/case

export SR_TEST_MODES="wait lazy"
lib=/usr/lib/$(gcc -print-multiarch)
ours=$SR_BUILD/.libs/libsockrail.so.0

setup() {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "a sanitizer's library has to be first"
	dir=$BATS_TEST_TMPDIR
	takes=0		# 1: the library has sockets of its own kind
	setting=()	# of the other library, for env
}

teardown() { stop_all; }

# under LIBRARY ORDER: what case.bash runs programs under
under() {
	[ -e "$1" ] || {
		[ "${CI:-}" != true ] || { echo "there is no $1" >&2; return 1; }
		skip "there is no $1"
	}
	case_alone=(env "${setting[@]}" "LD_PRELOAD=$1")
	case $2 in
	before) case_under=(env "${setting[@]}" "LD_PRELOAD=$1:$ours") ;;
	behind) case_under=(env "${setting[@]}" "LD_PRELOAD=$1" "$SOCKRAIL") ;;
	esac
}

# exchange LIBRARY: calls that block, a loop of epoll, threads, a process that forks
exchange() {
	local order
	for order in before behind; do
		under "$1" $order
		cases || { echo "^ ${1##*/} $order"; return 1; }
		rm -rf "$dir"/*.{tcp,wait,lazy}
	done
}

cases() {
	local any=()
	[ "$takes" = 0 ] || any=(-w any -n 0+ -l)
	compare basic chat "${any[@]}" &&
		compare chain descriptors -w mixed -r epoll\|peer-dropped "${any[@]}" &&
		compare epoll_loop echo-et -n 64 "${any[@]}" &&
		compare thread writers "${any[@]}" &&
		compare process fork-child -w some -l -s 3+ -c 3 "${any[@]}"
}

# built NAME: the path of tests/lib/NAME.c as a library
built() {
	gcc -shared -fPIC -O1 -o "$dir/$1.so" "$SR_TOP/tests/lib/$1.c"
	echo "$dir/$1.so"
}

@test "a library that makes functions of system calls" {
	exchange "$(built direct)"
}

@test "a library that looks its functions up in the C library itself" {
	exchange "$(built handle)"
}

@test "libjemalloc" {
	exchange "$lib/libjemalloc.so.2"
}

@test "libtcmalloc" {
	exchange "$lib/libtcmalloc_minimal.so.4"
}

@test "libeatmydata" {
	exchange "$lib/libeatmydata.so"
}

@test "stdbuf" {
	setting=(_STDBUF_O=L)
	exchange /usr/libexec/coreutils/libstdbuf.so
}

@test "libasan" {
	setting=(ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0)
	exchange "$(realpath "$(gcc -print-file-name=libasan.so)")"
}

@test "libfaketime, a clock that stands" {
	setting=("FAKETIME=2020-12-24 20:30:00")
	exchange "$lib/faketime/libfaketime.so.1"
}

@test "libfaketime: time limits are the kernel's" {
	local order
	setting=("FAKETIME=2020-12-24 20:30:00")
	for order in before behind; do
		under "$lib/faketime/libfaketime.so.1" $order
		compare chain limits
		rm -rf "$dir"/*.{tcp,wait,lazy}
	done
}

@test "fakeroot, with its server" {
	need fakeroot-tcp
	case_alone=(fakeroot-tcp)
	case_under=(fakeroot-tcp "$SOCKRAIL")
	cases
	rm -rf "$dir"/*.{tcp,wait,lazy}
	case_under=(env "LD_PRELOAD=$ours" fakeroot-tcp)
	cases
}

@test "mptcpize" {
	takes=1
	exchange "$lib/mptcpize/libmptcpwrap.so.0"
}

@test "torsocks" {
	printf '%s 1\n' AllowInbound AllowOutboundLocalhost >"$dir/torsocks.conf"
	setting=("TORSOCKS_CONF_FILE=$dir/torsocks.conf")
	takes=1
	exchange "$lib/torsocks/libtorsocks.so"
}

@test "proxychains" {
	printf '%s\n' strict_chain quiet_mode 'localnet 127.0.0.0/255.0.0.0' \
		'[ProxyList]' 'socks5 127.0.0.1 1' >"$dir/proxychains.conf"
	setting=("PROXYCHAINS_CONF_FILE=$dir/proxychains.conf" PROXYCHAINS_QUIET_MODE=1)
	takes=1
	exchange "$lib/libproxychains.so.4"
}

@test "socket_wrapper" {
	takes=1
	exchange "$lib/libsocket_wrapper.so"
}
