#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Servers with event loops, as Debian ships them, and small ones on the libraries
# and languages that others are written with.

# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # set here, used there
load ../../lib/common
load ../../lib/real

setup() {
	t=$BATS_TEST_TMPDIR
	port
}

teardown() {
	stop_all
	rm -rf "$t"/{a,got*,www,up,db} # the machine's disk is its memory
}

# Which sides run Sockrail, and how.  In the virtual machine a link takes as long to
# come up as a short stream lives, so that an eager one shows nothing.
all="wait:wait eager:eager none:wait wait:none"
short=$all
[ "$SR_TEST_WHERE" != vm ] || short="wait:wait none:wait wait:none"
eager_share=1 # its first bytes are on their way before there is a link

# serve COMMAND...: the server at $port
serve() {
	start server as server "$@"
	listening "$port" 60
}

# ------------------------------------------------------------------- redis

redis_start() {
	serve redis-server --bind "$ADDR" --port "$port" --dir "$t" --save '' \
		--protected-mode no
}

redis() { as client timeout "$limit" redis-cli -h "$ADDR" -p "$port" "$@"; }

redis_bench() {
	redis_start || return
	as client timeout "$limit" redis-benchmark -h "$ADDR" -p "$port" -c 50 -P 16 -n "$1" \
		-t set,get,lrange_100 -d 100 --csv >"$t/client.out" || return
	# what the server counted
	result=$(redis-cli -h "$ADDR" -p "$port" info commandstats |
		grep -E '^cmdstat_(set|get|lpush|lrange):' | cut -d, -f1 | sort)
	[[ $result = *lrange* ]] && stop_all
}

@test "redis-benchmark -c 50 -P 16" {
	need redis-server redis-benchmark
	bench() { redis_bench "$(sized 16000 4000)"; }
	each_way "$(sized 50000000 12000000)" bench "$short"
}

redis_value() {
	redis_start || return
	[ "$(redis -x set value <"$t/a")" = OK ] &&
		redis get value | head -c -1 >"$t/got" && cmp "$t/a" "$t/got" || return
	result=$(sha256sum <"$t/got")
	stop_all
}

@test "redis-cli: a large value" {
	need redis-server redis-cli openssl
	megabytes=$(sized 100 12)
	random "$t/a" "$megabytes"
	each_way $((megabytes * 2097152)) redis_value "$all"
}

# One watches, one is subscribed, one sends.
redis_watch() {
	redis_start || return
	start monitor redis monitor
	holds 60 has_lines "$t/monitor.out" 1 || return
	start subscriber redis subscribe news
	holds 60 has_lines "$t/subscriber.out" 3 || return
	for ((i = 0; i < messages; i++)); do echo "publish news $i.$long"; done |
		redis >"$t/client.out" || return
	holds 60 has_lines "$t/subscriber.out" $((3 * messages + 3)) &&
		holds 60 has_lines "$t/monitor.out" $((messages + 2)) || return
	stop_all
	# Those that are ended by a signal leave no report; the server's is of all three.
	[[ $server$client = *none* ]] || [ "$(went "tx_$SR_TEST_LINK" "$t/server.report")" -gt $((messages * 2000)) ] || return
	result=$(sed 's/^[^"]*//' "$t/monitor.out" | cat - "$t"/{client,subscriber}.out | sha256sum)
}

@test "redis-cli: MONITOR, SUBSCRIBE" {
	need redis-server redis-cli
	long=$(printf '%01000d' 0)
	messages=$(sized 500 150)
	each_way $((messages * 1000)) redis_watch "$short"
}

# --------------------------------------------------------------- memcached

memcached_run() {
	serve memcached -u root -l "$ADDR" -p "$port" -U 0 -t 4 || return
	as client timeout "$limit" python3 "$SR_TOP/tests/lib/memcache.py" "$ADDR" "$port" "$streams" "$rounds" \
		>"$t/client.out" || return
	result=$(<"$t/client.out")
	stop_all
}

@test "memcached -t 4" {
	need memcached python3
	streams=$(sized 40 8)
	rounds=$(sized 1 4) # policy eager: siw's links come when a first one is over
	each_way $((streams * rounds * 1400000)) memcached_run "$all"
}

# ------------------------------------------------------------------- nginx

nginx_setup() {
	need nginx openssl "$@"
	mkdir -p "$t/www" "$t/up"
	large=$(sized 10 4) # MB
	random "$t/www/large" "$large"
	head -c 3000 "$t/www/large" >"$t/www/small"
}

