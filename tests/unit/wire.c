/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * wire.c - messages, names and records survive the way and are refused when
 * wrong; sockrail-protocol(7) shows every field where it is.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "pure/wire.h"
#include "pure/wire_layout.h"
#include "check.h"

#define HEADER 12

/* ---- messages ---- */

static struct sr_msg message(enum sr_msg_type type)
{
	struct sr_msg msg;

	memset(&msg, 0, sizeof(msg));
	msg.type = type;
	msg.ack = UINT64_C(0x1122334455667788);
	return msg;
}

static struct sr_msg hello(enum sr_role role)
{
	struct sr_msg msg = message(SR_MSG_HELLO);

	msg.hello = (struct sr_hello){
		.version = SR_WIRE_VERSION,
		.role = role,
		.link_no = 0xa1b2c3d4,
		.token = "fifteen bytes..",
		.tx_have = 256,
		.rx_have = 65536,
		.ring = {.addr = 1ULL << 47, .rkey = 99, .size = 4096},
		.proves = role == SR_ROLE_ASKER,
	};
	return msg;
}

static int decode(const struct sr_msg *msg)
{
	uint8_t buf[SR_MSG_MAX];
	struct sr_msg got;

	return sr_msg_decode(&got, buf, sr_msg_encode(msg, buf));
}

/* All that was said arrives, and no other length is taken. */
static void there_and_back(const struct sr_msg *msg)
{
	uint8_t buf[SR_MSG_MAX], again[SR_MSG_MAX], longer[SR_MSG_MAX + 1];
	size_t len = sr_msg_encode(msg, buf);
	struct sr_msg got;

	CHECK_EQ(sr_msg_decode(&got, buf, len), 0);
	CHECK_EQ(got.type, msg->type);
	CHECK(got.ack == msg->ack);
	CHECK_EQ(sr_msg_encode(&got, again), len);
	CHECK(!memcmp(buf, again, len));
	memset(longer, 0, sizeof(longer));
	memcpy(longer, buf, len);
	for (size_t n = 0; n <= sizeof(longer); n++)
		CHECK_EQ(sr_msg_decode(&got, longer, n), n == len ? 0 : -EPROTO);
}

static void all_messages(void)
{
	struct sr_msg msg;

	for (int type = SR_MSG_PROOF; type <= SR_MSG_SHARE; type++) {
		msg = message((enum sr_msg_type)type);
		if (type == SR_MSG_RING)
			msg.ring = (struct sr_ring_ref){.size = 1, .gen = 1};
		there_and_back(&msg);
	}
	msg = hello(SR_ROLE_ASKER);
	there_and_back(&msg);
	msg = hello(SR_ROLE_ANSWERER);
	there_and_back(&msg);
}

static void fields_arrive(void)
{
	struct sr_msg msg = hello(SR_ROLE_ANSWERER), got;
	uint8_t buf[SR_MSG_MAX];

	CHECK_EQ(sr_msg_decode(&got, buf, sr_msg_encode(&msg, buf)), 0);
	CHECK(!memcmp(&got.hello, &msg.hello, sizeof(msg.hello)));

	msg = message(SR_MSG_SWITCH);
	msg.sw = (struct sr_switch){
		.n = UINT64_MAX - 1, .marks = 3, .link_no = 8};
	CHECK_EQ(sr_msg_decode(&got, buf, sr_msg_encode(&msg, buf)), 0);
	CHECK(got.sw.n == UINT64_MAX - 1 && got.sw.marks == 3);
	CHECK(got.sw.link_no == 8);

	msg = message(SR_MSG_RING_USE);
	msg.use.offset = 77;
	msg.use.gen = 5;
	CHECK_EQ(sr_msg_decode(&got, buf, sr_msg_encode(&msg, buf)), 0);
	CHECK(got.use.offset == 77 && got.use.gen == 5);

	msg = message(SR_MSG_END);
	msg.end = UINT64_C(0x0102030405060708);
	CHECK_EQ(sr_msg_encode(&msg, buf), HEADER + 8);
	CHECK(!memcmp(buf,
		      "\5\0\0\0\x11\x22\x33\x44\x55\x66\x77\x88"
		      "\1\2\3\4\5\6\7\10",
		      HEADER + 8));
}

