/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * collect.c - reads the pages of all processes, and makes a list of streams and the sums.
 */
#include "stat/stat.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/order.h"
#include "sockrail.h"

const char *const stat_words[STAT_STATES] = {
	"unconn", "listen", "plain", "asking", "switching",
	"shm", "verbs", "returning", "closing", "broken",
};

enum { IS_counter, IS_gauge };
#define SR_COUNTER(id, name, kind, unit, text) { #name, #unit, text, IS_##kind },
const struct stat_counter stat_counters[SR_COUNTERS] = {
#include "counters.def"
};

#define SR_REASON(id, word, text, remedy) { word, text, remedy },
const struct stat_reason stat_reasons[SR_REASONS] = {
	{ NULL, NULL, NULL },
#include "reasons.def"
};

uint64_t stat_sent(const uint64_t value[SR_COUNTERS])
{
	return value[SR_COUNTER_TX_PLAIN] + value[SR_COUNTER_TX_SHM] +
	       value[SR_COUNTER_TX_VERBS];
}

uint64_t stat_received(const uint64_t value[SR_COUNTERS])
{
	return value[SR_COUNTER_RX_PLAIN] + value[SR_COUNTER_RX_SHM] +
	       value[SR_COUNTER_RX_VERBS];
}

void stat_process_sum(const struct stat_all *all, const struct stat_process *p,
		      uint64_t sum[SR_COUNTERS])
{
	memcpy(sum, p->total, sizeof(p->total));
	for (size_t i = 0; i < all->streams; i++)
		if (all->stream[i].pid == p->pid && !all->stream[i].ended)
			for (int k = 0; k < SR_COUNTERS; k++)
				sum[k] += all->stream[i].value[k];
}

/* Copies text of another process, so that it can do no harm on a terminal or in JSON. */
static void copy_text(char *to, size_t size, const char *from, size_t len)
{
	size_t i;

	for (i = 0; i < len && i < size - 1 && from[i]; i++)
		to[i] = from[i] < ' ' || from[i] > '~' || strchr("\"\\", from[i]) ?
				'?' : from[i];
	to[i] = '\0';
}

/* ---- streams ---- */

static enum stat_state state_of(const struct sr_page_slot *slot, unsigned role)
{
	const struct sr_page_dir *tx = &slot->tx, *rx = &slot->rx;
	const struct sr_page_dir *link = tx->state == SR_STATE_LINK ? tx : rx;

	if (role & SR_PAGE_CLOSING)
		return STAT_CLOSING;
	if (role & SR_PAGE_LISTEN)
		return STAT_LISTEN;
	if (!(role & (SR_PAGE_CONNECT | SR_PAGE_ACCEPT)))
		return STAT_UNCONNECTED;
	if (tx->state == SR_STATE_BROKEN || rx->state == SR_STATE_BROKEN)
		return STAT_BROKEN;
	if (tx->state == SR_STATE_RETURNING)
		return STAT_RETURNING;
	if (link->state == SR_STATE_LINK)
		return link->on == SR_WAY_SHM ? STAT_SHM : STAT_VERBS;
	if (tx->state == SR_STATE_SWITCHING || rx->state == SR_STATE_SWITCHING)
		return STAT_SWITCHING;
	return role & SR_PAGE_ASKING ? STAT_ASKING : STAT_PLAIN;
}

static void ways_fill(uint64_t way[SR_WAYS], const struct sr_page_dir *d)
{
	way[SR_WAY_PLAIN] = sr_load(&d->hot.tcp) + sr_load(&d->hot.plain) + d->base;
	way[SR_WAY_SHM] = d->way[SR_WAY_SHM];
	way[SR_WAY_VERBS] = d->way[SR_WAY_VERBS];
	if (d->on < SR_WAYS)
		way[d->on] += d->hot.link;
}

/* The reason that would be in the report if the stream ended now. */
static enum sr_reason report_reason(const struct stat_stream *s, uint32_t stored)
{
	if (stored && stored < SR_REASONS)
		return (enum sr_reason)stored;
	if (s->state != STAT_PLAIN || s->link[0])
		return SR_REASON_NONE;
	return s->accepted ? SR_REASON_NOT_ASKED : SR_REASON_SHORT;
}

static void stream_fill(struct stat_stream *s, const struct sr_page_slot *slot,
			const struct stat_process *p)
{
	const struct sr_page_dir *tx = &slot->tx, *rx = &slot->rx;
	const char *link = tx->link[0] ? tx->link : rx->link;
	unsigned role = sr_load(&slot->role);

	memset(s, 0, sizeof(*s));
	s->pid = p->pid;
	s->id = sr_load(&slot->id);	/* of a copy */
	s->fd = sr_load(&slot->fd);
	s->connected = role & SR_PAGE_CONNECT;
	s->accepted = role & SR_PAGE_ACCEPT;
	s->ended = role & SR_PAGE_ENDED;
	s->state = state_of(slot, role);
	copy_text(s->link, sizeof(s->link), link, sizeof(tx->link));
	s->qp = tx->qp ? tx->qp : rx->qp;
	s->reason = report_reason(s, sr_load(&slot->reason));
	s->error = sr_load(&slot->error);
	s->opened_ns = sr_load(&slot->opened_ns);
	s->since_ns = tx->since_ns > rx->since_ns ? tx->since_ns : rx->since_ns;
	ways_fill(&s->value[SR_COUNTER_TX_PLAIN], tx);
	ways_fill(&s->value[SR_COUNTER_RX_PLAIN], rx);
	s->value[SR_COUNTER_SWITCHES] = (uint64_t)tx->switches + rx->switches;
	s->value[SR_COUNTER_STALLS] = tx->stalls;
	s->value[SR_COUNTER_FAILOVERS] = tx->failovers;
	s->value[SR_COUNTER_GUESSES] = sr_load(&slot->guesses);
	s->value[SR_COUNTER_TX_UNREAD] = tx->unread;
	s->value[SR_COUNTER_TX_ROOM] = tx->room;
	s->value[SR_COUNTER_TX_RING] = tx->ring;
	s->value[SR_COUNTER_RX_UNREAD] = rx->unread;
	s->value[SR_COUNTER_RX_RING] = rx->ring;
	/* (With SOCKRAIL_UPGRADE=never the library does not note that a socket listens.) */
	if (stat_socket_find(p->pid, s->fd, &s->local, &s->peer) &&
	    s->state == STAT_UNCONNECTED)
		s->state = STAT_LISTEN;
}

