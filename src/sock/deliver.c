/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * deliver.c - owns the process that an ending process leaves behind if TCP has yet to take
 * bytes that send(2) accepted, or if the peer's mark or RESUME has yet to come, which must not
 * find the socket closed.  (Bytes that are in the kernel's socket the kernel delivers after the
 * process has ended, too, for tcp_fin_timeout.)
 *
 * The process is made by the bare clone(2): no handler of fork runs, there is no SIGCHLD, and
 * its parent need not wait for it.  It has one thread, which only makes system calls, because
 * any lock may be held by a thread that this process does not have.  It keeps no descriptors
 * but the sockets, so that no program waits for it at the other end of a pipe.
 *
 * The streams belong to that process from the moment it is made; in the ending process they
 * have no anchor any more.  If the process can't be made, the ending process delivers the bytes
 * itself before it ends.
 */
#include "base/real.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/now.h"
#include "base/pages.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "upgrade/upgrade.h"
#include "sock/sock.h"

struct rest {
	int fd;
	bool end;		/* a FIN follows */
	bool reads;		/* until the peer's end */
	struct sr_rx rx;	/* tells records, and what is resent, from new bytes */
	char *at;		/* the bytes that TCP has yet to take */
	size_t left;
};

struct list {
	struct rest *rest;	/* by fd, ascending */
	size_t n, most;
};

/* ---- what is left: in the ending process ---- */

static void rest_copy(struct rest *r, const void *bytes, size_t n)
{
	memcpy(r->at + r->left, bytes, n);
	r->left += n;
}

/* Copies what is to be resent, because the other process has no rings.  Both locks
 * held.  False: there is no memory. */
static bool rest_collect(struct sr_stream *st, struct rest *r)
{
	uint64_t from = st->tx.at;
	struct iovec v[2];
	size_t n;

	/* Also for a plain direction: the kernel sends no FIN while that process has the socket. */
	*r = (struct rest){ .fd = sr_load(&st->anchor),
			    .end = st->tx.ended || !sr_gate_shut(&st->out.gate),
			    .reads = sr_gate_shut(&st->in.gate),
			    .rx = st->rx };
	if (st->tx.state != SR_TX_RESEND)
		return true;
	r->at = sr_pages_get(SR_RECORD_LEN + (st->tx.w - from));
	if (!r->at)
		return false;
	rest_copy(r, st->tx.record + st->out.record_at, SR_RECORD_LEN - st->out.record_at);
	for (; from < st->tx.w; from += n) {
		n = st->out.link->ops->tx_retained(st->out.link, from, v);
		if (!n)
			return false;
		rest_copy(r, v[0].iov_base, v[0].iov_len);
		rest_copy(r, v[1].iov_base, n - v[0].iov_len);
	}
	return true;
}

static void rest_insert(struct list *list, const struct rest *r)
{
	size_t i;

	for (i = list->n++; i && list->rest[i - 1].fd > r->fd; i--)
		list->rest[i] = list->rest[i - 1];
	list->rest[i] = *r;
}

static void rest_leave(struct sr_stream *st, void *arg)
{
	struct list *list = arg;
	struct rest r;

	if (st->exiting || sr_is_shared(st) || !sr_back_concerns(st))
		return;
	sr_stream_lock_and_progress(st);
	if (sr_load(&st->anchor) >= 0 && sr_any_gate_shut(st) && !sr_load(&st->out.broken) &&
	    list->n < list->most && rest_collect(st, &r)) {
		rest_insert(list, &r);
		sr_stream_unwatch(st);
		sr_store(&st->anchor, -1);
	}
	sr_stream_unlock(st);
}

static void rest_count(struct sr_stream *st, void *arg)
{
	struct list *list = arg;

	list->most += !st->exiting && sr_any_gate_shut(st);
}

/* ---- the process that is left ---- */

