#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# sockrail check: what it finds on this host, in programs, in units, and at peers.

# shellcheck disable=SC1003,SC2030,SC2031,SC2154 # a backslash; set by bats and by what is loaded
load ../../lib/common
load ../../lib/told

setup() {
	unset "${!SOCKRAIL_@}" LD_PRELOAD
	export SOCKRAIL_CONFIG_DIR=$BATS_TEST_TMPDIR/sockrail.d
	units=$BATS_TEST_TMPDIR/units
	mkdir "$SOCKRAIL_CONFIG_DIR" "$units"
}

teardown() { stop_all; }

# check STATUS ARGUMENT...: the lines, as JSON, in $output
check() {
	local want=$1
	shift
	run --separate-stderr "$SOCKRAIL" check --json "$@"
	[ "$status" = "$want" ] || { echo "$status, not $want: $*" "$output"; false; }
}

# look STATUS ARGUMENT...: the same, without streams
look() { check "$1" --no-streams "${@:2}"; }

@test "this host: the library is loaded, shared memory works, TCP and shm are measured" {
	check 0
	told ok library "$SR_BUILD/.libs/libsockrail.so.0"
	told ok settings CONFIG_DIR=
	told ok sock_diag works
	told ok measured "TCP "
	told ok measured ", by shm"
}

