/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* request.c - encodes and decodes what processes send before there is a link; see request.h. */
#include "pure/request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SIZE_LOG2_MAX 30

/* ---- the question ---- */

enum { HOLDS = SR_NAME_LEN, TCLASS, ZERO };	/* offsets of the fields behind the name */

void sr_question_encode(const struct sr_question *question, uint8_t buf[SR_QUESTION_LEN])
{
	memset(buf, 0, SR_QUESTION_LEN);
	sr_name_encode(&question->name, buf);
	buf[HOLDS] = (uint8_t)question->holds;
	buf[TCLASS] = question->tclass;
}

int sr_question_decode(struct sr_question *question, const uint8_t *buf, size_t len)
{
	struct sr_question q;

	if (len < SR_QUESTION_LEN || sr_name_decode(&q.name, buf, SR_NAME_LEN) ||
	    buf[HOLDS] > SR_HOLDS_ON || buf[ZERO] || buf[ZERO + 1])
		return -EPROTO;
	q.holds = buf[HOLDS];
	q.tclass = buf[TCLASS];
	*question = q;
	return 0;
}

/* ---- the offer ---- */

void sr_offer_encode(const struct sr_offer *offer, uint8_t buf[SR_OFFER_LEN])
{
	buf[0] = SR_WIRE_VERSION;
	buf[1] = offer->first;
	buf[2] = offer->max;
	buf[3] = offer->alone;
	sr_question_encode(&offer->question, buf + 4);
}

int sr_offer_decode(struct sr_offer *offer, const uint8_t *buf, size_t len)
{
	struct sr_offer o;

	if (len != SR_OFFER_LEN || buf[0] != SR_WIRE_VERSION || buf[1] > buf[2] ||
	    buf[2] > SIZE_LOG2_MAX || buf[3] > 1 ||
	    sr_question_decode(&o.question, buf + 4, len - 4))
		return -EPROTO;
	o.first = buf[1];
	o.max = buf[2];
	o.alone = buf[3];
	*offer = o;
	return 0;
}

/* ---- the first answer ---- */

static const char *const first_words[] = {
	[SR_FIRST_TAKEN] = "taken",
	[SR_FIRST_COMING] = "coming",
	[SR_FIRST_BYTES] = "bytes",
	[SR_FIRST_LATER] = "later",
};

const char *sr_first_word(enum sr_first first)
{
	return first_words[first];
}

bool sr_first_suits(enum sr_first first, enum sr_holds holds)
{
	return holds && first >= (holds == SR_HOLDS_FIRST ? SR_FIRST_TAKEN : SR_FIRST_LATER);
}

enum sr_first sr_first_find(const char *word, enum sr_holds holds)
{
	enum sr_first first = SR_FIRST_LATER;

	while (first >= SR_FIRST_TAKEN && strcmp(word, first_words[first]) != 0)
		first--;
	return sr_first_suits(first, holds) ? first : SR_FIRST_NONE;
}

/* ---- elsewhere ---- */

void sr_place_shm(char place[SR_THERE_LEN], uint64_t random, uint32_t uid)
{
	snprintf(place, SR_THERE_LEN, "%016" PRIx64 " %" PRIu32, random, uid);
}

/* Accepts only the text that sr_place_shm() writes. */
static bool is_shm_place(const char *s, uint32_t *uid)
{
	char again[SR_THERE_LEN];
	uint64_t random;

	if (sscanf(s, "%16" SCNx64 " %10" SCNu32, &random, uid) != 2)
		return false;
	sr_place_shm(again, random, *uid);
	return !strcmp(again, s);
}

/* Accepts only the text that a listener of this kind writes. */
static bool is_verbs_place(const char *s, uint16_t port[2])
{
	char again[SR_THERE_LEN];

	if (sscanf(s, "%5hu %5hu", &port[0], &port[1]) != 2)
		return false;
	snprintf(again, sizeof(again), "%u %u", port[0], port[1]);
	return !strcmp(again, s) && (port[0] || port[1]);
}

/* What follows SR_THERE in a word; NULL: it does not begin so. */
static const char *place_in(const char *word)
{
	return strncmp(word, SR_THERE " ", sizeof(SR_THERE)) ? NULL :
							       word + sizeof(SR_THERE);
}

bool sr_there_shm(char name[SR_THERE_NAME_LEN], uint32_t *uid, const char *word)
{
	const char *s = place_in(word);
	uint32_t user;

	if (!s || !is_shm_place(s, &user))
		return false;
	memcpy(name, s, SR_THERE_NAME_LEN - 1);
	name[SR_THERE_NAME_LEN - 1] = 0;
	*uid = user;
	return true;
}

bool sr_there_verbs(uint16_t port[2], const char *word)
{
	const char *s = place_in(word);
	uint16_t p[2];

	if (!s || !is_verbs_place(s, p))
		return false;
	port[0] = p[0];
	port[1] = p[1];
	return true;
}

/* ---- keeper and workers ---- */

enum { NAME = 1, THERE = NAME + SR_NAME_LEN, COOKIE = THERE };
_Static_assert(THERE + sizeof(struct sr_there) == SR_LINE_PACKET_LEN, "nothing behind it");

void sr_line_packet_encode(const struct sr_line_packet *packet, uint8_t buf[SR_LINE_PACKET_LEN])
{
	memset(buf, 0, SR_LINE_PACKET_LEN);
	buf[0] = (uint8_t)packet->word;
	if (packet->word == SR_LINE_JOIN)
		memcpy(buf + THERE, &packet->there, sizeof(packet->there));
	else
		sr_name_encode(&packet->name, buf + NAME);
	if (packet->word == SR_LINE_CLAIM)
		memcpy(buf + COOKIE, &packet->cookie, sizeof(packet->cookie));
}

/* Texts with zeros behind them, each a place of its kind or nothing. */
static bool there_valid(const struct sr_there *there)
{
	const char *shm = there->kind[0], *verbs = there->kind[1];
	struct sr_there again = { 0 };
	uint16_t port[2];
	uint32_t uid;

	for (int i = 0; i < SR_KINDS; i++)
		snprintf(again.kind[i], SR_THERE_LEN, "%.*s", SR_THERE_LEN - 1,
			 there->kind[i]);
	return !memcmp(&again, there, sizeof(again)) && (!*shm || is_shm_place(shm, &uid)) &&
	       (!*verbs || is_verbs_place(verbs, port));
}

int sr_line_packet_decode(struct sr_line_packet *packet, const uint8_t *buf, size_t len)
{
	uint8_t again[SR_LINE_PACKET_LEN];
	struct sr_line_packet p;

	if (len != SR_LINE_PACKET_LEN || buf[0] < SR_LINE_JOIN || buf[0] > SR_LINE_CLAIM)
		return -EPROTO;
	memset(&p, 0, sizeof(p));
	p.word = buf[0];
	if (p.word == SR_LINE_JOIN)
		memcpy(&p.there, buf + THERE, sizeof(p.there));
	else if (sr_name_decode(&p.name, buf + NAME, SR_NAME_LEN))
		return -EPROTO;
	if (p.word == SR_LINE_CLAIM)
		memcpy(&p.cookie, buf + COOKIE, sizeof(p.cookie));
	sr_line_packet_encode(&p, again);
	if (memcmp(again, buf, len) || !there_valid(&p.there))
		return -EPROTO;
	*packet = p;
	return 0;
}
