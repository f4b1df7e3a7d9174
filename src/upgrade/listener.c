/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * listener.c - owns what a listener does to be asked: its rendezvous of each
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
#include "base/fdpriv.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/index.h"
#include "engine/stream.h"
#include "engine/waiters.h"
#include "upgrade/keeper.h"
#include "upgrade/upgrade.h"

/* A keeper without room for a line closes it at once.  So a process begins to watch no more often
 * than that. */
#define WATCHES_MAX 100
#define AGAIN_MS 10	/* between tries to settle who answers */

/* The reason why links of this kind are impossible, or NONE.  For verbs this looks for
 * devices. */
static enum sr_reason kind_reason(struct sr_listener *l, const struct sr_rendezvous *ops)
{
	return strchr(l->socket->policy->links, ops->name[0]) ? sr_reason_find(ops->usable()) :
							 SR_REASON_OFF;
}

/* What the thread that accepts has opened.  (Acquire: pairs with open_early().) */
static int take_early_name(struct sr_listener *l)
{
	return atomic_exchange_explicit(&l->early_name, 0, memory_order_acquire) - 1;
}

static void *take_early(struct sr_listener *l)
{
	return atomic_exchange_explicit(&l->early, NULL, memory_order_acquire);
}

static void close_early(struct sr_listener *l)
{
	int fd = take_early_name(l);
	void *rendezvous = take_early(l);

	if (fd >= 0)
		sr_fd_close(fd);
	if (rendezvous)
		sr_rendezvous_shm.unlisten(rendezvous);
}

/* Opens the rendezvous of one kind; SR_REASON_NONE: it is open.  there == NULL: at the address that
 * askers try first.  Otherwise at a place of this process's own, whose name goes to *there.  Sets
 * *again if another process has the address; it may be about to end, so the caller tries again. */
static enum sr_reason listener_listen(struct sr_listener *l, const struct sr_rendezvous *ops,
				struct sr_there *there, bool *again)
{
	void **rendezvous = &l->rendezvous[ops->kind];
	enum sr_reason why;
	int r;

	if (!*rendezvous && !there && ops == &sr_rendezvous_shm)
		*rendezvous = take_early(l);
	if (*rendezvous)
		return SR_REASON_NONE;
	why = kind_reason(l, ops);
	if (why != SR_REASON_NONE)
		return why;
	r = ops->listen(sr_listener_addr(l),
			there ? there->kind[ops->kind] : NULL, rendezvous);
	if (r == 0)
		return SR_REASON_NONE;
	*again |= r == -EADDRINUSE;
	sr_debug("no rendezvous for %s links: %s", ops->name, sr_errno_name(-r));
	return sr_reason_of(r, SR_REASON_NO_LISTENER);
}

/* Why no kind of link is possible; NONE: one is.  The reason is OFF only if both kinds are. */
static enum sr_reason listener_reason(enum sr_reason shm, enum sr_reason verbs)
{
	if (shm == SR_REASON_NONE || verbs == SR_REASON_NONE)
		return SR_REASON_NONE;
	return verbs != SR_REASON_OFF ? verbs : shm;
}

void sr_listener_unavailable(struct sr_listener *l, enum sr_reason why)
{
	sr_stream_reason(l->socket, why);
	sr_listener_set(l, SR_LISTENER_UNAVAILABLE);
}

static void listener_unlisten(struct sr_listener *l)
{
	void **rendezvous = l->rendezvous;

	if (rendezvous[0])
		sr_rendezvous_shm.unlisten(rendezvous[0]);
	if (rendezvous[1])
		sr_rendezvous_verbs.unlisten(rendezvous[1]);
	rendezvous[0] = rendezvous[1] = NULL;
}

static enum sr_reason listen_all(struct sr_listener *l, struct sr_there *there,
				 bool *again)
{
	enum sr_reason shm = listener_listen(l, &sr_rendezvous_shm, there, again);

	return listener_reason(shm, listener_listen(l, &sr_rendezvous_verbs, there, again));
}

/* This process has the address's name: answers where askers look first. */
static bool be_keeper(struct sr_listener *l)
{
	bool again = false;
	enum sr_reason why = listen_all(l, NULL, &again);

	if (why != SR_REASON_NONE && !again) {
		sr_inform("a listening socket cannot answer requests for links: %s",
			  sr_reason_word(why));
		sr_listener_unavailable(l, why);
		sr_keeper_close(l);
	}
	return again;
}

/* May this process be the keeper?  Not a child that has become another user and has closed the
 * listener: no asker would believe it (claim.c), and as long as it has the name its parent could
 * not be the keeper, so no stream of the address would get a link.  A process that still listens
 * may accept streams as the new user, too. */
static bool may_keep(struct sr_listener *l)
{
	return !(sr_st_flags(l->socket) & SR_ST_CLOSING) ||
	       !sr_listener_has(l, SR_LISTENER_CLAIMED);
}

