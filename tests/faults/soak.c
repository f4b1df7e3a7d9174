/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * soak.c - tests/faults/run --soak: do memory, descriptors, threads and mappings of two
 * processes that have streams all the time stay what they are?
 *
 *     soak SECONDS FILE
 *
 * A server, which echoes, and a client with 50 threads, each of which opens one stream
 * after another, as 50 programs would: many calls and few, small and large; now and then
 * a child gets the stream, which brings it back to TCP until its parent has it alone.
 * Beside them short programs come and go, and end in all ways.  What the two have is
 * measured when all streams are closed: after a fifth of the time, and at the end.
 */
#define ONE_PAIR
#include <pthread.h>
#include <sys/prctl.h>

#include "driver.h"
#include "sockets.h"

#include "../progs/entries.h"

enum { SLOTS = 50, SERVERS = SLOTS + 20, SETTLE_MS = 5000, HANG_MS = 15000 };
enum { SERVER, CLIENT, HALVES };
enum { MEMORY, FILES, THREADS, MAPS, FIGURES };

static const char *const half_names[] = {"server", "client"};
static const char *const figure_names[] = {"memory (kB)", "descriptors", "threads", "mappings"};
/* What it may grow by: the allocators keep some memory, and streams are made in slabs. */
static const long may_grow[FIGURES] = {1500, 3, 0, 4};
#define OTHER_FILES 20	/* besides one for each thread, to be woken by */

struct soak {
	struct shared s;
	atomic_bool pause, stop;
	atomic_int idle, measure, measured;
	atomic_ulong streams, bytes, forks, programs, wrong;
	long figure[2][HALVES][FIGURES];	/* at first, at last */
};

static struct soak *k;

/* ---- what a process has ---- */

static void measure(long figure[FIGURES])
{
	char line[512];
	FILE *f = fopen("/proc/self/status", "re");
	long kb;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "RssAnon: %ld", &kb) == 1 || sscanf(line, "RssShmem: %ld", &kb) == 1)
			figure[MEMORY] += kb;
	if (f)
		fclose(f);
	f = fopen("/proc/self/maps", "re");
	while (f && fgets(line, sizeof(line), f))
		figure[MAPS]++;
	if (f)
		fclose(f);
	figure[FILES] = count_entries("/proc/self/fd");
	figure[THREADS] = count_entries("/proc/self/task");
}

static void measure_when_asked(int half)
{
	for (int done = 0; !k->stop; nap_us(5000))
		if (k->measure > done) {
			measure(k->figure[done++][half]);
			k->measured++;
		}
}

/* ---- the server ---- */

static bool send_all(int fd, const unsigned char *p, size_t n)
{
	while (n) {
		ssize_t r = send(fd, p, n, 0);

		if (r <= 0)
			return false;
		p += r;
		n -= (size_t)r;
	}
	return true;
}

static void *serve(void *arg)
{
	int lfd = *(int *)arg, fd;
	unsigned char buf[65536];
	ssize_t n;

	for (;;) {
		fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			die("accept");
		while ((n = recv(fd, buf, sizeof(buf), 0)) > 0 && send_all(fd, buf, (size_t)n))
			k->bytes += (uint64_t)n;
		close(fd);
	}
	return NULL;
}

static int server(void)
{
	static int lfd;
	pthread_t thread;

	lfd = listen_any(&k->s.port);
	for (int i = 0; i < SERVERS; i++)
		if (pthread_create(&thread, NULL, serve, &lfd))
			die("thread");
	measure_when_asked(SERVER);
	_exit(0);
}

/* ---- clients ---- */

/* Sends n bytes and takes them back. */
static bool exchange(int fd, size_t n, uint64_t *chance)
{
	uint64_t id = (*chance)++;
	size_t sent = 0, got = 0;
	unsigned char buf[65536];

	while (got < n) {
		struct pollfd p = {fd, (short)(POLLIN | (sent < n ? POLLOUT : 0)), 0};
		size_t part = 1 + draw(chance, sizeof(buf));
		ssize_t r;

		if (poll(&p, 1, -1) < 0)
			return false;
		if (sent < n && (p.revents & POLLOUT)) {
			part = part < n - sent ? part : n - sent;
			fill(id, sent, buf, part);
			r = send(fd, buf, part, MSG_DONTWAIT);
			if (r < 0 && errno != EAGAIN)
				return false;
			sent += r > 0 ? (size_t)r : 0;
		}
		if (!(p.revents & POLLIN))
			continue;
		r = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (!r || (r < 0 && errno != EAGAIN) ||
		    (r > 0 && !right(id, got, buf, (size_t)r)))
			return false;
		got += r > 0 ? (size_t)r : 0;
	}
	return true;
}

static bool exchange_in_child(int fd, size_t n, uint64_t *chance)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		alarm(HANG_MS / 1000);
		_exit(!exchange(fd, n, chance));
	}
	k->forks++;
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

static bool use_stream(int fd, uint64_t *chance)
{
	bool ok = true;

	for (uint64_t left = 1 + draw(chance, 600); ok && left; left--) {
		size_t n = 1 + draw(chance, draw(chance, 12) ? 3000 : 400000);

		ok = draw(chance, 4000) ? exchange(fd, n, chance) :
					 exchange_in_child(fd, n, chance);
		if (!draw(chance, 30))
			nap_us((unsigned)draw(chance, 20000));
	}
	return ok;
}

