/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * listener.c - owns what a listening stream does to be asked: its rendezvous of each
 * kind, as the address's keeper or as a worker (keeper.h).  Must not know what a request
 * holds.
 *
 * No locks: only the service thread runs this, except what listen(2) calls
 * (sr_listener_never(), _unavailable(), _open() and _stop()), sr_listener_adopt() and
 * _worth().
 */
#include "base/sys.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/addr.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/index.h"
#include "engine/stream.h"
#include "engine/waiters.h"
#include "upgrade/keeper.h"
#include "upgrade/upgrade.h"

/* The reason why links of this kind are impossible, or NONE.  For verbs this looks for
 * devices. */
static enum sr_reason impossible(struct sr_stream *st, const struct sr_rendezvous *ops)
{
	return strchr(st->policy->links, ops->name[0]) ? sr_reason_find(ops->usable()) :
							 SR_REASON_OFF;
}

/* NONE: the rendezvous is open.  there: not the address's own, and where it is.
 * *again: the address's is in use, by a process that is about to end perhaps. */
static enum sr_reason listener_listen(struct sr_stream *st, const struct sr_rendezvous *ops,
				struct sr_there *there, bool *again)
{
	void **listener = &st->up.listener[ops->kind];
	enum sr_reason why;
	int r;

	if (*listener)
		return SR_REASON_NONE;
	why = impossible(st, ops);
	if (why != SR_REASON_NONE)
		return why;
	r = ops->listen((struct sockaddr *)&st->rare->local,
			there ? there->kind[ops->kind] : NULL, listener);
	if (r == 0)
		return SR_REASON_NONE;
	*again |= r == -EADDRINUSE;
	sr_debug("no rendezvous for %s links: %s", ops->name, sr_errno_name(-r));
	return sr_reason_of(r, SR_REASON_NO_LISTENER);
}

/* Of both kinds together.  A kind that is off counts only if both are. */
static enum sr_reason both(enum sr_reason shm, enum sr_reason verbs)
{
	if (shm == SR_REASON_NONE || verbs == SR_REASON_NONE)
		return SR_REASON_NONE;
	return verbs != SR_REASON_OFF ? verbs : shm;
}

void sr_listener_unavailable(struct sr_stream *st, enum sr_reason why)
{
	sr_stream_reason(st, why);
	sr_st_set(st, SR_ST_NO_RENDEZVOUS);
}

static void listener_unlisten(struct sr_stream *st)
{
	if (st->up.listener[0])
		sr_rendezvous_shm.unlisten(st->up.listener[0]);
	if (st->up.listener[1])
		sr_rendezvous_verbs.unlisten(st->up.listener[1]);
	st->up.listener[0] = st->up.listener[1] = NULL;
}

static enum sr_reason listen_all(struct sr_stream *st, struct sr_there *there,
				 bool *again)
{
	enum sr_reason shm = listener_listen(st, &sr_rendezvous_shm, there, again);

	return both(shm, listener_listen(st, &sr_rendezvous_verbs, there, again));
}

/* This process has the address's name: answers where askers look first. */
static bool be_keeper(struct sr_stream *st)
{
	bool again = false;
	enum sr_reason why = listen_all(st, NULL, &again);

	if (why != SR_REASON_NONE && !again) {
		sr_inform("no rendezvous: %s", sr_reason_word(why));
		sr_listener_unavailable(st, why);
		sr_keeper_close(st);
	}
	return again;
}

static bool be_worker(struct sr_stream *st)
{
	struct sr_there there = { 0 };
	bool again = false;
	enum sr_reason why;
	int r;

	listener_unlisten(st);	/* so that it says where it listens */
	why = listen_all(st, &there, &again);
	r = why == SR_REASON_NONE ? sr_keeper_join(st, &there) : 0;
	if (r == -ECONNREFUSED || r == -EPIPE || r == -EAGAIN)
		return true;	/* the keeper is about to end, or busy */
	if (r < 0)
		why = sr_reason_of(r, SR_REASON_USER);
	if (why != SR_REASON_NONE) {
		listener_unlisten(st);
		sr_listener_unavailable(st, why);
	}
	return false;
}

/* Who answers at this address?  True: not settled yet. */
static bool settle(struct sr_stream *st)
{
	int r;

	if (st->up.keeper && sr_claims_wait(st))
		sr_keeper_close(st);
	if (st->up.keeper)
		return sr_keeper_keeps(st) && be_keeper(st);
	r = sr_keeper_open(st);
	if (r == 0) {
		listener_unlisten(st);
		return be_keeper(st);
	}
	if (r == -EADDRINUSE)
		return (sr_st_flags(st) & SR_ST_WORTH) && be_worker(st);
	sr_listener_unavailable(st, sr_reason_of(r, SR_REASON_NO_LISTENER));
	return false;
}

/* It has waited for the address, which was a closed listener's of this process: iperf3
 * and others open theirs anew for each client, and the old one's streams may be there. */
