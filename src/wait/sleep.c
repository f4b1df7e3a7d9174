/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sleep.c - the wait of a blocking call that finds nothing to do: whether it
 * may wait, how long, and the wait itself, which spins first if that pays
 * (base/spin.h).  It knows a link only through link.h.
 *
 * Locks: rx_lock, to look at the link before it spins; none during a sleep.
 */
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>

#include "engine/fast.h"
#include "engine/fdtab.h"
#include "wait/sleep.h"
#include "wait/waitset.h"

enum {				/* the low bits of waits.mode; the rest is a count */
	NONBLOCK = 1 << 0,
	RCVTIMEO = 1 << 1,	/* a timeout is set */
	SNDTIMEO = 1 << 2,
	MODE_BITS = 3
};

static struct timeval socket_timeout(int fd, int option)
{
	struct timeval tv = { 0, 0 };
	socklen_t len = sizeof(tv);

	if (sr_sys_getsockopt(fd, SOL_SOCKET, option, &tv, &len) < 0)
		tv = (struct timeval){ 0, 0 };
	return tv;
}

static bool is_set(struct timeval tv)
{
	return tv.tv_sec || tv.tv_usec;
}

/* Sets *sure if fd was st's all the time.  Otherwise another thread has closed fd, while
 * st lives on by another of its descriptors. */
static unsigned ask_mode(struct sr_stream *st, int fd, bool *sure)
{
	int flags = sr_sys_fcntl(fd, F_GETFL, 0);

	*sure = flags >= 0 && sr_fdtab_peek(fd) == st;
	return (flags & O_NONBLOCK ? NONBLOCK : 0) |
	       (is_set(socket_timeout(fd, SO_RCVTIMEO)) ? RCVTIMEO : 0) |
	       (is_set(socket_timeout(fd, SO_SNDTIMEO)) ? SNDTIMEO : 0);
}

/*
 * Does a call block, and does it have a timeout?  If a program sleeps for each
 * message, to ask the kernel each time takes a quarter of the message's time.
 * So the answer is kept until the program changes the mode by an intercepted call,
 * by any descriptor of the stream: mode_changes counts the changes, after each was
 * made, and a kept answer is valid only with the present count.  It is kept only
 * while a direction is on a link and no other process has had the socket, because
 * another process could change the mode without our seeing it.
 */
static unsigned call_mode(struct sr_stream *st, int fd)
{
	/* Pairs with sr_stream_mode_changed(): the kernel is asked after the change. */
	uint64_t now = sr_observe(&st->waits.mode_changes) + 1;
	uint64_t kept = sr_load(&st->waits.mode);

	bool sure;

	if (!sr_any_gate_shut(st) || sr_load(&st->owned.slot) ||
	    (sr_st_flags(st) & SR_ST_SHARED))
		return ask_mode(st, fd, &sure);
	if (kept >> MODE_BITS != now) {
		kept = now << MODE_BITS | ask_mode(st, fd, &sure);
		if (sure)
			sr_store(&st->waits.mode, kept);
	}
	return kept & ((1u << MODE_BITS) - 1);
}

void sr_stream_mode_changed(struct sr_stream *st)
{
	/* Pairs with call_mode(). */
	atomic_fetch_add_explicit(&st->waits.mode_changes, 1, memory_order_release);
}

/* Returns the time at which the call times out; 0: never. */
static uint64_t ask_deadline(struct sr_stream *st, int fd, int option)
{
	struct timeval tv;

	if (!(call_mode(st, fd) & (option == SO_RCVTIMEO ? RCVTIMEO : SNDTIMEO)))
		return 0;
	tv = socket_timeout(fd, option);
	return sr_deadline_ns((uint64_t)tv.tv_sec, (uint64_t)tv.tv_usec * 1000u);
}

static uint64_t sleep_deadline(struct sr_stream *st, struct sr_sleep *s)
{
	if (!s->timed) {
		s->deadline = ask_deadline(st, s->fd, s->option);
		if (s->deadline && s->begun)
			s->deadline -= sr_now_ns() - s->begun;
		s->timed = true;
	}
	return s->deadline;
}

struct sr_sleep sr_sleep_begin(int fd, int flags, int option)
{
	return (struct sr_sleep){ .fd = fd, .flags = flags, .option = option,
				  .since = sr_handled };
}

