/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * select.c - select() and pselect() over poll().  Semantics of Linux: sets may
 * have any size, whole words of them are written, on failure none is; select()
 * tells the time that is left, also after a failure.
 */
#include "shim/shim.h"

#include <string.h>

#define WORD (8 * (int)sizeof(fd_mask))
#define NS_PER_S 1000000000L

/* As in the kernel's fs/select.c.  POLLHUP and POLLERR are never asked for and
 * always told. */
#define ASK_RD (POLLIN | POLLRDNORM | POLLRDBAND)
#define ASK_WR (POLLOUT | POLLWRNORM | POLLWRBAND)
#define TELL_RD (ASK_RD | POLLHUP | POLLERR)
#define TELL_WR (ASK_WR | POLLERR)

struct sets {
	int n;
	fd_set *rd, *wr, *ex; /* each may be NULL */
};

/* Descriptors that fit the stack (select() is async-signal-safe: no malloc). */
#define SMALL 128

static fd_mask word(const fd_set *set, int i)
{
	return set ? ((const fd_mask *)set)[i] : 0;
}

/* The bits of word i that count. */
static fd_mask any_word(const struct sets *s, int i)
{
	fd_mask w = word(s->rd, i) | word(s->wr, i) | word(s->ex, i);
	int left = s->n - i * WORD;

	return left < WORD ? w & (fd_mask)((1ul << left) - 1) : w;
}

static int count(const struct sets *s)
{
	int sum = 0;

	for (int i = 0; i * WORD < s->n; i++)
		sum += __builtin_popcountl((unsigned long)any_word(s, i));
	return sum;
}

/* As in poll.c. */
static void look_at_sets(const struct sets *s)
{
	int max = sr_epoll_max();

	for (int i = 0; i * WORD < s->n && i * WORD <= max; i++) {
		fd_mask w = any_word(s, i);

		for (; w; w &= w - 1) {
			int fd = i * WORD + __builtin_ctzl((unsigned long)w);
			struct sr_epoll *set = sr_epoll_get(fd);

			if (!set)
				continue;
			sr_epoll_watched(set, false);
			sr_epoll_put(set);
		}
	}
}

static bool has_stream(const struct sets *s)
{
	int max = sr_fdtab_max();

	look_at_sets(s);
	for (int i = 0; i * WORD < s->n && i * WORD <= max; i++) {
		fd_mask w = any_word(s, i);

		for (; w; w &= w - 1) {
			if (sr_fdtab_has(i * WORD +
					 __builtin_ctzl((unsigned long)w)))
				return true;
		}
	}
	return false;
}

static void ask(const struct sets *s, struct pollfd *p)
{
	for (int i = 0; i * WORD < s->n; i++) {
		fd_mask w = any_word(s, i);

		for (; w; w &= w - 1, p++) {
			int b = __builtin_ctzl((unsigned long)w);

			p->fd = i * WORD + b;
			p->events = 0;
			if (word(s->rd, i) >> b & 1)
				p->events |= ASK_RD;
			if (word(s->wr, i) >> b & 1)
				p->events |= ASK_WR;
			if (word(s->ex, i) >> b & 1)
				p->events |= POLLPRI;
		}
	}
}

/* The sets in which an answer puts its descriptor, as the POLL bits asked. */
static int told(const struct pollfd *p)
{
	int in = 0;

	if (p->events & POLLIN && p->revents & TELL_RD)
		in |= POLLIN;
	if (p->events & POLLOUT && p->revents & TELL_WR)
		in |= POLLOUT;
	if (p->events & p->revents & POLLPRI)
		in |= POLLPRI;
	return in;
}

/*
 * How many bits the answers set; -EBADF.  poll() also returns for what select()
 * does not ask about (POLLHUP, when only writing counts): such a descriptor is
 * taken out, for it would keep poll() from sleeping.
 */
static int judge(struct pollfd *p, int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++) {
		if (p[i].revents & POLLNVAL)
			return -EBADF;
		sum += __builtin_popcount((unsigned)told(&p[i]));
	}
	for (int i = 0; i < n && !sum; i++) {
		if (p[i].revents)
			p[i].fd = -1;
	}
	return sum;
}

static void clear(fd_set *set, int n)
{
	if (set)
		memset(set, 0,
		       (size_t)((n + WORD - 1) / WORD) * sizeof(fd_mask));
}

static void put(fd_set *set, int fd)
{
	((fd_mask *)set)[fd / WORD] |= (fd_mask)(1ul << fd % WORD);
}