static void bad_messages(void)
{
	struct sr_msg msg, got = message(SR_MSG_PROBE);
	uint8_t buf[SR_MSG_MAX];
	size_t len;

#define BAD(make, change)                                                      \
	do {                                                                   \
		msg = (make);                                                  \
		change;                                                        \
		CHECK_EQ(decode(&msg), -EPROTO);                               \
	} while (0)
	BAD(hello(SR_ROLE_ASKER), msg.hello.version++);
	BAD(hello(SR_ROLE_ASKER), msg.hello.version--);
	BAD(hello(SR_ROLE_ASKER), msg.hello.proves = 2);
	BAD(hello(SR_ROLE_ASKER), msg.hello.role = 0);
	BAD(hello(SR_ROLE_ASKER), msg.hello.role = 3);
	BAD(hello(SR_ROLE_ASKER), msg.hello.ring.size = 4095);
	BAD(hello(SR_ROLE_ASKER), msg.hello.ring.size = 0);
	BAD(hello(SR_ROLE_ASKER), msg.hello.ring.gen = 1);
	BAD(message(SR_MSG_RING), msg.ring.gen = 1);
	BAD(message(SR_MSG_RING), msg.ring.size = 64);
	BAD(message(SR_MSG_RING), msg.ring.gen = 1; msg.ring.size = 96);
#undef BAD
	msg = hello(SR_ROLE_ASKER);
	memset(&msg.hello.ring, 0, sizeof(msg.hello.ring));
	CHECK_EQ(decode(&msg), 0); /* shared memory */

	msg = message(SR_MSG_SWITCH);
	len = sr_msg_encode(&msg, buf);
	for (size_t i = len - 4; i < len; i++) {
		buf[i] ^= 1;	/* another first byte would be held, typed alone */
		CHECK_EQ(sr_msg_decode(&got, buf, len), -EPROTO);
		buf[i] ^= 1;
	}
	buf[1] = 1;
	CHECK_EQ(sr_msg_decode(&got, buf, len), -EPROTO);
	CHECK_EQ(got.type, SR_MSG_PROBE); /* set only on success */
	memset(buf, 0, sizeof(buf));
	CHECK_EQ(sr_msg_decode(&got, buf, HEADER), -EPROTO);
	buf[0] = SR_MSG_BYTES;	/* in packets only */
	CHECK_EQ(sr_msg_decode(&got, buf, HEADER), -EPROTO);
}

/* ---- names ---- */

static struct sockaddr_storage address(const char *text, uint16_t port)
{
	struct sockaddr_storage ss;
	struct sockaddr_in *in = (struct sockaddr_in *)&ss;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ss;

	memset(&ss, 0, sizeof(ss));
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		return ss;
	}
	CHECK_EQ(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	return ss;
}

static int name(struct sr_name *out, const char *src, uint16_t sport,
		const char *dst, uint16_t dport)
{
	struct sockaddr_storage s = address(src, sport);
	struct sockaddr_storage d = address(dst, dport);

	return sr_name_make(out, (struct sockaddr *)&s, (struct sockaddr *)&d,
			    42);
}

/* Made of the addresses of another, it is the same. */
static void addresses(const struct sr_name *n)
{
	struct sockaddr_storage s, d;
	struct sr_name again;

	sr_name_addresses(n, &s, &d);
	CHECK_EQ(sr_name_make(&again, (struct sockaddr *)&s,
			      (struct sockaddr *)&d, n->link_no), 0);
	CHECK(!memcmp(n, &again, sizeof(again)));
}

