/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * none.c - in the place of the verbs link where it was not built
 * (configure --without-verbs, or no headers): never usable, so nothing else of it
 * is called.
 */
#include "link/link.h"
#include "link/rendezvous.h"

#ifndef HAVE_VERBS
static const char *no_verbs_usable(void)
{
	return "no-library";
}

const struct sr_link_ops sr_link_verbs = { .name = "verbs" };
const struct sr_rendezvous sr_rendezvous_verbs = {
	.name = "verbs", .kind = 1, .usable = no_verbs_usable
};
#endif
