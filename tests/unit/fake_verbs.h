/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fake_verbs.h - an RDMA device in the memory of a test program.  A program
 * that is linked with fake_verbs.c has it in the place of src/link/verbs/lib.c;
 * both ends of a link are then in this one process.  Any thread may call these.
 */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Plugs a device in; unplug takes it away, with all that the kernel reports. */
void fake_plug(bool iwarp);
void fake_unplug(void);

/* A request is executed, and again completed, up to `us` later, at random.
 * Queue pairs overtake each other; the requests of one do not. */
void fake_delay(unsigned us, uint64_t seed);

/* The hardware stands still and only fake_step() moves it: at most n steps of
 * random queue pairs.  Returns how many there were. */
void fake_pause(bool pause);
unsigned fake_step(unsigned n);

/* The n-th call from now of a verb fails with this errno; n = 0: none does.  It
 * is named as in struct sr_verbs_lib ("v_reg_mr"), or "post_send", "post_recv",
 * "poll_cq", "req_notify_cq".  What destroys something does so all the same. */
void fake_fail(const char *verb, unsigned n, int err);
bool fake_struck(void);		       /* has it failed? */
unsigned fake_calls(const char *verb); /* since the program began */
const char *fake_verb(unsigned i);     /* number i that can fail, or NULL */

/* The n-th call from now of a verb that makes or destroys something goes on only when another
 * one, or none (NULL), is to be held.  Waits until there is such a call. */
void fake_hold(const char *verb, unsigned n);
void fake_await_held(void);
/* How many such calls the service thread has made. */
unsigned fake_slow_in_loop(void);

/* So many bytes may be pinned, by regions and, with some profiles, queues; 0: any number. */
void fake_may_pin(size_t bytes);
size_t fake_pinned(void);

/* So many of the completion vectors have a queue. */
unsigned fake_vectors(void);

/* From now on what is sent comes to nothing, and completes all the same: as with a peer
 * that stands still, or on iWARP with a path that is dead. */
void fake_mute(bool mute);
/* What the last queue pair that was connected or accepted was told: how long it waits for
 * an acknowledgement, and how often it tries again. */
void fake_patience(uint8_t *ack_timeout, uint8_t *retries);

/* The n-th send to be executed from now, of qp or (NULL) of any queue pair, has this status. */
void fake_fail_send(const struct ibv_qp *qp, unsigned n, enum ibv_wc_status status);
void fake_fail_sends(enum ibv_wc_status status); /* all, until it is a success */
/* A network that loses what is longer, and nothing else; 0: it loses nothing. */
void fake_lose_longer(unsigned bytes);
/* Ports below 1024 cannot be bound: EACCES. */
void fake_privileged(bool are);
/* The next n requests of the CM are lost; the kernel sends them again 4.3 s later. */
void fake_lose_requests(unsigned n);
/* The answerer sees other ports of the asker than the asker does. */
void fake_map_ports(bool map);
/* The traffic class of the last request. */
uint8_t fake_class(void);
/* Of the last listener on such a device. */
int fake_backlog(bool iwarp);
/* The kernel rejects the next request, of which no process has heard. */
void fake_refuse_next(int status);
/* The next rejection comes only when this is ended. */
void fake_hold_refusal(bool hold);
/* The next CM event `from` comes as `to` instead. */
void fake_swap_event(enum rdma_cm_event_type from, enum rdma_cm_event_type to,
		     int status);
/* An asynchronous event of the device: for each port, or completion queue, if it is about
 * one; about a queue pair for one of them.  And for that queue pair or port only. */
void fake_async(enum ibv_event_type type);
void fake_async_one(enum ibv_event_type type, struct ibv_qp *qp, int port);
void fake_flush(void); /* every queue pair goes to the error state */
void fake_kill(void);  /* the accepting ends vanish, as if killed */

extern atomic_uint fake_alive; /* objects not destroyed, but event channels */
extern atomic_uint fake_rnrs;  /* sends that met no posted receive */
extern atomic_uint fake_open_regions; /* deregistered, while a queue pair's peer might write there */
extern atomic_ulong fake_requests; /* posted to send queues */
unsigned fake_queue_pairs(void);   /* that there are */

#endif
