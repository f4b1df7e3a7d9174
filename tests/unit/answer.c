/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * answer.c - what an answerer does with a request for a link: the kind of link is one in
 * memory, and no service thread runs.  And that an answerer is found as soon as it waits for a
 * connection.
 */
#include "base/real.h"

#include <arpa/inet.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/fdpriv.h"
#include "check.h"
#include "engine/engine.h"
#include "engine/fdtab.h"
#include "engine/stream.h"
#include "in_process.h"
#include "link/local.h"
#include "service/service.h"
#include "upgrade/keeper.h"
#include "upgrade/upgrade.h"

static struct sr_stream *socket_stream, *st;
static struct sr_name name;
static int lfd, client;

/* ---- the kind of link: it can make none ---- */

static unsigned accepts, refusals;
static char refused_with[32];

static struct sr_link *cannot_accept(struct sr_request *req, void *owner,
				     void (*notify)(struct sr_link *, unsigned),
				     const char **reason)
{
	(void)req;
	(void)notify;
	CHECK(owner == st);
	accepts++;
	*reason = "memory";
	return NULL;
}

/* From now on the peer may end the stream, and the program write its line of the report. */
static void refuse(struct sr_request *req, const char *reason)
{
	(void)req;
	refusals++;
	strcpy(refused_with, reason);
	CHECK_EQ(st->reason, sr_reason_find(reason));
}

static bool tell(struct sr_request *req, enum sr_first first)
{
	(void)req;
	(void)first;
	return false;
}

static const struct sr_rendezvous rendezvous = {
	.name = "fake",
	.accept = cannot_accept,
	.refuse = refuse,
	.tell = tell,
};

/* ---- a stream that the program has accepted and used ---- */

static void begin(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET}, c;
	socklen_t len = sizeof(a);
	int fd;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	lfd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!bind(lfd, (void *)&a, len) && !listen(lfd, 1) &&
	      !getsockname(lfd, (void *)&a, &len));
	socket_stream = sr_stream_open(lfd);
	CHECK(socket_stream && !sr_fdtab_set(lfd, socket_stream));
	sr_st_set(socket_stream, SR_ST_LISTEN);
	memcpy(&socket_stream->rare->local, &a, sizeof(a));
	client = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!connect(client, (void *)&a, len) && !getsockname(client, (void *)&c, &len));
	CHECK(!sr_name_make(&name, (void *)&c, (void *)&a, 1));
	fd = accept(lfd, NULL, NULL);
	CHECK(fd >= 0);
	st = sr_stream_accepted(socket_stream, fd);
	CHECK(st && !sr_fdtab_set(fd, st));
	sr_st_set(st, SR_ST_USED);
}

/* ---- cases ---- */

static void notes_its_reason_before_it_refuses(void)
{
	struct sr_request req = {.ops = &rendezvous, .name = name,
				.proof = SR_PROOF_NONE};

	sr_link_request(&req);
	CHECK_EQ(accepts, 1);
	CHECK_EQ(refusals, 1);
	CHECK(!strcmp(refused_with, "memory"));
}

/* Is there a keeper of the address? */
static bool is_kept(void)
{
	int line = sr_keeper_call(sr_listener_of(socket_stream));

	if (line >= 0)
		sr_local_close(line);
	return line >= 0;
}

/* A process has inherited the listener, and waits for a connection. */
static void await_as_heir(void)
{
	sr_st_set(socket_stream, SR_ST_HEIR);
	sr_listener_awaited(socket_stream);
}

/* The thread that waits has taken the name itself: it may fork, and its child change the user,
 * before a service thread has run. */
static void is_found_at_once(void)
{
	CHECK(!is_kept());
	await_as_heir();
	CHECK(is_kept());
}

static int another_process_has_the_name(void *arg)
{
	int fd;

	(void)arg;
	fd = sr_keeper_bind(sr_listener_of(socket_stream));
	CHECK(fd >= 0 && is_kept());
	await_as_heir();
	/* It has ended: whoever watched it takes its place. */
	sr_fd_close(fd);
	while (!is_kept())
		usleep(1000);
	return 0;
}

int main(void)
{
	sr_conf_load();
	sr_service_begin();
	sr_answer_init();
	begin();
	notes_its_reason_before_it_refuses();
	CHECK_EQ(in_process(another_process_has_the_name, NULL, 60), 0);
	is_found_at_once();
	return 0;
}
