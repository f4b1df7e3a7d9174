/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * poll.c - poll of as many entries as RLIMIT_NOFILE allows, on a stream on a fake link:
 * what the library waits for itself does not make them too many, at whatever moment the
 * bytes come.  And which descriptors are left unasked (SOCKRAIL_UNASKED_US).
 */
#include "fake_link.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/select.h>

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

/* ---- descriptors that are left unasked ---- */

enum { MINUTE_US = 60 * 1000 * 1000 };

static int ask_by_poll(struct pollfd *p, nfds_t n)
{
	return sr_poll(p, n, -1);
}

static int ask_by_ppoll(struct pollfd *p, nfds_t n)
{
	return sr_ppoll(p, n, NULL, NULL);
}

static int ask_by_select(struct pollfd *p, nfds_t n)
{
	fd_set rd;
	int r, max = 0;

	FD_ZERO(&rd);
	for (nfds_t i = 0; i < n; i++) {
		FD_SET(p[i].fd, &rd);
		max = p[i].fd > max ? p[i].fd : max;
	}
	r = sr_select(max + 1, &rd, NULL, NULL, NULL);
	for (nfds_t i = 0; i < n; i++)
		p[i].revents = FD_ISSET(p[i].fd, &rd) ? POLLIN : 0;
	return r;
}

/* A pipe beside a stream with bytes on its link. */
static void unasked(int (*ask)(struct pollfd *p, nfds_t n))
{
	struct fake_pair e = fake_linked(true);
	struct pollfd p[3] = {{ .fd = e.fd, .events = POLLIN }};
	int one[2], other[2];
	char c;

	CHECK(!pipe(one) && !pipe(other));
	p[1] = (struct pollfd){ .fd = one[0], .events = POLLIN };
	p[2] = (struct pollfd){ .fd = other[0], .events = POLLIN };
	fake_send(e.f, "a", 1);
	sr_conf.unasked_us = 0;
	CHECK_EQ(ask(p, 2), 1);
	CHECK_EQ(write(one[1], "x", 1), 1);
	CHECK_EQ(ask(p, 2), 2);
	CHECK_EQ(read(one[0], &c, 1), 1);

	sr_conf.unasked_us = MINUTE_US;
	CHECK_EQ(ask(p, 2), 1);
	CHECK_EQ(write(one[1], "x", 1), 1);
	CHECK_EQ(ask(p, 2), 1);			/* the pipe is left unasked, */
	CHECK(p[0].revents & POLLIN);
	CHECK_EQ(p[1].revents, 0);
	CHECK_EQ(ask(p, 3), 2);			/* but not in another set, */
	CHECK_EQ(ask(p, 3), 1);
	CHECK_EQ(ask(p, 2), 2);			/* nor behind that one, */
	CHECK_EQ(ask(p, 2), 1);
	CHECK_EQ(fake_recv(&e, &c, 1), 1);
	CHECK_EQ(ask(p, 2), 1);			/* nor if the link has nothing, */
	CHECK(p[1].revents & POLLIN);
	fake_send(e.f, "a", 1);
	CHECK_EQ(ask(p, 2), 1);
	CHECK(p[0].revents & POLLIN);
	sr_conf.unasked_us = 1;
	usleep(2);
	CHECK_EQ(ask(p, 2), 2);			/* nor for longer. */
	sr_conf.unasked_us = 0;
	close(one[0]);
	close(one[1]);
	close(other[0]);
	close(other[1]);
	fake_end(&e);
}

/* Bytes come while the call waits busily: it asks for the pipe once. */
static void unasked_in_spin(void)
{
	struct fake_pair e = fake_linked(true);
	struct pollfd p[2] = {{ .fd = e.fd, .events = POLLIN }};
	int fds[2];

	CHECK(!pipe(fds));
	p[1] = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	sr_conf.unasked_us = MINUTE_US;
	CHECK_EQ(sr_poll(p, 2, 0), 0);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	e.f->on_poll = arrive;
	CHECK_EQ(sr_poll(p, 2, SOON_MS), 1);
	CHECK(p[0].revents & POLLIN);
	CHECK_EQ(p[1].revents, 0);
	sr_conf.unasked_us = 0;
	CHECK_EQ(sr_poll(p, 2, SOON_MS), 2);
	close(fds[0]);
	close(fds[1]);
	fake_end(&e);
}

int main(void)
{
	full(false);
	full(true);
	unasked(ask_by_poll);
	unasked(ask_by_ppoll);
	unasked(ask_by_select);
	unasked_in_spin();
	return 0;
}
