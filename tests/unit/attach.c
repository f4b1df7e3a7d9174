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
#include <sys/mman.h>
#include <unistd.h>

#include "base/conf.h"
#include "check.h"
#include "engine/engine.h"
#include "engine/fdtab.h"
#include "engine/owners.h"
#include "engine/impl.h"
#include "pure/pake.h"
#include "sock/sock.h"
#include "upgrade/upgrade.h"

#define SAID 100 /* bytes, each way by TCP before */

struct fake {
	struct sr_link link; /* first */
	unsigned sent;	     /* 1 << type */
	int noted;	     /* the stream's reason when the link was dropped */
	uint8_t share[SR_SHARE_LEN], tag[SR_TAG_LEN];
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
	if (msg->type == SR_MSG_SHARE)
		memcpy(f->share, msg->share, sizeof(f->share));
	if (msg->type == SR_MSG_PROOF)
		memcpy(f->tag, msg->tag, sizeof(f->tag));
	return 0;
}

static size_t identity(struct sr_link *link, uint8_t id[SR_ID_MAX])
{
	(void)link;
	memcpy(id, "this one", 8);
	return 8;
}

static void drop(struct sr_link *link, const char *reason)
{
	struct fake *fake = (struct fake *)link;
	struct sr_stream *stream = link->owner;

	if (!sr_link_raise(link, SR_LINK_DEAD))
		return;
	link->reason = reason;
	fake->noted = stream->reason;
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

static bool by_file;	/* ours are sent by sendfile(2) */

static void fresh(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t len = sizeof(a);
	int lfd = socket(AF_INET, SOCK_STREAM, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(lfd, (void *)&a, len) && !listen(lfd, 1) &&
	      !getsockname(lfd, (void *)&a, &len));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!connect(fd, (void *)&a, len));
	peer = accept(lfd, NULL, NULL);
	CHECK(peer >= 0 && !close(lfd));
	st = sr_stream_open(fd);
	CHECK(st && !sr_fdtab_set(fd, st));
	/* Which of the two asks does not matter to TCP. */
	sr_st_set(st, SR_ST_CONNECT | SR_ST_USED);
	link_no = 0;
}

static void stream(void)
{
	struct iovec v = {ours, SAID};
	struct msghdr msg = {.msg_iov = &v, .msg_iovlen = 1};

	fresh();
	for (int i = 0; i < SAID; i++)
		ours[i] = (uint8_t)(i + 1);
	memset(theirs, 't', SAID);
	if (by_file) {
		int file = memfd_create("file", 0);

		CHECK_EQ(write(file, "not sent", 8), 8);
		CHECK_EQ(write(file, ours, SAID), SAID);
		CHECK_EQ(lseek(file, 8, SEEK_SET), 8);
		CHECK_EQ(sr_stream_sendfile(st, fd, file, NULL, 60), 60);
		CHECK_EQ(sr_stream_sendfile(st, fd, file, (off_t[]){68}, SAID - 60), SAID - 60);
		close(file);
	} else {
		CHECK_EQ(sr_stream_send(st, fd, &msg, MSG_DONTWAIT), SAID);
	}
	CHECK_EQ(recv(peer, ours, SAID, MSG_WAITALL), SAID);
	CHECK_EQ(send(peer, theirs, SAID, 0), SAID);
	CHECK_EQ(recv(fd, theirs, SAID, MSG_PEEK | MSG_WAITALL), SAID);
	v = (struct iovec){theirs, SAID};
	CHECK_EQ(sr_stream_recv(st, fd, &msg, MSG_DONTWAIT), SAID);
}

static void end(void)
{
	sr_fdtab_take(fd);
	sr_stream_detach(st, fd);
	close(fd);
	close(peer);
}

static bool greets;	/* the link lets the answerer say HELLO first */

