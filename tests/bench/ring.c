/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ring.c - the limit that the benchmark compares with: two processes over the shared
 * memory link itself, without sockets and without the preload.  They wait as the
 * library does: awake for up to SOCKRAIL_SPIN_US where that pays, then armed and
 * asleep on the link's word.
 *
 *     ring stream SIZE SECONDS              write SIZE at a time
 *     ring pingpong SIZE ROUNDS [PAUSE-US]  between rounds
 *
 * Prints the lines that load prints.
 */
#include "bench.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include "../unit/link_pair.h"
#include "base/now.h"
#include "base/spin.h"

#define PIECE 65536	/* the library's, of large writes */
#define READ (1 << 20)	/* the size of the reader's buffer, as in load.c */
#define POLLS 32	/* between two looks at the clock */

static uint32_t size;
static unsigned rounds, pause_us;
static double seconds;
static uint8_t *buf;

/* What the link has: bytes to take, or room; *end: no more will come.  The quick looks
 * first, as in fast.c. */
static size_t look(struct end *e, unsigned want, struct iovec v[2], bool *end)
{
	struct sr_link *l = e->link;
	struct sr_piece piece = l->tx_piece;
	ssize_t n = want == SR_NOTIFY_RX ? l->ops->rx_look(l, &piece) :
					   piece.left ? 1 : -1;

	*end = false;
	v[0] = (struct iovec){ piece.at, piece.left };
	v[1] = (struct iovec){ 0 };
	if (n > 0)
		return piece.left;
	if (!n && !(sr_link_events(l) & (SR_LINK_DEAD | SR_LINK_END)))
		return 0;
	l->ops->poll(l);
	*end = sr_link_events(l) & (want == SR_NOTIFY_RX ? SR_LINK_DEAD | SR_LINK_END :
						  SR_LINK_DEAD);
	return want == SR_NOTIFY_RX ? l->ops->rx_data(l, 0, v) :
				      l->ops->tx_room(l, v);
}

/* Sleeps unless there is something, and returns it.  The time limit is for a peer
 * that has ended: nobody is notified of that here. */
static size_t sleep_once(struct end *e, unsigned want, struct iovec v[2], bool *end)
{
	const struct timespec second = { 1, 0 };
	struct sr_link *l = e->link;
	_Atomic uint32_t *word;
	uint32_t now;
	size_t n;

	l->ops->arm(l, want);
	n = look(e, want, v, end);
	if (!n && !*end) {
		word = l->ops->futex(l, want);
		now = atomic_load(word);
		if ((now & want) == want)
			syscall(SYS_futex, word, FUTEX_WAIT, now, &second, NULL, 0);
	}
	l->ops->awake(l, want, true, false);
	return n ? n : look(e, want, v, end);
}

/* Waits until there is something.  0: the peer's direction has ended. */
static size_t wait_link(struct end *e, unsigned want, struct iovec v[2])
{
	static struct sr_spin spins[SR_NOTIFY_TX + 1];
	struct sr_spin *sp = &spins[want];
	uint64_t limit = sr_conf.spin_us * UINT64_C(1000), start, now, last;
	bool end;
	size_t n = look(e, want, v, &end);

	if (n || end)
		return n;
	start = now = sr_now_ns();
	if (sr_spin_pays(sp, limit, sr_link_same_core(e->link)))
		do {
			for (int i = 0; i < POLLS && !n && !end; i++) {
				sr_relax();
				n = look(e, want, v, &end);
			}
			last = now;
			now = sr_now_ns();
		} while (!n && !end && now - start <= limit &&
			 !sr_spin_stolen(sp, limit, now - last));
	while (!n && !end) {
		n = sleep_once(e, want, v, &end);
		now = sr_now_ns();
	}
	sr_spin_learn(sp, limit, now - start);
	return n;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void put_all(struct end *e, const void *from, size_t n)
{
	const uint8_t *p = from;

	while (n) {
		struct iovec v[2];
		size_t room = wait_link(e, SR_NOTIFY_TX, v);
		size_t k = least(least(n, room), PIECE), one = least(k, v[0].iov_len);

		CHECK(room);
		memcpy(v[0].iov_base, p, one);
		memcpy(v[1].iov_base, p + one, k - one);
		e->link->ops->tx_commit(e->link, k, false);
		p += k;
		n -= k;
	}
}

/* All that there is, up to n bytes; 0: the end. */
static size_t take_some(struct end *e, void *to, size_t n)
{
	struct iovec v[2];
	size_t k = least(n, wait_link(e, SR_NOTIFY_RX, v));
	size_t one = least(k, v[0].iov_len);

	memcpy(to, v[0].iov_base, one);
	memcpy((uint8_t *)to + one, v[1].iov_base, k - one);
	if (k)
		e->link->ops->rx_free(e->link, k);
	return k;
}

static void take_all(struct end *e, void *to, size_t n)
{
	for (size_t got = 0, k; got < n; got += k) {
		k = take_some(e, (uint8_t *)to + got, n - got);
		CHECK(k);
	}
}

/* The receiver's last message. */
struct sum {
	uint64_t bytes, cpu_us;
};

static void stream(struct end *e)
{
	struct sum sum = { 0, 0 };
	uint64_t cpu = cpu_us(), start = now_ns(), k;
	uint64_t stop = start + (uint64_t)(seconds * 1e9);

	if (!e->asker) {
		while ((k = take_some(e, buf, READ)))
			sum.bytes += k;
		sum.cpu_us = cpu_us() - cpu;
		put_all(e, &sum, sizeof(sum));
		take_some(e, buf, 1);	/* until the asker has it */
		return;
	}
	do
		for (unsigned i = 0; i < (size < 4096 ? 64 : 1); i++)
			put_all(e, buf, size);
	while (now_ns() < stop);
	say(e, SR_MSG_END, e->link->tx_w);
	take_all(e, &sum, sizeof(sum));
	print_stream(sum.bytes, size, now_ns() - start,
		     sum.cpu_us + cpu_us() - cpu);
}

static void pingpong(struct end *e)
{
	uint64_t *ns = calloc(rounds, sizeof(*ns));

	for (unsigned i = 0; i < rounds + rounds / 10; i++) {
		uint64_t from;

		if (!e->asker) {
			take_all(e, buf, size);
			put_all(e, buf, size);
			continue;
		}
		if (pause_us)
			usleep(pause_us);
		from = now_ns();
		put_all(e, buf, size);
		take_all(e, buf, size);
		/* the first tenth warms up */
		if (i >= rounds / 10)
			ns[i - rounds / 10] = now_ns() - from;
	}
	if (e->asker) {
		print_times("round_trip", ns, rounds);
		print_distribution("round_trip", ns, rounds);
	}
	free(ns);
}

int main(int argc, char **argv)
{
	void (*fn)(struct end *e);

	if (argc == 4 && !strcmp(argv[1], "stream")) {
		seconds = atof(argv[3]);
		fn = stream;
	} else if ((argc == 4 || argc == 5) && !strcmp(argv[1], "pingpong")) {
		rounds = (unsigned)atoi(argv[3]);
		pause_us = argc == 5 ? (unsigned)atoi(argv[4]) : 0;
		fn = pingpong;
	} else {
		fprintf(stderr, "usage: ring stream SIZE SECONDS | "
				"pingpong SIZE ROUNDS [PAUSE-US]\n");
		return 2;
	}
	size = (uint32_t)atoi(argv[2]);
	buf = calloc(1, size > READ ? size : READ);
	CHECK(buf);
	sr_conf_load();
	connect_tcp();
	asker.alone = answerer.alone = true;
	as_processes(fn);
	return 0;
}
