/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sha256.c - the examples of FIPS 180-4 and NIST's CAVP, in any pieces. */
#include <string.h>

#include "pure/sha256.h"
#include "check.h"

static void digest_of(char hex[65], const void *buf, size_t len, size_t piece)
{
	const uint8_t *p = buf;
	struct sr_sha256 s;
	uint8_t out[32];

	sr_sha256_init(&s);
	for (size_t at = 0; at < len; at += piece)
		sr_sha256_add(&s, p + at, len - at < piece ? len - at : piece);
	sr_sha256_end(&s, out);
	for (size_t i = 0; i < sizeof(out); i++)
		snprintf(hex + 2 * i, 3, "%02x", out[i]);
}

static void expect(const void *buf, size_t len, const char *want)
{
	char hex[65];

	for (size_t piece = 1; piece <= 130; piece++) {
		digest_of(hex, buf, len, piece);
		CHECK(!strcmp(hex, want));
	}
}

int main(void)
{
	static const char two_blocks[] =
		"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
	static const char four_blocks[] =
		"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
		"hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";
	static char million[1000000];
	char hex[65];

	expect("", 0,
	       "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b85"
	       "5");
	expect("abc", 3,
	       "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a"
	       "d");
	expect(two_blocks, strlen(two_blocks),
	       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c"
	       "1");
	expect(four_blocks, strlen(four_blocks),
	       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d"
	       "1");
	memset(million, 'a', sizeof(million));
	digest_of(hex, million, sizeof(million), 4096);
	CHECK(!strcmp(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046"
			   "d39ccc7112cd0"));
	return 0;
}
