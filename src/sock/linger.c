/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * linger.c - owns the process that an ending process leaves behind when TCP has yet
 * to take bytes that send(2) accepted, or the peer's RESUME has yet to come, which
 * must not meet a closed socket.  The kernel would do that for a socket of its own,
 * for tcp_fin_timeout.
 *
 * It is made by clone(2) itself: no handler of fork runs, and there is no SIGCHLD and
 * nothing to wait for.  It has one thread, which makes system calls and nothing else, as
 * any lock may be held by a thread that it does not have; it keeps no descriptor but
 * the sockets, so that nobody waits for it at the end of a pipe.
 *
 * The streams are its own from the moment it is made: here they lose their anchor.
 */
#include "base/real.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/now.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "upgrade/upgrade.h"
#include "sock/sock.h"

#define LIMIT_NS 60000000000ull	/* as tcp_fin_timeout */
#define PIECES 8		/* RESUME, and what two rings may hold */

struct rest {
	int fd;			/* -1: done */
	bool end;		/* a FIN follows */
	bool reads;		/* until the peer's end */
	unsigned at, n;
	struct iovec v[PIECES];
};

struct list {
	struct rest *rest;
	size_t n, most;
};

/* ---- what is left: in the ending process ---- */

/* Rings are not copied to children but for this one. */
static void copy_on_fork(const struct iovec *v)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)v->iov_base & ~(page - 1);

	madvise((void *)from, (uintptr_t)v->iov_base + v->iov_len - from, MADV_DOFORK);
}

/* Both locks held.  False: the ring holds more pieces than expected. */
static bool collect(struct sr_stream *st, struct rest *r)
{
	uint64_t at = st->tx.at;

	*r = (struct rest){ .fd = st->anchor, .end = st->tx.ended,
			    .reads = sr_gate_shut(&st->in.gate) };
	if (st->tx.state != SR_TX_RESEND)
		return true;
	if (st->out.record_at < SR_RECORD_LEN)
		r->v[r->n++] = (struct iovec){ st->tx.record + st->out.record_at,
					       SR_RECORD_LEN - st->out.record_at };
	while (at < st->tx.w) {
		size_t got = 0;
		int i;

		if (r->n + 2 > PIECES ||
		    !st->out.link->ops->tx_retained(st->out.link, at, &r->v[r->n]))
			return false;
		for (i = 0; i < 2 && at + got < st->tx.w; i++) {
			got += r->v[r->n].iov_len;
			if (r->v[r->n].iov_len)
				copy_on_fork(&r->v[r->n++]);
		}
		at += got;
	}
	return true;
}

static void leave_one(struct sr_stream *st, void *arg)
{
	struct list *list = arg;

	if (st->exiting || sr_is_shared(st) || !sr_back_concerns(st))
		return;
	sr_lock(&st->rx_lock);
	sr_rx_progress(st);
	sr_lock(&st->tx_lock);
	sr_tx_progress(st);
	if (st->anchor >= 0 && sr_any_gate_shut(st) && !st->out.broken &&
	    list->n < list->most && collect(st, &list->rest[list->n])) {
		list->n++;
		sr_stream_unwatch(st);
		st->anchor = -1;
	}
	sr_unlock(&st->tx_lock);
	sr_unlock(&st->rx_lock);
}

static void count(struct sr_stream *st, void *arg)
{
	struct list *list = arg;

	list->most += !st->exiting && sr_any_gate_shut(st);
}

/* ---- the process that is left ---- */

static bool is_later(ssize_t r)
{
	return r < 0 && (errno == EAGAIN || errno == EINTR);
}

static void write_rest(struct rest *r)
{
	while (r->at < r->n) {
		struct iovec *v = &r->v[r->at];
		ssize_t n = sr_now_send(r->fd, v->iov_base, v->iov_len);

		if (is_later(n))
			return;
		if (n < 0) {
			r->fd = -1;
			return;
		}
		v->iov_base = (char *)v->iov_base + n;
		v->iov_len -= (size_t)n;
		r->at += !v->iov_len;
	}
	if (r->end)
		sr_real.shutdown(r->fd, SHUT_WR);
	r->end = false;
	if (!r->reads)
		r->fd = -1;
}

static void step(struct rest *r)
{
	char c[4096];
	ssize_t n;

	write_rest(r);
	if (r->fd < 0 || !r->reads)
		return;
	while ((n = sr_now_recv(r->fd, c, sizeof(c), 0)) > 0)
		;
	if (is_later(n))
		return;
	r->reads = false;	/* at the peer's end there is nothing to drop */
	if (n < 0 || r->at == r->n)
		r->fd = -1;
}

static unsigned least_from(const struct list *list, unsigned from)
{
	unsigned least = UINT_MAX;
	size_t i;

	for (i = 0; i < list->n; i++)
		if ((unsigned)list->rest[i].fd >= from &&
		    (unsigned)list->rest[i].fd < least)
			least = (unsigned)list->rest[i].fd;
	return least;
}

static void close_others(const struct list *list)
{
	unsigned from = 0, next;

	do {
		next = least_from(list, from);
		if (next != from)
			sr_real.close_range(from, next == UINT_MAX ? next : next - 1, 0);
		from = next + 1;
	} while (next != UINT_MAX);
}

static __attribute__((noreturn)) void linger(struct list *list, struct pollfd *p)
{
	uint64_t end = sr_now_ns() + LIMIT_NS, now;
	sigset_t all;
	size_t i, open;

	sigfillset(&all);
	sr_real.syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, 0, 8, 0, 0);
	sr_real.syscall(SYS_setsid, 0, 0, 0, 0, 0, 0);
	close_others(list);
	do {
		for (i = open = 0; i < list->n; i++) {
			struct rest *r = &list->rest[i];

			if (r->fd >= 0)
				step(r);
			if (r->fd >= 0)
				p[open++] = (struct pollfd){
					.fd = r->fd,
					.events = (r->reads ? POLLIN : 0) |
						  (r->at < r->n ? POLLOUT : 0),
				};
		}
		now = sr_now_ns();
		if (open && now < end)
			sr_real.poll(p, open, (int)((end - now) / 1000000) + 1);
	} while (open && now < end);
	for (;;)
		sr_real.syscall(SYS_exit_group, 0, 0, 0, 0, 0, 0);
}

void sr_streams_linger(void)
{
	struct list list = { 0 };
	size_t bytes;
	char *mem;

	sr_streams_walk(count, &list);
	if (!list.most)
		return;
	bytes = list.most * (sizeof(struct rest) + sizeof(struct pollfd));
	mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		return;
	list.rest = (struct rest *)mem;
	sr_streams_walk(leave_one, &list);
	if (list.n && sr_real.syscall(SYS_clone, 0, 0, 0, 0, 0, 0) == 0)
		linger(&list, (struct pollfd *)(mem + list.most * sizeof(struct rest)));
	munmap(mem, bytes);
}
