/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stream.c - makes real connections, to the peer or inside this host, and measures them.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#define CONNECT_MS 3000
#define STRAY_BYTES 4096 /* what TCP may carry before the link is there, the greetings included */

struct figures {
	char link[80], reason[32];
	unsigned long long ns, rate, plain, linked;
};

/* Runs one end of the measurement, or both if there is no port.  links: the kinds of link, ""
 * for those that the user has set; NULL: without links. */
static int run_end(char *out, size_t size, const struct checked *c, const char *mode,
		   const char *links, const char *host, const char *port)
{
	bool look = !strcmp(mode, "--echo-look");
	const char *argv[14];
	char set[64];
	int n = 0;

	if (!links) {
		/* Set even here, because the library may be preloaded for all programs. */
		argv[n++] = "env";
		argv[n++] = "SOCKRAIL_LINKS=none";
	} else {
		argv[n++] = c->launcher;
		/* In policy wait the server's rendezvous is open when its listen(2) returns. */
		if (port || !c->never) {
			argv[n++] = "-s";
			argv[n++] = c->by_dir ? "upgrade=lazy" : look ? "upgrade=eager" :
								       "upgrade=wait";
			/* Long, so that also between busy hosts the link is measured. */
			argv[n++] = "-s";
			argv[n++] = "answer_ms=2000";
		}
		if (*links) {
			snprintf(set, sizeof(set), "links=%s", links);
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

/* port: NULL for a server of our own at the address. */
static bool stream_measure(const struct checked *c, struct figures *f, const char *links,
			   const char *host, const char *port)
{
	const char *mode = port ? "--echo-client" : "--echo-here";
	char out[256];

	*f = (struct figures){ .ns = 0 };
	return !run_end(out, sizeof(out), c, mode, links, host, port) &&
	       sscanf(out, "%79s %31s %llu %llu %llu %llu", f->link, f->reason, &f->ns,
		      &f->rate, &f->plain, &f->linked) == 6;
}

static void print_figures(const char *name, const struct figures *f, const struct figures *tcp)
{
	bool plain = tcp && (f->plain > STRAY_BYTES || !f->linked);

	say(plain ? PROBLEM : OK, "measured", "%-6s 64-byte round trip %7.1f us,%8.0f MB/s%s%s",
	    name, (double)f->ns / 1e3, (double)f->rate / 1e6,
	    tcp ? plain ? ", by TCP" : ", by " : "", tcp && !plain ? f->link : "");
	if (plain)
		remedy(f->reason, "%s", advice(f->reason));
}

/* ---- inside this host ---- */

static void check_here(const struct checked *c)
{
	const char *device;
	char address[64];
	struct figures tcp, f;

	if (!stream_measure(c, &tcp, NULL, "127.0.0.1", NULL)) {
		say(PROBLEM, "measured", "TCP inside this host does not work");
		remedy(NULL, "Is the network device lo up?");
		return;
	}
	print_figures("TCP", &tcp, NULL);
	if (!*c->library)
		return;
	if (stream_measure(c, &f, "shm", "127.0.0.1", NULL))
		print_figures("shm", &f, &tcp);
	else
		say(PROBLEM, "measured", "shm: the measurement failed");
	if (!*device_address(address, &device))
		return;
	if (stream_measure(c, &f, "verbs", address, NULL))
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
	socklen_t len = sizeof(int);
	uint64_t begin = check_clock_ns();
	int err = 0;
	double ms;

	if (fd < 0)
		return -1;
	if (connect(fd, (const struct sockaddr *)&c->peer, c->peer_len)) {
		err = errno;
		if (err == EINPROGRESS && poll(&p, 1, CONNECT_MS) == 1)
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
		else if (err == EINPROGRESS)
			err = ETIMEDOUT;
	}
	ms = (double)(check_clock_ns() - begin) / 1e6;
	close(fd);
	errno = err;
	return err ? -1 : ms;
}

/* What else the existence of a link proves.  Over RDMA an end uses a link only after a packet of
 * the device's full length has come behind the peer's HELLO.  (With iWARP, TCP finds the MTU of
 * the path.) */
static const char *shown_by(const char *link)
{
	char type[8];

	if (strncmp(link, "verbs:", 6) != 0 ||
	    *first_line(type, sizeof(type), "/sys/class/infiniband/%s/node_type", link + 6) == '4')
		return "";
	return "; packets of full length pass both ways";
}

static void report_link(const char *what, const char *link, const char *reason)
{
	if (!strcmp(link, "plain") && !strcmp(reason, "short")) {
		say(WARNING, what, "the server ended the connection before there was a link");
	} else if (!strcmp(link, "plain")) {
		say(PROBLEM, what, "no link: the stream stays on TCP");
		if (strcmp(reason, "-") != 0)
			remedy(reason, "%s", advice(reason));
	} else {
		say(OK, what, "Sockrail answers there; the stream has a link by %s%s", link,
		    shown_by(link));
	}
}

/* Only a stream that has carried bytes asks by SOCKRAIL_DIR, and a server may not like ours. */
static void say_next_door(const char *what, bool greets)
{
	if (greets)
		return;	/* it is tried below */
	say(WARNING, what, "no link without bytes; whether streams get one by SOCKRAIL_DIR is not known");
	remedy(NULL, "The server's reports tell, or sockrail-stat at either end");
}

static void check_there(struct checked *c)
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
	c->by_dir = *c->dir && !c->local && !strcmp(link, "plain");
	if (c->by_dir)
		say_next_door(what, greets);
	else
		report_link(what, link, reason);
	if (!greets) {
		say(OK, "measured", "nothing: the server is not 'sockrail check --serve'");
		remedy(NULL, "To measure: sockrail check --serve there, and here sockrail check "
			     "%s:7471", c->host);
		return;
	}
	if (!stream_measure(c, &tcp, NULL, c->host, c->port) ||
	    !stream_measure(c, &f, "", c->host, c->port)) {
		say(PROBLEM, "measured", "the measurement failed");
		return;
	}
	print_figures("TCP", &tcp, NULL);
	print_figures("link", &f, &tcp);
}

void check_streams(struct checked *c)
{
	said(); /* prints the last line now, because the measurement takes a second or more */
	if (c->no_streams)
		return;
	note_counters();
	if (c->host)
		check_there(c);
	else
		check_here(c);
	judge_counters();
}
