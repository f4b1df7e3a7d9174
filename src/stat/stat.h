/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stat.h - what the parts of sockrail-stat share.  The command reads the pages of base/page.h,
 * and is not linked to the library.
 */
#ifndef SR_STAT_H
#define SR_STAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/net.h"
#include "base/page.h"

enum stat_state {	/* words: stat_words (collect.c) */
	STAT_UNCONNECTED, STAT_LISTEN, STAT_PLAIN, STAT_ASKING, STAT_SWITCHING, STAT_SHM,
	STAT_VERBS, STAT_RETURNING, STAT_CLOSING, STAT_BROKEN, STAT_STATES
};
extern const char *const stat_words[STAT_STATES];

/* A stream.  All text in it is printable and short, whatever the page has. */
struct stat_stream {
	pid_t pid;
	const char *program;	/* its process's */
	uint64_t id;
	int fd;			/* -1: none, or not known */
	bool connected, accepted, ended;
	enum stat_state state;
	enum sr_reason reason;
	int error;
	char link[SR_REPORT_LINK];
	uint32_t qp;		/* the queue pair of the link in use; 0: none */
	struct sockaddr_storage local, peer; /* AF_UNSPEC: not known */
	uint64_t opened_ns, since_ns;	     /* CLOCK_MONOTONIC */
	uint64_t value[SR_COUNTERS];
	uint64_t tx_rate, rx_rate; /* bytes a second, for --watch */
};

struct stat_process {
	pid_t pid;
	char program[SR_PAGE_PROGRAM];
	uint64_t start_ns, made, ended, linked;
	uint64_t total[SR_COUNTERS];	/* of ended streams */
	uint64_t reason[SR_REASONS];	/* ended streams of each */
};

struct stat_all {
	struct stat_process *process;
	struct stat_stream *stream;
	size_t processes, streams;
	unsigned hidden;	/* processes that we are not allowed to read */
	unsigned foreign;	/* pages that are not valid, or of another version */
	uint64_t now_ns;	/* CLOCK_MONOTONIC */
};

struct stat_counter {
	const char *name, *unit, *text;
	bool gauge;
};
extern const struct stat_counter stat_counters[SR_COUNTERS];
struct stat_reason {
	const char *word, *text, *remedy;
};
extern const struct stat_reason stat_reasons[SR_REASONS];

/* ---- collect.c ---- */
/* Reads all processes, or one.  False, and a message: that one cannot be read, or there
 * is no memory. */
bool stat_collect(struct stat_all *all, pid_t only);
void stat_free(struct stat_all *all);
/* Makes room for one more element after the n, or ends the program. */
void *stat_grow(void *array, size_t n, size_t size);
/* Adds a process and its streams.  pid: the real one; that of the page may be a lie. */
void stat_take_page(struct stat_all *all, struct sr_page *page, pid_t pid);
/* How many bytes were sent, or received, by all ways; from the counters of a stream or of a
 * process. */
uint64_t stat_sent(const uint64_t value[SR_COUNTERS]);
uint64_t stat_received(const uint64_t value[SR_COUNTERS]);
/* The process's counters: those of its ended streams, and of its live ones. */
void stat_process_sum(const struct stat_all *all, const struct stat_process *p,
		      uint64_t sum[SR_COUNTERS]);

/* ---- page.c ---- */
/* Opens the page of a process.  Returns a descriptor; -ENOENT: the process has no page; or
 * another -errno. */
int stat_page_open(pid_t pid);
/* NULL: it is no page; or *version is set, and it is a page of that other version. */
struct sr_page *stat_page_map(int fd, pid_t pid, uint32_t *version);
bool stat_page_slot(struct sr_page_slot *to, struct sr_page_slot *from);

/* ---- socket.c ---- */
/* Finds the addresses of a process's descriptor; AF_UNSPEC if they cannot be found.  True: the
 * socket listens. */
bool stat_socket_find(pid_t pid, int fd, struct sockaddr_storage *local,
		      struct sockaddr_storage *peer);
void stat_socket_forget(void);

/* ---- filter.c ---- */
struct stat_filter {
	int terms;
	struct stat_term {
		enum term_what { TERM_SRC, TERM_DST, TERM_STATE, TERM_QP } what;
		bool not;
		struct sr_net net; /* TERM_SRC, TERM_DST */
		enum stat_state state;
		uint32_t qp;
	} term[16];
};
/* Terms are "src 10.0.0.0/8:80", "dport = :22", "state shm", with or without "and" between them.
 * False, and a message: a term is wrong. */
bool stat_filter_parse(struct stat_filter *f, int words, char **word);
/* Drops the streams that the filter does not select. */
void stat_filter_keep(const struct stat_filter *f, struct stat_all *all);

/* ---- list.c ---- */
struct stat_options {
	bool listening, all, processes, info, no_header, devices;
	pid_t pid;
	double watch;		/* seconds, 0: once */
	int width, lines;	/* of the terminal; 0: no terminal */
};
void stat_list(const struct stat_all *all, const struct stat_options *o);
/* Sets the bytes per second that each stream has moved since `old`, which is `seconds` old. */
void stat_rates(struct stat_all *all, const struct stat_all *old, double seconds);
int stat_watch(const struct stat_options *o, const struct stat_filter *f);
void stat_pause(double seconds);
/* "12.3k"; buf has 16 bytes. */
const char *stat_amount(char buf[16], uint64_t n);
/* "10.0.0.1:80", "*:*" if not known; buf has 64 bytes. */
const char *stat_address(char buf[64], const struct sockaddr_storage *a);

/* ---- devices.c ---- */
/* Prints once, or repeatedly; returns the exit status. */
int stat_devices(const struct stat_options *o);

/* ---- summary.c, export.c ---- */
void stat_summary(const struct stat_all *all);
void stat_json(FILE *to, const struct stat_all *all);
void stat_metrics(FILE *to, const struct stat_all *all, bool prometheus);

#endif
