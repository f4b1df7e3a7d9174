/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * switch.h - how one direction of a stream moves between TCP and a link.
 *
 * The two state machines of sockrail-protocol(7), as in tests/model/switch.pml:
 * struct sr_tx is the sender S, struct sr_rx the receiver R.  Pure: no I/O, no
 * locks, no allocation, no globals.  The caller serialises calls on one object
 * (the engine holds the direction's lock), does what the SR_DO_ bits ask for,
 * and moves the bytes.
 *
 * Offsets count the direction's program bytes from 0 and never wrap (64 bits).
 */
#ifndef SR_SWITCH_H
#define SR_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SR_RECORD_LEN 32	/* length of a mark or a RESUME record */
#define SR_TOKEN_LEN 16

/* The first byte of a mark.  These do not occur in UTF-8 and are rare in other data: a
 * byte that a program sends at N after an attempt came to nothing is held back only if
 * it looks like the mark's first. */
#define SR_MARK_FIRST 0xf5
#define SR_MARK_FIRST_OTHER 0xf6

/* What the caller has to do after an event. */
enum {
	SR_DO_FIN = 1 << 0,	/* shutdown(SHUT_WR) of the anchor */
	SR_DO_END = 1 << 1,	/* send END{w} on the link */
	SR_DO_RESUME = 1 << 2,	/* write tx->record to TCP, whole, then resend */
	SR_DO_ACKSW = 1 << 3,	/* send ACKSW on the link that sent SWITCH */
	SR_DO_ACKEND = 1 << 4,	/* send ACKEND on the link */
	SR_DO_DROP = 1 << 5,	/* give up the link that the event is about */
	SR_DO_LATER = 1 << 6,	/* keep the message, and offer it again on progress */
};

/* ---- sender ---- */

enum sr_tx_state {
	SR_TX_RAW,	/* bytes go to TCP as they are */
	SR_TX_WAIT,	/* SWITCH sent; no byte is taken */
	SR_TX_LINK,	/* bytes go by the link */
	SR_TX_RESEND,	/* RESUME is being or was written; [at, w) follow */
	SR_TX_DONE,	/* TCP's FIN is sent or due */
};

struct sr_tx {
	enum sr_tx_state state;
	bool acked;		/* WAIT: ACKSW came, the mark may be written */
	bool ended;		/* the program ended its direction */
	bool end_sent;		/* END went by the link */
	uint32_t marks;		/* marks written to TCP */
	uint64_t w;		/* bytes taken from the program */
	uint64_t n;		/* WAIT, LINK: N of this link */
	uint64_t base;		/* taken by the peer's program, as far as known */
	uint64_t at;		/* RESEND: the next byte for TCP */
	uint8_t record[SR_RECORD_LEN]; /* WAIT: the mark; RESEND: RESUME */
};

/* A SWITCH message. */
struct sr_switch {
	uint64_t n;		/* the offset N of the first byte on the link */
	uint32_t marks;		/* marks the sender has written before */
	uint32_t link_no;
	uint8_t first;		/* first byte of the mark (hole 10) */
};

void sr_tx_init(struct sr_tx *tx);

/* The program's n bytes were put on TCP (RAW) or the link (LINK). */
void sr_tx_took(struct sr_tx *tx, uint64_t n);

/* RAW -> WAIT.  token: the one that the receiver chose in its hello.  avoid:
 * the program's next byte, or -1; the mark will not begin with it.  Returns 0
 * and fills in *out; -EAGAIN if the direction is not RAW; -EPIPE if the program
 * has ended it. */
int sr_tx_want(struct sr_tx *tx, uint32_t link_no,
	       const uint8_t token[SR_TOKEN_LEN], int avoid,
	       struct sr_switch *out);

/* ACKSW arrived.  From now on tx->record may be written; a late one is void. */
void sr_tx_acksw(struct sr_tx *tx);

/* The whole mark is in TCP: WAIT -> LINK.  Returns SR_DO_END if due. */
unsigned sr_tx_marked(struct sr_tx *tx);

/* The link is dead, refused, too late, or the sender switches back.
 * WAIT -> RAW: SR_DO_DROP, with SR_DO_FIN if the program had ended.
 * LINK -> RESEND: SR_DO_DROP | SR_DO_RESUME.  Other states: 0.
 * Never called between "ACKSW" and "mark partly written": a mark is written in
 * one piece or not at all. */
unsigned sr_tx_leave(struct sr_tx *tx);

/* ACK{n}.  Returns 0, or -EPROTO unless base <= n <= w (LINK; otherwise
 * ignored).  Also ignores n below the link's N: a peer that has not read all
 * raw bytes yet has such an n in the header of every message. */
int sr_tx_ack(struct sr_tx *tx, uint64_t n);

/* The program ends its direction.  RAW: SR_DO_FIN -> DONE.  LINK: SR_DO_END
 * once.  WAIT, RESEND: remembered.  Second call: 0. */
unsigned sr_tx_end(struct sr_tx *tx);

/* The process that received by this link has ended, and TCP with it: nobody
 * reads a RESUME, and bytes that its program had not taken are lost as in a
 * socket's queue.  LINK -> RAW, or DONE with SR_DO_FIN. */
unsigned sr_tx_gone(struct sr_tx *tx);

/* ACKEND arrived: LINK -> DONE with SR_DO_FIN; *err = -EPROTO if no END. */
unsigned sr_tx_ackend(struct sr_tx *tx, int *err);

/*
 * RESUME and n more bytes from `at` on are in TCP.  When `at` reaches w: RESEND
 * -> RAW, or DONE with SR_DO_FIN.
 */
unsigned sr_tx_resent(struct sr_tx *tx, uint64_t n);

/* ---- receiver ---- */

enum sr_rx_state {
	SR_RX_RAW,	/* TCP carries program bytes */
	SR_RX_EXPECT,	/* N is known: raw below N, then the mark */
	SR_RX_LINK,	/* the mark came: the ring's bytes count, TCP carries records */
	SR_RX_EOF,	/* the end was reported to the program, or may be */
	SR_RX_RESET,	/* the stream was cut off */
};

struct sr_rx {
	enum sr_rx_state state;
	bool proven;		/* the expected link has proven the history */
	bool end;		/* END{end_at} came by the link; void after a RESUME */
	bool tcp_over;		/* LINK: FIN or RST came by TCP */
	bool whole;		/* tcp_over by FIN, and the link has all that was
				 * sent */
	uint32_t seen;		/* marks verified */
	uint32_t link_no;	/* EXPECT, LINK: the link */
	uint64_t next_link;	/* links with lower numbers are over (proven ones) */
	uint64_t rx;		/* bytes the program has taken */
	uint64_t n;		/* EXPECT: N */
	uint64_t m;		/* a FIN below this is no end of file */
	uint64_t dup;		/* duplicates still to be dropped */
	uint64_t end_at;
	unsigned part;		/* bytes held of a mark or record */
	uint8_t mark[SR_RECORD_LEN];	/* EXPECT: the mark that must come */
	uint8_t held[SR_RECORD_LEN];	/* LINK, EOF: record so far */
};

void sr_rx_init(struct sr_rx *rx);

/* How many bytes may be read from TCP at once, so that nothing is read beyond
 * what the state can classify: RAW any (SIZE_MAX), EXPECT up to N or the rest
 * of the mark, LINK and EOF the rest of one record, RESET 0. */
size_t sr_rx_limit(const struct sr_rx *rx);

/* True if the next TCP bytes are a record or should be the mark.  They must not
 * be left where the program would read them. */
bool sr_rx_at_mark(const struct sr_rx *rx);

/* in[0, len) was peeked from TCP at a mark (sr_rx_at_mark()).  If it does not
 * begin the mark, all of it is the program's and may stay in TCP, state RAW:
 * returns SR_DO_DROP.  Otherwise returns 0: read it, and pass it to
 * sr_rx_tcp(). */
unsigned sr_rx_peek(struct sr_rx *rx, const uint8_t *in, size_t len);

/* The sender has said that it gave the switch up without a mark: EXPECT -> RAW, unless
 * bytes are held. */
void sr_rx_unmarked(struct sr_rx *rx);

/*
 * len bytes came from TCP.  Writes the program's bytes to out, in order, and
 * counts them as taken (rx->rx); strips duplicates, marks and records.  Handles
 * any mixture, also mark, RESUME and raw bytes in one buffer (of a thread that
 * slept in recv() when the switch came).  out holds len + part bytes; it may be
 * `in` if part is 0 (then no byte moves right).  *todo: SR_DO_DROP (the mark
 * did not match, or a RESUME ended the link).  Returns the number of bytes in
 * out; -EPROTO if a record is malformed, if a RESUME has a > rx or m < rx, or
 * if it comes where none may (state RESET then).
 */
ssize_t sr_rx_tcp(struct sr_rx *rx, const uint8_t *in, size_t len,
		  uint8_t *out, unsigned *todo);

/*
 * FIN (reset false) or RST (true) on TCP.  h: bytes received, including the
 * ring's.  whole: h is all that the sender's program had sent, even if it was
 * killed (shared memory outlives its writer).  Writes held bytes that turn out
 * to be the program's to out[SR_RECORD_LEN] and returns their number.  RAW and
 * EXPECT: the state becomes EOF or RESET at once.  LINK: notes tcp_over;
 * sr_rx_settle() decides when the ring is empty.  RAW below m: LINK again if
 * whole, as the sender ended while it resent bytes that the ring still has.
 */
size_t sr_rx_fin(struct sr_rx *rx, bool reset, bool whole, uint64_t h, uint8_t *out);

/* SWITCH on link sw->link_no.  token: ours, from our hello on that link.
 * proven: that link's peer has proven that it knows the history.  Returns
 * SR_DO_ACKSW, SR_DO_DROP or SR_DO_LATER.  If a pending expectation gives way,
 * bytes held for it are the program's: in out[SR_RECORD_LEN], *n. */
unsigned sr_rx_switch(struct sr_rx *rx, const struct sr_switch *sw,
		      const uint8_t token[SR_TOKEN_LEN], bool proven,
		      uint8_t *out, size_t *n);

/* For a dropped SWITCH: did its sender give it up before we handled it?  Then
 * the sender has sent on by TCP, beyond N. */
bool sr_rx_passed(const struct sr_rx *rx, const struct sr_switch *sw);

/* END{length} on the link in use; h bytes have arrived.  0 or -EPROTO. */
int sr_rx_end(struct sr_rx *rx, uint64_t length, uint64_t h);

/* How many of the ring's bytes (up to h) the program may have now. */
uint64_t sr_rx_ready(const struct sr_rx *rx, uint64_t h);

/* The program took n bytes of the ring. */
void sr_rx_took(struct sr_rx *rx, uint64_t n);

/* Decides whether the direction is over.  Call it after rx, h, END or TCP's end
 * has changed.  LINK with the ring empty: END -> EOF with SR_DO_ACKEND; TCP
 * over without END -> RESET, or EOF if the link was whole. */
unsigned sr_rx_settle(struct sr_rx *rx, uint64_t h);

#endif
