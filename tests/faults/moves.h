/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* moves.h - moves bytes of one direction by random calls, and checks them. */
#ifndef FAULTS_MOVES_H
#define FAULTS_MOVES_H

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "shared.h"

struct mover {
	struct subject *of;
	struct stream *s;
	int fd, side, way;
	uint64_t chance;
	unsigned char buf[65536];
};

static inline bool sends(const struct mover *m)
{
	return (m->side == PEER) == (m->way == DOWN);
}

static inline uint64_t id_of(const struct mover *m)
{
	return mix((uint64_t)(m->s - shared->subject[0].stream) * 2 + (uint64_t)m->way + 77);
}

/* How many bytes it may move now. */
static inline uint64_t may(const struct mover *m)
{
	struct way *w = &m->s->way[m->way];
	uint64_t at = sends(m) ? w->sent : w->got;
	uint64_t upto = sends(m) ? w->limit : w->may_get;

	if ((sends(m) ? w->stopped : w->end != NO_END) || at >= upto)
		return 0;
	for (int i = 0; m->side != PEER && i < TURNS; i++) {
		uint64_t end = w->turn[i].upto;

		if (at >= end)
			continue;
		if (w->turn[i].side != m->side)
			return 0;
		upto = end < upto ? end : upto;
		break;
	}
	return upto - at;
}

enum { MANY = 20 };	/* descriptors in a poll */

static inline void await_event(struct mover *m, short events)
{
	struct epoll_event e = {.events = (uint32_t)events};
	int ep, n = draw(&m->chance, 2) ? 1 : MANY;
	struct pollfd p[MANY];
	fd_set set;

	for (int i = 0; i < n; i++)
		p[i] = (struct pollfd){m->fd, events, 0};
	switch (draw(&m->chance, m->fd < FD_SETSIZE ? 3 : 2)) {
	case 1:
		ep = epoll_create1(EPOLL_CLOEXEC);
		if (ep >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, m->fd, &e))
			die("epoll");
		if (ep >= 0) {
			epoll_wait(ep, &e, 1, -1);
			close(ep);
			break;
		}	/* else there is no descriptor left */
		/* fall through */
	case 0:
		if (poll(p, (nfds_t)n, -1) < 0 && errno != EINTR)
			die("poll");
		break;
	default:
		FD_ZERO(&set);
		FD_SET(m->fd, &set);
		select(m->fd + 1, events == POLLIN ? &set : NULL,
		       events == POLLIN ? NULL : &set, NULL, NULL);
	}
}

static inline ssize_t put_some(struct mover *m, size_t n)
{
	struct iovec iov[2] = {{m->buf, n / 3}, {m->buf + n / 3, n - n / 3}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t r;

	switch (draw(&m->chance, 5)) {
	case 0:
		return write(m->fd, m->buf, n);
	case 1:
		return send(m->fd, m->buf, n, 0);
	case 2:
		return writev(m->fd, iov, 2);
	case 3:
		return sendmsg(m->fd, &msg, 0);
	}
	while ((r = send(m->fd, m->buf, n, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
		await_event(m, POLLOUT);
	return r;
}

/* all: so many will come. */
static inline ssize_t take_some(struct mover *m, size_t n, bool all)
{
	struct iovec iov[2] = {{m->buf, n / 3}, {m->buf + n / 3, n - n / 3}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	unsigned char c;
	ssize_t r;

	switch (draw(&m->chance, 7)) {
	case 0:
		return read(m->fd, m->buf, n);
	case 1:
		return recv(m->fd, m->buf, n, all ? MSG_WAITALL : 0);
	case 2:
		return readv(m->fd, iov, 2);
	case 3:
		return recvmsg(m->fd, &msg, 0);
	case 4:
		r = recv(m->fd, &c, 1, MSG_PEEK);
		return r == 1 ? recv(m->fd, m->buf, n, 0) : r;
	}
	if (draw(&m->chance, 2))
		await_event(m, POLLIN);
	while ((r = recv(m->fd, m->buf, n, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
		await_event(m, POLLIN);
	return r;
}

static inline void move_up(struct mover *m, uint64_t most)
{
	struct way *w = &m->s->way[m->way];
	size_t n = 1 + draw(&m->chance, draw(&m->chance, 4) ? 9000 : sizeof(m->buf));
	ssize_t r;

	n = n < most ? n : most;
	fill(id_of(m), w->sent, m->buf, n);
	w->tried = w->sent + n;
	r = put_some(m, n);
	if (r > 0) {
		w->sent += (uint64_t)r;
	} else if (errno != EINTR) {
		w->stopped = true;
		bump(m->s);
	}
	if (w->sent >= w->limit || !may(m))
		bump(m->s);
}

static inline void move_down(struct mover *m, uint64_t most)
{
	struct way *w = &m->s->way[m->way];
	size_t n = 1 + draw(&m->chance, draw(&m->chance, 4) ? 9000 : sizeof(m->buf));
	ssize_t r;

	n = n < most ? n : most;
	r = take_some(m, n, w->got + n <= w->limit);
	if (r > 0) {
		m->s->wrong += !right(id_of(m), w->got, m->buf, (size_t)r);
		w->got += (uint64_t)r;
	} else if (!r || errno != EINTR) {
		w->error = r ? errno : 0;
		w->end = !r ? END_OF_FILE :
			 errno == ECONNRESET || errno == EPIPE ? RESET : FAILED;
	}
	if (r <= 0 || w->got >= w->limit || !may(m))
		bump(m->s);
}

/* False: it may not move now. */
static inline bool move(struct mover *m)
{
	uint64_t most = may(m);

	if (most && sends(m))
		move_up(m, most);
	else if (most)
		move_down(m, most);
	return most;
}

#endif
