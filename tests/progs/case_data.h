/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * case_data.h - streams of pseudo-random bytes: one half sends them, the other one sums them
 * up.  A part of case.h, which includes it.
 */
#ifndef TEST_CASE_DATA_H
#define TEST_CASE_DATA_H

/* A stream of pseudo-random bytes, and a CRC-32 over what went by. */
struct data {
	uint64_t state;
	uint64_t word; /* its bytes that are not used yet */
	unsigned left;
	uint32_t crc;
	uint64_t bytes;
};

#define DATA(seed) {(seed) * 0x9e3779b97f4a7c15ull + 1, 0, 0, 0, 0}

static inline uint64_t data_next(struct data *d)
{
	d->state ^= d->state << 13;
	d->state ^= d->state >> 7;
	d->state ^= d->state << 17;
	return d->state;
}

/* 1 to most */
static inline size_t data_size(struct data *d, size_t most)
{
	return data_next(d) % most + 1;
}

static uint32_t crc_table[4][256];

static void __attribute__((constructor)) crc_init(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0xedb88320 : c >> 1;
		crc_table[0][i] = c;
	}
	for (int t = 1; t < 4; t++)
		for (int i = 0; i < 256; i++) {
			uint32_t c = crc_table[t - 1][i];

			crc_table[t][i] = crc_table[0][c & 0xff] ^ c >> 8;
		}
}

static inline void data_sum(struct data *d, const void *buf, size_t n)
{
	const unsigned char *p = buf;
	uint32_t crc = ~d->crc, four;

	d->bytes += n;
	for (; n >= 4; n -= 4, p += 4) {
		memcpy(&four, p, 4);
		crc ^= le32toh(four);
		crc = crc_table[3][crc & 0xff] ^ crc_table[2][crc >> 8 & 0xff] ^
		      crc_table[1][crc >> 16 & 0xff] ^ crc_table[0][crc >> 24];
	}
	while (n--)
		crc = crc_table[0][(crc ^ *p++) & 0xff] ^ crc >> 8;
	d->crc = ~crc;
}

static inline void data_fill(struct data *d, void *buf, size_t n)
{
	unsigned char *p = buf;

	for (size_t i = 0; i < n; i++) {
		if (!d->left) {
			d->word = data_next(d);
			d->left = 8;
		}
		p[i] = (unsigned char)d->word;
		d->word >>= 8;
		d->left--;
	}
	data_sum(d, buf, n);
}

static inline void say_data(const char *what, const struct data *d)
{
	say("%s: %llu bytes, crc %08x", what, (unsigned long long)d->bytes,
	    d->crc);
}

/* total bytes in writes of 1 to most bytes */
static inline void put_data(int fd, struct data *d, size_t total, size_t most)
{
	struct data sizes = DATA(total + most);
	char *buf = malloc(most);

	while (total) {
		size_t n = data_size(&sizes, most);

		n = n < total ? n : total;
		data_fill(d, buf, n);
		put(fd, buf, n);
		total -= n;
	}
	free(buf);
}

/* What a descriptor that must not block has still to be given. */
struct pieces {
	size_t left, have, at;
};

/* Writes on at what is left of a piece in buf, or at the next one; false: no room. */
static inline bool put_next(int fd, struct data *d, struct pieces *p, char *buf, size_t size)
{
	ssize_t n;

	if (!p->have) {
		p->have = p->left < size ? p->left : size;
		data_fill(d, buf, p->have);
		p->left -= p->have;
		p->at = 0;
	}
	n = write(fd, buf + p->at, p->have);
	if (n < 0 && errno != EAGAIN)
		die("write");
	if (n <= 0)
		return false;
	p->at += (size_t)n;
	p->have -= (size_t)n;
	return true;
}

/* total bytes in reads of 1 to most bytes; fewer only at the end */
static inline void take_data(int fd, struct data *d, size_t total, size_t most)
{
	struct data sizes = DATA(total - most);
	char *buf = malloc(most);

	while (total) {
		size_t n = data_size(&sizes, most);

		n = n < total ? n : total;
		n = take(fd, buf, n);
		if (!n)
			break;
		data_sum(d, buf, n);
		total -= n;
	}
	free(buf);
}

/* Everything up to the end of the stream. */
static inline void take_rest(int fd, struct data *d)
{
	static __thread char buf[65536];
	size_t n;

	while ((n = take(fd, buf, sizeof(buf))))
		data_sum(d, buf, n);
}

#endif
