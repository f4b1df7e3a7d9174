/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fake_link.h - a link in memory for unit tests of the engine, whose other end is the
 * test itself: it reads what was sent, says what has come, and breaks the link, all at
 * moments of its choosing.  And a stream over a TCP connection whose other end is the
 * test, too.  By default no service thread runs, and nothing moves by itself.
 */
#ifndef FAKE_LINK_H
#define FAKE_LINK_H

#include "base/real.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/conf.h"
#include "check.h"
#include "engine/engine.h"
#include "engine/fdtab.h"
#include "engine/stream.h"
#include "service/service.h"
#include "sock/sock.h"

#define FAKE_RING 4096u

struct fake;
typedef void fake_fn(struct fake *f);

struct fake {
	struct sr_link link;	/* first */
	uint8_t tx[FAKE_RING], rx[FAKE_RING];
	_Atomic uint64_t limit;	/* credit: the stream may write up to here */
	_Atomic uint64_t arrived; /* the peer has written up to here */
	_Atomic uint64_t taken;	/* the peer's program has read up to here */
	int doorbell;		/* -1: notify() instead */
	atomic_uint armed;	/* SR_NOTIFY_ bits */
	struct sr_msg sent[16];	/* the messages of ctl() */
	atomic_uint count;
	pthread_mutex_t lock;	/* of those */
	/* Called at the beginning of such a call, once. */
	_Atomic(fake_fn *) on_stand, on_poll, on_look, on_room;
};

static atomic_uint fakes_freed;

static inline struct fake *fake_of(struct sr_link *link)
{
	return (struct fake *)link;
}

static inline void fake_hook(struct fake *f, _Atomic(fake_fn *) *hook)
{
	fake_fn *fn = atomic_exchange(hook, NULL);

	if (fn)
		fn(f);
}

/* [from, to) of a ring, in two pieces. */
static inline size_t fake_pieces(uint8_t *ring, uint64_t from, uint64_t to,
				 struct iovec v[2])
{
	size_t n = to - from, at = from % FAKE_RING;
	size_t first = n < FAKE_RING - at ? n : FAKE_RING - at;

	v[0] = (struct iovec){ ring + at, first };
	v[1] = (struct iovec){ ring, n - first };
	return n;
}

/* ---- the kind of link ---- */

static inline int fake_ctl(struct sr_link *link, struct sr_msg *msg)
{
	struct fake *f = fake_of(link);
	int r = sr_link_say(link, msg);

	if (r < 0)
		return r;
	if (msg->type == SR_MSG_SWITCH) {
		f->taken = msg->sw.n;
		f->limit = msg->sw.n + FAKE_RING;
	}
	pthread_mutex_lock(&f->lock);
	CHECK(f->count < 16);
	f->sent[f->count] = *msg;
	f->count++;
	pthread_mutex_unlock(&f->lock);
	return 0;
}

static inline size_t fake_tx_room(struct sr_link *link, struct iovec v[2])
{
	struct fake *f = fake_of(link);
	size_t n;

	fake_hook(f, &f->on_room);
	n = fake_pieces(f->tx, link->tx_w, f->limit, v);
	if (f->taken > link->tx_acked)	/* and tells nobody, as a link may */
		link->tx_acked = (uint64_t)f->taken;
	sr_link_offer(link, v, true);
	return n;
}

static inline void fake_tx_commit(struct sr_link *link, size_t n, bool more)
{
	struct iovec v[2];

	(void)more;
	atomic_fetch_add(&link->tx_w, n);
	fake_tx_room(link, v);
}

static inline size_t fake_tx_retained(struct sr_link *link, uint64_t from,
				      struct iovec v[2])
{
	return fake_pieces(fake_of(link)->tx, from, link->tx_w, v);
}

static inline uint64_t fake_tx_arrived(struct sr_link *link)
{
	return link->tx_w;
}

static inline size_t fake_rx_data(struct sr_link *link, size_t skip, struct iovec v[2])
{
	return fake_pieces(fake_of(link)->rx, link->rx_taken + skip, link->rx_h, v);
}

