/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * deliver.c - a process ends with bytes on a link that ends with it, and TCP has no room
 * for them: they arrive nevertheless, and TCP's end behind them, also where no process can
 * be made that delivers them, or there is no memory to hand them to it.  And TCP's end is
 * no reset, although a mark or a RESUME comes behind the process's end.
 */
#include "fake_link.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/loop.h"
#include "base/sys.h"
#include "in_process.h"

enum { HANG_S = 200, BYTES = 4000, LATE_MS = 300 };

static bool no_memory;

static bool no_process;

int sr_sys_fails(long number)
{
	return number == SYS_mmap && no_memory ? ENOMEM :
	       number == SYS_clone && no_process ? EAGAIN : 0;
}

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 2654435761u >> 13);
}

/* Until TCP has no room. */
static size_t stuff(int fd)
{
	static const uint8_t filler[4096];
	size_t total = 0;
	ssize_t n;

	while ((n = send(fd, filler, sizeof(filler), MSG_DONTWAIT)) > 0)
		total += (size_t)n;
	return total;
}

static bool get(int fd, uint8_t *buf, size_t n)
{
	return recv(fd, buf, n, MSG_WAITALL) == (ssize_t)n;
}

/* The peer: its program does not read before the process has ended, or takes long to.
 * Returns an exit status. */
static int read_late(struct fake_pair *e, size_t stuffed, int ended)
{
	struct pollfd p = {.fd = ended};
	uint8_t in[BYTES], c;
	uint64_t a, m;
	size_t i, n;

	poll(&p, 1, LATE_MS);
	for (; stuffed; stuffed -= n) {
		n = stuffed < sizeof(in) ? stuffed : sizeof(in);
		if (!get(e->peer, in, n))
			return 2;
	}
	if (!get(e->peer, in, SR_RECORD_LEN) || sr_resume_parse(in, &a, &m) || a || m != BYTES)
		return 3;
	if (!get(e->peer, in, BYTES))
		return 4;
	for (i = 0; i < BYTES; i++)
		if (in[i] != pattern(i))
			return 5;
	return recv(e->peer, &c, 1, 0) ? 6 : 0;
}

