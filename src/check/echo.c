/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * echo.c - the two ends of a measurement, which are ordinary TCP programs.  If the library is
 * preloaded, the client asks it which way its bytes went (sr_info()).
 *
 * The server sends a greeting.  The client answers with a byte that says what it wants: 'e',
 * the server sends back each message of ECHO_BYTES; or 's', the server takes all bytes until
 * the client's end of file, and then sends back how many they were.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "sockrail.h"

#define ECHO_BYTES 64
#define ROUNDS_MAX 10000
#define WARM_UP 100
#define ROUNDS_NS 400000000ull		/* how long each of the two figures is measured */
#define CHUNK (256 << 10)
#define LOOK_MS 4000			/* the library asks three times in 3 seconds */
#define GREETING_MS 300			/* how long to wait for the greeting */
#define CLIENT_SECONDS 20

static const char greeting[] = "sockrail check 1\n";
#define GREETING_LEN (sizeof(greeting) - 1)

static bool echo_take(int fd, char *buf, size_t n)
{
	while (n > 0) {
		ssize_t got = recv(fd, buf, n, 0);

		if (got <= 0)
			return false;
		buf += got;
		n -= (size_t)got;
	}
	return true;
}

/* (The descriptor blocks: less than all of it is a failure.) */
static bool echo_give(int fd, const char *buf, size_t n)
{
	return send(fd, buf, n, MSG_NOSIGNAL) == (ssize_t)n;
}

uint64_t check_clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the server ---- */

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg, one = 1;
	char *buf = malloc(CHUNK), what;
	uint64_t total = 0;
	ssize_t n;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (buf && echo_give(fd, greeting, GREETING_LEN) && echo_take(fd, &what, 1)) {
		while (what == 'e' && echo_take(fd, buf, ECHO_BYTES) &&
		       echo_give(fd, buf, ECHO_BYTES))
			;
		while (what == 's' && (n = recv(fd, buf, CHUNK, 0)) > 0)
			total += (uint64_t)n;
		if (what == 's')
			echo_give(fd, (const char *)&total, sizeof(total));
	}
	free(buf);
	close(fd);
	return NULL;
}

static int echo_listen(int family, const char *host, const char *port)
{
	const struct addrinfo hints = { .ai_family = family,
					.ai_socktype = SOCK_STREAM,
					.ai_flags = AI_PASSIVE | AI_NUMERICSERV };
	struct addrinfo *a;
	int fd = -1, one = 1;

	if (getaddrinfo(host, port, &hints, &a))
		return -1;
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 64)) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(a);
	return fd;
}

int echo_serve(const char *host, const char *port)
{
	struct sockaddr_in6 own = { 0 }; /* or an IPv4 one, with the port in the same place */
	socklen_t len = sizeof(own);
	pthread_t thread;
	int fd = echo_listen(host ? AF_INET : AF_INET6, host, port), c;

	if (fd < 0 && !host && errno == EAFNOSUPPORT)
		fd = echo_listen(AF_INET, NULL, port);
	if (fd < 0 || getsockname(fd, (struct sockaddr *)&own, &len)) {
		fprintf(stderr, "sockrail check: port %s: %s\n", port, strerror(errno));
		return 2;
	}
	printf("serving port %u; try sockrail check THIS-HOST:%u; Ctrl-C ends it\n",
	       ntohs(own.sin6_port), ntohs(own.sin6_port));
	fflush(stdout);
	for (;;) {
		c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (c < 0 && errno != EINTR && errno != ECONNABORTED)
			sleep(1);
		if (c < 0)
			continue;
		if (pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)c))
			close(c);
		else
			pthread_detach(thread);
	}
}

/* ---- the client ---- */

static int (*info_of)(int, struct sr_info *, size_t);

static int connect_to(const char *host, const char *port)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *a;
	int fd, one = 1;

	if (getaddrinfo(host, port, &hints, &a))
		return -1;
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
		close(fd);
		fd = -1;
	}
	freeaddrinfo(a);
	if (fd >= 0)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* If the policy is never, the library does not know the stream. */
