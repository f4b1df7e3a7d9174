/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * process.c - a round of tests/faults/run: ordinary TCP programs that hand their
 * streams to other processes, and end, in all ways and at all moments.
 *
 *     process round SEED FILE [rail]
 *
 * One process is the peer.  Each of several subjects has some streams with it; to each
 * stream belongs a child, which gets it at some moment; then the parent, the child, both
 * or neither of them uses it, and one after the other ends in its way (plan.h).  What
 * comes of each stream is printed.  rail: links are expected.
 */
#include <sys/prctl.h>

#include "driver.h"
#include "parent.h"
#include "peer.h"

static void bump_all(struct subject *su)
{
	for (int i = 0; i < shared->streams; i++)
		bump(&su->stream[i]);
}

static void note_gone(pid_t pid, int status)
{
	note_status(pid, status);
	for (int i = 0; i < SUBJECTS; i++) {
		struct subject *su = &shared->subject[i];

		if (su->pid == pid) {
			su->gone = true;
			for (int j = 0; j < shared->streams; j++)
				su->stream[j].way[UP].may_get = NEVER;
			bump_all(su);
		}
		for (int j = 0; j < shared->streams; j++)
			if (su->stream[j].child == pid) {
				su->stream[j].child_gone = true;
				bump(&su->stream[j]);
			}
	}
}

static void kill_due(void)
{
	for (unsigned i = 0; i < shared->kills; i++) {
		struct killing *k = &shared->kill[i];

		if (k->pid > 0 && now_ns() > k->at) {
			kill(k->pid, SIGKILL);
			k->pid = -1;
		}
	}
}

static uint64_t progress(void)
{
	uint64_t n = 0;

	for (int i = 0; i < SUBJECTS; i++)
		for (int j = 0; j < shared->streams; j++) {
			struct stream *s = &shared->subject[i].stream[j];

			for (int way = UP; way <= DOWN; way++)
				n += s->way[way].sent + s->way[way].got;
			n += s->child_closed + s->child_gone + s->over + s->parent_closed;
		}
	return n;
}

static const char *class_of(struct way *w)
{
	static const char *const of[] = {"none", "eof", "reset", "failed"};

	return of[w->end];
}

static void print_stream(struct subject *su, struct stream *s, bool hung)
{
	struct way *up = &s->way[UP], *down = &s->way[DOWN];

	printf("%d.%d %s %s %s %s %s %s half=%d early=%d,%d linked=%d stayed=%d maps=%d "
	       "up=%llu/%llu/%llu:%s%s down=%llu/%llu/%llu:%s%s wrong=%d hung=%d leaked=%d,%d "
	       "port=%d\n",
	       (int)(su - shared->subject), (int)(s - su->stream), how_names[s->how],
	       when_names[s->when], who_names[s->who], end_names[s->child_end],
	       end_names[su->parent_end], s->parent_first ? "parent-first" : "child-first",
	       s->half, s->early_ms, su->early_ms, s->linked, s->stayed, s->maps,
	       (unsigned long long)up->got, (unsigned long long)up->sent,
	       (unsigned long long)up->tried, class_of(up), down->stopped ? ",sent" : "",
	       (unsigned long long)down->got,
	       (unsigned long long)down->sent, (unsigned long long)down->tried,
	       class_of(down), up->stopped ? ",sent" : "", s->wrong, hung && !s->over, su->leaked, su->leaked_maps,
	       s->port);
	if (hung && !s->over && getenv("FAULTS_SHOW"))
		for (int way = UP; way <= DOWN; way++) {
			struct way *w = &s->way[way];

			fprintf(stderr, "  way %d: limit %llu may_get %llu use_end %llu turns", way,
				(unsigned long long)w->limit, (unsigned long long)w->may_get,
				(unsigned long long)w->use_end);
			for (int i = 0; i < TURNS; i++)
				fprintf(stderr, " %llu:%d", (unsigned long long)w->turn[i].upto,
					w->turn[i].side);
			fprintf(stderr, " forked %d go %d closed %d gone %d parent %d %d\n",
				s->forked, s->child_go, s->child_closed, s->child_gone,
				s->parent_done, s->parent_closed);
		}
}

static int round_of(uint64_t seed, bool rail)
{
	static const struct round_ops ops = {progress, note_gone, kill_due};
	bool hung;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	plan(seed);
	shared->rail = rail;
	shared->peer = start("peer", 0);
	for (int i = 0; i < SUBJECTS; i++)
		start("subject", i);
	hung = await_all(&ops, 5000);
	for (int i = 0; i < SUBJECTS; i++)
		for (int j = 0; j < shared->streams; j++)
			print_stream(&shared->subject[i], &shared->subject[i].stream[j], hung);
	printf("peer %d crashes %d\n", shared->peer, shared->crashes);
	return hung;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int fds[STREAMS];

	signal(SIGPIPE, SIG_IGN);
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		die("self");
	if (!strcmp(what, "rest")) {
		nap_us(10000);
		return 0;
	}
	if (argc < 3)
		return 2;
	if (!strcmp(what, "round") && argc > 3) {
		map_shared(argv[3], sizeof(*shared), true);
		return round_of(strtoull(argv[2], NULL, 0), argc > 4);
	}
	map_shared(argv[2], sizeof(*shared), false);
	if (!strcmp(what, "peer"))
		return peer();
	if (!strcmp(what, "subject") && argc > 3)
		return subject(&shared->subject[atoi(argv[3])]);
	if (!strcmp(what, "child") && argc > 5) {
		struct subject *su = &shared->subject[atoi(argv[3])];

		memset(fds, -1, sizeof(fds));
		fds[atoi(argv[4])] = atoi(argv[5]);
		child(su, &su->stream[atoi(argv[4])], fds);
	}
	return 2;
}
