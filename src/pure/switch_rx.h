/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * switch_rx.h - the receiver of one direction of a stream; see switch.h.
 */
#ifndef SR_SWITCH_RX_H
#define SR_SWITCH_RX_H

#include "pure/switch.h"

enum sr_rx_state {
	SR_RX_RAW,	/* TCP carries program bytes */
	SR_RX_EXPECT,	/* N is known: raw below N, then the mark */
	SR_RX_LINK,	/* the mark came: the ring's bytes count, TCP carries records */
	SR_RX_EOF,	/* the end was reported to the program, or may be */
	SR_RX_RESET,	/* the stream was cut off */
};

struct sr_rx {
	enum sr_rx_state state;
	bool end;		/* END{end_at} came by the link; void after a RESUME */
	bool tcp_over;		/* LINK: FIN or RST came by TCP */
	bool whole;		/* tcp_over by FIN, and the link has all that was
				 * sent */
	uint32_t seen;		/* marks verified */
	uint32_t link_no;	/* EXPECT, LINK: the link */
	uint64_t next_link;	/* links with lower numbers are over (proven ones) */
	uint64_t rx;		/* bytes the program has taken: the caller counts the ring's */
	uint64_t n;		/* EXPECT: N */
	uint64_t m;		/* a FIN below this is no end of file */
	uint64_t dup;		/* duplicates still to be dropped */
	uint64_t end_at;
	unsigned part;		/* bytes held of a mark or record */
	uint8_t mark[SR_RECORD_LEN];	/* EXPECT: the mark that must come */
	uint8_t held[SR_RECORD_LEN];	/* LINK, EOF: record so far */
};

void sr_rx_init(struct sr_rx *rx);

/* How many bytes may be read from TCP at once, so that no byte is read before the
 * state says what it is: RAW any number (SIZE_MAX), EXPECT up to N or the rest of
 * the mark, LINK the rest of one record, RESET 0; EOF as LINK, if END came by the
 * link, else as RAW. */
size_t sr_rx_limit(const struct sr_rx *rx);

/* True if the next TCP bytes are a record or should be the mark.  They must not
 * be left where the program would read them. */
bool sr_rx_at_mark(const struct sr_rx *rx);

/* in[0, len) was peeked from TCP where a mark is due (sr_rx_at_mark()).  If these
 * bytes are not the beginning of the mark, they are the program's and may stay in
 * TCP: the state becomes RAW, and SR_DO_DROP is returned.  Otherwise returns 0, and
 * the caller reads them and passes them to sr_rx_tcp(). */
unsigned sr_rx_peek(struct sr_rx *rx, const uint8_t *in, size_t len);

/* The sender has said that it gave the switch up and wrote no mark: EXPECT -> RAW, unless
 * bytes are held that may begin the mark. */
void sr_rx_unmarked(struct sr_rx *rx);

/*
 * len bytes came from TCP.  Writes the program's bytes to out, in order, and
 * counts them as taken (rx->rx); strips duplicates, marks and RESUME records.  Any
 * mixture may be in one buffer, even a mark, a RESUME and the program's bytes,
 * because a thread may have slept in recv() when the switch came.  out has room for
 * len + part bytes; it may be `in` if part is 0 (then no byte moves right).
 * *todo: SR_DO_DROP if the mark did not match, or a RESUME ended the link.  Returns
 * the number of bytes in out; or -EPROTO, and the state is RESET: the bytes cannot
 * be a record, a RESUME has a > rx or m < rx, or bytes follow the end of file.
 */
ssize_t sr_rx_tcp(struct sr_rx *rx, const uint8_t *in, size_t len,
		  uint8_t *out, unsigned *todo);

/*
 * TCP brought a FIN (reset false) or an RST (true).  h: bytes received, including
 * those in the ring.  whole: the sender's program has sent no more than h, even if
 * it was killed (shared memory outlives the process that wrote it).  Held bytes that
 * turn out to be the program's go to out[SR_RECORD_LEN]; returns their number.
 * RAW and EXPECT: the state becomes EOF or RESET at once.  LINK: only noted in
 * tcp_over; sr_rx_settle() decides when the ring is empty.  RAW below m: the sender
 * ended while it was resending; if the link is whole, the ring still has all bytes,
 * and the state becomes LINK again.
 */
size_t sr_rx_fin(struct sr_rx *rx, bool reset, bool whole, uint64_t h, uint8_t *out);

/* SWITCH came on link sw->link_no.  token: ours, from our hello on that link.
 * proven: that link's peer has proven that it knows the history.  Returns
 * SR_DO_ACKSW, SR_DO_DROP or SR_DO_LATER.  If this SWITCH displaces an earlier one,
 * the bytes held as the beginning of the earlier mark are the program's: *n bytes
 * in out[SR_RECORD_LEN]. */
unsigned sr_rx_switch(struct sr_rx *rx, const struct sr_switch *sw,
		      const uint8_t token[SR_TOKEN_LEN], bool proven,
		      uint8_t *out, size_t *n);

/* END{length} on the link in use; h bytes have arrived.  0 or -EPROTO. */
int sr_rx_end(struct sr_rx *rx, uint64_t length, uint64_t h);

/* How many of the ring's bytes (up to h) the program may have now. */
uint64_t sr_rx_ready(const struct sr_rx *rx, uint64_t h);

/* Decides whether the direction is over.  Call it when rx or h has changed, or END or
 * TCP's end has come.  In LINK, with the ring empty: after END -> EOF with
 * SR_DO_ACKEND; after TCP's end without END -> RESET, or EOF if the link was whole. */
unsigned sr_rx_settle(struct sr_rx *rx, uint64_t h);

#endif
