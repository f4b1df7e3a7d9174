/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cancel.c - pthread_cancel(3) of calls that sleep. */
#include "sleeper.h"

static atomic_int cleaned;

static void clean(void *arg)
{
	(void)arg;
	atomic_fetch_add(&cleaned, 1);
}

struct victim {
	const struct call *call;
	struct watch w;
	atomic_bool there;
	ssize_t n;
};

static void *cancelled_call(void *arg)
{
	struct victim *v = arg;

	v->w.tid = gettid();
	atomic_store(&v->there, true);
	pthread_cleanup_push(clean, NULL);
	v->n = v->call->run();
	atomic_store(&v->w.returned, true);
	pthread_cleanup_pop(0);
	return NULL;
}

/* What is no cancellation point, to the C library, sleeps on until the release. */
static void cancel_in(const struct call *c, void (*release)(void))
{
	struct victim v = {.call = c};
	pthread_t t;
	void *how;

	for (;;) {
		atomic_store(&v.there, false);
		atomic_store(&v.w.returned, false);
		t = start(cancelled_call, &v);
		while (!atomic_load(&v.there))
			nap(1);
		if (sleeps_on(&v.w) || release != start_drain)
			break;
		pthread_join(t, NULL);	/* there was room after all */
		sent += v.n > 0 ? (uint64_t)v.n : 0;
		fill();
	}
	atomic_store(&cleaned, 0);
	pthread_cancel(t);
	for (int i = 0; i < 40 && !atomic_load(&cleaned); i++)
		nap(5);
	if (!atomic_load(&cleaned) && sleeps_on(&v.w)) {
		release();
		pthread_join(t, &how);
		if (release == start_drain)
			end_drain();
		sent += v.n > 0 && release == start_drain ? (uint64_t)v.n : 0;
		say("%s: goes on, %zd, %s", c->name, v.n,
		    how == PTHREAD_CANCELED ? "cancelled" : "returned");
		return;
	}
	pthread_join(t, &how);
	say("%s: %s, cleaned up %d", c->name,
	    how == PTHREAD_CANCELED ? "cancelled" : "returned",
	    atomic_load(&cleaned));
}

static void *use_stream(void *arg)
{
	(void)arg;
	order('3');
	say_result("then", (ssize_t)take(fd, big, 3));
	return NULL;
}

static void cancel_all_server(int lfd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	begin(lfd);
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	for (size_t i = 0; i < COUNT(receiving); i++) {
		cancel_in(&receiving[i], one_byte);
		pthread_join(start(use_stream, NULL), NULL);
	}
	for (size_t i = 0; i < COUNT(waiting); i++) {
		cancel_in(&waiting[i], one_byte);
		pthread_join(start(use_stream, NULL), NULL);
	}
	for (size_t i = 0; i < COUNT(accepting); i++)
		cancel_in(&accepting[i], dial_once);
	for (size_t i = 0; i < COUNT(sending); i++)
		cancel_in(&sending[i], start_drain);
	start_drain();
	end_drain();
	pthread_join(start(use_stream, NULL), NULL);
	finish();
}

static void cancel_connect_client(void)
{
	int queued;

	ctl = dial();
	warm_up(ctl, true);
	await_go(ctl);
	queued = dial();
	late = new_socket(0);
	cancel_in(&connecting, no_release);
	order('a');
	say_result("later", poll(&(struct pollfd){late, POLLOUT, 0}, 1, -1));
	say("SO_ERROR %d", get_int(late, SOL_SOCKET, SO_ERROR));
	warm_up(queued, true);
	warm_up(late, true);
	close(late);
	late = dial();
	warm_up(late, true);
	close(queued);
	close(late);
	close(ctl);
}

const struct tcp_case cases[] = {
	{"all", cancel_all_server, obey_client},
	{"connect", connect_server, cancel_connect_client},
	{0},
};