bool sr_sleep_allowed(struct sr_stream *st, struct sr_sleep *s)
{
	if (!s->asked) {
		s->blocks = !(s->flags & MSG_DONTWAIT) &&
			    !(call_mode(st, s->fd) & NONBLOCK);
		s->asked = true;
	}
	return s->blocks;
}

bool sr_sleep_is_timed(struct sr_stream *st, struct sr_sleep *s)
{
	return sleep_deadline(st, s) != 0;
}

/* A sleep was interrupted: may the call go on?  By signal(7) it may if all
 * handlers that ran have SA_RESTART, unless the call has a timeout or bytes to
 * return.  If no handler has run, it goes on: the process was stopped, or the handler
 * was installed without our seeing it. */
static bool sleep_interrupted(struct sr_stream *st, struct sr_sleep *p)
{
	struct sr_handled was = p->since;

	p->since = sr_handled;
	if (p->since.all == was.all)
		return true;
	return !p->partial && !sleep_deadline(st, p) && p->since.breaking == was.breaking;
}

#define POLLS 32		/* between two reads of the clock, which may be slow */

/* Spins on the link until bytes arrive, the fast path has to be left, the limit is
 * reached, or a signal is pending.  True: bytes have arrived. */
static bool sleep_spin(struct sr_stream *st, int fd, uint64_t *start)
{
	uint64_t limit = sr_conf.spin_us * 1000ull, now = 0, last = 0;
	ssize_t there = 0;

	if (!sr_rx_is_fast(st) ||
	    !sr_spin_pays(&st->waits.spin, limit, sr_stream_same_core(st)))
		return false;
	for (;;) {
		for (int i = 0; i < POLLS && !there; i++) {
			there = sr_fast_look(st, fd);
			sr_relax();
		}
		if (there && !*start)
			break;
		now = sr_now_ns();
		if (!*start)
			*start = now;
		if (there || now - *start > limit || sr_held.off ||
		    (last && sr_spin_stolen(&st->waits.spin, limit, now - last)))
			break;
		last = now;
	}
	if (there)
		sr_spin_learn(&st->waits.spin, limit, now - *start);
	return there > 0;
}

/* Has the stream lost its last descriptor?  Or has a handler closed the call's descriptor, or
 * put another file in its place?  Over TCP a call that restarts after a handler looks its number
 * up again, and would find that. */
static bool is_descriptor_lost(struct sr_stream *st, struct sr_sleep *p, unsigned handled)
{
	return sr_load(&st->anchor) < 0 ||
	       (sr_handled.all != handled && sr_fdtab_peek(p->fd) != st);
}

static int sleep_in_kernel(struct sr_stream *st, struct sr_sleep *p, short events,
		  uint64_t start)
{
	unsigned handled = p->since.all;
	struct sr_waitset_entry e = { .st = st, .fd = sr_load(&st->anchor), .events = events };
	struct pollfd k[4];
	struct sr_waitset s = { .e = &e, .n = 1, .k = k, .start = start,
				.one_call = true, .deadline = UINT64_MAX };
	struct pollfd got;
	bool again;
	int r;

	if (sleep_deadline(st, p))
		s.deadline = p->deadline;
	do {
		s.handled = p->since.all;
		r = sr_waitset_wait(&s, &got);
		sr_waitset_done(&s);
		again = r == -EINTR && sleep_interrupted(st, p);
	} while (again && !is_descriptor_lost(st, p, handled));
	if (again || (r >= 0 && is_descriptor_lost(st, p, handled)))
		return -EBADF;
	return r > 0 ? 0 : r < 0 ? r : -EAGAIN;
}

int sr_sleep_anyhow(struct sr_stream *st, int fd, short events, uint64_t ns)
{
	struct sr_sleep p = sr_sleep_begin(fd, 0, 0);

	p.partial = p.timed = true;
	p.deadline = sr_now_ns() + ns;
	return sleep_in_kernel(st, &p, events, 0);
}

int sr_sleep(struct sr_stream *st, struct sr_sleep *p, short events)
{
	uint64_t start = 0;

	if (!sr_sleep_allowed(st, p))
		return -EAGAIN;
	sr_links_before_wait();
	if (events == POLLIN) {
		if (sleep_spin(st, p->fd, &start))
			return 0;
		if (!start)
			start = sr_now_ns(); /* so that sleep_in_kernel() does not spin again */
	}
	return sleep_in_kernel(st, p, events, start);
}
