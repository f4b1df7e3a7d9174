/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sha256.c - the examples of FIPS 180-4 and NIST's CAVP, and lengths around a block's. */
#include <string.h>

#include "pure/sha256.h"
#include "check.h"

static void expect(const void *buf, size_t len, const char *want)
{
	uint8_t out[32];
	char hex[65];

	sr_sha256(buf, len, out);
	for (size_t i = 0; i < sizeof(out); i++)
		snprintf(hex + 2 * i, 3, "%02x", out[i]);
	CHECK(!strcmp(hex, want));
}

int main(void)
{
	static const char two_blocks[] =
		"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
	static const char four_blocks[] =
		"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
		"hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";
	static char million[1000000];

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
	expect(million, sizeof(million),
	       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd"
	       "0");
	expect(million, 55,
	       "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f73431"
	       "8");
	expect(million, 56,
	       "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738"
	       "a");
	expect(million, 63,
	       "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f3"
	       "4");
	expect(million, 64,
	       "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668e"
	       "b");
	expect(million, 65,
	       "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae"
	       "0");
	expect(million, 119,
	       "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcf"
	       "b");
	expect(million, 120,
	       "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21"
	       "c");
	expect(million, 128,
	       "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73"
	       "e");
	return 0;
}
