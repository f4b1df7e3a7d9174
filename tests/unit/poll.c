/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * poll.c - poll of as many entries as RLIMIT_NOFILE allows, on a stream on a fake link:
 * what the library waits for itself does not make them too many, at whatever moment the
 * bytes come.
 */
#include "fake_link.h"

#include <poll.h>
#include <sys/resource.h>

#include "sockrail.h"

enum { ENTRIES = 40, SOON_MS = 10000 };

static void arrive(struct fake *f)
{
	fake_send(f, "a", 1);
}

static void full(bool doorbell)
{
	struct fake_pair e = fake_linked(doorbell);
	struct pollfd p[ENTRIES];
	struct rlimit all, few;
	char c;

	CHECK(!getrlimit(RLIMIT_NOFILE, &all));
	few = all;
	few.rlim_cur = ENTRIES;
	CHECK(!setrlimit(RLIMIT_NOFILE, &few));
	for (int i = 0; i < ENTRIES; i++)
		p[i] = (struct pollfd){ .fd = e.fd, .events = POLLIN };
	CHECK_EQ(sr_poll(p, ENTRIES, 0), 0);
	CHECK_EQ(sr_poll(p, ENTRIES, 20), 0);
	e.f->on_stand = arrive;		/* when it has armed the link */
	CHECK_EQ(sr_poll(p, ENTRIES, SOON_MS), ENTRIES);
	CHECK_EQ(fake_recv(&e, &c, 1), 1);
	CHECK(!setrlimit(RLIMIT_NOFILE, &all));
	fake_end(&e);
}

int main(void)
{
	full(false);
	full(true);
	return 0;
}
