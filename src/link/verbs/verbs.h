/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * verbs.h - the parts of the verbs link to each other.  Nobody else includes
 * this.
 *
 *   lib.c   librdmacm and libibverbs, loaded when there is a device
 *   dev.c   a device, its end
 *   cm.c    rendezvous: answering, and the CM's events
 *   listen.c  rendezvous: listening
 *   ask.c   rendezvous: asking by the connection manager
 *   reuse.c rendezvous: asking on a carrier that there is, and waiting for one
 *   carrier.c  lives of carriers and links, and what links hear
 *   share.c  several links on a carrier: their numbers, and records that open and end them
 *   make.c  making what the device has of a carrier, and destroying it
 *   vlink.c  a link as the engine sees it
 *   mem.c   pinned memory
 *   cq.c    completions, and sleeping until some come
 *   tick.c  the timer of a carrier, and its end
 *   post.c  packets that go out.  Only this file posts sends
 *   tx.c    what a link has for them: data, messages, credit
 *   rx.c    what arrives: completions, messages, the receive ring
 *   grow.c  rings that grow and shrink
 *
 * A carrier is a queue pair and what belongs to it; a link is a stream's two rings.  The first link
 * of a carrier has the number SR_V_NUMBER.  The carrier's one lock guards the queues and the
 * rings: completions are handled under it, which keeps their order, and requests are posted
 * under it.  notify() is called without it.  "locked" below: the caller holds it.
 */
#ifndef SR_VERBS_H
#define SR_VERBS_H

#include <pthread.h>

#include "base/jobs.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/loop.h"
#include "link/link.h"
#include "link/rendezvous.h"
#include "link/verbs/lib.h"
#include "pure/credit.h"
#include "pure/number.h"
#include "pure/packet.h"
#include "pure/ring.h"

enum {
	SR_V_RQ = SR_PACKETS_FIRST, /* receive buffers, all posted */
	SR_V_SENDS = 4,		/* buffers for packets that are not complete */
	SR_V_SQ = 16,		/* send queue: each packet has a write at most in front of it */
	/*
	 * Sizes of the queues on iWARP, which are larger than needed, for two reasons.  siw
	 * completes a request before its place is free again.  And libsiw takes the offset 0x90000
	 * (page 144), at which the kernel may let it map a queue, for a failure
	 * (SIW_INVAL_UOBJ_KEY).  Every later queue would fail, too, because the kernel gives out
	 * the first offset that is free.  So no queue may begin at page 144: a carrier's two CQs,
	 * its send queue and its receive queue are made in this order, and take 1, 1, 1 and 2 pages
	 * of 4 kB, so that page 144 is always the second one of a receive queue (in a process that
	 * has no queues of siw but these).
	 */
	SR_V_IWARP_SQ = 32,	/* of 120 bytes */
	SR_V_IWARP_RQ = 64,	/* of 112 bytes */
	SR_V_PEND = 16,		/* messages waiting for their turn */
	SR_V_ORDINARY = 64 << 10, /* larger rings are registered */
	SR_V_NUMBER = 1,	/* of a carrier's first link, in records */
	SR_V_LINKS = 1024,	/* most of a carrier that is shared */
	SR_V_OPENS = SR_UNPROVEN_LATER, /* OPENs that wait: each is unproven */
	SR_V_OPEN_LOOKS = 3,	/* whole looks after an OPEN: 100 to 150 ms */
	SR_V_NEWS = 1 << 7,	/* with SR_NOTIFY_ bits: the asker has an answer (reuse.c) */
	SR_V_DIRECT = 2,	/* threads that poll the channel; more are dispatched */
	SR_V_RINGS = 4,		/* of a link, at most */
	SR_V_RECEIVE = 1u << 31, /* in a wr_id; else it is a send's number */
};

/* ---- devices ---- */

struct sr_vdev {
	struct sr_vdev *next;
	struct ibv_context *ctx;
	struct sr_watch async_watch;
	int spent;		/* an eventfd in the place of closed descriptors */
	struct sr_vcarrier *carriers;
	const char *name;
	bool iwarp;
	int node;		/* its NUMA node, if there are others; else -1 */
	unsigned jobs;		/* that make or destroy something of it */
	unsigned unmaking;	/* carriers that give back what they have: of these jobs */
	bool gone;		/* and is given up when these are done */
	/* The thread of jobs': */
	unsigned vector;	/* the next carrier's, modulo their number */
	bool weighed;		/* queue_bytes has been measured, at the first carrier */
	size_t queue_bytes;	/* that the kernel pins for the queues of a carrier */
};

