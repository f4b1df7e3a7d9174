#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Policy wait holds the first send for a peer that is about to take the stream, and for
# nobody else.  What it says in the log counts here, not how long it took: no limit of the
# first answer is over before the peer gives all up, which the log would show.

# shellcheck disable=SC2154,SC2034 # set by bats and by what is loaded; read by case.bash
bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/case

sr_answer_ms=100000

teardown() { stop_all; }

# went_on CASE WORD...: why the first sends of that case went on, in mode wait, sorted
went_on() {
	[[ " $SR_TEST_MODES " = *" wait "* ]] || return 0
	local got
	got=$(cat "$BATS_TEST_TMPDIR/$1.wait"/*.log | sed -n 's/.*: the first send goes on: //p' |
		sort | paste -sd,)
	[[ $got =~ ^($2)$ ]] || { echo "$1 went on: $got, not $2"; return 1; }
}

# The one whose send goes on first has heard that the other is held, too.
@test "two connect to each other and send before they accept" {
	compare hold cross -n 2 -w some -m 'wait lazy eager nodevice'
	went_on cross 'later,(later|link)'
}

@test "one thread has both ends" {
	compare hold both -n 2 -w some -m 'wait lazy eager nodevice'
	went_on both later,later
}

@test "TCP_DEFER_ACCEPT: nobody accepts before the bytes come" {
	compare hold defer -w some
	went_on defer bytes
}

@test "a stream that is barred before it sends" {
	compare hold barred -n 20 -w plain -r 'epoll|short|not-asked'
	went_on barred ''
}

# coming CASE: a thread of the server waits for the listener, and the send is held
coming() {
	local dir=$BATS_TEST_TMPDIR/$1.wait case_lossy=0 case_lazy=0
	[[ " $SR_TEST_MODES " = *" wait "* ]] || skip "for policy wait"
	case_steps=('go log first answer: (coming|taken)')
	beside held "$BATS_TEST_TMPDIR/$1.tcp" none none hold "$1"
	beside held "$dir" wait wait hold "$1"
	joined
	same "$dir" "$BATS_TEST_TMPDIR/$1.tcp"
	way "$dir" wait link 1 1 none
	grep 'first answer: coming' "$dir/client.log"
	went_on "$1" link
}

@test "a thread of the server waits for the listener in epoll_wait: the send is held" {
	coming edge
}

@test "a thread of the server waits for the listener in accept: the send is held" {
	coming accept
}

@test "a thread of the server waits for the listener in poll: the send is held" {
	coming poll
}

@test "a thread of the server waits for the listener in select: the send is held" {
	coming select
}

# Over verbs policy lazy makes no link before the stream has carried something that the
# client can prove.  The held send would wait for one in vain.
@test "a server of policy lazy wants to see bytes: the send is not held, and no link made in vain" {
	local dir=$BATS_TEST_TMPDIR/accept.wait case_lossy=0 case_lazy=0
	[[ " $SR_TEST_MODES " = *" wait "* ]] || skip "for policy wait"
	[ "$SR_TEST_LINK" = verbs ] || skip "the kernel vouches for the client"
	case_steps=('go log first send goes on')
	beside held "$BATS_TEST_TMPDIR/accept.tcp" none none hold accept
	beside held "$dir" lazy wait hold accept
	joined
	same "$dir" "$BATS_TEST_TMPDIR/accept.tcp"
	way "$dir" wait mixed 1 1 none
	went_on accept bytes
	run -1 grep 'has ended: history' "$dir"/*.log
}

# The sender is told "coming", and then that this has come to nothing, before the server
# refuses.  The limit for that is SOCKRAIL_ANSWER_MS, of the server alone.
@test "a thread of the server waits for the listener, and another process takes the stream" {
	local dir=$BATS_TEST_TMPDIR/taken.wait case_lossy=0 case_lazy=0
	[[ " $SR_TEST_MODES " = *" wait "* ]] || skip "for policy wait"
	case_steps=('go log first send goes on' 'linked log tx on the link')
	beside held "$BATS_TEST_TMPDIR/taken.tcp" none none hold taken
	beside held "$dir" wait wait hold taken server:SOCKRAIL_ANSWER_MS=30
	joined
	same "$dir" "$BATS_TEST_TMPDIR/taken.tcp"
	way "$dir" wait mixed 1 1 none
	grep 'first answer: coming' "$dir/client.log"
	went_on taken later
}

# The worker has told the keeper that it has the stream.  When the asker comes, or a little
# later, it has given the stream to its child; so it sends the asker away, and does not let it wait.
@test "a worker has accepted the stream, and its child takes it: the send is held" {
	local dir=$BATS_TEST_TMPDIR/handed-on.wait case_lossy=0 case_lazy=0
	[[ " $SR_TEST_MODES " = *" wait "* ]] || skip "for policy wait"
	case_steps=('go log first answer: taken')
	beside held "$BATS_TEST_TMPDIR/handed-on.tcp" none none hold handed-on
	beside held "$dir" wait wait hold handed-on
	joined
	same "$dir" "$BATS_TEST_TMPDIR/handed-on.tcp"
	way "$dir" wait any 3 2 none
	[ "$(went '[rt]x_plain' "$dir"/*.report)" -eq 0 ]
	went_on handed-on link,link
}
