/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * verbs.h - the parts of the verbs link to each other.  Nobody else includes
 * this.
 *
 *   verbs_lib.c   librdmacm and libibverbs, loaded when there is a device
 *   verbs_dev.c   a device: protection domain, channel, CQs, its end
 *   verbs_cq.c    polling, sleeping, who watches the channel (the lead)
 *   verbs_cm.c    rendezvous
 *   verbs_ask.c   its asking side
 *   verbs_qp.c    a link's making and end, its memory, the timer's work
 *   verbs_tx.c    posting: data, messages, credit.  Only this file posts sends
 *   verbs_rx.c    what arrives: completions, messages, the receive ring
 *   verbs_grow.c  rings that grow and shrink
 *
 * Locks, in the order they may be taken: a device's `chan_lock`; a CQ's `lock`
 * (dispatch: everything that arrives is handled under it, which keeps the order); a
 * link's `post` (the send queue); a device's `lead`.  notify() is called with none held.
 */
#ifndef SR_VERBS_H
#define SR_VERBS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

#include "base/lock.h"
#include "base/loop.h"
#include "link/link.h"
#include "link/rendezvous.h"

/* ---- the libraries ---- */

/* All the functions we call that are not inline in the headers. */
#define SR_VERBS_CALLS(X)                                                      \
	X(cm, create_event_channel, struct rdma_event_channel *, (void))       \
	X(cm, create_id, int,                                                  \
	  (struct rdma_event_channel *, struct rdma_cm_id **, void *,          \
	   enum rdma_port_space))                                              \
	X(cm, destroy_id, int, (struct rdma_cm_id *))                          \
	X(cm, bind_addr, int, (struct rdma_cm_id *, struct sockaddr *))        \
	X(cm, resolve_addr, int,                                               \
	  (struct rdma_cm_id *, struct sockaddr *, struct sockaddr *, int))    \
	X(cm, resolve_route, int, (struct rdma_cm_id *, int))                  \
	X(cm, create_qp, int,                                                  \
	  (struct rdma_cm_id *, struct ibv_pd *, struct ibv_qp_init_attr *))   \
	X(cm, destroy_qp, void, (struct rdma_cm_id *))                         \
	X(cm, connect, int, (struct rdma_cm_id *, struct rdma_conn_param *))   \
	X(cm, listen, int, (struct rdma_cm_id *, int))                         \
	X(cm, accept, int, (struct rdma_cm_id *, struct rdma_conn_param *))    \
	X(cm, reject, int, (struct rdma_cm_id *, const void *, uint8_t))       \
	X(cm, notify, int, (struct rdma_cm_id *, enum ibv_event_type))         \
	X(cm, disconnect, int, (struct rdma_cm_id *))                          \
	X(cm, get_cm_event, int,                                               \
	  (struct rdma_event_channel *, struct rdma_cm_event **))              \
	X(cm, ack_cm_event, int, (struct rdma_cm_event *))                     \
	X(cm, set_option, int, (struct rdma_cm_id *, int, int, void *, size_t)) \
	X(v, get_device_name, const char *, (struct ibv_device *))           \
	X(v, query_device, int,                                              \
	  (struct ibv_context *, struct ibv_device_attr *))                    \
	X(v, alloc_pd, struct ibv_pd *, (struct ibv_context *))              \
	X(v, dealloc_pd, int, (struct ibv_pd *))                             \
	X(v, reg_mr, struct ibv_mr *,                                        \
	  (struct ibv_pd *, void *, size_t, int))                              \
	X(v, dereg_mr, int, (struct ibv_mr *))                               \
	X(v, create_comp_channel, struct ibv_comp_channel *,                 \
	  (struct ibv_context *))                                              \
	X(v, destroy_comp_channel, int, (struct ibv_comp_channel *))         \
	X(v, create_cq, struct ibv_cq *,                                     \
	  (struct ibv_context *, int, void *, struct ibv_comp_channel *, int)) \
	X(v, destroy_cq, int, (struct ibv_cq *))                             \
	X(v, get_cq_event, int,                                              \
	  (struct ibv_comp_channel *, struct ibv_cq **, void **))              \
	X(v, ack_cq_events, void, (struct ibv_cq *, unsigned))               \
	X(v, get_async_event, int,                                           \
	  (struct ibv_context *, struct ibv_async_event *))                    \
	X(v, ack_async_event, void, (struct ibv_async_event *))              \
	X(v, query_qp, int,                                                  \
	  (struct ibv_qp *, struct ibv_qp_attr *, int,                         \
	   struct ibv_qp_init_attr *))                                         \
	X(v, modify_qp, int, (struct ibv_qp *, struct ibv_qp_attr *, int))