static int dial_once(void)
{
	struct sockaddr_in a = at(k->s.port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)))
		die("connect");
	k->streams++;
	return fd;
}

static void *run_slot(void *arg)
{
	uint64_t chance = mix((uintptr_t)arg + k->s.seed);
	char c;

	while (!k->stop) {
		int fd;

		if (k->pause) {
			k->idle++;
			while (k->pause && !k->stop)
				nap_us(2000);
			k->idle--;
			continue;
		}
		fd = dial_once();
		if (!use_stream(fd, &chance))
			k->wrong++;
		if (draw(&chance, 2)) {
			shutdown(fd, SHUT_WR);
			if (recv(fd, &c, 1, 0))
				k->wrong++;
		}
		close(fd);
	}
	return NULL;
}

static int client(void)
{
	pthread_t thread;

	while (!k->s.port)
		nap_us(1000);
	for (uintptr_t i = 0; i < SLOTS; i++)
		if (pthread_create(&thread, NULL, run_slot, (void *)i))
			die("thread");
	measure_when_asked(CLIENT);
	_exit(0);
}

/* A program that lives for a moment. */
static int once(void)
{
	uint64_t chance = mix((uint64_t)getpid() + k->s.seed);
	int fds[3] = {-1, -1, -1}, end = (int)draw(&chance, ENDS);

	for (int i = 0; i < 3; i++) {
		fds[i] = dial_once();
		if (!exchange(fds[i], 1 + draw(&chance, 20000), &chance))
			k->wrong++;
	}
	end_process(end, fds, 3, &chance);
	return 0;
}

/* ---- the driver ---- */

static pid_t halves[HALVES], program;
static bool ended;

static uint64_t start_ns, soak_ns, settled_ns;

/* One of the two times at which is measured. */
static void measure_at(int which, uint64_t due_ns)
{
	uint64_t now = now_ns();

	if (k->measure > which || now < due_ns)
		return;
	k->pause = true;
	if (k->idle < SLOTS || program)
		settled_ns = 0;
	else if (!settled_ns)
		settled_ns = now;
	else if (now - settled_ns > SETTLE_MS * UINT64_C(1000000))
		k->measure = which + 1;
}

static void turn(void)
{
	uint64_t end = start_ns + soak_ns;

	measure_at(0, start_ns + soak_ns / 5);
	if (k->measured == HALVES && k->pause && now_ns() < end)
		k->pause = false;
	if (k->measure == 1 && k->measured == HALVES)
		measure_at(1, end);
	if (k->measured == 2 * HALVES)
		k->stop = true;
	if (!program && !k->pause && k->s.port && now_ns() % 20 == 0) {
		program = start("once", 0);
		k->programs++;
	}
	/* The measuring is progress, too. */
	if (k->pause)
		k->bytes++;
}

static void gone(pid_t pid, int status)
{
	if (pid == program) {
		program = 0;
		note_status(pid, status);
		return;
	}
	if (pid != halves[SERVER] && pid != halves[CLIENT])
		return;
	ended |= !k->stop;
	note_status(pid, status);
	k->stop = true;
}

static uint64_t progress(void)
{
	return k->bytes + k->streams;
}

static int print_result(bool hung, bool json)
{
	bool ok = !hung && !ended && !k->wrong && !k->s.crashes && k->measured == 2 * HALVES;

	printf(json ? "{\"streams\":%lu,\"bytes\":%lu,\"forks\":%lu,\"programs\":%lu,"
		      "\"wrong\":%lu,\"crashes\":%d,\"hung\":%d,\"figures\":[" :
		      "%lu streams, %lu bytes echoed, %lu forks, %lu programs; wrong %lu, "
		      "crashes %d, hung %d\n",
	       k->streams, k->bytes, k->forks, k->programs, k->wrong, k->s.crashes, hung);
	for (int h = 0; h < HALVES; h++)
		for (int f = 0; f < FIGURES; f++) {
			long was = k->figure[0][h][f], is = k->figure[1][h][f];
			bool grows = is > was + may_grow[f] &&
				     !(f == FILES && is < SERVERS + OTHER_FILES);

			printf(json ? "%s{\"of\":\"%s\",\"figure\":\"%s\",\"first\":%ld,"
				      "\"last\":%ld,\"grows\":%s}" :
				      "%s%-8s %-14s %10ld %10ld %s\n",
			       json && (h || f) ? "," : "", half_names[h], figure_names[f], was,
			       is, json ? grows ? "true" : "false" : grows ? "GROWS" : "");
			ok &= !grows;
		}
	if (json)
		printf("]}\n");
	return !ok;
}

int main(int argc, char **argv)
{
	static const struct round_ops ops = {progress, gone, turn};
	const char *what = argc > 1 ? argv[1] : "";

	signal(SIGPIPE, SIG_IGN);
	if (argc < 3)
		return 2;
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		die("self");
	map_shared(argv[2], sizeof(*k), what[0] >= '0' && what[0] <= '9');
	k = (struct soak *)shared;
	if (!strcmp(what, "server"))
		return server();
	if (!strcmp(what, "client"))
		return client();
	if (!strcmp(what, "once"))
		return once();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	k->s.seed = now_ns();
	start_ns = now_ns();
	soak_ns = strtoull(what, NULL, 0) * 1000000000;
	halves[SERVER] = start("server", 0);
	halves[CLIENT] = start("client", 0);
	return print_result(await_all(&ops, HANG_MS), argc > 3);
}
