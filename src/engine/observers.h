/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * observers.h - what the engine calls in the rooms above it; it knows nothing else of them.
 */
#ifndef SR_ENGINE_OBSERVERS_H
#define SR_ENGINE_OBSERVERS_H

#include "engine/impl.h"

/* ---- a stream's epoll sets: src/epoll/entry.c, ready.c ---- */
/* A gate has been shut, under the direction's lock; the sets know before other waiters.
 * False: a set cannot: reopen the gate. */
bool sr_epoll_gate_shut(struct sr_stream *st);
void sr_epoll_gate_opened(struct sr_stream *st);
/* A notification for one entry; news: its edges.  waits.lock held. */
void sr_epoll_notified(struct sr_epoll_entry *e, unsigned what, unsigned news);
/* The stream is retired: the sets drop it.  sets.lock held, gates open. */
void sr_epoll_stream_retired(struct sr_stream *st);
/* The parent's sets have the stream, the child's have not.  Are there any? */
bool sr_epoll_stream_inherited(struct sr_stream *st);

/* Does a thread wait in an epoll set for this listener, or perhaps for another one? */
bool sr_epoll_awaits(struct sr_stream *listener);

/* A kick's work, done in the loop: src/service/service.c. */
void sr_service_work(struct sr_task *task);

#endif