/* ---- carriers ---- */

struct sr_vcarrier;
struct sr_vlink;

/* Either registered, or ordinary memory, which is there only while the ring is used: its bytes
 * travel in records. */
struct sr_vring {
	uint8_t *buf;		/* NULL: there is no memory yet */
	size_t size;		/* a power of two; 0: there is no such ring */
	struct ibv_mr *mr;	/* NULL: ordinary */
};

/* Handles the events of a CM id, whose context points to it.  A listening id gets only requests. */
struct sr_vcm_event;
struct sr_vcm {
	void (*event)(struct sr_vcm *cm, const struct sr_vcm_event *e);
};

/* Completions, cq.c.  locked */
struct sr_vcq {
	struct sr_vcq_half {
		struct ibv_cq *cq;
		/* Fired: it was armed, and its event may be in the channel. */
		enum { SR_CQ_UNARMED, SR_CQ_ARMED, SR_CQ_FIRED } state;
	} in, out;		/* of receives; of our own requests */
	struct ibv_comp_channel *chan; /* of both */
	int fd;			/* the channel's; ours until the carrier is freed */
	unsigned late;		/* events that were not there when they were looked for */
	/* Those that have the fd: threads between arm() and awake(), with the number of links that
	 * each has armed; and, if the carrier is shared, epoll sets. */
	struct sr_vsleeper {
		pthread_t thread;	/* 0: it is none */
		unsigned arms;
		struct sr_watcher set;
	} direct[SR_V_DIRECT];
	unsigned dispatched;	/* links that threads without the fd have armed; each counts */
	unsigned armed_once;	/* links for which an epoll set waits */
	unsigned unwatched;	/* those of them whose set waits for notify() */
	bool watched;		/* the service thread watches the fd */
	atomic_uint used;	/* counts the program's looks, and its writes; changed locked */
	struct sr_watch watch;
};

enum { SR_V_OUT_WAITS = 1 };	/* something is due and was not posted */

/* Packets that go out, post.c.  locked */
struct sr_vout {
	struct {
		uint64_t packets;
		uint32_t buffers;
	} after[SR_V_SQ];	/* each request, by its number: `packets' and `buffers' */
	uint64_t packets;	/* posted; they are numbered from 1 on, and */
	uint64_t arrived;	/* those up to this one have completed */
	uint64_t write_packet;	/* the last one behind a WRITE */
	_Atomic uint64_t state;	/* twice `packets', and SR_V_OUT_WAITS; changed locked */
	bool holds;		/* records wait for others; under post.c's held_lock, too */
	pthread_t holder;	/* the thread that gave the last of them; held_lock */
	struct sr_vcarrier *held_next;	/* held_lock */
	bool full;		/* so was the last packet: there is more */
	bool hurries;		/* records do not wait for others (post.c, sr_vpost_gathers()) */
	uint32_t sq_posted, sq_done;
	/* sq_posted as it was just behind the last signalled request.  Requests that were posted
	 * later make no completion. */
	uint32_t sq_signalled;
	uint32_t buffers, buffers_done;	/* send buffers used; of these, free again */
	struct sr_packets credit;
	uint64_t path_packet;	/* the packet that tries the path, */
	uint64_t path_ns;	/* and when it was posted; 0: it was not */
	bool pad_due;		/* HELLO has gone: the next packet tries the path */
	bool probe_out;		/* a PROBE is not answered yet */
	/* The last link of a circular list, whose queue_next is the first.  Each had something to
	 * send (sr_vtx_waits()) when it was queued; some may have nothing left. */
	struct sr_vlink *queue;
	bool swaps;		/* one of these waits, perhaps, until it may exchange its send ring */
};

/* A packet that is being built, post.c. */
struct sr_vpacket {
	struct sr_packet_out out;
	bool quiet;		/* nobody need know that it has completed */
	bool full;		/* no more records are to be added */
};

/* Packets that come in, rx.c.  locked */
struct sr_vin {
	bool greeted;		/* the peer's PROCESS has come */
	unsigned repost_n;	/* receive buffers to be posted again */
};

