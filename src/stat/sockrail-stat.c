/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sockrail-stat.c - the command: its options, and where its output goes.
 */
#include "config.h"
#include "stat/stat.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { USAGE = 2 };
enum format { LIST, SUMMARY, JSON, OPENMETRICS, PROMETHEUS };
enum {
	OPT_PID = 256, OPT_SUMMARY, OPT_JSON, OPT_OPENMETRICS, OPT_PROMETHEUS, OPT_OUTPUT,
	OPT_COUNTERS, OPT_DEVICES,
};

static const struct option options[] = {
	{"all", no_argument, NULL, 'a'},
	{"listening", no_argument, NULL, 'l'},
	{"processes", no_argument, NULL, 'p'},
	{"info", no_argument, NULL, 'i'},
	{"no-header", no_argument, NULL, 'H'},
	{"numeric", no_argument, NULL, 'n'},
	{"tcp", no_argument, NULL, 't'},
	{"watch", optional_argument, NULL, 'w'},
	{"pid", required_argument, NULL, OPT_PID},
	{"summary", no_argument, NULL, OPT_SUMMARY},
	{"json", no_argument, NULL, OPT_JSON},
	{"openmetrics", no_argument, NULL, OPT_OPENMETRICS},
	{"prometheus", no_argument, NULL, OPT_PROMETHEUS},
	{"output", required_argument, NULL, OPT_OUTPUT},
	{"counters", no_argument, NULL, OPT_COUNTERS},
	{"devices", no_argument, NULL, OPT_DEVICES},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

static void stat_usage(FILE *to)
{
	fputs("Usage: sockrail-stat [OPTION]... [FILTER]...\n"
	      "Shows the streams of all processes that run under Sockrail, live.\n\n"
	      "  -l, --listening        listening sockets\n"
	      "  -a, --all              streams and listening sockets\n"
	      "  -p, --processes        program, pid and descriptor of each\n"
	      "  -i, --info             all counters of each\n"
	      "  -H, --no-header        no header line\n"
	      "  -n, -t                 ignored: addresses are numbers anyway, and sockets TCP\n"
	      "      --pid=PID          one process\n"
	      "      --watch[=SECONDS]  repeat the list, with bytes per second\n"
	      "      --summary          totals, and what to do about plain streams\n"
	      "      --json             one JSON document\n"
	      "      --openmetrics      metrics in OpenMetrics' format\n"
	      "      --prometheus       metrics in Prometheus's, for node_exporter\n"
	      "      --output=FILE      write there, replacing the file as a whole\n"
	      "      --counters         list the counters\n"
	      "      --devices          RDMA devices: the counters that tell of trouble\n"
	      "  -h, --help             print this\n"
	      "  -V, --version          print the version\n\n"
	      "FILTER, all of which must hold:\n"
	      "  src ADDRESS[:PORT]     dst ADDRESS[:PORT]   (also 10.0.0.0/8, [::1]:80, :80)\n"
	      "  sport = :PORT          dport = :PORT        (also !=)\n"
	      "  state STATE            plain asking switching shm verbs returning closing ...\n",
	      to);
}

static void list_counters(void)
{
	for (int i = 0; i < SR_COUNTERS; i++)
		printf("%-10s %-7s %-9s %s\n", stat_counters[i].name,
		       stat_counters[i].gauge ? "gauge" : "counter", stat_counters[i].unit,
		       stat_counters[i].text);
}

struct settings {
	struct stat_options list;
	struct stat_filter filter;
	enum format format;
	const char *output;
};

static const char *const format_options[] = {
	NULL, "--summary", "--json", "--openmetrics", "--prometheus",
};

/* False, and a message, if both options are given. */
static bool are_apart(const char *a, const char *b)
{
	if (a && b)
		fprintf(stderr, "sockrail-stat: %s and %s do not go together\n", a, b);
	return !a || !b;
}

static bool set_format(struct settings *s, enum format format, int *status)
{
	enum format before = s->format;

	*status = USAGE;
	s->format = format;
	return before == format || are_apart(format_options[before], format_options[format]);
}

static bool number_bad(const char *what, const char *value)
{
	fprintf(stderr, "sockrail-stat: %s %s: not a valid number\n", what, value);
	return false;
}

static bool number_parse(double *to, const char *what, const char *text, double least,
			 double most)
{
	char *end;

	*to = strtod(text, &end);
	return (!*end && end != text && *to >= least && *to <= most) || number_bad(what, text);
}

/* False: exit with *status. */
static bool option_take(struct settings *s, int c, int *status)
{
	double d = 0;

	*status = 0;
	switch (c) {
	case 'a': s->list.all = true; return true;
	case 'l': s->list.listening = true; return true;
	case 'p': s->list.processes = true; return true;
	case 'i': s->list.info = true; return true;
	case 'H': s->list.no_header = true; return true;
	case 'n': case 't': return true;
	case OPT_SUMMARY: return set_format(s, SUMMARY, status);
	case OPT_JSON: return set_format(s, JSON, status);
	case OPT_OPENMETRICS: return set_format(s, OPENMETRICS, status);
	case OPT_PROMETHEUS: return set_format(s, PROMETHEUS, status);
	case OPT_OUTPUT: s->output = optarg; return true;
	case 'w':
		s->list.watch = 1;
		*status = USAGE;
		return !optarg || number_parse(&s->list.watch, "--watch", optarg, 0.01, 86400);
	case OPT_PID:
		*status = USAGE;
		if (!number_parse(&d, "--pid", optarg, 1, 1 << 22))
			return false;
		s->list.pid = (pid_t)d;
		return true;
	case OPT_COUNTERS: list_counters(); return false;
	case OPT_DEVICES: s->list.devices = true; return true;
	case 'h': stat_usage(stdout); return false;
	case 'V': puts("sockrail-stat " VERSION); return false;
	}
	fputs("sockrail-stat --help lists the options\n", stderr);
	*status = USAGE;
	return false;
}

static void print_all(FILE *to, struct stat_all *all, const struct settings *s)
{
	switch (s->format) {
	case JSON:
		stat_json(to, all);
		break;
	case OPENMETRICS:
	case PROMETHEUS:
		stat_metrics(to, all, s->format == PROMETHEUS);
		break;
	case SUMMARY:
		stat_summary(all);
		break;
	case LIST:
		stat_list(all, &s->list);
	}
	if (all->hidden && s->format <= SUMMARY)
		fprintf(stderr, "sockrail-stat: %u process%s of other users not shown\n",
			all->hidden, all->hidden == 1 ? "" : "es");
}

/* Replaces the file atomically: a reader finds the old one or the new one, complete. */
static bool print_to_file(struct stat_all *all, const struct settings *s)
{
	char name[4096];
	FILE *to;
	int fd;

	if (snprintf(name, sizeof(name), "%s.XXXXXX", s->output) >= (int)sizeof(name)) {
		errno = ENAMETOOLONG;
		goto failed;
	}
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		goto failed;
	to = fdopen(fd, "w");
	print_all(to, all, s);
	if (fchmod(fd, 0644) || fclose(to) || rename(name, s->output)) {
		unlink(name);
		goto failed;
	}
	return true;
failed:
	fprintf(stderr, "sockrail-stat: %s: %s\n", s->output, strerror(errno));
	return false;
}

static void fit_terminal(struct stat_options *o)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		return;
	o->width = size.ws_col;
	o->lines = size.ws_row;
}

