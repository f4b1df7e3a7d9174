/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* scenes_kernel.h - for scenes.c: the calls are libc's, and the kernel moves the bytes. */
#ifndef SCENES_KERNEL_H
#define SCENES_KERNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "scenes_watch.h"

#define CALL(name) name
#define DEVICE_HAS_LOCK false

/* What the device counts. */
struct device_counts {
	uint64_t packets;
};

/* The file has the number of packets that the device has sent: rxe's counter. */
static inline struct device_counts device_look(void)
{
	struct device_counts c = {0};
	const char *name = getenv("SR_BENCH_PACKETS");
	unsigned long n;
	FILE *f = name ? fopen(name, "r") : NULL;

	if (f && fscanf(f, "%lu", &n) == 1)
		c.packets = n;
	if (f)
		fclose(f);
	return c;
}

static inline double device_calls(const struct device_counts *c)
{
	return (double)c->packets;
}

static inline void device_print(const struct device_counts *a, const struct device_counts *b,
				double messages)
{
	if (b->packets)
		printf("packets %.3f\n", (double)(b->packets - a->packets) / messages);
}

static inline void device_begin(void)
{
}

/* It needs no help. */
static inline void device_hold(void)
{
}

static inline void device_release(void)
{
}

static inline void device_settle(void)
{
	usleep(1000);
}

static inline bool device_step(void)
{
	return false;
}

static inline unsigned device_queue_pairs(void)
{
	return 0;
}

static inline size_t device_pinned(void)
{
	return 0;
}

#endif
