/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * attach.c - the handshake on a new link: what an end shows, and to whom.  The link is
 * one in memory, whose other end is the test; so is the other end of the TCP
 * connection.  No service thread runs.
 */
#include "base/real.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "check.h"
#include "engine/engine.h"
#include "engine/fdtab.h"
#include "engine/impl.h"
#include "sock/sock.h"
#include "upgrade/upgrade.h"

#define SAID 100 /* bytes, each way by TCP before */

struct fake {
	struct sr_link link; /* first */
	unsigned sent;	     /* 1 << type */
	struct sr_msg proof;
	struct sr_hello hello;
};

static int ctl(struct sr_link *link, struct sr_msg *msg)
{
	struct fake *f = (struct fake *)link;
	int r = sr_link_say(link, msg);

	if (r < 0)
		return r;
	f->sent |= 1u << msg->type;
	if (msg->type == SR_MSG_HELLO)
		f->hello = msg->hello;
	if (msg->type == SR_MSG_PROOF)
		f->proof = *msg;
	return 0;
}

static size_t identity(struct sr_link *link, uint8_t id[64])
{
	(void)link;
	memcpy(id, "this one", 8);
	return 8;
}

static void drop(struct sr_link *link, const char *reason)
{
	if (sr_link_raise(link, SR_LINK_DEAD))
		link->reason = reason;
}

static void nothing(struct sr_link *link)
{
	(void)link;
}

static const struct sr_link_ops to_show = {
	.name = "fake",
	.way = SR_WAY_VERBS,
	.identity = identity,
	.ctl = ctl,
	.poll = nothing,
	.drop = drop,
	.free = nothing, /* there is no loop, which would do that */
};
static const struct sr_link_ops vouched = {
	.name = "fake",
	.vouched = true,
	.ctl = ctl,
	.poll = nothing,
	.drop = drop,
	.free = nothing,
};

/* ---- a stream that has carried something ---- */

static uint8_t token[SR_TOKEN_LEN] = "of the test";
static uint8_t ours[SAID], theirs[SAID];
static struct fake *f;
static struct sr_stream *st;
static int fd, peer;
static uint32_t link_no;

static void stream(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t len = sizeof(a);
	int lfd = socket(AF_INET, SOCK_STREAM, 0);
	struct iovec v = {ours, SAID};
	struct msghdr msg = {.msg_iov = &v, .msg_iovlen = 1};

	memset(ours, 'o', SAID);
	memset(theirs, 't', SAID);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(lfd, (void *)&a, len) && !listen(lfd, 1) &&
	      !getsockname(lfd, (void *)&a, &len));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!connect(fd, (void *)&a, len));
	peer = accept(lfd, NULL, NULL);
	CHECK(peer >= 0 && !close(lfd));
	st = sr_stream_open(fd, AF_INET);
	CHECK(st && !sr_fdtab_set(fd, st));
	/* Which of the two asks does not matter to TCP. */
	sr_st_set(st, SR_ST_CONNECT | SR_ST_ASKED | SR_ST_USED);
	atomic_store(&st->up.verdict, VERDICT_PENDING);
	CHECK_EQ(sr_stream_send(st, fd, &msg, MSG_DONTWAIT), SAID);
	CHECK_EQ(recv(peer, ours, SAID, MSG_WAITALL), SAID);
	CHECK_EQ(send(peer, theirs, SAID, 0), SAID);
	CHECK_EQ(recv(fd, theirs, SAID, MSG_PEEK | MSG_WAITALL), SAID);
	v = (struct iovec){theirs, SAID};
	CHECK_EQ(sr_stream_recv(st, fd, &msg, MSG_DONTWAIT), SAID);
	link_no = 0;
}

static void end(void)
{
	sr_fdtab_take(fd);
	CHECK_EQ(sr_stream_detach(st, fd), 0);
	close(fd);
	close(peer);
}

static void attach(const struct sr_link_ops *ops, enum sr_role role)
{
	struct sr_link *link = sr_link_new(ops, sizeof(*f), role, ++link_no, st,
					   sr_stream_on_link);

	f = (struct fake *)link;
	CHECK(f);
	sr_link_get(link); /* ours, to look at it when it is dropped */
	sr_attach_begin(st, link);
	sr_link_raise(link, SR_LINK_UP);
	sr_attach_progress(st);
}

static void detach(const char *reason)
{
	CHECK(sr_link_events(&f->link) & SR_LINK_DEAD);
	CHECK(!strcmp(f->link.reason, reason));
	sr_attach_progress(st);
	CHECK(!st->up.att);
	sr_link_put(&f->link);
}

/* ---- the other end ---- */

static bool sent(enum sr_msg_type type)
{
	return f->sent & 1u << type;
}

static void take(struct sr_msg *msg)
{
	CHECK_EQ(sr_link_take(&f->link, msg), 0);
	sr_attach_progress(st);
}

static void say_hello(uint64_t have)
{
	struct sr_msg msg = {.type = SR_MSG_HELLO};

	msg.hello.version = SR_WIRE_VERSION;
	msg.hello.role = f->link.role == SR_ROLE_ASKER ? SR_ROLE_ANSWERER : SR_ROLE_ASKER;
	msg.hello.link_no = link_no;
	msg.hello.tx_have = msg.hello.rx_have = have;
	memcpy(msg.hello.token, token, sizeof(token));
	take(&msg);
}

