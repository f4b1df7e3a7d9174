/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * calls.h - the functions that the files of the verbs link call in each other;
 * part of verbs.h.
 */
#ifndef SR_VERBS_CALLS_H
#define SR_VERBS_CALLS_H

/* ---- dev.c ---- */
extern struct sr_vdev *sr_vdevs;	/* loop */
/* The device of a resolved id, made at its first use.  NULL: *reason says why.
 * loop. */
struct sr_vdev *sr_vdev_get(struct rdma_cm_id *id, const char **reason);
/* Moves the device's descriptors, which librdmacm may just have opened, to private numbers. */
void sr_vdev_hide(struct ibv_context *ctx);
/* Ends everything that uses the device.  loop. */
void sr_vdev_remove(struct ibv_context *ctx);
/* busy: something that uses the device, a carrier's job say, begins.  idle: it has ended.  The last
 * one of a device that has been removed frees it.  loop. */
void sr_vdev_busy(struct sr_vdev *dev);
void sr_vdev_idle(struct sr_vdev *dev);
void sr_vdev_forget(void);
void sr_vdev_nonblock(int fd);
/* What the first packet of a carrier that takes so many links says of this process: a random
 * number, another one in a child of fork.  It shows that two queue pairs lead to one process, and
 * proves nothing.  any */
struct sr_process sr_vdev_process(unsigned links);
/* ---- make.c ---- */
struct sr_vlink_for {
	const struct sr_policy *policy;
	bool shares;		/* if a carrier is made for it, that takes other links, too */
	enum sr_role role;
	uint32_t link_no;
	void *owner;
	void (*notify)(struct sr_link *link, unsigned what);
};
struct sr_vlink *sr_vlink_new(const struct sr_vlink_for *f);	/* of no carrier yet; NULL: no memory */
/* Begins to make a link and its carrier on a resolved or requested id, which becomes the carrier's;
 * NULL: no memory.  made() is called later, unless c->make.made was set to NULL meanwhile: the
 * carrier has its queue pair, and receives are posted; or there is a reason, and the carrier is
 * closed afterwards.  loop. */
struct sr_vlink *sr_vlink_make(struct rdma_cm_id *id, struct sr_vdev *dev,
			       const struct sr_vlink_for *f, const struct sr_question *first,
			       void (*made)(struct sr_vcarrier *, const char *reason),
			       void *maker);
/* Nothing of the device is the carrier's any more: it goes, now or soon.  loop, idempotent */
void sr_vcarrier_close(struct sr_vcarrier *c, bool disconnects);
bool sr_vmake_is_unmaking(void);	/* Does a job destroy a carrier, or will one?  loop */
/* ---- vlink.c ---- */
/* The link broke, or the peer broke it.  any, not locked. */
void sr_vlink_fail(struct sr_vlink *l, const char *reason);
/* ---- carrier.c ---- */
void sr_vcarrier_get(struct sr_vcarrier *c);	/* any, that has a link of it */
bool sr_vcarrier_tryget(struct sr_vcarrier *c);	/* any, while it cannot be freed; false: it ends */
void sr_vcarrier_put(struct sr_vcarrier *c);	/* any */
void sr_vcarrier_join(struct sr_vcarrier *c, struct sr_vlink *l); /* loop, locked */
struct sr_vring *sr_vlink_ring(struct sr_vlink *l, unsigned i);	/* i < SR_V_RINGS */
void sr_vlink_free(struct sr_link *link);
/* Frees the links that nobody has any more, and that the device and the peer have done with.
 * loop */
void sr_vcarrier_sweep(struct sr_vcarrier *c);
void sr_vcarrier_fail(struct sr_vcarrier *c, const char *reason); /* and all its links; loop */
/* For calls of the libraries.  When the lock is given back, links that broke are failed; and
 * notify() is called for what links have heard. */
