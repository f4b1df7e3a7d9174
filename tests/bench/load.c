/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * load.c - the benchmark's load, an ordinary TCP program (blocking calls and
 * threads only, so that every sockets-over-RDMA library can run it).
 *
 *     load server ADDRESS PORT
 *     load stream ADDRESS PORT SIZE SECONDS     write SIZE at a time
 *     load pingpong ADDRESS PORT SIZE ROUNDS [PAUSE-US]   between rounds
 *     load connect ADDRESS PORT STREAMS         connect to first answered byte
 *     load idle ADDRESS PORT STREAMS            what streams cost that do nothing
 *     load quit ADDRESS PORT                    the server ends
 *
 * Prints "name value" lines.  A client's first message says what it wants.
 */
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

enum what { STREAM, ECHO, COST, QUIT };

struct request {
	uint32_t what;
	uint32_t size; /* of a message */
};

/* What the process has used so far; memory in bytes. */
struct cost {
	uint64_t cpu_us, bytes, rss, pinned, locked, descriptors, threads;
};

static struct sockaddr_in address;

static void put(int fd, const void *buf, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t k = send(fd, (const char *)buf + done, n - done, 0);

		if (k < 0)
			die("send");
		done += (size_t)k;
	}
}

static size_t take(int fd, void *buf, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t k = recv(fd, (char *)buf + got, n - got, 0);

		if (k < 0)
			die("recv");
		if (!k)
			break;
		got += (size_t)k;
	}
	return got;
}

static int dial(struct request r)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (fd < 0)
		die("socket");
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	put(fd, &r, sizeof(r));
	return fd;
}

static struct cost cost_now(void)
{
	struct cost c = {0};
	char line[256];
	unsigned long kb;
	FILE *f = fopen("/proc/self/status", "r");

	c.cpu_us = cpu_us();
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "VmRSS: %lu", &kb) == 1)
			c.rss = kb * 1024;
		else if (sscanf(line, "VmPin: %lu", &kb) == 1)
			c.pinned = kb * 1024;
		else if (sscanf(line, "VmLck: %lu", &kb) == 1)
			c.locked = kb * 1024;
		else if (sscanf(line, "Threads: %lu", &kb) == 1)
			c.threads = kb;
	}
	if (f)
		fclose(f);
	c.descriptors = (uint64_t)count_entries("/proc/self/fd");
	return c;
}

/* ------------------------------------------------------------- server */

static void *serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	struct request r;
	struct cost before = {0}, c;
	uint64_t bytes = 0;
	char *buf;
	ssize_t n;

	if (take(fd, &r, sizeof(r)) != sizeof(r))
		goto end;
	buf = malloc(r.size + 1);
	if (r.what == STREAM || r.what == COST)
		before = cost_now();
	switch (r.what) {
	case STREAM:
		while ((n = recv(fd, buf, r.size, 0)) > 0)
			bytes += (uint64_t)n;
		c = cost_now();
		c.cpu_us -= before.cpu_us;
		c.bytes = bytes;
		put(fd, &c, sizeof(c));
		break;
	case ECHO:
		while (take(fd, buf, r.size) == r.size)
			put(fd, buf, r.size);
		break;
	case COST:
		put(fd, &before, sizeof(before));
		break;
	case QUIT:
		close(fd);
		exit(0);
	}
	free(buf);
end:
	close(fd);
	return NULL;
}

static void server(void)
{
	int lfd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	pthread_attr_t attr;

	setsockopt(lfd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(lfd, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(lfd, 256))
		die("listen");
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 64 << 10);
	for (;;) {
		int fd = accept(lfd, NULL, NULL);
		pthread_t t;

		if (fd < 0)
			die("accept");
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		if (pthread_create(&t, &attr, serve, (void *)(intptr_t)fd))
			die("pthread_create");
	}
}

/* ------------------------------------------------------------- clients */

static int stream(uint32_t size, double seconds)
{
	int fd = dial((struct request){STREAM, 1 << 20});
	char *buf = calloc(1, size);
	struct cost before = cost_now(), c;
	uint64_t start = now_ns(), stop = start + (uint64_t)(seconds * 1e9);

	do
		for (unsigned i = 0; i < (size < 4096 ? 64 : 1); i++)
			put(fd, buf, size);
	while (now_ns() < stop);
	shutdown(fd, SHUT_WR);
	/* The time ends when the peer's program has it all. */
	if (take(fd, &c, sizeof(c)) != sizeof(c))
		die("no answer");
	print_stream(c.bytes, size, now_ns() - start,
		     c.cpu_us + cost_now().cpu_us - before.cpu_us);
	close(fd);
	return 0;
}

