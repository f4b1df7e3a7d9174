/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ends.h - the ends of a stream's directions, for close.c and shutdown(2). */
#ifndef SR_SOCK_ENDS_H
#define SR_SOCK_ENDS_H

#include <stdbool.h>

#include "engine/stream.h"

/* Are there bytes that the program has not read, as far as the library has them?
 * rx_lock held. */
bool sr_ends_unread(struct sr_stream *st);
/* Does the peer's host have all that we sent, and our end?  tx_lock held. */
bool sr_ends_arrived(struct sr_stream *st);
/* Are there unread bytes that make the last close a reset?  If both directions have
 * ended, TCP discards such bytes and does not reset.  Both locks held. */
bool sr_ends_leave_unread(struct sr_stream *st);
/* Ends our direction, on TCP or on the link.  Both locks held. */
void sr_ends_finish(struct sr_stream *st);
/* The descriptor's last close will be a reset. */
void sr_ends_reset_on_close(int fd);

#endif
