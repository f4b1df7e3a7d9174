/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * index.h - what the answering side has to find for each request, without a look at every
 * stream of the process: the accepted stream of a name, the listeners, and the threads that
 * policy wait holds.  All functions are thread-safe, and take no lock but a leaf, except where
 * said.
 */
#ifndef SR_ENGINE_INDEX_H
#define SR_ENGINE_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "pure/wire.h"

struct sr_listener;
struct sr_stream;

/* A stream is in one of these two at most, until its last reference goes. */
void sr_index_accepted(struct sr_stream *st);
void sr_index_listens(struct sr_listener *l);

/* The stream of that name which the process has accepted and not closed, with a reference;
 * or NULL, also if there is no memory.  Takes rx_lock of streams that have no name yet. */
struct sr_stream *sr_index_find(const struct sr_name *name);

/* Calls fn for every listener whose rendezvous has been open; fn does not own the reference
 * that it gets. */
void sr_index_each_listener(void (*fn)(struct sr_listener *l, void *arg), void *arg);

/* thread: sr_hold_thread() of the one whose send waits for this stream's link; 0: none does. */
void sr_index_hold(struct sr_stream *st, uintptr_t thread);
bool sr_index_is_held(uintptr_t thread);

void sr_index_drop(struct sr_stream *st);	/* the stream ends */
/* In the child of a fork, whose streams are in no list until they are looked up. */
void sr_index_forget(void);
void sr_index_inherit(struct sr_stream *st);

#endif