static int pingpong(uint32_t size, unsigned rounds, unsigned pause_us)
{
	int fd = dial((struct request){ECHO, size});
	uint64_t *ns = calloc(rounds, sizeof(*ns));
	char *buf = calloc(1, size);

	for (unsigned i = 0; i < rounds + rounds / 10; i++) {
		uint64_t from;

		if (pause_us)
			usleep(pause_us);
		from = now_ns();
		put(fd, buf, size);
		if (take(fd, buf, size) != size)
			die("echo");
		/* the first tenth warms up */
		if (i >= rounds / 10)
			ns[i - rounds / 10] = now_ns() - from;
	}
	print_times("round_trip", ns, rounds);
	print_distribution("round_trip", ns, rounds);
	close(fd);
	return 0;
}

static int connects(unsigned n)
{
	uint64_t *ns = calloc(n, sizeof(*ns));

	for (unsigned i = 0; i < n; i++) {
		uint64_t from = now_ns();
		int fd = dial((struct request){ECHO, 1});
		char c = 'c';

		put(fd, &c, 1);
		if (take(fd, &c, 1) != 1)
			die("first byte");
		ns[i] = now_ns() - from;
		close(fd);
	}
	print_times("connect", ns, n);
	return 0;
}

static struct cost server_cost(void)
{
	struct cost c;
	int fd = dial((struct request){COST, 1});

	if (take(fd, &c, sizeof(c)) != sizeof(c))
		die("cost");
	close(fd);
	return c;
}

/* Per stream and end: the mean of client and server. */
static void print_cost(const char *name, uint64_t a, uint64_t a0, uint64_t b,
		       uint64_t b0, double n)
{
	printf("%s %.1f\n", name,
	       ((double)a - (double)a0 + (double)b - (double)b0) / 2 / n);
}

static int idle(unsigned n)
{
	struct cost c0, s0, c, s;
	int *fds = calloc(n, sizeof(*fds));
	char buf[64] = {0};

	/* The first stream pays for threads, libraries and devices. */
	for (int k = 0; k < 2; k++) {
		int fd = dial((struct request){ECHO, 64});

		put(fd, buf, 64);
		take(fd, buf, 64);
		fds[0] = fd;
	}
	server_cost();
	s0 = server_cost();
	c0 = cost_now();
	for (unsigned i = 0; i < n; i++) {
		fds[i] = dial((struct request){ECHO, 64});
		for (int k = 0; k < 8; k++) {
			put(fds[i], buf, 64);
			if (take(fds[i], buf, 64) != 64)
				die("echo");
		}
	}
	sleep(2);
	c = cost_now();
	s = server_cost();
	print_cost("idle_rss_kb", c.rss, c0.rss, s.rss, s0.rss, n * 1024.0);
	print_cost("idle_pinned_kb", c.pinned + c.locked, c0.pinned + c0.locked,
		   s.pinned + s.locked, s0.pinned + s0.locked, n * 1024.0);
	print_cost("descriptors", c.descriptors, c0.descriptors, s.descriptors,
		   s0.descriptors, n);
	printf("threads %llu\n", (unsigned long long)c.threads);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 4 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) {
		fprintf(stderr, "usage: load server|stream|pingpong|connect|"
				"idle|quit ADDRESS PORT ...\n");
		return 2;
	}
	address.sin_family = AF_INET;
	address.sin_port = htons((uint16_t)atoi(argv[3]));
	if (!strcmp(argv[1], "server"))
		server();
	if (!strcmp(argv[1], "stream") && argc == 6)
		return stream((uint32_t)atoi(argv[4]), atof(argv[5]));
	if (!strcmp(argv[1], "pingpong") && (argc == 6 || argc == 7))
		return pingpong((uint32_t)atoi(argv[4]), (unsigned)atoi(argv[5]),
				argc == 7 ? (unsigned)atoi(argv[6]) : 0);
	if (!strcmp(argv[1], "connect") && argc == 5)
		return connects((unsigned)atoi(argv[4]));
	if (!strcmp(argv[1], "idle") && argc == 5)
		return idle((unsigned)atoi(argv[4]));
	if (!strcmp(argv[1], "quit")) {
		dial((struct request){QUIT, 0});
		return 0;
	}
	fprintf(stderr, "load: %s: wrong arguments\n", argv[1]);
	return 2;
}