void sr_vcarrier_lock(struct sr_vcarrier *c);
void sr_vcarrier_unlock(struct sr_vcarrier *c);
/* locked: */
void sr_vlink_hear(struct sr_vlink *l, unsigned what);
void sr_vlink_break(struct sr_vlink *l, const char *reason);
void sr_vcarrier_break(struct sr_vcarrier *c, const char *reason); /* and its links */
/* ---- share.c ---- */
bool sr_vshare_init(struct sr_vcarrier *c, bool asks, bool shares); /* false: no memory */
void sr_vshare_free(struct sr_vcarrier *c);
/* The carrier's first link, which the CM opens, and its stream. */
void sr_vshare_begin(struct sr_vlink *l, const struct sr_name *name, uint8_t tclass);
void sr_vshare_task(struct sr_task *t);
/* Opens one more link.  NULL: there is no number for it now, or no memory.  loop */
struct sr_vlink *sr_vshare_open(struct sr_vcarrier *c, const struct sr_vlink_for *f,
				const struct sr_question *question);
/* Of a request that came by OPEN, as struct sr_rendezvous says.  loop */
struct sr_link *sr_vshare_accept(struct sr_vrequest *r, const struct sr_vlink_for *f,
				 const char **reason);
void sr_vshare_refuse(struct sr_vrequest *r, const char *word);
void sr_vshare_tell(struct sr_vrequest *r, enum sr_first first);
void sr_verbs_proven(struct sr_link *link);	/* any */
/* May the carrier have a link for a stream of that name and class?  (name and tclass of the first
 * one never change.)  any */
bool sr_vshare_names(const struct sr_vcarrier *c, const struct sr_name *name, uint8_t tclass);
/* locked: */
struct sr_vlink *sr_vshare_link(struct sr_vcarrier *c, uint32_t number);	/* or NULL */
void sr_vshare_established(struct sr_vcarrier *c);
void sr_vshare_greeted(struct sr_vcarrier *c, const struct sr_process *peer);
int sr_vshare_record(struct sr_vcarrier *c, const struct sr_record *r);	/* has come: 0 or -EPROTO */
void sr_vshare_prove(struct sr_vlink *l);
/* Adds the records that no link sends, or the one that opens the link.  False: nothing. */
bool sr_vshare_fill(struct sr_vcarrier *c, struct sr_vpacket *p);
bool sr_vshare_open_fill(struct sr_vlink *l, struct sr_vpacket *p);
void sr_vshare_left(struct sr_vlink *l);	/* our last record is in the packet */

/* ---- mem.c ---- */
enum {
	/*
	 * Of receive rings.  With relaxed ordering RDMA WRITEs may reach memory in any order, and
	 * two that overlap leave anything; but "a completion still ensures that all data is
	 * visible, including data from prior transfers" (ibv_reg_mr(3)).  We bear that, because
	 * the program reads of a ring only what the completion of a SEND behind the WRITE has
	 * announced; and because no place is written again before such a completion: the peer
	 * writes there when our program has taken the bytes.
	 */
	SR_V_RX_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			 IBV_ACCESS_RELAXED_ORDERING,
};
/* Memory that the carrier's queue pair has access to, and no other one.  NULL or a reason.
 * loop, and job. */
const char *sr_vring_make(struct sr_vcarrier *c, struct sr_vring *r, size_t size, int access);
void sr_vring_free(struct sr_vring *r);
/* fill: allocates the ring's memory if the ring has none; false: no memory is left.  empty: frees
 * it.  any */
bool sr_vring_fill(struct sr_vring *r);
void sr_vring_empty(struct sr_vring *r);
/* How a ring is named to the peer: without an address it is ordinary. */
struct sr_ring_ref sr_vring_ref(const struct sr_vring *r, uint32_t gen);
/* May a ring grow to that size?  All of them together may lock half of what the process
 * may: the rest is for the first rings of links to come.  any */
