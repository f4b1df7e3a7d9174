/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * wire.c - encodes and decodes messages, records and names.  The structs
 * consist of byte arrays only: no padding, no alignment, no byte order of the
 * host.  sockrail-protocol(7) shows them; tests/unit/wire.c compares.  Pure: no
 * I/O, no locks, no knowledge of streams or links.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/addr.h"
#include "pure/wire.h"
#include "pure/wire_layout.h"

static void put16(uint8_t b[2], uint16_t v)
{
	b[0] = (uint8_t)(v >> 8);
	b[1] = (uint8_t)v;
}

static void put32(uint8_t b[4], uint32_t v)
{
	put16(b, (uint16_t)(v >> 16));
	put16(b + 2, (uint16_t)v);
}

static void put64(uint8_t b[8], uint64_t v)
{
	put32(b, (uint32_t)(v >> 32));
	put32(b + 4, (uint32_t)v);
}

static uint16_t get16(const uint8_t b[2])
{
	return (uint16_t)(b[0] << 8 | b[1]);
}

static uint32_t get32(const uint8_t b[4])
{
	return (uint32_t)get16(b) << 16 | get16(b + 2);
}

static uint64_t get64(const uint8_t b[8])
{
	return (uint64_t)get32(b) << 32 | get32(b + 4);
}

static bool all_zero(const void *buf, size_t len)
{
	const uint8_t *b = buf;

	while (len && !*b)
		b++, len--;
	return !len;
}

/* ---- messages ---- */

static const struct {
	const char *name;
	size_t body;
} kinds[] = {
	[SR_MSG_HELLO] = {"HELLO", sizeof(struct wire_hello)},
	[SR_MSG_PROOF] = {"PROOF", sizeof(struct wire_proof)},
	[SR_MSG_SWITCH] = {"SWITCH", sizeof(struct wire_switch)},
	[SR_MSG_ACKSW] = {"ACKSW", 0},
	[SR_MSG_END] = {"END", sizeof(struct wire_end)},
	[SR_MSG_ACKEND] = {"ACKEND", 0},
	[SR_MSG_ACK] = {"ACK", 0},
	[SR_MSG_PROBE] = {"PROBE", 0},
	[SR_MSG_DATA] = {"DATA", sizeof(struct wire_data)},
	[SR_MSG_RING] = {"RING", sizeof(struct wire_ring)},
	[SR_MSG_RING_USE] = {"RING_USE", sizeof(struct wire_ring_use)},
	[SR_MSG_BACK] = {"BACK", 0},
	[SR_MSG_BYTES] = {"BYTES", SR_MSG_BYTES_MAX}, /* at most */
	[SR_MSG_DRAIN] = {"DRAIN", 0},
};

static bool kind_known(unsigned type)
{
	return type < sizeof(kinds) / sizeof(kinds[0]) && kinds[type].name;
}

const char *sr_msg_name(enum sr_msg_type type)
{
	return kind_known(type) ? kinds[type].name : "?";
}

static void put_ring(struct wire_ring *w, const struct sr_ring_ref *ring)
{
	put64(w->addr, ring->addr);
	put32(w->rkey, ring->rkey);
	put32(w->size, ring->size);
	put32(w->gen, ring->gen);
}

static void get_ring(struct sr_ring_ref *ring, const struct wire_ring *w)
{
	ring->addr = get64(w->addr);
	ring->rkey = get32(w->rkey);
	ring->size = get32(w->size);
	ring->gen = get32(w->gen);
}

static bool power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

static void put_hello(struct wire_hello *w, const struct sr_hello *hello)
{
	w->version[0] = hello->version;
	w->role[0] = hello->role;
	put16(w->slots, hello->slots);
	put32(w->link_no, hello->link_no);
	memcpy(w->token, hello->token, sizeof(w->token));
	put64(w->tx_have, hello->tx_have);
	put64(w->rx_have, hello->rx_have);
	put_ring(&w->ring, &hello->ring);
}