static int end(void *how)
{
	struct fake_pair e = fake_linked(false);
	int ended[2], status;
	uint8_t out[BYTES];
	size_t i, stuffed;
	long pid;

	for (i = 0; i < BYTES; i++)
		out[i] = pattern(i);
	CHECK_EQ(fake_write(&e, out, BYTES), BYTES);
	stuffed = stuff(e.fd);
	sr_tcp_sent(e.st, (ssize_t)stuffed);	/* or they were a stranger's */
	CHECK(!pipe(ended));
	pid = check_bare_fork();	/* no handler of fork runs */
	CHECK(pid >= 0);
	if (!pid) {
		close(e.fd);
		close(ended[1]);
		_exit(read_late(&e, stuffed, ended[0]));
	}
	close(e.peer);
	CHECK_EQ(sr_loop_start(), 0);
	no_process = !strcmp(how, "no process");
	no_memory = !strcmp(how, "no memory");
	sr_streams_exit();
	close(e.fd);
	close(ended[1]);
	CHECK_EQ(waitpid((pid_t)pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	return 0;
}

/* This process ends; a peer that is another one finds what it looks for: peer() is 0. */
static void end_beside(struct fake_pair *e, int (*peer)(struct fake_pair *, uint64_t),
		       uint64_t arg)
{
	long pid = check_bare_fork();
	int status;

	CHECK(pid >= 0);
	if (!pid) {
		close(e->fd);
		_exit(peer(e, arg));
	}
	close(e->peer);
	CHECK_EQ(sr_loop_start(), 0);
	sr_streams_exit();
	close(e->fd);
	CHECK_EQ(waitpid((pid_t)pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

static int gets_end(struct fake_pair *e, uint64_t unused)
{
	char c;

	(void)unused;
	return recv(e->peer, &c, 1, 0) != 0;
}

/* Only the peer's direction is on the link: the process that stays for the peer's RESUME
 * must not keep TCP's end from the peer. */
static int end_of_plain(void *arg)
{
	struct fake_pair e = fake_begin(false);

	(void)arg;
	fake_rx_switch(&e);
	end_beside(&e, gets_end, 0);
	return 0;
}

/* The peer's program goes on behind its RESUME, of m bytes by the link, although the
 * process has ended.  Returns an exit status. */
static int go_on(struct fake_pair *e, uint64_t m)
{
	struct pollfd p = {.fd = e->peer, .events = POLLRDHUP};
	uint8_t out[SR_RECORD_LEN + BYTES] = {0}, in[SR_RECORD_LEN];

	if (!get(e->peer, in, SR_RECORD_LEN) || poll(&p, 1, 5000) != 1)
		return 2;
	usleep(LATE_MS * 1000);		/* the process has ended, or waits for no more */
	sr_resume_make(out, 0, m);
	if (send(e->peer, out, SR_RECORD_LEN + m, 0) < 0)
		return 3;
	p.events = 0;
	if (poll(&p, 1, LATE_MS))
		return 4;
	if (send(e->peer, out, 1, 0) < 0 || poll(&p, 1, 5000) != 1)
		return 5;
	return send(e->peer, out, 1, MSG_NOSIGNAL) < 0 ? 0 : 6;
}

/* TCP answers bytes behind a close with a reset.  The RESUME is none of them, nor what the
 * program had received before. */
static int end_under_a_sender(void *received)
{
	struct fake_pair e = fake_linked(false);
	uint64_t m = *(uint64_t *)received;
	uint8_t in[BYTES] = {0};

	fake_send(e.f, in, m);
	CHECK_EQ(m ? fake_recv(&e, in, m) : 0, m);
	end_beside(&e, go_on, m);
	return 0;
}

/* A link that outlives the process, as shared memory does. */
static bool leaves(struct sr_link *link, bool resent)
{
	(void)link;
	(void)resent;
	return true;
}

/* The process has agreed to a switch and ended, and now the mark comes, and what follows
 * it: TCP's end comes first, and no reset.  Returns an exit status. */
static int marks_late(struct fake_pair *e, uint64_t unused)
{
	struct pollfd p = {.fd = e->peer, .events = POLLRDHUP};
	uint8_t out[SR_RECORD_LEN];
	char c;

	(void)unused;
	if (poll(&p, 1, 5000) != 1 || recv(e->peer, &c, 1, 0) != 0)
		return 2;
	usleep(LATE_MS * 1000);
	fake_rx_mark(e);
	sr_resume_make(out, 0, 0);
	if (send(e->peer, out, SR_RECORD_LEN, MSG_NOSIGNAL) < 0)
		return 3;
	p.events = 0;
	return poll(&p, 1, LATE_MS) ? 4 : 0;
}

static int end_before_mark(void *arg)
{
	struct fake_pair e = fake_begin(false);
	struct sr_link_ops ops = fake_ops;

	(void)arg;
	ops.leave = leaves;
	e.f->link.ops = &ops;
	CHECK(fake_rx_start(&e, 0));
	end_beside(&e, marks_late, 0);
	return 0;
}

int main(void)
{
	static const char *const hows[] = {"", "no process", "no memory"};
	static uint64_t received[] = {0, BYTES};

	for (unsigned i = 0; i < 3; i++) {
		printf("deliver: %s\n", hows[i]);
		CHECK_EQ(in_process(end, (void *)(uintptr_t)hows[i], HANG_S), 0);
	}
	CHECK_EQ(in_process(end_of_plain, NULL, HANG_S), 0);
	printf("deliver: before a mark\n");
	CHECK_EQ(in_process(end_before_mark, NULL, HANG_S), 0);
	for (unsigned i = 0; i < 2; i++) {
		printf("deliver: under a sender, %llu bytes received\n",
		       (unsigned long long)received[i]);
		CHECK_EQ(in_process(end_under_a_sender, &received[i], HANG_S), 0);
	}
	return 0;
}
