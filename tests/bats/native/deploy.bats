#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What goes out beside the programs: completion, drop-ins for units, files for
# containers, symbols, probes.  The packages themselves: tests/package.

load ../../lib/common

setup() {
	unset "${!SOCKRAIL_@}" LD_PRELOAD
	deploy=$SR_BUILD/src/deploy
}

teardown() { stop_all; }

# --------------------------------------------------------------- completion

# complete LINE: what bash offers at its end, one in a line; $of: the command
of=sockrail
complete_line() {
	# shellcheck disable=SC2016 # its own
	bash --norc -c '
		[ -z "$2" ] || . "$2"
		. "$1"
		COMP_LINE=$3 COMP_POINT=${#3}
		# Words as readline makes them: "=" is one
		read -ra COMP_WORDS <<<"${3//=/ = }"
		[[ $3 != *[[:space:]=] ]] || COMP_WORDS+=("")
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		"_${4//-/_}" "$4" "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}" 2>/dev/null
		printf "%s\n" "${COMPREPLY[@]}"
	' bash "$deploy/$of" "${with:-}" "$1" "$of" | LC_ALL=C sort
}

@test "bash completes every knob of --help, in the case in which it is typed" {
	"$SOCKRAIL" --help | sed -n '/^Knobs/,$s/^  \([A-Z_]*\) .*/\1=/p' |
		LC_ALL=C sort >"$BATS_TEST_TMPDIR/knobs"
	[ -s "$BATS_TEST_TMPDIR/knobs" ]
	complete_line "sockrail -s " | diff "$BATS_TEST_TMPDIR/knobs" -
	[ "$(complete_line 'sockrail -s upgrade_w')" = upgrade_wait_ms= ]
	[ "$(complete_line 'sockrail --set=UPGRADE_W')" = UPGRADE_WAIT_MS= ]
}

@test "bash completes values, profiles, options, and the command" {
	[ "$(complete_line 'sockrail -s upgrade=')" = "eager
lazy
never
wait" ]
	[ "$(complete_line 'sockrail -s UPGRADE=la')" = lazy ]
	[ "$(complete_line 'sockrail -s ring=')" = "" ]
	[ "$(complete_line 'sockrail --profile l')" = latency ]
	[ "$(complete_line 'sockrail -s ring=8k:8k --require=s')" = shm ]
	[ "$(complete_line 'sockrail --prof')" = --profile ]
	[[ "$(complete_line 'sockrail -p memory mkfif')" = *mkfifo* ]]
	cd "$BATS_TEST_TMPDIR"
	touch a.conf
	[ "$(complete_line 'sockrail -s rules=a.c')" = a.conf ]
	[ "$(complete_line 'sockrail cat a.c')" = a.conf ]
}

@test "bash-completion completes the arguments of the command" {
	with=/usr/share/bash-completion/bash_completion
	[ -e "$with" ] || skip "bash-completion is not installed"
	cd "$BATS_TEST_TMPDIR"
	touch a.conf
	[ "$(complete_line 'sockrail -s upgrade=lazy cat a.c')" = a.conf ]
	[ "$(complete_line 'sockrail sockrail -p saf')" = safe ]
}

# long COMMAND...: the long options of its --help
long() {
	"$@" --help | sed -nE 's/^  (-.,|   ) (--[a-z-]+).*/\2/p' | LC_ALL=C sort
}

@test "bash completes every option of sockrail check and of sockrail-stat" {
	long "$SOCKRAIL" check >"$BATS_TEST_TMPDIR/check"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/check")" -ge 7 ]
	complete_line 'sockrail -s links=shm check -' | tr -d = | LC_ALL=C sort |
		diff "$BATS_TEST_TMPDIR/check" -
	of=sockrail-stat
	long "$SR_BUILD/sockrail-stat" >"$BATS_TEST_TMPDIR/stat"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/stat")" -ge 14 ]
	complete_line 'sockrail-stat -' | tr -d = | LC_ALL=C sort |
		diff "$BATS_TEST_TMPDIR/stat" -
	# In zsh's, too
	sed -nE "s/^	+'(--[a-z-]+).*/\1/p" "$deploy/_sockrail" | LC_ALL=C sort -u |
		diff <(sort -u "$BATS_TEST_TMPDIR"/{check,stat}) -
}

