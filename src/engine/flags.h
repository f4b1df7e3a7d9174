/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * flags.h - sr_stream.flags: what is known of a socket, and of the connection that it has.  What a
 * listener alone has is in sr_listener.flags (listener.h).
 *
 * Both kinds are in one word, because some decisions need one look at both (a listener that has
 * been closed, say), and because a socket gets options before listen(2) or connect(2) says what it
 * is for.
 */
#ifndef SR_ENGINE_FLAGS_H
#define SR_ENGINE_FLAGS_H

/* Of any socket. */
#define SR_ST_OF_SOCKET(F) \
	F(LISTEN) /* it is a listener's (listener.h) */ \
	F(BARRED) /* it gets no link any more; nor do streams that it accepts, */ \
	F(BARRED_ALONE) /* unless the cause is a set that it is in */ \
	F(CLOSING) /* the program has closed it */ \
	F(SHARED) /* a process that we do not count may hold it */ \
	F(HEIR) /* the parent process made it */ \
	F(PAUSED) /* sr_owners_pause() */

/* The same; an accepted stream inherits these from its listener's socket. */
#define SR_ST_OF_OPTIONS(F) \
	F(CORK) /* TCP_CORK is set */ \
	F(STAMPS) /* SO_TIMESTAMP or the like was set */ \
	F(INQ) /* TCP_INQ is set */ \
	F(TX_HISTORY) /* rare->out is not continued any more */ \
	F(RX_HISTORY) /* rare->in is not continued any more */

/* Of a connection.  Nothing depends on what they are of a listener's socket. */
#define SR_ST_OF_CONNECTION(F) \
	F(CONNECT) /* our process connected: we ask for links */ \
	F(ACCEPT) /* our process accepted: we answer */ \
	F(FRESH) /* connect() may not have finished yet */ \
	F(NAMED) /* local and peer addresses are known */ \
	F(USED) /* the program sent, received or waited on it */ \
	F(ANSWERED) /* ACCEPT: its process answers for it, or will */ \
	F(OVER) /* ACCEPT: its listener counts it no more */ \
	F(WAITED) /* policy wait: the first call has waited */ \
	F(UNHELD) /* policy wait: it goes on without a link, as eager */ \
	F(KEEPALIVE) /* it is on, and the program has it off */ \
	F(RDSHUT) /* the program called shutdown(SHUT_RD) */ \
	F(HALF) /* the program has ended its direction */ \
	F(PEER_END) /* the peer's end arrived on a link */ \
	F(SECOND) /* CLOSING began after PEER_END */ \
	F(ENDED) /* its report line was begun */ \
	F(REPORTED) /* its report line is written */

/* SR_ST_CONNECT and so on.  The list numbers them, so no two have the same bit. */
#define SR_ST_FLAGS(F) SR_ST_OF_SOCKET(F) SR_ST_OF_OPTIONS(F) SR_ST_OF_CONNECTION(F)

enum sr_st_bit {
#define SR_ST_BIT(name) SR_ST_BIT_##name,
	SR_ST_FLAGS(SR_ST_BIT)
#undef SR_ST_BIT
};

enum {
#define SR_ST_FLAG(name) SR_ST_##name = 1 << SR_ST_BIT_##name,
	SR_ST_FLAGS(SR_ST_FLAG)
#undef SR_ST_FLAG
#define SR_ST_OR(name) | SR_ST_##name
	SR_ST_INHERITED = 0 SR_ST_OF_OPTIONS(SR_ST_OR),
#undef SR_ST_OR
};

#endif