/* filter: the filter's first word, or NULL. */
static bool options_fit(const struct settings *s, const char *filter)
{
	const char *devices = s->list.devices ? "--devices" : NULL;

	if (s->output && s->format < JSON) {
		fputs("sockrail-stat: --output goes with --json, --openmetrics or "
		      "--prometheus\n", stderr);
		return false;
	}
	return are_apart(s->list.watch > 0 ? "--watch" : NULL, format_options[s->format]) &&
	       are_apart(s->list.listening ? "--listening" : NULL, format_options[s->format]) &&
	       are_apart(devices, format_options[s->format]) && are_apart(devices, filter);
}

int main(int argc, char **argv)
{
	struct settings s = { .format = LIST };
	struct stat_all all;
	int c, status;

	while ((c = getopt_long(argc, argv, "alpiHnthV", options, NULL)) != -1)
		if (!option_take(&s, c, &status))
			return status;
	if (!stat_filter_parse(&s.filter, argc - optind, argv + optind))
		return USAGE;
	if (!options_fit(&s, optind < argc ? argv[optind] : NULL))
		return USAGE;
	fit_terminal(&s.list);
	if (s.list.devices)
		return stat_devices(&s.list);
	if (s.list.watch > 0)
		return stat_watch(&s.list, &s.filter);
	if (!stat_collect(&all, s.list.pid))
		return 1;
	stat_filter_keep(&s.filter, &all);
	status = s.output ? !print_to_file(&all, &s) : (print_all(stdout, &all, &s), 0);
	stat_free(&all);
	if (fflush(stdout) || ferror(stdout)) {
		perror("sockrail-stat");
		status = 1;
	}
	return status;
}
