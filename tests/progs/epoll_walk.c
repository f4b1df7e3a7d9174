/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_walk.c - random sequences of calls on epoll sets, whose members are both ends of
 * some streams, pipes, eventfds and sets.
 *
 * The program keeps a model of what each member has and what each entry is to report. It
 * waits, bounded, until that has come, and says what has come. Of a level-triggered entry
 * it says all. Of an edge-triggered one it says what is news since the set was asked last,
 * and keeps the rest to itself if the member has it: an edge too many is no mistake, but
 * one that is missing is.
 *
 * In every third sequence it also does what makes streams plain: duplicates, EPOLLEXCLUSIVE.
 * In these and in another third it puts sets into sets, and polls them.
 */
#include "walk_moves.h"

/* ---- epoll_ctl ---- */

static uint32_t events_for(const struct end *e)
{
	uint32_t events = (roll(4) ? EPOLLIN : 0) | (roll(4) ? 0 : EPOLLOUT) |
			  (roll(2) ? EPOLLRDHUP : 0) | (roll(8) ? 0 : EPOLLPRI);

	if (rare && !roll(30))
		return (events & (EPOLLIN | EPOLLOUT)) | EPOLLEXCLUSIVE;
	return events | (roll(3) || e->kind == SET ? 0 : EPOLLET) |
	       (roll(4) ? 0 : EPOLLONESHOT);
}

static void control_any(struct end *set, struct end *e)
{
	static const int ops[] = {EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_MOD,
				  EPOLL_CTL_DEL};
	int fd = number(e), op, r;
	struct entry *t = find(set, e, fd);
	uint32_t events = events_for(e);
	uint64_t data = data_next(&dice);

	op = !t && roll(5) ? EPOLL_CTL_ADD : ops[roll(COUNT(ops))];
	if (e->kind == SET && !nests)
		return;
	r = control(number(set), op, fd, events, data);
	say("control %d of %d in %d, %x: %s", op, index_of(e), index_of(set), events,
	    r ? strerrorname_np(errno) : "0");
	if (r)
		return;
	for (struct entry *u = entries; !t && u < entries + ENTRIES; u++)
		t = u->end ? NULL : u;
	if (!t)
		die("entries");
	*t = (struct entry){set, e, fd, events, ~0u, 0, data, true};
	if (op == EPOLL_CTL_DEL)
		t->end = NULL;
}

static void wrong(struct end *set, struct end *e)
{
	struct epoll_event ev[2];
	const struct timespec bad = {0, 1000000000};
	int ep = number(set), fd = number(e);

	switch (roll(9)) {
	case 0: say_result("closed", control(ep, EPOLL_CTL_ADD, 20000, EPOLLIN, 0)); break;
	case 1: say_result("closed set", control(-1, EPOLL_CTL_MOD, fd, EPOLLIN, 0)); break;
	case 2: say_result("in itself", control(ep, EPOLL_CTL_ADD, ep, EPOLLIN, 0)); break;
	case 3: say_result("operation", control(ep, 77, fd, EPOLLIN, 0)); break;
	case 4: say_result("no event", epoll_ctl(ep, EPOLL_CTL_MOD, fd, NULL)); break;
	case 5: say_result("room", epoll_wait(ep, ev, -(int)roll(2), 0)); break;
	case 6: say_result("time", epoll_pwait2(ep, ev, 2, &bad, NULL)); break;
	case 7: say_result("exclusive", control(ep, EPOLL_CTL_MOD, fd,
						EPOLLIN | EPOLLEXCLUSIVE, 0)); break;
	case 8:
		if (e->kind != SET) {
			say_result("no set", epoll_wait(fd, ev, 2, 0));
			say_result("no set", control(fd, EPOLL_CTL_DEL, ep, 0, 0));
		}
	}
}

/* ---- waits ---- */

static int wait_any(int ep, struct epoll_event *ev, int max, int ms)
{
	const struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
	sigset_t none;

	sigemptyset(&none);
	switch (roll(3)) {
	case 0: return epoll_wait(ep, ev, max, ms);
	case 1: return epoll_pwait(ep, ev, max, ms, roll(2) ? &none : NULL);
	default: return epoll_pwait2(ep, ev, max, ms < 0 ? NULL : &t, NULL);
	}
}

