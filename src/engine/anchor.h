/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * anchor.h - the kernel's TCP socket under a stream: what it says of itself, and the
 * library's own reads and writes on it.  Each declaration says which lock its caller holds.
 */
#ifndef SR_ENGINE_ANCHOR_H
#define SR_ENGINE_ANCHOR_H

#include "engine/impl.h"

/* tcpi_state of TCP_INFO, as <net/tcp_states.h> of the kernel numbers the states.  (The C
 * library's <netinet/tcp.h> has them, too, but cannot be included beside <linux/tcp.h>.) */
enum sr_tcp_state {
	SR_TCP_ESTABLISHED = 1,
	SR_TCP_FIN_WAIT1 = 4,
	SR_TCP_FIN_WAIT2 = 5,	/* in each state with a greater number the peer has ended */
	SR_TCP_TIME_WAIT = 6,
	SR_TCP_CLOSE = 7,
	SR_TCP_CLOSE_WAIT = 8,
	SR_TCP_LAST_ACK = 9,
	SR_TCP_CLOSING = 11,
};

/* Do the kernel's byte counters agree with ours?  (sockrail-protocol(7), promise 6) */
bool sr_anchor_tx_agrees(struct sr_stream *st);	/* tx_lock, gate shut */
/* Has the kernel more bytes of ours than the library has written?  False also if the kernel
 * does not say. */
bool sr_anchor_is_bypassed(struct sr_stream *st); /* tx_lock, gate shut */
bool sr_anchor_rx_agrees(struct sr_stream *st);	/* rx_lock, gate shut */
/* Bytes that the caller, which must be the only one within the direction's gate, has
 * sent or received and not counted yet.  0: none, or unknown. */
size_t sr_anchor_unbooked_tx(struct sr_stream *st);
size_t sr_anchor_unbooked_rx(struct sr_stream *st);
/* Bytes that the kernel has received, read by any process, plus 1 for a FIN;
 * and that the peer's TCP has acknowledged.  0: unknown.  Direction's lock. */
uint64_t sr_anchor_received(struct sr_stream *st);
uint64_t sr_anchor_acked(struct sr_stream *st);
/* All bytes have been read and TCP has ended: was it a FIN?  (A RST looks like
 * one once another process has taken its error.)  rx_lock held. */
bool sr_anchor_fin(struct sr_stream *st);
/* The counters disagree: I/O went around the library, or the stream was just
 * closed.  The stream gets no link.  rx_lock or tx_lock held. */
void sr_anchor_disagrees(struct sr_stream *st, struct sr_link *link);
/* more: the caller writes more at once.  (Without MSG_MORE TCP would send these bytes, and then
 * hold those back until the peer has acknowledged these: Nagle.) */
ssize_t sr_anchor_write(struct sr_stream *st, const void *buf, size_t len, bool more);
ssize_t sr_anchor_read(struct sr_stream *st, void *buf, size_t len, int flags);
bool sr_anchor_writable(struct sr_stream *st);
/* The peer's FIN or RST has arrived, perhaps behind unread bytes. */
bool sr_anchor_ended(struct sr_stream *st);
bool sr_anchor_shut(struct sr_stream *st);	/* our FIN was sent, or is queued */
/* False: reset, or ended both ways: another socket may have its addresses and ports. */
bool sr_anchor_connected(struct sr_stream *st);	/* no lock held */
uint64_t sr_anchor_inode(struct sr_stream *st);	/* 0: closed; no lock held */
/* The number of connections that wait to be accepted; 1 if it is not known, 0 if the
 * listener is closed.  (For a listener, tcp_get_info() of Linux puts it into
 * tcpi_unacked.)  No lock held. */
unsigned sr_anchor_backlog(struct sr_stream *listener);
/* Is no connection accepted before its client has sent (TCP_DEFER_ACCEPT)?  No lock held. */
bool sr_anchor_defers(struct sr_stream *listener);
/* The errno for a reset that arrives now: EPIPE after the peer's end (a link
 * has that end before TCP), else ECONNRESET (tcp_reset() in Linux). */
int sr_reset_error(struct sr_stream *st);
/* The error that our calls took from the socket for the program, or 0. */
int sr_anchor_kept(struct sr_stream *st);	/* no lock held */
void sr_anchor_keepalive(struct sr_stream *st);
void sr_anchor_resumed(struct sr_stream *st);	/* RESUME is on its way; tx_lock held */

#endif
