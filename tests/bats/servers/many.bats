#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Servers of many processes, as Debian ships them: workers that accept at one address,
# a process for each stream, children that write the data base to disk.

# shellcheck disable=SC2030,SC2031,SC2034,SC2120,SC2154,SC2317 # set here, used there
load ../../lib/common
load ../../lib/real

limit=100 # seconds for a client
both="wait:wait lazy:lazy"

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
	cp "$SR_BUILD/.libs/libsockrail-preload.so" "$t"
	export SOCKRAIL_PRELOAD_LIBRARY=$t/libsockrail-preload.so
}

teardown() {
	local f
	for f in "$t"/*.pid "$t"/*.pid.oldbin; do ended "$f" KILL; done
	stop_all
	rm -rf "$t"/{a,got*,www,up,db,repo,clone,*.so} # the machine's disk is its memory
}

# serve COMMAND...: the server at $port
serve() {
	start server as server "$@"
	listening "$port" 20
}

# holds SECONDS COMMAND...: waits until it is true
holds() {
	local i
	for ((i = 0; i < $1 * 20; i++)); do
		! "${@:2}" >/dev/null 2>&1 || return 0
		sleep 0.05
	done
	echo "not true after $1 seconds: ${*:2}" >&2
	return 1
}

# ended FILE SIGNAL: the daemon of that pid file
ended() {
	local pid
	pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] || return 0
	kill "-$2" "$pid" 2>/dev/null || return 0
	holds 10 gone "$pid"
}

gone() { ! kill -0 "$1"; }

# ------------------------------------------------------------------- nginx

nginx_setup() {
	need nginx ab openssl "$@"
	mkdir -p "$t/www"
	random "$t/www/large" 1
	head -c 1000 "$t/www/large" >"$t/www/small"
}

# What nginx leaves in the environment of the program that replaces it
kept=$(printf 'env %s; ' LD_PRELOAD SOCKRAIL_{LINKS,UPGRADE,UPGRADE_WAIT_MS,REPORT,LOG,LOG_FILE})

# nginx_start ROLE PORT WORKERS [LINE...]
nginx_daemon=off
nginx_start() {
	local role=$1
	cat >"$t/$role.conf" <<-END
		daemon $nginx_daemon;
		pid $t/$role.pid;
		error_log $t/$role.log;
		worker_processes $3;
		user $(id -un);
		$kept
		events { }
		http {
			access_log off;
			sendfile on;
			keepalive_requests 1000000;
			keepalive_timeout 600;
			upstream next { server $ADDR:$((port + 1)); keepalive 20; }
			server {
				listen $ADDR:$2;
				root $t/www;
				${4-}
			}
		}
	END
	# by its path, with which it replaces itself
	start "$role" as "$role" "$(command -v nginx)" -e "$t/$role.log" -c "$t/$role.conf"
	holds 10 test -s "$t/$role.pid" && listening "$2"
}

nginx_stop() { ended "$t/$1.pid" QUIT; }

# what ab says that is the same each time
ab_says='^(Complete requests|Failed requests|Write errors|HTML transferred|Non-2xx)'
ab_run() { as client timeout "$limit" ab -q "${@:1:$#-1}" "http://$ADDR:$port/${!#}"; }

nginx_workers() {
	nginx_start server "$port" "$workers" &&
		ab_run -k -n 30000 -c 16 small >"$t/client.out" &&
		ab_run -k -n 1200 -c 8 large >>"$t/client.out" || return
	nginx_stop server
	result=$(grep -E "$ab_says" "$t/client.out")
}

@test "nginx, 2 workers: ab" {
	nginx_setup
	workers=2 lazy_share=90 slack=1
	each_way 1200000000 nginx_workers "$both"
}

@test "nginx, 4 workers: ab" {
	nginx_setup
	workers=4 lazy_share=90 slack=1
	each_way 1200000000 nginx_workers "$both"
}

# Its workers do not join for streams as short as these.
nginx_short() {
	nginx_start server "$port" 2 && ab_run -n 21 -c 1 small >"$t/client.out" || return
	nginx_stop server
	result=$(awk '$1 == "50%" { print ($2 > 50 ? $2 : "quick") }' "$t/client.out")
}

@test "nginx, 2 workers: a first call waits for 50 ms at most, in vain" {
	nginx_setup
	slack=100
	each_way 21000 nginx_short lazy:wait
	[ "$(by_link)" = 0 ]
}

nginx_proxy() {
	local backend=$server inner=$((port + 1))
	nginx_start backend $inner 2 && nginx_start server "$port" 2 'location / {
		proxy_pass http://next;
		proxy_http_version 1.1;
		proxy_set_header Connection "";
		proxy_max_temp_file_size 0;
	}' && ab_run -k -n 10000 -c 8 small >"$t/client.out" &&
		ab_run -k -n 200 -c 8 large >>"$t/client.out" || return
	nginx_stop server
	nginx_stop backend
	result=$(grep -E "$ab_says" "$t/client.out")
	# behind it as before it
	[ "$server" = none ] || [ "$(went "tx_$SR_TEST_LINK" "$t/backend.report")" -gt 180000000 ]
}

@test "nginx as proxy, 2 workers each" {
	nginx_setup
	lazy_share=90
	each_way 200000000 nginx_proxy "$both"
}

# load COMMAND...: it runs while clients ask all the time.  No request may fail.
http_load() {
	rm -f "$t/stop" "$t/client.out"
	start client as client timeout "$limit" python3 "$SR_TOP/tests/lib/load.py" "$ADDR" "$port" \
		/large 6 "$t/stop" "$(sha256sum <"$t/www/large" | cut -d ' ' -f 1)"
	local client=$pid
	holds 30 grep -q started "$t/client.out" && "$@" || return
	touch "$t/stop"
	wait "$client" || return
	result=$(<"$t/client.out")
}

workers_of() { pgrep -P "$(<"$1")" -f 'nginx: worker process$' | sort; }
other_workers() { [ -n "$(workers_of "$1")" ] && [ "$(workers_of "$1")" != "$2" ]; }

nginx_hup() {
	local before i
	for i in 1 2 3; do
		before=$(workers_of "$t/server.pid")
		kill -HUP "$(<"$t/server.pid")" && holds 10 other_workers "$t/server.pid" "$before" || return
	done
}

nginx_usr2() {
	local old
	old=$(<"$t/server.pid")
	kill -USR2 "$old" && holds 10 test -s "$t/server.pid.oldbin" &&
		holds 10 other_workers "$t/server.pid" "" &&
		kill -WINCH "$old" && sleep 0.2 && kill -QUIT "$old" && holds 30 gone "$old"
}

nginx_under_load() {
	nginx_start server "$port" 2 && http_load "$1" || return
	nginx_stop server
}

load_setup() {
	nginx_setup python3
	lazy_share=50 # for a while nobody answers
}

@test "nginx is reloaded under load" {
	load_setup
	hup() { nginx_under_load nginx_hup; }
	each_way 1 hup lazy:lazy
}

@test "nginx replaces its program under load" {
	load_setup
	usr2() { nginx_under_load nginx_usr2; }
	nginx_daemon=on # else it does not
	each_way 1 usr2 lazy:lazy
}

# ------------------------------------------------------------------ Apache

apache_run() {
	local modules=/usr/lib/apache2/modules
	cat >"$t/apache.conf" <<-END
		ServerRoot $t
		ServerName localhost
		PidFile $t/apache.pid
		ErrorLog $t/apache.log
		Listen $ADDR:$port
		LoadModule mpm_${mpm}_module $modules/mod_mpm_$mpm.so
		LoadModule authz_core_module $modules/mod_authz_core.so
		DocumentRoot $t/www
		KeepAliveTimeout 600
		MaxKeepAliveRequests 0
		StartServers 3
		<IfModule mpm_prefork_module>
		MinSpareServers 3
		MaxRequestWorkers 20
		</IfModule>
		<IfModule mpm_event_module>
		ThreadsPerChild 25
		MaxRequestWorkers 75
		MinSpareThreads 25
		MaxSpareThreads 75
		</IfModule>
	END
	serve "${user[@]}" apache2 -D FOREGROUND -f "$t/apache.conf" &&
		ab_run -k -n 10000 -c 8 small >"$t/client.out" &&
		ab_run -k -n 800 -c 8 large >>"$t/client.out" || return
	stop_all
	result=$(grep -E "$ab_says" "$t/client.out")
}

apache() {
	nginx_setup apache2
	mpm=$1 lazy_share=90
	slack=100 # wait, TCP_DEFER_ACCEPT: nobody has the stream before its first bytes
	each_way 900000000 apache_run "$both"
}

@test "Apache, prefork: ab" { apache prefork; }

@test "Apache, event: ab" { apache event; }

# ---------------------------------------------------------------- gunicorn

gunicorn_app() {
	cat >"$t/app.py" <<-END
		data = open("$t/www/large", "rb").read()
		def app(env, start):
		    body = data if env["PATH_INFO"] == "/large" else data[:1000]
		    start("200 OK", [("Content-Length", str(len(body)))])
		    return [body]
	END
}

gunicorn_workers() {
	serve gunicorn --chdir "$t" --bind "$ADDR:$port" --workers 4 "${how[@]}" app:app &&
		ab_run -k -n "$1" -c 8 small >"$t/client.out" &&
		ab_run -k -n 100 -c 8 large >>"$t/client.out" || return
	stop_all
	result=$(grep -E "$ab_says" "$t/client.out")
}

@test "gunicorn, 4 workers of threads: ab" {
	nginx_setup gunicorn
	gunicorn_app
	how=(--worker-class gthread --threads 4 --keep-alive 60)
	run_it() { gunicorn_workers 3000; }
	lazy_share=75 slack=10 # each stream has 12 MB only
	each_way 100000000 run_it "$both"
}

@test "gunicorn, 4 workers, a request a stream: ab" {
	nginx_setup gunicorn
	gunicorn_app
	how=()
	run_it() { gunicorn_workers 300; }
	lazy_share=0 # it is over before there is a link
	each_way 100000000 run_it "$both"
}

# ----------------------------------------------------------------- HAProxy

haproxy_start() {
	as server haproxy -D -p "$t/haproxy.pid.new" -f "$t/haproxy.cfg" "$@" 3>&- &&
		holds 10 test -s "$t/haproxy.pid.new" && mv "$t/haproxy.pid.new" "$t/haproxy.pid" &&
		listening "$port"
}

haproxy_again() {
	local old i
	for i in 1 2 3; do
		old=$(<"$t/haproxy.pid")
		haproxy_start -x "$t/haproxy.sock" -sf "$old" || return
	done
}

haproxy_run() {
	local backend=$server
	nginx_start backend $((port + 1)) 2 || return
	{
		printf 'global\n\tstats socket %s mode 600 level admin expose-fd listeners\n' "$t/haproxy.sock"
		haproxy_config http "$port" $((port + 1))
	} >"$t/haproxy.cfg"
	haproxy_start && http_load haproxy_again || return
	ended "$t/haproxy.pid" TERM
	nginx_stop backend
}

@test "HAProxy is reloaded under load, and hands its listeners over" {
	load_setup
	need haproxy
	each_way 1 haproxy_run lazy:lazy
}

# -------------------------------------------------------------- PostgreSQL

postgres_setup() {
	bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | tail -n 1)
	PATH=$bin:$PATH
	need postgres pgbench psql
	"${user[@]}" initdb -D "$t/db" -A trust -U u -N >/dev/null
	server=none
	postgres_start
	pg() { "${user[@]}" "$1" -h "$ADDR" -p "$port" -U u "${@:2}"; }
	"${user[@]}" pgbench -h "$ADDR" -p "$port" -U u -i -q -s 1 postgres 2>/dev/null
	stop_all
}

postgres_start() {
	start server as server "${user[@]}" postgres -D "$t/db" -p "$port" -k "$t" \
		-c listen_addresses="$ADDR" -c fsync=off -c max_connections=40
	holds 30 "${user[@]}" pg_isready -q -h "$ADDR" -p "$port"
}

postgres() { as client timeout "$limit" "${user[@]}" "$1" -h "$ADDR" -p "$port" -U u "${@:2}" postgres; }

pgbench_run() {
	postgres_start && postgres pgbench -n "$@" >"$t/client.out" || return
	result=$(grep -E 'number of (trans|failed)' "$t/client.out")
	stop_all
}

@test "PostgreSQL: pgbench -c 16, select only" {
	postgres_setup
	lazy_share=95 slack=1
	run_it() { pgbench_run -c 16 -S -t 1500; }
	each_way 3000000 run_it "$both"
}

@test "PostgreSQL: pgbench -c 16, TPC-B" {
	postgres_setup
	slack=1 lazy_share=90 # 200 of 2,800 messages of each stream come before its link
	run_it() { pgbench_run -c 16 -t 200; }
	each_way 1900000 run_it "$both"
}

# A link for a stream of two messages is not worth it.
@test "PostgreSQL: pgbench -c 16 -C" {
	postgres_setup
	slack=100 lazy_share=0
	run_it() { pgbench_run -c 16 -S -C -t 15; }
	each_way 100000 run_it "$both"
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

@test "PostgreSQL: COPY of 20 MB, both ways" {
	postgres_setup
	awk 'BEGIN { for (i = 0; i < 200000; i++) printf "%d\t%050d\t%048d\n", i, i * 7919, i * 104729 }' >"$t/a"
	lazy_share=70 slack=1 # the server speaks first; each stream has 20 MB
	each_way 100000000 postgres_copy "$both"
}

# ------------------------------------------------------------------- redis

redis_start() {
	rm -f "$t"/*.rdb
	serve redis-server --bind "$ADDR" --port "$port" --dir "$t" --save '' --protected-mode no \
		--enable-debug-command yes --rdbcompression no --repl-diskless-sync-delay 0 &&
		redis debug populate 20000 key 1000
}

redis() { redis-cli -h "$ADDR" -p "$port" "$@" >/dev/null; }

redis_saves() {
	while sleep 0.5; do redis bgsave; done
}

redis_forks() {
	redis_start || return
	start saves redis_saves
	as client timeout "$limit" redis-benchmark -h "$ADDR" -p "$port" -c 50 -n 500000 -t get -d 100 \
		--csv >"$t/client.out" || return
	[ "$(redis-cli -h "$ADDR" -p "$port" info stats | sed -n 's/total_forks:\([0-9]*\).*/\1/p')" -gt 1 ] || return
	result=$(redis-cli -h "$ADDR" -p "$port" info commandstats |
		grep '^cmdstat_get:' | cut -d, -f1)
	[ -n "$result" ] && stop_all
}

