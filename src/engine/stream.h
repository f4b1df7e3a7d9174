/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stream.h - TCP streams as the rooms above have them: references, and how a stream
 * begins.  The calls on one are in sock/sock.h.
 *
 * A stream belongs to one open file description, its anchor; each descriptor of
 * the program that refers to it holds one reference in the table (fdtab.h).  All
 * functions are thread-safe.
 */
#ifndef SR_STREAM_H
#define SR_STREAM_H

#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <time.h>

#include "base/report.h"

struct sr_stream;
struct sr_info;		/* sockrail.h */

/* References.  Memory of streams is type-stable: tryget on a stale pointer is
 * safe, and fails or yields another stream (the table then checks again). */
bool sr_stream_tryget(struct sr_stream *st);

void sr_stream_put(struct sr_stream *st);

/* heir: the table's entry for an inherited stream until the child looks it up; tryget fails on
 * it.  inherit: the stream of an entry, made this process's if it is an heir. */
void *sr_stream_heir(void *entry);
struct sr_stream *sr_stream_inherit(void *entry);

/* A new TCP socket (SOCK_STREAM, IPPROTO_TCP, AF_INET or AF_INET6) with one
 * descriptor fd; the table owns the returned reference.  NULL: no memory, or
 * inert; then the library leaves the socket alone. */
struct sr_stream *sr_stream_open(int fd);

/* The stream of fd, which came from accept on this listener.  NULL as above. */
struct sr_stream *sr_stream_accepted(struct sr_stream *socket, int fd);

/* No stream of the process gets a new link; existing links stay. */
void sr_streams_bar_all(enum sr_reason reason);

void sr_stream_info(struct sr_stream *st, struct sr_info *info);

#endif