static void take_events(struct end *set, const struct epoll_event *ev, int n)
{
	for (int i = 0; i < n; i++) {
		struct entry *t = entries;

		while (t < entries + ENTRIES &&
		       !(t->end && t->set == set && t->data == ev[i].data.u64))
			t++;
		if (t == entries + ENTRIES) {
			say("unknown: %llx %x", (unsigned long long)ev[i].data.u64, ev[i].events);
			continue;
		}
		if (!t->armed)
			say("not armed: %x", ev[i].events);
		t->got |= ev[i].events;
		t->armed = !(t->events & EPOLLONESHOT);
	}
}

/* Has everything come that was to come, as the set was asked first? */
static bool missing(const struct end *set, const uint32_t *wanted)
{
	for (int i = 0; i < ENTRIES; i++) {
		const struct entry *t = &entries[i];
		uint32_t other = t->end && t->end->kind == STREAM ? EPOLLERR : 0;

		if (t->end && t->set == set && (wanted[i] & ~t->got & ~other))
			return true;
	}
	return false;
}

static void say_got(struct end *set, const uint32_t *wanted)
{
	for (int i = 0; i < ENTRIES; i++) {
		struct entry *t = &entries[i];
		bool edge = t->events & EPOLLET;
		uint32_t got = t->got;

		t->got = 0;
		if (!t->end || t->set != set)
			continue;
		if (edge || t->end->kind == SET)
			got &= wanted[i] | ~level(t->end);
		if (t->end->kind == STREAM)	/* who has read the error is another matter */
			got = (got & ~(uint32_t)EPOLLERR) | (wanted[i] & EPOLLERR);
		if (t->end->full)	/* for this way, or the way before */
			got &= ~(uint32_t)EPOLLOUT;
		if (got || wanted[i])
			say("  %d of %d: %x%s", i, index_of(t->end), got,
			    got == wanted[i] ? "" : ", unexpected");
		t->news = 0;
	}
}

static int want(const struct end *set, uint32_t *wanted)
{
	int n = 0;

	for (int i = 0; i < ENTRIES; i++) {
		bool is = entries[i].end && entries[i].set == set;

		wanted[i] = is ? expected(&entries[i]) : 0;
		n += wanted[i] != 0;
	}
	return n;
}

static void harvest(struct end *set)
{
	uint32_t wanted[ENTRIES];
	struct epoll_event ev[8];
	uint64_t start = now_ms();
	int n, ep, ready = 0, more = 8;
	bool sleeps = !roll(4);
	struct data before = dice;	/* how many calls it takes is not known */

	for (int i = 0; i < ENTRIES; i++)
		if (entries[i].end && entries[i].set == set &&
		    (entries[i].events & EPOLLONESHOT))
			settle_end(entries[i].end);
	ready = want(set, wanted);
	for (bool first = true; more; first = false) {
		ep = number(set);
		n = wait_any(ep, ev, 1 + (int)roll(8), first && ready ? -1 : more == 1 && sleeps);
		if (n < 0)
			say_result("wait", n);
		take_events(set, ev, n);
		if (!missing(set, wanted) || now_ms() - start > 20000)
			more--;
	}
	dice = before;
	say("wait in %d: %d", index_of(set), ready);
	say_got(set, wanted);
}

/* ---- a thread asleep in a set ---- */

struct sleeper {
	int ep, n;
	uint64_t data;
	struct epoll_event ev[32];
};

/* Until the awaited entry reports; an edge too many may come first. */
static void *sleep_in_set(void *arg)
{
	struct sleeper *s = arg;
	bool found = false;

	while (s->n < 16 && !found) {
		int n = epoll_wait(s->ep, s->ev + s->n, 16, 5000);

		if (n <= 0)
			break;
		for (; n--; s->n++)
			found |= s->ev[s->n].data.u64 == s->data &&
				 (s->ev[s->n].events & EPOLLIN);
	}
	return NULL;
}

static bool is_alone(const struct entry *t)
{
	for (struct entry *u = entries; u < entries + ENTRIES; u++)
		if (u != t && u->set == t->set && u->end == t->end)
			return false;
	return true;
}