/* What `role` shows of `have` bytes each way. */
static void digest(enum sr_role role, uint64_t have, uint8_t out[SR_DIGEST_LEN])
{
	struct sr_history out_h = {0}, in_h = {0};

	sr_history_add(&out_h, ours, SAID);
	sr_history_add(&in_h, theirs, SAID);
	if (f->link.role == SR_ROLE_ASKER)
		sr_digest(out, role, f->hello.token, token, &out_h, have, &in_h, have,
			  "this one", 8);
	else
		sr_digest(out, role, token, f->hello.token, &in_h, have, &out_h, have,
			  "this one", 8);
}

static void show(uint64_t have, uint8_t change)
{
	struct sr_msg msg = {.type = SR_MSG_PROOF};

	digest(f->link.role == SR_ROLE_ASKER ? SR_ROLE_ANSWERER : SR_ROLE_ASKER, have,
	       msg.digest);
	msg.digest[SR_DIGEST_LEN - 1] ^= change;
	take(&msg);
}

static bool shown(void)
{
	uint8_t want[SR_DIGEST_LEN];

	digest(f->link.role, SAID, want);
	return sent(SR_MSG_PROOF) && !memcmp(f->proof.digest, want, sizeof(want));
}

/* ---- cases ---- */

static void asks(void)
{
	stream();
	attach(&to_show, SR_ROLE_ASKER);
	CHECK(sent(SR_MSG_HELLO) && !sent(SR_MSG_PROOF));
	CHECK_EQ(f->hello.tx_have, SAID);
	CHECK_EQ(f->hello.rx_have, SAID);
	say_hello(SAID);
	CHECK(shown() && !sent(SR_MSG_SWITCH));
	show(SAID, 0);
	CHECK(sent(SR_MSG_SWITCH));
	drop(&f->link, "short");
	detach("short");
	end();
}

static void answers(void)
{
	stream();
	attach(&to_show, SR_ROLE_ANSWERER);
	CHECK(!f->sent);
	say_hello(SAID);
	CHECK(sent(SR_MSG_HELLO) && !sent(SR_MSG_PROOF));
	show(SAID, 0);
	CHECK(shown() && !sent(SR_MSG_SWITCH)); /* before the asker's mark */
	drop(&f->link, "short");
	detach("short");
	end();
}

/* An asker that shows something else is shown nothing; nobody may try often. */
static void guesses(void)
{
	stream();
	for (int i = 0; i < 3; i++) {
		CHECK(!(sr_st_flags(st) & SR_ST_BARRED));
		attach(&to_show, SR_ROLE_ANSWERER);
		say_hello(SAID);
		show(SAID, 1);
		CHECK(!sent(SR_MSG_PROOF));
		detach("history");
	}
	CHECK(sr_st_flags(st) & SR_ST_BARRED);
	end();
}

/* An end that has less than the kernel says it must have. */
static void shows_less(enum sr_role role)
{
	stream();
	attach(&to_show, role);
	say_hello(SAID - 1);
	show(SAID - 1, 0);
	CHECK(!sent(SR_MSG_PROOF) && !sent(SR_MSG_SWITCH));
	detach("unread");
	end();
}

/* Where the kernel has vouched, hello is enough. */
static void kernel_says(enum sr_role role)
{
	stream();
	attach(&vouched, role);
	say_hello(0);
	CHECK(sent(SR_MSG_HELLO) && !sent(SR_MSG_PROOF));
	CHECK_EQ(f->hello.tx_have + f->hello.rx_have, 0);
	CHECK_EQ(sent(SR_MSG_SWITCH), role == SR_ROLE_ASKER);
	drop(&f->link, "short");
	detach("short");
	end();
}

/* The link breaks when the peer's mark is expected: no byte of the peer's need come before
 * the next link is asked for. */
static void breaks(void)
{
	struct sr_msg msg = {.type = SR_MSG_SWITCH};

	stream();
	attach(&to_show, SR_ROLE_ASKER);
	say_hello(SAID);
	show(SAID, 0);
	msg.sw = (struct sr_switch){.n = SAID, .link_no = link_no, .first = 0xf5};
	take(&msg);
	CHECK(sent(SR_MSG_ACKSW));
	drop(&f->link, "device-failed");
	detach("device-failed");
	sr_lock(&st->tx_lock);
	sr_tx_progress(st);
	sr_unlock(&st->tx_lock);
	CHECK_EQ(sr_stream_tx(st), SR_TX_RAW);
	CHECK_EQ(sr_stream_rx(st), SR_RX_EXPECT);
	sr_ask_progress(st);
	CHECK(!(sr_st_flags(st) & SR_ST_ASKED));
	end();
}

int main(void)
{
	sr_conf_load();
	sr_conf.policy.upgrade = SR_LAZY;
	asks();
	answers();
	guesses();
	shows_less(SR_ROLE_ASKER);
	shows_less(SR_ROLE_ANSWERER);
	kernel_says(SR_ROLE_ASKER);
	kernel_says(SR_ROLE_ANSWERER);
	breaks();
	return 0;
}