static int get_hello(struct sr_hello *hello, const struct wire_hello *w)
{
	hello->version = w->version[0];
	hello->role = w->role[0];
	hello->slots = get16(w->slots);
	hello->link_no = get32(w->link_no);
	memcpy(hello->token, w->token, sizeof(w->token));
	hello->tx_have = get64(w->tx_have);
	hello->rx_have = get64(w->rx_have);
	get_ring(&hello->ring, &w->ring);

	if (hello->version != SR_WIRE_VERSION)
		return -EPROTO;
	if (hello->role != SR_ROLE_ASKER && hello->role != SR_ROLE_ANSWERER)
		return -EPROTO;
	if (all_zero(&w->ring, sizeof(w->ring)))
		return 0; /* shm: the ring is in the memfd */
	return power_of_two(hello->ring.size) && !hello->ring.gen ? 0 : -EPROTO;
}

static void put_body(union wire_body *w, const struct sr_msg *msg)
{
	switch (msg->type) {
	case SR_MSG_HELLO:
		put_hello(&w->hello, &msg->hello);
		break;
	case SR_MSG_PROOF:
		memcpy(w->proof.digest, msg->digest, sizeof(msg->digest));
		break;
	case SR_MSG_SWITCH:
		put64(w->sw.n, msg->sw.n);
		put32(w->sw.marks, msg->sw.marks);
		put32(w->sw.link_no, msg->sw.link_no);
		w->sw.first[0] = msg->sw.first;
		break;
	case SR_MSG_END:
		put64(w->end.length, msg->end);
		break;
	case SR_MSG_DATA:
		put32(w->data.len, msg->len);
		break;
	case SR_MSG_BYTES:
		memcpy(w->bytes, msg->bytes.at, msg->bytes.len);
		break;
	case SR_MSG_RING:
		put_ring(&w->ring, &msg->ring);
		break;
	case SR_MSG_RING_USE:
		put64(w->use.offset, msg->use.offset);
		put32(w->use.gen, msg->use.gen);
		break;
	case SR_MSG_ACKSW:
	case SR_MSG_ACKEND:
	case SR_MSG_ACK:
	case SR_MSG_PROBE:
	case SR_MSG_BACK:
	case SR_MSG_DRAIN:
		break;
	}
}

static int get_body(struct sr_msg *msg, const union wire_body *w)
{
	switch (msg->type) {
	case SR_MSG_HELLO:
		return get_hello(&msg->hello, &w->hello);
	case SR_MSG_PROOF:
		memcpy(msg->digest, w->proof.digest, sizeof(msg->digest));
		return 0;
	case SR_MSG_SWITCH:
		msg->sw.n = get64(w->sw.n);
		msg->sw.marks = get32(w->sw.marks);
		msg->sw.link_no = get32(w->sw.link_no);
		msg->sw.first = w->sw.first[0];
		return all_zero(w->sw.zero, sizeof(w->sw.zero)) ? 0 : -EPROTO;
	case SR_MSG_END:
		msg->end = get64(w->end.length);
		return 0;
	case SR_MSG_DATA:
		msg->len = get32(w->data.len);
		return 0;
	case SR_MSG_BYTES:
		memcpy(msg->bytes.at, w->bytes, sizeof(msg->bytes.at));
		return 0;
	case SR_MSG_RING:
		get_ring(&msg->ring, &w->ring);
		return power_of_two(msg->ring.size) && msg->ring.gen ? 0
								     : -EPROTO;
	case SR_MSG_RING_USE:
		msg->use.offset = get64(w->use.offset);
		msg->use.gen = get32(w->use.gen);
		return 0;
	case SR_MSG_ACKSW:
	case SR_MSG_ACKEND:
	case SR_MSG_ACK:
	case SR_MSG_PROBE:
	case SR_MSG_BACK:
	case SR_MSG_DRAIN:
		break;
	}
	return 0;
}

size_t sr_msg_encode(const struct sr_msg *msg, uint8_t *buf)
{
	struct wire_header head = {.type = {(uint8_t)msg->type}};
	union wire_body body;
	size_t len = msg->type == SR_MSG_BYTES ? msg->bytes.len :
						 kinds[msg->type].body;

	put16(head.slots, msg->slots);
	put64(head.ack, msg->ack);
	memset(&body, 0, sizeof(body));
	put_body(&body, msg);
	memcpy(buf, &head, sizeof(head));
	memcpy(buf + sizeof(head), &body, len);
	return sizeof(head) + len;
}

static bool length_fits(unsigned type, size_t body)
{
	if (type == SR_MSG_BYTES)
		return body > 0 && body <= kinds[type].body;
	return body == kinds[type].body;
}

