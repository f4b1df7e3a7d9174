/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * list.c - prints streams line by line, as ss(8) does with sockets, once or repeatedly.
 */
#include "base/addr.h"
#include "stat/stat.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *stat_amount(char buf[16], uint64_t n)
{
	static const char units[] = "kMGTPE";
	double d = (double)n;
	int i = -1;

	if (n < 10000) {
		snprintf(buf, 16, "%" PRIu64, n);
		return buf;
	}
	do {
		d /= 1000;
		i++;
	} while (d >= 999.5);
	snprintf(buf, 16, d < 9.995 ? "%.2f%c" : d < 99.95 ? "%.1f%c" : "%.0f%c", d, units[i]);
	return buf;
}

const char *stat_address(char buf[64], const struct sockaddr_storage *a)
{
	uint16_t number = sr_addr_port((const struct sockaddr *)a);
	char host[INET6_ADDRSTRLEN], port[8] = "*";
	size_t len;

	if (a->ss_family == AF_UNSPEC) {
		strcpy(buf, "*:*");
		return buf;
	}
	if (number)
		snprintf(port, sizeof(port), "%u", number);
	inet_ntop(a->ss_family, sr_addr_bytes(a, &len), host, sizeof(host));
	snprintf(buf, 64, a->ss_family == AF_INET ? "%s:%s" : "[%s]:%s", host, port);
	return buf;
}

/* "5s", "12min", "3h", "9d" */
static const char *list_duration(char buf[16], uint64_t from_ns, uint64_t now_ns)
{
	uint64_t s = now_ns > from_ns ? (now_ns - from_ns) / 1000000000u : 0;

	if (s < 120)
		snprintf(buf, 16, "%us", (unsigned)s);
	else if (s < 7200)
		snprintf(buf, 16, "%umin", (unsigned)(s / 60));
	else if (s < 172800)
		snprintf(buf, 16, "%uh", (unsigned)(s / 3600));
	else
		snprintf(buf, 16, "%ud", (unsigned)(s / 86400));
	return buf;
}

static bool is_shown(const struct stat_stream *s, const struct stat_options *o)
{
	bool idle = s->state == STAT_LISTEN || s->state == STAT_UNCONNECTED;

	return o->all || (o->listening ? s->state == STAT_LISTEN : !idle);
}

static void list_header(const struct stat_options *o)
{
	const char *per = o->watch > 0 ? "/s" : "";

	if (!o->no_header)
		printf("%-9s %4s%-2s %4s%-2s %-21s %-21s %s\n", "State", "Send", per, "Recv",
		       per, "Local Address:Port", "Peer Address:Port", "Link,Reason");
}

/* The stream's link, and the reason why it is not in use. */
static const char *list_why(char buf[128], const struct stat_stream *s)
{
	const char *word = stat_reasons[s->reason].word;

	snprintf(buf, 128, "%s%s%s", s->link, s->link[0] && word ? "," : "",
		 word ? word : s->link[0] ? "" : "-");
	return buf;
}

static void list_users(const struct stat_stream *s)
{
	printf(" users:((\"%s\",pid=%d,fd=%d))", s->program, (int)s->pid, s->fd);
}

static void list_share(const char *what, const uint64_t way[SR_WAYS])
{
	char buf[SR_WAYS][16];

	printf(" %s:%s/%s/%s", what, stat_amount(buf[0], way[0]), stat_amount(buf[1], way[1]),
	       stat_amount(buf[2], way[2]));
}

