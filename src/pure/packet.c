/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * packet.c - builds and reads packets of records; see packet.h.  Pure: no I/O, no locks.
 */
#include "pure/packet.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The offsets of all fields: of a packet, of a record, of the body of PROCESS. */
enum {
	POSTED = 0,
	ZERO = 4,
	NUMBER = 0,
	TYPE = 4,
	FLAGS = 5,
	LENGTH = 6,
	ACK = 8,
	VERSION = 0,
	LINKS = 2,
	PROCESS = 8,
	PROCESS_BODY = 24,
	SHORT_BODY = 4,		/* of ACCEPT and WORD: a byte, and zeros */
};

_Static_assert(PROCESS + SR_PROCESS_LEN == PROCESS_BODY, "it ends there");
_Static_assert(SR_PACKET_HEAD % SR_RECORD_ALIGN == 0 && SR_RECORD_HEAD % SR_RECORD_ALIGN == 0,
	       "a record begins, and a body does, where records may begin");

static uint16_t get16(const uint8_t *at)
{
	uint16_t n;

	memcpy(&n, at, sizeof(n));
	return be16toh(n);
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t n;

	memcpy(&n, at, sizeof(n));
	return be32toh(n);
}

static uint64_t get64(const uint8_t *at)
{
	uint64_t n;

	memcpy(&n, at, sizeof(n));
	return be64toh(n);
}

static void put16(uint8_t *at, uint16_t n)
{
	n = htobe16(n);
	memcpy(at, &n, sizeof(n));
}

static void put32(uint8_t *at, uint32_t n)
{
	n = htobe32(n);
	memcpy(at, &n, sizeof(n));
}

static void put64(uint8_t *at, uint64_t n)
{
	n = htobe64(n);
	memcpy(at, &n, sizeof(n));
}

static size_t aligned(size_t n)
{
	return (n + SR_RECORD_ALIGN - 1) & ~(size_t)(SR_RECORD_ALIGN - 1);
}

/* ---- building ---- */

void sr_packet_begin(struct sr_packet_out *p, uint8_t *buf, size_t size)
{
	*p = (struct sr_packet_out){buf, size, SR_PACKET_HEAD};
	memset(buf, 0, SR_PACKET_HEAD);
}

void sr_packet_posted(struct sr_packet_out *p, uint32_t posted)
{
	put32(p->buf + POSTED, posted);
}

size_t sr_packet_room(const struct sr_packet_out *p)
{
	size_t left = (p->size & ~(size_t)(SR_RECORD_ALIGN - 1)) - p->len;

	return left > SR_RECORD_HEAD ? left - SR_RECORD_HEAD : 0;
}

/* Writes the header, and the zeros behind the body.  Returns where the body goes, or NULL. */
static uint8_t *record_begin(struct sr_packet_out *p, uint32_t number, uint8_t type,
			     uint64_t ack, size_t n)
{
	size_t whole = SR_RECORD_HEAD + aligned(n);
	uint8_t *at = p->buf + p->len;

	if (whole > p->size - p->len)
		return NULL;
	put32(at + NUMBER, number);
	at[TYPE] = type;
	at[FLAGS] = 0;
	put16(at + LENGTH, (uint16_t)n);
	put64(at + ACK, ack);
	memset(at + SR_RECORD_HEAD + n, 0, aligned(n) - n);
	p->len += whole;
	return at + SR_RECORD_HEAD;
}

bool sr_packet_put(struct sr_packet_out *p, uint32_t number, const struct sr_msg *msg)
{
	uint8_t *body = record_begin(p, number, (uint8_t)msg->type, msg->ack,
				     sr_msg_body_len(msg->type));

	if (body)
		sr_msg_body_encode(msg, body);
	return body;
}

static void process_encode(const struct sr_process *process, uint8_t *body)
{
	memset(body, 0, PROCESS_BODY);
	body[VERSION] = process->version;
	put16(body + LINKS, process->links);
	memcpy(body + PROCESS, process->process, SR_PROCESS_LEN);
}

bool sr_packet_put_process(struct sr_packet_out *p, const struct sr_process *process)
{
	uint8_t *body = record_begin(p, 0, SR_RECORD_PROCESS, 0, PROCESS_BODY);

	if (body)
		process_encode(process, body);
	return body;
}

bool sr_packet_put_open(struct sr_packet_out *p, uint32_t number,
			const struct sr_question *question)
{
	uint8_t *body = record_begin(p, number, SR_RECORD_OPEN, 0, SR_QUESTION_LEN);

	if (body)
		sr_question_encode(question, body);
	return body;
}

static bool put_short(struct sr_packet_out *p, uint32_t number, uint8_t type, uint8_t value)
{
	const uint8_t bytes[SHORT_BODY] = {value};
	uint8_t *body = record_begin(p, number, type, 0, SHORT_BODY);

	if (body)
		memcpy(body, bytes, SHORT_BODY);
	return body;
}

bool sr_packet_put_accept(struct sr_packet_out *p, uint32_t number, bool brief)
{
	return put_short(p, number, SR_RECORD_ACCEPT, brief);
}

/* WORD counts from 1. */
enum { FIRST_LEAST = SR_FIRST_TAKEN - 1, FIRSTS = SR_FIRST_LATER - FIRST_LEAST };

bool sr_packet_put_first(struct sr_packet_out *p, uint32_t number, enum sr_first first)
{
	return put_short(p, number, SR_RECORD_WORD, (uint8_t)(first - FIRST_LEAST));
}

