/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * observers.h - what the engine calls in the rooms above it, which define these two
 * objects; it knows nothing else of them.
 */
#ifndef SR_ENGINE_OBSERVERS_H
#define SR_ENGINE_OBSERVERS_H

#include "engine/impl.h"

/* A stream's epoll sets: src/epoll/entry.c. */
struct sr_sets_ops {
	/* A gate has been shut, under the direction's lock; the sets know
	 * before other waiters.  False: a set cannot: reopen the gate. */
	bool (*gate_shut)(struct sr_stream *st);
	void (*gate_opened)(struct sr_stream *st);
	/* A notification for one entry; news: its edges.  waits.lock held. */
	void (*event)(struct sr_epoll_entry *e, unsigned what, unsigned news);
	/* The stream is permanently plain: the sets drop it.  sets.lock
	 * held, gates open. */
	void (*forget)(struct sr_stream *st);
	/* The parent's sets have the stream, the child's have not. */
	void (*inherit)(struct sr_stream *st);
};
extern const struct sr_sets_ops sr_sets_ops;

/* A kick's work, done in the loop: src/service/service.c. */
struct sr_service_ops {
	void (*work)(struct sr_task *task);
};
extern const struct sr_service_ops sr_service_ops;

#endif