static bool is_later(ssize_t r)
{
	return r < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Reads what the peer may still send: its RESUME, and bytes that our program has received
 * before.  New bytes are answered by a reset, as at any closed socket. */
static void read_rest(struct rest *r)
{
	uint8_t in[160], out[sizeof(in) + SR_RECORD_LEN];	/* (a small stack) */
	unsigned todo;
	ssize_t n;

	while (r->reads) {
		n = sr_now_recv(r->fd, in, sizeof(in), 0);
		if (is_later(n))
			return;
		if (n > 0 && sr_rx_tcp(&r->rx, in, (size_t)n, out, &todo) != 0) {
			sr_ends_reset_on_close(r->fd);
			n = -1;
		}
		if (n < 0)
			r->left = 0;
		r->reads = n > 0;
	}
}

/* True: there is more to do. */
static bool rest_deliver(struct rest *r)
{
	ssize_t n;

	while (r->left) {
		n = sr_now_send(r->fd, r->at, r->left);
		if (n < 0 && !is_later(n))
			return false;
		if (n < 0)
			break;
		r->at += n;
		r->left -= (size_t)n;
	}
	if (r->end && !r->left) {
		sr_sys_shutdown(r->fd, SHUT_WR);
		r->end = false;
	}
	read_rest(r);
	return r->reads || r->left;
}

/* Gives the sockets the numbers from 0 on, and closes all others. */
static void close_others(struct list *list)
{
	for (size_t i = 0; i < list->n; i++)
		list->rest[i].fd = sr_sys_dup2(list->rest[i].fd, (int)i);
	sr_sys_close_range((unsigned)list->n, UINT_MAX, 0);
}

static void deliver_list(struct list *list, struct pollfd *p)
{
	uint64_t end = sr_now_ns() + SR_ORPHAN_NS, now;
	size_t open;

	do {
		open = 0;
		for (struct rest *r = list->rest; r < list->rest + list->n; r++) {
			if (r->fd >= 0 && !rest_deliver(r)) {
				sr_now_close(r->fd);
				r->fd = -1;
			}
			if (r->fd >= 0)
				p[open++] = (struct pollfd){
					.fd = r->fd,
					.events = (r->reads ? POLLIN : 0) |
						  (r->left ? POLLOUT : 0),
				};
		}
		now = sr_now_ns();
		if (open && now < end)
			sr_sys_poll(p, open, end - now);
	} while (open && now < end);
}

static __attribute__((noreturn)) void deliver_and_end(struct list *list, struct pollfd *p)
{
	sigset_t all;

	sigfillset(&all);
	SR_SYS(SYS_rt_sigprocmask, SIG_BLOCK, &all, 0, 8);
	SR_SYS(SYS_setsid);
	close_others(list);
	deliver_list(list, p);
	for (;;)
		SR_SYS(SYS_exit_group, 0);
}

/* ---- if that process can't be made ---- */

/* A stream that could not be handed over has kept its anchor. */
static void await_delivery(struct sr_stream *st, void *since)
{
	if (!st->exiting && !sr_is_shared(st) && sr_back_concerns(st))
		sr_back_wait(st, sr_back_is_plain, *(uint64_t *)since, SR_ORPHAN_NS);
}

/* If there is no memory or no process for the delivery, this process ends only after it: better
 * late than without these bytes. */
void sr_streams_deliver(void)
{
	struct list list = { 0 };
	struct pollfd *p;
	uint64_t since;
	long pid;

	sr_streams_walk(rest_count, &list);
	if (!list.most)
		return;
	/* this memory, and that of the bytes, is freed by the end of the process */
	list.rest = sr_pages_get(list.most * (sizeof(struct rest) + sizeof(struct pollfd)));
	if (list.rest) {
		p = (struct pollfd *)(list.rest + list.most);
		sr_streams_walk(rest_leave, &list);
		pid = list.n ? sr_sys_fork() : 1;
		if (pid == 0)
			deliver_and_end(&list, p);
		if (pid < 0)
			deliver_list(&list, p);
	}
	since = sr_now_ns();
	sr_streams_walk(await_delivery, &since);
}