int sr_msg_decode(struct sr_msg *msg, const uint8_t *buf, size_t len)
{
	struct wire_header head;
	union wire_body body;
	struct sr_msg m;
	int err;

	if (len < sizeof(head))
		return -EPROTO;
	memcpy(&head, buf, sizeof(head));
	if (!kind_known(head.type[0]) || head.zero[0])
		return -EPROTO;
	if (!length_fits(head.type[0], len - sizeof(head)))
		return -EPROTO;
	memset(&m, 0, sizeof(m));
	m.type = head.type[0];
	if (m.type == SR_MSG_BYTES)
		m.bytes.len = (uint32_t)(len - sizeof(head));
	m.slots = get16(head.slots);
	m.ack = get64(head.ack);
	memset(&body, 0, sizeof(body));
	memcpy(&body, buf + sizeof(head), len - sizeof(head));
	err = get_body(&m, &body);
	if (!err)
		*msg = m;
	return err;
}

/* ---- names ---- */

static const uint8_t mapped_prefix[12] = {[10] = 0xff, [11] = 0xff};

/* Fills in one end; returns its family, or 0. */
static uint8_t name_end(uint8_t addr[16], uint16_t *port,
			const struct sockaddr *sa)
{
	struct sockaddr_storage plain;
	const void *bytes;
	size_t len;

	sr_addr_plain(&plain, sa);
	bytes = sr_addr_bytes(&plain, &len);
	memset(addr, 0, 16);
	memcpy(addr, bytes, len);
	*port = sr_addr_port((struct sockaddr *)&plain);
	return (uint8_t)plain.ss_family;
}

int sr_name_make(struct sr_name *name, const struct sockaddr *src,
		 const struct sockaddr *dst, uint32_t link_no)
{
	struct sr_name n;
	uint8_t family;

	memset(&n, 0, sizeof(n));
	n.link_no = link_no;
	n.family = name_end(n.saddr, &n.sport, src);
	family = name_end(n.daddr, &n.dport, dst);
	if (!family || n.family != family)
		return -EAFNOSUPPORT;
	*name = n;
	return 0;
}

static void name_address(struct sockaddr_storage *to, uint8_t family,
			 const uint8_t addr[16], uint16_t port)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_port = htons(port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(port) };

	memset(to, 0, sizeof(*to));
	memcpy(&v4.sin_addr, addr, sizeof(v4.sin_addr));
	memcpy(&v6.sin6_addr, addr, sizeof(v6.sin6_addr));
	if (family == AF_INET)
		memcpy(to, &v4, sizeof(v4));
	else
		memcpy(to, &v6, sizeof(v6));
}

void sr_name_addresses(const struct sr_name *name, struct sockaddr_storage *src,
		       struct sockaddr_storage *dst)
{
	name_address(src, name->family, name->saddr, name->sport);
	name_address(dst, name->family, name->daddr, name->dport);
}

void sr_name_encode(const struct sr_name *name, uint8_t buf[SR_NAME_LEN])
{
	struct wire_name w = {
		.magic = {'S', 'R'},
		.version = {SR_WIRE_VERSION},
		.family = {name->family == AF_INET ? 4 : 6},
	};

	put16(w.sport, name->sport);
	put16(w.dport, name->dport);
	put32(w.link_no, name->link_no);
	memcpy(w.saddr, name->saddr, sizeof(w.saddr));
	memcpy(w.daddr, name->daddr, sizeof(w.daddr));
	memcpy(buf, &w, sizeof(w));
}

/* A connection has one name only, so an address is refused that name_end()
 * would not make. */
static bool addr_valid(uint8_t family, const uint8_t addr[16])
{
	if (family == 4)
		return all_zero(addr + 4, 12);
	return memcmp(addr, mapped_prefix, sizeof(mapped_prefix)) != 0;
}

