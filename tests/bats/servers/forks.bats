#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A process for each connection, and Python's ways to have many.

# shellcheck disable=SC2030,SC2031,SC2034,SC2120,SC2154,SC2317 # set here, used there
load ../../lib/common
load ../../lib/real
load ../../lib/servers

# -------------------------------------------- a process for each connection

megabytes=$(sized 20 4 200)

# What these have as standard input, or share with a child, stays plain: equal bytes.
plain_is_right() { slack=100 lazy_share=0; } # of more than there is

sshd_run() {
	local to=(-F none -i "$t/key" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR)
	rm -f "$t"/got* "$t"/up*
	serve /usr/sbin/sshd -D -e -f "$t/sshd.conf" || return
	as client timeout "$limit" scp "${to[@]}" -P "$port" "$t/a" "$(id -un)@$ADDR:$t/up" &&
		as client timeout "$limit" scp "${to[@]}" -P "$port" "$(id -un)@$ADDR:$t/up" "$t/got" || return
	start master as client ssh "${to[@]}" -N -M -S "$t/ssh" -p "$port" "$(id -un)@$ADDR"
	holds 60 ssh -F none -S "$t/ssh" -O check x || return
	as client timeout "$limit" scp -o "ControlPath=$t/ssh" "${to[@]}" -P "$port" "$t/a" "$(id -un)@$ADDR:$t/up.2" &&
		cmp "$t/a" "$t/up.2" && ssh -F none -S "$t/ssh" -O exit x 2>/dev/null || return
	start forward as client ssh "${to[@]}" -N -p "$port" -L "$ADDR:$((port + 1)):$ADDR:$((port + 2))" \
		"$(id -un)@$ADDR"
	start target socat -u "TCP-LISTEN:$((port + 2)),bind=$ADDR,reuseaddr,fork" "CREATE:$t/got.target"
	listening $((port + 1)) && listening $((port + 2)) || return
	as client timeout "$limit" nc -N "$ADDR" $((port + 1)) <"$t/a" &&
		holds 60 cmp "$t/a" "$t/got.target" || return
	stop_all
	cmp "$t/a" "$t/got" || return
	result=$(sha256sum <"$t/got")
}

@test "sshd: scp, by a shared connection, too, and a forwarded port" {
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
	random "$t/a" "$megabytes"
	plain_is_right
	each_way $((megabytes * 5500000)) sshd_run "$both"
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
	random "$t/www/large" "$megabytes"
	random "$t/a" "$megabytes"
	plain_is_right
	each_way $((megabytes * 2500000)) rsync_run "$both"
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
	random "$t/www/large" "$megabytes"
	random "$t/a" "$megabytes"
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
	each_way $((megabytes * 2500000)) vsftpd_run "$both"
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
	random "$t/repo/large" "$megabytes"
	git -C "$t/repo" add large
	git -C "$t/repo" -c user.name=n -c user.email=e commit -q -m m
	plain_is_right
	each_way $((megabytes * 1500000)) git_run "$both"
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
	random "$t/a" "$megabytes"
	each_way $((megabytes * 2000000)) socat_run "$both"
}

# ------------------------------------------------------------------ Python

tasks=$(sized 8 4) # each has 12 MB echoed

# python_run SERVER CLIENT
python_run() {
	serve python3 "$SR_TOP/tests/lib/processes.py" "$1" "$ADDR" "$port" || return
	as client timeout "$limit" python3 "$SR_TOP/tests/lib/processes.py" "$2" "$ADDR" "$port" "$tasks" \
		>"$t/client.out" || return
	result=$(<"$t/client.out")
	[ "$result" = "$tasks" ] && stop_all
}

@test "Python: socketserver.ForkingMixIn, concurrent.futures" {
	need python3
	run_it() { python_run forking futures; }
	lazy_share=85 slack=20
	each_way $((tasks * 24000000)) run_it "$both"
}

@test "Python: multiprocessing.connection, multiprocessing.Pool" {
	need python3
	run_it() { python_run listener pool; }
	lazy_share=60
	slack=100 # wait: the parent speaks first, by the link, and then the child
	each_way $((tasks * 24100000)) run_it "$both"
}

@test "Python: multiprocessing.managers" {
	need python3
	run_it() { python_run manager proxies; }
	lazy_share=90 slack=1 # the server speaks first
	each_way $((tasks * 24000000)) run_it "$both"
}

# -------------------------------------------------------------------- MPI

mpi_run() {
	as client timeout "$limit" mpirun --allow-run-as-root --oversubscribe -np 4 --mca pml ob1 \
		--mca btl tcp,self --mca btl_tcp_if_include "${ADDR%.*}.0/24" "$t/mpi" "$turns" "$large" >"$t/client.out" || return
	result=$(<"$t/client.out")
}

@test "Open MPI over TCP, 4 ranks" {
	need mpicc mpirun
	mpicc -O2 -o "$t/mpi" "$SR_TOP/tests/lib/mpi.c"
	turns=$(sized 2000 200) large=$(sized 400 40)
	lazy_share=90 slack=1
	each_way $((large * 4000000)) mpi_run "$both"
}
