/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * summary.c - one screen: how many bytes went which way, and what to do about plain streams.
 */
#include "base/wrap.h"
#include "stat/stat.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Limited to 100, because a sum of numbers from pages that are not trusted may overflow. */
static int summary_percent(uint64_t part, uint64_t whole)
{
	double p = whole ? (double)part * 100 / (double)whole + 0.5 : 0;

	return p < 101 ? (int)p : 100;
}

static void summary_way(const char *name, uint64_t sent, uint64_t received, uint64_t whole)
{
	char tx[16], rx[16];

	printf("  %-14s %8s %8s %4d%%\n", name, stat_amount(tx, sent),
	       stat_amount(rx, received), summary_percent(sent + received, whole));
}

static void summary_bytes(const uint64_t sum[SR_COUNTERS])
{
	uint64_t whole = stat_sent(sum) + stat_received(sum);

	printf("\n  %-14s %8s %8s %5s\n", "Bytes by", "sent", "received", "share");
	summary_way("TCP", sum[SR_COUNTER_TX_PLAIN], sum[SR_COUNTER_RX_PLAIN], whole);
	summary_way("shared memory", sum[SR_COUNTER_TX_SHM], sum[SR_COUNTER_RX_SHM], whole);
	summary_way("RDMA", sum[SR_COUNTER_TX_VERBS], sum[SR_COUNTER_RX_VERBS], whole);
}

static uint64_t ranked[SR_REASONS];

static int compare_ranks(const void *x, const void *y)
{
	uint64_t a = ranked[*(const int *)x], b = ranked[*(const int *)y];

	return (a < b) - (a > b);
}

#define INDENT 10

static void summary_reasons(const struct stat_all *all)
{
	int index[SR_REASONS], i;

	memset(ranked, 0, sizeof(ranked));
	for (size_t k = 0; k < all->processes; k++)
		for (i = 1; i < SR_REASONS; i++)
			ranked[i] += all->process[k].reason[i];
	for (size_t k = 0; k < all->streams; k++)
		if (!all->stream[k].ended && all->stream[k].state > STAT_LISTEN)
			ranked[all->stream[k].reason]++;
	for (i = 0; i < SR_REASONS; i++)
		index[i] = i;
	ranked[0] = 0;
	qsort(index, SR_REASONS, sizeof(index[0]), compare_ranks);
	if (!ranked[index[0]])
		return;
	printf("\n  Streams stayed or became plain because\n");
	for (i = 0; i < SR_REASONS && ranked[index[i]]; i++) {
		const struct stat_reason *r = &stat_reasons[index[i]];

		sr_wrap(r->text, printf("  %6" PRIu64 "  %s:", ranked[index[i]], r->word), INDENT);
		sr_wrap(r->remedy, printf("%*sTo do:", INDENT, ""), INDENT);
	}
}

/* Do both use the same queue pair?  Each device numbers its own, so that two devices may have the
 * same number; the link's name has that of the device. */
static bool is_same_pair(const struct stat_stream *a, const struct stat_stream *b)
{
	return a->qp == b->qp && a->pid == b->pid && !strcmp(a->link, b->link);
}

/* Shows how many queue pairs the streams use that are on RDMA now. */
static void summary_queue_pairs(const struct stat_all *all)
{
	size_t pairs = 0, streams = 0, k;

	for (size_t i = 0; i < all->streams; i++) {
		const struct stat_stream *s = &all->stream[i];

		if (!s->qp)
			continue;
		for (k = 0; k < i; k++)
			if (is_same_pair(&all->stream[k], s))
				break;
		streams++;
		pairs += k == i;
	}
	if (pairs)
		printf("\n  %zu queue pair%s with %zu stream%s\n", pairs, pairs == 1 ? "" : "s",
		       streams, streams == 1 ? "" : "s");
}

void stat_summary(const struct stat_all *all)
{
	uint64_t sum[SR_COUNTERS] = { 0 }, of[SR_COUNTERS], made = 0, ended = 0, linked = 0;
	size_t states[STAT_STATES] = { 0 };

	for (size_t i = 0; i < all->processes; i++) {
		stat_process_sum(all, &all->process[i], of);
		for (int k = 0; k < SR_COUNTERS; k++)
			sum[k] += of[k];
		made += all->process[i].made;
		ended += all->process[i].ended;
		linked += all->process[i].linked;
	}
	for (size_t i = 0; i < all->streams; i++)
		states[all->stream[i].state]++;
	printf("%zu process%s, %" PRIu64 " sockets made\n\n  Now   ",
	       all->processes, all->processes == 1 ? "" : "es", made);
	for (int i = 0; i < STAT_STATES; i++)
		if (states[i])
			printf(" %zu %s", states[i], stat_words[i]);
	printf("\n  Ended  %" PRIu64 " streams, %" PRIu64 " of which had a link\n", ended,
	       linked);
	summary_queue_pairs(all);
	summary_bytes(sum);
	printf("\n  %" PRIu64 " switches, %" PRIu64 " failovers, %" PRIu64 " stalls\n",
	       sum[SR_COUNTER_SWITCHES], sum[SR_COUNTER_FAILOVERS], sum[SR_COUNTER_STALLS]);
	summary_reasons(all);
}