@test "redis-benchmark -c 50, and a BGSAVE twice a second" {
	need redis-server redis-benchmark
	lazy_share=95 slack=5 # the first bytes of each stream
	each_way 20000000 redis_forks "$both"
}

replica_is_up() {
	redis-cli -h "$ADDR" -p $((port + 1)) info replication | grep '^master_link_status:up'
}
digest_at() { redis-cli -h "$ADDR" -p "$1" debug digest; }
same_data() { [ "$(digest_at "$port")" = "$(digest_at $((port + 1)))" ]; }

redis_replica() {
	redis_start || return
	start replica as client redis-server --bind "$ADDR" --port $((port + 1)) --dir "$t" --save '' \
		--enable-debug-command yes --replicaof "$ADDR" "$port" --dbfilename replica.rdb
	listening $((port + 1)) && holds 60 replica_is_up || return
	redis -x set more <"$t/a" # populate is not passed on
	holds 20 same_data || return
	result=$(digest_at "$port")
	stop_all
}

@test "redis: a replica of 20 MB" {
	need redis-server redis-cli openssl
	random "$t/a" 5
	# lazy: the child that writes the data set holds the stream, too, until all is sent
	lazy_share=10 slack=1
	each_way 25000000 redis_replica "$both"
}

# -------------------------------------------- a process for each connection