static inline ssize_t fake_rx_look(struct sr_link *link, struct sr_piece *piece)
{
	struct fake *f = fake_of(link);
	struct iovec v[2];
	size_t n;

	fake_hook(f, &f->on_look);
	n = fake_pieces(f->rx, link->rx_taken, f->arrived, v);
	*piece = (struct sr_piece){ v[0].iov_base, v[0].iov_len };
	return sr_link_events(link) & (SR_LINK_DEAD | SR_LINK_END) ? -1 : (ssize_t)n;
}

static inline void fake_rx_free(struct sr_link *link, size_t n)
{
	atomic_fetch_add(&link->rx_taken, n);
	if (link->rx_h < link->rx_taken)
		link->rx_h = (uint64_t)link->rx_taken;
}

static inline void fake_poll(struct sr_link *link)
{
	struct fake *f = fake_of(link);
	unsigned what = 0;

	fake_hook(f, &f->on_poll);
	if (f->arrived > link->rx_h)
		what |= SR_NOTIFY_RX;
	if (f->taken > link->tx_acked)
		what |= SR_NOTIFY_TX;
	if (what & SR_NOTIFY_RX)
		link->rx_h = (uint64_t)f->arrived;
	if (what & SR_NOTIFY_TX)
		link->tx_acked = (uint64_t)f->taken;
	if (what)
		link->notify(link, what);
}

static inline int fake_stand(struct sr_link *link, unsigned want)
{
	struct fake *f = fake_of(link);

	if (want)
		fake_hook(f, &f->on_stand);
	atomic_fetch_or(&f->armed, want);
	return f->doorbell;
}

static inline void fake_awake(struct sr_link *link, unsigned want, bool watched, bool slept)
{
	struct fake *f = fake_of(link);
	uint64_t n;

	(void)watched;
	if (slept)
		(void)!read(f->doorbell, &n, sizeof(n));
	atomic_fetch_and(&f->armed, ~want);
	fake_poll(link);
}

static inline void fake_drop(struct sr_link *link, const char *reason)
{
	link->reason = reason;
	if (sr_link_raise(link, SR_LINK_DEAD))
		link->notify(link, SR_NOTIFY_CTL);
}

static inline void fake_free(struct sr_link *link)
{
	if (fake_of(link)->doorbell >= 0)
		close(fake_of(link)->doorbell);
	free(link);
	atomic_fetch_add(&fakes_freed, 1);
}

static inline size_t fake_ring(struct sr_link *link, bool tx)
{
	(void)link;
	(void)tx;
	return 0;
}

static const struct sr_link_ops fake_ops = {
	.name = "fake",
	.way = SR_WAY_VERBS,
	.ctl = fake_ctl,
	.tx_room = fake_tx_room,
	.tx_commit = fake_tx_commit,
	.tx_retained = fake_tx_retained,
	.tx_arrived = fake_tx_arrived,
	.rx_data = fake_rx_data,
	.rx_look = fake_rx_look,
	.rx_free = fake_rx_free,
	.poll = fake_poll,
	.arm = fake_stand,
	.arm_once = fake_stand,
	.awake = fake_awake,
	.drop = fake_drop,
	.free = fake_free,
	.ring = fake_ring,
};

/* ---- what the peer does ---- */

/* It wakes those who have asked for it; others find out by poll(). */
static inline void fake_wake(struct fake *f, unsigned what)
{
	const uint64_t one = 1;

	if (!(atomic_fetch_and(&f->armed, ~what) & what))
		return;
	if (f->doorbell < 0)
		fake_poll(&f->link);
	else
		CHECK_EQ(write(f->doorbell, &one, sizeof(one)), 8);
}

static inline void fake_send(struct fake *f, const void *bytes, size_t n)
{
	CHECK(f->arrived + n <= f->link.rx_taken + FAKE_RING);
	for (size_t i = 0; i < n; i++)
		f->rx[(f->arrived + i) % FAKE_RING] = ((const uint8_t *)bytes)[i];
	atomic_fetch_add(&f->arrived, n);
	fake_wake(f, SR_NOTIFY_RX);
}

