/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* paths.c - for how long a host is left alone to which no link works, by a made-up clock. */
#include "base/real.h"

#include <arpa/inet.h>

#include "check.h"
#include "upgrade/upgrade.h"

#define S UINT64_C(1000000000)

static struct sockaddr_storage host(const char *text, uint16_t port)
{
	struct sockaddr_storage a = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&a;

	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	CHECK_EQ(inet_pton(AF_INET, text, &in->sin_addr), 1);
	return a;
}

int main(void)
{
	struct sockaddr_storage a = host("10.0.0.1", 80), other_port = host("10.0.0.1", 81);
	struct sockaddr_storage b = host("10.0.0.2", 80);
	uint64_t now = 1000 * S, rest[] = { 0, 60, 120, 240, 480, 480, 480 };

	for (unsigned i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
		CHECK(!sr_path_rests(&a, now));
		CHECK_EQ(sr_path_died(&a, now - 1, now), rest[i] * S);
		/* These two were being made meanwhile. */
		CHECK_EQ(sr_path_died(&other_port, now - 1, now), 0);
		CHECK_EQ(sr_path_died(&a, now - S, now), 0);
		CHECK_EQ(sr_path_rests(&a, now), rest[i] > 0);
		CHECK_EQ(sr_path_rests(&other_port, now), rest[i] > 0);
		CHECK(!sr_path_rests(&b, now));
		if (rest[i])
			CHECK(sr_path_rests(&a, now + rest[i] * S - 1));
		now += rest[i] * S + 2;
	}
	CHECK(!sr_path_rests(&a, now));
	/* One link that works, and the next that fails is the first again. */
	sr_path_works(&a);
	CHECK_EQ(sr_path_died(&a, now - 1, now), 0);
	sr_path_works(&a);
	CHECK_EQ(sr_path_died(&a, now, now + 1), 0);
	CHECK_EQ(sr_path_died(&a, now + 1, now + 2), 60 * S);
	sr_path_works(&a);
	CHECK(!sr_path_rests(&a, now + 2));
	return 0;
}
