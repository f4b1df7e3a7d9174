/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * check.h - the parts of sockrail check.  The program links none of our libraries
 * and none of RDMA's: it looks at the system, and runs the command sockrail as its
 * user would.
 */
#ifndef SR_CHECK_CHECK_H
#define SR_CHECK_CHECK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum verdict { OK, WARNING, PROBLEM };

struct checked {
	const char *self;		/* this program, and the launcher beside it */
	const char *launcher;
	char library[PATH_MAX];		/* the path by which it is loaded; "" if it is not */
	bool never;			/* the policy is never, except where a rule has another */
	bool not_lazy;			/* the policy is another one */
	char dir[64];			/* SOCKRAIL_DIR */
	unsigned tos;			/* SOCKRAIL_TOS */
	const char *host, *port;	/* of the peer; NULL: only this host is checked */
	struct sockaddr_storage peer;	/* the address of host and port, if given */
	socklen_t peer_len;
	bool local;			/* the peer is this host */
	bool by_dir;			/* only SOCKRAIL_DIR may lead to the peer */
	bool no_streams;
	const char *unit, *unit_path;
	const char *command;		/* NULL: none; its path after find_program() */
};

/* ---- say.c: the lines ---- */

void say_json(void);
/* Starts a line about what; prints the one before. */
void say(enum verdict verdict, const char *what, const char *found, ...)
	__attribute__((format(printf, 3, 4)));
/* What to do about the line; reason: the word that streams report, or NULL. */
void remedy(const char *reason, const char *what_to_do, ...)
	__attribute__((format(printf, 2, 3)));
/* What reasons.def says to do about a reason word. */
const char *advice(const char *reason);
/* Prints the last line.  Returns the worst verdict. */
enum verdict said(void);
/* Ends the program with status 2, for bad input. */
void refuse(const char *text, ...)
	__attribute__((format(printf, 1, 2), noreturn));

/* ---- system.c: asks the system ---- */

/* The first line of a file, or of a link's target; "" if there is none. */
const char *first_line(char *buf, size_t size, const char *path, ...)
	__attribute__((format(printf, 3, 4)));
/* "Key:  value" of /proc/self/status, as a number in that base; 0 if it is not there. */
unsigned long long status_number(const char *key, int base);
/* 65536 as "64 kB", RLIM_INFINITY as "unlimited". */
const char *size_text(char buf[32], unsigned long long n);
/* Runs a program.  buf gets its standard output (both: its standard error, too).  Returns its
 * exit status; or 128 and more if it was killed or could not be run. */
int run_program(char *buf, size_t size, bool both, const char *const argv[]);
bool is_executable(const char *path);
/* The path of a command, as execvp(3) would find it; false: there is no executable file, but
 * there may be another file at that path. */
bool find_command(char path[PATH_MAX], const char *command);
/* Is path in directory dir, or dir itself? */
bool is_below(const char *path, const char *dir);
/* Sends a question to sock_diag(7).  Returns 0 if it answers, or an errno. */
int ask_sock_diag(const void *question, size_t len);

/* ---- the checks, a file each or a few ---- */

int print_library(void);			/* library.c */
void check_library(struct checked *c);
void check_libc(struct checked *c);
void check_settings(struct checked *c);
void check_modules(struct checked *c);		/* device.c */
void check_devices(struct checked *c);
void check_limits(struct checked *c);		/* limits.c */
void check_unix(struct checked *c);		/* host.c */
void check_sock_diag(struct checked *c);
void check_namespaces(struct checked *c);
void check_confinement(struct checked *c);
void check_directory(struct checked *c);		/* dir.c */
void check_command(struct checked *c);		/* program.c */
void check_unit(struct checked *c);		/* unit.c; after load_checked_unit() */
void check_streams(struct checked *c);		/* stream.c */

/* These two end the program if there is no such command or unit. */
void find_program(struct checked *c);		/* program.c */
void load_checked_unit(const struct checked *c);	/* unit.c */

/* limits.c: about a limit of this process (here), or of a unit.  judge_memlock() returns whether it
 * is enough. */
bool judge_memlock(const char *what, unsigned long long soft, unsigned long long hard,
		   bool here);
void judge_nofile(const char *what, unsigned long long soft, unsigned long long hard,
		  bool here);
/* program.c: about a command, or the interpreter of a script. */
void judge_program(const char *what, const char *path);
/* device.c: is an RDMA device on this host? */
bool have_device(void);
bool have_hardware(void);	/* one that is not the kernel's software */
/* An address of this host that an RDMA device has; "" if there is none.  After
 * check_devices(). */
const char *device_address(char buf[64], const char **device);

/* ---- counters.c: of RDMA devices, before the measurement and after it ---- */
void note_counters(void);
void judge_counters(void);

/* ---- echo.c: the two ends of a measurement ---- */

uint64_t check_clock_ns(void);	/* CLOCK_MONOTONIC */
int echo_serve(const char *host, const char *port);	/* host: NULL for all addresses */
int echo_client(const char *host, const char *port, bool measure);
/* Both ends at an address of this host.  The server is a child, which ends when the client
 * does. */
int echo_here(const char *host);

#endif
