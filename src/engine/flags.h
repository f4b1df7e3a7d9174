/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* flags.h - sr_stream.flags: what is known of a stream. */
#ifndef SR_ENGINE_FLAGS_H
#define SR_ENGINE_FLAGS_H

/* SR_ST_CONNECT and so on.  The list numbers them, so no two have the same bit. */
#define SR_ST_FLAGS(F)                                                  \
	F(CONNECT) /* our process connected: we ask for links */        \
	F(ACCEPT) /* our process accepted: we answer */                 \
	F(LISTEN) /* it is a listener's socket (listener.h) */          \
	F(USED) /* the program sent, received or waited on it */        \
	F(BARRED) /* never gets a link again */                         \
	F(NAMED) /* local and peer addresses are known */               \
	F(CLOSING) /* the program has closed it */                      \
	F(RDSHUT) /* the program called shutdown(SHUT_RD) */            \
	F(TX_HISTORY) /* rare->out has stopped */                       \
	F(RX_HISTORY) /* rare->in has stopped */                        \
	F(WAITED) /* policy wait: the first call has waited */          \
	F(ENDED) /* its report line was begun */                        \
	F(CORK) /* TCP_CORK is set */                                   \
	F(FRESH) /* connect() may not have finished yet */              \
	F(REPORTED) /* its report line is written */                    \
	F(STAMPS) /* SO_TIMESTAMP or the like was set */                \
	F(KEEPALIVE) /* it is on, and the program has it off */         \
	F(OVER) /* its listener counts it no more */                    \
	F(SHARED) /* a process that we do not count may hold it */      \
	F(ANSWERED) /* ACCEPT: its process answers for it, or will */   \
	F(HALF) /* the program has ended its direction */               \
	F(PEER_END) /* the peer's end arrived on a link */              \
	F(HEIR) /* the parent process made it */                        \
	F(PAUSED) /* sr_owners_pause() */                               \
	F(INQ) /* TCP_INQ is set */                                     \
	F(SECOND) /* CLOSING began after PEER_END */                    \
	F(UNHELD) /* policy wait: it goes on without a link, as eager */

enum sr_st_bit {
#define SR_ST_BIT(name) SR_ST_BIT_##name,
	SR_ST_FLAGS(SR_ST_BIT)
#undef SR_ST_BIT
};

enum {
#define SR_ST_FLAG(name) SR_ST_##name = 1 << SR_ST_BIT_##name,
	SR_ST_FLAGS(SR_ST_FLAG)
#undef SR_ST_FLAG
};

#endif
