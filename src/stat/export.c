/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * export.c - output for programs: JSON, and metrics in the text format of OpenMetrics 1.0 or
 * the older one of Prometheus, which node_exporter reads.  One difference between the two is
 * whether the name of a counter's family ends in _total.
 *
 * A metric has a series for each process, not for each stream, because a label with a port
 * would make a new series for every connection.  When a process ends, its series ends; so no
 * counter has to go down.
 */
#include "stat/stat.h"

#include <inttypes.h>
#include <string.h>

/* ---- JSON ---- */

static void json_word(FILE *to, const char *key, const char *word)
{
	if (word)
		fprintf(to, ",\"%s\":\"%s\"", key, word);
	else
		fprintf(to, ",\"%s\":null", key);
}

static void json_values(FILE *to, const uint64_t value[SR_COUNTERS], bool gauges)
{
	for (int i = 0; i < SR_COUNTERS; i++)
		if (gauges || !stat_counters[i].gauge)
			fprintf(to, ",\"%s\":%" PRIu64, stat_counters[i].name, value[i]);
}

static double seconds_since(uint64_t from_ns, uint64_t now_ns)
{
	return now_ns > from_ns ? (double)(now_ns - from_ns) / 1e9 : 0;
}

static void json_stream(FILE *to, const struct stat_all *all, const struct stat_stream *s)
{
	char local[64], peer[64];

	fprintf(to, "{\"program\":\"%s\",\"pid\":%d,\"id\":%" PRIu64 ",\"fd\":%d", s->program,
		(int)s->pid, s->id, s->fd);
	json_word(to, "role", s->state == STAT_LISTEN ? "listen" :
			      s->connected ? "connect" : s->accepted ? "accept" : NULL);
	json_word(to, "state", stat_words[s->state]);
	json_word(to, "local", s->local.ss_family ? stat_address(local, &s->local) : NULL);
	json_word(to, "peer", s->peer.ss_family ? stat_address(peer, &s->peer) : NULL);
	json_word(to, "link", s->link[0] ? s->link : "plain");
	if (s->qp)
		fprintf(to, ",\"qp\":%u", (unsigned)s->qp);
	else
		json_word(to, "qp", NULL);
	json_values(to, s->value, true);
	json_word(to, "reason", stat_reasons[s->reason].word);
	json_word(to, "error", s->error ? strerrorname_np(s->error) : NULL);
	fprintf(to, ",\"age\":%.3f,\"since\":%.3f}", seconds_since(s->opened_ns, all->now_ns),
		seconds_since(s->since_ns, all->now_ns));
}

static void json_process(FILE *to, const struct stat_process *p)
{
	const char *comma = "";

	fprintf(to, "{\"program\":\"%s\",\"pid\":%d,\"start\":%.3f,\"made\":%" PRIu64
		    ",\"ended\":%" PRIu64 ",\"ended_linked\":%" PRIu64,
		p->program, (int)p->pid, (double)p->start_ns / 1e9, p->made, p->ended,
		p->linked);
	json_values(to, p->total, false);
	fprintf(to, ",\"reasons\":{");
	for (int i = 1; i < SR_REASONS; i++) {
		if (!p->reason[i])
			continue;
		fprintf(to, "%s\"%s\":%" PRIu64, comma, stat_reasons[i].word, p->reason[i]);
		comma = ",";
	}
	fprintf(to, "}}");
}

void stat_json(FILE *to, const struct stat_all *all)
{
	fprintf(to, "{\"version\":%d,\"hidden\":%u,\"other_version\":%u,\n\"processes\":[",
		SR_PAGE_VERSION, all->hidden, all->foreign);
	for (size_t i = 0; i < all->processes; i++) {
		fputs(i ? ",\n" : "\n", to);
		json_process(to, &all->process[i]);
	}
	fprintf(to, "],\n\"streams\":[");
	for (size_t i = 0; i < all->streams; i++) {
		fputs(i ? ",\n" : "\n", to);
		json_stream(to, all, &all->stream[i]);
	}
	fprintf(to, "]}\n");
}

