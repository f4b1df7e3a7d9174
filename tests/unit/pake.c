/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pake.c - CPace: the draft's test vectors (draft-irtf-cfrg-cpace-21, appendix B.3), and
 * what two ends get that differ in anything.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "check.h"
#include "pure/pake.h"

static const struct sr_sodium *na;

#define BYTES(s) ((struct sr_octets){ (s), sizeof(s) - 1 })

static void from_hex(uint8_t *out, const char *hex)
{
	for (unsigned byte; *hex; hex += 2) {
		CHECK_EQ(sscanf(hex, "%2x", &byte), 1);
		*out++ = (uint8_t)byte;
	}
}

static void is_hex(const uint8_t *got, size_t len, const char *hex)
{
	uint8_t want[SR_SHA512_LEN];

	CHECK(len <= sizeof(want) && strlen(hex) == 2 * len);
	from_hex(want, hex);
	CHECK(!memcmp(got, want, len));
}

/* ---- the draft's ---- */

static const char *scalar;

static void scalar_given(uint8_t out[SR_POINT_LEN])
{
	from_hex(out, scalar);
}

static void vectors(void)
{
	uint8_t sid[16], key[SR_SHA512_LEN];
	struct sr_pake_terms t = {
		BYTES("Password"), BYTES("\x0b" "A_initiator" "\x0b" "B_responder"),
		{ sid, sizeof(sid) } };
	struct sr_sodium given = *na;
	struct sr_pake a, b;

	from_hex(sid, "7e4b4791d6a8ef019b936c79fb7f2c57");
	given.scalar_random = scalar_given;
	scalar = "da3d23700a9e5699258aef94dc060dfda5ebb61f02a5ea77fad53f4ff0976d08";
	sr_pake_begin(&given, &a, &t);
	is_hex(a.share, sizeof(a.share),
	       "d6bac480f2c386c394efc7c47adb9925dcd2630b64f240c50f8d0eec482b9157");
	scalar = "d2316b454718c35362d83d69df6320f38578ed5984651435e2949762d900b80d";
	sr_pake_begin(&given, &b, &t);
	is_hex(b.share, sizeof(b.share),
	       "3ea7e0b19560d7c0b0f5734f63b955286dfa8232b5ebe63324e2d9e7433f7258");

	struct sr_pake_end end[2] = {
		{ { a.share, SR_SHARE_LEN }, BYTES("ADa") },
		{ { b.share, SR_SHARE_LEN }, BYTES("ADb") } };
	for (int us = 0; us < 2; us++) {
		CHECK_EQ(sr_pake_key(na, us ? &b : &a, t.session, end, us, key), 0);
		is_hex(key, sizeof(key),
		       "b69effbf61b51d56401c0f65601abe428de8206feaaf0e32198896dcae7b35cd"
		       "2b38950a39dfd5d4a79164614c2984f7daa460b588c1e80c3fa2068af7900447");
	}
}

/* A password of a block and more has no zeros in front of what follows. */
static void long_passwords(void)
{
	static char password[127];
	struct sr_pake_terms t = { .channel = BYTES("c"), .session = BYTES("s") };
	struct sr_sodium given = *na;
	struct sr_pake a, b;

	given.scalar_random = scalar_given;
	memset(password, 'p', sizeof(password));
	for (size_t len = 0; len < sizeof(password); len++) {
		t.password = (struct sr_octets){ password, len };
		sr_pake_begin(&given, &a, &t);
		sr_pake_begin(&given, &b, &t);
		CHECK(!memcmp(a.share, b.share, SR_SHARE_LEN));
		t.password.len++;
		sr_pake_begin(&given, &b, &t);
		CHECK(memcmp(a.share, b.share, SR_SHARE_LEN));
	}
}

/* ---- two ends ---- */

struct end {
	struct sr_pake_terms terms;
	struct sr_octets data[2];	/* of the two, as this end knows them */
	struct sr_pake p;
	uint8_t key[SR_SHA512_LEN];
};

static const struct end usual = {
	.terms = { BYTES("history"), BYTES("link"), BYTES("tokens") },
	.data = { BYTES("asker's hello"), BYTES("answerer's hello") },
};

