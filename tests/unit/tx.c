/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tx.c - the direction that a stream sends, over a fake link: the switch, room, the end,
 * and the way back to TCP.
 */
#include <netinet/tcp.h>
#include <sys/syscall.h>

#include "fake_link.h"

static uint8_t buf[2 * FAKE_RING];

static bool peer_has_bytes(struct fake_pair *e)
{
	return recv(e->peer, buf, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* No mark before the ACKSW, and no byte of the program before the mark. */
static void switches(void)
{
	struct fake_pair e = fake_begin(true);

	CHECK_EQ(fake_write(&e, "raw", 3), 3);
	CHECK_EQ(fake_peer_gets(&e, buf, 64), 3);
	fake_tx_start(&e);
	CHECK_EQ(fake_said(e.f)->type, SR_MSG_SWITCH);
	CHECK_EQ(fake_said(e.f)->sw.n, 3);
	CHECK_EQ(e.st->tx.state, SR_TX_WAIT);
	fake_progress(&e);
	CHECK(!peer_has_bytes(&e));
	fake_say(e.f, (struct sr_msg){ .type = SR_MSG_ACKSW });
	fake_progress(&e);
	CHECK_EQ(fake_peer_gets(&e, buf, 64), SR_RECORD_LEN);
	CHECK_EQ(e.st->tx.state, SR_TX_LINK);
	CHECK_EQ(fake_write(&e, "link", 4), 4);
	fake_take(e.f, buf, 4);
	CHECK(!memcmp(buf, "link", 4));
	CHECK(!peer_has_bytes(&e));
	fake_end(&e);
}

/* A send that does not sleep takes what there is room for. */
static void room(void)
{
	struct fake_pair e = fake_linked(true);

	CHECK_EQ(fake_write(&e, buf, FAKE_RING + 1), FAKE_RING);
	CHECK_EQ(fake_write(&e, buf, 1), -EAGAIN);
	fake_take(e.f, buf, 100);
	fake_poll(&e.f->link);
	CHECK_EQ(e.f->link.tx_acked, 100);
	CHECK_EQ(fake_write(&e, buf, 200), 100);
	CHECK_EQ(e.st->tx.w, FAKE_RING + 100);
	fake_end(&e);
}

/* END goes by the link, and TCP's FIN only when the peer has acknowledged it. */
static void ends(void)
{
	struct fake_pair e = fake_linked(true);

	CHECK_EQ(fake_write(&e, "abc", 3), 3);
	CHECK_EQ(sr_stream_shutdown(e.st, e.fd, SHUT_WR), 0);
	CHECK_EQ(fake_said(e.f)->type, SR_MSG_END);
	CHECK_EQ(fake_said(e.f)->end, 3);
	CHECK_EQ(fake_write(&e, "d", 1), -EPIPE);
	fake_progress(&e);
	CHECK_EQ(recv(e.peer, buf, 1, MSG_DONTWAIT), -1);
	fake_take(e.f, buf, 3);
	fake_say(e.f, (struct sr_msg){ .type = SR_MSG_ACKEND });
	fake_progress(&e);
	CHECK_EQ(e.st->tx.state, SR_TX_DONE);
	CHECK_EQ(fake_peer_gets(&e, buf, 64), 0);
	fake_end(&e);
}

/* The link fails: what the peer's program has not taken comes again by TCP. */
static void fails(void)
{
	struct fake_pair e = fake_linked(true);

	CHECK_EQ(fake_write(&e, "abcdef", 6), 6);
	fake_take(e.f, buf, 2);
	fake_poll(&e.f->link);
	e.f->link.ops->drop(&e.f->link, "test");
	fake_progress(&e);
	fake_peer_resumes(&e, 2, "cdef");
	CHECK_EQ(e.st->tx.state, SR_TX_RAW);
	CHECK(!sr_gate_shut(&e.st->out.gate));
	CHECK_EQ(fake_write(&e, "plain", 5), 5);
	CHECK_EQ(fake_peer_gets(&e, buf, 64), 5);
	fake_end(&e);
}

/* The same with an END that was not acknowledged: FIN follows the bytes. */
static void fails_at_end(void)
{
	struct fake_pair e = fake_linked(true);

	CHECK_EQ(fake_write(&e, "abc", 3), 3);
	CHECK_EQ(sr_stream_shutdown(e.st, e.fd, SHUT_WR), 0);
	e.f->link.ops->drop(&e.f->link, "test");
	fake_progress(&e);
	fake_peer_resumes(&e, 0, "abc");
	CHECK_EQ(fake_peer_gets(&e, buf, 64), 0);
	fake_end(&e);
}

/* RESUME is to be acknowledged within the time that the program chose for keepalive, which
 * TCP does not use while bytes are on their way; if it chose none, nothing changes. */
static void keeps_alive(int idle, int limit)
{
	struct fake_pair e = fake_linked(true);
	int got = -1;
	socklen_t len = sizeof(got);

	if (idle)
		CHECK(!setsockopt(e.fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)) &&
		      !setsockopt(e.fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof(idle)));
	e.f->link.ops->drop(&e.f->link, "test");
	fake_progress(&e);
	fake_peer_resumes(&e, 0, "");
	CHECK(!getsockopt(e.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &got, &len));
	CHECK_EQ(got, limit);
	fake_end(&e);
}

/* It fails before the mark: nothing has happened. */
static void fails_early(void)
{
	struct fake_pair e = fake_begin(true);

	fake_tx_start(&e);
	e.f->link.ops->drop(&e.f->link, "test");
	fake_progress(&e);
	CHECK_EQ(e.st->tx.state, SR_TX_RAW);
	CHECK_EQ(fake_write(&e, "plain", 5), 5);
	CHECK_EQ(fake_peer_gets(&e, buf, 64), 5);
	CHECK_EQ(sr_history_seen(&e.st->rare->out), 5);
	fake_end(&e);
}

/* It fails behind the ACKSW: the peer expects a mark, and must not wait for it. */
static void fails_before_mark(void)
{
	struct fake_pair e = fake_begin(true);

	fake_tx_start(&e);
	fake_say(e.f, (struct sr_msg){ .type = SR_MSG_ACKSW });
	e.f->link.ops->drop(&e.f->link, "test");
	fake_progress(&e);
	CHECK_EQ(recv(e.peer, buf, SR_RECORD_LEN, MSG_WAITALL), SR_RECORD_LEN);
	fake_peer_resumes(&e, 0, "");
	CHECK_EQ(e.st->tx.state, SR_TX_RAW);
	CHECK_EQ(fake_write(&e, "plain", 5), 5);
	CHECK_EQ(fake_peer_gets(&e, buf, 64), 5);
	CHECK_EQ(sr_history_seen(&e.st->rare->out), 0);	/* it ends at the mark */
	fake_end(&e);
}

/* Not if it failed because the peer's process has ended: TCP says that. */
static void ends_before_mark(void)
{
	struct fake_pair e = fake_begin(true);

	fake_tx_start(&e);
	fake_say(e.f, (struct sr_msg){ .type = SR_MSG_ACKSW });
	CHECK_EQ(shutdown(e.peer, SHUT_WR), 0);
	e.f->link.ops->drop(&e.f->link, "test");
	fake_progress(&e);
	CHECK_EQ(e.st->tx.state, SR_TX_RAW);
	CHECK(!peer_has_bytes(&e));
	fake_end(&e);
}

/* This end wants to go back. */
static void goes_back(void)
{
	struct fake_pair e = fake_linked(true);

	CHECK_EQ(fake_write(&e, "abc", 3), 3);
	e.st->want_tcp = true;
	fake_progress(&e);
	fake_peer_resumes(&e, 0, "abc");
	CHECK_EQ(e.st->tx.state, SR_TX_RAW);
	CHECK(sr_link_events(&e.f->link) & SR_LINK_DEAD);
	fake_end(&e);
}

/* The peer claims to have taken more than was sent. */
static void peer_lies(void)
{
	struct fake_pair e = fake_linked(true);

	CHECK_EQ(fake_write(&e, "abc", 3), 3);
	e.f->link.tx_acked = 4;
	fake_progress(&e);
	CHECK(sr_link_events(&e.f->link) & SR_LINK_DEAD);
	CHECK(!strcmp(e.f->link.reason, "protocol"));
	fake_progress(&e);
	fake_peer_resumes(&e, 0, "abc");
	fake_end(&e);
}

/* ---- somebody else writes to the socket ---- */

static void strange_write(struct fake_pair *e)
{
	CHECK_EQ(syscall(SYS_write, e->fd, "stranger", 8), 8);
}

/* Between SWITCH and mark: the bytes are the program's, and no mark may follow them. */
static void strange_before_mark(void)
{
	struct fake_pair e = fake_begin(true);

	fake_tx_start(&e);
	strange_write(&e);
	fake_say(e.f, (struct sr_msg){ .type = SR_MSG_ACKSW });
	fake_progress(&e);
	CHECK_EQ(e.st->tx.state, SR_TX_RAW);
	CHECK(sr_link_events(&e.f->link) & SR_LINK_DEAD);
	CHECK_EQ(atomic_load(&e.st->reason), SR_REASON_COUNTERS);
	CHECK_EQ(fake_write(&e, "plain", 5), 5);
	CHECK_EQ(recv(e.peer, buf, 13, MSG_WAITALL), 13);
	CHECK(!memcmp(buf, "strangerplain", 13));
	CHECK(!peer_has_bytes(&e));
	fake_end(&e);
}

static void check_reset(struct fake_pair *e)
{
	CHECK_EQ(e->st->tx.state, SR_TX_DONE);
	CHECK_EQ(atomic_load(&e->st->reason), SR_REASON_COUNTERS);
	CHECK_EQ(atomic_load(&e->st->err.pending), ECONNRESET);
	CHECK_EQ(fake_write(e, "x", 1), -ECONNRESET);
	CHECK_EQ(fake_write(e, "x", 1), -EPIPE);
	CHECK_EQ(recv(e->peer, buf, 64, 0), 8);
	CHECK_EQ(recv(e->peer, buf, 64, 0), -1);
	CHECK_EQ(errno, ECONNRESET);
}

/* While the stream is on the link: no RESUME may follow. */
static void strange_on_link(void)
{
	struct fake_pair e = fake_linked(true);

	CHECK_EQ(fake_write(&e, "abc", 3), 3);
	strange_write(&e);
	e.f->link.ops->drop(&e.f->link, "test");
	fake_progress(&e);
	check_reset(&e);
	fake_end(&e);
}

/* While it sends again what the link did not carry: RESUME waits for room. */
static void strange_on_the_way_back(void)
{
	struct fake_pair e = fake_linked(true);
	ssize_t n;

	CHECK_EQ(fake_write(&e, "abc", 3), 3);
	while ((n = send(e.fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0 ||
	       (n = send(e.fd, buf, 1, MSG_DONTWAIT)) > 0)
		sr_tcp_sent(e.st, n); /* as if they were ours */
	e.f->link.ops->drop(&e.f->link, "test");
	fake_progress(&e);
	CHECK_EQ(e.st->tx.state, SR_TX_RESEND);
	while (send(e.fd, "stranger", 8, MSG_DONTWAIT) < 0)
		CHECK(recv(e.peer, buf, sizeof(buf), 0) > 0);
	while (e.st->tx.state == SR_TX_RESEND) {
		fake_progress(&e);
		n = recv(e.peer, buf, sizeof(buf), MSG_DONTWAIT);
	}
	CHECK_EQ(e.st->tx.state, SR_TX_DONE);
	CHECK_EQ(atomic_load(&e.st->err.pending), ECONNRESET);
	CHECK_EQ(atomic_load(&e.st->reason), SR_REASON_COUNTERS);
	while ((n = recv(e.peer, buf, sizeof(buf), 0)) > 0)
		;
	CHECK_EQ(n, -1);
	fake_end(&e);
}

int main(void)
{
	switches();
	room();
	ends();
	fails();
	keeps_alive(0, 0);
	keeps_alive(3, 30000); /* with tcp_keepalive_probes, 9 */
	fails_at_end();
	fails_early();
	fails_before_mark();
	ends_before_mark();
	goes_back();
	peer_lies();
	strange_before_mark();
	strange_on_link();
	strange_on_the_way_back();
	return 0;
}
