#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Web servers of many workers that accept at one address.

# shellcheck disable=SC2030,SC2031,SC2034,SC2120,SC2154,SC2317 # set here, used there
load ../../lib/common
load ../../lib/real
load ../../lib/servers

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
	holds 60 test -s "$t/$role.pid" && listening "$2"
}

nginx_stop() { ended "$t/$1.pid" QUIT; }

# what ab says that is the same each time
ab_says='^(Complete requests|Failed requests|Write errors|HTML transferred|Non-2xx)'
ab_run() { as client timeout "$limit" ab -q "${@:1:$#-1}" "http://$ADDR:$port/${!#}"; }

# ab_both STREAMS: $small and $large requests for files of 1 kB and of 1 MB
ab_both() {
	ab_run -k -n "$small" -c "$1" small && ab_run -k -n "$large" -c 8 large
}

nginx_workers() {
	nginx_start server "$port" "$workers" &&
		ab_both 16 >"$t/client.out" || return
	nginx_stop server
	result=$(grep -E "$ab_says" "$t/client.out")
}

@test "nginx, 2 workers: ab" {
	nginx_setup
	workers=2 lazy_share=90 slack=1
	small=$(sized 30000 1600) large=$(sized 1200 80)
	each_way $((large * 1000000)) nginx_workers "$both"
}

@test "nginx, 4 workers: ab" {
	nginx_setup
	workers=4 lazy_share=90 slack=1
	small=$(sized 30000 1600) large=$(sized 1200 80)
	each_way $((large * 1000000)) nginx_workers "$both"
}

nginx_wrk() {
	nginx_start server "$port" 2 && wrk_run small >"$t/client.out" &&
		wrk_run large >>"$t/client.out" || return
	nginx_stop server
	! grep -E 'Non-2xx|Socket errors' "$t/client.out" || return
	result=$(grep -c 'requests in' "$t/client.out")
}
wrk_run() { as client timeout "$limit" wrk -t 2 -c 16 -d 2 "http://$ADDR:$port/$1"; }

@test "nginx, 2 workers: wrk" {
	nginx_setup wrk
	lazy_share=90 slack=1 # in the end it closes streams with bytes under way
	each_way "$(sized 100000000 10000000)" nginx_wrk "$both"
}

# Its workers do not join for streams as short as these.
nginx_short() {
	nginx_start server "$port" 2 && ab_run -n 21 -c 1 small >"$t/client.out" || return
	nginx_stop server
	result=$(awk -v limit="$(sized 50 300)" '
		$1 == "50%" { print ($2 > limit ? $2 : "quick") }' "$t/client.out")
}

@test "nginx, 2 workers: a first call waits for 50 ms at most, in vain" {
	nginx_setup
	slack=100 sr_answer_ms="" # the 30 ms that users have
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
	}' && ab_both 8 >"$t/client.out" || return
	nginx_stop server
	nginx_stop backend
	result=$(grep -E "$ab_says" "$t/client.out")
	# behind it as before it
	[ "$server" = none ] ||
		[ "$(went "tx_$SR_TEST_LINK" "$t/backend.report")" -gt $((large * 10000 * lazy_share)) ]
}

@test "nginx as proxy, 2 workers each" {
	nginx_setup
	lazy_share=90
	small=$(sized 10000 800) large=$(sized 600 60)
	each_way $((large * 1000000)) nginx_proxy "$both"
}

# load COMMAND...: it runs while clients ask all the time.  No request may fail.
http_load() {
	rm -f "$t/stop" "$t/client.out"
	start client as client timeout "$limit" python3 "$SR_TOP/tests/lib/load.py" "$ADDR" "$port" \
		/large 6 "$t/stop" "$(sha256sum <"$t/www/large" | cut -d ' ' -f 1)"
	local client=$pid
	holds 60 grep -q started "$t/client.out" && "$@" || return
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
		kill -HUP "$(<"$t/server.pid")" && holds 60 other_workers "$t/server.pid" "$before" || return
	done
}

nginx_usr2() {
	local old
	old=$(<"$t/server.pid")
	kill -USR2 "$old" && holds 60 test -s "$t/server.pid.oldbin" &&
		holds 60 other_workers "$t/server.pid" "" &&
		kill -WINCH "$old" && sleep 0.2 && kill -QUIT "$old" && holds 60 gone "$old"
}

nginx_under_load() {
	nginx_start server "$port" 2 && http_load "$1" || return
	nginx_stop server
}

load_setup() {
	nginx_setup python3
	lazy_share=$(sized 50 1) # for a while nobody answers
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
		ab_both 8 >"$t/client.out" || return
	stop_all
	result=$(grep -E "$ab_says" "$t/client.out")
}

apache() {
	nginx_setup apache2
	mpm=$1 lazy_share=70
	small=$(sized 10000 800) large=$(sized 1600 80)
	# wait, TCP_DEFER_ACCEPT: nobody has the stream before its first bytes
	slack=$(sized 20 90)
	each_way $((large * 1000000)) apache_run "$both"
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
		ab_both 8 >"$t/client.out" || return
	stop_all
	result=$(grep -E "$ab_says" "$t/client.out")
}

@test "gunicorn, 4 workers of threads: ab" {
	nginx_setup gunicorn
	gunicorn_app
	how=(--worker-class gthread --threads 4 --keep-alive 60)
	small=$(sized 3000 300) large=$(sized 400 60)
	lazy_share=70 slack=10
	each_way $((large * 1000000)) gunicorn_workers "$both"
}

@test "gunicorn, 4 workers, a request a stream: ab" {
	nginx_setup gunicorn
	gunicorn_app
	how=()
	small=$(sized 300 60) large=$(sized 100 20)
	lazy_share=0 slack=$(sized 0 90) # it is over before there is a link
	each_way $((large * 1000000)) gunicorn_workers "$both"
}

# ----------------------------------------------------------------- HAProxy

haproxy_start() {
	as server haproxy -D -p "$t/haproxy.pid.new" -f "$t/haproxy.cfg" "$@" 3>&- &&
		holds 60 test -s "$t/haproxy.pid.new" && mv "$t/haproxy.pid.new" "$t/haproxy.pid" &&
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
		haproxy_config http "$port" $((port + 1)) "option idle-close-on-response"
	} >"$t/haproxy.cfg"
	haproxy_start && http_load haproxy_again || return
	ended "$t/haproxy.pid" TERM
	nginx_stop backend
}

# Without the option idle-close-on-response, HAProxy (2.6, 3.0) loses up to 16 kB at the end of an
# answer when it is reloaded, over TCP, too: once the rest of an answer is in its own buffer, the
# stream counts as idle, and at a soft stop h1_process() releases an idle stream without a look at
# that buffer.  It keeps the rest while the send buffer is full, which happens over TCP with answers
# of 4 MB, and on a link, by the default of SOCKRAIL_RING, with these of 1 MB.
@test "HAProxy is reloaded under load, and hands its listeners over" {
	load_setup
	need haproxy
	each_way 1 haproxy_run lazy:lazy
}
