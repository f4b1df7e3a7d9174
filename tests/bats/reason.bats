#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Why a stream became or stayed plain: each reason by what causes it, in the
# reports of both ends, exactly; and the programs do as over TCP.  (What takes an
# RDMA device is in vm-only, what takes a peer that lies in native/impostor.)

# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # set here, used there
load ../lib/common
load ../lib/case

setup() {
	policy=wait by=no case_lossy=0 case_steps=()
}

teardown() { stop_all; }

# ends SERVER-REASON CLIENT-REASON CASE [[ROLE:]NAME=VALUE...]: $by says whether bytes
# went by the link: some, no, any
ends() {
	dir=$BATS_TEST_TMPDIR/$3.$RANDOM
	beside held "$dir.tcp" none none reason "$3"
	beside held "$dir" "$policy" "$policy" reason "${@:3}"
	joined && same "$dir" "$dir.tcp" && way "$dir" "$policy" any 1 1 none &&
		reason_is "$dir" accept "$1" && reason_is "$dir" connect "$2" &&
		by_link && return 0
	tail -n 20 "$dir"/*.report "$dir"/*.log
	return 1
}

by_link() {
	local n
	n=$(went "tx_$SR_TEST_LINK" "$dir"/*.report)
	case $by in
	some) [ "$n" -ge 120000 ] ;;
	no) [ "$n" = 0 ] ;;
	esac && return 0
	echo "$n bytes by the link, wanted $by"
	return 1
}

# either REASON [SOCKRAIL_NAME=VALUE...]: the server's program is the cause, and then
# the client's, of a stream that was on the link.  (The other end may be over before it
# has seen that the link is.)
either() {
	by=some
	beside ends "$1" 'peer-dropped|null' "$1-server" "${@:2}"
	beside ends 'peer-dropped|null' "$1" "$1-client" "${@:2}"
	joined
}

@test "stdio: the descriptor becomes 0, too" {
	either stdio
}

@test "fork: a child uses the stream" {
	either fork
}

@test "exec: another program gets the descriptor" {
	either exec
}

@test "passed: the descriptor is sent away" {
	either passed
}

@test "io_uring: the process makes a ring" {
	either io_uring SOCKRAIL_IO_URING=1
}

@test "foreign-library: a library is loaded by RTLD_DEEPBIND" {
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "AddressSanitizer refuses RTLD_DEEPBIND"
	either foreign-library
}

@test "option: the stream's error queue is read" {
	either option
}

# The kernel has counted 100 bytes that the library has not seen, after all that
# the ends show each other.  A link is asked for with the last call before "go":
# while a call is asleep in the kernel the counters are not judged.  Over RDMA the proof
# comes first, which may have too little to show.
@test "counters: bytes sent or received around the library" {
	local counters=counters dropped=peer-dropped
	[ "$SR_TEST_LINK" = shm ] || counters='counters|peer-dropped' dropped='unread|peer-dropped'
	policy=lazy case_steps=('go log link .* has ended') by=any
	case_lossy=1 # on one side's books
	beside ends "$dropped" "$counters" tx-at-client SOCKRAIL_UPGRADE_BYTES=280000
	beside ends "$counters" "$dropped" rx-at-server SOCKRAIL_UPGRADE_BYTES=280000
	joined
	# the answerer's direction waits for its program to send again
	[ "$SR_TEST_LINK" = verbs ] || case_steps=('go log tx on the link')
	beside ends "$dropped" "$counters" rx-at-client SOCKRAIL_UPGRADE_BYTES=280000
	beside ends "$counters" "$dropped" tx-at-server SOCKRAIL_UPGRADE_BYTES=280000
	joined
}

@test "counters: not if the stream has just been closed" {
	[[ " $SR_TEST_MODES " = *" eager "* ]] || skip "for policy eager"
	compare reason brief -w some -n 200 -m eager
	run -1 grep -r counters "$BATS_TEST_TMPDIR/brief.eager"
}

# Over shared memory the kernel vouches for the peer.
@test "history: what the server has read is not what the client sent" {
	policy=lazy
	if [ "$SR_TEST_LINK" = shm ]; then
		by=some case_steps=('go log tx on the link')
		ends null null history
		return
	fi
	case_steps=('go log link .* has ended')
	ends history peer-dropped history
}

@test "no-match: the server has not accepted the stream" {
	# The log has it.  The client asks again a little later, and by then the server may have
	# accepted, where the machine is slow; or that link is made as the stream ends.
	case_steps=('go log plain: no-match')
	by=any
	ends 'not-asked|short|peer-dropped|null' 'no-match|null' late-accept
}

@test "timeout: the server has accepted the stream, and does not use it" {
	# The log has it.  The client asks again a little later, when the server uses it.
	case_steps=('go log plain: timeout')
	by=any
	ends 'timeout|short|peer-dropped|null' 'timeout|null' late-use
}

@test "timeout: the client ends the stream, and has had no answer" {
	policy=lazy case_lossy=1
	ends timeout timeout unseen
}

# The link is made, and the client's direction is in a send that sleeps.
@test "the link ends between the handshake and the switch" {
	policy=lazy case_steps=('- out got' 'go log handshake done')
	ends stdio peer-dropped asleep-stdio SOCKRAIL_UPGRADE_BYTES=500k
	[ "$(went switches "$dir"/*.report)" = 0 ]
}

# Asked, agreed on, and no room on TCP for the mark.
@test "the link ends between the switch and the mark" {
	policy=lazy
	case_steps=('interrupt log handshake done' 'act out in one call' 'go log has ended')
	# (Over RDMA the server may find first that its program has not read what precedes the mark.)
	ends 'peer-dropped|unread' stdio interrupted-stdio SOCKRAIL_UPGRADE_BYTES=500k
	[ "$(went switches "$dir"/*.report)" = 0 ] # no mark was written
}

@test "handed over with bytes unread, where a mark would come behind them" {
	# The mark would be the other program's to read; or nobody reads, and the
	# call that hands over waits for ever.  (The client waits 0.1 s for the server to say so.)
	policy=lazy by=no case_lossy=1 case_steps=('go log has ended')
	beside ends exec 'peer-dropped|timeout' unread-exec
	beside ends stdio 'peer-dropped|timeout' unread-stdio
	beside ends passed 'peer-dropped|timeout' unread-passed
	joined
}

@test "unread: the server leaves bytes unread, where the mark would come behind them" {
	policy=lazy case_steps=('go log has ended')
	ends unread peer-dropped unread
}

# (Over shared memory it is seen at once; a request over RDMA is answered a little later.)
@test "no-listener: the server runs without Sockrail" {
	local name=any
	dir=$BATS_TEST_TMPDIR/alone
	[ "$SR_TEST_LINK" = shm ] || name=late-use case_steps=('go log plain: no-listener')
	held "$dir" none lazy reason $name
	reason_is "$dir" connect no-listener
}

# A process that did not call listen(2) itself, as its parent did, opens its rendezvous with its
# first stream.
@test "no-listener: the client asks again soon in policy eager, too" {
	case_steps=('go log asks again in 50 ms')
	dir=$BATS_TEST_TMPDIR/alone
	held "$dir" none eager reason late-use
	reason_is "$dir" connect no-listener
	grep 'asks again in 50 ms' "$dir/client.log"
}

@test "memory: at the client, and at the server" {
	ends not-asked memory any client:SOCKRAIL_MEMORY=4k
	ends memory memory any server:SOCKRAIL_MEMORY=4k
}

@test "two users, and each owns its end of the stream: no reason" {
	users
	by=any
	ends null null any server:CASE_UID=65533 client:CASE_UID=65532
	ends null null any client:CASE_UID=65532
	ends null null any server:CASE_UID=65533
	ends null null any server:CASE_UID=65533 client:CASE_UID=65533
}

@test "a server that has become another user since it listens: no reason" {
	users
	by=any
	ends null null demoted client:CASE_UID=65532
	ends null null demoted
}

# changed CASE STEP: a server whose child becomes another user, held until STEP; over TCP, too
changed() {
	dir=$BATS_TEST_TMPDIR/$1.$policy
	case_steps=("$2")
	mkdir "$dir"
	touch "$dir/server.log" "$dir/server.report" # for both users
	beside held "$dir.tcp" none none reason_heir "$1"
	beside held "$dir" "$policy" "$policy" reason_heir "$1"
	joined && same "$dir" "$dir.tcp"
}

# heir CASE: the server's child, which becomes another user, has its link
heir() {
	by=some
	changed "$1" 'go log tx on the link' && way "$dir" "$policy" any 1+ 1 none &&
		reason_is "$dir" connect null && by_link && return 0
	tail -n 20 "$dir"/*.report "$dir"/*.log
	return 1
}

@test "a server's child that becomes another user: no reason" {
	users
	policy=lazy
	heir heir-setuid
	heir heir-seteuid
	heir heir-setreuid
	heir heir-setresuid
	heir heir-syscall
	policy="wait"
	heir heir-setuid
}

@test "a daemon's child that becomes another user: its link" {
	users
	policy=lazy by=some
	changed background 'go log tx on the link'
	by_link
}

@test "a server's child that is another user does not answer for its parent" {
	users
	policy=lazy
	changed parent-serves 'go log link shm up'
	grep '"role":"connect".*"link":"shm"' "$dir/client.report"
}

@test "user: a server's child becomes another user around the C library" {
	users
	policy=lazy
	changed heir-raw 'go log plain: user'
	reason_is "$dir" connect user
	[ "$(went tx_shm "$dir"/*.report)" = 0 ]
}

@test "deferred: the server gets the stream when its client sends" {
	# The client asks again behind that.
	case_steps=('go log plain: deferred')
	by=any
	policy=eager
	ends 'not-asked|short|null' 'deferred|null' deferred
}

@test "fork: two processes of the client hold the stream, and no others use it" {
	policy=lazy
	ends not-asked fork held-by-two
}

@test "epoll: a set that wakes one waiter of many" {
	ends epoll epoll epoll
	grep 'no link any more: epoll' "$dir/server.log"
}

@test "never: a knob says so" {
	policy=never
	ends never never any
}

@test "off: a knob leaves out all kinds of links" {
	ends off off any SOCKRAIL_LINKS=none
}

@test "no-device: there is none of that name" {
	ends 'no-device|no-library' 'no-device|no-library' any SOCKRAIL_LINKS=verbs \
		SOCKRAIL_DEVICE=none0
}

@test "short: the client has ended, or the stream before it was worth a link" {
	policy=lazy
	ends not-asked short any SOCKRAIL_UPGRADE_BYTES=1g
}
