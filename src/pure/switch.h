/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * switch.h - how one direction of a stream moves between TCP and a link: the sender.
 *
 * The two state machines of sockrail-protocol(7), as in tests/model/switch.pml:
 * struct sr_tx is the sender S, struct sr_rx (switch_rx.h) the receiver R.  Pure: no
 * I/O, no locks, no allocation, no globals.  The caller serialises calls on one object
 * (the engine holds the direction's lock), does what the SR_DO_ bits ask for, and moves
 * the bytes.
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

/* The first byte of a mark.  It does not occur in UTF-8 and is rare in other data.  If a
 * switch fails, and the program's next byte happens to be this one, the receiver has to hold
 * it back until it can tell that no mark follows. */
#define SR_MARK_FIRST 0xf5

/* What the caller has to do after an event. */
enum {
	SR_DO_FIN = 1 << 0,	/* shutdown(SHUT_WR) of the anchor */
	SR_DO_END = 1 << 1,	/* send END{w} on the link */
	SR_DO_ACKSW = 1 << 2,	/* send ACKSW on the link that sent SWITCH */
	SR_DO_ACKEND = 1 << 3,	/* send ACKEND on the link */
	SR_DO_DROP = 1 << 4,	/* give up the link that the event is about */
	SR_DO_LATER = 1 << 5,	/* keep the message, and offer it again on progress */
};

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
	uint64_t w;		/* bytes taken from the program: the caller counts */
	uint64_t n;		/* WAIT, LINK: the offset N at which this link begins */
	uint64_t base;		/* taken by the peer's program, as far as known */
	uint64_t at;		/* RESEND: the next byte for TCP */
	uint8_t record[SR_RECORD_LEN]; /* WAIT: the mark; RESEND: RESUME */
};

/* A SWITCH message. */
struct sr_switch {
	uint64_t n;		/* the offset N of the first byte on the link */
	uint32_t marks;		/* marks the sender has written before */
	uint32_t link_no;
};

void sr_tx_init(struct sr_tx *tx);

/* RAW -> WAIT.  token: the one that the receiver chose in its hello.  Returns 0
 * and fills in *out; -EAGAIN if the direction is not RAW; -EPIPE if the program
 * has ended it. */
int sr_tx_want(struct sr_tx *tx, uint32_t link_no, const uint8_t token[SR_TOKEN_LEN],
	       struct sr_switch *out);

/* ACKSW arrived.  In WAIT tx->record may be written from now on; else it is ignored. */
void sr_tx_acksw(struct sr_tx *tx);

/* The whole mark is in TCP: WAIT -> LINK.  Returns SR_DO_END if due. */
unsigned sr_tx_marked(struct sr_tx *tx);

/* The sender gives the link up: it is dead, refused or too late, or the sender
 * switches back.
 * WAIT -> RAW: returns SR_DO_DROP, with SR_DO_FIN if the program has ended the direction.
 * LINK -> RESEND: returns SR_DO_DROP.  The caller writes all of tx->record to TCP, and
 * then sends the bytes [at, w) again.
 * Other states: returns 0.
 * Never called while a mark is partly written: a mark is written in one piece or
 * not at all. */
unsigned sr_tx_leave(struct sr_tx *tx);

/* ACK{n}: the peer's program has taken n bytes.  Ignored in states other than LINK,
 * and below the link's N: a peer that has yet to read bytes from TCP has such an n
 * in the header of each message.  Returns 0, or -EPROTO if n is not in [base, w]. */
int sr_tx_ack(struct sr_tx *tx, uint64_t n);

/* The program ends its direction.  RAW: SR_DO_FIN -> DONE.  LINK: SR_DO_END
 * once.  WAIT, RESEND: remembered.  Second call: 0. */
unsigned sr_tx_end(struct sr_tx *tx);

/* The receiving process has ended, and its end of TCP with it.  Nobody would read
 * a RESUME, and the bytes that its program had not taken are lost, as those in a
 * socket's queue are.  LINK -> RAW, or DONE with SR_DO_FIN. */
unsigned sr_tx_gone(struct sr_tx *tx);

/* ACKEND arrived, after END: LINK -> DONE with SR_DO_FIN. */
unsigned sr_tx_ackend(struct sr_tx *tx);

/*
 * RESUME, and n more bytes from `at` on, have been written to TCP.  When `at`
 * reaches w: RESEND -> RAW, or DONE with SR_DO_FIN.
 */
unsigned sr_tx_resent(struct sr_tx *tx, uint64_t n);

#endif
