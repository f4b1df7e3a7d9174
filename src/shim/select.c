/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * select.c - select() and pselect() by way of poll().  As on Linux, whole words of the
 * sets are written, but none on failure; select() writes back the time that is left,
 * also on failure.
 */
#include "shim/shim.h"

#include <string.h>

#include "base/loop.h"

#define WORD (8 * (int)sizeof(fd_mask))
#define US_PER_S 1000000

/* For each of the three sets: the events that a descriptor in it asks for, and those that put
 * it into the answer, as in the kernel's fs/select.c.  poll() reports POLLHUP and POLLERR
 * without being asked. */
#define ASK_RD (POLLIN | POLLRDNORM | POLLRDBAND)
#define ASK_WR (POLLOUT | POLLWRNORM | POLLWRBAND)
#define KINDS 3
static const struct {
	short asks, sees;
} kinds[KINDS] = {
	{ASK_RD, ASK_RD | POLLHUP | POLLERR},
	{ASK_WR, ASK_WR | POLLERR},
	{POLLPRI, POLLPRI},
};

struct sets {
	int n;
	fd_mask *set[KINDS]; /* each may be NULL */
};

static struct sets sets_of(int n, fd_set *rd, fd_set *wr, fd_set *ex)
{
	return (struct sets){n, {(fd_mask *)rd, (fd_mask *)wr, (fd_mask *)ex}};
}

/* The bits of word i in any of the sets, without those from n on. */
static fd_mask any_word(const struct sets *s, int i)
{
	int left = s->n - i * WORD;
	fd_mask w = 0;

	for (int k = 0; k < KINDS; k++)
		w |= s->set[k] ? s->set[k][i] : 0;
	return left < WORD ? w & (fd_mask)((1ul << left) - 1) : w;
}

/* Returns the number of entries. */
static int select_ask(const struct sets *s, struct pollfd *p)
{
	int n = 0;

	for (int i = 0; i * WORD < s->n; i++)
		for (fd_mask w = any_word(s, i); w; w &= w - 1, n++) {
			int b = __builtin_ctzl((unsigned long)w);

			p[n] = (struct pollfd){.fd = i * WORD + b};
			for (int k = 0; k < KINDS; k++)
				if (s->set[k] && s->set[k][i] >> b & 1)
					p[n].events |= kinds[k].asks;
		}
	return n;
}

/*
 * Sets that are larger than FD_SETSIZE are left to the kernel, so the streams in them are
 * made plain.  A program may pass a number that is larger than its sets (getdtablesize()), so
 * we look no further than there are streams and sets, as the kernel looks no further than the
 * process has descriptors.
 */
static void select_make_plain(const struct sets *s)
{
	int max = sr_fdtab_max();

	if (max < sr_epoll_max())
		max = sr_epoll_max();
	for (int fd = 0; fd < s->n && fd <= max; fd++)
		if (any_word(s, fd / WORD) >> fd % WORD & 1)
			sr_shim_make_plain(fd, SR_REASON_OPTION);
}

/* Is there a stream in the sets?  Then they are put into p. */
static bool select_takes_over(const struct sets *s, struct pollfd *p, int *n)
{
	if (sr_shim_unused() || sr_inside || s->n < 0)
		return false;
	if (s->n > FD_SETSIZE) {
		select_make_plain(s);
		return false;
	}
	*n = select_ask(s, p);
	return sr_shim_polled(p, (nfds_t)*n);
}

/* How many entries select_ask() fills. */
static int select_room(const struct sets *s)
{
	int n = 0;

	for (int i = 0; i * WORD < s->n && s->n <= FD_SETSIZE; i++)
		n += __builtin_popcountl((unsigned long)any_word(s, i));
	return n;
}

/* The entries are on the stack, of which a thread may have little.  For most programs FEW
 * entries are enough; for more, the stack is taken as needed. */
#define FEW 32
#define MANY(s) __builtin_alloca((size_t)select_room(s) * sizeof(struct pollfd))

static bool is_answered_for(const struct pollfd *p, int k)
{
	return p->events & kinds[k].asks && p->revents & kinds[k].sees;
}

/*
 * Returns how many bits poll()'s answers set in the sets of select(2); -EBADF if a descriptor
 * is not open.  poll() also returns for events that select() does not report, such as POLLHUP
 * of a descriptor that is only in the set for writing.  If there are no other answers, such
 * descriptors are taken out, because otherwise the next poll() would not sleep.
 */