static void echo_info(int fd, struct sr_info *i)
{
	memset(i, 0, sizeof(*i));
	if (info_of && !info_of(fd, i, sizeof(*i)))
		return;
	strcpy(i->link, "plain");
	i->reason = info_of ? "never" : NULL;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Is it decided whether the stream gets a link?  Not by the reasons "short" and "timeout", which
 * a stream would have if it ended now. */
static bool is_link_decided(const struct sr_info *i)
{
	return i->tx_state == SR_STATE_LINK ||
	       (i->reason && strcmp(i->reason, "short") && strcmp(i->reason, "timeout"));
}

/* Has the stream its link, or does it get none?  *i is what it has moved until now. */
static bool is_way_settled(int fd, struct sr_info *i, uint64_t begin)
{
	echo_info(fd, i);
	return !info_of || is_link_decided(i) || check_clock_ns() - begin > LOOK_MS * 1000000ull;
}

/* The median of many round trips in nanoseconds; 0: it failed.  *before: without those before
 * them, by which a stream of policy lazy obtains its link. */
static uint64_t round_trip(int fd, struct sr_info *before)
{
	static uint64_t took[ROUNDS_MAX];
	char buf[ECHO_BYTES] = "";
	uint64_t begin, from;
	int n = -WARM_UP;

	if (!echo_give(fd, "e", 1))
		return 0;
	for (begin = check_clock_ns(); !is_way_settled(fd, before, begin);)
		if (!echo_give(fd, buf, sizeof(buf)) || !echo_take(fd, buf, sizeof(buf)))
			return 0;
	for (begin = check_clock_ns(); n < ROUNDS_MAX; n++) {
		from = check_clock_ns();
		if (n > 0 && from - begin > ROUNDS_NS)
			break;
		if (!echo_give(fd, buf, sizeof(buf)) || !echo_take(fd, buf, sizeof(buf)))
			return 0;
		if (n >= 0)
			took[n] = check_clock_ns() - from;
	}
	qsort(took, (size_t)n, sizeof(took[0]), by_size);
	return took[n / 2];
}

/* Bytes in a second; 0: it failed.  *before: as above. */
static uint64_t measure_bandwidth(int fd, struct sr_info *before)
{
	char *buf = calloc(1, CHUNK);
	uint64_t begin, early = 0, sent = 0, total, took;

	if (!buf || !echo_give(fd, "s", 1))
		return 0;
	for (begin = check_clock_ns(); !is_way_settled(fd, before, begin); early += ECHO_BYTES)
		if (!echo_give(fd, buf, ECHO_BYTES))
			return 0;
	begin = check_clock_ns();
	do {
		if (!echo_give(fd, buf, CHUNK))
			return 0;
		sent += CHUNK;
	} while (check_clock_ns() - begin < ROUNDS_NS);
	free(buf);
	if (shutdown(fd, SHUT_WR) || !echo_take(fd, (char *)&total, sizeof(total)) ||
	    total != early + sent)
		return 0;
	took = check_clock_ns() - begin;
	return (uint64_t)((double)sent * 1e9 / (double)took);
}

static bool take_greeting(int fd)
{
	char buf[GREETING_LEN];

	return echo_take(fd, buf, sizeof(buf)) && !memcmp(buf, greeting, sizeof(buf));
}

static uint64_t echo_plain_bytes(const struct sr_info *now, const struct sr_info *before)
{
	return now->tx.plain + now->rx.plain - before->tx.plain - before->rx.plain;
}

/* Prints: link, reason, nanoseconds, bytes per second, bytes by TCP and by links. */
static int echo_measure(const char *host, const char *port)
{
	int a = connect_to(host, port), b = connect_to(host, port);
	struct sr_info i, j, before_i, before_j;
	uint64_t ns, rate;

	if (a < 0 || b < 0 || !take_greeting(a) || !take_greeting(b))
		return 1;
	ns = round_trip(a, &before_i);
	rate = ns ? measure_bandwidth(b, &before_j) : 0;
	if (!rate)
		return 1;
	echo_info(a, &i);
	echo_info(b, &j);
	printf("%s %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", i.link,
	       i.reason ? i.reason : j.reason ? j.reason : "-", ns, rate,
	       echo_plain_bytes(&i, &before_i) + echo_plain_bytes(&j, &before_j),
	       i.tx.shm + i.tx.verbs + j.tx.shm + j.tx.verbs);
	return 0;
}

/* Waits, without sending a byte, until the library knows whether there is a link.
 * Prints: link, reason, and whether the server greeted. */
static int echo_look(const char *host, const char *port)
{
	struct pollfd p = { .fd = connect_to(host, port), .events = POLLIN };
	uint64_t begin = check_clock_ns();
	bool hello = false, ended = false;
	struct sr_info i;

	if (p.fd < 0)
		return 1;
	do {
		char buf[GREETING_LEN];

		if (poll(&p, 1, 20) == 1) {
			ssize_t n = recv(p.fd, buf, sizeof(buf), MSG_DONTWAIT);

			hello |= n == (ssize_t)sizeof(buf) && !memcmp(buf, greeting, sizeof(buf));
			ended = !n || (n < 0 && errno != EAGAIN);
		}
		echo_info(p.fd, &i);
	} while (!ended &&
		 (!is_link_decided(&i) || check_clock_ns() - begin < GREETING_MS * 1000000ull) &&
		 check_clock_ns() - begin < LOOK_MS * 1000000ull);
	printf("%s %s %d\n", i.link, i.reason ? i.reason : "-", hello);
	return 0;
}

int echo_client(const char *host, const char *port, bool figures)
{
	*(void **)&info_of = dlsym(RTLD_DEFAULT, "sr_info");
	alarm(CLIENT_SECONDS);
	return figures ? echo_measure(host, port) : echo_look(host, port);
}

int echo_here(const char *host)
{
	char port[16];
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) || (pid = fork()) < 0)
		return 1;
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		dup2(ends[1], STDOUT_FILENO);
		exit(echo_serve(host, "0"));
	}
	close(ends[1]);
	dup2(ends[0], STDIN_FILENO);
	return scanf("serving port %15[0-9]", port) != 1 || echo_client(host, port, true);
}
