/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * wire.c - encodes and decodes messages, records and names, all by tables of the
 * fields in wire_layout.h.  A decoder encodes its result again and compares: so it
 * refuses a wrong magic, a reserved byte that is set, and any second way to say the
 * same.  Pure: no I/O, no locks, no knowledge of streams or links.
 */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/addr.h"
#include "pure/wire.h"
#include "pure/wire_layout.h"

/* ---- fields ---- */

struct field {
	uint8_t at, size;	/* on the wire */
	uint16_t host;		/* in the decoded struct, where it has the same size */
};

/* An element of a table.  Does not compile if the member has another size. */
#define FIELD(type, member, at, size)                                          \
	{(at), SAME(sizeof(((type *)0)->member), size), offsetof(type, member)},
#define SAME(a, b) ((a) / ((a) == (b)))
#define NONE(field, at, size) /* set elsewhere, or zero */

/* Copies a field in either direction; changes the byte order of numbers (up to 8 bytes). */
static void copy_field(uint8_t *to, const uint8_t *from, size_t size)
{
	if (size > 8 || BYTE_ORDER == BIG_ENDIAN)
		memcpy(to, from, size);
	else
		for (size_t i = 0; i < size; i++)
			to[i] = from[size - 1 - i];
}

/* fields_put() and fields_get(): all fields up to the one without a size, which ends the table. */
static void fields_put(uint8_t *wire, const void *host, const struct field *f)
{
	for (; f->size; f++)
		copy_field(wire + f->at, (const uint8_t *)host + f->host, f->size);
}

static void fields_get(void *host, const uint8_t *wire, const struct field *f)
{
	for (; f->size; f++)
		copy_field((uint8_t *)host + f->host, wire + f->at, f->size);
}

/* ---- messages ---- */

enum { BODY = 12 };

#define HEADER(f, at, size) FIELD(struct sr_msg, f, at, size)
#define HELLO(f, at, size) FIELD(struct sr_msg, hello.f, at, size)
#define HELLO_RING(f, at, size) FIELD(struct sr_msg, hello.ring.f, 40 + at, size)
#define BARE(f, at, size) FIELD(struct sr_msg, f, at, size)
#define SWITCH(f, at, size) FIELD(struct sr_msg, sw.f, at, size)
#define END(f, at, size) FIELD(struct sr_msg, end, at, size)
#define RING(f, at, size) FIELD(struct sr_msg, ring.f, at, size)
#define RING_USE(f, at, size) FIELD(struct sr_msg, use.f, at, size)

static const struct field header[] = { WIRE_HEADER(HEADER, NONE) {0} };
static const struct field hello[] = { WIRE_HELLO(HELLO, NONE) WIRE_RING(HELLO_RING) {0} };
static const struct field share[] = { WIRE_SHARE(BARE) {0} };
static const struct field proof[] = { WIRE_PROOF(BARE) {0} };
static const struct field switch_[] = { WIRE_SWITCH(SWITCH, NONE) {0} };
static const struct field end[] = { WIRE_END(END) {0} };
static const struct field data[] = { WIRE_DATA(BARE) {0} };
static const struct field ring[] = { WIRE_RING(RING) {0} };
static const struct field ring_use[] = { WIRE_RING_USE(RING_USE) {0} };
static const struct field none[] = { {0} };

static const struct {
	const struct field *fields;
	size_t body;		/* bytes */
} kinds[] = {
	[SR_MSG_HELLO] = {hello, 64},
	[SR_MSG_PROOF] = {proof, SR_TAG_LEN},
	[SR_MSG_SWITCH] = {switch_, 20},
	[SR_MSG_ACKSW] = {none, 0},
	[SR_MSG_END] = {end, 8},
	[SR_MSG_ACKEND] = {none, 0},
	[SR_MSG_ACK] = {none, 0},
	[SR_MSG_PROBE] = {none, 0},
	[SR_MSG_DATA] = {data, 4},
	[SR_MSG_RING] = {ring, 20},
	[SR_MSG_RING_USE] = {ring_use, 12},
	[SR_MSG_SHARE] = {share, SR_SHARE_LEN},
};
static_assert(BODY + 64 <= SR_MSG_MAX, "the longest one, HELLO");

static bool kind_known(unsigned type)
{
	return type < sizeof(kinds) / sizeof(kinds[0]) && kinds[type].fields;
}

size_t sr_msg_body_len(enum sr_msg_type type)
{
	return kinds[type].body;
}

void sr_msg_body_encode(const struct sr_msg *msg, uint8_t *body)
{
	memset(body, 0, kinds[msg->type].body);
	fields_put(body, msg, kinds[msg->type].fields);
	if (msg->type == SR_MSG_SWITCH)
		body[16] = SR_MARK_FIRST;
}

size_t sr_msg_encode(const struct sr_msg *msg, uint8_t *buf)
{
	size_t len = BODY + sr_msg_body_len(msg->type);

	memset(buf, 0, BODY);
	buf[0] = (uint8_t)msg->type;
	fields_put(buf, msg, header);
	sr_msg_body_encode(msg, buf + BODY);
	return len;
}

static bool power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

static bool hello_valid(const struct sr_hello *h)
{
	const struct sr_ring_ref *r = &h->ring;

	if (h->version != SR_WIRE_VERSION ||
	    (h->role != SR_ROLE_ASKER && h->role != SR_ROLE_ANSWERER) || h->proves > 1)
		return false;
	if (!r->addr && !r->rkey && !r->size && !r->gen)
		return true; /* shm: the ring is in the memfd */
	return power_of_two(r->size) && !r->gen;
}

