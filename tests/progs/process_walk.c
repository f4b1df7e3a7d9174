/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * process_walk.c - random sequences of fork, exec, SCM_RIGHTS, close and exit around
 * streams, and whose bytes they are.
 *
 * The director has no stream. It orders actors about, one at a time, over sockets whose
 * numbers all processes know, and knows who holds what and what is under way. Actor 0
 * begins with the connecting ends, actor 1 with the accepting ones; the others are made
 * by fork. Each byte is checked where it arrives.
 */
#define OWN_MAIN
#include "walk_actor.h"

/* ---- the director ---- */

struct flow {		/* what a side sends */
	uint64_t sent, got;
	bool ended, end_read;
};

static struct data dice;
static struct {
	bool lives, holds[STREAMS];
	int side;
} actors[ACTORS];
static struct flow flow[STREAMS][SIDES];

static uint64_t roll(uint64_t n) { return data_next(&dice) % n; }

static int holders(int stream, int side)
{
	int n = 0;

	for (int i = 0; i < ACTORS; i++)
		n += actors[i].lives && actors[i].side == side && actors[i].holds[stream];
	return n;
}

static struct answer hear(int actor)
{
	struct pollfd p = {director_end(actor), POLLIN, 0};
	struct answer a;

	if (poll(&p, 1, 15000) != 1 || read(p.fd, &a, sizeof(a)) != sizeof(a)) {
		say("actor %d does not answer", actor);
		exit(1);	/* the actors see it */
	}
	return a;
}

static struct answer tell(int actor, const struct order *o)
{
	int who = o->op == FORK || o->op == TWICE ? o->actor : actor;
	struct answer a;

	if (write(director_end(actor), o, sizeof(*o)) != sizeof(*o))
		die("tell");
	a = hear(who);
	say("%d: %s %d, %zu: %zd%s", actor, op_names[o->op],
	    who != actor || o->op == TAKE ? who : o->stream, o->n, a.n, a.wrong ? ", wrong" : "");
	return a;
}

static size_t unread(int stream, int side)	/* that this side has to read */
{
	return (size_t)(flow[stream][!side].sent - flow[stream][!side].got);
}

static void send_some(int i, int stream)
{
	struct flow *f = &flow[stream][actors[i].side];
	struct order o = {.op = SEND, .stream = stream, .n = 1 + roll(roll(3) ? 300 : 6000),
			  .at = f->sent};

	if (f->ended || !holders(stream, !actors[i].side) ||
	    f->sent - f->got + o.n > UNREAD_MAX)
		return;
	f->sent += o.n;
	tell(i, &o);
}

static void read_some(int i, int stream, bool all)
{
	struct flow *f = &flow[stream][!actors[i].side];
	size_t have = unread(stream, actors[i].side);
	struct order o = {.op = READ, .stream = stream, .how = (int)roll(4), .at = f->got};

	if (!have && !f->ended)
		return;
	o.n = have && !all && roll(2) ? 1 + roll(have) : have;
	f->got += o.n;
	tell(i, &o);
}

/* The last one leaves nothing unread, which would be a reset. */
static bool may_close(int i, int stream)
{
	return !actors[i].holds[stream] || holders(stream, actors[i].side) > 1 ||
	       !unread(stream, actors[i].side);
}

static bool may_close_all(int i)
{
	for (int s = 0; s < STREAMS; s++)
		if (!may_close(i, s))
			return false;
	return true;
}

/* What a process has sent on a stream that it has closed does not outlive its exec()
 * where the peer needs it by TCP (sockrail(7)). */
static bool may_exec(int i)
{
	for (int s = 0; s < STREAMS; s++)
		if (!actors[i].holds[s] && flow[s][actors[i].side].ended &&
		    unread(s, !actors[i].side))
			return false;
	return true;
}

static void closed(int i, int stream)
{
	actors[i].holds[stream] = false;
	if (!holders(stream, actors[i].side))
		flow[stream][actors[i].side].ended = true;
}

static void close_one(int i, int stream)
{
	const struct order o = {.op = CLOSE, .stream = stream};

	if (!may_close(i, stream))
		return;
	tell(i, &o);
	closed(i, stream);
}

static void shut(int i, int stream)
{
	const struct order o = {.op = SHUT, .stream = stream};
	struct flow *f = &flow[stream][actors[i].side];

	if (f->ended || !holders(stream, !actors[i].side))
		return;
	tell(i, &o);
	f->ended = true;
}

static void give(int i, int stream)
{
	struct order o = {.op = GIVE, .stream = stream};
	int to = 0;

	while (to < ACTORS && (!actors[to].lives || actors[to].side != actors[i].side ||
			       actors[to].holds[stream]))
		to++;
	if (to == ACTORS)
		return;
	tell(i, &o);
	o.op = TAKE;
	tell(to, &o);
	actors[to].holds[stream] = true;
}

