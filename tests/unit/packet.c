/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * packet.c - packets of records survive the way, and are refused when wrong; and packet credit:
 * every packet finds a buffer, and two ends never wait for each other for ever.
 *
 * packet write FILE | packet read FILE: a packet with a record of each type, for an end on
 * another kind of processor (tests/cross).
 */
#include "pure/packet.h"

#include <errno.h>
#include <stdbool.h>

#include "check.h"
#include "pure/credit.h"

static uint8_t buf[SR_PACKET_MAX];

static struct sr_packet_out begin(size_t size)
{
	struct sr_packet_out p;

	memset(buf, 0xee, sizeof(buf));
	sr_packet_begin(&p, buf, size);
	return p;
}

static struct sr_msg message(enum sr_msg_type type)
{
	struct sr_msg msg;

	memset(&msg, 0, sizeof(msg));
	msg.type = type;
	msg.ack = UINT64_C(0x1122334455667788);
	if (type == SR_MSG_RING)
		msg.ring = (struct sr_ring_ref){.size = 4096, .gen = 1};
	if (type == SR_MSG_HELLO)
		msg.hello = (struct sr_hello){.version = SR_WIRE_VERSION,
					      .role = SR_ROLE_ASKER};
	return msg;
}

/* ---- what is said arrives ---- */

static const struct sr_process sample = {SR_WIRE_VERSION, 1, "fifteen bytes.."};

static size_t put_all_types(void)
{
	struct sr_packet_out p = begin(sizeof(buf));
	struct sr_msg msg;
	uint8_t *bytes;

	CHECK(sr_packet_put_process(&p, &sample));
	for (int type = SR_MSG_HELLO; type < SR_MSG_BYTES; type++) {
		msg = message((enum sr_msg_type)type);
		CHECK(sr_packet_put(&p, (uint32_t)type, &msg));
		CHECK(!(p.len % SR_RECORD_ALIGN));
	}
	bytes = sr_packet_put_raw(&p, 65535, SR_MSG_BYTES, 7, 5);
	memcpy(bytes, "hello", 5);
	CHECK(sr_packet_put_raw(&p, 0, SR_RECORD_PAD, 0, 9));
	CHECK(sr_packet_put_raw(&p, 1, SR_RECORD_DROP, 8, 0));
	sr_packet_posted(&p, UINT32_MAX - 1);
	return p.len;
}

static void take_all_types(size_t len)
{
	struct sr_packet_in in;
	struct sr_record r;
	struct sr_msg msg;

	CHECK_EQ(sr_packet_open(&in, buf, len), 0);
	CHECK(in.posted == UINT32_MAX - 1);
	CHECK_EQ(sr_packet_next(&in, &r), 1);
	CHECK(r.type == SR_RECORD_PROCESS && !r.number);
	CHECK(r.process.version == sample.version && r.process.links == sample.links);
	CHECK(!memcmp(r.process.process, sample.process, SR_PROCESS_LEN));
	for (int type = SR_MSG_HELLO; type < SR_MSG_BYTES; type++) {
		msg = message((enum sr_msg_type)type);
		CHECK_EQ(sr_packet_next(&in, &r), 1);
		CHECK(r.number == (uint32_t)type && r.type == type && r.ack == msg.ack);
		CHECK(!memcmp(&r.msg, &msg, sizeof(msg)));
	}
	CHECK_EQ(sr_packet_next(&in, &r), 1);
	CHECK(r.type == SR_MSG_BYTES && r.number == 65535 && r.ack == 7 && r.len == 5);
	CHECK(!memcmp(r.body, "hello\0\0\0", 8));
	CHECK_EQ(sr_packet_next(&in, &r), 1);
	CHECK(r.type == SR_RECORD_PAD && r.len == 9);
	CHECK_EQ(sr_packet_next(&in, &r), 1);
	CHECK(r.type == SR_RECORD_DROP && r.ack == 8);
	CHECK_EQ(sr_packet_next(&in, &r), 0);
}