static bool be_worker(struct sr_listener *l)
{
	struct sr_there there = { 0 };
	bool again = false;
	enum sr_reason why;
	int r;

	listener_unlisten(l);	/* so that it says where it listens */
	why = listen_all(l, &there, &again);
	r = why == SR_REASON_NONE ? sr_keeper_join(l, &there) : 0;
	if (r == -EAGAIN || ((r == -ECONNREFUSED || r == -EPIPE) && may_keep(l)))
		return true;	/* the keeper is busy, or about to end */
	if (r < 0)
		why = sr_reason_of(r, SR_REASON_USER);
	if (why != SR_REASON_NONE) {
		listener_unlisten(l);
		sr_listener_unavailable(l, why);
	}
	return false;
}

/* Another process has the address's name, and this one accepts, but has no stream that is worth a
 * link.  It hears of the other one's end, to answer for the streams that it accepts then. */
static bool be_watcher(struct sr_listener *l)
{
	int r;

	if (!sr_listener_has(l, SR_LISTENER_AWAITED) || l->watches++ == WATCHES_MAX)
		return false;
	r = sr_keeper_watch(l);
	return r == -EAGAIN || r == -ECONNREFUSED;
}

/* 0: this process is the keeper; or -errno. */
static int take_name(struct sr_listener *l)
{
	int fd;

	if (!may_keep(l))
		return -EADDRINUSE;
	fd = take_early_name(l);
	if (fd < 0)
		fd = sr_keeper_bind(l);
	return fd < 0 ? fd : sr_keeper_open(l, fd);
}

/* l->keeper is set.  Does it have to be closed, and made anew?  A watcher's: if the process has a
 * stream worth a link by now, or if a thread of its own has taken the name (open_early()), which it
 * may be watching itself.  Any other: if the process has made claims since, on another line. */
static bool has_to_settle_anew(struct sr_listener *l)
{
	if (sr_keeper_only_watches(l))
		return sr_listener_has(l, SR_LISTENER_WORTH) || sr_load(&l->early_name);
	return sr_claims_wait(l);
}

/* For how long no line to the keeper is to be made (keeper.c); 0: one may be. */
static unsigned rest_ms(const struct sr_listener *l)
{
	uint64_t now = sr_now_ns();

	return now < l->rests_until_ns ? (unsigned)((l->rests_until_ns - now) / 1000000) + 1 : 0;
}

/* Makes this process the keeper, a worker or a watcher of the address.  True: that is not settled
 * yet, call again. */
static bool listener_settle(struct sr_listener *l)
{
	int r;

	if (l->keeper && has_to_settle_anew(l))
		sr_keeper_close(l);
	if (l->keeper)
		return sr_keeper_keeps(l) && be_keeper(l);
	r = take_name(l);
	if (r == 0) {
		listener_unlisten(l);
		return be_keeper(l);
	}
	close_early(l);
	if (r == -EADDRINUSE && rest_ms(l))
		return true;
	if (r == -EADDRINUSE)
		return sr_listener_has(l, SR_LISTENER_WORTH) ? be_worker(l) : be_watcher(l);
	sr_listener_unavailable(l, sr_reason_of(r, SR_REASON_NO_LISTENER));
	return false;
}

/* The listener `closed' has given its address up.  If l waits for the same address, it can have it
 * now.  (iperf3 and others close their listener and open a new one for each client; the old one
 * keeps the address as long as streams that it accepted are left.) */
static void kick_waiting(struct sr_listener *l, void *closed)
{
	if ((sr_st_flags(l->socket) & (SR_ST_LISTEN | SR_ST_CLOSING)) == SR_ST_LISTEN &&
	    !l->keeper && sr_addr_port(sr_listener_addr(l)) ==
				  sr_addr_port(sr_listener_addr(closed)))
		sr_stream_kick(l->socket);
}

static void stop_answering(struct sr_listener *l)
{
	bool held = l->keeper;

	sr_keeper_close(l);
	listener_unlisten(l);
	close_early(l);
	if (held)
		sr_index_each_listener(kick_waiting, l);
}

/* Without a rendezvous over RDMA or in a directory no asker has to prove itself by what a stream
 * has carried (prove.c).  Then the accepted streams keep no history, for which the child of a
 * fork would need a page of its own. */
static void note_proofs(struct sr_listener *l)
{
	const unsigned none = SR_ST_TX_HISTORY | SR_ST_RX_HISTORY;

	if (l->rendezvous[1] || sr_conf.dir[0])
		sr_st_clear(l->socket, none);
	else
		sr_st_set(l->socket, none);
}

unsigned sr_listener_progress(struct sr_listener *l)
{
	unsigned f = sr_st_flags(l->socket);
	bool again;

	if (!(f & SR_ST_LISTEN) ||
	    /* pair children: sr_stream_over(); the socket's CLOSING has been set before */
	    ((f & SR_ST_CLOSING) && !sr_look(&l->children))) {
		stop_answering(l);
		return 0;
	}
	if (sr_listener_has(l, SR_LISTENER_UNAVAILABLE) ||
	    ((f & SR_ST_CLOSING) && !sr_listener_has(l, SR_LISTENER_WORTH)))
		return 0;
	again = listener_settle(l);
	if (l->keeper && !sr_keeper_only_watches(l)) {
		sr_listener_set(l, SR_LISTENER_ANSWERED);
		if (!again)
			note_proofs(l);
	} else {
		sr_listener_clear(l, SR_LISTENER_ANSWERED);
	}
	if (!(sr_listener_set(l, SR_LISTENER_OPENED) & SR_LISTENER_OPENED)) {
		sr_index_listens(l);
		sr_stream_notify(l->socket, SR_NOTIFY_RX);
	}
	return again ? rest_ms(l) ?: AGAIN_MS : 0;
}