# What these have as standard input, or share with a child, stays plain: equal bytes.
plain_is_right() { slack=100 lazy_share=0; } # of more than there is

sshd_run() {
	local to=(-F none -i "$t/key" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR)
	rm -f "$t"/got* "$t/up"
	serve /usr/sbin/sshd -D -e -f "$t/sshd.conf" || return
	as client timeout "$limit" scp "${to[@]}" -P "$port" "$t/a" "$(id -un)@$ADDR:$t/up" &&
		as client timeout "$limit" scp "${to[@]}" -P "$port" "$(id -un)@$ADDR:$t/up" "$t/got" || return
	start forward as client ssh "${to[@]}" -N -p "$port" -L "$ADDR:$((port + 1)):$ADDR:$((port + 2))" \
		"$(id -un)@$ADDR"
	start target socat -u "TCP-LISTEN:$((port + 2)),bind=$ADDR,reuseaddr,fork" "CREATE:$t/got.target"
	listening $((port + 1)) && listening $((port + 2)) || return
	as client timeout "$limit" nc -N "$ADDR" $((port + 1)) <"$t/a" &&
		holds 10 cmp "$t/a" "$t/got.target" || return
	stop_all
	cmp "$t/a" "$t/got" || return
	result=$(sha256sum <"$t/got")
}

