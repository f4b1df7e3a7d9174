/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fdpriv.c - owns the set of our own descriptors.  No locks: the bits are
 * atomic, and a number belongs to one caller from sr_fd_own() to sr_fd_close().
 */
#include "base/real.h" /* before any system header */
#include "base/fdpriv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/apart.h"
#include "base/now.h"
#include "base/order.h"
#include "base/process.h"
#include "base/signal.h"

/*
 * Where our descriptors go.  fork(2) takes 1.7 ns for each number up to the greatest that is
 * open: 28 us if there is a descriptor at RESERVED.  So ours are no higher than they need be.  The
 * numbers from FIRST / 2 on are divided into blocks, of which each ends at a power of two.  Our
 * descriptors fill the blocks from the lowest on, and each block from its end.  Below LOW they
 * take only the last eighth of a block, because the program may need numbers for select(2);
 * above LOW they take all of it.  Those above RESERVED are for servers whose clients have the others.
 */
#define FIRST 256
#define LOW 1024
#define RESERVED 16384	/* for these the kernel's table has room from the beginning */
#define TOP 65536
#define MANY 32	/* this many are closed by one close_range(2) */
#define BITS 64
#define CHUNK 48 /* numbers to be looked at with one call */

/* The set.  Most processes use only the words below LOW; these lie in the page that the
 * child of a fork writes anyway (apart.h).
 * Accesses are relaxed, because a thread gets a number from the kernel, whose lock of the
 * descriptor table orders them.  A bit is set after its number was opened, and cleared before
 * it is closed. */
static _Atomic uint64_t below[LOW / BITS];
SR_APART static _Atomic uint64_t above[(TOP - LOW) / BITS];
SR_APART static _Atomic uint64_t slow[TOP / BITS]; /* a subset: sr_fd_is_slow() */

static _Atomic uint64_t *private_word(unsigned fd)
{
	return fd < LOW ? &below[fd / BITS] : &above[(fd - LOW) / BITS];
}

static uint64_t private_bit(int fd)
{
	return UINT64_C(1) << fd % BITS;
}

bool sr_fd_is_private(int fd)
{
	return (unsigned)fd < TOP && (sr_load(private_word((unsigned)fd)) & private_bit(fd));
}

/*
 * Duplicates fd to a number in [first, end), as high as possible; -errno.  F_DUPFD yields
 * the least free number from a base on.  The search for a base goes down from the end: one by
 * one over our descriptors, and in growing steps over the program's.  F_DUPFD is called only
 * with a base that is free, or with `first`, because a duplicate behind the end may make the
 * kernel's table grow, and that takes long (sr_fd_reserve()).
 */
static int dup_into(int fd, int first, int end)
{
	int base = end - 1, step = 1, got;

	while (base > first) {
		if (sr_fd_is_private(base)) {
			base--;
			continue;
		}
		if (sr_sys_fcntl(base, F_GETFD, 0) < 0)
			break;
		base -= step;
		step *= 2;
	}
	got = sr_sys_fcntl(fd, F_DUPFD_CLOEXEC, base > first ? base : first);
	if (got < end)
		return got >= 0 ? got : errno == EINVAL ? -EMFILE : -errno;
	sr_now_close(got);
	return -EMFILE;
}

static int private_limit(int most)
{
	struct rlimit rl;

	return sr_sys_getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur < (rlim_t)most ?
		       (int)rl.rlim_cur : most;
}

static int dup_high(int fd)
{
	int last = private_limit(TOP), got;

	for (int end = FIRST; end < last; end *= 2) {
		got = dup_into(fd, end - end / (end > LOW ? 2 : 16), end);
		if (got != -EMFILE)
			return got;
	}
	return dup_into(fd, STDERR_FILENO + 1, last);
}

void sr_fd_reserve(void)
{
	int fd = sr_sys_eventfd(0, EFD_CLOEXEC);
	int high = fd < 0 ? -1 : dup_into(fd, STDERR_FILENO + 1, private_limit(RESERVED));

	if (high >= 0)
		sr_now_close(high);
	if (fd >= 0)
		sr_now_close(fd);
}

static int fd_mark_private(int fd)
{
	if (sr_load(&slow[fd / BITS]) & private_bit(fd))	/* else the page is not written */
		atomic_fetch_and_explicit(&slow[fd / BITS], ~private_bit(fd), memory_order_relaxed);
	atomic_fetch_or_explicit(private_word((unsigned)fd), private_bit(fd), memory_order_relaxed);
	return fd;
}

void sr_fd_slow(int fd)
{
	if (sr_fd_is_private(fd))
		atomic_fetch_or_explicit(&slow[fd / BITS], private_bit(fd), memory_order_relaxed);
}

bool sr_fd_is_slow(int fd)
{
	return sr_fd_is_private(fd) && (sr_load(&slow[fd / BITS]) & private_bit(fd));
}

int sr_fd_next_slow(int fd)
{
	while (++fd < TOP)
		if (!sr_load(&slow[fd / BITS]))
			fd |= BITS - 1;
		else if (sr_fd_is_slow(fd))
			return fd;
	return -1;
}

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U	/* of <linux/memfd.h>; implies MFD_ALLOW_SEALING */
#endif

