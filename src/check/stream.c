/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stream.c - real connections: to the peer, or inside this host.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define CONNECT_MS 3000
#define TRIALS 4
#define TRIAL_US 200000
#define STRAY_BYTES 4096 /* the greetings, and what TCP carries until the link is there */

struct figures {
	char link[80], reason[32];
	unsigned long long ns, rate, plain, linked;
};

/* Runs one end of the measurement; links: which kinds, "" as the user has them; NULL:
 * without the library. */
static int run_end(char *out, size_t size, const struct checked *c, const char *mode,
		   const char *links, const char *host, const char *port)
{
	const char *argv[12];
	char set[64];
	int n = 0;

	if (!links) {
		/* Even where the library is preloaded for everybody. */
		argv[n++] = "env";
		argv[n++] = "SOCKRAIL_UPGRADE=never";
	} else {
		argv[n++] = c->launcher;
		argv[n++] = "-s";
		argv[n++] = strcmp(mode, "--echo-look") ? "upgrade=wait" : "upgrade=eager";
		snprintf(set, sizeof(set), "links=%s", links);
		if (*links) {
			argv[n++] = "-s";
			argv[n++] = set;
		}
	}
	argv[n++] = c->self;
	argv[n++] = mode;
	argv[n++] = host;
	argv[n++] = port;
	argv[n] = NULL;
	return run_program(out, size, false, argv);
}

static bool measure(const struct checked *c, struct figures *f, const char *links,
		    const char *host, const char *port)
{
	char out[256];

	*f = (struct figures){ .ns = 0 };
	return !run_end(out, sizeof(out), c, "--echo-client", links, host, port) &&
	       sscanf(out, "%79s %31s %llu %llu %llu %llu", f->link, f->reason, &f->ns,
		      &f->rate, &f->plain, &f->linked) == 6;
}

static void print_figures(const char *name, const struct figures *f, const struct figures *tcp)
{
	bool plain = tcp && f->plain > STRAY_BYTES;

	say(plain ? PROBLEM : OK, "measured", "%-6s 64-byte round trip %7.1f us,%8.0f MB/s%s%s",
	    name, (double)f->ns / 1e3, (double)f->rate / 1e6,
	    tcp ? plain ? ", by TCP" : ", by " : "", tcp && !plain ? f->link : "");
	if (plain)
		remedy(f->reason, "%s", advice(f->reason));
}

/* ---- inside this host ---- */

/* A server of our own at an address; its port. */
static pid_t start_server(const struct checked *c, const char *links, const char *host,
			  char port[16])
{
	char at[80], text[64], set[64];
	int ends[2];
	size_t n = 0;
	pid_t pid;

	port[0] = '\0';
	snprintf(at, sizeof(at), "%s/0", host);
	snprintf(set, sizeof(set), "links=%s", links ? links : "");
	if (pipe2(ends, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid) {
		dup2(ends[1], 1);
		if (links)
			execlp(c->launcher, "sockrail", "-s", set, c->self, "--echo-server", at,
			       (char *)NULL);
		else
			execl(c->self, c->self, "--echo-server", at, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	while (pid > 0 && n < sizeof(text) - 1 && read(ends[0], text + n, 1) == 1 &&
	       text[n] != ';')
		n++;
	text[n] = '\0';
	sscanf(text, "serving port %15[0-9]", port);
	close(ends[0]);
	return pid;
}

static bool measure_here(const struct checked *c, struct figures *f, const char *links,
			 const char *host)
{
	char port[16];
	pid_t pid = start_server(c, links, host, port);
	bool ok = false;

	/* The library opens its rendezvous behind listen(2), in the background. */
	for (int left = *port ? TRIALS : 0; left > 0; left--) {
		ok = measure(c, f, links, host, port);
		if (!ok || strcmp(f->reason, "no-listener") != 0)
			break;
		usleep(TRIAL_US);
	}
	if (pid > 0) {
		kill(pid, SIGTERM);
		waitpid(pid, NULL, 0);
	}
	return ok;
}

static void check_here(const struct checked *c)
{
	char address[64], device[64];
	struct figures tcp, f;

	if (!measure_here(c, &tcp, NULL, "127.0.0.1")) {
		say(PROBLEM, "measured", "TCP inside this host does not work");
		remedy(NULL, "Is the network device lo up?");
		return;
	}
	print_figures("TCP", &tcp, NULL);
	if (!*c->library)
		return;
	if (measure_here(c, &f, "shm", "127.0.0.1"))
		print_figures("shm", &f, &tcp);
	else
		say(PROBLEM, "measured", "shm: the measurement failed");
	if (!*device_address(address, device))
		return;
	if (measure_here(c, &f, "verbs", address))
		print_figures("verbs", &f, &tcp);
	else
		say(PROBLEM, "measured", "verbs, device %s: the measurement failed", device);
}

/* ---- to a peer ---- */

/* Milliseconds that a TCP connection takes; -1 and errno if there is none. */
static double connect_ms(const struct checked *c)
{
	int fd = socket(c->peer.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	struct timespec a, b;
	int err = 0;
	socklen_t len = sizeof(err);

	if (fd < 0)
		return -1;
	clock_gettime(CLOCK_MONOTONIC, &a);
	if (connect(fd, (const struct sockaddr *)&c->peer, c->peer_len)) {
		err = errno;
		if (err == EINPROGRESS && poll(&p, 1, CONNECT_MS) == 1)
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
		else if (err == EINPROGRESS)
			err = ETIMEDOUT;
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	close(fd);
	errno = err;
	return err ? -1 : (double)(b.tv_sec - a.tv_sec) * 1e3 +
			  (double)(b.tv_nsec - a.tv_nsec) / 1e6;
}

static void check_there(const struct checked *c)
{
	char what[300], out[256], link[80], reason[32];
	struct figures tcp, f;
	double ms = connect_ms(c);
	int greets = 0;

	snprintf(what, sizeof(what), "%s port %s", c->host, c->port);
	if (ms < 0) {
		say(PROBLEM, what, "no TCP connection: %s", strerror(errno));
		remedy(NULL, "Start the server, or let the port through the firewall");
		return;
	}
	say(OK, what, "a TCP connection takes %.2f ms", ms);
	if (!*c->library)
		return;
	if (run_end(out, sizeof(out), c, "--echo-look", "", c->host, c->port) ||
	    sscanf(out, "%79s %31s %d", link, reason, &greets) != 3) {
		say(PROBLEM, what, "the trial with Sockrail failed");
		return;
	}
	if (!strcmp(link, "plain") && !strcmp(reason, "short")) {
		say(WARNING, what, "the server ended the connection before there was a link");
	} else if (!strcmp(link, "plain")) {
		say(PROBLEM, what, "no link: the stream stays on TCP");
		if (strcmp(reason, "-") != 0)
			remedy(reason, "%s", advice(reason));
	} else {
		say(OK, what, "its Sockrail answers; the stream has a link by %s", link);
	}
	if (!greets) {
		say(OK, "measured", "nothing, as this server measures nothing");
		remedy(NULL, "To measure: sockrail check --serve there, and here sockrail check "
			     "%s:7471", c->host);
		return;
	}
	if (!measure(c, &tcp, NULL, c->host, c->port) ||
	    !measure(c, &f, "", c->host, c->port)) {
		say(PROBLEM, "measured", "the measurement failed");
		return;
	}
	print_figures("TCP", &tcp, NULL);
	print_figures("link", &f, &tcp);
}

void check_streams(struct checked *c)
{
	said(); /* what comes takes a second or more */
	if (c->no_streams)
		return;
	if (c->host)
		check_there(c);
	else
		check_here(c);
}