#define SR_VERBS_FIELD(lib, name, ret, params) ret (*lib##_##name) params;
struct sr_verbs_lib {
	SR_VERBS_CALLS(SR_VERBS_FIELD)
};
#undef SR_VERBS_FIELD
extern struct sr_verbs_lib sr_vlib;

/* Which kinds of device are there?  Looks at sysfs only. */
enum { SR_VDEV_IB = 1, SR_VDEV_IWARP = 2 };
unsigned sr_verbs_devices(void);
/* Loads the libraries.  NULL, or a reason word.  loop. */
const char *sr_verbs_load(void);
void sr_verbs_unload(void);	/* in the child of fork */

/* ---- sizes ---- */

enum {
	SR_V_RQ = 64,		/* receives posted: messages in flight to us */
	SR_V_SQ = 64,		/* send queue */
	SR_V_CQ = 4096,		/* entries of a CQ; serves 4096/128 links */
	SR_V_SLOTS_MIN = 16,	/* of the peer; also before its hello */
	SR_V_PEND = 16,		/* messages waiting for their turn */
	/* Shares of the peer's receives: see the argument in verbs_tx.c. */
	SR_V_KEEP_ACK = 2,	/* for ACKs that return slots */
	SR_V_KEEP_BYTES = 2,	/* for other ACKs */
	SR_V_KEEP_CTL = 10,	/* seven once, PROBE, RING, RING_USE */
	SR_V_INLINE = SR_MSG_MAX,
};

/* ---- devices and completion queues ---- */

struct sr_vlink;

struct sr_vcq {
	struct sr_vdev *dev;
	struct sr_vcq *next;	/* loop writes; others read dev->cqs */
	struct sr_mutex lock;	/* dispatch */
	atomic_bool again;	/* another thread wanted to poll meanwhile */
	struct ibv_cq *cq;	/* NULL: destroyed */
	int armed;		/* verbs_cq.c; chan_lock */
	unsigned cap, used;	/* entries; loop */
	unsigned n_slots;
	/* Work request ids name a slot and its generation, not a link: what
	 * is left in the CQ of a destroyed QP finds nobody.  Under lock. */
	struct sr_vslot {
		struct sr_vlink *link;
		uint32_t gen;
	} *slots;
};

enum sr_vrest {
	SR_V_AWAKE,		/* it watches the channel, or looks in a few ms */
	SR_V_DOZES,		/* it looks in some time */
	SR_V_SLEEPS,		/* it relies on a leader */
};

struct sr_vdev {
	struct sr_vdev *next;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *chan;
	struct sr_watch chan_watch, async_watch;
	atomic_int refs;		/* of the memory: itself, links */
	_Atomic(struct sr_vcq *) cqs;
	struct sr_vlink *links;		/* loop */
	char name[64];
	bool iwarp;
	atomic_bool gone;		/* being taken down */
	struct rdma_cm_id *sentinel;	/* is told of the device's removal */

	/* The lead, verbs_cq.c. */
	struct sr_mutex chan_lock;	/* chan (NULL: destroyed), arming */
	struct sr_mutex lead;
	const void *leader;		/* a program thread, or NULL */
	unsigned depth;			/* how often it has armed */
	unsigned waiters;		/* armed by others */
	unsigned changes, changes_seen;
	atomic_bool watched;		/* the service loop watches chan */
	atomic_int rest;		/* the service loop's, enum sr_vrest */
	atomic_bool held;		/* bytes were held back since last look */
	atomic_int shaking;		/* links whose directions are yet to switch */
	atomic_uint cqes;
	unsigned cqes_seen;
};