/* The timer, and what it remembers of its last look (tick.c).  loop */
struct sr_vlook {
	uint64_t tick;		/* the number of the tick in which the last whole look was */
	unsigned used, soon_used, quiet_ticks;
	unsigned unseen;	/* looks that are to follow soon: packets came that nobody had taken */
	uint64_t out_state;	/* c->out.state, as the last tick found it */
	unsigned steady;	/* ticks at which the program had sent, since it left something */
	bool looked;		/* the program has, since the tick before the last */
	unsigned calm;		/* ticks in a row at which the program saw to the carrier itself */
	bool gathered;		/* records have waited since the last whole look.  locked */
	unsigned opens;		/* whole looks for which the channel is watched, as a link is being
				 * opened.  locked */
	uint32_t packets;
	atomic_uint on;		/* SR_LOOK: the timer is set, or about to be.  any */
	_Atomic(struct sr_vlink *) moved; /* the links that the next whole look sees.  any */
	struct sr_task task;
	struct sr_timer timer;
};

/* A carrier's job, make.c.  loop, and the job's own while it runs. */
struct sr_vmake {
	struct sr_job job;
	bool busy;			/* makes the carrier or, without c->id, destroys */
	const char *doomed;		/* to be closed when that is done, for this reason */
	const char *reason;		/* why it could not be made */
	void (*made)(struct sr_vcarrier *c, const char *reason);
	void *maker;
	/* To be destroyed: */
	bool disconnects;
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
};

/* A number, and the record that is due for it, unless a link sends the record itself.  locked */
struct sr_vnumber {
	struct sr_vlink *link;		/* that has it; NULL: none */
	struct sr_vrequest *request;	/* the same, while the answer is to come */
	uint8_t due;			/* WORD, REFUSE, THERE or DROP; 0: none */
	uint8_t word;			/* enum sr_first of WORD, enum sr_reason of REFUSE */
	bool queued;
	uint16_t next_due;		/* a number */
	uint16_t there[2];
};

/* An OPEN that the service thread has not looked at. */
struct sr_vopen {
	uint32_t number;
	struct sr_question question;
};

/* share.c.  locked */
struct sr_vshare {
	unsigned most;			/* links that this end takes; constant */
	struct sr_numbers numbers;
	struct sr_vnumber *number;	/* of each */
	uint16_t first_due;		/* of the numbers that are queued; 0: none is */
	bool wanted;			/* an asker waits for a number */
	struct sr_vopen *open;		/* SR_V_OPENS, if it is an answerer that takes more links */
	unsigned opens;
	struct sr_name name;		/* of the first stream; constant */
	uint8_t tclass;			/* the same */
	struct sr_task task;
	uint64_t idle_ns;		/* since when it is unused; 0: it is in use.  loop */
};

struct sr_vcarrier {
	atomic_int refs;		/* carrier.c */
	struct sr_task unreferenced;	/* the last one given back outside the loop */
	struct sr_vcm cm;
	struct rdma_cm_id *id;		/* loop; NULL once closed */
	struct sr_vdev *dev;		/* loop, until closed */
	uint16_t cm_port;		/* the asker's: of the answerer.  loop */
	const void *domain;		/* the asker's: of its links; at the limit, of some.  loop */
	uint64_t lacks_until_ns;	/* until then it is shared, as there is too little for more.  loop */
	struct ibv_pd *pd;		/* this carrier's alone (make.c); NULL once closed */
	struct sr_vcarrier *next, **pprev; /* loop */
	bool iwarp;
	char name[SR_REPORT_LINK];
	uint32_t max_inline;
	size_t queue_bytes;		/* pinned, beside the rings; job */
	struct sr_vmake make;

	struct sr_mutex lock;
	struct ibv_qp *qp;		/* NULL once closed; locked */
	const char *broken;		/* its links are to be failed, for this reason; locked */
	struct sr_vlink *links;		/* all.  locked */
	unsigned lingering;		/* those of them that nobody has any more; loop */
	struct sr_vhears *heard, **heard_end; /* links to be told; the end, if there are any.  locked */
	bool established;		/* the first link is accepted; locked */
	atomic_bool shared;		/* both ends take several links; set locked */
	struct sr_vshare share;
	struct sr_vring ctl;		/* SR_V_RQ receive, SR_V_SENDS send buffers */
	struct sr_vcq cq;
	struct sr_vout out;
	struct sr_vin in;
	struct sr_vlook look;
};

/* ---- links ---- */

