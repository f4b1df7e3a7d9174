/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * word.c - the word that answers a request: of a user of this host, or in the private
 * data of a rejection.
 */
#include <stdio.h>

#include "fuzz.h"
#include "base/report.h"
#include "pure/request.h"

void fuzz_word(const uint8_t *data, size_t size)
{
	char *word = calloc(1, size + 1), name[SR_THERE_NAME_LEN], again[64];
	enum sr_reason reason;
	enum sr_first first;
	uint16_t port[2];
	uint32_t uid;

	CHECK(word != NULL);
	if (size)
		memcpy(word, data, size);
	if (sr_there_shm(name, &uid, word)) {
		snprintf(again, sizeof(again), SR_THERE " %s %u", name, uid);
		CHECK(!strcmp(word, again) && strlen(name) == SR_THERE_NAME_LEN - 1);
	}
	if (sr_there_verbs(port, word))
		CHECK(port[0] || port[1]);
	first = sr_first_find(word, SR_HOLDS_FIRST);
	if (first != SR_FIRST_NONE)
		CHECK(!strcmp(sr_first_word(first), word));
	CHECK(sr_first_find(word, SR_HOLDS_ON) == (first == SR_FIRST_LATER ? first : 0));
	CHECK(!sr_first_find(word, SR_HOLDS_NOT));
	reason = sr_reason_find(word);
	CHECK(reason == SR_REASON_NONE || !strcmp(sr_reason_word(reason), word));
	free(word);
}