# nginx_start ROLE PORT
nginx_start() {
	cat >"$t/nginx.conf" <<-END
		daemon off;
		master_process off;
		pid $t/nginx.pid;
		error_log $t/nginx.err;
		events { }
		http {
			access_log off;
			sendfile on;
			client_max_body_size 0;
			client_body_temp_path $t/nginx.body;
			keepalive_requests 100000;
			server {
				listen $ADDR:$2;
				root $t/www;
				location /up/ { root $t; dav_methods PUT; }
			}
		}
	END
	start nginx as "$1" nginx -e "$t/nginx.err" -c "$t/nginx.conf"
	listening "$2" 60
}

nginx_curl() {
	rm -f "$t"/got* "$t"/up/*
	nginx_start server "$port" && http_files
}

# five files in a row, four at once, one up
http_files() {
	local url=http://$ADDR:$port f
	as client timeout "$limit" curl -sS --fail "$url/large?[1-5]" >"$t/got" &&
		as client timeout "$limit" curl -sS --fail -Z "$url/large?[1-4]" -o "$t/got.#1" 2>/dev/null &&
		as client timeout "$limit" curl -sS --fail -H Expect: -T "$t/a" "$url/up/a" || return
	stop_all
	cmp "$t/got" <(for f in 1 2 3 4 5; do cat "$t/www/large"; done) && cmp "$t/a" "$t/up/a" || return
	for f in 1 2 3 4; do cmp "$t/www/large" "$t/got.$f" || return; done
	result=$(sha256sum <"$t/got")
}

@test "nginx: curl, large files, an upload" {
	nginx_setup curl
	megabytes=$(sized 64 8)
	random "$t/a" "$megabytes"
	each_way $(((9 * large + megabytes) * 1048576)) nginx_curl "$all"
}

# what ab says that is the same each time
ab_says='^(Complete requests|Failed requests|Write errors|Keep-Alive requests|HTML transferred|Non-2xx)'

nginx_ab() {
	nginx_start server "$port" || return
	as client timeout "$limit" ab -q -n "$requests" -c 20 "http://$ADDR:$port/small" >"$t/client.out" &&
		as client timeout "$limit" ab -q -k -n "$requests" -c 20 "http://$ADDR:$port/small" >>"$t/client.out" &&
		as client timeout "$limit" ab -q -k -n 8 -c 4 "http://$ADDR:$port/large" >>"$t/client.out" || return
	result=$(grep -E "$ab_says" "$t/client.out")
	stop_all
}

@test "nginx: ab" {
	nginx_setup ab
	requests=$(sized 1000 100)
	eager_share=0 # ten large files may be through before there is a link
	each_way $((8 * large * 1048576 + 2 * requests * 3000)) nginx_ab "$short"
}

nginx_wrk() {
	nginx_start server "$port" || return
	as client timeout "$limit" wrk -t 2 -c 20 -d 2 "http://$ADDR:$port/small" >"$t/client.out" &&
		as client timeout "$limit" wrk -t 2 -c 20 -d 2 -H 'Connection: close' "http://$ADDR:$port/small" >>"$t/client.out" ||
		return
	stop_all
	! grep -E 'Non-2xx|Socket errors' "$t/client.out" || return
	result=$(grep -c 'requests in' "$t/client.out")
}

@test "nginx: wrk" {
	nginx_setup wrk
	slack=1 # in the end it closes streams with bytes under way
	each_way 100000 nginx_wrk "$short"
}

# ----------------------------------------------------------------- haproxy

# backend_sent BYTES: by links, in streams that have ended; its process runs on
backend_sent() { [ "$(went "tx_$SR_TEST_LINK" "$t/backend.report")" -gt "$1" ]; }

# Where one end is plain, so is nginx: what haproxy says to it counts as the server's.
haproxy_run() {
	local inner=$((port + 1)) backend=$server
	[ "$client" != none ] || backend=none
	rm -f "$t"/got* "$t"/up/*
	nginx_start backend $inner || return
	haproxy_config "$mode" "$port" $inner >"$t/haproxy.cfg"
	serve haproxy -db -f "$t/haproxy.cfg" || return
	http_files || return
	# behind it as before it
	[[ $server$client = *none* ]] || holds 60 backend_sent $((large * 4000000))
}

haproxy_setup() {
	nginx_setup haproxy curl
	megabytes=$(sized 64 8)
	random "$t/a" "$megabytes"
	mode=$1
}

@test "haproxy before nginx" {
	haproxy_setup http
	each_way $(((9 * large + megabytes) * 1048576)) haproxy_run "$all"
}

@test "haproxy before nginx, mode tcp" {
	haproxy_setup tcp
	each_way $(((9 * large + megabytes) * 1048576)) haproxy_run "$short"
}

# -------------------------------------------------------------------- node

node_run() {
	serve node "$SR_TOP/tests/lib/http.js" server "$ADDR" "$port" || return
	as client timeout "$limit" node "$SR_TOP/tests/lib/http.js" client "$ADDR" "$port" "$requests" >"$t/client.out" || return
	result=$(<"$t/client.out")
	stop_all
}

@test "node: HTTP server and client" {
	need node
	requests=$(sized 100 40)
	each_way $((16000000 + requests * 80000)) node_run "$all"
}

# -------------------------------------------------------------------- echo

# Has the server closed all streams of its port?  It reports none that it has not.
all_closed() { [ -z "$(ss -Htn state established state close-wait "sport = :$port")" ]; }

# echo_run SERVER...: with the same client
echo_run() {
	serve "$@" "$ADDR" "$port" || return
	as client timeout "$limit" python3 "$SR_TOP/tests/lib/echo_async.py" client "$ADDR" "$port" "$streams" "$rounds" \
		>"$t/client.out" || return
	grep -q "^$streams " "$t/client.out" || return
	result=$(<"$t/client.out")
	holds 20 all_closed
	stop_all
}

# A C program with its package's library
echo_library() {
	need cc python3
	cc -o "$t/echo" "$SR_TOP/tests/lib/$1.c" "$2"
	library() { echo_run "$t/echo"; }
	streams=$(sized 200 50)
	each_way 8000000 library "$short"
}

@test "asyncio: echo" {
	need python3
	asyncio() { echo_run python3 "$SR_TOP/tests/lib/echo_async.py" server; }
	streams=$(sized 200 100)
	each_way 8000000 asyncio "$short"
}

@test "libevent: echo" {
	echo_library echo_libevent -levent
}

@test "libuv: echo" {
	echo_library echo_libuv -luv
}

java_run() {
	serve java -cp "$t" EchoNio server "$ADDR" "$port" || return
	as client timeout "$limit" java -cp "$t" EchoNio client "$ADDR" "$port" "$streams" 300000 >"$t/client.out" || return
	result=$(<"$t/client.out")
	stop_all
}

@test "Java NIO: echo" {
	need javac java
	javac -d "$t" "$SR_TOP/tests/lib/EchoNio.java"
	streams=$(sized 100 10)
	each_way $((streams * 600000)) java_run "$short"
}

# ----------------------------------------------------------------- MariaDB

# Without its system tables it needs no installing.
mariadb_start() {
	rm -rf "$t/db"
	mkdir "$t/db"
	serve mariadbd --no-defaults --user=root --datadir="$t/db" --socket="$t/db/socket" \
		--skip-grant-tables --skip-networking=0 --bind-address="$ADDR" --port="$port" \
		--skip-innodb --default-storage-engine=Aria
}

mariadb_run() {
	local mariadb=(mariadb --no-defaults -h "$ADDR" -P "$port")
	mariadb_start || return
	as client timeout "$limit" "${mariadb[@]}" <"$t/a" >"$t/got" &&
		as client timeout "$limit" mariadb-slap "${mariadb[@]:1}" --silent --concurrency=20 \
			--number-of-queries="$queries" --auto-generate-sql || return
	result=$(sha256sum <"$t/got")
	[ "$(wc -c <"$t/got")" -gt 8000000 ] && stop_all
}

@test "MariaDB and its client" {
	need mariadbd mariadb mariadb-slap openssl
	{
		echo 'create database a; use a; create table t (i int primary key, b longblob);'
		for i in 1 2; do
			echo "insert into t values ($i, x'$(openssl rand -hex 2000000 | tr -d '\n')');"
		done
		for i in {3..200}; do echo "insert into t values ($i, repeat('$i', $i));"; done
		echo 'select i, hex(b) from t order by i;'
	} >"$t/a"
	queries=$(sized 1000 200)
	slack=5 # the server speaks first, before there is a link
	each_way 16000000 mariadb_run "$all"
}

# PHP before 8.4 loads the extension with RTLD_DEEPBIND, so its streams stay plain.
@test "MariaDB and PHP's extension mysqli" {
	local how way=foreign-library
	need mariadbd php
	! php -n -r 'exit(PHP_VERSION_ID >= 80400 ? 0 : 1);' || way="\"link\":\"$SR_TEST_LINK\""
	for how in plain rail; do
		as() { shift; SOCKRAIL_LOG=warn "$how" "$@"; }
		mariadb_start
		as client timeout "$limit" php -n -d extension=mysqlnd -d extension=mysqli \
			"$SR_TOP/tests/lib/mysqli.php" "$ADDR" "$port" >"$t/$how.got"
		stop_all
	done
	[ "$(grep -c '^[0-9]' "$t/plain.got")" = 200 ]
	cmp "$t/plain.got" "$t/rail.got"
	grep '"program":"php"' "$t/report" | grep -q "$way"
}