bool sr_vring_may_grow(size_t size);
void sr_vring_forget(void);	/* in the child of fork */
/* The NUMA node of the device whose directory in sysfs this is; -1: none is known.  loop */
int sr_vmem_node(const char *ibdev_path);
bool sr_vmem_has_nodes(void);	/* more than one */
/* The memory's pages, of which there are none yet, are to be of that node. */
void sr_vmem_place(void *mem, size_t size, int node);
/* Its region goes, its memory stays.  loop, and job */
void sr_vring_close(struct sr_vring *r);
/* The reason, if the kernel would not make something of a device. */
const char *sr_vmem_refusal(int err);
/* So many bytes more, or less, are pinned. */
void sr_vmem_count(ssize_t bytes);

/* ---- cq.c ---- */
void sr_vcq_init(struct sr_vcarrier *c);
const char *sr_vcq_make(struct sr_vcarrier *c);	/* NULL or a reason; job */
void sr_vcq_close(struct sr_vcarrier *c);	/* the QP is gone; job */
void sr_vcq_free(struct sr_vcarrier *c);
/* The service thread watches the channel, or no longer.  False: it cannot be watched
 * (epoll(7), max_user_watches), and the timer has to look at the carrier.  loop. */
bool sr_vcq_watch(struct sr_vcarrier *c, bool on);
/* Does a thread sleep, or an epoll set wait, for what comes?  locked. */
bool sr_vcq_any_sleeper(const struct sr_vcarrier *c);
/* Takes completions of our own requests; returns whether there were any.  locked. */
bool sr_vcq_take_sent(struct sr_vcarrier *c);
/* Handles completions.  locked. */
void sr_vcq_reap(struct sr_vcarrier *c);
/* The same, for a caller that sr_vtx_waits(): the next completion of our own requests is taken
 * too, by the service thread if that watches. */
void sr_vcq_await_out(struct sr_vcarrier *c);
static inline void sr_vcq_note_use(struct sr_vcarrier *c)	/* by the program; locked */
{
	sr_store(&c->cq.used, sr_load(&c->cq.used) + 1);
}

void sr_vcq_look(struct sr_vcarrier *c);	/* takes all that has come */
void sr_verbs_poll(struct sr_link *link);
int sr_verbs_arm(struct sr_link *link, unsigned want);
void sr_verbs_awake(struct sr_link *link, unsigned want, bool watched, bool slept);
int sr_verbs_arm_once(struct sr_link *link, unsigned want);
struct sr_watcher *sr_verbs_watch(struct sr_link *link, const void *set);
void sr_verbs_unwatch(struct sr_link *link, struct sr_watcher *w);
void sr_verbs_rang(struct sr_link *link);
/* Epoll sets wait for these SR_NOTIFY_ bits of the link.  locked */
void sr_vcq_note_armed(struct sr_vlink *l, unsigned bits);

/* ---- tick.c ---- */
/* Does the reason say that there was too little for a carrier?  any */
bool sr_vcarriers_lack(const char *reason);
/* If so, closes the carriers that are kept although no link uses them.  Returns whether any carrier
 * ends now, so that the next one may be had.  loop */
bool sr_vcarriers_spare(const char *reason);
void sr_vlook_init(struct sr_vcarrier *c);
enum { SR_LOOK = 1, SR_LOOK_SOON = 2, SR_LOOK_WATCH = 4, SR_LOOK_UNSEEN = 8 };
/* The timer looks after the carrier, while something is unfinished or its link is dead and not
 * closed.  how: SR_LOOK; SR_LOOK_SOON: ticks of 0.2 ms, or of 2 ms if the program has needed none
 * for long; SR_LOOK_WATCH: the service thread is to watch the channel.  (SR_LOOK_UNSEEN is tick.c's.)
 * any. */
void sr_vlook_start(struct sr_vcarrier *c, unsigned how);
/* The same, after the caller has moved the link: the whole looks see it until it rests. */
void sr_vlook_link(struct sr_vlink *l, unsigned how);
/* The link is about to be freed.  loop */
void sr_vlook_leave(struct sr_vlink *l);

