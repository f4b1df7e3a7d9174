/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * history.c - two ends that have taken the same bytes in different pieces have the same
 * password; a byte or a count that differs makes another.
 */
#include <stdbool.h>
#include <string.h>

#include "pure/history.h"
#include "check.h"

static const struct sr_sodium *na;
static uint8_t bytes[40000];

static struct sr_history history_of(size_t len, uint64_t seed)
{
	struct sr_history h;
	size_t at = 0;

	memset(&h, 0, sizeof(h));
	while (at < len) {
		size_t n = check_random(&seed) % (seed % 3 ? 40 : 300);

		n = n < len - at ? n : len - at;
		sr_history_add(&h, bytes + at, n);
		at += n;
	}
	CHECK_EQ(h.n, len);
	CHECK_EQ(h.kept, sr_history_kept(len));
	return h;
}

static bool same(const uint8_t a[SR_SHA512_LEN], const uint8_t b[SR_SHA512_LEN])
{
	return !memcmp(a, b, SR_SHA512_LEN);
}

static void show(uint8_t out[SR_SHA512_LEN], const struct sr_history *h,
		 uint64_t n)
{
	sr_history_password(na, out, h, n, h, 0);
}

/* Who has taken more still has what the other has. */
static void any_pieces(void)
{
	uint8_t a[SR_SHA512_LEN], b[SR_SHA512_LEN];

	for (uint64_t seed = 1; seed < 300; seed++) {
		uint64_t s = seed;
		size_t len = check_random(&s) % sizeof(bytes);
		size_t more = len + check_random(&s) % (sizeof(bytes) - len);
		struct sr_history x = history_of(len, seed);
		struct sr_history y = history_of(more, seed + 1000);

		show(a, &x, len);
		show(b, &y, len);
		CHECK(same(a, b));
	}
}

/* Which bytes are kept: the table in history.h, written another way. */
static bool is_kept(uint64_t at)
{
	uint64_t octave = SR_HISTORY_FIRST;

	if (at < SR_HISTORY_FIRST)
		return true;
	while (at >= 2 * octave)
		octave *= 2;
	return octave < (UINT64_C(1) << 33) && at % (octave / 8) < SR_HISTORY_SAMPLE;
}

static void the_right_ones(void)
{
	struct sr_history h;
	unsigned kept = 0;

	memset(&h, 0, sizeof(h));
	for (size_t i = 0; i < sizeof(bytes); i++) {
		CHECK_EQ(sr_history_kept(i), kept);
		sr_history_add(&h, bytes + i, 1);
		if (is_kept(i))
			CHECK_EQ(h.bytes[kept++], bytes[i]);
		CHECK_EQ(h.kept, kept);
	}
	CHECK(kept > SR_HISTORY_FIRST + 6 * 8 * SR_HISTORY_SAMPLE);
}

/* Far on: the last sample is near, and there is an end. */
static void far_on(void)
{
	static uint8_t piece[1 << 20];
	struct sr_history h;
	uint64_t n = 0;

	memset(&h, 0, sizeof(h));
	while (n < UINT64_C(1) << 34) {
		sr_history_add(&h, piece, sizeof(piece));
		n += sizeof(piece);
		CHECK_EQ(h.kept, sr_history_kept(n));
		CHECK(h.next >= n || h.next == UINT64_MAX);
		CHECK(h.next == UINT64_MAX || sr_history_kept(n - n / 9 - 8) < h.kept);
	}
	CHECK_EQ(h.kept, SR_HISTORY_MAX);
	CHECK_EQ(sr_history_kept((UINT64_C(1) << 33) - 1), SR_HISTORY_MAX);
	CHECK_EQ(sr_history_kept(UINT64_MAX), SR_HISTORY_MAX);
}

/* Each bit that is kept counts, up to the offset and no further. */
static void every_byte(void)
{
	static const size_t lens[] = {1, 16, 511, 512, 513, 5000, 30000};
	uint8_t a[SR_SHA512_LEN], b[SR_SHA512_LEN];
	struct sr_history x, y;
	uint64_t s = 9;

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		x = history_of(sizeof(bytes), 1);
		show(a, &x, lens[i]);
		for (unsigned times = 0; times < 300; times++) {
			size_t at = check_random(&s) % (2 * lens[i]);
			uint8_t bit = (uint8_t)(1 << s % 8);

			at %= sizeof(bytes);
			bytes[at] ^= bit;
			y = history_of(sizeof(bytes), 2);
			bytes[at] ^= bit;
			show(b, &y, lens[i]);
			CHECK_EQ(same(a, b), at >= lens[i] || !is_kept(at));
		}
	}
}

static void everything_counts(void)
{
	struct sr_history x = history_of(100, 1), y = history_of(90, 1);
	static const unsigned n[][2] = { { 80, 70 }, { 70, 80 }, { 79, 70 }, { 80, 71 },
					 { 80, 0 }, { 0, 80 }, { 0, 0 } };
	enum { N = sizeof(n) / sizeof(n[0]) };
	uint8_t all[2 * N][SR_SHA512_LEN];

	y.bytes[0] ^= 1;
	for (int i = 0; i < N; i++) {
		sr_history_password(na, all[i], &x, n[i][0], &y, n[i][1]);
		sr_history_password(na, all[N + i], &y, n[i][0], &x, n[i][1]);
	}
	for (int i = 0; i < 2 * N - 1; i++) /* the last is of no bytes, too */
		for (int j = 0; j < i; j++)
			CHECK(!same(all[i], all[j]));
	CHECK(same(all[N - 1], all[2 * N - 1]));
}

int main(void)
{
	uint64_t s = 1;

	na = sr_sodium();
	if (!na)
		return 77;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)check_random(&s);
	the_right_ones();
	far_on();
	any_pieces();
	every_byte();
	everything_counts();
	return 0;
}