@test "bash completes the arguments of sockrail check and of sockrail-stat" {
	[ "$(complete_line 'sockrail check --uni')" = "--unit-path=
--unit=" ]
	[[ "$(complete_line 'sockrail check -n -- mkfif')" = *mkfifo* ]]
	[[ "$(complete_line 'sockrail -- check mkfif')" != *--* ]]
	of=sockrail-stat
	[ "$(complete_line 'sockrail-stat -p state s')" = "shm
switching" ]
	[ "$(complete_line 'sockrail-stat sp')" = sport ]
	complete_line 'sockrail-stat --pid=' | grep -qx "$$"
	cd "$BATS_TEST_TMPDIR"
	touch a.prom
	[ "$(complete_line 'sockrail-stat --prometheus --output=a.')" = a.prom ]
}

@test "the completion for zsh has every knob, and zsh reads it" {
	"$SOCKRAIL" --help | sed -n '/^Knobs/,$s/^  \([A-Z_]*\) .*/\1/p' |
		diff - <(sed -n "s/^	'\([A-Z_]*\)\[.*/\1/p" "$deploy/_sockrail")
	need zsh
	zsh -n "$deploy/_sockrail"
}

# -------------------------------------------------------------------- units

# unit NAME: Debian's unit with our drop-in, below $root
unit() {
	local file=/lib/systemd/system/$1
	[ -e "$file" ] || skip "$1 is not installed"
	need systemd-analyze
	root=$BATS_TEST_TMPDIR/root
	mkdir -p "$root/etc/systemd/system/$1.d" "$root/usr/lib/systemd"
	[ -e "$root/lib" ] || ln -s usr/lib "$root/lib" # systemd 257 looks there
	cp "$deploy/${2:-${1%.service}}.conf" "$root/etc/systemd/system/$1.d/sockrail.conf"
	cp -r /lib/systemd/system "$root/usr/lib/systemd/"
	# What they start is looked for
	install -D -m 755 /bin/true "$root/usr/bin/redis-server"
	for f in usr/sbin/nginx usr/bin/pg_ctlcluster sbin/start-stop-daemon; do
		install -D -m 755 /bin/true "$root/$f"
	done
}

@test "systemd takes the drop-ins without a complaint" {
	unit redis-server.service
	run -0 systemd-analyze verify --man=no --recursive-errors=one --root="$root" \
		redis-server.service
	[ "$output" = "" ]
	unit nginx.service
	run -0 systemd-analyze verify --man=no --recursive-errors=one --root="$root" nginx.service
	[ "$output" = "" ]
}

@test "a drop-in for postgresql, too" {
	unit postgresql@.service postgresql
	local version
	version=$(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -V | tail -n 1)
	run -0 systemd-analyze verify --man=no --recursive-errors=one --root="$root" \
		"postgresql@${version:-15}-main.service"
	[ "$output" = "" ]
}

@test "the drop-in for redis lifts what is in the way, and nothing else" {
	unit redis-server.service
	local before=$BATS_TEST_TMPDIR/before after=$BATS_TEST_TMPDIR/after
	security() {
		systemd-analyze security --offline=true --root="$root" --json=short \
			--no-pager redis-server.service | python3 -c '
import json, sys
for t in json.load(sys.stdin):
    print(t["json_field"], t["set"])' | sort
	}
	security >"$after"
	rm -r "$root/etc/systemd/system/redis-server.service.d"
	security >"$before"
	diff "$before" "$after" >"$BATS_TEST_TMPDIR/diff" || :
	cat "$BATS_TEST_TMPDIR/diff"
	[ "$(sed -n 's/^> \([A-Za-z_]*\) .*/\1/p' "$BATS_TEST_TMPDIR/diff" | paste -sd ' ')" = \
		"PrivateDevices PrivateUsers RestrictAddressFamilies_AF_NETLINK" ]
}

# --------------------------------------------------------------- containers

@test "the CDI file is one, and names files that are installed" {
	python3 -c 'import yaml' || skip "python3-yaml is not installed"
	local d=$BATS_TEST_TMPDIR/root
	make -s -C "$SR_BUILD" install DESTDIR="$d" >"$BATS_TEST_TMPDIR/log" 2>&1
	# shellcheck disable=SC2016
	python3 - "$deploy/sockrail.yaml" "$d" <<-'END'
	import os, re, sys, yaml
	cdi = yaml.safe_load(open(sys.argv[1]))
	assert set(cdi) == {"cdiVersion", "kind", "containerEdits", "devices"}
	assert re.fullmatch(r"[A-Za-z][\w.-]*[A-Za-z0-9]/[A-Za-z][\w.-]*[A-Za-z0-9]", cdi["kind"])
	edits = [cdi["containerEdits"]] + [d["containerEdits"] for d in cdi["devices"]]
	assert len({d["name"] for d in cdi["devices"]}) == len(cdi["devices"])
	mounted = set()
	for e in edits:
	    assert set(e) <= {"env", "mounts", "deviceNodes"}, e
	    assert all("=" in v for v in e.get("env", []))
	    for m in e.get("mounts", []):
	        assert set(m) == {"hostPath", "containerPath", "options"}
	        assert os.path.exists(sys.argv[2] + m["hostPath"]), m
	        mounted.add(m["containerPath"])
	    for n in e.get("deviceNodes", []):
	        assert n["path"].startswith("/dev/infiniband/") and n["permissions"] == "rw"
	for v in edits[0]["env"]:
	    if v.startswith("LD_PRELOAD="):
	        assert set(v[len("LD_PRELOAD="):].split(":")) <= mounted
	END
}

# (A schema of Kubernetes' is not in Debian.)
@test "the example for Kubernetes is YAML, and its parts fit together" {
	python3 -c 'import yaml' || skip "python3-yaml is not installed"
	python3 - "$deploy/kubernetes.yaml" <<-'END'
	import sys, yaml
	objects = list(yaml.safe_load_all(open(sys.argv[1])))
	assert [(o["apiVersion"], o["kind"]) for o in objects] == \
	    [("v1", "Service"), ("apps/v1", "Deployment"), ("apps/v1", "Deployment")]
	service, *deployments = objects
	assert service["spec"]["clusterIP"] == "None"  # a string: else it has an address
	labels, directories = [], set()
	for d in deployments:
	    template = d["spec"]["template"]
	    labels.append(template["metadata"]["labels"])
	    assert d["spec"]["selector"]["matchLabels"] == labels[-1]
	    pod = template["spec"]
	    volumes = {v["name"]: v for v in pod["volumes"]}
	    (init,), (program,) = pod["initContainers"], pod["containers"]
	    for c in (init, program):
	        c["at"] = {m["mountPath"]: m for m in c["volumeMounts"]}
	        assert {m["name"] for m in c["volumeMounts"]} == set(volumes)
	    env = {e["name"]: e["value"] for e in program["env"]}
	    library, file = env["LD_PRELOAD"].rsplit("/", 1)
	    assert library in init["at"] and program["at"][library]["readOnly"]
	    assert env["LD_LIBRARY_PATH"] == library
	    assert file in init["command"][-1] and library in init["command"][-1]
	    assert "emptyDir" in volumes[init["at"][library]["name"]]
	    directory = env["SOCKRAIL_DIR"]
	    assert len(directory) <= 37 and directory in init["command"][-1]
	    directories.add(volumes[program["at"][directory]["name"]]["hostPath"]["path"])
	assert len(directories) == 1 and service["spec"]["selector"] in labels
	END
}

# Its command runs below a directory, in which there is what an image has.
@test "the init container of that example copies libsodium, whichever name the image has for it" {
	python3 -c 'import yaml' || skip "python3-yaml is not installed"
	python3 - "$deploy/kubernetes.yaml" libsodium.so.{23,26} <<-'END'
	import os, re, subprocess, sys, tempfile, yaml
	objects = yaml.safe_load_all(open(sys.argv[1]))
	pods = [o["spec"]["template"]["spec"] for o in objects if o["kind"] == "Deployment"]
	for pod, name in [(pod, name) for pod in pods for name in sys.argv[2:]]:
	    (init,), (program,) = pod["initContainers"], pod["containers"]
	    *shell, command = init["command"]
	    ours = re.search(r"\S*/(libsockrail\S*)", command)
	    to = {e["name"]: e["value"] for e in program["env"]}["LD_LIBRARY_PATH"]
	    with tempfile.TemporaryDirectory() as root:
	        for file in (ours[0], "/usr/lib/x86_64-linux-gnu/" + name):
	            os.makedirs(os.path.dirname(root + file), exist_ok=True)
	            open(root + file, "x").close()
	        for mount in init["volumeMounts"]:
	            os.makedirs(root + mount["mountPath"])
	        subprocess.run([*shell, re.sub(r"(?<!\S)/", root + "/", command)], check=True)
	        assert sorted(os.listdir(root + to)) == sorted([ours[1], name])
	END
}

@test "the library works from another directory, as the CDI file has it" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "a sanitizer's library has to be first"
	local d=$BATS_TEST_TMPDIR/opt
	mkdir "$d"
	cp -L "$SR_BUILD/.libs/libsockrail.so.0" "$d"
	run -0 env LD_PRELOAD="$d/libsockrail.so.0" grep -c "$d/libsockrail" /proc/self/maps
}

# ------------------------------------------------------------------ symbols

@test "Debian's list of symbols has every function that the library exports" {
	need nm
	nm -D --defined-only "$SR_BUILD/.libs/libsockrail.so" | awk '{ print $3 }' |
		LC_ALL=C sort >"$BATS_TEST_TMPDIR/exported"
	sed -n 's/^ \([a-zA-Z0-9_]*\)@Base .*/\1/p' "$SR_TOP/debian/libsockrail0.symbols" |
		LC_ALL=C sort | diff - "$BATS_TEST_TMPDIR/exported"
}

# ------------------------------------------------------------------- probes

@test "the library has the probes that the manual lists" {
	grep -q 'HAVE_SYS_SDT_H 1' "$SR_BUILD/config.h" || skip "built without sys/sdt.h"
	need readelf
	# name and number of arguments
	readelf -n "$SR_BUILD/.libs/libsockrail.so" | awk '
		/Provider:/ { ours = $2 == "sockrail" }
		ours && /Name:/ { name = $2 }
		ours && /Arguments:/ { print name, NF - 1 }' | sort -u >"$BATS_TEST_TMPDIR/has"
	awk '/^\.Ss / { probes = $2 == "Probes" }
		probes && /^\.It Nm / { print $3, NF - 4 }' "$SR_TOP/man/sockrail.7" |
		sort >"$BATS_TEST_TMPDIR/says"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/says")" = 6 ]
	diff "$BATS_TEST_TMPDIR/says" "$BATS_TEST_TMPDIR/has"
}

