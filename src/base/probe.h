/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * probe.h - static probes for SystemTap and bpftrace; each is one no-op instruction while no
 * tracer uses it.  sockrail(7) lists them and their arguments; `st` identifies the stream.
 * Arguments are always evaluated, so they must cost nothing.
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
