/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fake_faults.c - the verbs of the fake device on demand fail, or take long; see fake_verbs.h.
 * It counts the calls of each verb.
 */
#include "fake_impl.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* ---- failing on demand ---- */

/* Destroyers without a result, and such as cannot fail, are not in here. */
#define SKIP(name)                                                             \
	(!strcmp(name, "v_destroy_qp") || strstr(name, "v_ack_"))
#define NAME(lib, prefix, name) #lib "_" #name,
static const char *const verbs[] = {"post_send", "post_recv", "poll_cq",
				    "req_notify_cq", SR_VERBS_CALLS(NAME)};
enum { VERBS = sizeof(verbs) / sizeof(verbs[0]) };
static unsigned calls[VERBS];
static struct {
	unsigned verb, left;
	int err;
} fault;

static unsigned number_of(const char *verb)
{
	unsigned i;

	for (i = 0; i < VERBS; i++)
		if (!strcmp(verbs[i], verb))
			return i;
	fake_broke("no such verb");
}

bool fake_fails(const char *verb)
{
	unsigned i = number_of(verb);

	calls[i]++;
	if (fault.verb != i || !fault.left || --fault.left)
		return false;
	errno = fault.err;
	return true;
}

void fake_fail(const char *verb, unsigned n, int err)
{
	LOCKED;
	fault.verb = n ? number_of(verb) : 0;
	fault.left = n;
	fault.err = err;
}

bool fake_struck(void)
{
	LOCKED;
	return !fault.left;
}

unsigned fake_calls(const char *verb)
{
	LOCKED;
	return calls[number_of(verb)];
}

const char *fake_verb(unsigned i)
{
	unsigned k;

	for (k = 0; k < VERBS; k++)
		if (!SKIP(verbs[k]) && !i--)
			return verbs[k];
	return NULL;
}

/* ---- slow verbs ---- */

static const char *held_verb;
static unsigned held_left;
static bool is_held;
static unsigned slow_in_loop;
static pthread_cond_t held = PTHREAD_COND_INITIALIZER;

void fake_take_time(const char *verb)
{
	if (fake_profile()->slow_us)
		usleep(fake_profile()->slow_us);
	LOCKED;
	slow_in_loop += sr_loop_here();
	if (!held_verb || strcmp(held_verb, verb) || !held_left || --held_left)
		return;
	is_held = true;
	pthread_cond_broadcast(&held);
	while (is_held)
		pthread_cond_wait(&held, &fake_lock);
}

void fake_hold(const char *verb, unsigned n)
{
	LOCKED;
	held_verb = verb;
	held_left = n;
	is_held = false;
	pthread_cond_broadcast(&held);
}

unsigned fake_slow_in_loop(void)
{
	LOCKED;
	return slow_in_loop;
}

void fake_await_held(void)
{
	LOCKED;
	while (!is_held)
		pthread_cond_wait(&held, &fake_lock);
}