int sr_name_decode(struct sr_name *name, const uint8_t *buf, size_t len)
{
	struct wire_name w;

	/* The CM pads private data, so more may follow. */
	if (len < sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	if (w.magic[0] != 'S' || w.magic[1] != 'R' ||
	    w.version[0] != SR_WIRE_VERSION)
		return -EPROTO;
	if (w.family[0] != 4 && w.family[0] != 6)
		return -EPROTO;
	if (!get16(w.sport) || !get16(w.dport) ||
	    !addr_valid(w.family[0], w.saddr) ||
	    !addr_valid(w.family[0], w.daddr))
		return -EPROTO;
	memset(name, 0, sizeof(*name));
	name->link_no = get32(w.link_no);
	name->family = w.family[0] == 4 ? AF_INET : AF_INET6;
	name->sport = get16(w.sport);
	name->dport = get16(w.dport);
	memcpy(name->saddr, w.saddr, sizeof(w.saddr));
	memcpy(name->daddr, w.daddr, sizeof(w.daddr));
	return 0;
}

bool sr_name_equal(const struct sr_name *a, const struct sr_name *b)
{
	return a->family == b->family && a->sport == b->sport &&
	       a->dport == b->dport &&
	       !memcmp(a->saddr, b->saddr, sizeof(a->saddr)) &&
	       !memcmp(a->daddr, b->daddr, sizeof(a->daddr));
}

/* FNV-1a, 32 bits; the final shift mixes in the high bits, which are better. */
uint32_t sr_name_hash(const struct sr_name *name)
{
	struct sr_name n = *name;
	uint8_t buf[SR_NAME_LEN];
	uint32_t hash = 2166136261U;

	n.link_no = 0;
	sr_name_encode(&n, buf);
	for (size_t i = 0; i < sizeof(buf); i++)
		hash = (hash ^ buf[i]) * 16777619U;
	return hash ^ hash >> 16;
}

/* ---- records on TCP ---- */

static const uint8_t mark_magic[11] = {'s', 'o', 'c', 'k', 'r', 'a',
				       'i', 'l', 'M', 'R', 'K'};
static const uint8_t resume_magic[8] = {'s', 'o', 'c', 'k', 'r', 'l', 'R', 'S'};

void sr_mark_make(uint8_t rec[SR_RECORD_LEN], uint8_t first, uint32_t link_no,
		  const uint8_t token[SR_TOKEN_LEN])
{
	struct wire_mark w = {.first = {first}};

	memcpy(w.magic, mark_magic, sizeof(w.magic));
	put32(w.link_no, link_no);
	memcpy(w.token, token, sizeof(w.token));
	memcpy(rec, &w, sizeof(w));
}

void sr_resume_make(uint8_t rec[SR_RECORD_LEN], uint64_t a, uint64_t m)
{
	struct wire_resume w;

	memset(&w, 0, sizeof(w));
	memcpy(w.magic, resume_magic, sizeof(w.magic));
	put64(w.a, a);
	put64(w.m, m);
	memcpy(rec, &w, sizeof(w));
}

int sr_resume_parse(const uint8_t rec[SR_RECORD_LEN], uint64_t *a, uint64_t *m)
{
	struct wire_resume w;

	memcpy(&w, rec, sizeof(w));
	if (memcmp(w.magic, resume_magic, sizeof(w.magic)) ||
	    !all_zero(w.zero, sizeof(w.zero)) || get64(w.a) > get64(w.m))
		return -EPROTO;
	*a = get64(w.a);
	*m = get64(w.m);
	return 0;
}

/* ---- credit in an immediate ---- */

#define IMM_ACK_UNIT 64
#define IMM_ACK_BITS 20
#define IMM_SLOT_BITS 12

/* How far the low `bits` of a counter have moved on from `known`; 0 if they are
 * behind, as `known` can be newer or finer than the packed value. */
static uint32_t forward(uint64_t known, uint32_t low, unsigned bits)
{
	uint32_t mask = (1U << bits) - 1;
	uint32_t step = (low - (uint32_t)known) & mask;

	return step < 1U << (bits - 1) ? step : 0;
}

uint32_t sr_imm_pack(uint64_t ack, uint32_t slots)
{
	return (uint32_t)(ack / IMM_ACK_UNIT) << IMM_SLOT_BITS |
	       (slots & ((1U << IMM_SLOT_BITS) - 1));
}

void sr_imm_unpack(uint32_t imm, uint64_t *ack, uint32_t *slots)
{
	uint64_t units = *ack / IMM_ACK_UNIT;
	uint32_t step = forward(units, imm >> IMM_SLOT_BITS, IMM_ACK_BITS);

	if (step)
		*ack = (units + step) * IMM_ACK_UNIT;
	*slots += forward(*slots, imm, IMM_SLOT_BITS);
}
