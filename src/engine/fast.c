/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fast.c - the path of a byte between the program and its ring, where nothing unusual
 * is pending.  Owns the words tx_fast and rx_fast; everything else belongs to the slow
 * path (send.c, recv.c, waitset.c), which these calls leave it to at the least doubt.
 *
 * A call holds no reference of the stream, only the direction's lock.  That is enough:
 *   - the memory of streams is only ever used again for streams, and the locks in it
 *     stay what they are, so a stale pointer may be locked;
 *   - with the lock held, the table still has st at fd, or the call goes the slow way;
 *   - whoever takes a direction off its link, or ends the stream, clears the direction's
 *     word under the same lock, and only then gives the link back.
 * So while the lock is held and the word is set, the link is there and is the stream's.
 *
 * An arrival that the service thread has yet to hear of (the peer's END, a drop, a
 * wish to have the stream back) does not stop a sender here: it finds its bytes in the
 * ring, as it would have an instant earlier, and retention covers them.  A reader goes
 * the slow way as soon as its link shows such news.
 */
#include "base/real.h"

#include <pthread.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/fast.h"
#include "engine/impl.h"

void sr_fast_update_tx(struct sr_stream *st)
{
	const unsigned unusual = SR_ST_CORK | SR_ST_HALF | SR_ST_CLOSING;
	bool fast = sr_gate_shut(&st->out.gate) && st->tx.state == SR_TX_LINK &&
		    st->out.link && !st->tx.ended && !st->out.broken && !st->out.held &&
		    !st->out.lost_ns && !(sr_st_flags(st) & unusual) &&
		    !atomic_load(&st->want_back) &&
		    !(sr_link_events(st->out.link) & (SR_LINK_DEAD | SR_LINK_BACK));

	atomic_store_explicit(&st->head.tx_fast, fast, memory_order_relaxed);
}

void sr_fast_update_rx(struct sr_stream *st)
{
	const unsigned unusual = SR_ST_RDSHUT | SR_ST_CLOSING;
	bool fast = sr_gate_shut(&st->in.gate) && st->rx.state == SR_RX_LINK &&
		    st->in.link && st->in.link->ops->rx_look && !st->in.pushback_len &&
		    !st->rx.end && !st->rx.tcp_over && !st->in.fin_seen &&
		    !(sr_st_flags(st) & unusual) && !atomic_load(&st->want_back) &&
		    !(sr_link_events(st->in.link) & (SR_LINK_DEAD | SR_LINK_END));

	atomic_store_explicit(&st->head.rx_fast, fast, memory_order_relaxed);
}

static bool still_tx(struct sr_stream *st, int fd)
{
	return __builtin_expect(sr_tx_is_fast(st) && sr_fdtab_peek(fd) == st, 1);
}

static bool still_rx(struct sr_stream *st, int fd)
{
	return __builtin_expect(sr_rx_is_fast(st) && sr_fdtab_peek(fd) == st, 1);
}

size_t sr_fast_send(struct sr_stream *st, int fd, const struct iovec *v, size_t n)
{
	struct sr_link *link;
	size_t i, done = 0, left;
	uint8_t *at;

	pthread_testcancel();
	sr_lock(&st->tx_lock);
	if (!still_tx(st, fd))
		goto out;
	link = st->out.link;
	at = link->tx_piece.at;
	left = link->tx_piece.left;
	for (i = 0; i < n; i++) {
		if (v[i].iov_len > left - done) {
			done = 0;	/* not committed */
			goto out;
		}
		if (v[i].iov_len)	/* else it may be NULL */
			memcpy(at + done, v[i].iov_base, v[i].iov_len);
		done += v[i].iov_len;
	}
	if (!done)
		goto out;
	st->tx.w += done;
	link->ops->tx_commit(link, done, false);
out:
	sr_unlock(&st->tx_lock);
	return done;
}

/* Copies out of one piece of the ring, behind the `skip` bytes of v that are filled. */
static size_t copy_out(const struct sr_piece *piece, const struct iovec *v, size_t n,
		       size_t skip)
{
	size_t done = 0;

	if (n == 1 && !skip && v->iov_len) {
		done = piece->left < v->iov_len ? piece->left : v->iov_len;
		memcpy(v->iov_base, piece->at, done);
		return done;
	}
	for (; n && done < piece->left; v++, n--) {
		size_t room, k = piece->left - done;

		if (skip >= v->iov_len) {
			skip -= v->iov_len;
			continue;
		}
		room = v->iov_len - skip;
		if (k > room)
			k = room;
		memcpy((char *)v->iov_base + skip, piece->at + done, k);
		done += k;
		skip = 0;
	}
	return done;
}

/* All there is, as far as there is room: epoll(7) says of edge-triggered sets that a
 * read of less than was asked for has drained the stream. */
size_t sr_fast_recv(struct sr_stream *st, int fd, const struct iovec *v, size_t n)
{
	struct sr_piece piece;
	struct sr_link *link;
	size_t k, done = 0;
	ssize_t there;

	pthread_testcancel();
	sr_lock(&st->rx_lock);
	if (!still_rx(st, fd))
		goto out;
	link = st->in.link;
	for (;;) {
		there = link->ops->rx_look(link, &piece);
		if (there <= 0)
			break;
		k = copy_out(&piece, v, n, done);
		if (!k)
			break;
		done += k;
		st->rx.rx += k;
		st->in.way[sr_way_of(link)] += k;
		link->ops->rx_free(link, k);
		if (k == (size_t)there || k < piece.left)
			break;
	}
out:
	sr_unlock(&st->rx_lock);
	return done;
}

/* Bits of the incoming direction; -1: unusual. */
static int poll_rx(struct sr_stream *st, int fd, short events)
{
	struct sr_piece piece;
	ssize_t there = -1;

	sr_lock(&st->rx_lock);
	if (still_rx(st, fd))
		there = st->in.link->ops->rx_look(st->in.link, &piece);
	sr_unlock(&st->rx_lock);
	if (there <= 0)
		return (int)there;
	return events & (POLLIN | POLLRDNORM);
}

/* The same of the outgoing one.  Without room the slow path makes a note of it. */
static int poll_tx(struct sr_stream *st, int fd, short events)
{
	int r = -1;

	sr_lock(&st->tx_lock);
	if (still_tx(st, fd) && st->out.link->tx_piece.left)
		r = events & (POLLOUT | POLLWRNORM);
	sr_unlock(&st->tx_lock);
	return r;
}

int sr_fast_poll(struct sr_stream *st, int fd, short events)
{
	const short out = POLLOUT | POLLWRNORM | POLLWRBAND;
	int rx, tx = 0;

	/* The reader's news are the stream's end as well, whatever is asked for. */
	if (!sr_rx_is_fast(st) || ((events & out) && !sr_tx_is_fast(st)))
		return -1;
	rx = poll_rx(st, fd, events);
	if (rx < 0)
		return -1;
	if (events & out)
		tx = poll_tx(st, fd, events);
	return tx < 0 ? -1 : rx | tx;
}

int sr_fast_poll_all(struct pollfd *fds, size_t n)
{
	struct sr_stream *st;
	int r, count = 0;
	size_t i;

	pthread_testcancel();
	for (i = 0; i < n; i++) {
		st = sr_fdtab_peek(fds[i].fd);
		r = st ? sr_fast_poll(st, fds[i].fd, fds[i].events) : -1;
		if (r < 0)
			return -1;
		fds[i].revents = (short)r;
		count += r != 0;
	}
	return count;
}
