/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * family.c - owns the slots and this process's doorbell (family.h).  No locks: slots
 * are atomic words, and only the thread that forks opens a doorbell.
 */
#include "base/now.h"
#include "base/family.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/fdpriv.h"
#include "base/loop.h"
#include "base/now.h"
#include "base/order.h"

/* Costs address space only: a page that is never touched takes no memory. */
#define SLOTS 65536

static struct sr_slot *slots;
static atomic_uint next;	/* where to look for a free one */
static struct sr_watch watch = { .fd = -1 };
static int outer = -1;		/* the children's end */
static void (*on_ring)(void);

static bool family_map(void)
{
	void *p;

	if (slots)
		return true;
	p = sr_sys_mmap(NULL, SLOTS * sizeof(*slots), PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p != MAP_FAILED)
		slots = p;
	return slots;
}

struct sr_slot *sr_slot_get(void)
{
	unsigned i, none;
	int err = errno;

	if (!family_map()) {
		errno = err;
		return NULL;
	}
	for (i = 0; i < SLOTS; i++) {
		struct sr_slot *s = &slots[sr_count(&next, 1) % SLOTS];

		none = 0;
		/* Pairs with the release of the last owner's sr_slot_put(). */
		if (!sr_replace(&s->owners, &none, 1))
			continue;
		sr_store(&s->asked, 0);
		sr_store(&s->given, 0);
		sr_store(&s->doorbell, -1);
		sr_store(&s->owed, 0);
		return s;
	}
	return NULL;
}

void sr_slot_put(struct sr_slot *slot)
{
	/* Pairs with the next sr_slot_get() of this slot. */
	atomic_fetch_sub_explicit(&slot->owners, 1, memory_order_release);
}

bool sr_slot_put_unless_last(struct sr_slot *slot)
{
	unsigned n = slot ? sr_load(&slot->owners) : 0;

	while (n > 1)
		if (sr_replace(&slot->owners, &n, n - 1)) /* pairs as in sr_slot_put() */
			return true;
	return false;
}

static void on_event(struct sr_watch *w, uint32_t events)
{
	char c[64];

	(void)events;
	while (sr_now_recv(w->fd, c, sizeof(c), 0) > 0)
		;
	on_ring();
}

int sr_doorbell_open(void (*rang)(void))
{
	int fd[2], err = errno;

	if (outer >= 0)
		return outer;
	if (sr_sys_socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
		goto out;
	watch.fd = sr_fd_own(fd[0]);
	outer = sr_fd_own(fd[1]);
	watch.fn = on_event;
	on_ring = rang;
	if (watch.fd >= 0 && outer >= 0 && sr_loop_watch(&watch, EPOLLIN) == 0)
		goto out;
	if (watch.fd >= 0)
		sr_fd_close(watch.fd);
	if (outer >= 0)
		sr_fd_close(outer);
	watch.fd = outer = -1;
out:
	errno = err;
	return outer;
}

bool sr_doorbell_ring(int doorbell)
{
	return doorbell >= 0 &&
	       (sr_now_send(doorbell, "", 1) == 1 ||
		errno == EAGAIN || errno == EINTR || errno == ENOBUFS);
}

int sr_doorbell_forget(void)
{
	int doorbell = outer;

	watch.fd = outer = -1;
	return doorbell;
}