/* Its program reads n of the bytes that the stream has sent. */
static inline void fake_take(struct fake *f, void *buf, size_t n)
{
	CHECK(f->taken + n <= f->link.tx_w);
	for (size_t i = 0; i < n; i++)
		((uint8_t *)buf)[i] = f->tx[(f->taken + i) % FAKE_RING];
	atomic_fetch_add(&f->limit, n);
	atomic_fetch_add(&f->taken, n);
	fake_wake(f, SR_NOTIFY_TX);
}

static inline void fake_say(struct fake *f, struct sr_msg msg)
{
	if (!(sr_link_events(&f->link) & SR_LINK_HELLO))
		sr_link_raise(&f->link, SR_LINK_UP | SR_LINK_HELLO);
	fake_poll(&f->link);	/* in order with the bytes */
	CHECK_EQ(sr_link_take(&f->link, &msg), 0);
	f->link.notify(&f->link, SR_NOTIFY_CTL);
}

/* The last message of the stream. */
static inline struct sr_msg *fake_said(struct fake *f)
{
	CHECK(f->count);
	return &f->sent[f->count - 1];
}

/* ---- a stream, and TCP's other end ---- */

struct fake_pair {
	struct sr_stream *st;
	int fd;			/* the stream's */
	int peer;		/* TCP's other end */
	struct fake *f;
};

static inline void fake_connect(int *fd, int *peer)
{
	const struct timeval long_enough = { 10, 0 };
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int lfd = socket(AF_INET, SOCK_STREAM, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(lfd, (void *)&a, len) && !listen(lfd, 1) &&
	      !getsockname(lfd, (void *)&a, &len));
	*fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!connect(*fd, (void *)&a, len));
	*peer = accept(lfd, NULL, NULL);
	CHECK(*peer >= 0);
	setsockopt(*peer, SOL_SOCKET, SO_RCVTIMEO, &long_enough, sizeof(long_enough));
	close(lfd);
}

/* A plain stream, and a link that it does not use yet. */
static inline struct fake_pair fake_begin(bool doorbell)
{
	struct fake_pair e;
	struct sr_link *link;

	sr_service_begin();
	sr_conf.policy.upgrade = SR_LAZY;
	fake_connect(&e.fd, &e.peer);
	e.st = sr_stream_open(e.fd);
	CHECK(e.st && !sr_fdtab_set(e.fd, e.st));
	sr_st_set(e.st, SR_ST_CONNECT);
	e.st->up.state = SR_ASK_LINKED;
	memset(e.st->up.token, 7, SR_TOKEN_LEN);
	link = sr_link_new(&fake_ops, sizeof(struct fake), SR_ROLE_ASKER, 1, e.st,
			   sr_stream_on_link);
	CHECK(link);
	e.f = fake_of(link);
	pthread_mutex_init(&e.f->lock, NULL);
	e.f->doorbell = doorbell ? eventfd(0, EFD_NONBLOCK) : -1;
	return e;
}

/* What TCP's other end receives; 0: its end. */
static inline size_t fake_peer_gets(struct fake_pair *e, void *buf, size_t n)
{
	ssize_t r = recv(e->peer, buf, n, 0);

	CHECK(r >= 0);
	return (size_t)r;
}

static inline void fake_tx_start(struct fake_pair *e)
{
	sr_lock(&e->st->tx_lock);
	e->f->link.peer_hello.token[0] = 9;
	e->st->out.next = sr_link_get(&e->f->link);
	CHECK(sr_tx_gate_close(e->st));
	sr_tx_start(e->st);
	sr_unlock(&e->st->tx_lock);
}

static inline void fake_progress(struct fake_pair *e)
{
	sr_lock(&e->st->rx_lock);
	sr_rx_progress(e->st);
	sr_unlock(&e->st->rx_lock);
	sr_lock(&e->st->tx_lock);
	sr_tx_progress(e->st);
	sr_unlock(&e->st->tx_lock);
}

