/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * check.c - sockrail check: looks at what streams need to get a link, and says what is
 * missing, and what to do about it.
 */
#include "config.h"

#include <getopt.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#define SERVE_PORT "7471"

/* In this order.  Each says one line or more, by say() and remedy(). */
static void (*const checks[])(struct checked *c) = {
	check_library,
	check_libc,
	check_settings,
	check_modules,
	check_devices,
	check_limits,
	check_unix,
	check_sock_diag,
	check_namespaces,
	check_directory,
	check_confinement,
	check_command,
	check_unit,
	check_streams,
};

static void check_usage(FILE *to)
{
	fputs("Usage: sockrail check [OPTION]... [HOST:PORT] [-- COMMAND [ARGUMENT]...]\n"
	      "       sockrail check --serve[=PORT]\n"
	      "Says what keeps TCP streams from RDMA and shared memory, and what to do.\n\n"
	      "  HOST:PORT          a server, to which a connection is made; [::1]:80\n"
	      "  COMMAND            a program: can it be accelerated at all?\n"
	      "  -u, --unit NAME    a systemd unit: which of its directives are in the way?\n"
	      "  -s, --serve[=PORT] be the other end of a measurement (port " SERVE_PORT ")\n"
	      "  -j, --json         print one JSON object per line\n"
	      "  -n, --no-streams   make no connections, measure nothing\n"
	      "      --unit-path DIR[:DIR]...  look for the unit's files there\n"
	      "  -h, --help         print this\n"
	      "  -V, --version      print the version\n\n"
	      "Exit status: 0 no problem, 1 a problem, 2 bad usage.\n",
	      to);
}

/* Cuts HOST:PORT or [HOST]:PORT, and looks the address up. */
static void find_peer(struct checked *c, char *text)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	char *colon = strrchr(text, ':');
	struct addrinfo *found;
	int err;

	if (!colon || colon == text || !colon[1] || strchr(colon, ']'))
		refuse("%s: not HOST:PORT", text);
	if (strchr(text, ':') < colon && colon[-1] != ']')
		refuse("%s: an IPv6 address is written in brackets: [::1]:7471", text);
	*colon = '\0';
	c->host = text;
	c->port = colon + 1;
	if (*text == '[' && colon[-1] == ']') {
		colon[-1] = '\0';
		c->host++;
	}
	if (strtoul(c->port, NULL, 10) > 65535) /* getaddrinfo() would cut it to 16 bits */
		refuse("%s: there is no such port", c->port);
	err = getaddrinfo(c->host, c->port, &hints, &found);
	if (err)
		refuse("%s, port %s: %s", c->host, c->port, gai_strerror(err));
	memcpy(&c->peer, found->ai_addr, found->ai_addrlen);
	c->peer_len = found->ai_addrlen;
	freeaddrinfo(found);
}

/* This program and the launcher beside it. */
static void find_self(struct checked *c)
{
	static char self[PATH_MAX], launcher[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		refuse("/proc/self/exe cannot be read: is /proc mounted?");
	strcpy(launcher, self);
	strcpy(strrchr(launcher, '/') + 1, "sockrail");
	c->self = self;
	c->launcher = access(launcher, X_OK) ? "sockrail" : launcher;
}

static void echo_serve_port(const struct checked *c, const char *port)
{
	char *end;
	unsigned long n = strtoul(port, &end, 10);

	if (*end || !n || n > 65535)
		refuse("--serve: %s is no port", port);
	execlp(c->launcher, "sockrail", c->self, "--echo-server", port, (char *)NULL);
	refuse("%s cannot be run", c->launcher);
}

/* This program is also the two ends of a measurement, and the program that shows which library
 * it has. */
static int echo_end(int argc, char **argv)
{
	const char *end = argc > 1 ? argv[1] : "";

	if (!strcmp(end, "--echo-library"))
		return print_library();
	if (!strcmp(end, "--echo-server") && argc > 2)
		return echo_serve(NULL, argv[2]);
	if (!strcmp(end, "--echo-here") && argc > 2)
		return echo_here(argv[2]);
	if (!strcmp(end, "--echo-client") && argc > 3)
		return echo_client(argv[2], argv[3], true);
	if (!strcmp(end, "--echo-look") && argc > 3)
		return echo_client(argv[2], argv[3], false);
	return -1;
}

static const struct option options[] = {
	{"unit", required_argument, NULL, 'u'},
	{"unit-path", required_argument, NULL, 'U'},
	{"serve", optional_argument, NULL, 's'},
	{"json", no_argument, NULL, 'j'},
	{"no-streams", no_argument, NULL, 'n'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

/* Takes the options, the port of --serve, and HOST:PORT.  (The caller has cut off the
 * command.)  Returns -1, or the exit status. */
static int take_options(struct checked *c, int argc, char **argv, const char **port)
{
	int o;

	while ((o = getopt_long(argc, argv, "u:s::jnhV", options, NULL)) != -1) {
		switch (o) {
		case 'u':
			c->unit = optarg;
			break;
		case 'U':
			c->unit_path = optarg;
			break;
		case 's':
			*port = optarg ? optarg : SERVE_PORT;
			break;
		case 'j':
			say_json();
			break;
		case 'n':
			c->no_streams = true;
			break;
		case 'h':
			check_usage(stdout);
			return 0;
		case 'V':
			puts(PACKAGE_STRING);
			return 0;
		default:
			fputs("Try 'sockrail check --help'.\n", stderr);
			return 2;
		}
	}
	if (*port && optind < argc)
		*port = argv[optind++];
	else if (optind < argc)
		find_peer(c, argv[optind++]);
	if (optind < argc)
		refuse("%s: unexpected; a command comes after --", argv[optind]);
	return -1;
}

int main(int argc, char **argv)
{
	struct checked c = { .unit = NULL };
	const char *port = NULL;
	int status = echo_end(argc, argv);

	for (int i = 1; i < argc && status < 0; i++) {
		if (strcmp(argv[i], "--") != 0)
			continue;
		c.command = argv[i + 1];
		if (!c.command || !*c.command)
			refuse("no command follows --");
		argv[argc = i] = NULL;
	}
	if (status < 0)
		status = take_options(&c, argc, argv, &port);
	if (status >= 0)
		return status;
	find_self(&c);
	if (port)
		echo_serve_port(&c, port);
	find_program(&c);
	load_checked_unit(&c);
	/* The programs that are run below are not the user's: they must not be in his report. */
	unsetenv("SOCKRAIL_REQUIRE");
	unsetenv("SOCKRAIL_REPORT");
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
		checks[i](&c);
	return said() == PROBLEM ? 1 : 0;
}
