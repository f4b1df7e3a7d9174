#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Servers in one pod, and their clients in another one of the same host.

# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # set here, used there
load ../../lib/common
load ../../lib/real
load ../../lib/pods

setup() {
	[ "$SR_TEST_LINK" = shm ] || skip "of shared memory"
	need nginx ab openssl redis-server redis-benchmark
	pods_up
	host=10.213.99.1
	port
	web=$port
	while port && [ "$port" = "$web" ]; do :; done
	data=$port
	export SOCKRAIL_DIR=$dir
	mkdir "$t/www"
	random "$t/www/large" 1
	head -c 1000 "$t/www/large" >"$t/www/small"
	cat >"$t/nginx.conf" <<-END
		daemon off;
		pid $t/nginx.pid;
		worker_processes 2;
		user root;
		events { }
		http {
			access_log off;
			sendfile on;
			keepalive_requests 1000000;
			server { listen 0.0.0.0:$web; root $t/www; }
		}
	END
}

teardown() { pods_down; }

requests() { as client timeout "$limit" "${pod_of_clients[@]}" ab -q -k "${@:1:$#-1}" "http://$host:$web/${!#}"; }
benchmark() { as client timeout "$limit" "${pod_of_clients[@]}" redis-benchmark -h "$host" -p "$data" "$@"; }
commands() { "${pod_of_clients[@]}" redis-cli -h "$host" -p "$data" info commandstats; }

nginx_and_redis() {
	start web as server "${pod_of_servers[@]}" nginx -e "$t/web.log" -c "$t/nginx.conf"
	start data as server "${pod_of_servers[@]}" redis-server --bind 0.0.0.0 --port "$data" \
		--dir "$t" --save '' --protected-mode no
	holds 60 serves 1 "$web" && holds 60 serves 1 "$data" || return
	{ requests -n 30000 -c 16 small && requests -n 1200 -c 8 large; } >"$t/ab.out" || return
	benchmark -c 16 -n 100000 -d 1000 -t set,get >"$t/benchmark.out" || return
	result=$(grep -E '^(Complete requests|Failed requests|Write errors|HTML transferred|Non-2xx)' "$t/ab.out"
		commands | sed -nE 's/^cmdstat_([gs]et:calls=[0-9]+).*/\1/p' | sort)
	stop_all
}

# linked_to PORT: the bytes that clients moved by links to it
linked_to() {
	grep "\"peer\": *\"$host:$1\"" "$t/client.report" >"$t/of_port.report" || true
	went '[rt]x_shm' "$t/of_port.report"
}

@test "nginx and redis in one pod, their clients in another: shared memory" {
	lazy_share=80 slack=1
	each_way 1300000000 nginx_and_redis "none:lazy lazy:none lazy:lazy"
	[ "$(linked_to "$web")" -gt 100000000 ]
	[ "$(linked_to "$data")" -gt 10000000 ]
	[ "$(went '[rt]x_shm' "$t/server.report")" -gt 0 ]
}