@test "sshd: scp and a forwarded port" {
	need sshd scp ssh ssh-keygen socat nc openssl
	[ "$(id -u)" != 0 ] || (umask 022; mkdir -p /run/sshd)
	ssh-keygen -q -t ed25519 -N '' -f "$t/key"
	chmod 600 "$t/key"
	cat >"$t/sshd.conf" <<-END
		Port $port
		ListenAddress $ADDR
		HostKey $t/key
		AuthorizedKeysFile $t/key.pub
		StrictModes no
		UsePAM no
		PidFile none
		Subsystem sftp internal-sftp
	END
	random "$t/a" 20
	plain_is_right
	each_way 90000000 sshd_run "$both"
}

rsync_run() {
	local from=rsync://$ADDR:$port/files
	rm -rf "$t"/got* "$t/up"
	mkdir -m 777 "$t/up"
	serve rsync --daemon --no-detach --config="$t/rsync.conf" --port="$port" --address="$ADDR" || return
	as client timeout "$limit" rsync "$from/www/large" "$t/got" &&
		as client timeout "$limit" rsync "$t/a" "$from/up/a" || return
	stop_all
	cmp "$t/got" "$t/www/large" && cmp "$t/a" "$t/up/a" || return
	result=$(sha256sum <"$t/got")
}

