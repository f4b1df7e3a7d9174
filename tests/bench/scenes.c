/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * scenes.c - what a message costs on many streams at a time; see tests/bench/streams.
 *
 *     scenes scenes                         all scenes: which can be counted, and their ends
 *     scenes count ADDRESS SCENE ROUNDS     both ends in this process, on one processor
 *     scenes server ADDRESS PORT SCENE      answers, until it is killed
 *     scenes time ADDRESS PORT SCENE SECONDS PID    PID is the server's process
 *     scenes idle ADDRESS STREAMS           both ends here: what each of them takes
 *
 * Prints "name value" lines.  Those of count are for a message, of which a request and its
 * answer are two.  It is built twice: as an ordinary TCP program,
 * and (scenes_fake) with the library and an RDMA device in memory.
 */
#ifdef FAKE_VERBS
#include "scenes_fake.h"
#else
#include "scenes_kernel.h"
#endif

#include <arpa/inet.h>

#include "scenes_ends.h"
#ifndef FAKE_VERBS
#include "scenes_apart.h"
#endif
#include "scenes_trace.h"

enum { TAKES = 12 };

static const struct scene scenes[] = {
	{"loop-1", .loops = 1, .streams = 1},
	{"loop-10", .loops = 1, .streams = 10},
	{"loop-50", .loops = 1, .streams = 50},
	{"loop-200", .loops = 1, .streams = 200},
	{"loops-4x4", .loops = 4, .streams = 64},
	{"threads-1", .streams = 1},
	{"threads-4", .streams = 4},
	{"threads-16", .streams = 16},
	{"threads-200", .streams = 200},
	{"pool-1", .streams = 1, .main_opens = true},
	{"pool-4", .streams = 4, .main_opens = true},
	{"pool-16", .streams = 16, .main_opens = true},
	{"pool-200", .streams = 200, .main_opens = true},
	{"processes-200", .loops = 1, .streams = 200, .timed = PROCESSES},
	{"paced", .streams = 1, .timed = PACED},
	{"beside-bulk", .streams = 2, .timed = BESIDE},
	{"busy-open", .loops = 1, .streams = 1, .timed = OPENING, .ms = 30},
	{"stopped-0.5", .loops = 1, .streams = 10, .timed = STOPPED, .ms = 500},
	{"stopped-5", .loops = 1, .streams = 10, .timed = STOPPED, .ms = 5000},
};
enum { SCENES = sizeof(scenes) / sizeof(scenes[0]) };

static const struct scene *scene_named(const char *name)
{
	for (unsigned i = 0; i < SCENES; i++)
		if (!strcmp(scenes[i].name, name))
			return &scenes[i];
	fprintf(stderr, "scenes: there is no scene '%s'\n", name);
	exit(2);
}

/* Until so many answers have come since the clients began. */
static void await_answers(uint64_t n)
{
	uint64_t last = now_ns(), seen = 0, have;

	for (;;) {
		device_settle();
		have = atomic_load(&answers);
		if (have >= n)
			return;
		if (device_step() || have > seen)
			last = now_ns();
		seen = have;
		if (now_ns() - last > STANDSTILL_S * UINT64_C(1000000000)) {
			errno = ETIMEDOUT;
			die("no answer");
		}
	}
}

struct look {
	uint64_t answers, tcp;
	struct device_counts device;
	struct thread_counts thread;
};

static struct look look_now(void)
{
	return (struct look){.answers = atomic_load(&answers),
			     .tcp = bytes_by_tcp(),
			     .device = device_look(),
			     .thread = threads_look()};
}

static bool is_near(double a, double b)
{
	return a - b < 0.01 && b - a < 0.01;
}

static double per_message(uint64_t from, uint64_t to, double messages)
{
	return (double)(to - from) / messages;
}

static void print_count(const struct look *a, const struct look *b)
{
	static const char *const names[] = {"client", "server", "service"};
	double messages = 2 * (double)(b->answers - a->answers);

	device_print(&a->device, &b->device, messages);
	for (int i = CLIENT; i <= SERVICE; i++)
		printf("wakes_%s %.3f\n", names[i],
		       per_message(a->thread.sleeps[i], b->thread.sleeps[i], messages));
	printf("by_tcp %.3f\n", 2 * per_message(a->tcp, b->tcp, messages) / MESSAGE);
}

/* What the device was asked for, and how often the threads slept. */
static double cost(const struct look *a, const struct look *b)
{
	double n = device_calls(&b->device) - device_calls(&a->device) +
		   threads_slept(&b->thread) - threads_slept(&a->thread);

	return n / 2 / (double)(b->answers - a->answers);
}

/* The same number of rounds once more, traced.  Nothing is printed if the device was not
 * asked for the same: tracing was so slow that the library took the links for unused. */
static void count_calls(unsigned rounds, const struct look *before, const struct look *after)
{
	static struct call_counts a, b;
	struct look from, to;
	double calls, traced;

	if (!trace_begin())
		return;
	await_answers(atomic_load(&answers) + WARM * scene->streams);
	calls_look(&a);
	from = look_now();
	await_answers(from.answers + (uint64_t)rounds * scene->streams);
	calls_look(&b);
	to = look_now();
	trace_end();
	calls = (device_calls(&after->device) - device_calls(&before->device)) /
		(double)(after->answers - before->answers);
	traced = (device_calls(&to.device) - device_calls(&from.device)) /
		 (double)(to.answers - from.answers);
	if (calls - traced < 0.05 * calls + 0.01 && traced - calls < 0.05 * calls + 0.01)
		print_calls(&a, &b, 2 * (double)(to.answers - from.answers));
}