enum sr_reason sr_listener_never(struct sr_listener *l)
{
	enum sr_reason why;

	sr_enter();
	why = listener_reason(kind_reason(l, &sr_rendezvous_shm),
			      kind_reason(l, &sr_rendezvous_verbs));
	sr_leave();
	return why;
}

void sr_listener_worth(struct sr_stream *st)
{
	const unsigned settled = SR_LISTENER_ANSWERED | SR_LISTENER_UNAVAILABLE;
	struct sr_listener *l = st->up.listener;

	if (!sr_loop_may_start())
		return;
	sr_st_set(st, SR_ST_ANSWERED);
	if (!l || sr_listener_has(l, settled) ||
	    (sr_listener_set(l, SR_LISTENER_WORTH) & SR_LISTENER_WORTH))
		return;
	if (sr_loop_start() == 0)
		sr_stream_kick(l->socket);
}

/* Takes the names here and now, if they are free: until a new service thread runs, a client may have
 * asked, and a child may have looked for its keeper.  The service thread, which is kicked
 * afterwards, takes both over. */
static void open_early(struct sr_listener *l)
{
	void *rendezvous = NULL;
	int fd = sr_keeper_bind(l);

	if (fd < 0)
		return;
	if (kind_reason(l, &sr_rendezvous_shm) == SR_REASON_NONE &&
	    sr_rendezvous_shm.listen(sr_listener_addr(l), NULL, &rendezvous) == 0)
		sr_publish(&l->early, rendezvous);	/* pairs with take_early() */
	sr_publish(&l->early_name, fd + 1);	/* pairs with take_early_name() */
}

/* This process accepts, and its parent called listen(2), perhaps as a daemon that goes into the
 * background: the parent's rendezvous, if there is one, ends with the parent.  So this process
 * settles who answers before it has accepted a stream, and not only when one is worth a link.  That
 * would be too late for a client that sends few messages, and for a child that becomes another
 * user (claim.c). */
void sr_listener_awaited(struct sr_stream *socket)
{
	const unsigned known = SR_LISTENER_OPENED | SR_LISTENER_WORTH | SR_LISTENER_UNAVAILABLE |
			       SR_LISTENER_AWAITED;
	const unsigned heirs = SR_ST_HEIR | SR_ST_LISTEN;
	struct sr_listener *l = sr_listener_of(socket);
	int err = errno;

	if (sr_listener_has(l, known) || (sr_st_flags(socket) & heirs) != heirs ||
	    !sr_loop_may_start() ||
	    (sr_listener_set(l, SR_LISTENER_AWAITED) & SR_LISTENER_AWAITED))
		return;
	sr_hold();
	sr_enter();
	if (sr_loop_start() == 0) {
		open_early(l);
		sr_stream_kick(socket);
	}
	sr_leave();
	sr_release();
	errno = err;
}

static bool has_opened(struct sr_stream *socket)
{
	return sr_listener_has(sr_listener_of(socket), SR_LISTENER_OPENED);
}

/* wait: return only when the rendezvous is open.  The limit is that of policy
 * wait: opening an RDMA device takes some milliseconds, once in a process, but
 * its driver may hang. */
void sr_listener_open(struct sr_listener *l, int fd, bool wait)
{
	struct sr_stream *st = l->socket;
	socklen_t len = sizeof(st->rare->local);
	int state;

	if (sr_sys_getsockname(fd, (struct sockaddr *)&st->rare->local, &len) < 0)
		return;
	sr_store(&l->acceptor, sr_hold_thread());
	sr_st_set(st, SR_ST_LISTEN);
	sr_stat_note(st);
	sr_stream_kick(st);
	if (!wait)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);	/* listen() is no such point */
	sr_stream_await(st, SR_NOTIFY_RX, has_opened,
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

void sr_listener_enter(struct sr_stream *socket)
{
	struct sr_listener *l = sr_listener_of(socket);

	sr_store(&l->acceptor, sr_hold_thread());
	sr_count(&l->awaiting, 1);
	sr_listener_awaited(socket);
	sr_answer_look();
}

void sr_listener_leave(struct sr_stream *socket)
{
	atomic_fetch_sub_explicit(&sr_listener_of(socket)->awaiting, 1, memory_order_relaxed);
}

void sr_listener_stop(struct sr_listener *l)
{
	sr_st_clear(l->socket, SR_ST_LISTEN);
	sr_listener_clear(l, SR_LISTENER_OPENED | SR_LISTENER_ANSWERED);
	sr_stream_kick(l->socket);
}