static void names(void)
{
	struct sr_name a, b;
	uint8_t buf[56] = {0};

	CHECK_EQ(name(&a, "10.0.0.1", 40000, "10.0.0.2", 80), 0);
	CHECK_EQ(name(&b, "::ffff:10.0.0.1", 40000, "10.0.0.2", 80), 0);
	CHECK(sr_name_equal(&a, &b));
	b.link_no = 43;
	CHECK(sr_name_equal(&a, &b));
	sr_name_encode(&a, buf);
	CHECK(!memcmp(buf, "SR\6\4\x9c\x40\0\x50\0\0\0\x2a\12\0\0\1", 16));
	CHECK_EQ(sr_name_decode(&b, buf, SR_NAME_LEN - 1), -EPROTO);
	CHECK_EQ(sr_name_decode(&b, buf, sizeof(buf)), 0); /* padded */
	CHECK(!memcmp(&a, &b, sizeof(a)));
	addresses(&b);

	CHECK_EQ(name(&b, "10.0.0.2", 80, "10.0.0.1", 40000), 0);
	CHECK(!sr_name_equal(&a, &b));
	CHECK_EQ(name(&b, "10.0.0.1", 40001, "10.0.0.2", 80), 0);
	CHECK(!sr_name_equal(&a, &b));

	CHECK_EQ(name(&a, "fe80::1", 40000, "fe80::2", 80), 0);
	sr_name_encode(&a, buf);
	CHECK_EQ(sr_name_decode(&b, buf, SR_NAME_LEN), 0);
	CHECK(!memcmp(&a, &b, sizeof(a)));
	addresses(&b);
	CHECK_EQ(name(&a, "fe80::1", 40000, "10.0.0.2", 80), -EAFNOSUPPORT);
}

static void bad_name(size_t at, uint8_t value)
{
	struct sr_name n;
	uint8_t buf[SR_NAME_LEN];

	CHECK_EQ(name(&n, "10.0.0.1", 255, "10.0.0.2", 80), 0);
	sr_name_encode(&n, buf);
	CHECK_EQ(sr_name_decode(&n, buf, sizeof(buf)), 0);
	buf[at] = value;
	CHECK_EQ(sr_name_decode(&n, buf, sizeof(buf)), -EPROTO);
}

static void bad_names(void)
{
	struct sockaddr other = {.sa_family = AF_UNIX};
	struct sr_name n;
	uint8_t buf[SR_NAME_LEN];

	bad_name(0, 's');
	bad_name(2, 3);	 /* version */
	bad_name(3, 5);	 /* family */
	bad_name(5, 0);	 /* port 0 */
	bad_name(16, 1); /* behind an IPv4 address */
	bad_name(43, 1);
	CHECK_EQ(sr_name_make(&n, &other, &other, 1), -EAFNOSUPPORT);

	/* an IPv4 address has one name only */
	CHECK_EQ(name(&n, "::1", 1, "::2", 2), 0);
	memset(n.saddr + 10, 0xff, 2);
	n.saddr[15] = 1;
	sr_name_encode(&n, buf);
	CHECK_EQ(sr_name_decode(&n, buf, sizeof(buf)), -EPROTO);
}

/* ---- records ---- */

static void records(void)
{
	static const uint8_t token[SR_TOKEN_LEN + 1] = "token of sixteen";
	uint8_t rec[SR_RECORD_LEN];
	uint64_t a, m;

	sr_mark_make(rec, 0x01020304, token);
	CHECK(!memcmp(rec, "\xf5sockrailMRK\1\2\3\4token of sixteen",
		      sizeof(rec)));
	CHECK_EQ(sr_resume_parse(rec, &a, &m), -EPROTO);
	sr_resume_make(rec, 5, UINT64_MAX);
	CHECK_EQ(sr_resume_parse(rec, &a, &m), 0);
	CHECK(a == 5 && m == UINT64_MAX);
	for (size_t i = 0; i < sizeof(rec); i++) {
		rec[i] ^= 1;
		CHECK_EQ(sr_resume_parse(rec, &a, &m),
			 i >= 8 && i < 24 ? 0 : -EPROTO);
		rec[i] ^= 1;
	}
	sr_resume_make(rec, 6, 5);
	CHECK_EQ(sr_resume_parse(rec, &a, &m), -EPROTO);
}

/* ---- the page ---- */

struct field {
	const char *name;
	unsigned offset, size;
};

#define FIELD(name, offset, size) {#name, offset, size},

