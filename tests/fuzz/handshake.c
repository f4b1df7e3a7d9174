/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * handshake.c - somebody who has a link to a stream's end, but neither the stream nor what it
 * has carried, tries to be its peer: any hello, any share and tag, his own or the end's, in
 * any order, and again and again.  The end never switches, nor agrees to; it says nothing on
 * TCP; as the answerer it shows no tag, and as the asker three at most.
 */
#include "fuzz.h"
#include "loop_hold.h"
#include "upgrade/upgrade.h"

#define STEPS 60
#define ATTEMPTS 6
#define SAID 64		/* bytes, each way by TCP before */

static struct fuzz f;
static struct fake_pair e;
static enum sr_role role;
static unsigned attempts, tags;

static size_t identity(struct sr_link *link, uint8_t id[SR_ID_MAX])
{
	(void)link;
	memcpy(id, "this one", 8);
	return 8;
}

static void drop(const char *reason)
{
	if (!(sr_link_events(&e.f->link) & SR_LINK_DEAD))
		fake_drop(&e.f->link, reason);
}

/* The last message of a type that the end has sent, or NULL. */
static const struct sr_msg *said(enum sr_msg_type type)
{
	for (unsigned i = 0; i < e.f->count; i++)
		if (e.f->sent[i].type == type)
			return &e.f->sent[i];
	return NULL;
}

/* Bytes of the end's own, of the input, or zeros. */
static void choose(uint8_t *to, const uint8_t *own, size_t n)
{
	unsigned how = fuzz_below(&f, 4);

	memset(to, 0, n);
	if (own && how < 2)
		memcpy(to, own, n);
	else if (how == 2)
		fuzz_copy(&f, to, n);
	if (!fuzz_below(&f, 8))
		to[fuzz_below(&f, (unsigned)n)] ^= (uint8_t)fuzz_bytes(&f, 1);
}

static void fill(struct sr_msg *msg)
{
	const struct sr_msg *own = said(msg->type);

	switch (msg->type) {
	case SR_MSG_HELLO:
		msg->hello = (struct sr_hello){
			.version = SR_WIRE_VERSION,
			.role = role == SR_ROLE_ASKER ? SR_ROLE_ANSWERER : SR_ROLE_ASKER,
			.link_no = e.f->link.link_no,
			.tx_have = fuzz_below(&f, 4) ? SAID : fuzz_number(&f, SAID),
			.rx_have = fuzz_below(&f, 4) ? SAID : fuzz_number(&f, SAID),
			.proves = fuzz_below(&f, 8) > 0,
		};
		choose(msg->hello.token, own ? own->hello.token : NULL, SR_TOKEN_LEN);
		break;
	case SR_MSG_SHARE:
		choose(msg->share, own ? own->share : NULL, sizeof(msg->share));
		break;
	case SR_MSG_PROOF:
		choose(msg->tag, own ? own->tag : NULL, sizeof(msg->tag));
		break;
	case SR_MSG_SWITCH:
		msg->sw = (struct sr_switch){.n = fuzz_number(&f, SAID) & INT64_MAX,
					     .link_no = e.f->link.link_no};
		break;
	case SR_MSG_END:
		msg->end = fuzz_number(&f, SAID);
		break;
	default:
		break;
	}
}

static void says(void)
{
	static const enum sr_msg_type types[] = {
		SR_MSG_HELLO, SR_MSG_SHARE, SR_MSG_PROOF, SR_MSG_SWITCH,
		SR_MSG_ACKSW, SR_MSG_END, SR_MSG_ACKEND,
	};
	struct sr_msg msg;

	memset(&msg, 0, sizeof(msg));
	msg.type = types[fuzz_below(&f, 7)];
	fill(&msg);
	if (sr_link_events(&e.f->link) & SR_LINK_DEAD)
		return;
	if (sr_link_take(&e.f->link, &msg))
		drop("protocol");
}

/* ---- the end ---- */

static void nothing_given_away(void)
{
	char byte;

	CHECK(!said(SR_MSG_SWITCH) && !said(SR_MSG_ACKSW) && !said(SR_MSG_ACKEND));
	CHECK(!e.st->up.checked);
	CHECK(role == SR_ROLE_ASKER || !said(SR_MSG_PROOF));
	CHECK(tags + (said(SR_MSG_PROOF) != NULL) <= 3);
	CHECK(recv(e.peer, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
}

static void attempt(void)
{
	static struct sr_link_ops ops;
	struct sr_link *link;

	ops = fake_ops;
	ops.identity = identity;
	link = sr_link_new(&ops, sizeof(struct fake), role, ++attempts, e.st,
			   sr_stream_on_link);
	CHECK(link);
	sr_link_put(&e.f->link);
	e.f = fake_of(link);
	pthread_mutex_init(&e.f->lock, NULL);
	e.f->doorbell = -1;
	e.st->up.state = role == SR_ROLE_ASKER ? SR_ASK_ASKING : SR_ASK_IDLE;
	sr_attach_begin(e.st, sr_link_get(link));
	sr_link_raise(link, SR_LINK_UP);
	sr_attach_progress(e.st);
}

static void again(void)
{
	drop("peer-dropped");
	sr_attach_progress(e.st);
	CHECK(!e.st->up.att);
	nothing_given_away();
	if (attempts == ATTEMPTS || (sr_st_flags(e.st) & SR_ST_BARRED))
		return;
	tags += said(SR_MSG_PROOF) != NULL;
	attempt();
}

static void talk(void)
{
	uint8_t buf[SAID], got[SAID];

	memset(buf, 's', SAID);
	CHECK_EQ(fake_write(&e, buf, SAID), SAID);
	CHECK_EQ(recv(e.peer, got, SAID, MSG_WAITALL), SAID);
	memset(buf, 'p', SAID);
	CHECK_EQ(send(e.peer, buf, SAID, 0), SAID);
	while (fake_recv(&e, got, SAID) != SAID)
		;
}

static void begin(void)
{
	loop_hold();
	role = fuzz_below(&f, 2) ? SR_ROLE_ASKER : SR_ROLE_ANSWERER;
	attempts = tags = 0;
	e = fake_begin(false);
	sr_st_set(e.st, SR_ST_USED);
	talk();
	attempt();
}

void fuzz_handshake(const uint8_t *data, size_t size)
{
	f = (struct fuzz){data, size};
	begin();
	for (int i = 0; i < STEPS && f.left && e.st->up.att; i++) {
		switch (fuzz_below(&f, 8)) {
		case 0:
			again();
			break;
		case 1: case 2: case 3:
			sr_attach_progress(e.st);
			break;
		default:
			says();
		}
		nothing_given_away();
	}
	drop("peer-dropped");
	sr_attach_progress(e.st);
	fake_over(&e);
}
