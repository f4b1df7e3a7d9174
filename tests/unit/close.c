/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * close.c - what close(2) of a stream on a fake link does, with the service thread: what
 * TCP's other end sees, and when.
 */
#include "fake_link.h"

#include "base/loop.h"

static uint8_t buf[FAKE_RING];

/* The error or end that TCP's other end receives at last: 0 or -errno. */
static int peer_end(struct fake_pair *e)
{
	ssize_t r;

	do
		r = recv(e->peer, buf, sizeof(buf), 0);
	while (r > 0);
	return r < 0 ? -errno : 0;
}

static bool peer_is_quiet(struct fake_pair *e)
{
	usleep(20000);
	return recv(e->peer, buf, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void await_said(struct fake_pair *e, enum sr_msg_type type)
{
	for (int i = 0; i < 10000; i++) {
		if (e->f->count && fake_said(e->f)->type == type)
			return;
		usleep(1000);
	}
	CHECK(!"said");
}

/* The stream is over: the link has been given back. */
static void await_over(struct fake_pair *e)
{
	unsigned before = fakes_freed;

	sr_link_put(&e->f->link);	/* the test's reference */
	for (int i = 0; i < 10000 && fakes_freed == before; i++)
		usleep(1000);
	CHECK_EQ(fakes_freed, before + 1);
	close(e->peer);
}

/* END by the link; FIN when the peer has acknowledged it; and the stream lives until the
 * peer has ended, too. */
static void orderly(void)
{
	struct fake_pair e = fake_linked(false);

	CHECK_EQ(fake_write(&e, "abc", 3), 3);
	fake_close(&e);
	await_said(&e, SR_MSG_END);
	CHECK_EQ(fake_said(e.f)->end, 3);
	CHECK(peer_is_quiet(&e));
	fake_take(e.f, buf, 3);
	fake_say(e.f, (struct sr_msg){ .type = SR_MSG_ACKEND });
	CHECK_EQ(peer_end(&e), 0);
	CHECK(atomic_load(&e.f->link.refs) > 1);
	fake_say(e.f, (struct sr_msg){ .type = SR_MSG_END });
	await_said(&e, SR_MSG_ACKEND);
	CHECK_EQ(shutdown(e.peer, SHUT_WR), 0);
	await_over(&e);
}

/* The peer has ended first: its FIN comes before ours. */
static void second(void)
{
	struct fake_pair e = fake_linked(false);

	fake_say(e.f, (struct sr_msg){ .type = SR_MSG_END });
	CHECK_EQ(fake_recv(&e, buf, 1), 0);
	fake_close(&e);
	await_said(&e, SR_MSG_END);
	fake_say(e.f, (struct sr_msg){ .type = SR_MSG_ACKEND });
	CHECK(peer_is_quiet(&e));
	CHECK_EQ(shutdown(e.peer, SHUT_WR), 0);
	CHECK_EQ(peer_end(&e), 0);
	await_over(&e);
}

/* Unread bytes, or bytes that come after it: a reset, as with TCP. */
static void unread(bool later)
{
	struct fake_pair e = fake_linked(false);

	if (!later)
		fake_send(e.f, "abc", 3);
	fake_close(&e);
	if (later) {
		await_said(&e, SR_MSG_END);
		fake_send(e.f, "abc", 3);
		fake_poll(&e.f->link);
	}
	CHECK_EQ(peer_end(&e), -ECONNRESET);	/* then the link goes */
	for (int i = 0; i < 10000 && !(sr_link_events(&e.f->link) & SR_LINK_DEAD); i++)
		usleep(1000);
	CHECK(sr_link_events(&e.f->link) & SR_LINK_DEAD);
	await_over(&e);
}

/* The link fails behind the close: the bytes and the end go by TCP. */
static void fails(void)
{
	struct fake_pair e = fake_linked(false);

	CHECK_EQ(fake_write(&e, "abc", 3), 3);
	fake_close(&e);
	await_said(&e, SR_MSG_END);
	e.f->link.ops->drop(&e.f->link, "test");
	fake_peer_resumes(&e, 0, "abc");
	CHECK_EQ(peer_end(&e), 0);
	CHECK_EQ(shutdown(e.peer, SHUT_WR), 0);
	await_over(&e);
}

/* The peer resends after our close what we had not acknowledged: no reset. */
static void peer_resumes(void)
{
	struct fake_pair e = fake_linked(false);
	uint8_t record[SR_RECORD_LEN];

	fake_send(e.f, "abc", 3);
	CHECK_EQ(fake_recv(&e, buf, 3), 3);
	fake_close(&e);
	await_said(&e, SR_MSG_END);
	e.f->link.ops->drop(&e.f->link, "test");
	sr_resume_make(record, 0, 3);
	CHECK_EQ(send(e.peer, record, sizeof(record), 0), sizeof(record));
	CHECK_EQ(send(e.peer, "abc", 3, 0), 3);
	fake_peer_resumes(&e, 0, "");
	CHECK_EQ(peer_end(&e), 0);
	CHECK_EQ(shutdown(e.peer, SHUT_WR), 0);
	await_over(&e);
}

int main(void)
{
	CHECK_EQ(sr_loop_start(), 0);
	orderly();
	second();
	unread(false);
	unread(true);
	fails();
	peer_resumes();
	return 0;
}
