/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * line.c - the packets between those who share a listening address; any user of the
 * host may be a worker, or hold the keeper's name.  Where a worker answers is told to
 * askers, who must be able to read it.
 */
#include <stdio.h>

#include "fuzz.h"
#include "pure/request.h"

static void there(const struct sr_there *there)
{
	char word[sizeof(SR_THERE) + SR_THERE_LEN], name[SR_THERE_NAME_LEN];
	uint16_t port[2];
	uint32_t uid;

	if (there->kind[0][0]) {
		snprintf(word, sizeof(word), SR_THERE " %s", there->kind[0]);
		CHECK(sr_there_shm(name, &uid, word));
	}
	if (there->kind[1][0]) {
		snprintf(word, sizeof(word), SR_THERE " %s", there->kind[1]);
		CHECK(sr_there_verbs(port, word));
	}
}

void fuzz_line(const uint8_t *data, size_t size)
{
	uint8_t again[SR_LINE_PACKET_LEN], *p = fuzz_exact(data, size);
	struct sr_line_packet packet;

	if (!sr_line_packet_decode(&packet, p, size)) {
		sr_line_packet_encode(&packet, again);
		CHECK_EQ(size, sizeof(again));
		CHECK(!memcmp(p, again, size));
		there(&packet.there);
	}
	free(p);
}
