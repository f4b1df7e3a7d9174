/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * wire_layout.h - every field on the wire, with its offset.  For wire.c and its
 * test only; the rest of the library uses the decoded structs of wire.h.
 * sockrail-protocol(7) has one table for each WIRE_ list.
 */
#ifndef SR_WIRE_LAYOUT_H
#define SR_WIRE_LAYOUT_H

/*
 * F(field, offset, size in bytes).  X is the same for what is on the wire but is not
 * a member of the decoded struct.  A field of up to 8 bytes is a number, a longer one
 * is a string of bytes.
 */
#define WIRE_HEADER(F, X)                                                      \
	X(type, 0, 1)                                                          \
	X(zero, 1, 3)                                                          \
	F(ack, 4, 8)

#define WIRE_RING(F)                                                           \
	F(addr, 0, 8)                                                          \
	F(rkey, 8, 4)                                                          \
	F(size, 12, 4)                                                         \
	F(gen, 16, 4)

#define WIRE_HELLO(F, X)                                                       \
	F(version, 0, 1)                                                       \
	F(role, 1, 1)                                                          \
	X(zero, 2, 2)                                                          \
	F(link_no, 4, 4)                                                       \
	F(token, 8, 16)                                                        \
	F(tx_have, 24, 8)                                                      \
	F(rx_have, 32, 8)                                                      \
	X(ring, 40, 20)                                                        \
	F(proves, 60, 1)                                                       \
	X(zero, 61, 3)

#define WIRE_SHARE(F) F(share, 0, 32)

#define WIRE_PROOF(F) F(tag, 0, 32)

#define WIRE_SWITCH(F, X)                                                      \
	F(n, 0, 8)                                                             \
	F(marks, 8, 4)                                                         \
	F(link_no, 12, 4)                                                      \
	X(first, 16, 1)                                                        \
	X(zero, 17, 3)

#define WIRE_END(F) F(length, 0, 8)

#define WIRE_DATA(F) F(len, 0, 4)

#define WIRE_RING_USE(F)                                                       \
	F(offset, 0, 8)                                                        \
	F(gen, 8, 4)

#define WIRE_NAME(F, X)                                                        \
	X(magic, 0, 2)                                                         \
	X(version, 2, 1)                                                       \
	X(family, 3, 1)                                                        \
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

#define WIRE_RESUME(F, X)                                                      \
	F(magic, 0, 8)                                                         \
	F(a, 8, 8)                                                             \
	F(m, 16, 8)                                                            \
	X(zero, 24, 8)

#endif