static void attach(const struct sr_link_ops *ops, enum sr_role role)
{
	struct sr_link *link = sr_link_new(ops, sizeof(*f), role, ++link_no, st,
					   sr_stream_on_link);

	f = (struct fake *)link;
	CHECK(f);
	link->proof = ops == &vouched ? SR_PROOF_NONE : SR_PROOF_POLICY;
	link->greets = greets;
	sr_link_get(link); /* ours, to look at it when it is dropped */
	sr_prove_know(st);
	st->up.state = role == SR_ROLE_ASKER ? SR_ASK_ASKING : SR_ASK_IDLE;
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

/* The library has given the link up.  It has noted the stream's reason before, because the peer
 * may end the stream as soon as it hears that. */
static void given_up(const char *reason)
{
	CHECK_EQ(f->noted, sr_reason_find(reason));
	detach(reason);
	CHECK_EQ(st->reason, sr_reason_find(reason));
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

static struct {
	struct sr_hello hello;
	struct sr_history history[2]; /* from the asker, from the answerer */
	struct sr_pake pake;
	uint8_t tag[2][SR_TAG_LEN];
} other;

static int me(void) /* 0: the asker, 1: the answerer */
{
	return f->link.role == SR_ROLE_ASKER;
}

static void say_hello(uint64_t have)
{
	struct sr_msg msg = {.type = SR_MSG_HELLO};

	msg.hello.version = SR_WIRE_VERSION;
	msg.hello.role = me() ? SR_ROLE_ANSWERER : SR_ROLE_ASKER;
	msg.hello.link_no = link_no;
	msg.hello.tx_have = msg.hello.rx_have = have;
	msg.hello.proves = other.hello.proves;
	memcpy(msg.hello.token, token, sizeof(token));
	other.hello = msg.hello;
	take(&msg);
}

/* It knows the stream, but for `wrong` in one byte of the direction of `who`. */
static void remember(int who, uint8_t wrong)
{
	bool ask = f->link.role == SR_ROLE_ASKER;

	memset(other.history, 0, sizeof(other.history));
	sr_history_add(&other.history[0], ask ? ours : theirs, SAID);
	sr_history_add(&other.history[1], ask ? theirs : ours, SAID);
	other.history[who].bytes[SAID - 1] ^= wrong;
}

static struct sr_octets session(void)
{
	static uint8_t tokens[2 * SR_TOKEN_LEN];

	memcpy(tokens + SR_TOKEN_LEN * !me(), f->hello.token, SR_TOKEN_LEN);
	memcpy(tokens + SR_TOKEN_LEN * me(), token, SR_TOKEN_LEN);
	return (struct sr_octets){tokens, sizeof(tokens)};
}

static void make_share(void)
{
	uint8_t password[SR_SHA512_LEN], channel[SR_NAME_LEN + 8];
	struct sr_name name = st->rare->name;
	uint64_t have = other.hello.tx_have;
	struct sr_pake_terms terms = {
		{password, sizeof(password)}, {channel, sizeof(channel)}, session()};

	sr_history_password(sr_sodium(), password, &other.history[0], have,
			    &other.history[1], have);
	name.link_no = link_no;
	sr_name_encode(&name, channel);
	memcpy(channel + SR_NAME_LEN, "this one", 8);
	sr_pake_begin(sr_sodium(), &other.pake, &terms);
}

static void say_share(const uint8_t share[SR_SHARE_LEN])
{
	struct sr_msg msg = {.type = SR_MSG_SHARE};

	memcpy(msg.share, share, SR_SHARE_LEN);
	take(&msg);
}

static void make_tags(void)
{
	struct sr_pake_end end[2];
	uint8_t key[SR_SHA512_LEN], have[8] = {0};
	uint8_t data[2 * sizeof(have)];
	int us = me();

	CHECK(f->hello.tx_have == SAID && f->hello.rx_have == SAID &&
	      other.hello.tx_have == SAID);
	have[7] = SAID;
	memcpy(data, have, sizeof(have));
	memcpy(data + sizeof(have), have, sizeof(have));
	end[us] = (struct sr_pake_end){{other.pake.share, SR_SHARE_LEN},
				       {data, sizeof(data)}};
	end[!us] = (struct sr_pake_end){{f->share, SR_SHARE_LEN}, {data, sizeof(data)}};
	CHECK_EQ(sr_pake_key(sr_sodium(), &other.pake, session(), end, us, key), 0);
	for (int i = 0; i < 2; i++)
		sr_pake_tag(sr_sodium(), key, i, other.tag[i]);
}

static void show(const uint8_t tag[SR_TAG_LEN])
{
	struct sr_msg msg = {.type = SR_MSG_PROOF};

	memcpy(msg.tag, tag, SR_TAG_LEN);
	take(&msg);
}

static bool shown(void)
{
	return sent(SR_MSG_PROOF) && !memcmp(f->tag, other.tag[!me()], SR_TAG_LEN);
}

/* Up to the shares. */
static void meet(enum sr_role role, int who, uint8_t wrong)
{
	attach(&to_show, role);
	remember(who, wrong);
	say_hello(SAID);
	CHECK(sent(SR_MSG_HELLO) && sent(SR_MSG_SHARE) && !sent(SR_MSG_PROOF));
	make_share();
	say_share(other.pake.share);
	make_tags();
}

/* ---- cases ---- */

static void asks(void)
{
	stream();
	attach(&to_show, SR_ROLE_ASKER);
	CHECK(sent(SR_MSG_HELLO) && !sent(SR_MSG_SHARE));
	CHECK_EQ(f->hello.tx_have, SAID);
	CHECK_EQ(f->hello.rx_have, SAID);
	CHECK_EQ(f->hello.proves, 1);
	drop(&f->link, "short");
	detach("short");
	meet(SR_ROLE_ASKER, 0, 0);
	CHECK(shown() && !sent(SR_MSG_SWITCH));
	show(other.tag[1]);
	CHECK(sent(SR_MSG_SWITCH) && st->up.proven);
	drop(&f->link, "short");
	detach("short");
	CHECK_EQ(st->up.guesses, 0);
	end();
}

static void answers(void)
{
	stream();
	attach(&to_show, SR_ROLE_ANSWERER);
	CHECK(!f->sent);
	drop(&f->link, "short");
	detach("short");
	meet(SR_ROLE_ANSWERER, 0, 0);
	CHECK(!sent(SR_MSG_PROOF) && !st->up.proven);
	show(other.tag[0]);
	CHECK(shown() && !sent(SR_MSG_SWITCH)); /* before the asker's mark */
	CHECK(st->up.proven && st->up.checked);
	drop(&f->link, "short");
	detach("short");
	CHECK_EQ(st->up.guesses, 0);
	end();
}

/* The parent forks when the peer has proven itself, and no direction has switched; then it
 * closes the stream.  The child has another link, for which the peer proves itself anew. */
static void forked(void)
{
	struct sr_link *parents;

	stream();
	meet(SR_ROLE_ANSWERER, 0, 0);
	show(other.tag[0]);
	CHECK(st->up.checked);
	parents = &f->link;
	sr_owners_share(st, NULL);
	sr_owners_inherit(st);
	atomic_store(&atomic_load(&st->owned.slot)->owners, 1);
	meet(SR_ROLE_ANSWERER, 0, 0);
	CHECK(!st->up.checked);
	show(other.tag[0]);
	CHECK(shown() && st->up.proven && st->up.checked);
	drop(&f->link, "short");
	detach("short");
	sr_link_put(parents);
	sr_link_put(parents);
	end();
}

/* What a wrong guess is, and that nobody may guess often. */
static void guess(enum sr_role role, int i)
{
	meet(role, i & 1, 1);
	CHECK_EQ(sent(SR_MSG_PROOF), role == SR_ROLE_ASKER);
	CHECK(!shown());
	if (role == SR_ROLE_ANSWERER || i) {
		show(other.tag[me()]);
		given_up("history");
	} else {	/* it has got what it came for */
		drop(&f->link, "peer-dropped");
		detach("peer-dropped");
	}
	CHECK_EQ(sent(SR_MSG_PROOF), role == SR_ROLE_ASKER);
	CHECK(!sent(SR_MSG_SWITCH));
}

static void guesses(enum sr_role role)
{
	stream();
	for (int i = 0; i < 3; i++) {
		CHECK(!(sr_st_flags(st) & SR_ST_BARRED));
		CHECK_EQ(st->up.guesses, i);
		guess(role, i);
	}
	CHECK(sr_st_flags(st) & SR_ST_BARRED);
	end();
}

/* A thread is reading, so nobody can look ahead of it; it has taken n bytes since, and long ago
 * our hello began to wait for these. */
static void read_some(size_t n)
{
	struct iovec v = {theirs, n};
	struct msghdr msg = {.msg_iov = &v, .msg_iovlen = 1};

	CHECK(sr_rx_gate_leave(st));
	CHECK_EQ(sr_stream_recv(st, fd, &msg, MSG_DONTWAIT), (ssize_t)n);
	CHECK(sr_rx_gate_enter(st, false));
	st->up.proving.stock_ns -= 1000000000;
	sr_attach_progress(st);
}

/* Our hello waits for a program that goes on reading, however slowly; and for no other one. */
static void reads_slowly(void)
{
	stream();
	CHECK_EQ(send(peer, theirs, SAID, 0), SAID);
	CHECK_EQ(recv(fd, theirs, SAID, MSG_PEEK | MSG_WAITALL), SAID);
	CHECK(sr_rx_gate_enter(st, false));
	attach(&to_show, SR_ROLE_ASKER);
	CHECK(!sent(SR_MSG_HELLO));
	for (int i = 0; i < 5; i++) {
		read_some(10);
		CHECK(!sent(SR_MSG_HELLO));
	}
	st->up.proving.stock_ns -= 1000000000;
	sr_attach_progress(st);
	CHECK(sent(SR_MSG_HELLO));
	CHECK_EQ(f->hello.rx_have, SAID + 50);
	CHECK(sr_rx_gate_leave(st));
	drop(&f->link, "short");
	detach("short");
	end();
}

/* A handshake that takes too long, and one whose stream has got another owner. */
static void ends_early(enum sr_role role)
{
	stream();
	meet(role, 0, 0);
	st->up.since = 1;
	sr_attach_progress(st);
	given_up("timeout");
	meet(role, 0, 0);
	sr_owners_share(st, NULL);
	sr_attach_progress(st);
	given_up("fork");
	end();
}

/* An asker that goes before it shows a tag has learnt nothing. */
static void goes_early(void)
{
	stream();
	for (int i = 0; i < 5; i++) {
		meet(SR_ROLE_ANSWERER, 0, 1);
		drop(&f->link, "peer-dropped");
		detach("peer-dropped");
	}
	CHECK_EQ(st->up.guesses, 0);
	end();
}

/* An end that has less than the kernel says it must have is not even sent a share,
 * whatever the offsets. */
static void shows_less(enum sr_role role)
{
	stream();
	for (unsigned have = 0; have < SAID; have += 33) {
		attach(&to_show, role);
		say_hello(have);
		CHECK(sent(SR_MSG_HELLO) && !sent(SR_MSG_SHARE) && !sent(SR_MSG_PROOF));
		given_up("unread");
	}
	end();
}

/* Shares that nobody can have made who knows what he does. */
static void bad_shares(enum sr_role role)
{
	static const uint8_t zero[SR_SHARE_LEN];
	uint8_t share[SR_SHARE_LEN];

	stream();
	for (int i = 0; i < 3; i++) {
		attach(&to_show, role);
		say_hello(SAID);
		memset(share, 0xff, sizeof(share));
		say_share(i == 0 ? zero : i == 1 ? share : f->share);
		CHECK(!sent(SR_MSG_PROOF) && !sent(SR_MSG_SWITCH));
		given_up("protocol");
	}
	CHECK_EQ(st->up.guesses, 0);
	end();
}

/* What was right once comes again, all of it. */
static void replayed(enum sr_role role)
{
	uint8_t share[SR_SHARE_LEN], tag[2][SR_TAG_LEN], shown_before[SR_TAG_LEN];

	stream();
	meet(role, 0, 0);
	show(other.tag[me()]);
	CHECK(shown() && st->up.proven);
	memcpy(share, other.pake.share, sizeof(share));
	memcpy(tag, other.tag, sizeof(tag));
	memcpy(shown_before, f->tag, sizeof(f->tag));
	drop(&f->link, "short");
	detach("short");
	link_no--;	/* the number, too */
	attach(&to_show, role);
	say_hello(SAID);
	say_share(share);
	show(tag[me()]);
	CHECK(!sent(SR_MSG_SWITCH) && memcmp(f->tag, shown_before, SR_TAG_LEN));
	given_up("history");
	CHECK_EQ(st->up.guesses, 1);
	end();
}

/* The peer has no libsodium, or the stream has carried nothing yet: no history is shown. */
static void shows_nothing(enum sr_role role, enum sr_upgrade policy, bool proves,
			  const char *reason)
{
	struct sr_policy p = sr_conf.policy;

	if (proves)
		fresh();
	else
		stream();
	p.upgrade = policy;
	st->policy = &p;
	other.hello.proves = proves;
	attach(&to_show, role);
	say_hello(proves ? 0 : SAID);
	CHECK(!sent(SR_MSG_SHARE) && !sent(SR_MSG_PROOF) && !st->up.proven);
	CHECK_EQ(sent(SR_MSG_SWITCH), role == SR_ROLE_ASKER && policy == SR_EAGER);
	CHECK_EQ(st->up.checked, policy == SR_EAGER);
	if (policy == SR_EAGER)
		drop(&f->link, reason);
	detach(reason);
	other.hello.proves = 1;
	st->policy = &sr_conf.policy;
	end();
}

/* Where the kernel has vouched, hello is enough. */
static void kernel_says(enum sr_role role)
{
	stream();
	attach(&vouched, role);
	say_hello(0);
	CHECK(sent(SR_MSG_HELLO) && !sent(SR_MSG_SHARE) && !sent(SR_MSG_PROOF));
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
	meet(SR_ROLE_ASKER, 0, 0);
	show(other.tag[1]);
	msg.sw = (struct sr_switch){.n = SAID, .link_no = link_no};
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
	CHECK_EQ(st->up.state, SR_ASK_PAUSED);
	end();
}

/* Where the link lets it, the answerer says HELLO before it has the asker's.  The proof is the same. */
static void greets_first(void)
{
	stream();
	greets = true;
	attach(&to_show, SR_ROLE_ANSWERER);
	CHECK(sent(SR_MSG_HELLO) && !sent(SR_MSG_SHARE));
	CHECK(f->hello.tx_have == SAID && f->hello.rx_have == SAID);
	drop(&f->link, "short");
	detach("short");
	meet(SR_ROLE_ANSWERER, 0, 0);
	show(other.tag[0]);
	CHECK(shown() && st->up.proven);
	drop(&f->link, "short");
	detach("short");
	greets = false;
	end();
}

/* A link over RDMA dies before HELLO.  Then nobody need know Sockrail there, unless the peer has
 * answered before. */
static void dies_unheard(bool heard)
{
	stream();
	attach(&to_show, SR_ROLE_ASKER);
	st->up.heard = heard;
	drop(&f->link, "peer-dropped");
	f->link.ops = &sr_link_verbs;
	sr_attach_progress(st);
	f->link.ops = &to_show;
	CHECK(!st->up.att);
	CHECK_EQ(st->reason, heard ? SR_REASON_PEER_DROPPED : SR_REASON_NO_LISTENER);
	sr_link_put(&f->link);
	end();
}

int main(void)
{
	static const enum sr_role roles[] = {SR_ROLE_ASKER, SR_ROLE_ANSWERER};

	sr_conf_load();
	sr_conf.policy.upgrade = SR_LAZY;
	for (int i = 0; i < 2; i++)
		kernel_says(roles[i]);
	if (!sr_sodium())
		return 77;
	other.hello.proves = 1;
	asks();
	answers();
	greets_first();
	forked();
	by_file = true;
	asks();
	by_file = false;
	breaks();
	dies_unheard(false);
	dies_unheard(true);
	goes_early();
	for (int i = 0; i < 2; i++)
		ends_early(roles[i]);
	reads_slowly();
	for (int i = 0; i < 2; i++) {
		guesses(roles[i]);
		shows_less(roles[i]);
		bad_shares(roles[i]);
		replayed(roles[i]);
		shows_nothing(roles[i], SR_LAZY, false, "no-libsodium");
		shows_nothing(roles[i], SR_EAGER, false, "no-libsodium");
		shows_nothing(roles[i], SR_LAZY, true, "history");
		shows_nothing(roles[i], SR_EAGER, true, "short");
	}
	return 0;
}
