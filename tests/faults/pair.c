/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pair.c - a round of tests/faults/run: a client and a server, ordinary TCP programs, one
 * or both of which are in want of something, are stopped or ended, or have a stranger call.
 *
 *     pair kinds
 *     pair KIND SEED FILE
 *
 * Some of the streams are opened before the trouble begins, some later.  What comes of the
 * round is one line for table.awk: each byte has to arrive, unless a process was ended;
 * then what arrives is a prefix of what was sent, and all of it before an end of file.
 */
#define ONE_PAIR
#include "trouble.h"

/* Behind so many bytes there may be a link soon: a moment is left for it. */
#define SETTLED 3000
#define LINKED 30000	/* bytes that have moved when the fabric fails, mostly: there are links */

/* ---- client and server ---- */

struct half {
	struct mover m;
	pthread_t thread;
};

static int me;
static struct half halves[STREAMS][2];	/* UP, DOWN */
static atomic_int fds[STREAMS], users[STREAMS];

static void let_go(int i)
{
	if (atomic_fetch_sub(&users[i], 1) == 1) {
		close(fds[i]);
		r->s.subject[0].stream[i].parent_closed |= me == CLIENT;
	}
}

/* Where the fabric is to fail the streams take their time until they have links: until the
 * kernel's count of their bytes stands still, or half has gone. */
static void settle(struct half *h)
{
	struct way *w = &h->m.s->way[h->m.way];
	uint64_t before;

	do {
		before = by_kernel(h->m.fd);
		move(&h->m);
		nap_us(100000);
	} while (by_kernel(h->m.fd) != before && !w->stopped && w->sent < w->limit / 2);
	r->settled++;
}

static void *move_all(void *arg)
{
	struct half *h = arg;
	struct stream *s = h->m.s;
	int i = (int)(s - r->s.subject[0].stream);
	struct way *w = &s->way[h->m.way];
	unsigned flags = kinds[r->kind].flags;

	AWAIT(s, fds[i] >= 0 || r->over);
	if (fds[i] < 0)
		return NULL;
	h->m.fd = fds[i];
	if (sends(&h->m)) {
		if (flags & FABRIC && r->s.rail)
			settle(h);
		while (!w->stopped && w->sent < w->limit) {
			move(&h->m);
			if (flags & FABRIC && !r->well)
				nap_us((unsigned)draw(&h->m.chance, 20000));
			else if (flags & CROWD || (w->sent > SETTLED && w->sent < 2 * SETTLED))
				nap_us((unsigned)draw(&h->m.chance, 5000));
		}
		shutdown(h->m.fd, SHUT_WR);
	} else {
		while (w->end == NO_END)
			move(&h->m);
	}
	let_go(i);
	return NULL;
}

static uint64_t moved_bytes(void)
{
	uint64_t n = 0;

	for (int i = 0; i < r->s.streams; i++)
		for (int way = UP; way <= DOWN; way++)
			n += r->s.subject[0].stream[i].way[way].got;
	return n;
}

/* Mostly it waits for those that are opened before it. */
static bool may_begin(void)
{
	bool late = kinds[r->kind].flags & FABRIC && r->s.rail && r->moment >= LINKED;

	return moved_bytes() >= r->moment && (!late || r->settled >= (r->s.streams + 1) / 2 * 2);
}

/* The trouble comes, and may pass. */
static void *have_trouble(void *arg)
{
	const struct kind *k = &kinds[r->kind];

	(void)arg;
	while (!may_begin())
		nap_us(200);
	if (k->begin)
		k->begin();
	r->begun = true;
	if (r->passes || k->begin == fewer_files) {
		nap_us(1000 + (unsigned)(r->strength % 30000));
		if (k->end)
			k->end();
	}
	return NULL;
}

static void begin_threads(void)
{
	pthread_t thread;

	if (kinds[r->kind].act == ask_to_exit)
		wait_for_signal();
	for (int i = 0; i < r->s.streams; i++) {
		fds[i] = -1;
		users[i] = 2;
		for (int way = UP; way <= DOWN; way++) {
			struct half *h = &halves[i][way];

			h->m = mover(r->s.subject, &r->s.subject[0].stream[i], -1,
				     me == CLIENT ? PARENT : PEER, way);
			if (pthread_create(&h->thread, NULL, move_all, h))
				die("thread");
		}
	}
	if (!r->victim[me])
		return;
	if (kinds[r->kind].flags & AT_ONCE)
		have_trouble(NULL);
	else if (pthread_create(&thread, NULL, have_trouble, NULL))
		die("thread");
}