static void wake_sleeper(struct end *set)
{
	struct sleeper s = {.ep = number(set)};
	uint32_t wanted[ENTRIES];
	struct entry *t = entries;
	pthread_t thread;

	harvest(set);
	if (want(set, wanted))
		return;
	for (; t < entries + ENTRIES; t++)
		if (t->end && t->set == set && is_alone(t) && t->armed && (t->events & EPOLLIN) &&
		    t->end->kind == STREAM && t->end->peer && !t->end->reset &&
		    !t->end->peer->shut_out && !t->end->peer->reset && may_send(t->end->peer, 50))
			break;
	if (t == entries + ENTRIES)
		return;
	s.data = t->data;
	thread = start_asleep(sleep_in_set, &s);
	send_some(t->end->peer, 50);
	want(set, wanted);
	pthread_join(thread, NULL);
	say("slept in %d: %s", index_of(set), s.n > 0 ? "woken" : "not woken");
	take_events(set, s.ev, s.n);
	say_got(set, wanted);
}

/* A set is itself polled. */
static void poll_set(struct end *set)
{
	struct pollfd p = {number(set), POLLIN, 0};
	bool ready = level(set);

	for (struct entry *t = entries; t < entries + ENTRIES; t++)
		if (t->end && t->set == set && !ready && !expected(t) &&
		    ((t->events & EPOLLET) || !t->armed ||
		     ((t->events & (EPOLLIN | EPOLLRDHUP)) == EPOLLRDHUP && t->end->unread)))
			return;		/* it may have an edge too many, or a hang-up */
	say("poll %d: %d", index_of(set), poll(&p, 1, ready ? 5000 : 0));
}

/* ---- a walk ---- */

static void step(struct end *set, struct end *e)
{
	unsigned what = (unsigned)roll(100);

	if (what < 28)
		control_any(set, e);
	else if (what < 48)
		send_some(e, 1 + roll(roll(4) ? 100 : 3000));
	else if (what < 60)
		read_any(e);
	else if (what < 78)
		nests && !rare && roll(2) ? poll_set(set) : harvest(set);
	else if (what < 82)
		wrong(set, e);
	else if (what < 85)
		shut(e);
	else if (what < 89 && (e->kind != SET || !roll(4)) && !e->full)
		close_one(e, e->kind == STREAM && !roll(3));
	else if (what < 92 && (rare || e->kind == SET))
		copy(e);
	else if (what < 93 && rare)
		poll_set(set);
	else if (what < 94 && !rare && !roll(4))
		fill(e);	/* how much fits is another matter on TCP */
	else if (what < 95)
		wake_sleeper(set);
	else if (what < 97 && room() > 6)
		new_pair();
	else if (what < 98 && room() > 4)
		new_other();
}

static void walk(uint64_t seed)
{
	dice = (struct data)DATA(seed);
	memset(entries, 0, sizeof(entries));
	rare = !(seed % 3);
	nests = seed % 3 < 2;
	say("seed %llu", (unsigned long long)seed);
	new_pair();
	new_pair();
	new_other();
	for (int i = 0; i < STEPS; i++) {
		struct end *set = any(SET), *e = &ends[roll(ENDS)];

		if (!set || (!roll(50) && room() > 10))
			set = new_end(SET, new_set());
		if (e->kind)
			step(set, e);
	}
	for (struct end *e = ends; e < ends + ENDS; e++) {
		for (int i = 0; e->kind && i < NUMBERS; i++)
			if (e->fd[i] >= 0)
				close(e->fd[i]);
		e->kind = UNUSED;
	}
}

static void server(int lfd)
{
	const char *seeds = getenv("CASE_SEEDS");	/* first, count */
	unsigned long long first = 1, count = 100;

	if (seeds && sscanf(seeds, "%llu %llu", &first, &count) != 2)
		die("CASE_SEEDS");
	late = getenv("CASE_LATE");
	signal(SIGPIPE, SIG_IGN);
	listener = lfd;
	for (unsigned long long i = 0; i < count; i++)
		walk(first + i);
}

static void nobody(void) {}

const struct tcp_case cases[] = {
	{"walk", server, nobody},
	{0},
};