/* A link's beginning and end. */
static void all_answers(void)
{
	static const char longest[] = "thirty-two-letters-and-no-more-x";
	struct sr_question question = {.holds = SR_HOLDS_ON, .tclass = 8};
	const uint16_t there[2] = {65535, 0};
	struct sr_packet_out p = begin(sizeof(buf));
	struct sr_packet_in in;
	struct sr_record r;

	question.name = (struct sr_name){.link_no = 7, .family = AF_INET, .sport = 1, .dport = 2};
	CHECK(sr_packet_put_open(&p, 1, &question));
	CHECK(sr_packet_put_accept(&p, 2, true));
	CHECK(sr_packet_put_accept(&p, 3, false));
	for (int i = SR_FIRST_TAKEN; i <= SR_FIRST_LATER; i++)
		CHECK(sr_packet_put_first(&p, 4, (enum sr_first)i));
	CHECK_EQ(strlen(longest), SR_WORD_MAX);
	CHECK(sr_packet_put_refuse(&p, 5, longest));
	CHECK(sr_packet_put_refuse(&p, 5, "busy"));
	CHECK(sr_packet_put_there(&p, 6, there));

	CHECK_EQ(sr_packet_open(&in, buf, p.len), 0);
	CHECK_EQ(sr_packet_next(&in, &r), 1);
	CHECK(r.type == SR_RECORD_OPEN && r.number == 1 && r.len == SR_QUESTION_LEN);
	CHECK(sr_name_equal(&r.question.name, &question.name));
	CHECK(r.question.holds == SR_HOLDS_ON && r.question.tclass == 8);
	CHECK_EQ(sr_packet_next(&in, &r), 1);
	CHECK(r.type == SR_RECORD_ACCEPT && r.number == 2 && r.brief);
	CHECK_EQ(sr_packet_next(&in, &r), 1);
	CHECK(r.type == SR_RECORD_ACCEPT && r.number == 3 && !r.brief);
	for (int i = SR_FIRST_TAKEN; i <= SR_FIRST_LATER; i++) {
		CHECK_EQ(sr_packet_next(&in, &r), 1);
		CHECK(r.type == SR_RECORD_WORD && r.first == (enum sr_first)i);
	}
	CHECK_EQ(sr_packet_next(&in, &r), 1);
	CHECK(r.type == SR_RECORD_REFUSE && !strcmp(r.word, longest));
	CHECK_EQ(sr_packet_next(&in, &r), 1);
	CHECK(r.type == SR_RECORD_REFUSE && !strcmp(r.word, "busy"));
	CHECK_EQ(sr_packet_next(&in, &r), 1);
	CHECK(r.type == SR_RECORD_THERE && r.there[0] == there[0] && !r.there[1]);
	CHECK_EQ(sr_packet_next(&in, &r), 0);
}

static int file(const char *how, const char *path)
{
	FILE *f = fopen(path, *how == 'w' ? "w" : "r");

	CHECK(f);
	if (*how == 'w') {
		size_t len = put_all_types();

		CHECK_EQ(fwrite(buf, 1, len, f), len);
	} else {
		take_all_types(fread(buf, 1, sizeof(buf), f));
	}
	return fclose(f);
}

/* As PROTOCOL.md shows it. */
static void layout(void)
{
	struct sr_packet_out p = begin(sizeof(buf));
	struct sr_msg msg = message(SR_MSG_DATA);

	msg.len = 0x01020304;
	CHECK(sr_packet_put(&p, 0x1234, &msg));
	sr_packet_posted(&p, 0xa1b2c3d4);
	CHECK_EQ(p.len, 32);
	CHECK(!memcmp(buf, "\xa1\xb2\xc3\xd4\0\0\0\0"
			   "\0\0\x12\x34\x09\0\0\x04\x11\x22\x33\x44\x55\x66\x77\x88"
			   "\1\2\3\4\0\0\0\0", 32));
}

