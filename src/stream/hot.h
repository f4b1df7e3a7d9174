/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hot.h - a loop that asks the same question time after time, and gets the same
 * answer: that its stream has bytes.
 *
 * Most of what a small message costs such a loop is to ask for the rest of its
 * descriptors, which have nothing to say.  So after HOT calls in a row in which a
 * stream of the set was ready and the kernel had no news, what was said of the rest
 * holds for at most REST calls more, and never longer than a tick of the kernel's
 * clock.  That is what sockrail(7) promises of poll and select.
 *
 * All of it is the calling thread's own, which holds (signal.h).
 */
#ifndef SR_HOT_H
#define SR_HOT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What was asked; never 0. */
uint64_t sr_hot_hash(const struct pollfd *fds, size_t n);

/* True: asked again, the one stream that was ready still is, and the answer is in
 * fds (its value is 1). */
bool sr_hot_again(uint64_t asked, struct pollfd *fds, size_t n);

/* A stream of the set `asked` is ready.  True: the kernel need not be asked. */
bool sr_hot_rests(uint64_t asked);
/* It was, and had r descriptors to tell of. */
void sr_hot_told(uint64_t asked, int r);

/* The answer in whole: r descriptors, or -errno. */
void sr_hot_only(const struct pollfd *fds, size_t n, int r);

#endif