static void kick_waiting(struct sr_stream *st, void *closed)
{
	struct sr_stream *other = closed;

	if ((sr_st_flags(st) & (SR_ST_LISTEN | SR_ST_CLOSING)) == SR_ST_LISTEN &&
	    !st->up.keeper &&
	    sr_addr_port((struct sockaddr *)&st->rare->local) ==
		    sr_addr_port((struct sockaddr *)&other->rare->local))
		sr_stream_kick(st);
}

static void stop(struct sr_stream *st)
{
	bool held = st->up.keeper;

	sr_keeper_close(st);
	listener_unlisten(st);
	if (held)
		sr_index_each_listener(kick_waiting, st);
}

/* Without a rendezvous of RDMA no asker has to prove itself by what a stream has carried
 * (prove.c), which a child of fork would keep in a page of its own. */
static void note_proofs(struct sr_stream *st)
{
	const unsigned none = SR_ST_TX_HISTORY | SR_ST_RX_HISTORY;

	if (st->up.listener[1])
		sr_st_clear(st, none);
	else
		sr_st_set(st, none);
}

bool sr_listener_progress(struct sr_stream *st)
{
	unsigned f = sr_st_flags(st);
	bool again;

	if (!(f & SR_ST_LISTEN) ||
	    ((f & SR_ST_CLOSING) && !atomic_load(&st->up.children))) {
		stop(st);
		return false;
	}
	if ((f & SR_ST_NO_RENDEZVOUS) || ((f & SR_ST_CLOSING) && !(f & SR_ST_WORTH)))
		return false;
	again = settle(st);
	if (st->up.keeper) {
		sr_st_set(st, SR_ST_ANSWERED);
		if (!again)
			note_proofs(st);
	} else {
		sr_st_clear(st, SR_ST_ANSWERED);
	}
	if (!(sr_st_set(st, SR_ST_OPENED) & SR_ST_OPENED)) {
		sr_index_listens(st);
		sr_stream_notify(st, SR_NOTIFY_RX);
	}
	return again;
}

enum sr_reason sr_listener_never(struct sr_stream *st)
{
	enum sr_reason why;

	sr_enter();
	why = both(impossible(st, &sr_rendezvous_shm), impossible(st, &sr_rendezvous_verbs));
	sr_leave();
	return why;
}

void sr_listener_worth(struct sr_stream *st)
{
	struct sr_stream *listener = st->up.parent;
	unsigned f = listener ? sr_st_flags(listener) : SR_ST_ANSWERED;

	if (!sr_loop_may_start())
		return;
	sr_st_set(st, SR_ST_ANSWERED);
	if ((f & (SR_ST_ANSWERED | SR_ST_NO_RENDEZVOUS)) ||
	    (sr_st_set(listener, SR_ST_WORTH) & SR_ST_WORTH))
		return;
	if (sr_loop_start() == 0)
		sr_stream_kick(listener);
}

static bool opened(struct sr_stream *st)
{
	return sr_st_flags(st) & SR_ST_OPENED;
}

/* wait: return only when the rendezvous is open.  The limit is that of policy
 * wait: opening an RDMA device takes some milliseconds, once in a process, but
 * its driver may hang. */
void sr_listener_open(struct sr_stream *st, int fd, bool wait)
{
	socklen_t len = sizeof(st->rare->local);
	int state;

	if (sr_sys_getsockname(fd, (struct sockaddr *)&st->rare->local, &len) < 0)
		return;
	atomic_store(&st->hold.acceptor, sr_hold_thread());
	sr_st_set(st, SR_ST_LISTEN);
	sr_stat_note(st);
	sr_stream_kick(st);
	if (!wait)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);	/* listen() is no such point */
	sr_stream_await(st, SR_NOTIFY_RX, opened,
			sr_now_ns() + st->policy->upgrade_wait_ms * 1000000ull);
	pthread_setcancelstate(state, NULL);
}

struct sr_stream *sr_listener_adopt(int fd)
{
	int domain = 0, protocol = 0, listens = 0;
	socklen_t len = sizeof(int), size = sizeof(struct sockaddr_storage);
	struct sr_stream *st = NULL;

	if (sr_sys_getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) ||
	    (domain != AF_INET && domain != AF_INET6) ||
	    sr_sys_getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) ||
	    protocol != IPPROTO_TCP ||
	    sr_sys_getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) || !listens)
		return NULL;
	st = sr_stream_open(fd);
	if (!st)
		return NULL;
	sr_sys_getsockname(fd, (struct sockaddr *)&st->rare->local, &size);
	sr_st_set(st, SR_ST_LISTEN | SR_ST_SHARED);
	sr_promise_foreign(st);
	sr_stat_note(st);
	return st;
}

void sr_listener_enter(struct sr_stream *st)
{
	atomic_store(&st->hold.acceptor, sr_hold_thread());
	atomic_fetch_add(&st->hold.awaiting, 1);
	sr_answer_look();
}

void sr_listener_leave(struct sr_stream *st)
{
	atomic_fetch_sub(&st->hold.awaiting, 1);
}

void sr_listener_stop(struct sr_stream *st)
{
	sr_st_clear(st, SR_ST_LISTEN | SR_ST_OPENED | SR_ST_ANSWERED);
	sr_stream_kick(st);
}