/* ---- processes ---- */

void *stat_grow(void *array, size_t n, size_t size)
{
	if (n & (n - 1))
		return array;
	array = realloc(array, (n ? 2 * n : 1) * size);
	if (!array) {
		fputs("sockrail-stat: out of memory\n", stderr);
		exit(1);
	}
	return array;
}

void stat_take_page(struct stat_all *all, struct sr_page *page, pid_t pid)
{
	struct stat_process *p;
	uint32_t i, high = sr_load(&page->high);

	all->process = stat_grow(all->process, all->processes, sizeof(*p));
	p = &all->process[all->processes++];
	memset(p, 0, sizeof(*p));
	p->pid = pid;
	copy_text(p->program, sizeof(p->program), page->program, sizeof(page->program));
	p->start_ns = page->start_ns;
	p->made = sr_load(&page->made);
	/* The acquires pair with sr_stat_end(): a stream that is counted here shows in its slot,
	 * below, that it has ended. */
	p->ended = sr_observe(&page->ended);
	p->linked = sr_observe(&page->linked);
	for (i = 0; i < SR_COUNTERS; i++)
		p->total[i] = sr_observe(&page->total[i]);
	for (i = 0; i < SR_REASONS; i++)
		p->reason[i] = sr_observe(&page->reason[i]);
	for (i = 0; i < high && i < SR_PAGE_SLOTS; i++) {
		struct sr_page_slot slot;

		if (!stat_page_slot(&slot, &page->slot[i]))
			continue;
		all->stream = stat_grow(all->stream, all->streams, sizeof(*all->stream));
		stream_fill(&all->stream[all->streams++], &slot, p);
	}
}

/* Kernel threads and zombies have no memory, and so no command line. */
static bool is_program(pid_t pid)
{
	char path[64], first;
	bool yes;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	f = fopen(path, "re");
	yes = f && fread(&first, 1, 1, f) == 1;
	if (f)
		fclose(f);
	return yes;
}

/* 0, or -errno. */
static int look_at(struct stat_all *all, pid_t pid)
{
	int fd = stat_page_open(pid);
	struct sr_page *page;
	uint32_t version;

	if ((fd == -EACCES || fd == -EPERM) && is_program(pid))
		all->hidden++;
	if (fd < 0)
		return fd;
	page = stat_page_map(fd, pid, &version);
	close(fd);
	if (!page && version) {
		all->foreign++;
		fprintf(stderr, "sockrail-stat: process %d runs another version of Sockrail "
				"(page %u, not %u): not shown\n",
			(int)pid, version, (unsigned)SR_PAGE_VERSION);
	}
	if (!page)
		return -ENOENT;
	stat_take_page(all, page, pid);
	munmap(page, sizeof(*page));
	return 0;
}

static bool look_at_one(struct stat_all *all, pid_t pid)
{
	char path[64];
	int r = look_at(all, pid);

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (r && (access(path, F_OK) || !is_program(pid)))
		r = -ESRCH;
	if (r && !all->foreign)
		fprintf(stderr, "sockrail-stat: process %d: %s\n", (int)pid,
			r == -ENOENT ? "it has no streams, or runs without Sockrail" :
				       strerror(-r));
	return !r;
}

static bool look_at_all(struct stat_all *all)
{
	struct dirent *entry;
	DIR *proc = opendir("/proc");

	if (!proc) {
		perror("sockrail-stat: /proc");
		return false;
	}
	while ((entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]))
			look_at(all, (pid_t)atoi(entry->d_name));
	closedir(proc);
	return true;
}

bool stat_collect(struct stat_all *all, pid_t only)
{
	struct timespec now;
	bool ok;

	memset(all, 0, sizeof(*all));
	ok = only ? look_at_one(all, only) : look_at_all(all);
	stat_socket_forget();
	clock_gettime(CLOCK_MONOTONIC, &now);
	all->now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	/* (The array of processes has stopped growing.) */
	for (size_t i = 0, k = 0; i < all->streams; i++) {
		while (all->process[k].pid != all->stream[i].pid)
			k++;
		all->stream[i].program = all->process[k].program;
	}
	return ok;
}

void stat_free(struct stat_all *all)
{
	free(all->process);
	free(all->stream);
	memset(all, 0, sizeof(*all));
}
