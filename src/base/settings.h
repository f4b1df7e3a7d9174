/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * settings.h - files of settings: knobs for the process, and rules, which give the
 * streams of some addresses knobs of their own.  The syntax is in
 * sockrail(7), "Settings in files".
 *
 * Read once, when the program starts (conf.c); constant from then on, so no locks.
 */
#ifndef SR_SETTINGS_H
#define SR_SETTINGS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/conf.h"

/* Reads SOCKRAIL_RULES, the profile, and the files of SOCKRAIL_CONFIG_DIR, once the
 * environment has been read (sr_conf_load()).  A line with a mistake is ignored, with a
 * warning that has file, line and word. */
void sr_settings_load(void);

/* Reads the knobs, or the rules, in the text of one file.  text[n] must be 0; the text is
 * changed. */
void sr_settings_text(const char *path, char *text, size_t n, bool knobs);

/* The policy of a stream that connects to addr, or is accepted at it; an IPv4-mapped addr has
 * to be IPv4 already.  Without a rule for it returns &sr_conf.policy; never NULL. */
const struct sr_policy *sr_policy_of(bool connects, const struct sockaddr_storage *addr);
bool sr_has_rules(void);

#endif