static void answer(const struct sets *s, const struct pollfd *p, int n)
{
	clear(s->rd, s->n);
	clear(s->wr, s->n);
	clear(s->ex, s->n);
	for (int i = 0; i < n; i++) {
		int in = p[i].fd < 0 ? 0 : told(&p[i]);

		if (in & POLLIN)
			put(s->rd, p[i].fd);
		if (in & POLLOUT)
			put(s->wr, p[i].fd);
		if (in & POLLPRI)
			put(s->ex, p[i].fd);
	}
}

/* end - now, not below 0. */
static struct timespec left_until(const struct timespec *end)
{
	struct timespec now, left;

	clock_gettime(CLOCK_MONOTONIC, &now);
	left.tv_sec = end->tv_sec - now.tv_sec;
	left.tv_nsec = end->tv_nsec - now.tv_nsec;
	if (left.tv_nsec < 0) {
		left.tv_sec--;
		left.tv_nsec += NS_PER_S;
	}
	if (left.tv_sec < 0)
		left = (struct timespec){0};
	return left;
}

static int wait_for(const struct sets *s, struct pollfd *p, int n,
		    const struct timespec *end, const sigset_t *mask)
{
	struct timespec left;
	int r;

	ask(s, p);
	do {
		if (end)
			left = left_until(end);
		r = sr_streams_poll(p, (nfds_t)n, end ? &left : NULL, mask);
		if (r <= 0)
			break;
		r = judge(p, n);
	} while (r == 0);
	if (r >= 0)
		answer(s, p, r ? n : 0);
	return r;
}

/* A value or -errno.  end: when to give up, NULL for never. */
static int wait_sets(const struct sets *s, const struct timespec *end,
		     const sigset_t *mask)
{
	struct pollfd small[SMALL], *p = small;
	int n = count(s), r;
	size_t size = (size_t)n * sizeof(*p);

	if (n > SMALL) {
		p = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			return -ENOMEM;
	}
	r = wait_for(s, p, n, end, mask);
	if (p != small)
		munmap(p, size);
	return r;
}

/* now + t in *end.  False: t is no time.  A sum that overflows is never. */
static bool set_end(struct timespec *end, time_t sec, long nsec)
{
	if (sec < 0 || nsec < 0)
		return false;
	clock_gettime(CLOCK_MONOTONIC, end);
	end->tv_nsec += nsec % NS_PER_S;
	if (__builtin_add_overflow(sec, nsec / NS_PER_S, &sec) ||
	    __builtin_add_overflow(end->tv_sec, sec, &end->tv_sec))
		end->tv_sec = __LONG_MAX__ - 1;
	if (end->tv_nsec >= NS_PER_S) {
		end->tv_sec++;
		end->tv_nsec -= NS_PER_S;
	}
	return true;
}

int sr_select(int n, fd_set *rd, fd_set *wr, fd_set *ex,
	      struct timeval *timeout)
{
	struct sets s = {n, rd, wr, ex};
	struct timespec end, left;
	int saved = errno, r;

	if (sr_shim_unused() || n < 0 || !has_stream(&s) ||
	    (timeout &&
	     (timeout->tv_usec > __LONG_MAX__ / 1000 ||
	      !set_end(&end, timeout->tv_sec, timeout->tv_usec * 1000))))
		return sr_real.select(n, rd, wr, ex, timeout);
	r = wait_sets(&s, timeout ? &end : NULL, NULL);
	if (timeout && (timeout->tv_sec || timeout->tv_usec)) {
		left = left_until(&end);
		timeout->tv_sec = left.tv_sec;
		timeout->tv_usec = left.tv_nsec / 1000;
	}
	return (int)sr_outcome(saved, r);
}

int sr_pselect(int n, fd_set *rd, fd_set *wr, fd_set *ex,
	       const struct timespec *timeout, const sigset_t *mask)
{
	struct sets s = {n, rd, wr, ex};
	struct timespec end;
	int saved = errno;

	if (sr_shim_unused() || n < 0 || !has_stream(&s) ||
	    (timeout && (timeout->tv_nsec >= NS_PER_S ||
			 !set_end(&end, timeout->tv_sec, timeout->tv_nsec))))
		return sr_real.pselect(n, rd, wr, ex, timeout, mask);
	return (int)sr_outcome(saved,
			       wait_sets(&s, timeout ? &end : NULL, mask));
}
