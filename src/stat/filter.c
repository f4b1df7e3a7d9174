/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * filter.c - selects streams by the words of ss(8).  All terms must hold.
 */
#include "stat/stat.h"

#include <string.h>
#include <strings.h>

static bool filter_bad(const char *word, const char *why)
{
	fprintf(stderr, "sockrail-stat: filter: %s: %s\n", word ? word : "end", why);
	return false;
}

/* PORT or :PORT */
static bool parse_port(struct sr_net *net, const char *word)
{
	char text[16];

	snprintf(text, sizeof(text), ":%s", word + (*word == ':'));
	return sr_net_parse(text, net);
}

static bool parse_state(struct stat_term *t, const char *word)
{
	for (t->state = 0; t->state < STAT_STATES; t->state++)
		if (!strcasecmp(word, stat_words[t->state]))
			return true;
	return false;
}

static bool is_equals_word(const char *word)
{
	return !strcmp(word, "=") || !strcmp(word, "==") || !strcmp(word, "eq");
}

static bool is_other(const char *word)
{
	return !strcmp(word, "!=") || !strcmp(word, "ne") || !strcmp(word, "neq");
}

bool stat_filter_parse(struct stat_filter *f, int words, char **word)
{
	char **end = word + words;

	f->terms = 0;
	while (word < end) {
		struct stat_term *t = &f->term[f->terms];
		const char *what = *word++;
		bool port = !strcmp(what, "sport") || !strcmp(what, "dport");

		if (!strcmp(what, "and"))
			continue;
		if (f->terms == (int)(sizeof(f->term) / sizeof(f->term[0])))
			return filter_bad(what, "too many terms");
		memset(t, 0, sizeof(*t));
		if (!strcmp(what, "src") || !strcmp(what, "sport"))
			t->what = TERM_SRC;
		else if (!strcmp(what, "dst") || !strcmp(what, "dport"))
			t->what = TERM_DST;
		else if (!strcmp(what, "state"))
			t->what = TERM_STATE;
		else
			return filter_bad(what, "not src, dst, sport, dport, state or and");
		if (word < end && (is_equals_word(*word) || is_other(*word)))
			t->not = is_other(*word++);
		if (word == end)
			return filter_bad(what, "nothing follows");
		if (t->what == TERM_STATE ? !parse_state(t, *word) :
		    port ? !parse_port(&t->net, *word) : !sr_net_parse(*word, &t->net))
			return filter_bad(*word, t->what == TERM_STATE ? "no such state" :
						 port ? "no port (a number, :80)" :
							"no address (10.0.0.1:80, [::1]:80)");
		word++;
		f->terms++;
	}
	return true;
}

/* If an address is not known, its port is not known either. */
static bool matches(const struct sr_net *net, const struct sockaddr_storage *a)
{
	return (a->ss_family != AF_UNSPEC || net->port_last == UINT16_MAX) &&
	       sr_net_has(net, a);
}

static bool has(const struct stat_filter *f, const struct stat_stream *s)
{
	for (int i = 0; i < f->terms; i++) {
		const struct stat_term *t = &f->term[i];
		bool yes = t->what == TERM_STATE ? s->state == t->state :
			   matches(&t->net, t->what == TERM_SRC ? &s->local : &s->peer);

		if (yes == t->not)
			return false;
	}
	return true;
}

void stat_filter_keep(const struct stat_filter *f, struct stat_all *all)
{
	size_t n = 0;

	for (size_t i = 0; i < all->streams; i++)
		if (has(f, &all->stream[i]))
			all->stream[n++] = all->stream[i];
	all->streams = n;
}
