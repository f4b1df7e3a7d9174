/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * report.c - the JSON lines of SOCKRAIL_REPORT.  Keeps nothing: the file is
 * opened for each line, so there is no descriptor to lose.  No locks.
 */
#include "base/real.h" /* before any system header */
#include "base/report.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/log.h"

/* A line with a program name, a link and two addresses, each byte of which may
 * take six ("\u0001"). */
#define LINE_SIZE 2560
#define PROGRAM_MAX 128

#define SR_REASON(id, word, text) word,
static const char *const words[] = {
	NULL,
#include "reasons.def"
};
#undef SR_REASON

const char *sr_reason_word(enum sr_reason r)
{
	return (unsigned)r < SR_REASONS ? words[r] : NULL;
}

enum sr_reason sr_reason_find(const char *word)
{
	for (int r = SR_REASON_NONE + 1; word && r < SR_REASONS; r++)
		if (!strcmp(words[r], word))
			return (enum sr_reason)r;
	return SR_REASON_NONE;
}

/* ---- addresses; inet_ntop() may use stdio ---- */

/* The longest run of at least two zero groups, which "::" stands for (RFC
 * 5952); *len 0: none. */
static int zero_run(const uint16_t group[8], int *len)
{
	int best = 0;

	*len = 0;
	for (int i = 0; i < 8; i++) {
		int n = 0;

		while (i + n < 8 && !group[i + n])
			n++;
		if (n >= 2 && n > *len) {
			best = i;
			*len = n;
		}
		i += n;
	}
	return best;
}

static void format_v6(char out[INET6_ADDRSTRLEN], const uint8_t a[16])
{
	uint16_t group[8];
	int run, len, n = 0;

	for (int i = 0; i < 8; i++)
		group[i] = (uint16_t)(a[2 * i] << 8 | a[2 * i + 1]);
	run = zero_run(group, &len);
	out[0] = '\0';
	for (int i = 0; i < 8; i++) {
		if (len && i == run) {
			n += sr_format(out + n, INET6_ADDRSTRLEN - (size_t)n,
				       "::");
			i += len - 1;
			continue;
		}
		n += sr_format(out + n, INET6_ADDRSTRLEN - (size_t)n, "%s%x",
			       n && out[n - 1] != ':' ? ":" : "", group[i]);
	}
}

static int format_v4(char *buf, size_t size, const uint8_t a[4], in_port_t port)
{
	return sr_format(buf, size, "%u.%u.%u.%u:%u", a[0], a[1], a[2], a[3],
			 ntohs(port));
}

int sr_addr_format(char *buf, size_t size, const struct sockaddr_storage *a)
{
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;
	char text[INET6_ADDRSTRLEN], scope[12] = "";

	if (a->ss_family == AF_INET)
		return format_v4(buf, size, (const uint8_t *)&v4->sin_addr,
				 v4->sin_port);
	if (a->ss_family != AF_INET6)
		return sr_format(buf, size, "%s", "");
	if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		return format_v4(buf, size, v6->sin6_addr.s6_addr + 12,
				 v6->sin6_port);
	format_v6(text, v6->sin6_addr.s6_addr);
	if (v6->sin6_scope_id)
		sr_format(scope, sizeof(scope), "%%%u", v6->sin6_scope_id);
	return sr_format(buf, size, "[%s%s]:%u", text, scope,
			 ntohs(v6->sin6_port));
}

/* ---- JSON ---- */

struct line {
	char buf[LINE_SIZE];
	size_t len;
};

static void add(struct line *l, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void add(struct line *l, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	l->len += (size_t)sr_vformat(l->buf + l->len, sizeof(l->buf) - l->len,
				     fmt, args);
	va_end(args);
}

/* The length of the valid UTF-8 character at s, 0 if there is none (RFC 3629:
 * no surrogates, nothing longer than needed, nothing beyond U+10FFFF). */
static size_t utf8_length(const unsigned char *s)
{
	unsigned low = 0x80, high = 0xbf;
	size_t n;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		n = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		n = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4;
	else
		return 0;
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	for (size_t i = 1; i < n; i++, low = 0x80, high = 0xbf)
		if (s[i] < low || s[i] > high)
			return 0;
	return n;
}

/* At most max bytes of text, or null. */
static void add_string(struct line *l, const char *text, size_t max)
{
	const unsigned char *s = (const unsigned char *)text, *end;

	if (!text) {
		add(l, "null");
		return;
	}
	end = s + strnlen(text, max);
	add(l, "\"");
	while (s < end) {
		size_t n = utf8_length(s);

		if (n > (size_t)(end - s))
			break;
		if (n == 0)
			add(l, "\\ufffd");
		else if (*s < ' ' || *s == 0x7f)
			add(l, "\\u%04x", *s);
		else if (*s == '"' || *s == '\\')
			add(l, "\\%c", *s);
		else
			add(l, "%.*s", (int)n, (const char *)s);
		s += n ? n : 1;
	}
	add(l, "\"");
}

static void add_address(struct line *l, const char *key,
			const struct sockaddr_storage *a)
{
	char text[80];

	sr_addr_format(text, sizeof(text), a);
	add(l, ",\"%s\":\"%s\"", key, text);
}

static void add_ways(struct line *l, const char *side,
		     const uint64_t bytes[SR_WAYS])
{
	static const char *const ways[] = {
		[SR_WAY_PLAIN] = "plain", [SR_WAY_SHM] = "shm",
		[SR_WAY_VERBS] = "verbs",
	};

	for (int i = 0; i < SR_WAYS; i++)
		add(l, ",\"%s_%s\":%llu", side, ways[i],
		    (unsigned long long)bytes[i]);
}

static void append(const struct line *l)
{
	ssize_t n = -1;
	int fd;

	fd = sr_real.open(sr_conf.report,
			  O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY,
			  0666);
	if (fd >= 0) {
		n = sr_real.write(fd, l->buf, l->len);
		if (n >= 0)
			errno = 0;
		sr_real.close(fd);
	}
	if (n != (ssize_t)l->len)
		sr_warn("cannot write the report to %s: %m", sr_conf.report);
}

void sr_report_write(const struct sr_report *r)
{
	struct line l = {.len = 0};
	int err = errno;

	if (!sr_conf.report[0])
		return;
	add(&l, "{\"program\":");
	add_string(&l, program_invocation_short_name, PROGRAM_MAX);
	add(&l, ",\"pid\":%d,\"role\":\"%s\"", (int)getpid(),
	    r->connected ? "connect" : "accept");
	add_address(&l, "local", &r->local);
	add_address(&l, "peer", &r->peer);
	add(&l, ",\"link\":");
	add_string(&l, r->link, sizeof(r->link));
	add_ways(&l, "tx", r->tx);
	add_ways(&l, "rx", r->rx);
	add(&l, ",\"switches\":%u,\"reason\":", r->switches);
	add_string(&l, sr_reason_word(r->reason), SIZE_MAX);
	add(&l, ",\"error\":");
	add_string(&l, r->error ? sr_errno_name(r->error) : NULL, SIZE_MAX);
	add(&l, "}\n");
	sr_inside++;
	append(&l);
	sr_inside--;
	errno = err;
}
