/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* offer.c - an asker's offer of shared memory, which any user of the host may send. */
#include "fuzz.h"
#include "link/shm/shm.h"

void fuzz_offer(const uint8_t *data, size_t size)
{
	uint8_t again[SR_OFFER_LEN], *p = fuzz_exact(data, size);
	struct sr_shm_plan plan;
	struct sr_offer offer;

	if (!sr_offer_decode(&offer, p, size)) {
		sr_offer_encode(&offer, again);
		CHECK_EQ(size, sizeof(again));
		CHECK(!memcmp(p, again, size));
		if (!sr_shm_plan(&plan, (size_t)1 << offer.first,
				 (size_t)1 << offer.max)) {
			CHECK(plan.areas > 0 && plan.areas <= SR_SHM_AREAS);
			CHECK(plan.total == 2 * plan.page + 2 * plan.ring);
			CHECK(plan.total <= (size_t)4 << 30);
		}
	}
	free(p);
}
