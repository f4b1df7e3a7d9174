/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shared.h - what the processes of a round know of each other: a file that all of them
 * have mapped.  Whatever one waits for it finds there.
 */
#ifndef FAULTS_SHARED_H
#define FAULTS_SHARED_H

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum how { FORK, DOUBLE, VFORK, SPAWN, FORK_EXEC, PASS, HOWS };
enum when { BEFORE, DURING, AFTER, SWITCH, UNREAD, ASLEEP, WHENS };
enum who { PARENT, CHILD, BOTH, NEITHER, WHOS };
enum end { CLOSE, EXIT, EXIT_AT_ONCE, EXEC, KILL, ENDS };

static const char *const how_names[] = {"fork", "double-fork", "vfork+exec",
					"posix_spawn", "fork+exec", "SCM_RIGHTS"};
static const char *const when_names[] = {"before", "during", "after", "mid-switch",
					 "unread", "asleep"};
static const char *const who_names[] = {"parent", "child", "both", "neither"};
static const char *const end_names[] = {"close", "exit", "_exit", "exec", "kill"};

#ifdef ONE_PAIR
enum { SUBJECTS = 1, STREAMS = 200, TURNS = 1 };
#else
enum { SUBJECTS = 4, STREAMS = 8, TURNS = 8 };
#endif
enum { UP, DOWN };		/* from the subject, and to it */
enum side { PEER = 8 };		/* else PARENT or CHILD */
enum { NO_END, END_OF_FILE, RESET, FAILED };

#define NEVER UINT64_MAX

/* One direction.  limit and may_get are how far its two ends may go; the bytes of the
 * subject's end are shared out in turns. */
struct way {
	_Atomic uint64_t limit, may_get;
	_Atomic uint64_t tried, sent, got;
	_Atomic uint64_t use_end;	/* where the part behind the fork ends */
	struct turn {
		_Atomic uint64_t upto;
		_Atomic int side;
	} turn[TURNS];
	atomic_int end, error;		/* of the reader */
	atomic_bool stopped;		/* the sender has met an error */
};

struct stream {
	atomic_uint tick;
	/* the plan */
	int how, when, who, child_end, half;
	bool parent_first, server;
	int early_ms;			/* the child is killed so long after its start; -1 */
	uint64_t use[2], tail[2], unread[2];
	/* what happens */
	atomic_int port;		/* of the connecting end */
	atomic_int child;		/* its pid */
	atomic_bool ready, forked, child_go, child_closed, child_gone;
	atomic_bool parent_done, parent_closed, fin, over;
	atomic_bool handed;		/* another stream's child may leave it to a program */
	struct way way[2];
	/* what was seen */
	atomic_int linked, stayed, again;	/* -1: not known */
	atomic_int wrong, maps;
};

struct subject {
	int parent_end, early_ms;
	atomic_int pid, port;
	atomic_bool gone;
	atomic_int leaked, leaked_maps;
	struct stream stream[STREAMS];
};

struct killing {
	atomic_int pid;
	_Atomic uint64_t at;
};

struct shared {
	uint64_t seed;
	int streams;			/* of each subject */
	bool rail;			/* links are expected */
	atomic_int port, peer;
	atomic_bool uncounted;		/* a child of the peer was killed: it holds all */
	atomic_int crashes;
	atomic_uint kills;
	struct killing kill[SUBJECTS * (STREAMS + 1)];
	struct subject subject[SUBJECTS];
};

static struct shared *shared;

static inline void die(const char *what)
{
	fprintf(stderr, "faults: %s: %s (process %d, seed %llu)\n", what, strerror(errno),
		getpid(), shared ? (unsigned long long)shared->seed : 0);
	_exit(9);
}

static inline void nap_us(unsigned us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000L};

	nanosleep(&t, NULL);
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- chance, by the seed ---- */

static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static inline uint64_t draw(uint64_t *state, uint64_t n)
{
	return mix((*state)++) % n;
}

/* ---- waiting ---- */

static inline void bump(struct stream *s)
{
	atomic_fetch_add(&s->tick, 1);
	syscall(SYS_futex, &s->tick, FUTEX_WAKE, 1 << 20, NULL, NULL, 0);
}

static inline void doze(struct stream *s, unsigned seen)
{
	struct timespec t = {0, 5000000};

	syscall(SYS_futex, &s->tick, FUTEX_WAIT, seen, &t, NULL, 0);
}

#define AWAIT(s, condition)                                                     \
	do {                                                                    \
		unsigned seen_ = atomic_load(&(s)->tick);                       \
                                                                                \
		if (condition)                                                  \
			break;                                                  \
		doze(s, seen_);                                                 \
	} while (1)

/* ---- bytes that tell their place ---- */

static inline uint64_t word_at(uint64_t id, uint64_t place)
{
	return mix(id ^ place << 6);
}

static inline void fill(uint64_t id, uint64_t at, unsigned char *p, size_t n)
{
	while (n) {
		uint64_t word = word_at(id, at / 8);
		size_t skip = at % 8, part = 8 - skip < n ? 8 - skip : n;

		memcpy(p, (char *)&word + skip, part);
		at += part;
		p += part;
		n -= part;
	}
}

/* Are they right? */
static inline bool right(uint64_t id, uint64_t at, const unsigned char *p, size_t n)
{
	while (n) {
		uint64_t word = word_at(id, at / 8);
		size_t skip = at % 8, part = 8 - skip < n ? 8 - skip : n;

		if (memcmp(p, (char *)&word + skip, part))
			return false;
		at += part;
		p += part;
		n -= part;
	}
	return true;
}

#endif
