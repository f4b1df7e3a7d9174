/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * walk_moves.h - what epoll_walk.c does to an open file beside epoll: send, read, shut
 * down. What a call says on a stream that was reset is not compared: over TCP and on a
 * link the error may be another call's.
 */
#ifndef TEST_WALK_MOVES_H
#define TEST_WALK_MOVES_H

#include "walk_model.h"

static void settle_end(const struct end *e)
{
	uint32_t has = level(e);
	struct pollfd p = {e->fd[0], POLLIN | POLLRDHUP | POLLOUT, 0};
	uint64_t end = 0;
	int have = 0;

	for (int i = 1; i < NUMBERS && p.fd < 0; i++)
		p.fd = e->fd[i];
	if (e->kind != STREAM)
		return;
	do {
		ioctl(p.fd, FIONREAD, &have);
		if (poll(&p, 1, 0) >= 0 && ((uint32_t)p.revents & has) == has &&
		    ((size_t)have >= e->unread || e->unread > UNREAD_MAX || e->reset))
			return;
	} while (patient(&end));
	say("%d has not what it was to have", index_of(e));
}

/* Does a send say the same by every way, and its bytes fit? */
static bool may_send(const struct end *e, size_t n)
{
	const struct end *peer = e->peer;

	if (e->kind != STREAM)
		return e->kind == COUNTER || (e->kind == PIPE_OUT && (!peer || peer->unread < 9000));
	if (e->reset && e->unread)
		return false;	/* on a link the bytes come before a second error */
	if (e->shut_out && !e->sent)
		return false;	/* policy wait would wait for a link */
	return !e->full && (!peer || (peer->unread + n <= UNREAD_MAX &&
				      !(peer->shut_in && peer->shut_out)));
}

static void arrived(struct end *e, size_t n)
{
	if (e->kind == STREAM || !e->unread)
		news(e, EPOLLIN);
	e->unread += n;
}

static void fill_next(struct end *e, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf[i] = (char)(unsigned char)(e->sent + i);
}

static void send_some(struct end *e, size_t n)
{
	uint64_t end = 0;
	uint64_t one = 1;
	ssize_t k = -1;
	int fd = number(e);

	if (!may_send(e, n))
		return;
	fill_next(e, n);
	if (e->reset || !e->peer)
		settle_end(e);
	do {
		k = e->kind == COUNTER ? write(fd, &one, 8) : write(fd, buf, n);
		if (k >= 0 && !(e->reset && late))
			break;
		if (k < 0 && errno != EAGAIN)	/* no room in the moment of a switch */
			break;
	} while (patient(&end));
	say("send %d, %zu: %s", index_of(e), n,
	    k >= 0 ? "done" : e->reset ? "reset" : strerrorname_np(errno));
	e->error &= k >= 0;
	if (k < 0)
		return;
	e->sent = (unsigned char)(e->sent + k);
	if (e->kind == COUNTER) {
		arrived(e, 1);
	} else if (e->peer) {
		arrived(e->peer, (size_t)k);
	} else {
		peer_reset(e);
		settle_end(e);
	}
}

/* n bytes, or what there is instead. */
static ssize_t take_some(struct end *e, int fd, size_t n, bool *wrong)
{
	uint64_t end = 0;
	size_t got = 0;
	ssize_t k;

	for (;;) {
		k = read(fd, buf, n && n - got < sizeof(buf) ? n - got : sizeof(buf));
		for (ssize_t i = 0; i < k && e->kind != COUNTER; i++)
			*wrong |= (unsigned char)buf[i] != e->read++;
		if (k > 0)
			got += (size_t)k;
		if (!k || (got && got >= n) || (k < 0 && errno != EAGAIN))
			break;
		if (k < 0 && !patient(&end))
			break;
	}
	return got ? (ssize_t)got : k;
}

/* What it still says depends on the way. */
static bool is_over(const struct end *e)
{
	return e->reset || (e->shut_in && e->shut_out);
}

static void read_some(struct end *e, size_t n)
{
	bool wrong = false, full = e->kind == STREAM && e->peer && e->peer->full;
	ssize_t got;

	if (e->shut_in)	/* what is on its way is the end, as long as it has not come */
		settle_end(e);
	got = take_some(e, number(e), full ? e->unread : n, &wrong);
	if (full && (size_t)got == e->unread)
		say("read all of %d%s", index_of(e), wrong ? ", wrong" : "");
	else
		say("read %d: %zd%s", index_of(e), got >= 0 ? got : is_over(e) ? 0 : -errno,
		    wrong ? ", wrong" : "");
	if (got > 0 && e->kind == COUNTER)
		e->unread = 0;
	else if (got > 0)
		e->unread -= (size_t)got;
	else
		e->error = false;
	if (full) {
		e->peer->full = false;
		news(e->peer, EPOLLOUT);
	}
}

static void read_any(struct end *e)
{
	if (e->kind != STREAM && e->kind != PIPE_IN && e->kind != COUNTER)
		return;
	if (e->unread || e->ended || e->reset || e->shut_in)
		read_some(e, roll(2) ? e->unread : roll(e->unread + 1));
}

/* How much that is depends on the way.  Over TCP the sender's probe, 0.2 s later, may make room for
 * once more; a walk that is slow would meet it. */
static void fill(struct end *e)
{
	const int tries = late ? 60 : 6;
	int full = 0, fd = number(e);

	if (e->kind != STREAM || !e->peer || e->peer->shut_in || !may_send(e, 0) ||
	    e->shut_out || e->reset)
		return;
	while (full < tries) {
		ssize_t k;

		fill_next(e, 5000);
		k = send(fd, buf, full ? 1 : 5000, MSG_NOSIGNAL);
		if (k > 0) {
			e->sent = (unsigned char)(e->sent + k);
			arrived(e->peer, (size_t)k);
			full = 0;
		} else {
			full++;
			nap(5);
		}
	}
	e->full = true;
	say("full %d", index_of(e));
}

static void shut(struct end *e)
{
	int how = (int)roll(8), r;

	how = how == 0 ? SHUT_RD : how == 1 ? SHUT_RDWR : SHUT_WR;
	if (e->kind != STREAM || is_over(e) || e->full || (e->peer && e->peer->full))
		return;
	settle_end(e);
	r = shutdown(number(e), how);
	say("shutdown %d, %d: %s", index_of(e), how, r ? strerrorname_np(errno) : "done");
	if (r)
		return;
	e->shut_in |= how != SHUT_WR;
	if (how != SHUT_RD && !e->shut_out) {
		e->shut_out = true;
		if (e->peer)
			peer_ended(e->peer);
	}
	news(e, level(e) & (EPOLLHUP | (how == SHUT_WR ? 0 : EPOLLIN | EPOLLRDHUP)));
}

#endif