@test "rsync daemon" {
	need rsync openssl
	cat >"$t/rsync.conf" <<-END
		use chroot = no
		log file = $t/rsync.log
		[files]
		path = $t
		read only = no
		uid = $name
		gid = $(id -gn "$name")
	END
	mkdir -m 755 "$t/www"
	random "$t/www/large" 20
	random "$t/a" 20
	plain_is_right
	each_way 50000000 rsync_run "$both"
}

vsftpd_run() {
	local url=ftp://$ADDR:$port
	rm -rf "$t"/got* "$t/www/up"
	mkdir -m 777 "$t/www/up"
	serve vsftpd "$t/vsftpd.conf" || return
	as client timeout "$limit" curl -sS --fail "$url/large" >"$t/got" &&
		as client timeout "$limit" curl -sS --fail -T "$t/a" "$url/up/a" || return
	stop_all
	cmp "$t/got" "$t/www/large" && cmp "$t/a" "$t/www/up/a" || return
	result=$(sha256sum <"$t/got")
}

@test "vsftpd" {
	need vsftpd curl openssl
	mkdir -m 755 "$t/www" "$t/empty"
	random "$t/www/large" 20
	random "$t/a" 20
	cat >"$t/vsftpd.conf" <<-END
		listen=YES
		listen_address=$ADDR
		listen_port=$port
		background=NO
		anonymous_enable=YES
		no_anon_password=YES
		anon_root=$t/www
		write_enable=YES
		anon_upload_enable=YES
		anon_umask=022
		ftp_username=$name
		nopriv_user=$name
		secure_chroot_dir=$t/empty
		connect_from_port_20=NO
		xferlog_enable=NO
		$([ "$(id -u)" = 0 ] || echo run_as_launching_user=YES)
	END
	plain_is_right
	each_way 50000000 vsftpd_run "$both"
}

git_run() {
	rm -rf "$t/clone"
	serve git daemon --base-path="$t" --export-all --reuseaddr --listen="$ADDR" --port="$port" || return
	as client timeout "$limit" git clone -q "git://$ADDR:$port/repo" "$t/clone" || return
	stop_all
	cmp "$t/repo/large" "$t/clone/large" || return
	result=$(git -C "$t/clone" rev-parse HEAD)
}

@test "git daemon" {
	need git openssl
	export HOME=$t
	git init -q "$t/repo"
	random "$t/repo/large" 20
	git -C "$t/repo" add large
	git -C "$t/repo" -c user.name=n -c user.email=e commit -q -m m
	plain_is_right
	each_way 30000000 git_run "$both"
}

socat_run() {
	serve socat "TCP-LISTEN:$port,bind=$ADDR,reuseaddr,fork" EXEC:cat || return
	as client timeout "$limit" socat -t 20 - "TCP:$ADDR:$port" <"$t/a" >"$t/got" || return
	stop_all
	cmp "$t/a" "$t/got" || return
	result=$(sha256sum <"$t/got")
}

@test "socat: fork,EXEC:cat" {
	need socat openssl
	random "$t/a" 20
	each_way 40000000 socat_run "$both"
}

# ------------------------------------------------------------------ Python

# python_run SERVER CLIENT
python_run() {
	serve python3 "$SR_TOP/tests/lib/processes.py" "$1" "$ADDR" "$port" || return
	as client timeout "$limit" python3 "$SR_TOP/tests/lib/processes.py" "$2" "$ADDR" "$port" 8 \
		>"$t/client.out" || return
	result=$(<"$t/client.out")
	[ "$result" = 8 ] && stop_all
}

@test "Python: socketserver.ForkingMixIn, concurrent.futures" {
	need python3
	run_it() { python_run forking futures; }
	lazy_share=80 slack=20
	each_way 96000000 run_it "$both"
}

@test "Python: multiprocessing.connection, multiprocessing.Pool" {
	need python3
	run_it() { python_run listener pool; }
	lazy_share=60
	slack=100 # wait: the parent speaks first, by the link, and then the child
	each_way 100000000 run_it "$both"
}

@test "Python: multiprocessing.managers" {
	need python3
	run_it() { python_run manager proxies; }
	lazy_share=80 slack=1 # the server speaks first
	each_way 96000000 run_it "$both"
}