/* Fifty answers of 64 bytes are one packet, and a packet takes no byte too many. */
static void full(void)
{
	struct sr_packet_out p = begin(sizeof(buf));

	for (uint32_t i = 1; i <= 50; i++)
		CHECK(sr_packet_put_raw(&p, i, SR_MSG_BYTES, 0, 64));
	CHECK_EQ(sr_packet_room(&p), SR_PACKET_MAX - SR_PACKET_HEAD - 50 * 80 - SR_RECORD_HEAD);
	CHECK(!sr_packet_put_raw(&p, 1, SR_MSG_BYTES, 0, sr_packet_room(&p) + 1));
	CHECK(sr_packet_put_raw(&p, 1, SR_MSG_BYTES, 0, sr_packet_room(&p)));
	CHECK_EQ(p.len, SR_PACKET_MAX);
	CHECK_EQ(sr_packet_room(&p), 0);
	CHECK(!sr_packet_put_raw(&p, 1, SR_RECORD_DROP, 0, 0));

	p = begin(sizeof(buf));
	CHECK_EQ(sr_packet_room(&p), SR_RECORD_BYTES_MAX);
	CHECK(sr_packet_put_raw(&p, 1, SR_MSG_BYTES, 0, SR_RECORD_BYTES_MAX));
	CHECK_EQ(p.len, SR_PACKET_MAX);
	p = begin(SR_PACKET_HEAD + SR_RECORD_HEAD + 3);	/* no whole multiple of 8 */
	CHECK_EQ(sr_packet_room(&p), 0);
	CHECK(!sr_packet_put_raw(&p, 1, SR_MSG_BYTES, 0, 1));
}

/* ---- what is wrong is refused ---- */

static int read_all(const uint8_t *at, size_t len)
{
	struct sr_packet_in in;
	struct sr_record r;
	int more = sr_packet_open(&in, at, len);

	if (!more)
		do
			more = sr_packet_next(&in, &r);
		while (more > 0);
	return more;
}

static int one(uint32_t number, uint8_t type, uint64_t ack, size_t n)
{
	struct sr_packet_out p = begin(sizeof(buf));
	uint8_t *body = sr_packet_put_raw(&p, number, type, ack, n);

	memset(body, 0, n);
	return read_all(buf, p.len);
}

static void wrong_records(void)
{
	CHECK_EQ(read_all(buf, 0), -EPROTO);
	CHECK_EQ(one(1, SR_MSG_ACK, 1, 0), 0);
	CHECK_EQ(one(65536, SR_MSG_ACK, 1, 0), -EPROTO);
	CHECK_EQ(one(0, SR_MSG_ACK, 0, 0), -EPROTO);	/* types that do not suit the number */
	CHECK_EQ(one(0, SR_MSG_BYTES, 0, 8), -EPROTO);
	CHECK_EQ(one(0, SR_RECORD_DROP, 0, 0), -EPROTO);
	CHECK_EQ(one(1, SR_RECORD_PAD, 0, 8), -EPROTO);
	CHECK_EQ(one(0, SR_RECORD_PAD, 0, 8), 0);
	CHECK_EQ(one(0, SR_RECORD_PAD, 1, 8), -EPROTO);	/* of no stream */
	CHECK_EQ(one(1, SR_MSG_ACK, 1, 8), -EPROTO);	/* lengths */
	CHECK_EQ(one(1, SR_MSG_DATA, 1, 3), -EPROTO);
	CHECK_EQ(one(1, SR_MSG_DATA, 1, 4), 0);
	CHECK_EQ(one(1, SR_MSG_BYTES, 1, 0), -EPROTO);
	CHECK_EQ(one(1, SR_RECORD_DROP, 1, 1), -EPROTO);
	CHECK_EQ(one(0, SR_RECORD_PROCESS, 0, 24), -EPROTO); /* of version 0 */
	for (unsigned type = 0; type < 256; type++)
		if (!type || (type > SR_MSG_BYTES && type < SR_RECORD_DROP) ||
		    type > SR_RECORD_PAD)
			CHECK_EQ(one(1, (uint8_t)type, 1, 0), -EPROTO);
}

static int one_text(uint8_t type, uint32_t number, uint64_t ack, const char *text, size_t n)
{
	struct sr_packet_out p = begin(sizeof(buf));

	memcpy(sr_packet_put_raw(&p, number, type, ack, n), text, n);
	return read_all(buf, p.len);
}

#define TEXT(type, text) one_text(type, 1, 0, text, sizeof(text) - 1)

