/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * conf.h - the SOCKRAIL_ knobs (include/knobs.def), read once from the
 * environment.  A bad value costs one warning and the default is used.
 */
#ifndef SR_CONF_H
#define SR_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum sr_upgrade { SR_LAZY, SR_EAGER, SR_WAIT, SR_NEVER };
enum sr_level { SR_ERROR, SR_WARN, SR_INFO, SR_DEBUG, SR_TRACE };

struct sr_conf {
	bool inert;		/* setuid program, or it cannot work: do nothing */
	char links[4];		/* order of preference: 'v', 's'; "" is none.
				 * Default "vs": the address decides, see man */
	enum sr_upgrade upgrade;
	size_t upgrade_bytes;	/* lazy: so many bytes both ways ... */
	unsigned upgrade_msgs;	/* ... or so many calls (no knob) */
	unsigned upgrade_wait_ms;
	char device[64];	/* "" any */
	int cm_port_offset;	/* iWARP */
	size_t ring_first, ring_max;	/* bytes, powers of two */
	size_t memory;		/* bytes, process-wide */
	unsigned spin_us;
	bool io_uring;
	enum sr_level log;
	char log_file[256];	/* "" stderr */
	char report[256];	/* "" none */
};
extern struct sr_conf sr_conf;

/* Reads the environment.  Once, before anything else; no malloc, no stdio. */
void sr_conf_load(void);

#endif