/* Sending, tx.c.  locked */
struct sr_vtx {
	struct sr_vring ring;
	struct sr_vring spare;	/* to be used next, or, without swap, freed */
	bool idle;		/* the ring's memory is to go, if it is ordinary */
	bool swap;		/* a larger or smaller ring is to be used */
	struct sr_ring_ref peer, peer_next;
	uint64_t window;	/* most bytes un-acked */
	uint64_t sent, done;	/* posted; of these, known to have arrived */
	uint64_t last_packet;	/* the number of the last packet with bytes of the stream, */
	uint64_t last_write;	/* and of the last with an RDMA WRITE in front of it */
	unsigned burst;		/* small writes since all had arrived */
	bool more;		/* the caller said more follows */
	uint8_t opens;		/* OPEN or ACCEPT, which is due before all else; 0: neither */
	unsigned pend_head, pend_tail;
	struct sr_vpend {
		uint64_t at;	/* after the bytes below this */
		struct sr_msg msg;
	} pend[SR_V_PEND];
	enum { SR_V_OPEN, SR_V_DROP_DUE, SR_V_DROPPED } last; /* DROP, behind which nothing goes */
	bool ack_due;		/* the peer's PROBE, or the timer */
	_Atomic uint64_t ack_said; /* rx_taken as we last said */
};

/* Receiving, rx.c and grow.c.  Generation n is in ring[n & 1]. */
struct sr_vrx {
	struct sr_vring ring[2];
	struct sr_ring place[2];	/* the same, for gens */
	struct sr_gens gens;	/* the program reads by it, without the lock */
	_Atomic size_t window;	/* the peer's: our ring, at first perhaps less */
	_Atomic size_t grow;	/* the loop is to offer such a ring */
	bool offered;		/* RING sent, no RING_USE yet; locked */
	uint64_t turn_at, turn_ns; /* sr_vgrow_turn(): its next offset, its last time; rx */
};

/* How far the link had come when the timer last looked (tick.c).  loop */
struct sr_vseen {
	uint64_t taken, sum, moved_ns;
	unsigned owed_ticks;		/* whole looks, in which the peer owed its last record */
	struct sr_vlink *next;		/* that the present whole look sees */
	bool again;			/* the next one is to see the link, too */
};

struct sr_vlink {
	struct sr_link link;
	struct sr_vcarrier *c;
	struct sr_vlink *next, **pprev;	/* of the carrier; locked */
	uint32_t number;		/* in records */
	const struct sr_policy *policy;	/* sizes of rings */
	uint64_t end_ns;		/* dropped: time to close it at last; locked */
	const char *broken;		/* to be failed, for this reason; locked */
	unsigned heard;			/* SR_NOTIFY_ bits to be notified of; locked */
	struct sr_vhears {
		struct sr_vhears *next, **pprev; /* pprev: NULL if it is not in c->heard */
	} hears;			/* locked */
	unsigned armed_once;		/* SR_NOTIFY_ bits that an epoll set waits for; locked */
	/* An epoll set that the stream is in does not watch the channel's descriptor, and relies on
	 * notify(); locked. */
	bool unwatched;
	struct sr_vlink *queue_next;	/* in c->out.queue; NULL: it is not there; locked */
	bool over;			/* both last records have gone; locked */
	bool lingers;			/* nobody has the link any more; loop */
	struct sr_vring gone[SR_V_RINGS]; /* whose regions a job of the carrier takes away */
	struct sr_question question;	/* of OPEN */
	struct sr_vanswer {		/* to OPEN; locked */
		uint8_t type;		/* REFUSE, THERE or DROP; 0: none of these yet */
		enum sr_first word;	/* a first answer that the asker has not heard */
		enum sr_reason reason;
		uint16_t there[2];
	} answer;
	struct sr_vask *ask;		/* that waits for the answer; loop */
	struct sr_task news;
	struct sr_vtx tx;
	struct sr_vrx rx;
	struct sr_vseen seen;
	atomic_bool moved;		/* it is in c->look.moved */
	struct sr_vlink *moved_next;	/* there; of the thread that has set `moved', and then the loop's */
};

/* An asker's request that is not answered. */
struct sr_vrequest {
	struct sr_request req;
	struct sr_vcm cm;
	struct sr_vrequest *next, **pprev;
	struct rdma_cm_id *id;		/* of the CM's; NULL: it came by OPEN on */
	struct sr_vcarrier *c;		/* with a reference, for */
	uint32_t number;
	bool gone;			/* the asker needs no answer any more; locked */
};

static inline size_t least_of(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline struct sr_vlink *sr_vlink(struct sr_link *link)
{
	return (struct sr_vlink *)link;
}

#include "link/verbs/calls.h"

#endif
