/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * name.c - the name of a TCP connection, as anybody may send it: to the RDMA port, on the
 * AF_UNIX line, or among those who share a listening address.
 */
#include "fuzz.h"
#include "base/addr.h"
#include "pure/wire.h"

void fuzz_name(const uint8_t *data, size_t size)
{
	uint8_t again[SR_NAME_LEN], *p = fuzz_exact(data, size);
	struct sockaddr_storage src, dst;
	struct sr_name name, made;

	if (!sr_name_decode(&name, p, size)) {
		CHECK(size >= SR_NAME_LEN);
		sr_name_encode(&name, again);
		CHECK(!memcmp(p, again, sizeof(again)));
		/* One that is accepted is one that an honest end makes. */
		sr_name_addresses(&name, &src, &dst);
		CHECK_EQ(sr_name_make(&made, (struct sockaddr *)&src,
				      (struct sockaddr *)&dst, name.link_no), 0);
		CHECK(sr_name_equal(&made, &name) && made.link_no == name.link_no);
	}
	free(p);
}
