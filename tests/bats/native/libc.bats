#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Nothing of the C library that takes or makes a descriptor is overlooked: it is
# intercepted, or it is left alone for a reason that is written down.

# shellcheck disable=SC2154 # set by what is loaded
load ../../lib/common

setup() {
	need "${CC:-gcc}" nm
	d=$BATS_TEST_TMPDIR
	libc=$(ldd "$(command -v env)" | awk '$1 == "libc.so.6" { print $3 }')
	nm -D --defined-only "$libc" | awk '$2 ~ /[TWi]/ && !/GLIBC_PRIVATE/ { sub(/@.*/, "", $3); print $3 }' |
		LC_ALL=C sort -u >"$d/exported"
	sh "$SR_TOP/include/export-map" calls "${CC:-gcc} -E" "$SR_TOP/include/calls.def" |
		sed -n 's/^\t\([A-Za-z_0-9]*\);/\1/p' | LC_ALL=C sort -u >"$d/intercepted"
	sed '/^[#=]/d' "$SR_TOP/tests/lib/libc-left-alone" | tr -s ' \t' '\n' |
		sed '/^$/d' | LC_ALL=C sort >"$d/left-alone"
}

# declared: functions of libc's headers with a parameter that is a descriptor,
# by the names that glibc gives such parameters
declared() {
	local h
	echo '#define _GNU_SOURCE' >"$d/headers.c"
	for h in aio dirent fcntl fts ftw mqueue netdb poll pty signal spawn stdio \
		stdlib sys/{epoll,eventfd,fanotify,file,inotify,ioctl,mman,mount,pidfd} \
		sys/{select,sendfile,signalfd,socket,stat,statfs,statvfs,time,timerfd} \
		sys/{types,uio,un,wait,xattr,vfs} termios time unistd utmp utime \
		arpa/inet err error execinfo netinet/in; do
		! printf '#include <%s.h>\n' "$h" | "${CC:-gcc}" -E - >/dev/null 2>&1 ||
			printf '#include <%s.h>\n' "$h" >>"$d/headers.c"
	done
	"${CC:-gcc}" -E -P "$d/headers.c" | tr '\n' ' ' | sed 's/[;{}]/\n/g' |
		sed -n 's/.*\bextern [^()]*\b\([A-Za-z_0-9]\+\) *(\(.*\)/\1 \2/p' |
		grep -E '\bint +\*?__[a-z]*(fd|fildes|filedes|pipedes|fds)[a-z0-9]*\b|\bint +__(s|sock|dd|in|out)\b|struct pollfd|fd_set|__amaster|struct aiocb' |
		cut -d' ' -f1
}

# makers: those that return a descriptor and take none
makers() {
	tr ' ' '\n' <<-'END'
		open creat openat socket socketpair pipe pipe2 accept memfd_create
		memfd_secret epoll_create epoll_create1 inotify_init inotify_init1
		eventfd signalfd timerfd_create fanotify_init mkstemp mkstemps mkostemp
		mkostemps posix_openpt getpt openpty forkpty popen fopen freopen tmpfile
		fdopen opendir dirfd shm_open sem_open mq_open pidfd_open fsopen
		daemon system execve posix_spawn fclose openlog rcmd rexec rresvport
		perf_event_open userfaultfd syscall closefrom close_range splice
		fork vfork _Fork clone
	END
}

# plain NAME: without the decorations that libc gives its own names
plain() {
	sed -E 's/^_+//; s/^IO_//; s/^libc_//; s/_nocancel$//; s/_chk$//; s/_2$//; s/64$//; s/64v2$/v2/; s/64_2$//; s/64(_time)?$//'
}

@test "every function that takes or makes a descriptor" {
	{ declared; makers; } | LC_ALL=C sort -u >"$d/names"
	[ "$(wc -l <"$d/names")" -gt 150 ]
	# with all of their aliases that libc exports
	paste -d' ' "$d/exported" <(plain <"$d/exported") |
		awk 'NR == FNR { want[$1]; next } $1 in want || $2 in want { print $1 }' \
			"$d/names" - | LC_ALL=C sort -u >"$d/all"
	# an alias is left alone with its plain name
	missing=$(paste -d' ' "$d/all" <(plain <"$d/all") |
		awk 'FILENAME != "-" { known[$1]; next }
			!($1 in known) { print $1, $2 }' \
			"$d/intercepted" - | while read -r name base; do
			grep -qxF -e "$name" -e "$base" "$d/left-alone" || echo "$name"
		done)
	echo "neither intercepted nor left alone: $missing"
	[ -z "$missing" ]
}

@test "what is left alone exists, once, and is not intercepted" {
	dup=$(uniq -d "$d/left-alone")
	both=$(comm -12 "$d/left-alone" "$d/intercepted")
	echo "twice: $dup; intercepted: $both"
	[ -z "$dup$both" ]
}
