/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* service.h - tells the engine about the rooms above it. */
#ifndef SR_SERVICE_H
#define SR_SERVICE_H

/* Hands the engine the functions of the rooms above it (engine/observers.h).  Called once,
 * before the first stream is made. */
void sr_service_begin(void);

#endif
