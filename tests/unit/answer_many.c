/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * answer_many.c - what a request for a link costs the thread that answers, if its process has
 * many streams.  A child process answers requests, and this process counts the child's
 * instructions by ptrace(2), so the speed of the machine does not matter.  No service thread
 * runs.
 */
#include "base/real.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "engine/index.h"
#include "link/rendezvous.h"
#include "upgrade/upgrade.h"

#define FEW 50
#define MANY 50000
#define REQUESTS 8 /* counted; half of them ask for a stream that the process has not */
#define MORE 3 /* times as many instructions among MANY streams would still be no walk */

/* ---- the child: it answers ---- */

static int lfd, fd;	/* one connected socket is the anchor of all streams */
static struct sr_stream *listening;
static struct sockaddr_in local;
static unsigned streams;

/* No request is accepted here, since the program has not used its streams, and none gets old
 * enough to be refused. */
static void refuse(struct sr_request *req, const char *reason)
{
	(void)req;
	fprintf(stderr, "refused: %s\n", reason);
	CHECK(false);
}

static const struct sr_rendezvous kind = {.name = "fake", .refuse = refuse};

static void begin(void)
{
	socklen_t len = sizeof(local);
	int client = socket(AF_INET, SOCK_STREAM, 0);

	lfd = socket(AF_INET, SOCK_STREAM, 0);
	local = (struct sockaddr_in){.sin_family = AF_INET};
	local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(lfd, (void *)&local, len) && !listen(lfd, 1) &&
	      !getsockname(lfd, (void *)&local, &len));
	CHECK(!connect(client, (void *)&local, len));
	fd = accept(lfd, NULL, NULL);
	CHECK(fd >= 0);
	listening = sr_stream_open(lfd);
	CHECK(listening);
	memcpy(&listening->rare->local, &local, sizeof(local));
	sr_st_set(listening, SR_ST_LISTEN);
	sr_listener_set(sr_listener_of(listening), SR_LISTENER_OPENED);
	sr_index_listens(sr_listener_of(listening));
	sr_answer_init();
}

/* The name of the stream of client number i. */
static void name_client(struct sr_name *name, unsigned i)
{
	struct sockaddr_in peer = local;

	peer.sin_addr.s_addr = htonl(0x0a000001 + i / 50000);
	peer.sin_port = htons((uint16_t)(1024 + i % 50000));
	CHECK(!sr_name_make(name, (void *)&peer, (void *)&local, 0));
}

static void accept_until(unsigned n)
{
	struct sr_stream *st;

	for (; streams < n; streams++) {
		st = sr_stream_accepted(listening, fd);
		CHECK(st);
		name_client(&st->rare->name, streams);
		sr_st_set(st, SR_ST_NAMED);
	}
}

static void ask(unsigned client)
{
	struct sr_request *req = calloc(1, sizeof(*req));

	CHECK(req);
	req->ops = &kind;
	name_client(&req->name, client);
	sr_link_request(req);
}

/* Its parent counts between the two signals. */
static void answer_among(unsigned n)
{
	struct sr_name name;
	struct sr_stream *st;

	accept_until(n);
	ask(0);	/* puts the new streams into the table */
	name_client(&name, n - 1);
	st = sr_index_find(&name);
	CHECK(st);	/* so a request does find its stream */
	sr_stream_put(st);
	raise(SIGSTOP);
	for (unsigned i = 0; i < REQUESTS; i++)
		ask(i % 2 ? i * (n / REQUESTS) : MANY + i);
	raise(SIGSTOP);
}

static void child(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0) {
		fprintf(stderr, "ptrace: %s\n", strerror(errno));
		_exit(77);
	}
	raise(SIGSTOP);
	begin();
	answer_among(FEW);
	answer_among(MANY);
	_exit(0);
}

/* ---- the parent: it counts ---- */

/* Lets the child run until it stops for a signal, and returns that. */
static int go_on(pid_t pid, int how)
{
	int status;

	CHECK(!ptrace(how, pid, 0, 0));
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status))
		exit(WEXITSTATUS(status));
	CHECK(WIFSTOPPED(status));
	return WSTOPSIG(status);
}

/* From its next SIGSTOP to the one after that, or until they are `most'. */
static unsigned long count_instructions(pid_t pid, unsigned long most)
{
	unsigned long n = 0;

	CHECK_EQ(go_on(pid, PTRACE_CONT), SIGSTOP);
	while (n < most && go_on(pid, PTRACE_SINGLESTEP) == SIGTRAP)
		n++;
	return n;
}

int main(void)
{
	unsigned long few, many;
	int status;
	pid_t pid;

	if (check_in_valgrind())	/* it traces no process that it runs */
		return 77;
	pid = fork();
	if (!pid)
		child();
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	few = count_instructions(pid, ULONG_MAX);
	many = count_instructions(pid, MORE * few);
	printf("instructions of %d requests: %lu among %d streams, %lu among %d\n", REQUESTS, few,
	       FEW, many, MANY);
	CHECK(few > 0 && many < MORE * few);
	kill(pid, SIGKILL);
	return 0;
}
