/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fuzz.c - the fuzz targets without a fuzzer: each file of tests/fuzz/corpus, and each
 * changed at random some times, always in the same way, a second for each target at most.
 *
 * Usage: fuzz [ROUNDS [TARGET FILE...]]     with files: however long it takes
 */
#include <dirent.h>
#include <time.h>

#include "../fuzz/fuzz.h"

#define INPUT_MAX 4000

struct target {
	const char *name;
	void (*run)(const uint8_t *data, size_t size);
};

static const struct target targets[] = {
#define SR_FUZZ(name) {#name, fuzz_##name},
#include "../fuzz/targets.def"
};

static uint64_t rounds = 400;
static struct timespec until;	/* CLOCK_MONOTONIC: the files as they are, from then on */

static bool late(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > until.tv_sec ||
	       (now.tv_sec == until.tv_sec && now.tv_nsec > until.tv_nsec);
}

/* Puts a few bytes elsewhere, changes some, cuts some off. */
static size_t mutate(uint8_t *buf, size_t size, uint64_t *random)
{
	static const uint8_t special[] = {0, 1, 0x7f, 0x80, 0xff};
	uint64_t r = check_random(random);
	unsigned n = 1 + (unsigned)(r % 6);
	size_t to, from;

	if (!(r >> 8 & 7) && size)
		size -= 1 + (r >> 16) % size;
	if (!(r >> 11 & 7) && size + 16 <= INPUT_MAX)
		for (size_t end = size + 16; size < end;)
			buf[size++] = (uint8_t)check_random(random);
	while (size && n--) {
		r = check_random(random);
		to = (r >> 8) % size;
		from = (r >> 32) % size;
		if (!(r & 7))
			memmove(buf + to, buf + from, size - (to > from ? to : from));
		else if (r & 8)
			buf[to] = (uint8_t)(r >> 16);
		else if (r & 16)
			buf[to] ^= (uint8_t)(1u << (r >> 24 & 7));
		else
			buf[to] = special[(r >> 48) % sizeof(special)];
	}
	return size;
}

static void replay(const struct target *t, const char *path)
{
	uint8_t file[INPUT_MAX], buf[INPUT_MAX];
	FILE *f = fopen(path, "r");
	uint64_t random = 1, i;
	size_t size, n;

	CHECK(f != NULL);
	size = n = fread(file, 1, sizeof(file), f);
	fclose(f);
	memcpy(buf, file, size);
	for (i = 0; i <= rounds && (!i || !late()); i++) {
		snprintf(check_context, sizeof(check_context),
			 "%.100s, change %" PRIu64, path, i);
		t->run(buf, n);
		memcpy(buf, file, size);
		n = mutate(buf, size, &random);
	}
}

/* A target has a corpus: one that is not found would be a test of nothing. */
static void replay_all(const struct target *t)
{
	const char *top = getenv("srcdir");
	char dir[512], path[800];
	struct dirent *e;
	unsigned n = 0;
	DIR *d;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec++;
	snprintf(dir, sizeof(dir), "%s/tests/fuzz/corpus/%s", top ? top : ".", t->name);
	d = opendir(dir);
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.') {
			snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
			replay(t, path);
			n++;
		}
	if (d)
		closedir(d);
	snprintf(check_context, sizeof(check_context), "%.100s", dir);
	CHECK(n > 0);
	printf("%-10s %u files\n", t->name, n);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		rounds = strtoull(argv[1], NULL, 0);
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		if (argc < 3) {
			replay_all(&targets[i]);
		} else if (!strcmp(argv[2], targets[i].name)) {
			until.tv_sec = INT32_MAX;
			for (int k = 3; k < argc; k++)
				replay(&targets[i], argv[k]);
		}
	}
	return 0;
}
