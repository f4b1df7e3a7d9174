/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hooks.h - what a fork does to epoll sets, and the end of a descriptor.
 */
#ifndef SR_EPOLL_HOOKS_H
#define SR_EPOLL_HOOKS_H

#include "engine/stream.h"

/* A descriptor of the stream, or its last one, is about to be closed. */
void sr_epoll_number_gone(struct sr_stream *st, int fd);
void sr_epoll_stream_gone(struct sr_stream *st);
void sr_epolls_await(void);	/* the locks of the first rank (lock.h) */
void sr_epolls_before_fork(void);	/* streams' locks are free */
void sr_epolls_forget(void);		/* child of fork */
bool sr_epolls_keep(int fd);		/* ... which goes on to use this descriptor of ours */

#endif
