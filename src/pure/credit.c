/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * credit.c - checks of the credit that a peer returns.  Pure; see credit.h.
 */
#include <errno.h>

#include "pure/credit.h"

int sr_credit_said(uint64_t acked, uint64_t w, uint64_t said)
{
	if (said < acked || said > w)
		return -EPROTO;
	return said > acked;
}

int sr_slots_said(struct sr_slots *s, uint32_t back)
{
	if (back - s->back > s->sent - s->back)
		return -EPROTO;
	s->back = back;
	return 0;
}
