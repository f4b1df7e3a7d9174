/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sim.c - the simulation of tests/unit/switch_sim.c, in which the input chooses what is
 * there and what happens next, and chance ends it: two honest ends, TCP in pieces of any
 * size, links that die with what is on them, ends that are killed, and strangers who ask.
 * What arrives is what was sent, in order and once; the end is an end only if it was one.
 */
#define SIM_NO_MAIN
#include "../unit/switch_sim.c"

#include "fuzz.h"

void fuzz_sim(const uint8_t *data, size_t size)
{
	choices.at = data;
	choices.left = size;
	run_case(1);
	choices.left = 0;
}