@test "for people: 80 columns, and status 0" {
	run -0 "$SOCKRAIL" check --no-streams -- true
	[[ $output = *"ok       command: "*"true is linked dynamically"* ]]
	while read -r line; do
		[[ $line = */* ]] || [ ${#line} -lt 80 ] || { echo "$line"; false; }
	done <<<"$output"
}

@test "sockrail -- check is a program of that name" {
	printf '#!/bin/sh\necho mine\n' >"$BATS_TEST_TMPDIR/check"
	chmod +x "$BATS_TEST_TMPDIR/check"
	PATH=$BATS_TEST_TMPDIR:$PATH run -0 "$SOCKRAIL" -- check
	[ "$output" = mine ]
}

@test "no library: a problem, and TCP is measured all the same" {
	export SOCKRAIL_PRELOAD_LIBRARY=/nowhere/libsockrail.so.0
	check 1
	told problem library /nowhere/libsockrail.so.0
	told ok measured "TCP "
}

@test "a C library that is newer than the list of calls" {
	check 0
	told ok libc "glibc "
	gcc -shared -fPIC -o "$BATS_TEST_TMPDIR/newer_libc.so" "$SR_TOP/tests/lib/newer_libc.c"
	LD_PRELOAD=$BATS_TEST_TMPDIR/newer_libc.so check 0
	told warning libc "glibc 9.99 is newer" counters
	# The library says so, too: to those who want to know what it does, once.
	export LD_PRELOAD=$BATS_TEST_TMPDIR/newer_libc.so
	run -0 "$SOCKRAIL" -s log=info true
	[ "$(grep -c "info: glibc 9.99 is newer than 2\." <<<"$output")" = 1 ]
	run -0 "$SOCKRAIL" true
	[ "$output" = "" ]
	unset LD_PRELOAD
	run -0 "$SOCKRAIL" -s log=info true
	[ "$output" = "" ]
}

@test "settings: what is set, what is wrong, what says never" {
	echo ring=banana >"$SOCKRAIL_CONFIG_DIR/a.conf"
	echo upgrade=never >"$SOCKRAIL_CONFIG_DIR/b.conf"
	check 1
	told warning settings banana
	told warning settings UPGRADE=never never
	told problem measured ", by TCP"
}

@test "an environment that takes the locks out of libmlx5" {
	MLX5_SINGLE_THREADED=1 look 1
	told problem environment "MLX5_SINGLE_THREADED is 1"
	MLX5_SINGLE_THREADED=0 look 0
	[[ $output != *MLX5_SINGLE_THREADED* ]]
}

@test "little locked memory, few descriptors" {
	need setpriv prlimit
	run -0 --separate-stderr setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock \
		prlimit --memlock=65536 --nofile=256 "$SOCKRAIL" check --json
	told warning "locked memory" "about 1 queue pair," memlock
	told warning descriptors "64 streams" descriptors
	# Root of such a namespace has the capability, but not where the kernel asks for it.
	if unshare -Ur true; then
		run -0 --separate-stderr prlimit --memlock=65536 unshare -Ur "$SOCKRAIL" check --json \
			--no-streams
		told warning "locked memory" "about 1 queue pair," memlock
	fi
	# What many containers have is enough for a program, but not for a service of many clients.
	run -0 --separate-stderr setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock \
		prlimit --memlock=8388608 "$SOCKRAIL" check --json --no-streams
	told ok "locked memory" "170 queue pairs, or 85 beside busy streams"
	# (tests/bats/vm-only/memory.bats has 10 busy streams and 50 idle ones.)
	check_unit 0 User=x LimitMEMLOCK=8M
	told warning LimitMEMLOCK= "170 queue pairs, or 85 beside busy streams" memlock
	check_unit 0 User=x LimitMEMLOCK=512M
	run ! told ok LimitMEMLOCK= infinity
}

@test "a sandbox without AF_NETLINK: sock_diag, and what streams report" {
	cat >"$BATS_TEST_TMPDIR/forbid.py" <<-'EOF'
		# socket(family) fails with EAFNOSUPPORT in what it executes
		import ctypes, os, struct, sys
		rule = lambda code, k, yes=0, no=0: struct.pack("HBBI", code, yes, no, k)
		call = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
		code = b"".join([rule(0x20, 0), rule(0x15, call, 0, 3), rule(0x20, 16),
		    rule(0x15, int(sys.argv[1]), 0, 1), rule(0x06, 0x50061), rule(0x06, 0x7fff0000)])
		program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(
		    buf := ctypes.create_string_buffer(code)))
		libc = ctypes.CDLL(None, use_errno=True)
		assert not libc.prctl(38, 1, 0, 0, 0)
		assert not libc.prctl(22, 2, program, 0, 0), ctypes.get_errno()
		os.execvp(sys.argv[2], sys.argv[2:])
	EOF
	run -1 --separate-stderr python3 "$BATS_TEST_TMPDIR/forbid.py" 16 "$SOCKRAIL" check --json
	told problem sock_diag "no shared memory" no-match
	told warning seccomp "a filter"
	told problem measured ", by TCP" no-match
	SOCKRAIL_DIR=$BATS_TEST_TMPDIR run -1 --separate-stderr \
		python3 "$BATS_TEST_TMPDIR/forbid.py" 16 "$SOCKRAIL" check --json -n
	told problem unix_diag "no links by the directory" no-match
	run -1 --separate-stderr python3 "$BATS_TEST_TMPDIR/forbid.py" 1 "$SOCKRAIL" check --json
	told problem "shared memory" AF_UNIX memory
	told problem measured ", by TCP" memory
}

# names DIRECTORY: those of two that listen, until stop_all, and of one that was killed
names() {
	start names python3 -c '
import socket, sys, time
for i in range(3):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(f"{sys.argv[1]}/6.tcp4:10.0.0.2:80.000000000000000{i}")
    if i == 2:
        s.close()
    else:
        globals()[f"kept{i}"] = s
        s.listen()
print("ready", flush=True)
time.sleep(1000)
' "$1"
	said names ready
}

@test "the directory of SOCKRAIL_DIR: is it there, who may use it, who is in it" {
	look 0
	[[ $output != *directory* ]]
	export SOCKRAIL_DIR
	SOCKRAIL_DIR=$(mktemp -d /tmp/sr.XXXXXX)
	chmod 1777 "$SOCKRAIL_DIR"
	look 0
	told ok directory "mode 1777, for all users"
	told ok unix_diag works
	names "$SOCKRAIL_DIR"
	look 0
	told ok directory "; 2 names"
	told ok directory ", 1 of processes that were killed"
	chmod 0777 "$SOCKRAIL_DIR"
	look 0
	told warning directory "remove each other" no-listener
	chmod 0755 "$SOCKRAIL_DIR"
	look 0
	told ok directory "mode 0755, for its owner"
	SOCKRAIL_UPGRADE='wait' look 0
	told warning directory "not lazy" off
	SOCKRAIL_UPGRADE=lazy look 0
	untold warning directory lazy
	stop_all
	rm -r "$SOCKRAIL_DIR"
	look 1
	told problem directory "No such file" no-listener
	: >"$SOCKRAIL_DIR"
	look 1
	told problem directory "not a directory" no-listener
	rm "$SOCKRAIL_DIR"
}

@test "the directory of SOCKRAIL_DIR is another user's" {
	local user=(setpriv --reuid 65533 --regid 65533 --clear-groups)
	[ "$(id -u)" = 0 ] || skip "needs root"
	"${user[@]}" "$SOCKRAIL" --version || skip "this tree is not readable for others"
	export SOCKRAIL_DIR
	SOCKRAIL_DIR=$(mktemp -d /tmp/sr.XXXXXX)
	run -1 --separate-stderr "${user[@]}" "$SOCKRAIL" check --json -n
	told problem directory "may not read" no-listener
	chmod 755 "$SOCKRAIL_DIR"
	run -1 --separate-stderr "${user[@]}" "$SOCKRAIL" check --json -n
	told problem directory "not accept by it" no-listener
	rmdir "$SOCKRAIL_DIR"
}

@test "a user namespace, and its user nobody" {
	unshare -U true 2>/dev/null || skip "no user namespaces for this user"
	run -0 --separate-stderr unshare -Ur "$SOCKRAIL" check --json -n
	told warning user "of a user namespace of 1 users" user
	run -1 --separate-stderr unshare -U "$SOCKRAIL" check --json -n
	told problem user "nobody (65534)" user
}

@test "a peer to which there is no route" {
	unshare -Un true 2>/dev/null || skip "no network namespaces for this user"
	run -1 --separate-stderr unshare -Urn "$SOCKRAIL" check --json -n 192.0.2.1:80
	told problem route "none to 192.0.2.1|ip route get 192.0.2.1"
}

# fake_device NAME NODE-TYPE STATE LAYER GID: in a /sys/class of our own
fake_device() {
	local port=$BATS_TEST_TMPDIR/infiniband/$1/ports/1
	mkdir -p "$port/gids"
	echo "$2" >"$port/../../node_type"
	echo "$3" >"$port/state"
	echo "$4" >"$port/link_layer"
	echo "$5" >"$port/gids/0"
	mkdir -p "$BATS_TEST_TMPDIR/net/rail9"
	echo 02:00:00:00:09:07 >"$BATS_TEST_TMPDIR/net/rail9/address"
}

@test "RDMA devices: active, down, iWARP, one that SOCKRAIL_DEVICE excludes" {
	unshare -Unmr ip link add t0 type veth 2>/dev/null || skip "no veth here"
	fake_device mlx0 "1: CA" "1: DOWN" InfiniBand fe80:0000:0000:0000:0000:0000:0000:0001
	fake_device siw0 "4: RNIC" "4: ACTIVE" Ethernet 0200:0000:0907:0000:0000:0000:0000:0000
	fake_device rxe0 "1: CA" "4: ACTIVE" Ethernet 0000:0000:0000:0000:0000:0000:0000:0000
	# shellcheck disable=SC2016 # there
	seen() {
		run --separate-stderr unshare -Unmr sh -c 'mount --bind "$1" /sys/class && shift &&
			ip link add rail9 address 02:00:00:00:09:07 type veth &&
			ip addr add 192.0.2.1/24 dev rail9 && ip link set rail9 up && exec "$@"' \
			sh "$BATS_TEST_TMPDIR" "$SOCKRAIL" check --json -n 192.0.2.9:80
	}
	seen
	told problem "device mlx0, port 1" "InfiniBand, network device unknown" no-device
	told ok "device siw0, port 1" "iWARP, network device rail9, 1 addresses"
	told problem "device rxe0, port 1" "RoCE, network device unknown, 0 addresses|Give its network" no-device
	told ok route "by rail9, a network device of siw0"
	SOCKRAIL_DEVICE=rxe0 seen
	told problem route "by rail9, which belongs to no RDMA device that SOCKRAIL_DEVICE allows"
}

@test "programs: static, setuid, Go, script, io_uring, foreign libraries" {
	cd "$BATS_TEST_TMPDIR"
	echo 'int main(void) { return 0; }' >p.c
	gcc -static -o static p.c
	look 1 -- ./static
	told problem command "is static"

	gcc -o dynamic p.c
	look 0 -- ./dynamic
	told ok command "linked dynamically"
	cp dynamic setuid
	if [ "$(id -u)" = 0 ]; then
		chown 65534 setuid
		chmod u+s setuid
		look 1 -- ./setuid
		told problem command "is setuid"
	fi

	# What tells a Go program is a section that its linker makes.
	echo 'int main(void) { return 0; } __attribute__((section(".go.buildinfo"))) int b;' >go.c
	gcc -o go go.c
	look 1 -- ./go
	told problem command "is a Go program"

	echo 'int io_uring_queue_init(void) { return 0; }' >u.c
	gcc -shared -fPIC -o liburing.so.2 u.c
	echo 'int io_uring_queue_init(void); int main(void) { return io_uring_queue_init(); }' >r.c
	gcc -o ring r.c ./liburing.so.2
	look 0 -- ./ring
	told warning command "io_uring" io_uring

	# PHP, which loads extensions by RTLD_DEEPBIND, exports a function of this name.
	echo 'void php_load_extension(void) { } int main(void) { return 0; }' >e.c
	gcc -rdynamic -o extended e.c
	look 0 -- ./extended
	told warning command "RTLD_DEEPBIND" foreign-library
	printf '%s\n' '#define _GNU_SOURCE' '#include <dlfcn.h>' \
		'int main(void) { return !dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW); }' >m.c
	gcc -o spaces m.c
	look 0 -- ./spaces
	told warning command "dlmopen" foreign-library

	printf '#!/usr/bin/env -S A=b bash -e\n' >script
	printf '#! %s -x\n' "$PWD/static" >script2
	chmod +x script script2
	look 0 -- ./script
	told ok command "/bash is linked"
	look 1 -- ./script2
	told problem command "$PWD/static is static"
}

@test "no programs: empty, text, not executable, a directory" {
	cd "$BATS_TEST_TMPDIR"
	: >empty
	echo text >text
	echo '#!/bin/sh' >closed
	chmod +x empty text
	for name in empty text; do
		look 1 -- "./$name"
		told problem command "./$name has no program format"
	done
	for name in ./closed "$PWD" /etc/passwd; do
		look 1 -- "$name"
		told problem command "$name is not executable"
	done
	printf '[Service]\nExecStart=/etc/passwd\n' >"$units/closed.service"
	look 1 --unit closed --unit-path "$units"
	told problem ExecStart= "/etc/passwd is not executable"
}

# check_unit STATUS [LINE...]: of a unit with these lines
check_unit() {
	local status=$1
	shift
	{
		printf '[Service]\nExecStart=/bin/ls\n'
		printf '%s\n' "$@"
		printf '[Install]\nPrivateUsers=yes\n'
	} >"$units/tested.service"
	look "$status" --unit tested --unit-path "$units"
}

@test "Debian's redis-server: every directive in the way, and a drop-in" {
	cat >"$units/redis-server.service" <<-'EOF'
		[Service]
		ExecStart=/bin/ls /etc/redis/redis.conf --supervised systemd
		User=redis
		PrivateTmp=true
		LimitNOFILE=65535
		PrivateDevices=true
		ProtectHome=true
		ProtectSystem=strict
		ReadWritePaths=-/var/lib/redis
		CapabilityBoundingSet=
		MemoryDenyWriteExecute=true
		NoNewPrivileges=true
		PrivateUsers=true
		ProtectProc=invisible
		RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
		SystemCallFilter=@system-service
		SystemCallFilter=~ @privileged @resources
		NoExecPaths=/
		ExecPaths=/usr/bin/redis-server /usr/lib /lib
	EOF
	look 1 --unit redis-server --unit-path "$units"
	told warning PrivateDevices= "PrivateDevices=no" no-device
	told problem PrivateUsers= "PrivateUsers=no" user
	told problem RestrictAddressFamilies= "RestrictAddressFamilies=AF_NETLINK" no-match
	told ok SystemCallFilter= allows
	told problem NoExecPaths= "ExecPaths=$SR_BUILD/.libs"
	told ok MemoryDenyWriteExecute= ""
	told ok ProtectProc=,\ ProcSubset= ""
	told warning LimitMEMLOCK= "LimitMEMLOCK=infinity" memlock
	told ok LimitNOFILE= 65535
	told warning LD_PRELOAD "Environment=LD_PRELOAD=$SR_BUILD/.libs/libsockrail.so.0"

	# With the drop-in that it prints, no problem is left.
	mkdir "$units/redis-server.service.d"
	printf '%s\n' "$output" | python3 -c '
import json, sys
for l in map(json.loads, sys.stdin):
    if l["what"] == "drop-in":
        print(l["remedy"])' >"$BATS_TEST_TMPDIR/sockrail.conf"
	# People can copy it: none of its lines is broken.
	"$SOCKRAIL" check -n --unit redis-server --unit-path "$units" |
		sed -n '/^ *\[Service\]/,$s/^ *//p' |
		diff "$BATS_TEST_TMPDIR/sockrail.conf" -
	mv "$BATS_TEST_TMPDIR/sockrail.conf" "$units/redis-server.service.d/"
	look 0 --unit redis-server --unit-path "$units"
	told ok NoExecPaths= "ExecPaths="
	told ok LD_PRELOAD "the unit has"
	told ok LimitMEMLOCK= unlimited
}

@test "ProtectHome= hides a library there, unless it is bound" {
	local home=${HOME:-/root} dir bind
	[[ $home/ = /@(home|root)/* ]] && dir=$(mktemp -d "$home/sockrail.XXXXXX") ||
		skip "$home is not below /home or /root"
	cp "$SR_BUILD/.libs/libsockrail.so.0" "$dir/"
	export SOCKRAIL_PRELOAD_LIBRARY=$dir/libsockrail.so.0
	check_unit 1 ProtectHome=yes
	told problem ProtectHome= "BindReadOnlyPaths=$dir/libsockrail.so.0"
	for bind in "BindReadOnlyPaths=$dir/libsockrail.so.0" "BindPaths=-$dir"; do
		check_unit 0 ProtectHome=tmpfs "$bind"
		run ! told problem ProtectHome= ""
	done
	rm -r "$dir"
}

@test "units: calls, devices, files, limits; drop-ins, templates, resets" {
	check_unit 0
	told warning LD_PRELOAD "does not have"
	check_unit 1 'SystemCallFilter=@basic-io @file-system \' '# between' \
		'@process @network-io @io-event @signal madvise ioctl'
	told problem SystemCallFilter= "library calls: memfd_create" memory
	check_unit 1 SystemCallFilter=@system-service SystemCallFilter=~sendmsg:EPERM
	told problem SystemCallFilter= "library calls: sendmsg" memory
	check_unit 0 SystemCallFilter=~sendmsg SystemCallFilter=
	check_unit 1 RestrictAddressFamilies=none RestrictAddressFamilies=AF_NETLINK
	told problem RestrictAddressFamilies= AF_UNIX memory
	check_unit 1 PrivateNetwork=yes
	told problem PrivateNetwork= "" no-match
	check_unit 0 DevicePolicy=closed
	told warning DevicePolicy=,\ DeviceAllow= infiniband no-device
	check_unit 0 DevicePolicy=closed "DeviceAllow=/dev/infiniband/rdma_cm rw"
	run ! told warning DevicePolicy=,\ DeviceAllow= infiniband
	check_unit 0 ProtectSystem=strict 'Environment="SOCKRAIL_REPORT=/srv/a/r" A=b'
	told warning SOCKRAIL_REPORT "ReadWritePaths=/srv/a"
	# (An empty list would take back what the unit has.)
	check_unit 0 ProtectSystem=strict Environment=SOCKRAIL_REPORT=/r
	told warning SOCKRAIL_REPORT "ReadWritePaths=/"
	# What a file sets counts, wherever it is named.
	echo "SOCKRAIL_REPORT=/srv/f/r" >"$BATS_TEST_TMPDIR/environment"
	check_unit 0 ProtectSystem=strict "EnvironmentFile=-$BATS_TEST_TMPDIR/environment" \
		Environment=SOCKRAIL_REPORT=/srv/a/r
	told warning SOCKRAIL_REPORT "ReadWritePaths=/srv/f"
	check_unit 0 ProtectSystem=strict "EnvironmentFile=-$BATS_TEST_TMPDIR/environment" \
		EnvironmentFile= Environment=SOCKRAIL_REPORT=/srv/b/r Environment= Environment=A=b
	run ! told warning SOCKRAIL_REPORT ReadWritePaths=
	check_unit 0 ProtectSystem=strict Environment=SOCKRAIL_REPORT=r
	run ! told warning SOCKRAIL_REPORT ReadWritePaths=
	check_unit 0 User=x LimitMEMLOCK=64K LimitNOFILE=512
	told warning LimitMEMLOCK= "about 1 queue pair," memlock
	told warning LimitNOFILE= "128 streams" descriptors
	local library=$SR_BUILD/.libs/libsockrail.so.0
	check_unit 0 RootDirectory=/srv/root
	told warning RootDirectory=,\ RootImage= "BindReadOnlyPaths=$library"
	check_unit 1 NoExecPaths=/ ExecPaths=/bin
	told problem NoExecPaths= "ExecPaths=$library"
	check_unit 1 User=nobody
	told problem User= "" user

	printf '[Service]\nExecStart=/bin/ls\nPrivateUsers=yes\n' >"$units/t@.service"
	mkdir "$units/t@.service.d"
	look 1 -u t@one --unit-path "$units"
	echo $'[Service]\nPrivateUsers=no' >"$units/t@.service.d/b.conf"
	look 0 -u t@one --unit-path "$units"
}

@test "a systemd that runs is asked" {
	unshare -m true 2>/dev/null || skip "no mount namespace without privileges"
	mkdir "$BATS_TEST_TMPDIR/bin"
	cat >"$BATS_TEST_TMPDIR/bin/systemctl" <<-'EOF'
		#!/bin/sh
		case "$*" in
		*cat*no-such*) echo "No files found for no-such.service." >&2; exit 1 ;;
		*cat*) printf '# /etc/a\n[Service]\nExecStart=/bin/ls\nUser=a\n\n# /etc/b\n[Service]\nPrivateUsers=yes\n' ;;
		*LimitMEMLOCKSoft*) echo 65536 ;;
		*LimitNOFILESoft*) echo infinity ;;
		esac
	EOF
	chmod +x "$BATS_TEST_TMPDIR/bin/systemctl"
	# shellcheck disable=SC2016 # there
	asked() {
		run --separate-stderr unshare -m sh -c 'mount -t tmpfs none /run &&
			mkdir -p /run/systemd/system && PATH=$1:$PATH && shift && exec "$@"' \
			sh "$BATS_TEST_TMPDIR/bin" "$SOCKRAIL" check --json -n --unit "$1"
	}
	asked some
	[ "$status" = 1 ]
	told problem PrivateUsers= "" user
	told warning LimitMEMLOCK= "64 kB" memlock
	asked no-such
	[ "$status" = 2 ]
	[[ $stderr = *"no-such.service: no such unit"* ]]
}

@test "a server: without Sockrail, with it; one that measures" {
	serve='import socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
while True:
    c, _ = s.accept()
    print("got", c.recv(100), flush=True)'
	for how in plain rail; do
		start "$how" "$how" python3 -c "$serve"
		port=$(first_word "$how")
		if [ "$how" = plain ]; then
			check 1 "127.0.0.1:$port"
			told problem "127.0.0.1 port $port" "no link" no-listener
		else
			check 0 "127.0.0.1:$port"
			told ok "127.0.0.1 port $port" "a link by shm"
		fi
		told ok route "this host"
		told ok measured nothing
		# It has sent them nothing.
		[[ $(<"$BATS_TEST_TMPDIR/$how.out") != *"got b'"[!\']* ]]
	done
	port
	start serve "$SOCKRAIL" check --serve "$port"
	listening "$port"
	check 0 "127.0.0.1:$port"
	told ok measured "TCP "
	told ok measured ", by shm"
	check 0 "localhost:$port"
	SOCKRAIL_LINKS=none check 1 "127.0.0.1:$port"
	told problem "127.0.0.1 port $port" "no link" off
}

@test "bad input: one line, and status 2" {
	port
	for bad in nowhere nohost.invalid:80 "127.0.0.1:" "--unit no-such-unit" "-- no-such" \
		"127.0.0.1:1 ls" "127.0.0.1:65617" "--serve=x" "--serve=70000" "--nonsense" \
		"--unit x --unit-path /nowhere" "--unit ../x" "--" "::1:7471" "[::1]"; do
		# shellcheck disable=SC2086 # words
		run -2 "$SOCKRAIL" check $bad
		echo "$bad: $output"
		[ "${#lines[@]}" -le 2 ] && [[ $output = *check* ]]
	done
	run -2 "$SOCKRAIL" check --unit ''
	[ "$output" = "sockrail check: --unit '': not the name of a unit" ]
	run -2 "$SOCKRAIL" check --unit ../x --unit-path "$units"
	[ "$output" = "sockrail check: --unit '../x': not the name of a unit" ]
	run -2 "$SOCKRAIL" check ::1:7471
	[[ $output = *"in brackets: [::1]:7471" ]]
	run -2 "$SOCKRAIL" check --
	[[ $output = *"no command follows --" ]]
	check 1 "127.0.0.1:$port"
	told problem "127.0.0.1 port $port" "Connection refused"
	mkfifo "$BATS_TEST_TMPDIR/f.service"
	run timeout 100 "$SOCKRAIL" check -n --unit f --unit-path "$BATS_TEST_TMPDIR"
	[ "$status" -ne 124 ]
}

@test "the examples of the manual" {
	grep '^\$ sockrail check' "$SR_TOP/man/sockrail-check.1" |
		grep -v -- --unit >"$BATS_TEST_TMPDIR/examples"
	[ -s "$BATS_TEST_TMPDIR/examples" ]
	while read -r _ command; do
		PATH=$SR_BUILD:$PATH run -0 bash -c "$command"
	done <"$BATS_TEST_TMPDIR/examples"
	while read -r line; do
		[[ $output = *"$line"* ]] || { echo "the manual shows: $line"; false; }
	done < <(grep -E '^(ok|warning|problem) ' "$SR_TOP/man/sockrail-check.1")
}

# sodium FILE[=TO]...: libraries of these names are found first; a file that is none if
# there is no TO
sodium() {
	local f
	rm -rf "${BATS_TEST_TMPDIR:?}/lib"
	mkdir "$BATS_TEST_TMPDIR/lib"
	for f; do
		case $f in
		*=*) ln -s "${f#*=}" "$BATS_TEST_TMPDIR/lib/${f%%=*}" ;;
		*) echo none >"$BATS_TEST_TMPDIR/lib/$f" ;;
		esac
	done
	export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/lib
}

@test "libsodium is found by each of its names; where there is none, that is said" {
	local real names=(libsodium.so.26 libsodium.so.23) other level=warning
	real=$(libsodium)
	for name in "${names[@]}"; do
		other=${names[0]}
		[ "$other" != "$name" ] || other=${names[1]}
		sodium "$other" "$name=$real"
		look 0
		told ok "RDMA libraries" "libsodium are there"
		run -0 "$SR_BUILD/tests/unit/pake"
	done
	sodium "${names[@]}"
	run "$SOCKRAIL" check --json --no-streams
	[ -z "$(compgen -G '/sys/class/infiniband/*')" ] || level=problem
	told $level "RDMA libraries" "libsodium cannot be loaded: $LD_LIBRARY_PATH/libsodium.so.26" \
		no-libsodium
	told $level "RDMA libraries" "Install libsodium" no-libsodium
	run -77 "$SR_BUILD/tests/unit/pake"
	run -77 "$SR_BUILD/tests/unit/spoken_first"
}