int sr_msg_body_decode(struct sr_msg *msg, unsigned type, const uint8_t *body, size_t len)
{
	uint8_t again[SR_MSG_MAX];
	struct sr_msg m;

	if (!kind_known(type) || len != kinds[type].body)
		return -EPROTO;
	memset(&m, 0, sizeof(m));
	m.type = type;
	fields_get(&m, body, kinds[type].fields);
	sr_msg_body_encode(&m, again);
	if (memcmp(again, body, len) ||
	    (type == SR_MSG_HELLO && !hello_valid(&m.hello)) ||
	    (type == SR_MSG_RING && !(power_of_two(m.ring.size) && m.ring.gen)))
		return -EPROTO;
	*msg = m;
	return 0;
}

int sr_msg_decode(struct sr_msg *msg, const uint8_t *buf, size_t len)
{
	struct sr_msg m;

	if (len < BODY || buf[1] || buf[2] || buf[3] ||
	    sr_msg_body_decode(&m, buf[0], buf + BODY, len - BODY))
		return -EPROTO;
	fields_get(&m, buf, header);
	*msg = m;
	return 0;
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

	sr_addr_unmap(&plain, sa);
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
	void *bytes;
	size_t len;

	memset(to, 0, sizeof(*to));
	to->ss_family = family;
	sr_addr_set_port(to, port);
	bytes = (void *)sr_addr_bytes(to, &len);
	memcpy(bytes, addr, len);
}

void sr_name_addresses(const struct sr_name *name, struct sockaddr_storage *src,
		       struct sockaddr_storage *dst)
{
	name_address(src, name->family, name->saddr, name->sport);
	name_address(dst, name->family, name->daddr, name->dport);
}

#define NAME(f, at, size) FIELD(struct sr_name, f, at, size)
static const struct field named[] = { WIRE_NAME(NAME, NONE) {0} };

void sr_name_encode(const struct sr_name *name, uint8_t buf[SR_NAME_LEN])
{
	buf[0] = 'S';
	buf[1] = 'R';
	buf[2] = SR_WIRE_VERSION;
	buf[3] = name->family == AF_INET ? 4 : 6;
	fields_put(buf, name, named);
}

/* Refuses an address that name_end() would not write, because a connection has only
 * one name. */
static bool addr_valid(uint8_t family, const uint8_t addr[16])
{
	static const uint8_t zero[12];

	if (family == AF_INET)
		return !memcmp(addr + 4, zero, sizeof(zero));
	return memcmp(addr, mapped_prefix, sizeof(mapped_prefix)) != 0;
}

int sr_name_decode(struct sr_name *name, const uint8_t *buf, size_t len)
{
	uint8_t again[SR_NAME_LEN];
	struct sr_name n;

	/* The CM pads private data, so more may follow. */
	if (len < SR_NAME_LEN)
		return -EPROTO;
	memset(&n, 0, sizeof(n));
	n.family = buf[3] == 4 ? AF_INET : AF_INET6;
	fields_get(&n, buf, named);
	sr_name_encode(&n, again);
	if (memcmp(again, buf, SR_NAME_LEN) || !n.sport || !n.dport ||
	    !addr_valid(n.family, n.saddr) || !addr_valid(n.family, n.daddr))
		return -EPROTO;
	*name = n;
	return 0;
}

bool sr_name_same_way(const struct sr_name *a, const struct sr_name *b)
{
	return a->family == b->family && a->dport == b->dport &&
	       !memcmp(a->saddr, b->saddr, sizeof(a->saddr)) &&
	       !memcmp(a->daddr, b->daddr, sizeof(a->daddr));
}

bool sr_name_equal(const struct sr_name *a, const struct sr_name *b)
{
	return a->sport == b->sport && sr_name_same_way(a, b);
}

/* ---- records on TCP ---- */

struct mark {
	uint8_t first, magic[11];
	uint32_t link_no;
	uint8_t token[SR_TOKEN_LEN];
};

struct resume {
	uint64_t magic, a, m;
};

#define MARK(f, at, size) FIELD(struct mark, f, at, size)
#define RESUME(f, at, size) FIELD(struct resume, f, at, size)
#define RESUME_MAGIC UINT64_C(0x736f636b726c5253) /* "sockrlRS" */

static const struct field marks[] = { WIRE_MARK(MARK) {0} };
static const struct field resumes[] = { WIRE_RESUME(RESUME, NONE) {0} };

void sr_mark_make(uint8_t rec[SR_RECORD_LEN], uint32_t link_no,
		  const uint8_t token[SR_TOKEN_LEN])
{
	struct mark mark = {.first = SR_MARK_FIRST, .link_no = link_no};

	memcpy(mark.magic, "sockrailMRK", sizeof(mark.magic));
	memcpy(mark.token, token, sizeof(mark.token));
	fields_put(rec, &mark, marks);
}

void sr_resume_make(uint8_t rec[SR_RECORD_LEN], uint64_t a, uint64_t m)
{
	struct resume resume = {RESUME_MAGIC, a, m};

	memset(rec, 0, SR_RECORD_LEN);
	fields_put(rec, &resume, resumes);
}

bool sr_resume_begins(const uint8_t *rec, size_t len)
{
	uint8_t any[SR_RECORD_LEN];
	size_t magic = sizeof(((struct resume *)NULL)->magic);

	sr_resume_make(any, 0, 0);
	return memcmp(rec, any, len < magic ? len : magic) == 0;
}

int sr_resume_parse(const uint8_t rec[SR_RECORD_LEN], uint64_t *a, uint64_t *m)
{
	uint8_t again[SR_RECORD_LEN];
	struct resume resume = { 0 };

	fields_get(&resume, rec, resumes);
	sr_resume_make(again, resume.a, resume.m);
	if (memcmp(again, rec, sizeof(again)) || resume.a > resume.m)
		return -EPROTO;
	*a = resume.a;
	*m = resume.m;
	return 0;
}
