/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * answer.c - what an answerer does with a request for a link: the kind of link is one in
 * memory.  No service thread runs.
 */
#include "base/real.h"

#include <arpa/inet.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "check.h"
#include "engine/engine.h"
#include "engine/fdtab.h"
#include "engine/stream.h"
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

int main(void)
{
	sr_conf_load();
	sr_answer_init();
	begin();
	notes_its_reason_before_it_refuses();
	return 0;
}
