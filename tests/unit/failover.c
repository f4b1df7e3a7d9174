/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * failover.c - the fabric fails under streams whose calls are blocked.  The whole engine
 * runs on the device of fake_verbs.c, and the streams are TCP connections of this process
 * to itself, on one carrier and with a queue pair for each.  Whatever fails: each blocked
 * call returns, by TCP, no byte is lost, and once the fabric is back the streams are on links
 * again.  The times are printed, not checked: a call that does not return hangs.
 */
#include "failover.h"

#include <poll.h>
#include <sys/epoll.h>

/* ---- calls that are blocked ---- */

static void wait_for(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	CHECK_EQ(sr_poll(&p, 1, -1), 1);
	CHECK_EQ(p.revents, events);
}

static void wait_in_set(int fd)
{
	struct epoll_event e = {.events = EPOLLIN};
	int set = sr_epoll_create1(EPOLL_CLOEXEC);

	CHECK(set >= 0 && !sr_epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
	CHECK_EQ(sr_epoll_wait(set, &e, 1, -1), 1);
	CHECK_EQ(e.events, EPOLLIN);
	CHECK_EQ(sr_close(set), 0);
}

static void *block(void *arg)
{
	struct pair *p = arg;
	int fd = p->fd[p->blocked];

	atomic_store(&p->started, true);
	if (p->call == POLLED)
		wait_for(fd, POLLIN);
	if (p->call == EPOLLED)
		wait_in_set(fd);
	if (p->call == POLLED_OUT)
		wait_for(fd, POLLOUT);
	if (p->call >= SEND)
		CHECK_EQ(say(p, p->blocked, 100, 0), 100);
	else
		hear(p, !p->blocked, 1);
	p->woke_ns = sr_now_ns();
	return NULL;
}

static void begin_blocked(struct pair *p)
{
	ssize_t r = 0;

	if (p->call >= SEND)
		while (r >= 0)
			r = say(p, p->blocked, 4096, MSG_DONTWAIT);
	CHECK(r == 0 || errno == EAGAIN);
	CHECK(!pthread_create(&p->thread, NULL, block, p));
	while (!atomic_load(&p->started))
		usleep(1000);
}

/* ---- what fails ---- */

static void port_error(void)
{
	fake_async(IBV_EVENT_PORT_ERR);
}

static void queue_error(void)
{
	fake_async(IBV_EVENT_CQ_ERR);
}

static void fatal_error(void)
{
	fake_async(IBV_EVENT_DEVICE_FATAL);
}

static void no_path(void)
{
	fake_fail_sends(IBV_WC_RETRY_EXC_ERR);
}

static void silence(void)
{
	fake_mute(true);
}

static void heal(void)
{
	fake_mute(false);
	fake_fail_sends(IBV_WC_SUCCESS);
	if (!sr_verbs_devices())
		fake_plug(iwarp);
}

/* Returns the milliseconds until the last call returned. */
static unsigned strike(const struct fault *f)
{
	uint64_t from = sr_now_ns(), last = 0;
	unsigned i;

	f->strike();
	for (i = 0; i < PAIRS; i++)
		if (pairs[i].call < SEND)
			CHECK_EQ(say(&pairs[i], !pairs[i].blocked, 1, 0), 1);
	for (i = 0; i < PAIRS; i++) {
		check_about("pair", i);
		pthread_join(pairs[i].thread, NULL);
		if (pairs[i].woke_ns > last)
			last = pairs[i].woke_ns;
	}
	return (unsigned)((last - from) / 1000000);
}

static void fail_over(const struct fault *f)
{
	struct sockaddr_in a;
	unsigned i, ms, back = 0;
	int l;

	fake_plug(iwarp);
	l = listener(&a);
	for (i = 0; i < PAIRS; i++)
		open_pair(&pairs[i], l, &a, i);
	for (i = 0; i < PAIRS; i++)
		begin_blocked(&pairs[i]);
	usleep(50000);	/* until they sleep */
	ms = strike(f);
	for (i = 0; i < PAIRS; i++) {
		check_about("stays plain: pair", i);
		hear_all(&pairs[i]);
		if (!f->told)
			talk_until(&pairs[i], plain);
	}
	heal();
	for (i = 0; i < PAIRS; i++) {
		check_about("comes back: pair", i);
		back += talk_until(&pairs[i], linked);
		CHECK(!sr_close(pairs[i].fd[0]) && !sr_close(pairs[i].fd[1]));
	}
	sr_close(l);
	printf(" by TCP after %u ms, back after %u\n", ms, back);
}

/* When the asker may ask again, by sr_now_ns(). */
static uint64_t next_ask(struct pair *p)
{
	struct sr_stream *st = sr_fdtab_get(p->fd[ASKER]);
	uint64_t ns;

	CHECK(st);
	ns = st->up.next_ask_ns;
	sr_stream_put(st);
	return ns;
}

/* Links that break soon after they are made: the pause doubles each time. */
static void flap(const struct fault *f)
{
	uint64_t pause = AGAIN_MS * UINT64_C(1000000), from, next, last;
	struct sockaddr_in a;
	unsigned i;
	int l;

	fake_plug(iwarp);
	l = listener(&a);
	open_pair(pairs, l, &a, 0);
	for (i = 0; i < 3; i++, pause *= 2) {
		last = next_ask(pairs);
		from = sr_now_ns();
		f->strike();
		while ((next = next_ask(pairs)) == last)
			talk(pairs);
		CHECK(next >= from + pause && next <= sr_now_ns() + pause);
		printf(" %u", talk_until(pairs, linked));
		CHECK(sr_now_ns() >= next);
	}
	printf(" ms\n");
	CHECK(!sr_close(pairs->fd[0]) && !sr_close(pairs->fd[1]));
	sr_close(l);
}

static const struct fault faults[] = {
	{"port-error", fail_over, port_error, true},
	{"queue-error", fail_over, queue_error, true},
	{"fatal-error", fail_over, fatal_error, true},
	{"flushed", fail_over, fake_flush, true},
	{"hung-up", fail_over, fake_kill, true},
	{"unplugged", fail_over, fake_unplug, true},
	{"no-path", fail_over, no_path, false},
	{"silence", fail_over, silence, false},
	{"flapping", flap, fake_flush, true},
};

int main(int argc, char **argv)
{
	const size_t n = sizeof(faults) / sizeof(faults[0]);

	sr_conf.policy.carriers = 1;
	run_faults(argc, argv, faults, n);
	printf("a queue pair for each stream:\n");
	sr_conf.policy.carriers = 0;
	return run_faults(argc, argv, faults, n);
}