/* Each end with the other's share; do they have one key? */
static bool agree(struct end *e)
{
	for (int i = 0; i < 2; i++)
		sr_pake_begin(na, &e[i].p, &e[i].terms);
	for (int i = 0; i < 2; i++) {
		struct sr_pake_end end[2] = {
			{ { e[0].p.share, SR_SHARE_LEN }, e[i].data[0] },
			{ { e[1].p.share, SR_SHARE_LEN }, e[i].data[1] } };

		CHECK_EQ(sr_pake_key(na, &e[i].p, e[i].terms.session, end, i, e[i].key), 0);
	}
	return !memcmp(e[0].key, e[1].key, SR_SHA512_LEN);
}

static void same(void)
{
	uint8_t first[SR_SHA512_LEN], share[SR_SHARE_LEN], tag[2][SR_TAG_LEN];
	struct end e[2] = { usual, usual };

	CHECK(agree(e));
	memcpy(first, e[0].key, sizeof(first));
	memcpy(share, e[0].p.share, sizeof(share));
	/* The same once more: nothing that was sent or made is. */
	CHECK(agree(e));
	CHECK(memcmp(first, e[0].key, sizeof(first)));
	CHECK(memcmp(share, e[0].p.share, sizeof(share)));
	for (int who = 0; who < 2; who++)
		sr_pake_tag(na, e[0].key, who, tag[who]);
	CHECK(memcmp(tag[0], tag[1], SR_TAG_LEN));
	sr_pake_tag(na, e[1].key, 0, tag[1]);
	CHECK(!memcmp(tag[0], tag[1], SR_TAG_LEN));
	sr_pake_tag(na, first, 0, tag[1]);
	CHECK(memcmp(tag[0], tag[1], SR_TAG_LEN));
}

static void different(void)
{
	struct end e[2] = { usual, usual };

	e[1].terms.password = BYTES("hjstory");
	CHECK(!agree(e));
	e[1] = usual;
	e[1].terms.channel = BYTES("another");
	CHECK(!agree(e));
	e[1] = usual;
	e[1].terms.session = BYTES("of before");
	CHECK(!agree(e));
	for (int i = 0; i < 2; i++) {
		e[1] = usual;
		e[1].data[i] = BYTES("");
		CHECK(!agree(e));
	}
	/* Pieces of the same whole. */
	e[1] = usual;
	e[1].terms.channel = BYTES("linkt");
	e[1].terms.session = BYTES("okens");
	CHECK(!agree(e));
}

/* Two of one role: each takes itself for the asker. */
static void one_role(void)
{
	struct end e[2] = { usual, usual };

	agree(e);
	for (int i = 0; i < 2; i++) {
		struct sr_pake_end end[2] = {
			{ { e[i].p.share, SR_SHARE_LEN }, usual.data[0] },
			{ { e[!i].p.share, SR_SHARE_LEN }, usual.data[0] } };

		CHECK_EQ(sr_pake_key(na, &e[i].p, usual.terms.session, end, 0, e[i].key), 0);
	}
	CHECK(memcmp(e[0].key, e[1].key, SR_SHA512_LEN));
}

static int key_with(const uint8_t share[SR_SHARE_LEN], const struct end *e)
{
	uint8_t key[SR_SHA512_LEN];
	struct sr_pake_end end[2] = {
		{ { e->p.share, SR_SHARE_LEN }, usual.data[0] },
		{ { share, SR_SHARE_LEN }, usual.data[1] } };

	return sr_pake_key(na, &e->p, usual.terms.session, end, 0, key);
}

static void refused(void)
{
	/* The identity; not canonical; negative; not a square (RFC 9496, A.3). */
	static const char *const bad[] = {
		"0000000000000000000000000000000000000000000000000000000000000000",
		"00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f" };
	struct end e[2] = { usual, usual };
	uint8_t share[SR_SHARE_LEN];

	CHECK(agree(e));
	CHECK_EQ(key_with(e[1].p.share, &e[0]), 0);
	CHECK_EQ(key_with(e[0].p.share, &e[0]), -EPROTO); /* reflected */
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		from_hex(share, bad[i]);
		CHECK_EQ(key_with(share, &e[0]), -EPROTO);
	}
}

int main(void)
{
	na = sr_sodium();
	if (!na)
		return 77;
	vectors();
	long_passwords();
	same();
	different();
	one_role();
	refused();
	return 0;
}
