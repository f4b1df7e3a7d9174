/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rx.c - the direction that a stream receives, over a fake link: the switch, the end,
 * and the way back to TCP.
 */
#include "fake_link.h"

static uint8_t buf[2 * FAKE_RING];

static void by_tcp(struct fake_pair *e, const void *bytes, size_t n)
{
	CHECK_EQ(send(e->peer, bytes, n, 0), n);
}

/* The program receives what is due, however it has come; and then there is no more. */
static void expect(struct fake_pair *e, const char *bytes)
{
	size_t got = 0, n = strlen(bytes);
	ssize_t r;

	for (int i = 0; i < 20000 && got < n; i++) {
		r = fake_recv(e, buf + got, n - got);
		CHECK(r > 0 || r == -EAGAIN);
		got += r > 0 ? (size_t)r : 0;
		if (r < 0)
			usleep(1000);
	}
	CHECK_EQ(got, n);
	CHECK(!memcmp(buf, bytes, n));
	CHECK_EQ(fake_recv(e, buf, 1), -EAGAIN);
}

/* The program receives this result at last. */
static void expect_result(struct fake_pair *e, ssize_t want)
{
	ssize_t r = -EAGAIN;

	for (int i = 0; i < 20000 && r == -EAGAIN; i++) {
		r = fake_recv(e, buf, sizeof(buf));
		usleep(1000);
	}
	CHECK_EQ(r, want);
}

static void await_state(struct fake_pair *e, enum sr_rx_state state)
{
	for (int i = 0; i < 20000 && e->st->rx.state != state; i++) {
		fake_progress(e);
		usleep(1000);
	}
	CHECK_EQ(e->st->rx.state, state);
}

/* Bytes of TCP, the mark, the ring's bytes: in order, and without the mark. */
static void switches(void)
{
	struct fake_pair e = fake_begin(true);

	by_tcp(&e, "raw", 3);
	expect(&e, "raw");
	CHECK(fake_rx_start(&e, 3));
	CHECK_EQ(fake_said(e.f)->type, SR_MSG_ACKSW);
	fake_rx_mark(&e);
	fake_send(e.f, "ring", 4);
	expect(&e, "ring");
	CHECK_EQ(e.st->rx.state, SR_RX_LINK);
	CHECK_EQ(e.f->link.rx_taken, 7);
	CHECK_EQ(sr_history_seen(&e.st->rare->in), 3);
	fake_end(&e);
}

/* What the ring has is not the program's before the mark. */
static void waits_for_mark(void)
{
	struct fake_pair e = fake_begin(true);

	CHECK(fake_rx_start(&e, 0));
	fake_send(e.f, "ring", 4);
	CHECK_EQ(fake_recv(&e, buf, 4), -EAGAIN);
	fake_rx_mark(&e);
	expect(&e, "ring");
	fake_end(&e);
}

/* Other bytes where the mark should be are the program's, and the link is dropped. */
static void no_mark(void)
{
	struct fake_pair e = fake_begin(true);

	CHECK(fake_rx_start(&e, 0));
	by_tcp(&e, "no mark", 7);
	expect(&e, "no mark");
	CHECK(sr_link_events(&e.f->link) & SR_LINK_DEAD);
	CHECK_EQ(e.st->rx.state, SR_RX_RAW);
	CHECK_EQ(sr_history_seen(&e.st->rare->in), 7);	/* as the peer's */
	fake_end(&e);
}

/* A mark is due, and what comes has the first five bytes of it. */
static struct fake_pair begin_almost(uint8_t mark[SR_RECORD_LEN])
{
	struct fake_pair e = fake_begin(true);

	sr_mark_make(mark, 1, e.st->up.token);
	CHECK(fake_rx_start(&e, 0));
	by_tcp(&e, mark, 5);
	return e;
}

/* Bytes that begin as the mark would are read before the program asks for them.  With the
 * read that takes them the direction is plain again, as such a read may be the last
 * before the program waits for an edge. */
static void almost_a_mark(void)
{
	uint8_t mark[SR_RECORD_LEN];
	struct fake_pair e = begin_almost(mark);

	for (int i = 0; i < 20000 && e.st->rx.part < 5; i++) {
		fake_progress(&e);
		usleep(1000);
	}
	by_tcp(&e, "no mark", 7);
	for (int i = 0; i < 20000 && !e.st->in.pushback_len; i++) {
		fake_progress(&e);
		usleep(1000);
	}
	CHECK_EQ(fake_recv(&e, buf, sizeof(buf)), 12);
	CHECK(!memcmp(buf, mark, 5) && !memcmp(buf + 5, "no mark", 7));
	CHECK(!sr_gate_shut(&e.st->in.gate));
	fake_end(&e);
}