static const struct {
	const char *name;
	struct field fields[12];
} tables[] = {
	{"HEADER", {WIRE_HEADER(FIELD, FIELD)}}, {"HELLO", {WIRE_HELLO(FIELD, FIELD)}},
	{"SHARE", {WIRE_SHARE(FIELD)}},	  {"PROOF", {WIRE_PROOF(FIELD)}},
	{"SWITCH", {WIRE_SWITCH(FIELD, FIELD)}},
	{"END", {WIRE_END(FIELD)}},	  {"DATA", {WIRE_DATA(FIELD)}},
	{"RING", {WIRE_RING(FIELD)}},	  {"RING_USE", {WIRE_RING_USE(FIELD)}},
	{"NAME", {WIRE_NAME(FIELD, FIELD)}},	  {"MARK", {WIRE_MARK(FIELD)}},
	{"RESUME", {WIRE_RESUME(FIELD, FIELD)}},
};

#define TABLES (sizeof(tables) / sizeof(tables[0]))

static FILE *open_page(void)
{
	const char *top = getenv("srcdir");
	char path[4096];
	FILE *page;

	snprintf(path, sizeof(path), "%s/man/sockrail-protocol.7",
		 top ? top : ".");
	page = fopen(path, "r");
	if (!page)
		fprintf(stderr, "%s: %s (run at the top, or set srcdir)\n",
			path, strerror(errno));
	CHECK(page != NULL);
	return page;
}

/* The rows up to .El, against the fields; the first has the headings. */
static void check_table(FILE *page, const struct field *want)
{
	char line[256], field[32];
	unsigned offset, size;

	while (fgets(line, sizeof(line), page) && strcmp(line, ".El\n")) {
		if (sscanf(line, ".It %u Ta %u Ta Va %31s", &offset, &size,
			   field) != 3)
			continue;
		CHECK(want->name && !strcmp(field, want->name));
		CHECK_EQ(offset, want->offset);
		CHECK_EQ(size, want->size);
		want++;
	}
	CHECK(!want->name);
}

static void check_named_table(FILE *page, const char *table, bool found[TABLES])
{
	size_t i = 0;

	while (i < TABLES && strcmp(tables[i].name, table))
		i++;
	CHECK(i < TABLES && !found[i]);
	found[i] = true;
	snprintf(check_context, sizeof(check_context), "table %s", table);
	check_table(page, tables[i].fields);
}

/* The list of types: number, name and size of body.  (Higher numbers are records that are no
 * messages.) */
static const char *const types_named[] = {
	"HELLO", "PROOF", "SWITCH", "ACKSW",	"END",	 "ACKEND", "ACK",
	"PROBE", "DATA",  "RING",   "RING_USE", "SHARE",
};

#define TYPES (sizeof(types_named) / sizeof(types_named[0]))

static void check_type(const char *line, unsigned *types)
{
	char type_name[32];
	unsigned number, body;
	uint8_t buf[SR_MSG_MAX];
	struct sr_msg msg;

	if (sscanf(line, ".It %u Ta %31s Ta %u Ta", &number, type_name,
		   &body) != 3 || number > TYPES)
		return;
	CHECK_EQ(number, ++*types);
	msg = message((enum sr_msg_type)number);
	CHECK(!strcmp(type_name, types_named[number - 1]));
	CHECK_EQ(body + HEADER, sr_msg_encode(&msg, buf));
}

static void the_page(void)
{
	FILE *page = open_page();
	bool found[TABLES] = {false};
	char line[256], table[32];
	unsigned types = 0;

	while (fgets(line, sizeof(line), page)) {
		check_type(line, &types);
		if (sscanf(line, ".\\\" wire: %31s", table) == 1)
			check_named_table(page, table, found);
	}
	for (size_t i = 0; i < TABLES; i++)
		CHECK(found[i]);
	CHECK_EQ(types, SR_MSG_SHARE);
	fclose(page);
}

int main(void)
{
	all_messages();
	fields_arrive();
	bad_messages();
	names();
	bad_names();
	records();
	the_page();
	return 0;
}
