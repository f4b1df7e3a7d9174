#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Nothing of the C library that takes or makes a descriptor is overlooked: each of
# its functions, of which its own symbol table tells, is intercepted, or left alone
# for a reason that is written down, or has nothing to do with descriptors.  The lists are
# those of all C libraries that we know, so NAME@2.43 is in one from 2.43 on only, and NAME@X86-64
# in those of that processor only (NAME@RISC-V|AArch64: of these two).
# SR_LIBC=FILE: another one than that of this machine, or of another processor.

# shellcheck disable=SC2154 # set by what is loaded
load ../../lib/common

setup() {
	need "${CC:-gcc}" nm readelf
	d=$BATS_TEST_TMPDIR
	libc=${SR_LIBC:-$(ldd "$(command -v env)" | awk '$1 == "libc.so.6" { print $3 }')}
	nm -D --defined-only "$libc" >"$d/symbols"
	# of the default versions: no program is linked to another today
	awk '$2 ~ /^[TWi]$/ && $3 ~ /@@/ && !/GLIBC_PRIVATE/ { sub(/@.*/, "", $3); print $3 }' \
		"$d/symbols" | LC_ALL=C sort -u >"$d/names"
	sed -n 's/.* \([^ ]*\)@GLIBC_2.*/\1/p' "$d/symbols" >"$d/before" # for old programs only
	minor=$(sed -n 's/.* A GLIBC_2\.\([0-9]*\)$/\1/p' "$d/symbols" | sort -n | tail -n 1)
	processor=$(readelf -h "$libc" | awk '/^ *Machine:/ { print $NF }') # X86-64, AArch64, RISC-V
	[ "$(wc -l <"$d/names")" -gt 2000 ]
	paste -d' ' "$d/names" <(plain <"$d/names") >"$d/exported"
	sh "$SR_TOP/include/export-map" names "${CC:-gcc} -E -I$SR_TOP/include" \
		"$SR_TOP/include/calls.def" "$SR_TOP/include/sockrail.h" | grep -v '^sr_' >"$d/intercepted"
	alone=$SR_TOP/tests/lib/libc-left-alone none=$SR_TOP/tests/lib/libc-no-descriptor
}

# plain: names without the decorations that libc gives to its own, and to those
# that are fortified, without locks, for large files or for another long double
plain() {
	sed -E 's/^_+//; s/^nldbl_+//; s/^(IO|libc|isoc99|isoc23)_//; s/ieee128$//
		s/_(nocancel|chk|2|internal)$//; s/_unlocked$//; s/64v2$/v2/; s/64$//'
}

