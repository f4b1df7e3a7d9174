#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# PHP, which loads each of its extensions with RTLD_DEEPBIND: their calls go past Sockrail.

# shellcheck disable=SC2154 # set by what is loaded
load ../../lib/common

setup() {
	need php python3
	# ASan: RTLD_DEEPBIND is not for programs with it.
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "a sanitizer forbids RTLD_DEEPBIND"
	d=$BATS_TEST_TMPDIR
}

teardown() { stop_all; }

# with HOW COMMAND...: with a report of its own
with() {
	REPORT=$d/$1.report SOCKRAIL_UPGRADE=${policy:-wait} "$@"
}

# reasons FILE: of its streams
reasons() {
	grep -o '"reason":[^,]*' "$1" | sort -u
}

@test "a stream of PHP that the extension sockets goes on with" {
	local how policy log
	for policy in wait lazy; do
		rm -f "$d"/*.report
		for how in plain rail; do
			port
			start server with "$how" python3 "$SR_TOP/tests/lib/echo.py" server 127.0.0.1 "$port" 1
			listening "$port"
			log=()
			[ "$how" = plain ] || log=("$d/$policy.log")
			SOCKRAIL_LOG=debug SOCKRAIL_LOG_FILE=$d/$policy.log \
				with "$how" timeout 100 php -n -d enable_dl=1 "$SR_TOP/tests/lib/stream.php" "$port" \
				"${log[@]}" >"$d/$how.$policy"
			await
		done
		[ "$(grep -c '^equal$' "$d/plain.$policy")" = 40 ]
		diff "$d/plain.$policy" "$d/rail.$policy"
		# (It was on a link before.)
		REPORT=$d/rail.report went_by_link 3000
		# PHP 8.4 loads its extensions without RTLD_DEEPBIND.
		php -n -r 'exit(PHP_VERSION_ID >= 80400 ? 0 : 1);' ||
			reasons "$d/rail.report" | grep -q foreign-library
	done
}

@test "the extension curl" {
	local how
	head -c 3000000 /dev/urandom >"$d/page"
	for how in plain rail; do
		port
		start server with "$how" python3 -m http.server -b 127.0.0.1 -d "$d" "$port"
		listening "$port"
		# shellcheck disable=SC2016 # PHP's variables
		with "$how" timeout 100 php -n -d extension=curl -r '
			$c = curl_init($argv[1]);
			curl_setopt($c, CURLOPT_RETURNTRANSFER, true);
			echo curl_exec($c);' "http://127.0.0.1:$port/page" >"$d/got"
		cmp "$d/page" "$d/got"
		stop_all
	done
}