static void wrong_answers(void)
{
	CHECK_EQ(TEXT(SR_RECORD_ACCEPT, "\1\0\0\0"), 0);
	CHECK_EQ(TEXT(SR_RECORD_ACCEPT, "\2\0\0\0"), -EPROTO);
	CHECK_EQ(TEXT(SR_RECORD_ACCEPT, "\1\0\0\1"), -EPROTO);
	CHECK_EQ(TEXT(SR_RECORD_ACCEPT, "\1\0\0"), -EPROTO);
	CHECK_EQ(one_text(SR_RECORD_ACCEPT, 0, 0, "\1\0\0", 4), -EPROTO);
	CHECK_EQ(one_text(SR_RECORD_ACCEPT, 1, 1, "\1\0\0", 4), -EPROTO);
	CHECK_EQ(TEXT(SR_RECORD_WORD, "\4\0\0\0"), 0);
	CHECK_EQ(TEXT(SR_RECORD_WORD, "\0\0\0\0"), -EPROTO);
	CHECK_EQ(TEXT(SR_RECORD_WORD, "\5\0\0\0"), -EPROTO);
	CHECK_EQ(TEXT(SR_RECORD_REFUSE, ""), -EPROTO);
	CHECK_EQ(TEXT(SR_RECORD_REFUSE, "no-match"), 0);
	CHECK_EQ(TEXT(SR_RECORD_REFUSE, "no match"), -EPROTO);
	CHECK_EQ(TEXT(SR_RECORD_REFUSE, "no\0match"), -EPROTO);
	CHECK_EQ(TEXT(SR_RECORD_REFUSE, "thirty-three-letters-are-too-many"), -EPROTO);
	CHECK_EQ(TEXT(SR_RECORD_THERE, "1 2"), 0);
	CHECK_EQ(TEXT(SR_RECORD_THERE, "0 0"), -EPROTO);
	CHECK_EQ(TEXT(SR_RECORD_THERE, "1 65536"), -EPROTO);
	CHECK_EQ(TEXT(SR_RECORD_THERE, "1 2 "), -EPROTO);
	CHECK_EQ(TEXT(SR_RECORD_THERE, "1 2\0"), -EPROTO);
	CHECK_EQ(TEXT(SR_RECORD_THERE, ""), -EPROTO);
	CHECK_EQ(TEXT(SR_RECORD_THERE, "1                              2"), -EPROTO);
	CHECK_EQ(TEXT(SR_RECORD_OPEN, "a question"), -EPROTO);
}

/* Each byte that has one right value only. */
static void wrong_bytes(void)
{
	struct sr_process process = {SR_WIRE_VERSION, 1, ""};
	struct sr_packet_out p = begin(sizeof(buf));
	size_t i;

	CHECK(sr_packet_put_process(&p, &process));
	for (i = 4; i < p.len; i++) {
		if (i >= SR_PACKET_HEAD + SR_RECORD_HEAD + 8 ||	/* the process */
		    (i >= 26 && i < 28))			/* links */
			continue;
		buf[i] ^= 0x80;
		CHECK_EQ(read_all(buf, p.len), -EPROTO);
		buf[i] ^= 0x80;
	}
	for (i = 0; i < p.len; i++)
		CHECK_EQ(read_all(buf, i), i == SR_PACKET_HEAD ? 0 : -EPROTO);
	process.links = 0;
	p = begin(sizeof(buf));
	CHECK(sr_packet_put_process(&p, &process));
	CHECK_EQ(read_all(buf, p.len), -EPROTO);

	p = begin(sizeof(buf));
	memset(sr_packet_put_raw(&p, 1, SR_MSG_BYTES, 0, 5), 1, 5);
	CHECK_EQ(read_all(buf, p.len), 0);
	buf[p.len - 1] = 1;	/* behind the body */
	CHECK_EQ(read_all(buf, p.len), -EPROTO);
	p = begin(sizeof(buf));
	sr_packet_put_raw(&p, 0, SR_RECORD_PAD, 0, 5)[4] = 1;
	CHECK_EQ(read_all(buf, p.len), -EPROTO);
}

/* ---- credit ---- */