static void branch(int i, enum op op)
{
	struct order o = {.op = op};

	while (o.actor < ACTORS && actors[o.actor].lives)
		o.actor++;
	if (o.actor == ACTORS)
		return;
	tell(i, &o);
	actors[o.actor] = actors[i];
}

static void clean(int i)
{
	const struct order o = {.op = CLEAN, .how = (int)roll(2)};

	if (!may_close_all(i))
		return;
	tell(i, &o);
	for (int s = 0; s < STREAMS; s++)
		closed(i, s);
}

static void quit(int i)
{
	const struct order o = {.op = QUIT, .how = (int)roll(2)};
	struct answer a = tell(i, &o);
	char state;

	while ((state = thread_state(a.pid, a.pid)) && state != 'Z')
		nap(1);
	for (int s = 0; s < STREAMS; s++)
		closed(i, s);
	actors[i].lives = false;
}

static int company(int i)
{
	int n = -1;

	for (int k = 0; k < ACTORS; k++)
		n += actors[k].lives && actors[k].side == actors[i].side;
	return n;
}

static void step(void)
{
	int i = (int)roll(ACTORS), stream = (int)roll(STREAMS);
	unsigned what = (unsigned)roll(100);
	const struct order copy = {.op = COPY, .stream = stream}, again = {.op = EXEC};

	if (!actors[i].lives)
		return;
	if (what >= 90 && what < 96)
		branch(i, what < 95 ? FORK : TWICE);
	else if (what == 96 && may_exec(i))
		tell(i, &again);
	else if (what == 97)
		clean(i);
	else if (what > 97 && company(i) && may_close_all(i))
		quit(i);
	if (what >= 90 || !actors[i].holds[stream])
		return;
	if (what < 38)
		send_some(i, stream);
	else if (what < 78)
		read_some(i, stream, false);
	else if (what < 82)
		close_one(i, stream);
	else if (what < 84)
		shut(i, stream);
	else if (what < 86)
		tell(i, &copy);
	else
		give(i, stream);
}

/* ---- a walk ---- */

static void make_pair(int first)
{
	int s[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) || dup2(s[0], first) < 0 ||
	    dup2(s[1], first + 1) < 0)
		die("socketpair");
	close(s[0]);
	close(s[1]);
}

static void begin_actor(int me, int lfd)
{
	pid_t pid = split();

	if (pid)
		return;
	for (int i = 0; i < ACTORS; i++)
		close(director_end(i));
	for (int s = 0; s < STREAMS; s++) {
		struct pollfd p;

		fds[s] = me ? answer(lfd) : dial();
		set_int(fds[s], IPPROTO_TCP, TCP_NODELAY, 1);
		p = (struct pollfd){fds[s], POLLIN, 0};
		poll(&p, 1, 0);
	}
	close(lfd);
	reply(me, 0, false);
	act(me);
}

static void warm_walk(int rounds)
{
	for (int s = 0; s < rounds * STREAMS; s++)
		for (int i = 0; i < SIDES; i++) {
			send_some(i, s % STREAMS);
			read_some(!i, s % STREAMS, true);
		}
}

static void walk(uint64_t seed, int lfd)
{
	dice = (struct data)DATA(seed);
	memset(flow, 0, sizeof(flow));
	memset(actors, 0, sizeof(actors));
	say("seed %llu", (unsigned long long)seed);
	for (int i = 0; i < ACTORS; i++)
		make_pair(director_end(i));
	make_pair(PASS);
	for (int i = 0; i < SIDES; i++) {
		begin_actor(i, lfd);
		actors[i].lives = true;
		actors[i].side = i;
		memset(actors[i].holds, true, sizeof(actors[i].holds));
	}
	hear(0);
	hear(1);
	warm_walk((int)roll(4));
	nap(roll(2) ? 10 : 0);	/* a link may be made meanwhile */
	warm_walk((int)roll(3));
	for (int i = 0; i < STEPS; i++)
		step();
	for (int i = 0; i < ACTORS; i++)
		for (int s = 0; s < STREAMS; s++)
			if (actors[i].lives && actors[i].holds[s])
				read_some(i, s, true);
	for (int i = 0; i < ACTORS; i++)
		if (actors[i].lives)
			quit(i);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static void server(int lfd)
{
	const char *seeds = getenv("CASE_SEEDS");	/* first, count */
	unsigned long long first = 1, count = 100;

	if (seeds && sscanf(seeds, "%llu %llu", &first, &count) != 2)
		die("CASE_SEEDS");
	for (unsigned long long i = 0; i < count; i++)
		walk(first + i, lfd);
}

static void nobody(void) {}

const struct tcp_case cases[] = {
	{"walk", server, nobody},
	{0},
};

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "actor") &&
	    sscanf(argv[3], "%d %d %d", &fds[0], &fds[1], &fds[2]) == STREAMS) {
		reply(atoi(argv[2]), 0, false);
		act(atoi(argv[2]));
	}
	return case_main(argc, argv);
}
