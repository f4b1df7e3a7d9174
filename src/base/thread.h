/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* thread.h - threads of the library's own: detached, and all signals are blocked. */
#ifndef SR_THREAD_H
#define SR_THREAD_H

/* 0 or -errno.  Any thread, within sr_enter(); run() sets sr_inside first. */
int sr_thread_start(void *(*run)(void *arg), void *arg);

#endif
