/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shm.h - the inside of a shared memory link, for src/link/shm only.
 *
 * One sealed memfd holds a page for each end and a ring for each direction:
 *
 *     page of the asker | page of the answerer | ring to the answerer
 *                                              | ring to the asker
 *
 * An end writes only its own page and the ring by which it sends.  (One
 * exception: the end that rings a doorbell clears the sleeper's flag.)  But a
 * malicious peer can overwrite all of the memory at any moment.  So an end never
 * reads back what it has written there, and it loads each value of the peer once,
 * checks it, and uses what it has loaded.
 *
 * Locks, in this order: arm_lock, look_lock, ctl_lock.  None is held when
 * notify() is called.
 */
#ifndef SR_SHM_H
#define SR_SHM_H

#include <assert.h>
#include <stdatomic.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/loop.h"
#include "link/link.h"
#include "link/local.h"
#include "link/rendezvous.h"
#include "pure/credit.h"
#include "pure/ring.h"

#define SR_SHM_AREAS 12 /* sizes that a ring may have */
static_assert(SR_SHM_AREAS + 2 <= SR_GENS, "none is overwritten in use");
#define SR_SHM_SLOTS 16 /* indexed by enum sr_msg_type */
#define SR_SHM_RING_MAX (1u << 30)

/* line.c: the line's identity. */
#define SR_SHM_BOOT_LEN 36	/* a UUID as text */
#define SR_SHM_ID_LEN (SR_SHM_BOOT_LEN + 4)

/* Why an end has given the link up (`dropped' in its page). */
enum {
	SR_SHM_DROPPED = 1,	/* it dropped the link */
	SR_SHM_LEAVES,		/* its process ends */
	SR_SHM_RESENT,		/* its process ends, and TCP has all that it sent */
	SR_SHM_FOLLOWED,	/* the other end leaves (one of the last two), and this end
				 * goes on reading that end's bytes in the ring */
};

struct sr_shm_slot {
	_Atomic uint32_t len;
	uint8_t msg[SR_MSG_MAX];
};

/* An end's page.  The other end polls only its first cache line. */
struct sr_shm_page {
	_Atomic uint64_t tx_w;		      /* bytes put into this end's ring */
	_Atomic uint64_t rx_taken;	      /* credit: bytes its program took */
	_Atomic uint32_t ctl;		      /* 1 << type: slot is filled */
	_Atomic uint32_t dropped;	      /* this end gave the link up: SR_SHM_ */
	_Atomic uint32_t gens;		      /* generations announced so far */
	_Atomic uint32_t unmarked;	      /* gave a switch up: no mark will come */
	_Atomic uint64_t tx_kept; /* tx_w and bytes held back (MSG_MORE) */
	/* 0: its program takes bytes; else it takes no more, and this is 1 + the offset up to
	 * which they had come then. */
	_Atomic uint64_t over;
	_Alignas(64) _Atomic uint32_t asleep; /* see arm() */
	_Atomic uint32_t core; /* 1 + where its thread was seen; 0: nowhere yet */
	_Alignas(64) struct sr_gen gen[SR_GENS];
	struct sr_shm_slot slot[SR_SHM_SLOTS];
};
static_assert(sizeof(struct sr_shm_page) <= 4096, "one page");

/* Where the parts of the memfd are; both ends compute the same. */
struct sr_shm_plan {
	unsigned areas;
	size_t size[SR_SHM_AREAS]; /* bytes, powers of two, ascending */
	size_t page, ring, total;  /* bytes: one end's page, one ring, everything */
};

/* One direction's ring as one end knows it; the peer cannot change this copy. */
struct sr_shm_ring {
	struct sr_gens gens;
	struct sr_ring area[SR_SHM_AREAS];
};

struct sr_shm {
	struct sr_link link; /* first: sr_link_new() */
	struct sr_shm_plan plan;
	uint8_t *map;
	struct sr_shm_page *own, *peer;
	uint64_t tx_shown;    /* tx: the value of own->tx_w */
	int doorbell;	      /* our end of the socket pair that wakes sleepers, or line.fd */
	bool bell_streams;    /* it is a stream of bytes, and not of packets */
	struct sr_watch line; /* the rendezvous connection: wakes the service thread */
	bool stranger;	      /* the peer is not trusted: it may send descriptors (local.h) */
	/* Messages go by the line, because the ends have no memory in common yet (line.c). */
	atomic_bool by_line;
	int memory;	      /* answerer: the memfd that its PROOF will bring; else -1 */
	uint8_t id[SR_SHM_ID_LEN]; /* of the line */

	_Atomic size_t taken_memory;

	/* tx */
	struct sr_shm_ring tx;
	size_t tx_most;	   /* our limit on the ring's size; the plan follows the asker's */
	atomic_bool dirty; /* bytes were put into the ring since it was emptied */
	struct sr_timer sweep;
	uint64_t swept_w; /* loop: tx_w at the last sweep */
	/* How far sr_shm_tx_rest() lets tx_w go; 0: tx_room() has found room since. */
	uint64_t rest_end;

	/* rx */
	struct sr_shm_ring rx;
	struct sr_credit_rx credit; /* returned: own->rx_taken, except after a drop */
	uint64_t rx_seen; /* the peer's tx_w at the last rx_look() */
	/* protects rx_h, tx_acked, ctl_seen, rx.gens */
	struct sr_mutex look_lock;
	_Atomic uint32_t ctl_seen;

	struct sr_mutex ctl_lock; /* protects own->ctl, own->slot */
	struct sr_mutex arm_lock;
	unsigned armed_rx, armed_tx; /* threads between arm() and awake() */
	unsigned armed_once; /* SR_NOTIFY_ bits armed by arm_once() */
};

static inline struct sr_shm *sr_shm_of(struct sr_link *link)
{
	return (struct sr_shm *)link;
}

/* shm.c */
/* NULL: no memory is left, for the link or by the limit for the first rings. */
struct sr_shm *sr_shm_new(enum sr_role role, uint32_t link_no, void *owner,
			  void (*notify)(struct sr_link *, unsigned),
			  const struct sr_policy *policy,
			  const struct sr_shm_plan *plan);
int sr_shm_start(struct sr_shm *l, int line); /* takes over line; then it is UP */
void sr_shm_look(struct sr_link *link);
void sr_shm_drop(struct sr_link *link, const char *reason);

/* memory.c */
/* A sealed memfd of that size; -1 and errno. */
int sr_shm_memory(size_t size);
/* -1: memory of this process's own, in the place of the memfd's to come.  Other threads may
 * drop the link, so its pointers do not change when that comes. */
int sr_shm_map(struct sr_shm *l, int memfd);
/* Checks and maps the peer's memfd, if *fd is one: then it is closed, and *fd is -1.  Returns
 * NULL, or a reason. */
const char *sr_shm_take_memory(struct sr_shm *l, int *fd);

/* line.c: an answerer has its memory by now, and keeps the memfd in `memory' */
/* The peer will have to prove itself by this line.  Returns NULL, or a reason. */
const char *sr_shm_by_line(struct sr_shm *l, int line);
size_t sr_shm_identity(struct sr_link *link, uint8_t id[SR_ID_MAX]);
int sr_shm_line_say(struct sr_shm *l, const struct sr_msg *msg); /* 0 or -EPIPE; ctl_lock */
void sr_shm_line_heard(struct sr_watch *w, uint32_t events);

/* wake.c */
/* Wakes the peer's threads that sleep until there is what `bit` stands for.  Its first load is the second half
 * of a store-load pair (base/order.h); the caller has done the first half. */
void sr_shm_ring(struct sr_shm *l, unsigned bit);
void sr_shm_ring_all(struct sr_shm *l); /* sleepers and the service thread */
/* The other end of the line or doorbell is closed. */
void sr_shm_line_lost(struct sr_shm *l);
void sr_shm_line_readable(struct sr_watch *w, uint32_t events);
int sr_shm_arm(struct sr_link *link, unsigned want);
int sr_shm_arm_once(struct sr_link *link, unsigned want);
_Atomic uint32_t *sr_shm_futex(struct sr_link *link, unsigned want);
void sr_shm_awake(struct sr_link *link, unsigned want, bool watched, bool slept);
bool sr_shm_same_core(struct sr_link *link);

/* ring.c */
int sr_shm_plan(struct sr_shm_plan *plan, size_t first, size_t max);
void sr_shm_ring_init(struct sr_shm_ring *r, const struct sr_shm_plan *plan,
		      uint8_t *mem);
size_t sr_shm_tx_room(struct sr_link *link, struct iovec v[2]);
size_t sr_shm_tx_rest(struct sr_link *link, struct iovec v[2]);
ssize_t sr_shm_rx_look(struct sr_link *link, struct sr_piece *piece);
void sr_shm_rx_free(struct sr_link *link, size_t n);
const char *sr_shm_absorb(struct sr_shm *l, bool last, bool *grew); /* look_lock */
const char *sr_shm_credit(struct sr_shm *l, bool *grew); /* look_lock */
void sr_shm_dirty(struct sr_shm *l); /* bytes are put into the ring: tx */
void sr_shm_sweep(struct sr_link *link); /* loop, tx */

/* ask.c: the rendezvous; the answering side is in rendezvous.c */
#define SR_SHM_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define SR_SHM_FDS SR_LOCAL_FDS /* in the answer: the memfd, an end of the doorbell if there is one */
bool sr_shm_absent(const struct sockaddr *to);
int sr_shm_ask(struct sr_ask *ask);
void sr_shm_cancel(struct sr_ask *ask);
extern unsigned sr_shm_asking; /* requests that wait for an answer */

#endif