/* ---- metrics ---- */

static bool older;

static void print_family(FILE *to, const char *name, const char *type, const char *unit,
			 const char *help)
{
	const char *suffix = older && *type == 'c' ? "_total" : "";

	fprintf(to, "# TYPE %s%s %s\n", name, suffix, type);
	if (unit && !older)
		fprintf(to, "# UNIT %s %s\n", name, unit);
	fprintf(to, "# HELP %s%s %s\n", name, suffix, help);
}

static void print_series(FILE *to, const char *name, const char *suffix,
			 const struct stat_process *p)
{
	fprintf(to, "%s%s{program=\"%s\",pid=\"%d\"", name, suffix, p->program, (int)p->pid);
}

static void metric_counter(FILE *to, const struct stat_all *all, int i)
{
	const struct stat_counter *c = &stat_counters[i];
	const char *unit = strcmp(c->unit, c->name) ? c->unit : NULL;
	uint64_t sum[SR_COUNTERS];
	char name[64];

	snprintf(name, sizeof(name), "sockrail_%s%s%s", c->name, unit ? "_" : "",
		 unit ?: "");
	print_family(to, name, c->gauge ? "gauge" : "counter", c->unit, c->text);
	for (size_t k = 0; k < all->processes; k++) {
		stat_process_sum(all, &all->process[k], sum);
		print_series(to, name, c->gauge ? "" : "_total", &all->process[k]);
		fprintf(to, "} %" PRIu64 "\n", sum[i]);
	}
}

static void metric_states(FILE *to, const struct stat_all *all)
{
	print_family(to, "sockrail_streams", "gauge", NULL, "streams in each state");
	for (size_t k = 0; k < all->processes; k++) {
		unsigned n[STAT_STATES] = { 0 };

		for (size_t i = 0; i < all->streams; i++)
			n[all->stream[i].state] += all->stream[i].pid == all->process[k].pid;
		for (int i = 0; i < STAT_STATES; i++) {
			print_series(to, "sockrail_streams", "", &all->process[k]);
			fprintf(to, ",state=\"%s\"} %u\n", stat_words[i], n[i]);
		}
	}
}

static void metric_ended(FILE *to, const struct stat_all *all)
{
	print_family(to, "sockrail_ended_streams", "counter", NULL,
		     "streams that have ended, by whether they had a link");
	for (size_t k = 0; k < all->processes; k++) {
		const struct stat_process *p = &all->process[k];

		print_series(to, "sockrail_ended_streams", "_total", p);
		fprintf(to, ",linked=\"yes\"} %" PRIu64 "\n", p->linked);
		print_series(to, "sockrail_ended_streams", "_total", p);
		fprintf(to, ",linked=\"no\"} %" PRIu64 "\n",
			p->ended > p->linked ? p->ended - p->linked : 0);
	}
}

static void metric_reasons(FILE *to, const struct stat_all *all)
{
	print_family(to, "sockrail_reasons", "counter", NULL,
		     "streams that have ended, by the reason why they stayed or became plain");
	for (size_t k = 0; k < all->processes; k++)
		for (int i = 1; i < SR_REASONS; i++) {
			if (!all->process[k].reason[i])
				continue;
			print_series(to, "sockrail_reasons", "_total", &all->process[k]);
			fprintf(to, ",reason=\"%s\"} %" PRIu64 "\n", stat_reasons[i].word,
				all->process[k].reason[i]);
		}
}

void stat_metrics(FILE *to, const struct stat_all *all, bool prometheus)
{
	older = prometheus;
	for (int i = 0; i < SR_COUNTERS; i++)
		metric_counter(to, all, i);
	metric_states(to, all);
	metric_ended(to, all);
	metric_reasons(to, all);
	print_family(to, "sockrail_hidden_processes", "gauge", NULL,
		     "processes that could not be looked at, of whatever program");
	fprintf(to, "sockrail_hidden_processes %u\n", all->hidden);
	if (!older)
		fputs("# EOF\n", to);
}