static bool put_record_text(struct sr_packet_out *p, uint32_t number, uint8_t type, const char *text)
{
	size_t n = strlen(text);
	uint8_t *body = record_begin(p, number, type, 0, n);

	if (body)
		memcpy(body, text, n);
	return body;
}

bool sr_packet_put_refuse(struct sr_packet_out *p, uint32_t number, const char *word)
{
	return put_record_text(p, number, SR_RECORD_REFUSE, word);
}

bool sr_packet_put_there(struct sr_packet_out *p, uint32_t number, const uint16_t there[2])
{
	char place[SR_THERE_LEN];

	snprintf(place, sizeof(place), "%u %u", there[0], there[1]);
	return put_record_text(p, number, SR_RECORD_THERE, place);
}

uint8_t *sr_packet_put_raw(struct sr_packet_out *p, uint32_t number, uint8_t type, uint64_t ack,
			   size_t n)
{
	uint8_t *body = record_begin(p, number, type, ack, n);

	if (body && type == SR_RECORD_PAD)
		memset(body, 0, n);
	return body;
}

/* ---- reading ---- */

int sr_packet_open(struct sr_packet_in *p, const uint8_t *buf, size_t len)
{
	if (len < SR_PACKET_HEAD || len > SR_PACKET_MAX || len % SR_RECORD_ALIGN ||
	    get32(buf + ZERO))
		return -EPROTO;
	*p = (struct sr_packet_in){buf + SR_PACKET_HEAD, len - SR_PACKET_HEAD,
				   get32(buf + POSTED)};
	return 0;
}

static bool is_zero(const uint8_t *at, size_t n)
{
	while (n && !*at)
		at++, n--;
	return !n;
}

static bool process_decode(struct sr_record *r)
{
	uint8_t again[PROCESS_BODY];

	if (r->len != PROCESS_BODY)
		return false;
	r->process = (struct sr_process){r->body[VERSION], get16(r->body + LINKS), {0}};
	memcpy(r->process.process, r->body + PROCESS, SR_PROCESS_LEN);
	process_encode(&r->process, again);
	return !memcmp(again, r->body, PROCESS_BODY) && r->process.links &&
	       r->process.version == SR_WIRE_VERSION;
}

/* Is this a short body, whose byte is from `least` to `most`? */
static bool short_decode(const struct sr_record *r, uint8_t least, uint8_t most)
{
	return r->len == SHORT_BODY && r->body[0] >= least && r->body[0] <= most &&
	       is_zero(r->body + 1, SHORT_BODY - 1);
}

static bool word_decode(struct sr_record *r)
{
	static const char known[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

	if (!r->len || r->len > SR_WORD_MAX)
		return false;
	memcpy(r->word, r->body, r->len);
	r->word[r->len] = 0;
	return strspn(r->word, known) == r->len;
}

static bool there_decode(struct sr_record *r)
{
	char word[sizeof(SR_THERE) + SR_THERE_LEN] = SR_THERE " ";
	size_t before = strlen(word);

	if (r->len >= sizeof(word) - before)
		return false;
	memcpy(word + before, r->body, r->len);
	return strlen(word) == before + r->len && sr_there_verbs(r->there, word);
}

/* Is the body valid for a record that comes before there is a link?  Its ack must be 0. */
static bool answer_valid(struct sr_record *r)
{
	if (r->ack)
		return false;
	switch (r->type) {
	case SR_RECORD_OPEN:
		return r->len == SR_QUESTION_LEN &&
		       !sr_question_decode(&r->question, r->body, r->len);
	case SR_RECORD_ACCEPT:
		r->brief = r->len && r->body[0];
		return short_decode(r, 0, 1);
	case SR_RECORD_WORD:
		r->first = r->len ? r->body[0] + FIRST_LEAST : 0;
		return short_decode(r, 1, FIRSTS);
	case SR_RECORD_REFUSE:
		return word_decode(r);
	default:
		return there_decode(r);
	}
}

/* Is the body valid for a record of the queue pair itself (number 0), or of a link? */
static bool body_valid(struct sr_record *r)
{
	if (!r->number && r->ack)
		return false;
	if (r->type >= SR_RECORD_OPEN && r->type <= SR_RECORD_THERE)
		return r->number && answer_valid(r);
	switch (r->type) {
	case SR_RECORD_PROCESS:
		return !r->number && process_decode(r);
	case SR_RECORD_PAD:
		return !r->number && is_zero(r->body, r->len);
	case SR_RECORD_DROP:
		return r->number && !r->len;
	case SR_MSG_BYTES:
		return r->number && r->len;
	default:
		if (!r->number || sr_msg_body_decode(&r->msg, r->type, r->body, r->len))
			return false;
		r->msg.ack = r->ack;
		return true;
	}
}

int sr_packet_next(struct sr_packet_in *p, struct sr_record *record)
{
	const uint8_t *at = p->at;
	size_t whole;

	if (!p->left)
		return 0;
	if (p->left < SR_RECORD_HEAD || at[FLAGS])
		return -EPROTO;
	record->number = get32(at + NUMBER);
	record->type = at[TYPE];
	record->len = get16(at + LENGTH);
	record->ack = get64(at + ACK);
	record->body = at + SR_RECORD_HEAD;
	whole = SR_RECORD_HEAD + aligned(record->len);
	if (record->number > SR_RECORD_NUMBER_MAX || whole > p->left ||
	    !is_zero(record->body + record->len, aligned(record->len) - record->len) ||
	    !body_valid(record))
		return -EPROTO;
	p->at += whole;
	p->left -= whole;
	return 1;
}
