/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * wire.h - what the two ends exchange: link messages, the records on TCP, and
 * the name of a TCP connection in a rendezvous request.  All integers are in
 * network byte order.  sockrail-protocol(7) shows every field with its offset;
 * tests/unit/wire.c compares that page with the structs.  Pure: no I/O, no
 * state.  Decoders check everything that can be checked without knowing the
 * stream; the caller checks the rest.
 */
#ifndef SR_WIRE_H
#define SR_WIRE_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "pure/pake.h"
#include "pure/switch.h"

#define SR_WIRE_VERSION 6
#define SR_MSG_MAX 128		/* an encoded message never exceeds this */
#define SR_NAME_LEN 44		/* encoded struct sr_name */

enum sr_msg_type {
	SR_MSG_HELLO = 1,
	SR_MSG_PROOF,		/* a tag of the key; the asker sends its own first */
	SR_MSG_SWITCH,
	SR_MSG_ACKSW,
	SR_MSG_END,
	SR_MSG_ACKEND,
	SR_MSG_ACK,		/* header only: credit */
	SR_MSG_PROBE,		/* header only: asks for an ACK */
	SR_MSG_DATA,		/* verbs: len bytes were written before this */
	SR_MSG_RING,		/* a new receive ring for the sender to use */
	SR_MSG_RING_USE,	/* the sender uses ring gen from offset on */
	SR_MSG_SHARE,		/* of the key that PROOF is about */
	SR_MSG_BYTES,		/* verbs: bytes of the stream, in a packet only (packet.h) */
};

enum sr_role { SR_ROLE_ASKER = 1, SR_ROLE_ANSWERER = 2 };

/* The place of a verbs receive ring.  All zero on shm. */
struct sr_ring_ref {
	uint64_t addr;
	uint32_t rkey;
	uint32_t size;		/* bytes, a power of two */
	uint32_t gen;		/* 0 in the hello, then counting up */
};

struct sr_hello {
	uint8_t version, role;
	uint32_t link_no;
	uint8_t token[SR_TOKEN_LEN];	/* chosen by the hello's sender */
	uint64_t tx_have, rx_have;	/* history.h: offsets that it can prove */
	struct sr_ring_ref ring;
	uint8_t proves;		/* 1: SHARE and PROOF can follow */
};

struct sr_msg {
	enum sr_msg_type type;
	uint64_t ack;		/* bytes the sender's own program has taken */
	union {
		struct sr_hello hello;
		uint8_t share[SR_SHARE_LEN];	/* SHARE */
		uint8_t tag[SR_TAG_LEN];	/* PROOF */
		struct sr_switch sw;		/* SWITCH */
		uint32_t len;			/* DATA */
		uint64_t end;			/* END */
		struct sr_ring_ref ring;	/* RING */
		struct {
			uint64_t offset;
			uint32_t gen;
		} use;				/* RING_USE */
	};
};

/* Encodes into buf[SR_MSG_MAX]; returns the length in bytes. */
size_t sr_msg_encode(const struct sr_msg *msg, uint8_t *buf);

/* Returns 0, or -EPROTO: the type, length, version, role, or a reserved field
 * is wrong, or a ring's size is not a power of two. */
int sr_msg_decode(struct sr_msg *msg, const uint8_t *buf, size_t len);

/* The same of a body alone, for packets (packet.h): its length; and what sr_msg_decode()
 * checks of it.  The decoded message has no ack. */
size_t sr_msg_body_len(enum sr_msg_type type);
void sr_msg_body_encode(const struct sr_msg *msg, uint8_t *body);
int sr_msg_body_decode(struct sr_msg *msg, unsigned type, const uint8_t *body, size_t len);

/* A TCP connection as the connecting side sees it.  IPv4-mapped IPv6 addresses
 * become IPv4, so that both ends use the same name. */
struct sr_name {
	uint32_t link_no;
	uint8_t family;		/* AF_INET, AF_INET6 */
	uint16_t sport, dport;	/* host order; connecting side, accepting side */
	uint8_t saddr[16], daddr[16];	/* AF_INET: first 4 bytes, rest zero */
};

/* Returns 0, or -EAFNOSUPPORT.  src: connecting side; dst: accepting side. */
int sr_name_make(struct sr_name *name, const struct sockaddr *src,
		 const struct sockaddr *dst, uint32_t link_no);
/* The addresses that the name was made of, without an interface. */
void sr_name_addresses(const struct sr_name *name, struct sockaddr_storage *src,
		       struct sockaddr_storage *dst);
void sr_name_encode(const struct sr_name *name, uint8_t buf[SR_NAME_LEN]);
int sr_name_decode(struct sr_name *name, const uint8_t *buf, size_t len);
/* Do both lead from the same host to the same host and port? */
bool sr_name_same_way(const struct sr_name *a, const struct sr_name *b);
/* Compares connections; link_no does not count. */
bool sr_name_equal(const struct sr_name *a, const struct sr_name *b);

/* The records on TCP. */
void sr_mark_make(uint8_t rec[SR_RECORD_LEN], uint32_t link_no,
		  const uint8_t token[SR_TOKEN_LEN]);
void sr_resume_make(uint8_t rec[SR_RECORD_LEN], uint64_t a, uint64_t m);
/* Does a RESUME begin with these, its first len bytes? */
bool sr_resume_begins(const uint8_t *rec, size_t len);
int sr_resume_parse(const uint8_t rec[SR_RECORD_LEN], uint64_t *a,
		    uint64_t *m);	/* 0 or -EPROTO */

#endif
