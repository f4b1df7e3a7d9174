/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sleep.c - a blocking call finds nothing to do: may it wait, how long, and the
 * waiting itself, awake at first where that pays (spin.h).
 */
#include "base/real.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "stream/waitset.h"

static bool nonblocking(int fd, int flags)
{
	return (flags & MSG_DONTWAIT) ||
	       (sr_real.fcntl(fd, F_GETFL, NULL) & O_NONBLOCK);
}

/* 0: for ever. */
static uint64_t deadline(struct sr_stream *st, int fd, int option)
{
	struct timeval tv = { 0, 0 };
	socklen_t len = sizeof(tv);

	if (atomic_load(option == SO_RCVTIMEO ? &st->rcv_now : &st->snd_now))
		return sr_now_ns();
	if (sr_real.getsockopt(fd, SOL_SOCKET, option, &tv, &len) < 0 ||
	    (!tv.tv_sec && !tv.tv_usec))
		return 0;
	return sr_now_ns() + (uint64_t)tv.tv_sec * 1000000000u +
	       (uint64_t)tv.tv_usec * 1000u;
}

bool sr_sleep_allowed(struct sr_sleep *s)
{
	if (!s->asked) {
		s->blocks = !nonblocking(s->fd, s->flags);
		s->asked = true;
	}
	return s->blocks;
}

/*
 * May a call go on sleeping after a signal?  sigaction(2): only if the handler
 * was installed with SA_RESTART.  poll never restarts, so we look which
 * handlers there are: if all that are installed restart, so do we.
 */
static bool restarts(void)
{
	int sig;

	for (sig = 1; sig < NSIG; sig++) {
		struct sigaction sa;

		/* Faults of the thread's own; they interrupt no sleep. */
		if (sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE ||
		    sig == SIGILL || sig == SIGTRAP || sig == SIGABRT)
			continue;
		if (sigaction(sig, NULL, &sa) < 0 ||
		    sa.sa_handler == SIG_DFL || sa.sa_handler == SIG_IGN)
			continue;
		if (!(sa.sa_flags & SA_RESTART))
			return false;
	}
	return true;
}

#define POLLS 32		/* between two looks at the clock, which may be slow */

/* Something comes by the link, no matter how much, while we look at nothing else. */
static bool spin(struct sr_stream *st, uint64_t *start)
{
	uint64_t limit = sr_conf.spin_us * 1000ull, h = 0, now = 0, last = 0;
	struct sr_link *link = NULL;
	unsigned events = 0;
	bool moved = false;

	if (!sr_spin_pays(&st->spin, limit))
		return false;
	pthread_mutex_lock(&st->rx_lock);
	if (sr_gate_shut(&st->rx_gate) && st->rx.state == SR_RX_LINK &&
	    st->rx_link) {
		link = sr_link_get(st->rx_link);
		events = sr_link_events(link);
		h = st->rx.rx;
	}
	pthread_mutex_unlock(&st->rx_lock);
	if (!link)
		return false;
	for (;;) {
		for (int i = 0; i < POLLS && !moved; i++) {
			link->ops->poll(link);
			moved = atomic_load(&link->rx_h) != h ||
				sr_link_events(link) != events;
			sr_relax();
		}
		if (moved && !*start)
			break;
		now = sr_now_ns();
		if (!*start)
			*start = now;
		if (moved || now - *start > limit ||
		    (last && sr_spin_stolen(&st->spin, limit, now - last)))
			break;
		last = now;
	}
	sr_link_put(link);
	if (moved)
		sr_spin_learn(&st->spin, limit, now - *start);
	return moved;
}

static int asleep(struct sr_stream *st, struct sr_sleep *p, short events,
		  uint64_t start)
{
	struct sr_waitset_entry e = { .st = st, .fd = p->fd, .events = events };
	struct pollfd k[4];
	struct sr_waitset s = { .e = &e, .n = 1, .k = k, .start = start };
	int r;
	short got = 0;

	if (!p->timed) {
		p->deadline = deadline(st, p->fd, p->option);
		p->timed = true;
	}
	s.deadline = p->deadline ? p->deadline : UINT64_MAX;
	do {
		r = sr_waitset_wait(&s, NULL, &got);
		sr_waitset_done(&s);
	} while (r < 0 && errno == EINTR && !p->deadline && !p->partial &&
		 restarts());
	if (r < 0)
		r = -errno;
	return r > 0 ? 0 : r < 0 ? r : -EAGAIN;
}

int sr_sleep(struct sr_stream *st, struct sr_sleep *p, short events)
{
	uint64_t start = 0;
	int err = errno, r = 0;

	if (!sr_sleep_allowed(p))
		return -EAGAIN;
	/* SO_RCVLOWAT is for the set to count. */
	if (events == POLLIN && !(sr_st_flags(st) & SR_ST_LOWAT)) {
		if (spin(st, &start))
			return 0;
		if (!start)
			start = sr_now_ns(); /* not once more in asleep() */
	}
	r = asleep(st, p, events, start);
	errno = err;
	return r;
}
