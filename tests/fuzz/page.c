/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * page.c - the page of statistics of a process that may be any user's, as sockrail-stat
 * shows it: what comes out is printable, and JSON.
 */
#include "fuzz.h"
#include "stat/stat.h"

#define SLOTS 3

/* What sockrail-stat prints goes here, at the end a 0. */
static char *out;
static size_t out_len;

static void printed(void)
{
	for (size_t i = 0; i < out_len; i++)
		CHECK((out[i] >= ' ' && out[i] <= '~') || out[i] == '\n' || out[i] == '\t');
}

/* Strings end, and brackets match. */
static void is_json(void)
{
	char open[64];
	unsigned depth = 0;
	bool string = false;

	for (size_t i = 0; i < out_len; i++) {
		char c = out[i];

		CHECK(c != '\\');
		if (c == '"')
			string = !string;
		else if (!string && strchr("[{", c) && depth < sizeof(open))
			open[depth++] = c == '[' ? ']' : '}';
		else if (!string && strchr("]}", c))
			CHECK(depth > 0 && open[--depth] == c);
	}
	CHECK(!depth && !string);
}

enum { JSON, METRICS, LIST, SUMMARY, KINDS };

static void print(const struct stat_all *all, int kind)
{
	struct stat_options o = {.all = true, .processes = true, .info = true, .width = 80};
	FILE *kept = stdout;

	out = NULL;
	stdout = open_memstream(&out, &out_len);
	CHECK(stdout != NULL);
	if (kind == JSON)
		stat_json(stdout, all);
	else if (kind == METRICS)
		stat_metrics(stdout, all, all->processes & 1);
	else if (kind == LIST)
		stat_list(all, &o);
	else
		stat_summary(all);
	fclose(stdout);
	stdout = kept;
	printed();
	if (kind == JSON)
		is_json();
	if (kind == SUMMARY)
		CHECK(!strstr(out, "-2147483648"));	/* a share that went round */
	free(out);
}

/* Twice: a page may change while it is shown, and rates be made of what it said. */
void fuzz_page(const uint8_t *data, size_t size)
{
	static struct sr_page page;
	struct fuzz f = {data, size};
	struct stat_all now = {.now_ns = fuzz_bytes(&f, 1) << 56}, old = {.now_ns = 0};
	unsigned n = fuzz_below(&f, SLOTS + 1);

	page.high = n == SLOTS ? UINT32_MAX : n;
	for (unsigned i = 0; i < SLOTS; i++) {
		memset(&page.slot[i], 0, sizeof(page.slot[i]));
		if (i < n)
			fuzz_copy(&f, &page.slot[i], sizeof(page.slot[i]));
	}
	stat_take_page(&old, &page, -1);
	fuzz_copy(&f, page.program, sizeof(page.program));
	fuzz_copy(&f, page.total, sizeof(page.total));
	fuzz_copy(&f, page.reason, sizeof(page.reason));
	if (n)
		fuzz_copy(&f, &page.slot[0].tx, sizeof(page.slot[0].tx));
	stat_take_page(&now, &page, -1);
	stat_rates(&now, &old, 0.1);
	for (int kind = 0; kind < KINDS; kind++)
		print(&now, kind);
	stat_free(&now);
	stat_free(&old);
}
