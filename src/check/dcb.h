/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * dcb.h - data center bridging of a network device: which priorities are lossless (PFC), and
 * which priority a DSCP has.
 */
#ifndef SR_CHECK_DCB_H
#define SR_CHECK_DCB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"

#define DCB_DSCPS 64
#define DCB_NONE 0xff

struct dcb {
	uint8_t pfc;			/* a bit for each priority */
	bool trusts_dscp;		/* a DSCP has a priority */
	uint8_t priority[DCB_DSCPS];	/* of a DSCP; DCB_NONE: no rule */
};

/* Asks the kernel, which asks the driver; changes nothing.  False: the device has no data center
 * bridging, or the driver does not report it. */
bool dcb_read(struct dcb *d, const char *netdev);
/* Parses the kernel's answer; the result is that of dcb_read(). */
bool dcb_parse(struct dcb *d, const void *reply, size_t len);
/* Says what happens to packets of the traffic class.  *better: a class whose priority is
 * lossless, or 0. */
enum verdict dcb_judge(const struct dcb *d, unsigned tclass, char *found, size_t size,
		       unsigned *better);

#endif
