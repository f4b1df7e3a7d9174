/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* fake_profile.c - the table of profiles; see fake_profile.h. */
#include "fake_profile.h"

#include <stdlib.h>
#include <string.h>

#include "fake_impl.h"

static const struct fake_profile profiles[] = {
	{.name = "plain", .kinds = FAKE_BOTH, .max_inline = FAKE_INLINE, .ports = 2, .vectors = 1},
	{.name = "irdma", .kinds = FAKE_BOTH, .max_inline = 101, .arming = ARM_PUT_OFF, .ports = 1,
	 .vectors = 4},
	{.name = "ionic", .kinds = FAKE_IB, .max_inline = 64, .arming = ARM_IN_POLL, .ports = 1,
	 .vectors = 4},
	{.name = "qedr", .kinds = FAKE_BOTH, .max_inline = FAKE_INLINE,
	 .arming = ARM_IN_EACH_POLL, .ports = 1, .vectors = 4},
	{.name = "mlx5", .kinds = FAKE_IB, .max_inline = FAKE_INLINE, .arming = ARM_BY_NUMBER,
	 .pins = true, .slow_us = 300, .ports = 2, .vectors = 8},
	{.name = "cxgb4", .kinds = FAKE_IWARP, .max_inline = FAKE_INLINE, .destroys_fail = true,
	 .ports = 2, .vectors = 4},
	{.name = "hns08", .kinds = FAKE_IB, .max_inline = 32, .grants_less = true,
	 .arming = ARM_BY_NUMBER, .ports = 1, .vectors = 4},
	{.name = "rdmavt", .kinds = FAKE_IB, .max_inline = 0, .grants_less = true,
	 .ignores_inline = true, .ports = 1, .vectors = 1},
	/* A device of no vendor's, in a network that has its days. */
	{.name = "fabric", .kinds = FAKE_BOTH, .max_inline = FAKE_INLINE, .maps_ports = true,
	 .late_us = 300, .lost = 50, .rejected = 7, .ports = 2, .vectors = 4},
	{.name = "all", .kinds = FAKE_BOTH, .max_inline = 32, .grants_less = true,
	 .destroys_fail = true, .pins = true, .old_kernel = true,
	 .slow_us = 300,
	 .arming = ARM_IN_TURN, .ports = 2, .vectors = 8},
};

const struct fake_profile *fake_profile(void)
{
	static const struct fake_profile *found;
	const char *name = getenv("SR_TEST_FAKE");
	unsigned i;

	for (i = 0; !found && i < sizeof(profiles) / sizeof(profiles[0]); i++)
		if (!strcmp(profiles[i].name, name ? name : "plain"))
			found = &profiles[i];
	if (!found)
		fake_broke("no such profile");
	return found;
}

/* ---- arming ---- */

static void arm(struct cq *c, enum fake_level level)
{
	if (c->armed < level)
		c->armed = level;
}

void fake_arm(struct cq *c, enum fake_level level)
{
	switch (c->arming) {
	case ARM_BY_NUMBER:
		if (!c->events)
			arm(c, level);
		break;
	case ARM_PUT_OFF:
		if (level <= c->asked) {
			c->put_off = level;
			break;
		}
		c->asked = level;
		c->put_off = NOT_ARMED;
		arm(c, level);
		break;
	case ARM_IN_POLL:
		c->put_off = c->put_off > level ? c->put_off : level;
		break;
	case ARM_IN_EACH_POLL:
		c->put_off = level;
		arm(c, level);
		break;
	default:
		arm(c, level);
		break;
	}
}

void fake_polled(struct cq *c)
{
	if (c->arming != ARM_IN_POLL && c->arming != ARM_IN_EACH_POLL)
		return;
	arm(c, c->put_off);
	if (c->arming == ARM_IN_POLL)
		c->put_off = NOT_ARMED;
}

void fake_event_read(struct cq *c)
{
	if (c->arming == ARM_PUT_OFF) {
		arm(c, c->put_off);
		c->asked = c->put_off;
	}
	if (c->arming == ARM_PUT_OFF || c->arming == ARM_IN_EACH_POLL)
		c->put_off = NOT_ARMED;
}