/* Prints all counters, in lines of at most 80 columns. */
static void list_info(const struct stat_stream *s, uint64_t now_ns)
{
	char a[16], b[16];

	printf("\t");
	list_share("tcp/shm/verbs sent", &s->value[SR_COUNTER_TX_PLAIN]);
	list_share("received", &s->value[SR_COUNTER_RX_PLAIN]);
	printf("\n\t opened:%s since:%s", list_duration(a, s->opened_ns, now_ns),
	       list_duration(b, s->since_ns, now_ns));
	for (int i = SR_COUNTER_SWITCHES; i < SR_COUNTERS; i++)
		printf("%s %s:%s",
		       i == SR_COUNTER_TX_UNREAD || i == SR_COUNTER_RX_UNREAD ? "\n\t" : "",
		       stat_counters[i].name, stat_amount(a, s->value[i]));
	if (s->qp)
		printf(" qp:%u", (unsigned)s->qp);
	if (s->error)
		printf(" error:%s", strerrorname_np(s->error) ?: "?");
	printf("\n");
}

static int lines_of(const struct stat_options *o)
{
	return 1 + (o->processes && o->width && o->width < 120) + 4 * o->info;
}

static void list_one(const struct stat_stream *s, const struct stat_options *o, uint64_t now_ns)
{
	char sent[16], received[16], local[64], peer[64], reason[128];
	bool rate = o->watch > 0;

	printf("%-9s %6s %6s %-21s %-21s %s", stat_words[s->state],
	       stat_amount(sent, rate ? s->tx_rate : stat_sent(s->value)),
	       stat_amount(received, rate ? s->rx_rate : stat_received(s->value)),
	       stat_address(local, &s->local), stat_address(peer, &s->peer),
	       list_why(reason, s));
	if (o->processes) {
		if (o->width && o->width < 120)
			printf("\n\t");
		list_users(s);
	}
	printf("\n");
	if (o->info)
		list_info(s, now_ns);
}

static int compare_streams(const void *x, const void *y)
{
	const struct stat_stream *a = x, *b = y;
	uint64_t rate_a = a->tx_rate + a->rx_rate, rate_b = b->tx_rate + b->rx_rate;

	if (rate_a != rate_b)
		return rate_a < rate_b ? 1 : -1;
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

void stat_list(const struct stat_all *all, const struct stat_options *o)
{
	int left = o->lines ? o->lines - 2 : 0;

	list_header(o);
	if (all->streams)
		qsort(all->stream, all->streams, sizeof(*all->stream), compare_streams);
	for (size_t i = 0; i < all->streams; i++) {
		if (!is_shown(&all->stream[i], o))
			continue;
		if (o->watch > 0 && o->lines && (left -= lines_of(o)) < 0)
			break;
		list_one(&all->stream[i], o, all->now_ns);
	}
}

/* ---- watching ---- */

static uint64_t rate_of(uint64_t now, uint64_t before, double seconds)
{
	double r = now > before ? (double)(now - before) / seconds : 0;

	return r < 0x1p64 ? (uint64_t)r : UINT64_MAX;
}

void stat_rates(struct stat_all *all, const struct stat_all *old, double seconds)
{
	for (size_t i = 0; i < all->streams; i++) {
		struct stat_stream *s = &all->stream[i];

		for (size_t k = 0; k < old->streams; k++) {
			const struct stat_stream *was = &old->stream[k];

			if (was->pid != s->pid || was->id != s->id)
				continue;
			s->tx_rate = rate_of(stat_sent(s->value), stat_sent(was->value), seconds);
			s->rx_rate = rate_of(stat_received(s->value), stat_received(was->value),
					     seconds);
			break;
		}
	}
}

void stat_pause(double seconds)
{
	struct timespec t = { .tv_sec = (time_t)seconds };

	t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

int stat_watch(const struct stat_options *o, const struct stat_filter *f)
{
	struct stat_all old, all;

	if (!stat_collect(&old, o->pid))
		return 1;
	for (;;) {
		stat_pause(o->watch);
		if (!stat_collect(&all, o->pid))
			return 1;
		stat_filter_keep(f, &all);
		stat_rates(&all, &old, (double)(all.now_ns - old.now_ns) / 1e9);
		if (o->width)
			printf("\033[H\033[2J");
		stat_list(&all, o);
		if (!o->width)
			printf("\n");
		if (fflush(stdout))
			return 1;
		stat_free(&old);
		old = all;
	}
}
