/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * probe.h - static probes for SystemTap and bpftrace, a no-operation each while nobody
 * listens.  sockrail(7) lists them and their arguments; `st` tells streams apart.
 * Arguments are evaluated always: let them be at hand.
 */
#ifndef SR_PROBE_H
#define SR_PROBE_H

#include "config.h"

#ifdef HAVE_SYS_SDT_H
#define SDT_USE_VARIADIC 1
#include <sys/sdt.h>
#define sr_probe(name, ...) STAP_PROBEV(sockrail, name, __VA_ARGS__)
#else
#define sr_probe(name, ...) ((void)0)
#endif

#endif
