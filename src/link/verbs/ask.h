/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ask.h - an ask of this end for a link, as ask.c and reuse.c have it.  In src/ only these two
 * include this file.  All in the loop.
 */
#ifndef SR_VERBS_ASK_H
#define SR_VERBS_ASK_H

#include "link/verbs/verbs.h"

struct sr_vask {
	struct sr_vcm cm;
	struct sr_ask *ask;
	struct sr_vask *next, **pprev;
	struct rdma_cm_id *id;		/* NULL: the next look asks again */
	struct sr_vdev *dev;
	struct sr_vlink *link;		/* once the route is resolved, or OPEN is due */
	bool opened;			/* the link is one more on a carrier that there was */
	bool waits;			/* for another ask, or for a number */
	unsigned waited;		/* looks */
	bool lacks;			/* there was too little for one more carrier */
	bool connecting;		/* the request is sent */
	struct sr_timer timer;
	unsigned looks, asked_at;	/* the look of the last request */
	unsigned flushed;		/* looks that found the link dead */
	bool repeated;			/* a request that seemed to be lost */
	enum sr_holds holds;
	bool iwarp;			/* the port is for iWARP; first a guess */
	bool moved;			/* it asks at a low port's other place */
	unsigned retries;
	uint16_t there[2];		/* InfiniBand, iWARP; 0: by the address */
};

extern struct sr_vask *sr_vasks;

/* ---- ask.c ---- */
uint16_t sr_vask_port(struct sr_vask *a); /* the CM's, of the answerer */
struct sr_question sr_vask_question(struct sr_vask *a);
struct sr_vlink_for sr_vask_link_for(struct sr_vask *a);
/* May its carrier be that of other streams, too? */
static inline bool sr_vask_shares(const struct sr_vask *a)
{
	return a->ask->policy->carriers && !a->ask->alone;
}
/* A first answer has come. */
void sr_vask_first(struct sr_vask *a, enum sr_first first);
/* Asks again at once.  NULL, or the reason why it cannot. */
const char *sr_vask_at_once(struct sr_vask *a);
void sr_vask_free(struct sr_vask *a);
/* Frees the ask, and tells the upgrade room the reason. */
void sr_vask_fail(struct sr_vask *a, const char *reason);

/* ---- reuse.c ---- */
/* Opens a link on a carrier, or waits for one.  False: neither. */
bool sr_vreuse_or_wait(struct sr_vask *a);
/* There is too little, here or at the peer, for one more carrier to the ask's place.  Returns whether
 * there is one that it may share: then it is to ask again, and so do others that wait. */
bool sr_vreuse_lacks(struct sr_vask *a);
/* The link that a has opened on a carrier is not wanted any more: its last record goes, if it has a
 * number. */
void sr_vreuse_leave(struct sr_vask *a);
/* That ask has brought no carrier.  Those that have waited for it go themselves. */
void sr_vreuse_wake(struct sr_vask *a);

#endif