/* Bytes that begin as the mark would, and the end.  The program has not read them when the
 * stream is to be plain: it gets them before the end all the same. */
static void almost_a_mark_at_the_end(void)
{
	uint8_t mark[SR_RECORD_LEN];
	struct fake_pair e = begin_almost(mark);

	shutdown(e.peer, SHUT_WR);
	await_state(&e, SR_RX_EOF);
	CHECK_EQ(e.st->in.pushback_len, 5);
	atomic_store(&e.st->want_tcp, true);
	fake_progress(&e);
	CHECK_EQ(fake_recv(&e, buf, sizeof(buf)), 5);
	CHECK(!memcmp(buf, mark, 5));
	CHECK_EQ(fake_recv(&e, buf, sizeof(buf)), 0);
	CHECK(!sr_gate_shut(&e.st->in.gate));
	fake_end(&e);
}

/* A SWITCH beyond what the program has read is acknowledged when it has read that. */
static void switch_too_early(void)
{
	struct fake_pair e = fake_begin(true);

	CHECK_EQ(fake_rx_start(&e, 3), false);
	CHECK_EQ(e.f->count, 0);
	by_tcp(&e, "raw", 3);
	expect(&e, "raw");
	CHECK(fake_rx_start(&e, 3));
	CHECK_EQ(fake_said(e.f)->type, SR_MSG_ACKSW);
	fake_end(&e);
}

/* The end of file comes behind all bytes, and is then acknowledged. */
static void ends(void)
{
	struct fake_pair e = fake_linked(true);

	fake_send(e.f, "abc", 3);
	fake_say(e.f, (struct sr_msg){ .type = SR_MSG_END, .end = 3 });
	fake_progress(&e);
	CHECK_EQ(fake_said(e.f)->type, SR_MSG_ACKSW);
	CHECK_EQ(fake_recv(&e, buf, 64), 3);
	CHECK_EQ(fake_recv(&e, buf, 64), 0);
	CHECK_EQ(fake_said(e.f)->type, SR_MSG_ACKEND);
	CHECK_EQ(fake_recv(&e, buf, 64), 0);
	fake_end(&e);
}

/* TCP's end without END is a reset, behind what has arrived. */
static void peer_killed(void)
{
	struct fake_pair e = fake_linked(true);

	fake_send(e.f, "abc", 3);
	shutdown(e.peer, SHUT_WR);
	for (int i = 0; i < 20000 && !e.st->in.fin_seen; i++) {
		fake_progress(&e);
		usleep(1000);
	}
	CHECK_EQ(fake_recv(&e, buf, 64), 3);
	expect_result(&e, -ECONNRESET);
	fake_end(&e);
}

