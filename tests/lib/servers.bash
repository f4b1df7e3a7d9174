# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Servers of many processes, as Debian ships them, after common.bash and real.bash.

# shellcheck disable=SC2034,SC2154 # of the tests

both=$(sized "wait:wait lazy:lazy" wait:wait) # lazily, a link comes too late there

# Some programs do not run as root: $user is before them then, and finds its way to the
# files of the test and to the library.
setup() {
	t=$BATS_TEST_TMPDIR
	port
	user=() name=$(id -un)
	[ "$(id -u)" = 0 ] || return 0
	name=www-data user=(setpriv --reuid www-data --regid www-data --clear-groups)
	umask 0
	chmod a+rx "$BATS_RUN_TMPDIR" "${t%/*}"
	chmod a+rwx "$t"
	cp -L "$SR_BUILD/.libs/libsockrail.so.0" "$t"
	export SOCKRAIL_PRELOAD_LIBRARY=$t/libsockrail.so.0
}

teardown() {
	local f
	for f in "$t"/*.pid "$t"/*.pid.oldbin; do ended "$f" KILL; done
	stop_all
	rm -rf "$t"/{a,got*,www,up,db,repo,clone,*.so.0} # the machine's disk is its memory
}

# serve COMMAND...: the server at $port
serve() {
	start server as server "$@"
	listening "$port"
}

# ended FILE SIGNAL: the daemon of that pid file
ended() {
	local pid
	pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] || return 0
	kill "-$2" "$pid" 2>/dev/null || return 0
	holds 60 gone "$pid"
}