/* Kernels from 6.3 on have a flag for memory that must not be executable, and may
 * require it (vm.memfd_noexec). */
int sr_fd_memory(const char *name, size_t size)
{
	int fd = sr_fd_own(sr_sys_memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL)), r;
	struct sr_filesig saved;

	if (fd < 0 && errno == EINVAL)
		fd = sr_fd_own(sr_sys_memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return fd;
	sr_filesig_block(&saved);
	r = sr_sys_ftruncate(fd, (off_t)size);
	sr_filesig_restore(&saved, r);
	if (r == 0)
		return fd;
	sr_fd_close(fd);
	return -1;
}

int sr_fd_dup(int fd)
{
	int err = errno, high = dup_high(fd);

	errno = err;
	return high < 0 ? high : fd_mark_private(high);
}

int sr_fd_own(int fd)
{
	int high = fd < 0 ? fd : sr_fd_dup(fd);

	if (fd >= 0 && high == -EMFILE && fd < TOP &&
	    sr_sys_fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
		return fd_mark_private(fd);
	if (fd >= 0 && high != -EBADF)
		sr_now_close(fd);
	if (fd < 0 || high >= 0)
		return high;
	errno = -high;
	return -1;
}

void sr_fd_close(int fd)
{
	int err = errno;

	/* The bit first: once the number is closed, another thread may get it. */
	if (sr_fd_is_private(fd))
		atomic_fetch_and_explicit(private_word((unsigned)fd), ~private_bit(fd), memory_order_relaxed);
	sr_now_close(fd);
	errno = err;
}

unsigned sr_fd_held(void)
{
	unsigned n = 0;

	for (int i = 0; i < TOP / BITS; i++)
		n += (unsigned)__builtin_popcountll(sr_load(private_word(i * BITS)));
	return n;
}

bool sr_fd_room(unsigned n)
{
	struct rlimit rl;

	return (sr_sys_getrlimit(RLIMIT_NOFILE, &rl) < 0 ||
		sr_fd_held() + n <= rl.rlim_cur / 2) &&
	       sr_fd_spare(n + SR_FD_LEFT);
}

/* How many of the numbers in [first, end) are free?  At most CHUNK. */
static unsigned free_among(int first, int end)
{
	struct pollfd p[CHUNK];
	unsigned n = 0;

	for (int fd = first; fd < end; fd++)
		p[fd - first] = (struct pollfd){ fd, 0, 0 };
	if (sr_now_poll(p, (nfds_t)(end - first)) < 0)
		return CHUNK;	/* unknown */
	for (int fd = first; fd < end; fd++)
		n += (p[fd - first].revents & POLLNVAL) != 0;
	return n;
}

/* The program has the lowest numbers, so the search begins at the highest, and mostly ends
 * there at once. */
bool sr_fd_spare(unsigned n)
{
	struct rlimit rl;
	int end, first;
	unsigned found = 0;

	if (sr_sys_getrlimit(RLIMIT_NOFILE, &rl) < 0 || rl.rlim_cur > INT_MAX)
		return true;
	for (end = (int)rl.rlim_cur; end > 0 && found < n; end = first) {
		first = end > CHUNK ? end - CHUNK : 0;
		found += free_among(first, end);
	}
	return found >= n;
}

/* The least private number from first on, UINT_MAX if there is none. */
static unsigned next_private(unsigned first)
{
	uint64_t word;

	for (; first < TOP; first = (first / BITS + 1) * BITS) {
		word = sr_load(private_word(first)) >> first % BITS;
		if (word)
			return first + (unsigned)__builtin_ctzll(word);
	}
	return UINT_MAX;
}

int sr_fd_gaps(unsigned first, unsigned last,
	       int (*fn)(unsigned first, unsigned last, void *arg), void *arg)
{
	while (first <= last) {
		unsigned ours = next_private(first);
		int result = 0;

		if (ours > last || ours == UINT_MAX)
			return fn(first, last, arg);
		if (ours > first)
			result = fn(first, ours - 1, arg);
		if (result)
			return result;
		first = ours + 1;
	}
	return 0;
}

/* Closes descriptors that lie side by side.  If they are many, as in a process with a thousand
 * links, by one close_range(2).  The few of most processes are closed one by one, because a
 * seccomp filter may not know close_range(2). */
static void private_close_run(unsigned first, unsigned last)
{
	bool closed = last - first >= MANY && !sr_sys_close_range(first, last, 0);

	for (unsigned fd = first; fd <= last; fd++) {
		atomic_fetch_and_explicit(private_word(fd), ~private_bit((int)fd), memory_order_relaxed);
		if (!closed)
			sr_now_close((int)fd);
	}
}

SR_SELDOM void sr_fd_forget_all(bool (*keep)(int fd))
{
	unsigned first = 0, end;
	int err = errno;

	sr_process_begin();
	while ((first = next_private(first)) != UINT_MAX) {
		end = first;
		while (sr_fd_is_private((int)end) && !(keep && keep((int)end)))
			end++;
		if (end > first)
			private_close_run(first, end - 1);
		first = end + 1;
	}
	errno = err;
}
