#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Epoll sets.

# shellcheck disable=SC2030,SC2031,SC2034 # set in a case, for compare
load ../lib/common
load ../lib/case

teardown() { stop_all; }

@test "level-triggered, and what MOD does" {
	compare epoll_event level -w mixed
}

@test "half close, hang-up" {
	compare epoll_event end
}

@test "reset" {
	compare epoll_event reset -l -w mixed -r peer-dropped
}

@test "reset behind the peer's end" {
	compare epoll_event gone -n 2 -l -w some
}

@test "edge-triggered, partial reads" {
	compare epoll_event edge
}

@test "edge-triggered, room is told once, also if the stream gets its link then" {
	SR_TEST_MODES="wait lazy eager" compare epoll_order once -w some
	# In the virtual machine eager's link often comes when all has been said
	local mode=eager
	[ "$SR_TEST_WHERE" = native ] || mode='wait'
	grep -h '"tx_\(shm\|verbs\)":[1-9]' "$BATS_TEST_TMPDIR/once.$mode"/*.report
}

@test "edge-triggered, an end is told once, by a link or by TCP" {
	SR_TEST_MODES="wait lazy eager" compare epoll_order ended -n 2 -w some
	grep -h '"tx_\(shm\|verbs\)":[1-9]' "$BATS_TEST_TMPDIR/ended.wait"/*.report
}

@test "edge-triggered, a short read is the last" {
	compare epoll_event short -w mixed
}

@test "edge-triggered, a full stream gets room" {
	compare epoll_event edge-out
}

@test "one-shot" {
	compare epoll_event oneshot
}

@test "EEXIST, ENOENT, EPERM, EBADF, EINVAL, EFAULT, ELOOP" {
	compare epoll_set errors -w mixed -r 'epoll|peer-dropped' # added with EPOLLEXCLUSIVE, too
}

@test "epoll_wait, epoll_pwait, epoll_pwait2: times, signals, masks" {
	needs_signals
	compare epoll_event waits
}

@test "a message finds both ends asleep; upgrade while asleep" {
	compare epoll_loop sleepers -L
}

@test "several threads in a set: one wake-up for each arrival" {
	compare epoll_loop threads
}

@test "one-shot streams among several threads: never two at a time" {
	compare epoll_loop crowd -n 16
}

@test "64 streams, edge-triggered, read until EAGAIN" {
	compare epoll_loop echo-et -n 64
}

@test "64 streams, level-triggered, room for three events" {
	compare epoll_loop echo-lt -n 64
}

@test "small messages without pause, edge-triggered both ways" {
	compare epoll_loop busy -n 8
}

@test "the order of arrivals: the server sleeps" {
	compare epoll_order asleep -n 3 -w mixed
}

@test "the order of arrivals: the server looks every 20 ms" {
	compare epoll_order seldom -n 2 -w mixed
}

@test "the order of arrivals: a stream on a link and a new one" {
	[ "$SR_TEST_LINK" = shm ] || skip "the service thread may tell of one of the links first"
	compare epoll_order fresh -n 22 -w some
}

@test "one stream in several sets, a duplicate of a set" {
	compare epoll_set sets
}

@test "EPOLLEXCLUSIVE" {
	compare epoll_set exclusive -w mixed -r 'epoll|peer-dropped'
}

@test "sets in sets, poll and select on a set" {
	compare epoll_set nested -w mixed
}

@test "poll on a set" {
	compare epoll_set polled
}

@test "a stream that was reset, in a set that is polled, and by a number that is closed" {
	compare epoll_set broken -w some -l
}

@test "edge-triggered, half on the link, beside a member that is always ready" {
	compare epoll_set half -w some -l
}

@test "a stream that has ended both ways, by a number that is closed" {
	compare epoll_set hung -w mixed -r 'epoll|peer-dropped'
}

@test "a set that is polled is ready only if a member is" {
	compare epoll_set idle -w some
}

@test "a set in a set: messages of 64 bytes and of 64 kB" {
	compare epoll_nest exchange
}

@test "a set that is polled falls silent when its bytes are taken" {
	compare epoll_nest taken -w mixed
}

@test "a set that is polled: one-shot entries, deleted and changed ones" {
	compare epoll_nest entry -w mixed
}

@test "a set in an edge-triggered set" {
	compare epoll_nest edge -w mixed
}

@test "a set is put into another one under a thread that sleeps in it" {
	compare epoll_nest late -w mixed
}

@test "sets in sets: what the kernel refuses" {
	compare epoll_nest refused -w mixed
}

@test "asleep on a set, or on one that has it, by each call" {
	compare epoll_nest asleep -w mixed
}

@test "a set in a set, by the number that is closed" {
	compare epoll_nest numbers -w mixed
}

@test "a set in a set has told of a message that nobody takes: the others are told, too" {
	compare epoll_nest untaken -w mixed -r 'epoll|peer-dropped|fork|not-asked|short'
}

@test "a set that is polled: room, and none" {
	compare epoll_nest room -w mixed
}

@test "a set in a set that another process waits for, too" {
	compare epoll_nest shared -w mixed -r 'epoll|peer-dropped'
}

@test "a child waits in a set in a set, and the peer stands still: it does not spin" {
	compare epoll_nest stopped -w mixed -r 'epoll|peer-dropped|fork|not-asked|short'
}

@test "entries of a set in a set are changed: no other thread hears of it" {
	compare epoll_nest changed -w mixed
}

@test "a set in a set: bytes and room by edges, and no call for room" {
	[ "$SR_TEST_LINK" = shm ] || local -x CASE_POSTS=1
	compare epoll_nest edges -w mixed SOCKRAIL_CARRIERS=0
}

# The doorbell of such a queue pair is not in a set that is in another one: the service thread
# makes the set readable, by a write for each message.
@test "the same, with a queue pair that streams share" {
	[ "$SR_TEST_LINK" = verbs ] || skip "over RDMA only"
	local -x CASE_POSTS=2
	compare epoll_nest edges -w mixed SOCKRAIL_CARRIERS=8
}

@test "threads wait for a set, and for one that has it" {
	compare epoll_nest crowd -n 3
}

@test "closed descriptors leave the set, duplicates keep them there" {
	# Twice in one set: plain.
	compare epoll_close closing -n 2 -w some -r 'epoll|peer-dropped'
}

@test "a number that is closed, and comes back" {
	compare epoll_close number -w some -r 'epoll|peer-dropped'
}

@test "a loop that closes without EPOLL_CTL_DEL: no event of a closed connection" {
	local n=3000
	[ "$SR_TEST_LINK" = shm ] || n=80 # each takes its time
	CASE_CONNECTIONS=$n compare epoll_close loop -w some -l -n $n
}

# Busy processes take the processor from the service thread at any point, such as in a
# system call on a descriptor that its program closes.
@test "the same with 10,000 connections on a busy machine, lazy and eager" {
	local n=10000 i case_limit=400
	[ "$SR_TEST_WHERE" = native ] && [ -z "${SR_TEST_SANITIZER:-}" ] ||
		skip "too slow there"
	for ((i = 0; i < 3 * $(nproc); i++)); do
		(while :; do :; done) 3>&- &
		sr_started+=("$!")
	done
	SR_TEST_MODES="lazy eager" CASE_CONNECTIONS=$n \
		compare epoll_close loop -w some -l -n $n SOCKRAIL_UPGRADE_BYTES=4k
}

@test "a set is handed to another process, and comes back" {
	compare epoll_process passed -n 2 -w mixed -r 'epoll|peer-dropped'
}

@test "a set shared over fork" {
	compare epoll_process fork -s 3 -c 2 -l -w some -r 'fork|epoll|peer-dropped'
}

@test "a child takes wake-ups of its parent" {
	compare epoll_process thief -n 2 -l -w some -r 'fork|epoll|peer-dropped|not-asked' \
		SOCKRAIL_SPIN_US=0
}

@test "the same, of a parent without a descriptor left" {
	not_in_valgrind "does not lower the limit of descriptors"
	compare epoll_process full -n 2 -l -w some -r 'fork|epoll|peer-dropped|not-asked' \
		SOCKRAIL_SPIN_US=0
}

@test "a child waits in its parent's set; the parent has a new one, which keeps its links" {
	compare epoll_process apart -n 2 -l -w mixed -r 'fork|peer-dropped'
}

@test "a fork beside a set with a stream that is half closed" {
	compare epoll_process half-fork -w some -l -r 'fork|epoll|peer-dropped|short'
}

@test "the child waits in an inherited set: its streams are plain" {
	compare epoll_process heir -w plain -r 'epoll|not-asked|peer-dropped' \
		SOCKRAIL_UPGRADE_WAIT_MS=300
}

@test "the same, when they had a link before" {
	compare epoll_process heir-used -w mixed -r 'epoll|peer-dropped'
}

@test "into the background, with a set in a set" {
	compare epoll_process background-nested -n 2
}

@test "into the background: the child of a process that has ended goes on with its set" {
	compare epoll_process background -n 2
}

@test "the same with a stream that was in the set before: it is plain" {
	compare epoll_process background-early -n 2 -w some -r 'epoll|not-asked|fork|short|peer-dropped'
}

# late CASE: bytes go by TCP as long as two processes have the set, and by a link then
late() {
	local mode=lazy dir=$BATS_TEST_TMPDIR/$1.lazy case_steps=('linked log tx on the link')
	[[ " $SR_TEST_MODES " = *" $mode "* ]] || skip "for policy lazy"
	held "$BATS_TEST_TMPDIR/$1.tcp" none none epoll_process "$1"
	held "$dir" lazy lazy epoll_process "$1"
	same "$dir" "$BATS_TEST_TMPDIR/$1.tcp"
	case_lossy=0 case_lazy=1 way "$dir" lazy mixed 1 1 null
}

@test "a stream comes into the set before the parent process has ended: it has a link later" {
	late late
}

@test "the same at the end that accepts" {
	late late-server
}

@test "the other end goes back to TCP" {
	compare epoll_loop back -w mixed -r 'fork|peer-dropped'
}

@test "fair to the others in the set" {
	compare epoll_set fair
}

@test "woken by others; in and out of the set" {
	compare epoll_set changed
}

@test "deleted and added again, for every message" {
	# Twice in one set in the end: plain.
	compare epoll_set again -w some -r 'epoll|peer-dropped'
}

@test "deleted and added while another thread waits" {
	compare epoll_set toggled
}

# walk FIRST COUNT: the sequences of so many seeds
walk() {
	[ "$SR_TEST_WHERE" = native ] || local case_limit=400
	[ "$SR_TEST_LINK" = shm ] || local -x CASE_LATE=1
	CASE_SEEDS="$1 $2" compare epoll_walk walk -w some -l -n 1+ -m "wait lazy eager"
}

@test "random sequences of calls" {
	local n=150 reports="$BATS_TEST_TMPDIR/walk.wait/server.report"
	[ "$SR_TEST_WHERE" = native ] || n=25
	[ -z "${SR_TEST_SANITIZER:-}" ] || n=12
	walk 1 "$n"
	[[ " $SR_TEST_MODES " != *" wait "* ]] ||
		[ "$(grep -c "\"tx_$SR_TEST_LINK\":[1-9]" "$reports")" -gt $((2 * n)) ]
}

@test "deleted, and added again with EPOLLEXCLUSIVE while bytes lie unread" {
	walk 2937 1
}

@test "full before it was added, edge-triggered, and read while the link comes" {
	walk 893 1
}
