/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * report.h - SOCKRAIL_REPORT: one JSON object a line when a stream ends.  The keys are in
 * sockrail(7).
 */
#ifndef SR_REPORT_H
#define SR_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum sr_way { SR_WAY_PLAIN, SR_WAY_SHM, SR_WAY_VERBS, SR_WAYS };

/* Why a stream stayed or became plain, in the order of include/reasons.def.
 * SR_REASON_NONE is null in the report. */
#define SR_REASON(id, word, text, remedy) SR_REASON_##id,
enum sr_reason {
	SR_REASON_NONE,
#include "reasons.def"
	SR_REASONS
};
#undef SR_REASON
const char *sr_reason_word(enum sr_reason r);	/* NULL for NONE */
/* NONE if the word is NULL or no reason's.  Links and rendezvous hand a reason on as its word: that
 * is what the wire has, and SR_THERE (link/rendezvous.h) takes the same way.  Where a reason
 * decides something, it is compared as the enum's value, which the compiler checks. */
enum sr_reason sr_reason_find(const char *word);
/* The reason for the -errno with which a call of ours failed; `other' if there is none. */
enum sr_reason sr_reason_of(int err, enum sr_reason other);

#define SR_REPORT_LINK 80	/* a link's name, with its device's */

struct sr_report {
	bool connected;		/* role: connect, or accept */
	struct sockaddr_storage local, peer;
	char link[SR_REPORT_LINK];	/* "verbs:rxe0", "shm", "plain": best it had */
	uint64_t tx[SR_WAYS], rx[SR_WAYS];
	unsigned switches;
	enum sr_reason reason;
	int error;		/* errno, or 0 */
};
void sr_report_init(void);	/* by sr_conf_load(): remembers the program's name */
const char *sr_report_program(void); /* printable, escaped for JSON */
/* Async-signal-safe.  gather.h says when the line is in the file. */
void sr_report_write(const struct sr_report *r);

#endif
