/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * look.c - what a linked entry has, and how it is armed.
 *
 * Locks: of a stream what a look needs.
 */
#include "base/real.h"

#include <errno.h>

#include "base/now.h"
#include "engine/engine.h"
#include "wait/waitset.h"
#include "epoll/epoll.h"
#include "epoll/impl.h"
#include "epoll/look.h"
#include "epoll/member.h"
#include "epoll/nest.h"

#define LOOKS 8

/* Fills w, with references to the links to arm. */
static uint32_t level(struct sr_stream *st, uint32_t events,
		      struct sr_waitset_entry *w)
{
	struct pollfd p = { -1, 0, 0 };
	bool open, full;

	*w = (struct sr_waitset_entry){ .st = st, .events = (short)(events & 0x7fff) };
	/* A gate that shuts meanwhile does so before a mark can come: what the kernel has may
	 * be one, and nothing to be read.  Room that comes after out.full was set is an edge
	 * (take_token()), so the kernel is asked again when it has been set here. */
	do {
		sr_waitset_drop_links(w);
		open = !sr_gate_shut(&st->in.gate);
		sr_waitset_plan(w);
		if (!w->shut)
			return 0; /* the kernel says it, with the program's data */
		p.fd = w->pass || w->ends ? st->anchor : -1;
		p.events = sr_waitset_asks(w);
		p.revents = 0;
		if (p.fd >= 0 && sr_now_poll(&p, 1) < 0)
			p.revents = 0;
		full = w->pass & ~p.revents & SR_EPOLL_OUT;
	} while ((open && sr_gate_shut(&st->in.gate)) ||
		 (full && !atomic_exchange(&st->out.full, true)));
	return (unsigned short)(sr_waitset_answer(w, p.revents) & ~POLLNVAL);
}

uint32_t sr_epoll_look(struct sr_epoll_entry *e, uint32_t events, uint32_t *edge, bool *stays,
		       bool must)
{
	struct sr_link *rx = NULL, *tx = NULL;	/* armed, to be compared only */
	bool arms = false, full, late;
	struct sr_stream *st = e->st;
	int tries = LOOKS, err = errno;
	struct sr_waitset_entry w = { 0 };
	uint32_t r = 0;

	do {
		*edge |= sr_epoll_take_edge(e);
		full = atomic_load(&st->out.full);
		if (arms) {
			rx = events & SR_EPOLL_IN ? w.link[0] : NULL;
			tx = events & SR_EPOLL_OUT ? w.link[1] : NULL;
			if (must && r)	/* before the doorbell is drained */
				sr_epoll_tell(e->set, false);
			if (!sr_epoll_arm(e, rx, tx, full, w.kernel || w.ends, w.pass))
				break;
		}
		sr_waitset_drop_links(&w);
		r = level(st, events, &w);
		/* Its polls would see what has come by TCP, but not that it is news. */
		if ((events & EPOLLET) && (w.kernel || w.ends))
			*stays = false;
		late = sr_epoll_has_news(e);
		if (arms)
			late |= ((events & SR_EPOLL_IN) && w.link[0] && w.link[0] != rx) ||
				((events & SR_EPOLL_OUT) && w.link[1] && w.link[1] != tx) ||
				((events & SR_EPOLL_OUT) && !full &&
				 atomic_load(&st->out.full));
		if ((r && !(events & EPOLLET) && (arms || !must)) ||
		    (!late && (*stays || arms)))
			break;
		arms = !*stays;
	} while (--tries);
	sr_waitset_drop_links(&w);
	if (arms)
		*stays = !tries;	/* it never rests */
	errno = err;
	return r;
}
