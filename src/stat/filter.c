/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * filter.c - which streams are meant, in words of ss(8).  All terms must hold.
 */
#include "stat/stat.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool bad(const char *word, const char *why)
{
	fprintf(stderr, "sockrail-stat: filter: %s: %s\n", word ? word : "end", why);
	return false;
}

static bool parse_port(struct stat_term *t, const char *text)
{
	char *end;
	long port;

	t->port = -1;
	if (!strcmp(text, "*") || !*text)
		return true;
	port = strtol(text, &end, 10);
	t->port = (int)port;
	return !*end && port >= 0 && port <= 65535;
}

/* "1.2.3.4", "1.2.3.0/24", "[::1]", "::1", "*" */
static bool parse_host(struct stat_term *t, char *text)
{
	size_t len = strlen(text);
	char *slash, *end;

	if (len && text[0] == '[' && text[len - 1] == ']') {
		text[len - 1] = '\0';
		text++;
	}
	t->family = AF_UNSPEC;
	if (!*text || !strcmp(text, "*"))
		return true;
	slash = strchr(text, '/');
	if (slash)
		*slash = '\0';
	if (inet_pton(AF_INET, text, t->addr) == 1)
		t->family = AF_INET;
	else if (inet_pton(AF_INET6, text, t->addr) == 1)
		t->family = AF_INET6;
	else
		return false;
	t->bits = t->family == AF_INET ? 32 : 128;
	if (slash) {
		long bits = strtol(slash + 1, &end, 10);

		if (*end || end == slash + 1 || bits < 0 || bits > t->bits)
			return false;
		t->bits = (int)bits;
	}
	return true;
}

/* ADDR, ADDR:PORT or :PORT; a port behind an IPv6 address needs brackets. */
static bool parse_address(struct stat_term *t, const char *word)
{
	char text[80], *colon;

	if (strlen(word) >= sizeof(text))
		return false;
	strcpy(text, word);
	t->port = -1;
	colon = strrchr(text, ':');
	if (colon && colon != strchr(text, ':') && colon[-1] != ']')
		colon = NULL;
	if (colon) {
		*colon = '\0';
		if (!parse_port(t, colon + 1))
			return false;
	}
	return parse_host(t, text);
}

static bool parse_state(struct stat_term *t, const char *word)
{
	for (t->state = 0; t->state < STAT_STATES; t->state++)
		if (!strcasecmp(word, stat_words[t->state]))
			return true;
	return false;
}

static bool is_equal(const char *word)
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
			return bad(what, "too many terms");
		memset(t, 0, sizeof(*t));
		if (!strcmp(what, "src") || !strcmp(what, "sport"))
			t->what = TERM_SRC;
		else if (!strcmp(what, "dst") || !strcmp(what, "dport"))
			t->what = TERM_DST;
		else if (!strcmp(what, "state"))
			t->what = TERM_STATE;
		else
			return bad(what, "not src, dst, sport, dport, state or and");
		if (word < end && (is_equal(*word) || is_other(*word)))
			t->not = is_other(*word++);
		if (word == end)
			return bad(what, "nothing follows");
		if (t->what == TERM_STATE ? !parse_state(t, *word) :
		    port ? !parse_port(t, *word + (**word == ':')) :
			   !parse_address(t, *word))
			return bad(*word, t->what == TERM_STATE ? "no such state" :
					  port ? "no port (a number, :80)" :
						 "no address (10.0.0.1:80, [::1]:80)");
		word++;
		f->terms++;
	}
	return true;
}

static bool matches(const struct stat_term *t, const struct sockaddr_storage *a)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)a;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)a;
	const uint8_t *bytes = a->ss_family == AF_INET ? (const uint8_t *)&in->sin_addr :
							 in6->sin6_addr.s6_addr;
	int whole = t->bits / 8, rest = t->bits % 8;

	/* The port is at the same place in both. */
	if (t->port >= 0 && (a->ss_family == AF_UNSPEC || ntohs(in->sin_port) != t->port))
		return false;
	if (t->family == AF_UNSPEC)
		return true;
	if (t->family != a->ss_family || memcmp(bytes, t->addr, (size_t)whole))
		return false;
	return !rest || !((bytes[whole] ^ t->addr[whole]) >> (8 - rest));
}

bool stat_filter_has(const struct stat_filter *f, const struct stat_stream *s)
{
	for (int i = 0; i < f->terms; i++) {
		const struct stat_term *t = &f->term[i];
		bool yes = t->what == TERM_STATE ? s->state == t->state :
			   matches(t, t->what == TERM_SRC ? &s->local : &s->peer);

		if (yes == t->not)
			return false;
	}
	return true;
}