static int select_judge(struct pollfd *p, int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++) {
		if (p[i].revents & POLLNVAL)
			return -EBADF;
		for (int k = 0; k < KINDS; k++)
			sum += is_answered_for(&p[i], k);
	}
	for (int i = 0; i < n && !sum; i++)
		if (p[i].revents)
			p[i].fd = -1;
	return sum;
}

static void select_answer(const struct sets *s, const struct pollfd *p, int n)
{
	for (int k = 0; k < KINDS; k++) {
		if (!s->set[k])
			continue;
		memset(s->set[k], 0, (size_t)((s->n + WORD - 1) / WORD) * sizeof(fd_mask));
		for (int i = 0; i < n; i++)
			if (is_answered_for(&p[i], k))
				s->set[k][p[i].fd / WORD] |=
					(fd_mask)(1ul << p[i].fd % WORD);
	}
}

/* A value or -errno.  *t becomes what is left of it; NULL: for ever. */
static int wait_sets(const struct sets *s, struct pollfd *p, int n, struct timespec *t,
		     const sigset_t *mask)
{
	int r = mask ? 0 : sr_fast_poll_all(p, (size_t)n);
	uint64_t end = 0, now;

	if (r > 0) {
		r = select_judge(p, n);
		goto out;
	}
	sr_shim_poll_sets(p, (nfds_t)n);
	do {
		r = sr_streams_poll(p, (nfds_t)n, t, mask, &end);
		if (t && end && end != UINT64_MAX) {
			now = sr_now_ns();
			*t = sr_timespec(now < end ? end - now : 0);
		}
		if (r <= 0)
			break;
		r = select_judge(p, n);
	} while (r == 0);
out:
	if (r >= 0)
		select_answer(s, p, r ? n : 0);
	return r;
}

/* False: tv is invalid.  select() accepts a million microseconds and more; if the sum
 * overflows, the call never times out. */
static bool to_timespec(struct timespec *t, const struct timeval *tv)
{
	if (tv->tv_sec < 0 || tv->tv_usec < 0)
		return false;
	t->tv_nsec = tv->tv_usec % US_PER_S * 1000;
	if (__builtin_add_overflow(tv->tv_sec, tv->tv_usec / US_PER_S, &t->tv_sec))
		t->tv_sec = __LONG_MAX__;
	return true;
}

static inline __attribute__((always_inline)) int
select_by(const struct sets *s, struct pollfd *p, struct timeval *timeout)
{
	struct timespec t;
	int saved = errno, r, count;

	if (!select_takes_over(s, p, &count) || (timeout && !to_timespec(&t, timeout)))
		return sr_real.select(s->n, (fd_set *)s->set[0], (fd_set *)s->set[1],
				      (fd_set *)s->set[2], timeout);
	r = wait_sets(s, p, count, timeout ? &t : NULL, NULL);
	if (timeout) {
		timeout->tv_sec = t.tv_sec;
		timeout->tv_usec = t.tv_nsec / 1000;
	}
	return (int)sr_outcome(saved, r);
}

static __attribute__((noinline)) int select_many(const struct sets *s, struct timeval *timeout)
{
	return select_by(s, MANY(s), timeout);
}

int sr_select(int n, fd_set *rd, fd_set *wr, fd_set *ex,
	      struct timeval *timeout)
{
	struct sets s = sets_of(n, rd, wr, ex);
	struct pollfd few[FEW];

	return n <= FEW ? select_by(&s, few, timeout) : select_many(&s, timeout);
}

static inline __attribute__((always_inline)) int
pselect_by(const struct sets *s, struct pollfd *p, const struct timespec *timeout,
	   const sigset_t *mask)
{
	struct timespec t;
	int saved = errno, count;

	if (timeout)
		t = *timeout;
	if (!select_takes_over(s, p, &count) || (timeout && !sr_is_time(&t)))
		return sr_real.pselect(s->n, (fd_set *)s->set[0], (fd_set *)s->set[1],
				       (fd_set *)s->set[2], timeout, mask);
	return (int)sr_outcome(saved, wait_sets(s, p, count, timeout ? &t : NULL, mask));
}

static __attribute__((noinline)) int
pselect_many(const struct sets *s, const struct timespec *timeout, const sigset_t *mask)
{
	return pselect_by(s, MANY(s), timeout, mask);
}

int sr_pselect(int n, fd_set *rd, fd_set *wr, fd_set *ex,
	       const struct timespec *timeout, const sigset_t *mask)
{
	struct sets s = sets_of(n, rd, wr, ex);
	struct pollfd few[FEW];

	return n <= FEW ? pselect_by(&s, few, timeout, mask) :
			  pselect_many(&s, timeout, mask);
}