/* A reset behind END: the program may still receive, and can send no more. */
static void reset_behind_end(void)
{
	const struct linger now = { 1, 0 };
	struct fake_pair e = fake_linked(true);

	fake_send(e.f, "abc", 3);
	fake_say(e.f, (struct sr_msg){ .type = SR_MSG_END, .end = 3 });
	fake_progress(&e);
	setsockopt(e.peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(e.peer);
	for (int i = 0; i < 20000 && !e.st->out.broken; i++) {
		fake_progress(&e);
		usleep(1000);
	}
	CHECK_EQ(fake_write(&e, buf, 1), -EPIPE);
	CHECK_EQ(fake_write(&e, buf, 1), -EPIPE);
	CHECK_EQ(fake_recv(&e, buf, 64), 3);
	CHECK_EQ(fake_recv(&e, buf, 64), 0);
	e.peer = -1;
	fake_end(&e);
}

/* The peer, whose direction is plain, has ended and closed.  Our mark, and what follows it,
 * meets a closed socket, which concerns the program if it sends, not if it receives. */
static void reset_behind_plain_end(void)
{
	struct fake_pair e = fake_begin(true);

	by_tcp(&e, "abc", 3);
	close(e.peer);
	fake_tx_start(&e);
	fake_say(e.f, (struct sr_msg){ .type = SR_MSG_ACKSW });
	fake_progress(&e);
	e.f->link.ops->drop(&e.f->link, "test");
	fake_progress(&e);
	CHECK_EQ(fake_recv(&e, buf, 64), 3);
	CHECK_EQ(fake_recv(&e, buf, 64), 0);
	CHECK_EQ(fake_recv(&e, buf, 64), 0);
	CHECK_EQ(fake_write(&e, buf, 1), -EPIPE);
	CHECK_EQ(fake_recv(&e, buf, 64), 0);
	e.peer = -1;
	fake_end(&e);
}

/* The peer goes back to TCP, and sends again what the program had taken meanwhile. */
static void resumes(void)
{
	struct fake_pair e = fake_linked(true);
	uint8_t record[SR_RECORD_LEN];

	fake_send(e.f, "abcdef", 6);
	CHECK_EQ(fake_recv(&e, buf, 4), 4);
	sr_resume_make(record, 2, 6);
	by_tcp(&e, record, sizeof(record));
	by_tcp(&e, "cdef", 4);
	by_tcp(&e, "gh", 2);
	await_state(&e, SR_RX_RAW);
	expect(&e, "efgh");
	CHECK(!sr_gate_shut(&e.st->in.gate));
	fake_end(&e);
}

/* A RESUME that promises more than the program has taken is no RESUME. */
static void peer_lies(void)
{
	struct fake_pair e = fake_linked(true);
	uint8_t record[SR_RECORD_LEN];

	fake_send(e.f, "abc", 3);
	CHECK_EQ(fake_recv(&e, buf, 2), 2);
	sr_resume_make(record, 3, 3);
	by_tcp(&e, record, sizeof(record));
	await_state(&e, SR_RX_RESET);
	expect_result(&e, -ECONNRESET);
	fake_end(&e);
}

/* A peer that has seen this process leave the link sends what comes next by TCP, without
 * a RESUME.  That is worth a warning only if the process goes on. */
static void peer_goes_on(void)
{
	char path[] = "/tmp/sockrail-rx-XXXXXX";
	int fd = mkstemp(path);
	uint8_t bytes[SR_RECORD_LEN] = "not a record";

	CHECK(fd >= 0);
	sr_conf.log = SR_WARN;
	strcpy(sr_conf.log_file, path);
	for (int i = 0; i < 2; i++) {
		struct fake_pair e = fake_linked(true);

		atomic_store(&sr_streams_ending, !i);
		by_tcp(&e, bytes, sizeof(bytes));
		await_state(&e, SR_RX_RESET);
		CHECK_EQ(lseek(fd, 0, SEEK_END) > 0, i);
		fake_end(&e);
	}
	sr_conf.log_file[0] = '\0';
	close(fd);
	unlink(path);
}

/* FIN below m is no end of file. */
static void resend_cut(void)
{
	struct fake_pair e = fake_linked(true);
	uint8_t record[SR_RECORD_LEN];

	fake_send(e.f, "abcdef", 6);
	sr_resume_make(record, 0, 6);
	by_tcp(&e, record, sizeof(record));
	by_tcp(&e, "abc", 3);
	shutdown(e.peer, SHUT_WR);
	await_state(&e, SR_RX_RAW);
	CHECK_EQ(fake_recv(&e, buf, 3), 3);
	expect_result(&e, -ECONNRESET);
	fake_end(&e);
}

static int cut_fd;

static void cut(struct fake *f)
{
	(void)f;
	shutdown(cut_fd, SHUT_WR);
	usleep(10000);
}

static void cut_at_next(struct fake *f)
{
	f->on_poll = cut;
}

/* TCP's end comes in the midst of what is sent again, while the program, which has ended
 * its own direction, closes: between the two directions' turns under the locks. */
static void cut_while_closing(void)
{
	struct fake_pair e = fake_linked(true);
	uint8_t record[SR_RECORD_LEN];

	fake_send(e.f, "abcdef", 6);
	CHECK_EQ(fake_recv(&e, buf, 4), 4);
	CHECK_EQ(sr_stream_shutdown(e.st, e.fd, SHUT_WR), 0);
	sr_resume_make(record, 2, 6);
	by_tcp(&e, record, sizeof(record));
	for (int i = 0; i < 20000 && e.st->rx.state != SR_RX_RAW; i++) {
		sr_lock(&e.st->rx_lock);
		sr_rx_progress(e.st);
		sr_unlock(&e.st->rx_lock);
		usleep(1000);
	}
	CHECK_EQ(e.st->rx.dup, 2);
	cut_fd = e.peer;
	e.f->on_poll = cut_at_next;
	alarm(60);
	fake_close(&e);
	sr_close_progress(e.st);
	alarm(0);
	CHECK_EQ(e.st->anchor, -1);
	close(e.peer);
	sr_link_put(&e.f->link);
}

int main(void)
{
	switches();
	waits_for_mark();
	no_mark();
	almost_a_mark();
	almost_a_mark_at_the_end();
	switch_too_early();
	ends();
	peer_killed();
	reset_behind_end();
	reset_behind_plain_end();
	resumes();
	peer_lies();
	peer_goes_on();
	resend_cut();
	cut_while_closing();
	return 0;
}