/* One more take for the tool that counts them: tests/bench/streams divides by the messages. */
static void count_instructions(unsigned rounds)
{
	uint64_t from = atomic_load(&answers);

	atomic_store(&measuring, true);
	await_answers(from + (uint64_t)rounds * scene->streams);
	atomic_store(&measuring, false);
	printf("measured_messages %llu\n", (unsigned long long)(2 * (atomic_load(&answers) - from)));
}

/* Begins when two takes in a row agree: how the library looks after a link depends on how
 * much it has been used in the last tenth of a second. */
static int count(unsigned rounds)
{
	const bool measures = getenv("SR_BENCH_INSTRUCTIONS");
	struct look at[TAKES + 1];
	double last = -1, now;
	unsigned n;

	hold_still();
	if (!measures)
		trace_prepare();
	start_server();
	start_clients();
	go_first();
	find_threads();
	device_hold();
	let_clients_go();
	await_answers(WARM * scene->streams);
	at[0] = look_now();
	for (n = 1; n <= TAKES; n++, last = now) {
		await_answers(at[n - 1].answers + (uint64_t)rounds * scene->streams);
		at[n] = look_now();
		now = cost(&at[n - 1], &at[n]);
		if (is_near(now, last))
			break;
	}
	printf("takes %u\n", n);
	n = n > TAKES ? TAKES : n;
	print_count(&at[n - 1], &at[n]);
	if (measures)
		count_instructions(rounds);
	else
		count_calls(rounds, &at[n - 1], &at[n]);
	device_release();
	end_clients();
	return 0;
}

/* ---- streams that do nothing ---- */

struct memory {
	uint64_t rss, pinned, descriptors, queue_pairs;
};

static struct memory memory_look(void)
{
	struct memory m = {.queue_pairs = device_queue_pairs(), .pinned = device_pinned()};
	FILE *f = fopen("/proc/self/status", "r");
	unsigned long kb;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "VmRSS: %lu", &kb) == 1)
			m.rss = kb * 1024;
		else if (sscanf(line, "VmPin: %lu", &kb) == 1)
			m.pinned += kb * 1024;
	}
	if (f)
		fclose(f);
	m.descriptors = (uint64_t)count_entries("/proc/self/fd");
	return m;
}

static int idle(unsigned streams)
{
	struct memory a, b;
	double ends = 2.0 * streams;
	uint64_t from;
	double s, alone_us;
	int set, first;

	scene = &(struct scene){.name = "idle", .loops = 1, .streams = streams};
	start_server();
	set = CALL(epoll_create1)(0);
	/* The first stream pays for threads, libraries and devices. */
	first = open_stream();
	watch(set, first);
	alone_us = round_trips(first, 0.5, 0);
	a = memory_look();
	from = now_ns();
	for (unsigned i = 0; i < streams; i++) {
		fds[i] = open_stream();
		watch(set, fds[i]);
	}
	s = (double)(now_ns() - from) / 1e9;
	sleep(2);
	b = memory_look();
	printf("opened_per_s %.1f\n", streams / s);
	printf("rss_kb %.1f\n", ((double)b.rss - (double)a.rss) / ends / 1024);
	printf("pinned_kb %.1f\n", ((double)b.pinned - (double)a.pinned) / ends / 1024);
	printf("descriptors %.2f\n", ((double)b.descriptors - (double)a.descriptors) / ends);
	printf("queue_pairs %.2f\n", ((double)b.queue_pairs - (double)a.queue_pairs) / ends);
	printf("alone_us %.1f\n", alone_us);
	printf("beside_us %.1f\n", round_trips(first, 0.5, 0));
	fflush(stdout);
	_exit(0);
}

static int usage(void)
{
	fprintf(stderr, "usage: scenes scenes | count ADDRESS SCENE ROUNDS |\n"
			"       server ADDRESS PORT SCENE |\n"
			"       time ADDRESS PORT SCENE SECONDS PID | idle ADDRESS STREAMS\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct rlimit l = {100000, 100000}; /* for root */

	if (setrlimit(RLIMIT_NOFILE, &l) && !getrlimit(RLIMIT_NOFILE, &l)) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
	if (argc == 2 && !strcmp(argv[1], "scenes")) {
		for (unsigned i = 0; i < SCENES; i++)
			printf("%s %s %s\n", scenes[i].name,
			       scenes[i].timed == MESSAGES ? "counted" : "timed",
			       scenes[i].loops ? "loops" : "threads");
		return 0;
	}
	if (argc < 4)
		return usage();
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = inet_addr(argv[2]);
	device_begin();
	if (!strcmp(argv[1], "idle"))
		return idle((unsigned)atoi(argv[3]));
	if (argc < 5)
		return usage();
	if (!strcmp(argv[1], "count")) {
		scene = scene_named(argv[3]);
		return count((unsigned)atoi(argv[4]));
	}
	address.sin_port = htons((uint16_t)atoi(argv[3]));
	scene = scene_named(argv[4]);
#ifndef FAKE_VERBS
	if (!strcmp(argv[1], "server"))
		serve();
	if (!strcmp(argv[1], "time") && argc > 6)
		return timed(atof(argv[5]), atoi(argv[6]));
#endif
	return usage();
}
