/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * wire_layout.h - every field on the wire, with its offset.  For wire.c and its
 * test only; the rest of the library uses the decoded structs of wire.h.
 * sockrail-protocol(7) has one table for each WIRE_ list.
 */
#ifndef SR_WIRE_LAYOUT_H
#define SR_WIRE_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "pure/wire.h"

/* F(field, offset, size in bytes) */
#define WIRE_HEADER(F)                                                         \
	F(type, 0, 1)                                                          \
	F(zero, 1, 1)                                                          \
	F(slots, 2, 2)                                                         \
	F(ack, 4, 8)

#define WIRE_RING(F)                                                           \
	F(addr, 0, 8)                                                          \
	F(rkey, 8, 4)                                                          \
	F(size, 12, 4)                                                         \
	F(gen, 16, 4)

#define WIRE_HELLO(F)                                                          \
	F(version, 0, 1)                                                       \
	F(role, 1, 1)                                                          \
	F(slots, 2, 2)                                                         \
	F(link_no, 4, 4)                                                       \
	F(token, 8, 16)                                                        \
	F(tx_have, 24, 8)                                                      \
	F(rx_have, 32, 8)                                                      \
	F(ring, 40, 20)

#define WIRE_PROOF(F) F(digest, 0, 32)

#define WIRE_SWITCH(F)                                                         \
	F(n, 0, 8)                                                             \
	F(marks, 8, 4)                                                         \
	F(link_no, 12, 4)                                                      \
	F(first, 16, 1)                                                        \
	F(zero, 17, 3)

#define WIRE_END(F) F(length, 0, 8)

#define WIRE_DATA(F) F(len, 0, 4)

#define WIRE_RING_USE(F)                                                       \
	F(offset, 0, 8)                                                        \
	F(gen, 8, 4)

#define WIRE_NAME(F)                                                           \
	F(magic, 0, 2)                                                         \
	F(version, 2, 1)                                                       \
	F(family, 3, 1)                                                        \
	F(sport, 4, 2)                                                         \
	F(dport, 6, 2)                                                         \
	F(link_no, 8, 4)                                                       \
	F(saddr, 12, 16)                                                       \
	F(daddr, 28, 16)

#define WIRE_MARK(F)                                                           \
	F(first, 0, 1)                                                         \
	F(magic, 1, 11)                                                        \
	F(link_no, 12, 4)                                                      \
	F(token, 16, 16)

#define WIRE_RESUME(F)                                                         \
	F(magic, 0, 8)                                                         \
	F(a, 8, 8)                                                             \
	F(m, 16, 8)                                                            \
	F(zero, 24, 8)

#define WIRE_BYTES(field, offset, size) uint8_t field[size];

struct wire_header {
	WIRE_HEADER(WIRE_BYTES)
};
struct wire_ring {
	WIRE_RING(WIRE_BYTES)
};
struct wire_hello {
	uint8_t version[1], role[1], slots[2], link_no[4];
	uint8_t token[SR_TOKEN_LEN];
	uint8_t tx_have[8], rx_have[8];
	struct wire_ring ring;
};
struct wire_proof {
	WIRE_PROOF(WIRE_BYTES)
};
struct wire_switch {
	WIRE_SWITCH(WIRE_BYTES)
};
struct wire_end {
	WIRE_END(WIRE_BYTES)
};
struct wire_data {
	WIRE_DATA(WIRE_BYTES)
};
struct wire_ring_use {
	WIRE_RING_USE(WIRE_BYTES)
};
struct wire_name {
	WIRE_NAME(WIRE_BYTES)
};
struct wire_mark {
	WIRE_MARK(WIRE_BYTES)
};
struct wire_resume {
	WIRE_RESUME(WIRE_BYTES)
};

union wire_body {
	struct wire_hello hello;
	struct wire_proof proof;
	struct wire_switch sw;
	struct wire_end end;
	struct wire_data data;
	struct wire_ring ring;
	struct wire_ring_use use;
	uint8_t bytes[SR_MSG_BYTES_MAX];
};

#define WIRE_AT(type, field, offset, size)                                     \
	static_assert(offsetof(struct type, field) == (offset) &&              \
			      sizeof(((struct type *)0)->field) == (size),     \
		      #type "." #field);
#define AT_HEADER(f, o, s) WIRE_AT(wire_header, f, o, s)
#define AT_RING(f, o, s) WIRE_AT(wire_ring, f, o, s)
#define AT_HELLO(f, o, s) WIRE_AT(wire_hello, f, o, s)
#define AT_PROOF(f, o, s) WIRE_AT(wire_proof, f, o, s)
#define AT_SWITCH(f, o, s) WIRE_AT(wire_switch, f, o, s)
#define AT_END(f, o, s) WIRE_AT(wire_end, f, o, s)
#define AT_DATA(f, o, s) WIRE_AT(wire_data, f, o, s)
#define AT_RING_USE(f, o, s) WIRE_AT(wire_ring_use, f, o, s)
#define AT_NAME(f, o, s) WIRE_AT(wire_name, f, o, s)
#define AT_MARK(f, o, s) WIRE_AT(wire_mark, f, o, s)
#define AT_RESUME(f, o, s) WIRE_AT(wire_resume, f, o, s)

WIRE_HEADER(AT_HEADER)
WIRE_RING(AT_RING)
WIRE_HELLO(AT_HELLO)
WIRE_PROOF(AT_PROOF)
WIRE_SWITCH(AT_SWITCH)
WIRE_END(AT_END)
WIRE_DATA(AT_DATA)
WIRE_RING_USE(AT_RING_USE)
WIRE_NAME(AT_NAME)
WIRE_MARK(AT_MARK)
WIRE_RESUME(AT_RESUME)

static_assert(sizeof(struct wire_header) + sizeof(union wire_body) <=
		      SR_MSG_MAX,
	      "SR_MSG_MAX");
static_assert(sizeof(struct wire_hello) == 60, "hello");
static_assert(sizeof(struct wire_name) == SR_NAME_LEN, "name");
static_assert(sizeof(struct wire_mark) == SR_RECORD_LEN, "mark");
static_assert(sizeof(struct wire_resume) == SR_RECORD_LEN, "RESUME");

#endif