# It parses them, looks the probes up in the library and makes code, and loads nothing.
@test "bpftrace understands the lines of the manual" {
	grep -q 'HAVE_SYS_SDT_H 1' "$SR_BUILD/config.h" || skip "built without sys/sdt.h"
	command -v bpftrace >/dev/null || skip "bpftrace is not installed"
	[ "$(id -u)" = 0 ] || skip "needs root"
	grep '^bpftrace -e ' "$SR_TOP/man/sockrail.7" >"$BATS_TEST_TMPDIR/lines"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/lines")" = 3 ]
	local stage=-d
	[[ "$(bpftrace --help 2>&1)" != *"-d STAGE"* ]] || stage="-d codegen"
	while read -r line; do
		LIB=$SR_BUILD/.libs/libsockrail.so.0 run -0 bash -c "${line/ -e / $stage -e }"
		[[ $output = *'define i64 @"usdt:'*sockrail.so* ]] || { echo "$line"; false; }
	done <"$BATS_TEST_TMPDIR/lines"
}

@test "the lines of the manual count what streams do" {
	grep -q 'HAVE_SYS_SDT_H 1' "$SR_BUILD/config.h" || skip "built without sys/sdt.h"
	timeout 100 bpftrace -e 'BEGIN { exit() }' >/dev/null 2>&1 || skip "bpftrace cannot run here"
	local line links tracers=()
	# shellcheck disable=SC2034 # for said
	while read -r line; do
		# The interval is heard once all probes are attached.
		LIB=$SR_BUILD/.libs/libsockrail.so.0 start "line${#tracers[@]}" bash -c \
			"exec ${line%\"} interval:ms:200 { printf(\\\"attached\\\\n\\\") }\""
		said "line${#tracers[@]}" attached
		tracers+=("$pid")
	done < <(grep '^bpftrace -e ' "$SR_TOP/man/sockrail.7")
	# A stream with a link, whose sender finds no room in the end; and one without
	for links in shm none; do
		SOCKRAIL_LINKS=$links run -0 "$SOCKRAIL" python3 -c '
import socket, time
listener = socket.create_server(("127.0.0.1", 0))
a = socket.create_connection(listener.getsockname())
b, _ = listener.accept()
for i in range(300):
    for x, y in (a, b), (b, a):
        x.sendall(b"x" * 1000)
        y.recv(1000, socket.MSG_WAITALL)
    time.sleep(0.002)
a.setblocking(False)
try:
    while True:
        a.send(bytes(65536))
except BlockingIOError:
    pass'
	done
	for pid in "${tracers[@]}"; do
		kill -INT "$pid"
		await || :
	done
	grep -q '^@\[python3, off\]:' "$BATS_TEST_TMPDIR/line0.out"
	grep -q '^@\[shm\]:' "$BATS_TEST_TMPDIR/line1.out"
	grep -q '^@\[python3, [0-9]*\]:' "$BATS_TEST_TMPDIR/line2.out"
}
