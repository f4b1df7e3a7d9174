/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * message.c - a message as it comes on a link, and its credit.  One that is accepted has one
 * encoding, and says nothing that the rest may not expect.
 */
#include <errno.h>

#include "fuzz.h"
#include "pure/credit.h"
#include "pure/wire.h"

static void message(const uint8_t *data, size_t size)
{
	uint8_t again[SR_MSG_MAX], *p = fuzz_exact(data, size);
	struct sr_msg msg;

	memset(&msg, 0xee, sizeof(msg));
	if (!sr_msg_decode(&msg, p, size)) {
		CHECK(size <= SR_MSG_MAX);
		CHECK_EQ(sr_msg_encode(&msg, again), size);
		CHECK(!memcmp(p, again, size));
	}
	free(p);
}

/* Credit that is believed lies between what was known and what was sent. */
static void credit(struct fuzz *f)
{
	uint64_t w = fuzz_bytes(f, 8), acked = w - fuzz_bytes(f, 2);
	uint64_t said = fuzz_number(f, acked);
	int news;

	if (acked > w)
		acked = w;
	news = sr_credit_said(acked, w, said);
	CHECK(news == (said < acked || said > w ? -EPROTO : said > acked));
}

void fuzz_message(const uint8_t *data, size_t size)
{
	struct fuzz f = {data, size};

	message(data, size);
	credit(&f);
}