extern struct sr_vdev *sr_vdevs;	/* loop */

/* The device of a resolved id, made at its first use.  NULL: *reason says why.
 * loop. */
struct sr_vdev *sr_vdev_get(struct rdma_cm_id *id, const char **reason);
/* Has just been opened, perhaps: its descriptors go up. */
void sr_vdev_hide(struct ibv_context *ctx);
void sr_vdev_forget(void);
void sr_vdev_unref(struct sr_vdev *dev);	/* the memory */
/* Everything that uses it must go, now. */
void sr_vdev_remove(struct ibv_context *ctx);
/* A CQ with n free entries and a slot for link, or NULL.  loop. */
struct sr_vcq *sr_vcq_get(struct sr_vdev *dev, struct sr_vlink *link,
			  unsigned n, uint32_t *key);
void sr_vcq_put(struct sr_vcq *cq, uint32_t key, unsigned n);

int sr_vcq_poll(struct sr_vcq *cq, bool wait);	/* completions handled */
void sr_vlead_kick(void);	/* any: the service loop looks */
void sr_vcq_lead_start(void);		/* loop, once */
void sr_vlead_init(struct sr_vdev *dev);
void sr_vlead_stop(struct sr_vdev *dev);	/* loop: device is going */
int sr_verbs_arm(struct sr_link *link, unsigned want);
void sr_verbs_awake(struct sr_link *link, unsigned want, bool slept);
int sr_verbs_stand(struct sr_link *link, unsigned want);
void sr_vlead_sit(struct sr_vlink *l, unsigned what);	/* it is told */
void sr_verbs_poll(struct sr_link *link);

/* ---- links ---- */

struct sr_vring {
	uint8_t *buf;
	size_t size;		/* a power of two */
	struct ibv_mr *mr;
};

/* Whose an id's events are: id->context. */
struct sr_vcm {
	enum {
		SR_CM_ASK,
		SR_CM_REQUEST,
		SR_CM_LINK,
		SR_CM_LISTEN,
		SR_CM_SENTINEL,
	} what;
};

struct sr_vlink {
	struct sr_link link;
	struct sr_vcm cm;
	struct rdma_cm_id *id;		/* loop; NULL once closed */
	struct ibv_qp *qp;		/* post, or the CQ's lock */
	struct sr_vdev *dev;
	struct sr_vcq *cq;
	struct sr_vlink *next, **pprev;	/* dev->links; loop */
	uint32_t key;			/* slot and generation, in wr_id */
	bool iwarp;
	char device[64];
	uint32_t max_inline;
	atomic_uint standing;		/* SR_NOTIFY_ bits; changed under lead */
	atomic_bool shaking;		/* counted in dev->shaking */
	atomic_bool dropping;
	atomic_bool closed;		/* QP and memory regions are gone */
	_Atomic(const char *) broken;	/* to be failed, for this reason */
	struct sr_task break_task;
	struct sr_task end_task;	/* disconnect, close */
	struct sr_timer end_timer;
	unsigned end_tries;

	/* SR_V_RQ receive buffers, then SR_V_SQ send buffers */
	uint8_t *ctl;
	struct ibv_mr *ctl_mr;

	/* Sending: under post. */
	struct sr_mutex post;
	struct sr_vring tx, tx_old;	/* tx_old: WRs may still read it */
	uint64_t tx_old_until;		/* its last byte in flight */
	struct sr_vring tx_next;	/* registered, to be used next */
	bool tx_swap;			/* tx_next or a new peer ring waits */
	bool use_queued;		/* RING_USE for peer_next */
	struct sr_ring_ref peer, peer_next;
	uint64_t window;		/* most bytes un-acked */
	uint64_t sent, done;		/* posted; completed */
	uint64_t sq_off[SR_V_SQ];	/* `sent` after each WR */
	uint32_t sq_posted, sq_done, sq_signaled;
	unsigned unsignaled;
	uint32_t msgs_sent;
	uint32_t msgs_back;		/* of these, received by the peer */
	uint32_t peer_slots;
	bool more;			/* the caller said more follows */
	bool ack_due;			/* PROBE, or the timer */
	bool probe_due, probe_out;
	_Atomic uint64_t ack_said;	/* rx_taken as we last said */
	_Atomic size_t rx_window;	/* the peer's: our ring, at first perhaps less */
	uint32_t slots_said;
	unsigned pend_head, pend_tail;
	struct sr_vpend {
		uint64_t at;		/* after the bytes below this */
		struct sr_msg msg;
	} pend[SR_V_PEND];

