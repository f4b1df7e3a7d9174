/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * conf.h - the SOCKRAIL_ knobs (include/knobs.def), read once from the
 * environment and from files (settings.h).  A bad value costs one warning and is
 * ignored.
 */
#ifndef SR_CONF_H
#define SR_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum sr_upgrade { SR_LAZY, SR_EAGER, SR_WAIT, SR_NEVER };
enum sr_level { SR_ERROR, SR_WARN, SR_INFO, SR_DEBUG, SR_TRACE };

/* The knobs that a rule (settings.h) can give to some streams. */
struct sr_policy {
	char links[4];		/* order of preference: 'v', 's'; "" is none.
				 * Default "vs": the address decides, see man */
	enum sr_upgrade upgrade;
	size_t upgrade_bytes;	/* lazy asks after this many bytes, both ways together */
	unsigned upgrade_wait_ms;
	size_t ring_first, ring_max;	/* bytes, powers of two */
	unsigned tos;		/* verbs: DSCP and ECN bits; 0: the device's */
	unsigned carriers;	/* verbs: most shared carriers to one place; 0: none is shared */
};

/* Policy lazy asks for a link after this many calls, even if these were of few bytes.  A
 * dialogue of short messages that gets this far is likely to go on; a link costs about as much
 * as 64 of them. */
#define SR_UPGRADE_MSGS 64

struct sr_conf {
	bool inert;		/* setuid program, or it cannot work: do nothing */
	bool never;		/* no stream gets a link */
	struct sr_policy policy;
	/* "" none.  At most 37 characters, so that the longest name in it, one of 69, makes a
	 * path that a sockaddr_un has room for.  (parse_path() leaves room for one more.) */
	char dir[39];
	char device[64];	/* "" any */
	int cm_port_offset;	/* iWARP */
	unsigned answer_ms;	/* policy wait: the longest wait for the peer's first answer */
	unsigned again_ms;	/* pause before asking again after a link broke; it doubles */
	unsigned retry_ms;	/* verbs: a link without an answer for this long is given up */
	size_t memory;		/* bytes, process-wide */
	unsigned spin_us;
	unsigned unasked_us;
	bool io_uring;
	enum sr_level log;
	char log_file[256];	/* "" stderr */
	char report[256];	/* "" none */
	unsigned report_ms;	/* how long lines are gathered; 0: written at once */
	char rules[256], profile[256], config_dir[256];	/* settings.h; "" none */
};
extern struct sr_conf sr_conf;

/* Reads the environment, and files.  Once, before anything else; no stdio. */
void sr_conf_load(void);

/* ---- for settings.c ---- */

/* Sets a knob in a rule's policy.  0; -ENOENT: no such knob; -EINVAL: the knob has no such value;
 * -EPERM: it is a knob of the process.  The name may be in either case. */
int sr_conf_set(const char *name, const char *value, struct sr_policy *policy);
/* Sets a knob of the process, unless it is set.  0, -ENOENT or -EINVAL, as above.  origin: for
 * sr_conf_show(). */
int sr_conf_set_first(const char *name, const char *value, const char *origin);
/* Does the environment or a file set the knob? */
bool sr_conf_is_set(const char *name);
/* For sockrail --show-config: prints a setting that has effect, and where it was set. */
void sr_conf_show(const char *setting, const char *origin);

#endif