static void counts(void)
{
	struct sr_packets p;

	sr_packets_init(&p);
	for (unsigned i = 0; i < SR_PACKETS_FIRST - SR_PACKETS_KEPT; i++) {
		CHECK(sr_packets_may_send(&p, true));
		sr_packets_spend(&p);
	}
	CHECK(!sr_packets_may_send(&p, true) && sr_packets_may_send(&p, false));
	CHECK_EQ(sr_packets_said(&p, SR_PACKETS_FIRST - 1), -EPROTO);
	CHECK_EQ(sr_packets_said(&p, SR_PACKETS_FIRST), 0);
	CHECK_EQ(sr_packets_said(&p, p.sent + SR_PACKETS_MOST + 1), -EPROTO);
	CHECK_EQ(sr_packets_said(&p, SR_PACKETS_FIRST + 1), 0);
	CHECK(sr_packets_may_send(&p, true));
	CHECK_EQ(sr_packets_said(&p, SR_PACKETS_FIRST), -EPROTO);
	CHECK_EQ(sr_packets_said(&p, p.sent + SR_PACKETS_MOST), 0);
	CHECK_EQ(sr_packets_known(&p), SR_PACKETS_MOST);

	sr_packets_init(&p);
	for (unsigned i = 0; i < SR_PACKETS_FIRST / 2; i++, p.posted++)
		CHECK(!sr_packets_owes(&p));
	CHECK(sr_packets_owes(&p));
	sr_packets_spend(&p);
	CHECK(!sr_packets_owes(&p));
}

/* Two ends whose packets are on their way for some time: what the model checks, with the
 * code, and with numbers that wrap. */
enum { MOST_ON_WAY = 64 };

struct side {
	struct sr_packets credit;
	unsigned empty;		/* receive buffers that are posted and not used */
	uint32_t way[MOST_ON_WAY], head, tail;	/* to it: what their headers say */
};

static void send_to(struct side *from, struct side *to)
{
	CHECK(to->empty);	/* the receiver is ready */
	to->empty--;
	sr_packets_spend(&from->credit);
	to->way[to->tail++ % MOST_ON_WAY] = from->credit.posted;
}

static void take(struct side *s)
{
	CHECK_EQ(sr_packets_said(&s->credit, s->way[s->head++ % MOST_ON_WAY]), 0);
	s->empty++;
	s->credit.posted++;
}

static void side_moves(struct side *s, struct side *peer, bool says, uint64_t *seed)
{
	if (check_random(seed) % 2 && s->head != s->tail)
		take(s);
	if (s->credit.buffers < 16 && !(check_random(seed) % 64)) {
		s->empty++;	/* it has one more */
		s->credit.buffers++;
		s->credit.posted++;
	}
	if (says && check_random(seed) % 2 && sr_packets_may_send(&s->credit, true))
		send_to(s, peer);
	if (sr_packets_owes(&s->credit) && sr_packets_may_send(&s->credit, false))
		send_to(s, peer);
}

static void ends_talk(uint64_t seed)
{
	struct side s[2] = {0};
	unsigned quiet = 0;

	for (int i = 0; i < 2; i++) {
		sr_packets_init(&s[i].credit);
		s[i].credit.posted += UINT32_MAX - 50;
		s[i].credit.reported += UINT32_MAX - 50;
		s[i].credit.peer_posted += UINT32_MAX - 50;
		s[i].credit.sent += UINT32_MAX - 50;
		s[i].empty = SR_PACKETS_FIRST;
	}
	for (unsigned i = 0; i < 3000; i++)
		side_moves(&s[i & 1], &s[!(i & 1)], true, &seed);
	/* Nobody says anything more: counts come to an end, and records may go again. */
	for (; quiet < 400; quiet++)
		side_moves(&s[quiet & 1], &s[!(quiet & 1)], false, &seed);
	for (int i = 0; i < 2; i++) {
		CHECK(s[i].head == s[i].tail);
		CHECK(sr_packets_may_send(&s[i].credit, true));
	}
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return file(argv[1], argv[2]);
	take_all_types(put_all_types());
	all_answers();
	layout();
	full();
	wrong_records();
	wrong_answers();
	wrong_bytes();
	counts();
	for (uint64_t seed = 1; seed <= 300; seed++) {
		check_about("seed", seed);
		ends_talk(seed);
	}
	return 0;
}
