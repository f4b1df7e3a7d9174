/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fake_profile.h - how the fake device differs from a plain one, as those of hardware do: by
 * the providers of rdma-core 65 and the kernel's drivers.  SR_TEST_FAKE in the environment
 * names a profile of the table in fake_profile.c.
 */
#ifndef FAKE_PROFILE_H
#define FAKE_PROFILE_H

#include <stdbool.h>

enum { FAKE_IB = 1, FAKE_IWARP = 2, FAKE_BOTH = 3 };

/* When ibv_req_notify_cq() takes effect. */
enum fake_arming {
	ARM_AT_ONCE,
	ARM_BY_NUMBER,	  /* not before the last event has been read (mlx5) */
	ARM_PUT_OFF,	  /* if armed, when the event is read (irdma) */
	ARM_IN_POLL,	  /* in the next poll of the queue (ionic) */
	ARM_IN_EACH_POLL, /* again in each, until an event is read (qedr) */
	ARM_WAYS,
	ARM_IN_TURN = ARM_WAYS /* each queue in another of these ways */
};

struct fake_profile {
	const char *name;
	int kinds;
	unsigned max_inline;
	bool grants_less;     /* inline, where more is asked; else that is EINVAL */
	bool ignores_inline;  /* the buffer is read later */
	bool destroys_fail;   /* once the device is gone: EIO */
	bool pins;	      /* queues, as RLIMIT_MEMLOCK counts */
	bool old_kernel;      /* a child's copy-on-write takes pinned pages: before Linux 5.9 */
	bool maps_ports;      /* of iWARP's askers only: they have a port mapper (iwpmd) */
	unsigned slow_us;     /* what makes and destroys takes so long */
	unsigned late_us;     /* a queue's event comes so long after its completion */
	unsigned lost, rejected; /* one in so many requests of InfiniBand is, the latter by the
				  * kernel, without a word */
	unsigned char ports, vectors;
	enum fake_arming arming;
};

const struct fake_profile *fake_profile(void);

#endif
