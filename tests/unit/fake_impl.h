/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* fake_impl.h - what the parts of the fake RDMA device share: fake_verbs.c (memory,
 * queues), fake_faults.c (verbs that fail or take long), fake_device.c (the hardware) and
 * fake_cm.c (the connection manager). */
#ifndef FAKE_IMPL_H
#define FAKE_IMPL_H

#include "fake_profile.h"
#include "fake_verbs.h"

#include "link/verbs/verbs.h"

enum { FAKE_INLINE = 128, FAKE_WR = 1024, FAKE_CQE = 4096, FAKE_ASYNCS = 64 };

/* In each struct the verbs' own part is first. */
struct device {
	struct ibv_context v;
	struct ibv_device ibdev;
	bool iwarp, gone;
	int async_ring;		/* of v.async_fd, whose number the library changes */
	unsigned n_async;
	struct ibv_async_event async[FAKE_ASYNCS];
	struct device *next;
};

enum { FAKE_HELD = 64, RELAXED = IBV_ACCESS_RELAXED_ORDERING };

struct mr {
	struct ibv_mr v;
	int access;
	struct mr *next;
};

struct cqe {
	struct ibv_wc wc;
	uint32_t frees; /* sends: the queue is free up to here */
	bool send;
};

enum fake_level { NOT_ARMED, ARMED };

struct cq {
	struct ibv_cq v;
	struct cqe *ring;
	uint32_t head, tail;
	int vector;
	enum fake_arming arming;
	enum fake_level armed;
	enum fake_level asked;	 /* what the provider believes it to be (ARM_PUT_OFF) */
	enum fake_level put_off; /* to be armed later */
	unsigned events, unacked, users;
	uint64_t late_ns;	 /* when an event comes that is late; 0: none is */
	struct cq *next;
};

struct send {
	uint64_t wr_id, due_ns, remote_addr;
	uint8_t *from;
	uint32_t len, key, rkey;
	enum ibv_wr_opcode opcode;
	bool signaled;
	enum ibv_wc_status status;
	uint8_t copy[FAKE_INLINE]; /* what is sent inline */
};

struct recv {
	uint64_t wr_id;
	uint8_t *to;
	uint32_t len, key;
};

/* Of sends: freed <= completed <= executed <= posted.  A place is free again
 * when a completion for it, or for a later one, has been polled. */
struct qp {
	struct ibv_qp v;
	uint32_t send_cap, recv_cap, max_inline;
	uint32_t posted, executed, completed, freed, recv_head, recv_tail;
	struct send *sends;
	struct recv *recvs;
	struct held {		/* written to it, and not in its memory yet */
		uint8_t *to, *bytes;
		uint32_t len;
	} held[FAKE_HELD];
	unsigned n_held;
	struct id *id;
	struct qp *next;
};

struct id {
	struct rdma_cm_id v;
	enum { IDLE, LISTENING, ASKING, ASKED, ANSWERED, CONNECTED } state;
	bool active;
	struct device *dev; /* once resolved; v.verbs when that is read */
	uint8_t port;	    /* of it; v.port_num likewise */
	uint8_t tos;
	bool routed;
	struct id *peer;
	struct qp *queue; /* v.qp, until that is destroyed */
	unsigned unacked; /* events */
	struct id *next;
};

/* One lock for everything, the last that anybody takes; to the function's end.
 */
extern pthread_mutex_t fake_lock;
int fake_take(void);
void fake_leave(int *unused);
#define LOCKED                                                                 \
	int taken __attribute__((cleanup(fake_leave), unused)) = fake_take()

/* All locked. */
extern struct device *fake_devices; /* the last is the newest */
extern struct qp *fake_qps;
extern struct mr *fake_mrs;
extern struct id *fake_ids;
struct device *fake_device(void);  /* that is plugged in, or NULL */
bool fake_fails(const char *verb); /* counts the call; with errno */
/* What makes or destroys something takes its time.  Not locked. */
void fake_take_time(const char *verb);
_Noreturn void
fake_broke(const char *rule);	  /* the caller did something wrong */
void fake_may_begin(void); /* something is made for the first time, perhaps */
bool fake_is_iwarp(const struct qp *q);
void fake_place_held(struct qp *q, bool is_there);
void fake_flush_qp(struct qp *q); /* to the error state: all comes back */
/* About q, or its completion queue, or (NULL) the port of that number. */
void fake_add_async(struct device *d, enum ibv_event_type type, struct qp *q, int port);
void fake_start(void);	     /* the hardware, if it does not run yet */
void fake_wake(void);	     /* there is something to do */
void fake_wake_for_request(void); /* which is nothing to do in a pause */
uint64_t fake_due_ns(void);  /* when a request that is posted now is executed */
void fake_arm(struct cq *c, enum fake_level level);
void fake_tell(struct cq *c);	     /* an event, now or late */
uint64_t fake_tell_late(uint64_t now); /* what is due; when to call again */
void fake_polled(struct cq *c);
void fake_event_read(struct cq *c);
int fake_eventfd(void);
void fake_ring(int fd);	     /* one event more */
bool fake_next_ring(int fd); /* one less; false: there was none */

/* Objects are counted, and in lists. */
void *fake_new(size_t size);
void fake_free(void *object);
void fake_add(void *list, void *object, size_t next);
void fake_drop(void *list, void *object, size_t next);
#define ADD(list, x) fake_add(&(list), (x), offsetof(typeof(*(x)), next))
#define DROP(list, x) fake_drop(&(list), (x), offsetof(typeof(*(x)), next))

struct rdma_event_channel *fake_create_event_channel(void);
int fake_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out,
		   void *context, enum rdma_port_space ps);
int fake_destroy_id(struct rdma_cm_id *cm);
int fake_bind_addr(struct rdma_cm_id *cm, struct sockaddr *addr);
int fake_resolve_addr(struct rdma_cm_id *cm, struct sockaddr *src,
		      struct sockaddr *dst, int ms);
int fake_resolve_route(struct rdma_cm_id *cm, int ms);
int fake_connect(struct rdma_cm_id *cm, struct rdma_conn_param *p);
int fake_listen(struct rdma_cm_id *cm, int backlog);
int fake_accept(struct rdma_cm_id *cm, struct rdma_conn_param *p);
int fake_reject(struct rdma_cm_id *cm, const void *data, uint8_t len);
int fake_disconnect(struct rdma_cm_id *cm);
int fake_get_cm_event(struct rdma_event_channel *ch,
		      struct rdma_cm_event **out);
int fake_ack_cm_event(struct rdma_cm_event *event);
int fake_set_option(struct rdma_cm_id *cm, int level, int name, void *val,
		    size_t len);

#endif