	/* Receiving.  rx[gen & 1] is in use; bytes below rx_from[gen & 1] are
	 * in the other one.  That is written before rx_gen, and again not
	 * before the reader has come past it. */
	struct sr_vring rx[2];
	_Atomic uint32_t rx_gen;
	uint64_t rx_from[2];
	_Atomic uint32_t rx_msgs;	/* messages received; the CQ's lock */
	unsigned repost_n;		/* the CQ's lock */
	uint32_t repost[SR_V_RQ];
	unsigned mark;			/* place in sr_vcq_poll's list */

	/* Growth, verbs_grow.c. */
	_Atomic size_t grow;		/* rx: the loop shall offer such a ring */
	_Atomic uint32_t retire;	/* rx: the ring before this is empty */
	uint32_t retired;		/* loop: and freed */
	atomic_bool offered;		/* rx: RING sent, no RING_USE yet */
	uint64_t turn_at;		/* rx: next turn-over, and the last's */
	uint64_t turn_ns;		/* time */
	unsigned turns;

	/* The timer's memory: loop. */
	uint64_t scan_taken, scan_acked, scan_h, scan_w;
	unsigned probe_ticks, probe_wait, idle_ticks;
};

static inline size_t least_of(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline struct sr_vlink *sr_vlink(struct sr_link *link)
{
	return (struct sr_vlink *)link;
}

/* An asker's notify() changes when the ask is over; others may be calling it. */
static inline void sr_vlink_notify(struct sr_vlink *l, unsigned what)
{
	__atomic_load_n(&l->link.notify, __ATOMIC_ACQUIRE)(&l->link, what);
}

/* A link on a resolved or requested id (which becomes its own; not on
 * failure), with its QP and receives posted.  loop. */
struct sr_vlink *sr_vlink_make(struct rdma_cm_id *id, struct sr_vdev *dev,
			       enum sr_role role, uint32_t link_no, void *owner,
			       void (*notify)(struct sr_link *, unsigned),
			       const char **reason);
void sr_vlink_close(struct sr_vlink *l);	/* loop, idempotent */
void sr_vlink_fail(struct sr_vlink *l, const char *reason);	/* any */
void sr_vlink_break(struct sr_vlink *l, const char *reason); /* locks held */
void sr_vlink_up(struct sr_vlink *l);	/* loop or dispatch */
void sr_vlink_settled(struct sr_vlink *l);	/* any: its handshake is over */
bool sr_vlink_tryget(struct sr_vlink *l);
const char *sr_vring_make(struct sr_vdev *dev, struct sr_vring *r, size_t size,
			  int access);
void sr_vring_unreg(struct sr_vring *r);	/* memory stays */
void sr_vring_free(struct sr_vring *r);

/* verbs_tx.c */
int sr_verbs_ctl(struct sr_link *link, struct sr_msg *msg);
int sr_vtx_queue(struct sr_vlink *l, const struct sr_msg *msg); /* post held */
void sr_vtx_pump(struct sr_vlink *l);	/* post held */
void sr_vtx_kick(struct sr_vlink *l);	/* takes post, pumps */
void sr_vtx_last_ack(struct sr_vlink *l); /* takes post: before it is given up */
/* post held; what was completed, what the peer says.  Notify bits. */
unsigned sr_vtx_completed(struct sr_vlink *l, uint16_t seq);
int sr_vtx_credit(struct sr_vlink *l, uint64_t ack, bool exact, uint32_t slots,
		  unsigned *what);
bool sr_vtx_idle(struct sr_vlink *l);	/* nothing held back; post held */
size_t sr_verbs_tx_room(struct sr_link *link, struct iovec v[2]);
void sr_verbs_tx_commit(struct sr_link *link, size_t n, bool more);
size_t sr_verbs_tx_retained(struct sr_link *link, uint64_t from,
			    struct iovec v[2]);
uint64_t sr_verbs_tx_arrived(struct sr_link *link);
size_t sr_vring_pieces(const struct sr_vring *r, uint64_t at, size_t n,
		       struct iovec v[2]);

/* verbs_rx.c */
unsigned sr_vrx_completion(struct sr_vlink *l, const struct ibv_wc *wc);
int sr_vrx_repost(struct sr_vlink *l);
ssize_t sr_verbs_rx_look(struct sr_link *link, struct sr_piece *piece);
size_t sr_verbs_rx_data(struct sr_link *link, size_t skip, struct iovec v[2]);
void sr_verbs_rx_free(struct sr_link *link, size_t n);

/* verbs_grow.c */
void sr_verbs_work(struct sr_link *link);
bool sr_vgrow_swap(struct sr_vlink *l);	/* tx, post held */
void sr_verbs_tx_work(struct sr_link *link);
void sr_vgrow_turn(struct sr_vlink *l, uint64_t taken);	/* rx */
void sr_vgrow_full(struct sr_vlink *l, uint64_t unread, unsigned *what);
int sr_vgrow_offered(struct sr_vlink *l, const struct sr_ring_ref *ring);
int sr_vgrow_use(struct sr_vlink *l, uint64_t offset, uint32_t gen,
		 unsigned *what);
bool sr_vgrow_tx_widens(struct sr_link *link);
void sr_vgrow_idle(struct sr_vlink *l);	/* loop */
bool sr_vgrow_may_shrink(struct sr_vlink *l);	/* loop */

/* verbs_qp.c: the timer looks after links while something is unfinished */
void sr_vscan_start(void);	/* any, cheap if running */
void sr_vscan_forget(void);

/* Lists of what waits in the loop. */
#define SR_VLIST_ADD(head, x)                                                  \
	do {                                                                   \
		(x)->next = (head);                                            \
		(x)->pprev = &(head);                                          \
		if ((x)->next)                                                 \
			(x)->next->pprev = &(x)->next;                         \
		(head) = (x);                                                  \
	} while (0)
#define SR_VLIST_DROP(x)                                                       \
	do {                                                                   \
		*(x)->pprev = (x)->next;                                       \
		if ((x)->next)                                                 \
			(x)->next->pprev = (x)->pprev;                         \
	} while (0)

/* verbs_cm.c */
enum { SR_V_REASON_LEN = 32 };

/* What an event says, taken out of it before it is acknowledged. */
struct sr_vcm_event {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	uint8_t data[SR_NAME_LEN + SR_V_REASON_LEN];
	size_t len;
};

const char *sr_vcm_open(void);	/* the channel; NULL or why not */
struct rdma_cm_id *sr_vcm_id(struct sr_vcm *cm);	/* NULL and errno */
void sr_vcm_addr(struct sockaddr_storage *to, const struct sockaddr *from,
		 uint16_t port);
uint16_t sr_vcm_iwarp_port(uint16_t port);
void sr_vcm_param(struct rdma_conn_param *p);
void sr_vcm_ack_timeout(struct rdma_cm_id *id);
int sr_verbs_listen(const struct sockaddr *addr, char *there, void **out);
void sr_verbs_unlisten(void *listener);
struct sr_link *sr_verbs_accept(struct sr_request *req, void *owner,
				void (*notify)(struct sr_link *, unsigned),
				const char **reason);
void sr_verbs_refuse(struct sr_request *req, const char *reason);
struct rdma_cm_id *sr_vcm_sentinel(struct rdma_cm_id *like);
void sr_vcm_removed(struct ibv_context *ctx);	/* asks and listeners */

/* verbs_ask.c */
int sr_verbs_ask(struct sr_ask *ask);
void sr_verbs_cancel(struct sr_ask *ask);
void sr_vask_event(struct sr_vcm *cm, const struct sr_vcm_event *e);
void sr_vask_removed(struct ibv_context *ctx);
void sr_vask_forget(void);

/* In the child of fork: nothing of all this is ours any more. */
void sr_verbs_forget(void);

#endif
