/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * page.c - owns the page of statistics and knows which of its slots are taken; must not
 * know what is in them.  page_lock is a leaf, and no call that moves bytes takes it.
 *
 * The page is sparse: slots that no stream has used take no memory.  If the page can't be
 * made (no descriptors, no memory, a seccomp filter), everything but sockrail-stat works,
 * and the process does not try again.
 */
#include "base/sys.h" /* before any system header */
#include "base/page.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/apart.h"
#include "base/fdpriv.h"
#include "base/lock.h"

#define BITS 64
#define SPARE 16 /* descriptors; a program with fewer needs them for streams */

static struct sr_mutex page_lock = SR_MUTEX(SR_RANK_LEAF);
static struct sr_page *page;
static bool failed;
SR_APART static uint64_t used[SR_PAGE_SLOTS / BITS];

static void page_fill_head(struct sr_page *p)
{
	struct timespec now;

	sr_clock(CLOCK_REALTIME, &now);
	memcpy(p->magic, SR_PAGE_MAGIC, sizeof(p->magic));
	p->version = SR_PAGE_VERSION;
	p->head_size = offsetof(struct sr_page, slot);
	p->slot_size = sizeof(struct sr_page_slot);
	p->slots = SR_PAGE_SLOTS;
	p->reasons = SR_REASONS;
	p->counters = SR_COUNTERS;
	p->pid = sr_sys_getpid();
	p->start_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	strncpy(p->program, sr_report_program(), sizeof(p->program) - 1);
}

/* The process alone can write: a mapping that is made later is read-only. */
static struct sr_page *page_map(int fd)
{
	void *p = sr_sys_mmap(NULL, sizeof(struct sr_page), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (sr_sys_fcntl(fd, F_ADD_SEALS,	/* before Linux 5.1 there is no FUTURE_WRITE */
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))
		sr_sys_fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	return p;
}

static struct sr_page *page_make(void)
{
	struct sr_page *p = NULL;
	int err = errno, fd = -1;

	sr_enter();
	if (sr_fd_room(SPARE))
		fd = sr_fd_memory(SR_PAGE_NAME, sizeof(*p));
	if (fd >= 0)
		p = page_map(fd);
	if (p)
		page_fill_head(p);
	else if (fd >= 0)
		sr_fd_close(fd);
	sr_leave();
	errno = err;
	return p;
}

/* The lowest, so that few pages are touched. */
static struct sr_page_slot *take_lowest_slot(void)
{
	unsigned i, k;

	for (i = 0; i < SR_PAGE_SLOTS / BITS; i++) {
		if (!~used[i])
			continue;
		k = (unsigned)__builtin_ctzll(~used[i]);
		used[i] |= UINT64_C(1) << k;
		k += i * BITS;
		if (sr_load(&page->high) <= k)
			sr_store(&page->high, k + 1);
		return &page->slot[k];
	}
	return NULL;
}

struct sr_page_slot *sr_page_take(void)
{
	struct sr_page_slot *slot = NULL;

	sr_lock(&page_lock);
	if (!page && !failed) {
		page = page_make();
		failed = !page;
	}
	if (page)
		slot = take_lowest_slot();
	sr_unlock(&page_lock);
	if (slot)
		memset(slot, 0, sizeof(*slot));
	return slot;
}

uint64_t sr_page_id(void)
{
	return sr_count(&page->made, 1) + 1;
}

struct sr_page *sr_page_here(void)
{
	return page;
}

void sr_page_give(struct sr_page_slot *slot)
{
	size_t k = (size_t)(slot - page->slot);

	sr_store(&slot->id, 0);	/* before the next use of the slot: page_lock orders it */
	sr_lock(&page_lock);
	used[k / BITS] &= ~(UINT64_C(1) << k % BITS);
	sr_unlock(&page_lock);
}

void sr_page_forget(void)
{
	sr_mutex_init(&page_lock, SR_RANK_LEAF);
	failed = false;
	page = NULL;	/* it stays mapped: few children live long enough to care */
	memset(used, 0, sizeof(used));
}