/* ---- post.c: locked ---- */
void sr_vpost_due(struct sr_vcarrier *c);	/* posts what may go */
/* The same, also what waits for records of other links: a thread is about to sleep, or has waited. */
void sr_vpost_gathered(struct sr_vcarrier *c);
void sr_vpost_left(struct sr_vcarrier *c);	/* the program's thread has given it something */
void sr_vpost_end(struct sr_vcarrier *c);	/* its last reference is gone; not locked */
void sr_vpost_forget(void);	/* in the child of fork */
/* Called when the link has something new to send: queues the link if it sr_vtx_waits().  And
 * sr_vpost_link() posts what may go. */
void sr_vpost_queue(struct sr_vlink *l);
void sr_vpost_link(struct sr_vlink *l);
void sr_vpost_unqueue(struct sr_vlink *l);
/* May the records of links wait for those of others? */
bool sr_vpost_gathers(const struct sr_vcarrier *c);
bool sr_vpost_waits(struct sr_vcarrier *c);	/* sr_vtx_waits() of any link */
/* All work requests up to number seq have completed. */
void sr_vpost_reap(struct sr_vcarrier *c, uint16_t seq, bool flushed);
bool sr_vpost_has_in_flight(const struct sr_vcarrier *c);	/* work requests */
bool sr_vpost_presses(const struct sr_vcarrier *c); /* the send queue is half full */
/* An RDMA WRITE in front of the packet that is being built. */
void sr_vpost_write(struct sr_vlink *l, struct sr_vpacket *p, const void *from, size_t n,
		    uint64_t to);
/* The reason of a carrier that ends: "path" if the packet that tries the path did not get through,
 * else the caller's.  status: of the completion that ended it, or a success. */
const char *sr_vpost_why(const struct sr_vcarrier *c, enum ibv_wc_status status, const char *reason);

/* ---- tx.c ---- */
int sr_verbs_ctl(struct sr_link *link, struct sr_msg *msg);
int sr_vtx_queue(struct sr_vlink *l, const struct sr_msg *msg); /* locked */
void sr_vtx_kick(struct sr_vlink *l);	/* locks, pumps */
void sr_vtx_owe(struct sr_vlink *l);	/* an ACK is due; locked */
void sr_vtx_drop(struct sr_vlink *l);	/* our last record is due; locked */
/* Adds what is due; records: not only ACKs.  False: nothing.  locked */
bool sr_vtx_fill(struct sr_vlink *l, struct sr_vpacket *p, bool records);
/* Adds the link's ACK, due or not, if the link may send.  locked */
void sr_vtx_fill_ack(struct sr_vlink *l, struct sr_vpacket *p);
/* The peer says: its program has taken ack bytes.  0 or -EPROTO.  locked */
int sr_vtx_credit(struct sr_vlink *l, uint64_t ack);
/* Has the link a record for a packet, or does it wait for a completion?  locked */
bool sr_vtx_waits(struct sr_vlink *l);
/* All is posted, and no request that is not complete reads the send ring; locked */
bool sr_vtx_may_swap(const struct sr_vlink *l);
size_t sr_verbs_tx_room(struct sr_link *link, struct iovec v[2]);
void sr_verbs_tx_commit(struct sr_link *link, size_t n, bool more);
size_t sr_verbs_tx_retained(struct sr_link *link, uint64_t from, struct iovec v[2]);
uint64_t sr_verbs_tx_arrived(struct sr_link *link);
size_t sr_vring_pieces(const struct sr_vring *r, uint64_t at, size_t n, struct iovec v[2]);

/* ---- rx.c ---- */
void sr_vrx_completion(struct sr_vcarrier *c, const struct ibv_wc *wc); /* locked */
int sr_vrx_repost(struct sr_vcarrier *c);	/* locked */
/* A record of a link in use has come.  0 or -EPROTO.  locked */
int sr_vrx_record(struct sr_vlink *l, const struct sr_record *r);
ssize_t sr_verbs_rx_look(struct sr_link *link, struct sr_piece *piece);
size_t sr_verbs_rx_data(struct sr_link *link, size_t skip, struct iovec v[2]);
void sr_verbs_rx_free(struct sr_link *link, size_t n);