# judge LEFT-ALONE NO-DESCRIPTOR: says what is wrong with the two lists, and which
# functions are in neither, nor intercepted.  What has no entry of its own goes with
# its plain name; but not where that is intercepted: then it must be, too.
judge() {
	LC_ALL=C awk -v minor="$minor" -v processor="$processor" '
	function base(name) { return (name in plain) ? plain[name] : name }
	function regex(glob) {
		gsub(/\*/, "[A-Za-z0-9_]*", glob)
		return glob
	}
	# is it in the list, by an entry or by a pattern?
	function in_list(list, name) {
		return ((list, name) in entry) || name ~ all[list]
	}
	FILENAME ~ /intercepted$/ { intercepted[$1]; next }
	FILENAME ~ /before$/ { before[$1]; next }
	FILENAME ~ /exported$/ { plain[$1] = $2; exported[$1]; next }
	FNR == 1 { list = FILENAME; reason = 0; lists[++files] = list }
	/^#/ || !NF { next }
	/^=/ { reason = NF > 1; next }
	{
		for (i = 1; i <= NF; i++) {
			absent = 0
			if (split($i, part, "@") == 2) {
				$i = part[1]
				absent = part[2] ~ /^2\./ ? substr(part[2], 3) + 0 > minor + 0 : processor !~ "^(" part[2] ")$"
			}
			if (!reason) print $i ": without a reason"
			if ($i in known) print $i ": twice"
			known[$i]
			if ($i ~ /[*[]/) {
				r = regex($i)
				if (!absent) pattern[$i] = "^(" r ")$"
				all[list] = all[list] (all[list] == "" ? "" : "|") r
			} else {
				entry[list, $i]
				plain_entry[list, base($i)]
				if (!($i in exported) && !($i in before) && !absent) print $i ": not in libc"
				if ($i in intercepted) print $i ": intercepted"
			}
		}
	}
	END {
		for (i = 1; i <= files; i++)
			all[lists[i]] = "^(" all[lists[i]] ")$"
		for (p in pattern) {
			for (name in intercepted)
				if (name ~ pattern[p]) print p ": matches " name ", intercepted"
			used = 0
			for (name in exported)
				if (name ~ pattern[p] || plain[name] ~ pattern[p]) {
					used = 1
					break
				}
			if (!used) print p ": matches nothing in libc"
		}
		for (name in exported) {
			if (name in intercepted) continue
			n = 0
			for (i = 1; i <= files; i++) n += in_list(lists[i], name)
			if (!n)
				for (i = 1; i <= files; i++)
					n += ((lists[i], plain[name]) in plain_entry) ||
						plain[name] ~ all[lists[i]]
			if (n > 1) print name ": in both lists"
			if (!n) print name ": neither intercepted nor in a list"
		}
	}' "$d/intercepted" "$d/before" "$d/exported" "$1" "$2" | LC_ALL=C sort
}

@test "every function of libc is intercepted, left alone, or has no descriptors" {
	judge "$alone" "$none" | tee "$d/wrong"
	[ ! -s "$d/wrong" ]
}

@test "what is wrong with the lists is found" {
	{
		echo "listen no_old_call@2.4 no_young_call@2.99 no_call_here@$processor no_call_there@6502"
		grep -v '^= tee' "$alone" | sed 's/\<fchdir\>/no_such_call/'
		printf '= again\nfchmod re*v*\n'
	} >"$d/alone"
	sed 's/\<abs\>/fchown/; s/^ether_aton\*/no_such_pattern*/' "$none" >"$d/none"
	judge "$d/alone" "$d/none" | tee "$d/wrong"
	for line in "listen: without a reason" "listen: intercepted" "fchmod: twice" \
		"no_such_call: not in libc" "no_old_call: not in libc" "no_call_here: not in libc" "fchdir: neither intercepted nor in a list" \
		"re\*v\*: matches recv, intercepted" "fchown: twice" \
		"no_such_pattern\*: matches nothing in libc" "ether_aton_r: neither .*"; do
		grep -qx "$line" "$d/wrong" || { echo "not found: $line"; return 1; }
	done
	run ! grep -xE "no_(young_call|call_there): not in libc" "$d/wrong"
	# and whatever is no longer intercepted
	missed="recvmsg __read accept4 epoll_wait dup3 fdopen"
	for name in $missed; do sed -i "/^$name\$/d" "$d/intercepted"; done
	judge "$alone" "$none" >"$d/wrong"
	for name in $missed; do
		grep -qx "$name: neither intercepted nor in a list" "$d/wrong" || { echo "$name"; return 1; }
	done
}

# A thread with a cancellation pending would leave from within our locks, or from within a
# call that promises to be none.  (The program's own calls go through sr_real.)
@test "the library itself calls no cancellation point of libc" {
	nm -D --undefined-only "$SR_BUILD"/.libs/libsockrail.so.0 |
		awk '{ sub(/@.*/, "", $2); print $2 }' >"$d/calls"
	grep -qx pthread_create "$d/calls"
	grep -xE "(accept4?|clock_nanosleep|close|connect|creat|f?msync|fsync|msgrcv|msgsnd\
|nanosleep|open(at)?(64)?|pause|p?poll|p?read(v|64)?|p?select|pthread_cond_(timed)?wait\
|pthread_join|p?write(v|64)?|recv(from|msg)?|sem_(timed)?wait|send(to|msg)?|sigpause\
|sigsuspend|sig(timed)?wait(info)?|u?sleep|system|tcdrain|wait(id|pid)?|epoll_p?wait)" \
		"$d/calls" | tee "$d/points"
	[ ! -s "$d/points" ]
}

# called: the names that the library takes from others
called() {
	nm -D --undefined-only "$SR_BUILD/.libs/libsockrail.so.0" |
		awk '{ sub(/@.*/, "", $NF); print $NF }' | LC_ALL=C sort -u
}

@test "the library's own system calls go by no function that another preload may have" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "the sanitizer's functions are there, too"
	called >"$d/called"
	[ "$(wc -l <"$d/called")" -gt 50 ]
	sed '/^[#=]/d; s/ /\n/g' "$SR_TOP/tests/lib/libc-called" |
		sed '/^$/d; s/\*/[A-Za-z0-9_]*/g; s/.*/^&$/' >"$d/allowed"
	run ! grep -vE -f "$d/allowed" "$d/called"
	while read -r pattern; do
		[[ $pattern = *chk* ]] || grep -qE "$pattern" "$d/called" ||
			{ echo "$pattern: nothing is called so"; return 1; }
	done <"$d/allowed"
	for name in mmap getpid clock_gettime nanosleep; do
		run ! grep -qE -f "$d/allowed" <<<"$name"
	done
}
