#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Data bases: a process for each stream, children that write the data to disk.

# shellcheck disable=SC2030,SC2031,SC2034,SC2120,SC2154,SC2317 # set here, used there
load ../../lib/common
load ../../lib/real
load ../../lib/servers

# -------------------------------------------------------------- PostgreSQL

postgres_setup() {
	bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | tail -n 1)
	PATH=$bin:$PATH
	need postgres pgbench psql
	"${user[@]}" initdb -D "$t/db" -A trust -U u -N >/dev/null
	echo "host all all $ADDR/32 trust" >>"$t/db/pg_hba.conf" # not only 127.0.0.1
	server=none
	postgres_start
	pg() { "${user[@]}" "$1" -h "$ADDR" -p "$port" -U u "${@:2}"; }
	"${user[@]}" pgbench -h "$ADDR" -p "$port" -U u -i -q -s 1 postgres 2>/dev/null
	stop_all
}

postgres_start() {
	start server as server "${user[@]}" postgres -D "$t/db" -p "$port" -k "$t" \
		-c listen_addresses="$ADDR" -c fsync=off -c max_connections=40
	holds 60 "${user[@]}" pg_isready -q -h "$ADDR" -p "$port"
}

postgres() { as client timeout "$limit" "${user[@]}" "$1" -h "$ADDR" -p "$port" -U u "${@:2}" postgres; }

pgbench_run() {
	postgres_start && postgres pgbench -n "$@" >"$t/client.out" || return
	result=$(grep -E 'number of (trans|failed)' "$t/client.out")
	stop_all
}

@test "PostgreSQL: pgbench -c 16, select only" {
	postgres_setup
	turns=$(sized 3000 100)
	lazy_share=95 slack=$(sized 1 30) # the first bytes; there, a stream that is read late
	run_it() { pgbench_run -c 16 -S -t "$turns"; }
	each_way $((turns * 2000)) run_it "$both"
}

@test "PostgreSQL: pgbench -c 16, TPC-B" {
	postgres_setup
	turns=$(sized 400 40)
	lazy_share=95 slack=$(sized 1 30)
	run_it() { pgbench_run -c 16 -t "$turns"; }
	each_way $((turns * 9500)) run_it "$both"
}

# A link for a stream of two messages is not worth it.
@test "PostgreSQL: pgbench -c 16 -C" {
	postgres_setup
	slack=100 lazy_share=0
	turns=$(sized 15 4)
	run_it() { pgbench_run -c 16 -S -C -t "$turns"; }
	each_way $((turns * 6600)) run_it "$both"
}

postgres_copy() {
	rm -f "$t/got"*
	postgres_start || return
	postgres psql -q -c 'drop table if exists t' -c 'create table t (i int, a text, b text)' \
		-c "\\copy t from '$t/a'" -c "\\copy t to '$t/got'" &&
		postgres psql -q -c "\\copy t from '$t/got'" -c "\\copy (select * from t order by i) to '$t/got.2'" || return
	cmp "$t/a" "$t/got" || return
	result=$(sha256sum <"$t/got.2")
	stop_all
}

@test "PostgreSQL: COPY of a large table, both ways" {
	postgres_setup
	rows=$(sized 800000 40000 2000000) # of more than 100 bytes
	awk -v rows="$rows" 'BEGIN { for (i = 0; i < rows; i++) printf "%d\t%050d\t%048d\n", i, i * 7919, i * 104729 }' >"$t/a"
	lazy_share=95 slack=1 # the server speaks first
	each_way $((rows * 420)) postgres_copy "$both"
}

# ------------------------------------------------------------------- redis

redis_start() {
	rm -f "$t"/*.rdb
	serve redis-server --bind "$ADDR" --port "$port" --dir "$t" --save '' --protected-mode no \
		--enable-debug-command yes --rdbcompression no --repl-diskless-sync-delay 0 "$@" &&
		redis debug populate "$((megabytes * 1000))" key 1000
}

redis() { redis-cli -h "$ADDR" -p "$port" "$@" >/dev/null; }

redis_saves() {
	while sleep 0.2; do redis bgsave; done
}

redis_forks() {
	redis_start || return
	start saves redis_saves
	as client timeout "$limit" redis-benchmark -h "$ADDR" -p "$port" -c 50 -n "$requests" -t get -d 100 \
		--csv >"$t/client.out" || return
	[ "$(redis-cli -h "$ADDR" -p "$port" info stats | sed -n 's/total_forks:\([0-9]*\).*/\1/p')" -gt 1 ] || return
	result=$(redis-cli -h "$ADDR" -p "$port" info commandstats |
		grep '^cmdstat_get:' | cut -d, -f1)
	[ -n "$result" ] && stop_all
}

@test "redis-benchmark -c 50, and a BGSAVE in each fifth of a second" {
	need redis-server redis-benchmark
	megabytes=20 requests=$(sized 600000 80000) # some seconds over TCP
	lazy_share=99 slack=$(sized 1 30) # the first bytes of each stream
	each_way $((requests * 40)) redis_forks "$both"
}

replica_is_up() {
	redis-cli -h "$ADDR" -p $((port + 1)) info replication | grep '^master_link_status:up'
}

# rdb_channel yes|no: whether the first copy has a stream of its own, which redis 8 can do
rdb_channel() {
	channel=()
	[[ $(redis-server --version) =~ v=([0-9]+) ]] || return
	[ "${BASH_REMATCH[1]}" -lt 8 ] || channel=(--repl-rdb-channel "$1")
}
digest_at() { redis-cli -h "$ADDR" -p "$1" debug digest; }
same_data() { [ "$(digest_at "$port")" = "$(digest_at $((port + 1)))" ]; }

redis_replica() {
	redis_start --repl-diskless-sync "$diskless" "${channel[@]}" || return
	start replica as client redis-server --bind "$ADDR" --port $((port + 1)) --dir "$t" --save '' \
		--protected-mode no --enable-debug-command yes --replicaof "$ADDR" "$port" --dbfilename replica.rdb \
		"${channel[@]}"
	listening $((port + 1)) && holds 60 replica_is_up || return
	redis -x set more <"$t/a" # populate is not passed on
	holds 60 same_data || return
	result=$(digest_at "$port")
	stop_all
}

@test "redis: a replica, by a file" {
	need redis-server redis-cli openssl
	megabytes=$(sized 20 20 200)
	random "$t/a" 5
	rdb_channel no
	diskless=no slack=1
	lazy_share=30 # the first 10 MB or so, until it asks after the child again
	each_way $(((megabytes + 5) * 1000000)) redis_replica "$both"
}

@test "redis: a replica" {
	need redis-server redis-cli openssl
	megabytes=$(sized 20 20 200)
	random "$t/a" 5
	rdb_channel no
	diskless=yes
	# lazy: the child that writes the data set holds the stream, too, until all is sent
	lazy_share=$(sized 10 10 2) slack=1
	each_way $(((megabytes + 5) * 1000000)) redis_replica "$both"
}

# The child of fork that writes the data set uses that stream, so it returns to TCP.
@test "redis 8: a replica whose first copy has a stream of its own" {
	need redis-server redis-cli openssl
	rdb_channel yes
	[ ${#channel[@]} -gt 0 ] || skip "this redis has none"
	megabytes=5
	random "$t/a" 5
	diskless=yes lazy_share=5 slack=60
	each_way $(((megabytes + 5) * 1000000)) redis_replica "$both"
}