static void give(int i, int fd)
{
	fds[i] = fd;
	bump(&r->s.subject[0].stream[i]);
}

/* Without a descriptor it is tried again. */
static int dial_on(struct stream *s)
{
	struct sockaddr_in a = at(r->s.port);
	int fd;

	while ((fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
		nap_us(1000);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		if (kinds[r->kind].flags & FABRIC && !r->over) {
			close(fd);
			nap_us(5000);
			return dial_on(s);
		}
		r->over = true;	/* the server was ended */
		return -1;
	}
	s->port = port_of(fd, get_name);
	return fd;
}

static void dial_all(void)
{
	int n = r->s.streams, early = (n + 1) / 2;

	while (!r->s.port && !r->over)
		nap_us(300);
	for (int i = 0; i < n && !r->over; i++) {
		while (i >= early && !r->begun && !r->over)
			nap_us(300);
		nap_us(i >= early && kinds[r->kind].flags & CROWD ? 5000 : 0);
		give(i, dial_on(&r->s.subject[0].stream[i]));
	}
}

/* The stream whose other end this is.  One that has ended may have had the same port. */
static int stream_of(int fd)
{
	int port = port_of(fd, get_peer);

	for (; !r->over; nap_us(200))
		for (int i = 0; i < r->s.streams; i++)
			if (fds[i] < 0 && r->s.subject[0].stream[i].port == port)
				return i;
	return -1;
}

static void accept_all(void)
{
	struct pollfd p = {.events = POLLIN};
	int fd, i, left = r->s.streams;

	p.fd = listen_any(&r->s.port);
	while (left && !r->over) {
		fd = poll(&p, 1, 10) > 0 ? accept4(p.fd, NULL, NULL, SOCK_CLOEXEC) : -1;
		if (fd < 0)
			continue;
		i = stream_of(fd);
		if (i >= 0)
			give(i, fd);
		left--;
	}
}

static int half(int which)
{
	me = which;
	begin_threads();
	if (me == CLIENT)
		dial_all();
	else
		accept_all();
	for (int i = 0; i < r->s.streams; i++)
		for (int way = UP; way <= DOWN; way++)
			pthread_join(halves[i][way].thread, NULL);
	return 0;
}

/* ---- the driver ---- */

static void plan_pair(int kind, uint64_t seed)
{
	uint64_t c = mix(seed * KINDS + (uint64_t)kind), early = 0;
	unsigned flags = kinds[kind].flags;
	int who = (int)draw(&c, 3);

	r->s.seed = seed;
	r->kind = kind;
	r->victim[CLIENT] = who != SERVER;
	r->victim[SERVER] = who != CLIENT && !((flags & ENDS_IT) && who == 2);
	r->s.streams = flags & CROWD ? STREAMS : 1 + (int)draw(&c, flags & FABRIC ? 5 : 12);
	r->strength = mix(c++) >> 8;
	r->passes = draw(&c, 2);
	for (int i = 0; i < r->s.streams; i++)
		for (int way = UP; way <= DOWN; way++) {
			struct way *w = &r->s.subject[0].stream[i].way[way];

			w->limit = 1 + draw(&c, draw(&c, 8) ? 40000 : 1500000);
			if (flags & FABRIC)
				w->limit = 200000 + draw(&c, 800000);
			w->may_get = NEVER;
			w->turn[0].upto = NEVER;
			w->turn[0].side = PARENT;
			early += i < (r->s.streams + 1) / 2 ? w->limit : 0;
		}
	r->moment = flags & AT_ONCE || !draw(&c, 3) ? 0 : draw(&c, early);
	if (flags & FABRIC)	/* mostly once there may be links */
		r->moment = (draw(&c, 4) ? LINKED : 0) + r->moment / 4;
	r->due = NEVER;
}

static uint64_t progress(void)
{
	uint64_t n = moved_bytes() + r->begun;

	for (int i = 0; i < r->s.streams; i++) {
		struct stream *s = &r->s.subject[0].stream[i];

		n += s->way[UP].sent + s->way[DOWN].sent + s->parent_closed;
	}
	return n;
}

static void gone(pid_t pid, int status)
{
	int who = pid == r->pid[SERVER];
	bool ended = (kinds[r->kind].flags & ENDS_IT) && r->victim[who];

	if (pid == r->fabric)
		fabric_is_well(status);
	if (pid != r->pid[CLIENT] && pid != r->pid[SERVER])
		return;
	if (WIFSIGNALED(status) && !ended)
		r->failed = 256 + WTERMSIG(status);
	else if (WIFEXITED(status) && WEXITSTATUS(status))
		r->failed = WEXITSTATUS(status);
	ended |= r->failed;
	r->pid[who] = -1;
	r->due = NEVER;
	r->over |= ended;
	if (r->pid[!who] < 0)
		end_descendants();	/* the strangers */
	else
		kill(r->pid[!who], SIGCONT);
}

static void turn(void)
{
	const struct kind *k = &kinds[r->kind];

	if (!k->act)
		return;
	if (!r->acts && r->due == NEVER && r->begun) {
		r->due = now_ns() + r->strength % 20000000;
		r->acts = 1;
	}
	if (r->due == NEVER || now_ns() < r->due)
		return;
	r->due = now_ns() + 1000000 + mix(r->strength + (uint64_t)r->acts) % 20000000;
	for (int who = CLIENT; who <= SERVER; who++)
		if (r->victim[who] && r->pid[who] > 0)
			k->act(r->pid[who]);
	r->acts++;
}

struct verdict {
	uint64_t lost;
	int wrong, cut, reset;
};

/* back: the other direction.  Once its sender has been told of a reset, the reader of the
 * same end sees an end of file. */
static void judge_way(struct verdict *v, struct way *w, struct way *back, bool may_end)
{
	if (w->got > w->tried)
		v->wrong++;
	if (w->end == END_OF_FILE && w->got < w->sent && !back->stopped)
		v->lost += w->sent - w->got;
	if (!may_end && (w->got < w->limit || w->stopped))
		v->cut++;
	v->reset += w->end == RESET;
	v->cut += w->end == FAILED;
}

/* A stream of a round that has failed. */
static void show_stream(int i)
{
	struct stream *s = &r->s.subject[0].stream[i];

	for (int way = UP; way <= DOWN; way++) {
		struct way *w = &s->way[way];

		fprintf(stderr, "  %d %s: %llu of %llu sent (%llu tried)%s, %llu got, end %d (%s)\n",
			s->port, way ? "down" : "up", (unsigned long long)w->sent,
			(unsigned long long)w->limit, (unsigned long long)w->tried,
			w->stopped ? ", stopped" : "", (unsigned long long)w->got, w->end,
			strerror(w->error));
	}
}

static int print_verdict(bool hung)
{
	bool ends = kinds[r->kind].flags & ENDS_IT;
	struct verdict v = {0};
	bool ok;

	for (int i = 0; i < r->s.streams; i++) {
		struct stream *s = &r->s.subject[0].stream[i];

		v.wrong += s->wrong;
		judge_way(&v, &s->way[UP], &s->way[DOWN], ends);
		judge_way(&v, &s->way[DOWN], &s->way[UP], ends);
	}
	ok = !hung && !r->failed && !v.wrong && !v.cut && !v.lost && (ends || !v.reset);
	for (int i = 0; i < r->s.streams && !ok; i++)
		show_stream(i);
	printf("%s %s - - - - %llu %d: streams=%d victim=%d%d moment=%llu strength=%llu "
	       "passes=%d wrong=%d cut=%d reset=%d failed=%d\n",
	       ok ? "ok" : "failed", kinds[r->kind].name, (unsigned long long)v.lost, hung,
	       r->s.streams, r->victim[CLIENT], r->victim[SERVER],
	       (unsigned long long)r->moment, (unsigned long long)r->strength, r->passes,
	       v.wrong, v.cut, v.reset, r->failed);
	return !ok;
}

static int round_of(int kind, uint64_t seed)
{
	static const struct round_ops ops = {progress, gone, turn};

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	plan_pair(kind, seed);
	r->pid[SERVER] = start("server", 0);
	r->pid[CLIENT] = start("client", 0);
	return print_verdict(await_all(&ops, 5000));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	signal(SIGPIPE, SIG_IGN);
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		die("self");
	for (int i = 0; i < KINDS && !strcmp(what, "kinds"); i++)
		if (!(kinds[i].flags & FABRIC))
			puts(kinds[i].name);
	if (argc < 4)
		return strcmp(what, "kinds") != 0;
	for (int i = 0; i < KINDS; i++)
		if (!strcmp(what, kinds[i].name)) {
			map_shared(argv[3], sizeof(*r), true);
			r = (struct round *)shared;
			r->s.rail = argc > 4;
			return round_of(i, strtoull(argv[2], NULL, 0));
		}
	map_shared(argv[2], sizeof(*r), false);
	r = (struct round *)shared;
	return half(!strcmp(what, "server") ? SERVER : CLIENT);
}
