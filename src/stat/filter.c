/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * filter.c - selects streams by the words of ss(8).  All terms must hold.
 */
#include "stat/stat.h"

#include <stdlib.h>
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

/* Queue pairs have numbers of 24 bits.  Those of two devices may have the same one: the list shows
 * the device, too. */
static bool parse_qp(struct stat_term *t, const char *word)
{
	char *end;
	unsigned long n = strtoul(word, &end, 10);

	t->qp = (uint32_t)n;
	return *word >= '0' && *word <= '9' && !*end && n < 1ul << 24;
}

static bool is_equals_word(const char *word)
{
	return !strcmp(word, "=") || !strcmp(word, "==") || !strcmp(word, "eq");
}

static bool is_other(const char *word)
{
	return !strcmp(word, "!=") || !strcmp(word, "ne") || !strcmp(word, "neq");
}

/* What a term begins with. */
static const struct term_word {
	const char *word;
	enum term_what what;
	bool port;
} term_words[] = {
	{"src", TERM_SRC, false},
	{"sport", TERM_SRC, true},
	{"dst", TERM_DST, false},
	{"dport", TERM_DST, true},
	{"state", TERM_STATE, false},
	{"qp", TERM_QP, false},
};

static const struct term_word *find_term(const char *word)
{
	for (size_t i = 0; i < sizeof(term_words) / sizeof(term_words[0]); i++)
		if (!strcmp(word, term_words[i].word))
			return &term_words[i];
	return NULL;
}

static bool parse_term(struct stat_term *t, const struct term_word *kind, const char *word)
{
	t->what = kind->what;
	if (t->what == TERM_STATE)
		return parse_state(t, word) || filter_bad(word, "no such state");
	if (t->what == TERM_QP)
		return parse_qp(t, word) || filter_bad(word, "no number of a queue pair");
	if (kind->port)
		return parse_port(&t->net, word) || filter_bad(word, "no port (a number, :80)");
	return sr_net_parse(word, &t->net) ||
	       filter_bad(word, "no address (10.0.0.1:80, [::1]:80)");
}

bool stat_filter_parse(struct stat_filter *f, int words, char **word)
{
	char **end = word + words;

	f->terms = 0;
	while (word < end) {
		struct stat_term *t = &f->term[f->terms];
		const char *what = *word++;
		const struct term_word *kind = find_term(what);

		if (!strcmp(what, "and"))
			continue;
		if (f->terms == (int)(sizeof(f->term) / sizeof(f->term[0])))
			return filter_bad(what, "too many terms");
		if (!kind)
			return filter_bad(what, "not src, dst, sport, dport, state, qp or and");
		memset(t, 0, sizeof(*t));
		if (word < end && (is_equals_word(*word) || is_other(*word)))
			t->not = is_other(*word++);
		if (word == end)
			return filter_bad(what, "nothing follows");
		if (!parse_term(t, kind, *word++))
			return false;
		f->terms++;
	}
	return true;
}

/* If an address is not known, its port is not known either. */
static bool address_matches(const struct sr_net *net, const struct sockaddr_storage *a)
{
	return (a->ss_family != AF_UNSPEC || net->port_last == UINT16_MAX) &&
	       sr_net_has(net, a);
}

static bool term_has(const struct stat_term *t, const struct stat_stream *s)
{
	switch (t->what) {
	case TERM_STATE: return s->state == t->state;
	case TERM_QP: return s->qp == t->qp;
	case TERM_SRC: return address_matches(&t->net, &s->local);
	default: return address_matches(&t->net, &s->peer);
	}
}

static bool filter_has(const struct stat_filter *f, const struct stat_stream *s)
{
	for (int i = 0; i < f->terms; i++)
		if (term_has(&f->term[i], s) == f->term[i].not)
			return false;
	return true;
}

void stat_filter_keep(const struct stat_filter *f, struct stat_all *all)
{
	size_t n = 0;

	for (size_t i = 0; i < all->streams; i++)
		if (filter_has(f, &all->stream[i]))
			all->stream[n++] = all->stream[i];
	all->streams = n;
}
