/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link.c - what all kinds of link share: references, events, the check of
 * incoming messages, the process-wide memory account; and whom an asker asks next if
 * an answer has sent it elsewhere.  It knows no kind and no stream.  No locks.
 */
#include "base/real.h" /* before any system header */
#include "link/link.h"
#include "link/rendezvous.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/list.h"
#include "base/loop.h"

void (*sr_link_request)(struct sr_request *req);
void (*sr_link_gone)(struct sr_request *req);

bool sr_ask_again(struct sr_ask *ask, const char **reason)
{
	bool sent = !strcmp(*reason, SR_THERE), back = ask->there[0];

	if (!sent && (!ask->redirects || sr_reason_find(*reason) != SR_REASON_NO_LISTENER))
		return false;
	*reason = "no-match";
	if (sent ? ask->redirects++ == SR_THERE_MOST : !back)
		return false;
	if (!sent)
		ask->there[0] = '\0';
	return !ask->ops->ask(ask);
}

__thread void (*volatile sr_link_left)(void) __attribute__((tls_model("initial-exec")));

/* ---- references ---- */

static void link_free_task(struct sr_task *task)
{
	struct sr_link *link = SR_OF(struct sr_link, unreferenced, task);

	link->ops->free(link);
}

struct sr_link *sr_link_new(const struct sr_link_ops *ops, size_t size,
			    enum sr_role role, uint32_t link_no, void *owner,
			    void (*notify)(struct sr_link *, unsigned))
{
	struct sr_link *link;

	sr_enter();
	link = calloc(1, size);
	sr_leave();
	if (!link)
		return NULL;
	link->ops = ops;
	link->unreferenced.fn = link_free_task;
	atomic_init(&link->refs, 1);
	link->role = role;
	link->link_no = link_no;
	link->name = ops->name;
	link->owner = owner;
	link->notify = notify;
	return link;
}

struct sr_link *sr_link_get(struct sr_link *link)
{
	atomic_fetch_add_explicit(&link->refs, 1, memory_order_relaxed);
	return link;
}

void sr_link_put(struct sr_link *link)
{
	/* Pairs with itself: who drops the last reference sees what all others did. */
	if (atomic_fetch_sub_explicit(&link->refs, 1, memory_order_acq_rel) == 1)
		sr_loop_post(&link->unreferenced);
}

static _Atomic size_t memory_used;	/* only counted */

void sr_link_forget(void)
{
	sr_store(&memory_used, 0);
}

/* ---- events ---- */

bool sr_link_raise(struct sr_link *link, unsigned bits)
{
	/* pair look: of DEAD, sr_vlook_start() looks for the caller.  The release in it pairs with
	 * sr_link_events(): a thread that sees the bit sees what the message brought. */
	unsigned before = atomic_fetch_or_explicit(&link->events, bits, memory_order_seq_cst);

	return (before & bits) != bits;
}

bool sr_link_set_reason(struct sr_link *link, const char *reason)
{
	const char *none = NULL;

	/* Pairs with itself.  (The words are constants, so readers need no acquire.) */
	return sr_replace(&link->reason, &none, reason);
}

int sr_link_say(struct sr_link *link, const struct sr_msg *msg)
{
	unsigned bit = 1u << msg->type;

	if (sr_link_events(link) & SR_LINK_DEAD)
		return -EPIPE;
	if (msg->type == SR_MSG_SWITCH && !sr_link_has_said(link, SR_MSG_SWITCH)) {
		/* They pair as link.h says. */
		sr_publish(&link->tx_w, msg->sw.n);
		sr_publish(&link->tx_acked, msg->sw.n);
	}
	/* The release pairs with sr_link_has_said() and sr_link_take(). */
	if (atomic_fetch_or_explicit(&link->said, bit, memory_order_acq_rel) & bit)
		return -EINVAL;
	return 0;
}

/* The bit that a message sets, the bits that must have been set before, and what we must
 * have said. */
static const struct {
	unsigned bit, after, said;
} order[] = {
	[SR_MSG_HELLO] = { SR_LINK_HELLO, 0, 0 },
	[SR_MSG_SHARE] = { SR_LINK_SHARE, SR_LINK_HELLO, 0 },
	[SR_MSG_PROOF] = { SR_LINK_PROOF, SR_LINK_SHARE, 0 },
	[SR_MSG_SWITCH] = { SR_LINK_SWITCH, SR_LINK_HELLO, 0 },
	[SR_MSG_ACKSW] = { SR_LINK_ACKSW, SR_LINK_HELLO, 1u << SR_MSG_SWITCH },
	[SR_MSG_END] = { SR_LINK_END, SR_LINK_SWITCH, 0 },
	[SR_MSG_ACKEND] = { SR_LINK_ACKEND, SR_LINK_ACKSW, 1u << SR_MSG_END },
};

int sr_link_take(struct sr_link *link, const struct sr_msg *msg)
{
	unsigned have = sr_link_events(link);
	unsigned bit;

	if (msg->type >= sizeof(order) / sizeof(order[0]) ||
	    !order[msg->type].bit)
		return -EPROTO;
	bit = order[msg->type].bit;
	if ((have & bit) || (order[msg->type].after & ~have) ||
	    (order[msg->type].said & ~sr_observe(&link->said))) /* pairs with sr_link_say() */
		return -EPROTO;
	switch (msg->type) {
	case SR_MSG_HELLO:
		if (msg->hello.role == link->role || msg->hello.link_no != link->link_no)
			return -EPROTO;
		link->peer_hello = msg->hello;
		break;
	case SR_MSG_SHARE:
		__builtin_memcpy(link->peer_share, msg->share, SR_SHARE_LEN);
		break;
	case SR_MSG_PROOF:
		__builtin_memcpy(link->peer_tag, msg->tag, SR_TAG_LEN);
		break;
	case SR_MSG_SWITCH:
		if (msg->sw.link_no != link->link_no || msg->sw.n > INT64_MAX)
			return -EPROTO;
		link->peer_switch = msg->sw;
		sr_store(&link->rx_h, msg->sw.n); /* sr_link_raise() publishes both */
		sr_store(&link->rx_taken, msg->sw.n);
		break;
	case SR_MSG_END:
		if (msg->end < sr_load(&link->rx_h))
			return -EPROTO;
		link->peer_end = msg->end;
		break;
	default:
		break;
	}
	sr_link_raise(link, bit);
	return 0;
}

/* ---- memory ---- */

bool sr_memory_take(size_t bytes)
{
	size_t used = sr_load(&memory_used);

	do {
		if (bytes > sr_conf.memory || used > sr_conf.memory - bytes)
			return false;
	} while (!sr_replace(&memory_used, &used, used + bytes)); /* pairs with nothing */
	return true;
}

void sr_memory_give(size_t bytes)
{
	atomic_fetch_sub_explicit(&memory_used, bytes, memory_order_relaxed);
}

size_t sr_memory_used(void)
{
	return sr_load(&memory_used);
}