/* ---- grow.c ---- */
void sr_verbs_work(struct sr_link *link);
void sr_verbs_tx_work(struct sr_link *link);
bool sr_vgrow_swap(struct sr_vlink *l);	/* tx, locked */
void sr_vgrow_turn(struct sr_vlink *l, uint64_t taken);	/* rx */
void sr_vgrow_full(struct sr_vlink *l, uint64_t unread); /* locked */
int sr_vgrow_offered(struct sr_vlink *l, const struct sr_ring_ref *ring);
int sr_vgrow_use(struct sr_vlink *l, uint64_t offset, uint32_t gen);
bool sr_vgrow_tx_widens(struct sr_link *link);
/* May the peer write to the receive ring that is in use?  locked */
bool sr_vgrow_is_registered(struct sr_vlink *l);
/* Bytes have come for it: it gets memory, if it has none.  locked */
bool sr_vgrow_begin(struct sr_vlink *l);
/* May the peer have named such a ring? */
bool sr_vgrow_valid(const struct sr_ring_ref *ring);
enum { SR_V_IDLE_MS = 30000 };	/* then memory is given back */
/* The link has been idle for so long; returns whether there is memory to be given back later.  loop */
bool sr_vgrow_idle(struct sr_vlink *l);

/* ---- cm.c ---- */
enum { SR_V_REASON_LEN = 32 };

/* What an event says, taken out of it before it is acknowledged.  A zero byte follows
 * the data. */
struct sr_vcm_event {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	uint8_t data[SR_NAME_LEN + SR_V_REASON_LEN + 1];
	size_t len;
};

struct sr_vrequest *sr_vrequest_new(void); /* NULL: no memory */
void sr_vrequest_of(struct sr_vrequest *r, const struct sr_question *question);
void sr_vrequest_free(struct sr_vrequest *r);
/* Tells of the carrier's requests that need no answer any more.  loop */
void sr_vrequests_gone(struct sr_vcarrier *c);
int sr_vcm_open(void);	/* the libraries, the channel; 0 or -errno */
struct rdma_cm_id *sr_vcm_id(struct sr_vcm *cm);	/* NULL and errno */
void sr_vcm_addr(struct sockaddr_storage *to, const struct sockaddr *from, uint16_t port);
uint16_t sr_vcm_iwarp_port(uint16_t port);
void sr_vcm_param(struct rdma_conn_param *p);
void sr_vcm_ack_timeout(struct rdma_cm_id *id);
struct sr_link *sr_verbs_accept(struct sr_request *req, void *owner,
				void (*notify)(struct sr_link *, unsigned),
				const char **reason);
bool sr_verbs_tell(struct sr_request *req, enum sr_first first);
void sr_verbs_refuse(struct sr_request *req, const char *reason);
void sr_vcm_link_event(struct sr_vcm *cm, const struct sr_vcm_event *e);
void sr_vcm_removed(struct ibv_context *ctx);	/* asks and listeners */
/* In the child of fork: nothing of all this is ours any more. */
void sr_verbs_forget(void);

/* ---- listen.c ---- */
int sr_verbs_listen(const struct sockaddr *addr, char *there, void **out);
void sr_verbs_unlisten(void *listener);
void sr_vlisten_removed(struct ibv_context *ctx);
void sr_vlisten_forget(void);

/* ---- ask.c ---- */
int sr_verbs_ask(struct sr_ask *ask);
void sr_verbs_cancel(struct sr_ask *ask);
void sr_vask_removed(struct ibv_context *ctx);
void sr_vask_forget(void);

/* ---- reuse.c ---- */
/* The carrier may have become ready, or a number of it free: asks that wait try it again.  loop */
void sr_vreuse_retry(struct sr_vcarrier *c);
void sr_vreuse_news(struct sr_task *t);	/* a link's: the peer has answered OPEN */

#endif