/* The stream's own direction is on the link when this returns. */
static inline void fake_tx_switch(struct fake_pair *e)
{
	uint8_t mark[SR_RECORD_LEN];

	fake_tx_start(e);
	CHECK_EQ(fake_said(e->f)->type, SR_MSG_SWITCH);
	fake_say(e->f, (struct sr_msg){ .type = SR_MSG_ACKSW });
	fake_progress(e);
	CHECK_EQ(fake_peer_gets(e, mark, sizeof(mark)), sizeof(mark));
	CHECK_EQ(e->st->tx.state, SR_TX_LINK);
}

/* The peer announces that its direction switches at n. */
static inline bool fake_rx_start(struct fake_pair *e, uint64_t n)
{
	struct sr_msg msg = { .type = SR_MSG_SWITCH,
			      .sw = { .n = n, .link_no = 1 } };
	bool done;

	if (!(sr_link_events(&e->f->link) & SR_LINK_SWITCH)) {
		fake_say(e->f, msg);
		e->f->arrived = n;
	}
	sr_lock(&e->st->rx_lock);
	done = sr_rx_take_switch(e->st, &e->f->link, true);
	sr_unlock(&e->st->rx_lock);
	return done;
}

static inline void fake_rx_mark(struct fake_pair *e)
{
	uint8_t mark[SR_RECORD_LEN];

	sr_mark_make(mark, 1, e->st->up.token);
	CHECK_EQ(send(e->peer, mark, sizeof(mark), 0), sizeof(mark));
}

static inline enum sr_rx_state fake_rx_state(struct fake_pair *e)
{
	enum sr_rx_state state;

	sr_lock(&e->st->rx_lock);
	state = e->st->rx.state;
	sr_unlock(&e->st->rx_lock);
	return state;
}

static inline void fake_rx_switch(struct fake_pair *e)
{
	CHECK(fake_rx_start(e, 0));
	CHECK_EQ(fake_said(e->f)->type, SR_MSG_ACKSW);
	fake_rx_mark(e);
	for (int i = 0; i < 20000 && fake_rx_state(e) != SR_RX_LINK; i++) {
		fake_progress(e);
		usleep(1000);
	}
	CHECK_EQ(fake_rx_state(e), SR_RX_LINK);
}

/* Both directions are on the link. */
static inline struct fake_pair fake_linked(bool doorbell)
{
	struct fake_pair e = fake_begin(doorbell);

	fake_tx_switch(&e);
	fake_rx_switch(&e);
	return e;
}

/* The program's calls, which do not sleep. */
static inline ssize_t fake_recv(struct fake_pair *e, void *buf, size_t n)
{
	struct iovec v = { buf, n };
	struct msghdr msg = { .msg_iov = &v, .msg_iovlen = 1 };

	return sr_stream_recv(e->st, e->fd, &msg, MSG_DONTWAIT);
}

static inline ssize_t fake_write(struct fake_pair *e, const void *buf, size_t n)
{
	struct iovec v = { (void *)(uintptr_t)buf, n };
	struct msghdr msg = { .msg_iov = &v, .msg_iovlen = 1 };

	return sr_stream_send(e->st, e->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The program closes its descriptor. */
static inline void fake_close(struct fake_pair *e)
{
	sr_fdtab_take(e->fd);
	sr_stream_detach(e->st, e->fd);
	close(e->fd);
}

static inline void fake_end(struct fake_pair *e)
{
	close(e->peer);
	fake_close(e);
	sr_link_put(&e->f->link);
}

/* RESUME{a, m} comes out at TCP's other end, and the bytes from a to m. */
static inline void fake_peer_resumes(struct fake_pair *e, uint64_t a, const char *bytes)
{
	uint8_t buf[SR_RECORD_LEN];
	size_t n = strlen(bytes);
	uint64_t got_a, got_m;

	CHECK_EQ(recv(e->peer, buf, SR_RECORD_LEN, MSG_WAITALL), SR_RECORD_LEN);
	CHECK_EQ(sr_resume_parse(buf, &got_a, &got_m), 0);
	CHECK_EQ(got_a, a);
	CHECK_EQ(got_m, a + n);
	CHECK(n <= sizeof(buf));
	CHECK_EQ(recv(e->peer, buf, n, MSG_WAITALL), n);
	CHECK(!memcmp(buf, bytes, n));
}

#endif
