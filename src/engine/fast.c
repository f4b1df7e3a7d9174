/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fast.c - owns the fast path between the program and its ring, and the flags
 * tx_fast and rx_fast.  Everything unusual belongs to the slow path (sock/send.c,
 * sock/recv.c, wait/waitset.c), which runs when a function here has no result.
 *
 * A call holds the direction's lock and no reference of the stream.  That is
 * enough:
 *   - the memory of streams is only ever reused for streams, and its locks stay
 *     initialized, so a stale pointer may be locked;
 *   - with the lock held, the call checks that the table still has st at fd;
 *   - code that takes a direction off its link, or ends the stream, clears the
 *     direction's flag under the same lock before it gives the link back.
 * So while the lock is held and the flag is set, the link exists and is the
 * stream's.
 *
 * The service thread may not have handled an arrival yet (the peer's END, a
 * dropped link, a request to return to TCP).  A sender here goes on: it writes
 * into the ring as it would have an instant earlier, and retention covers those
 * bytes.  A reader takes the slow path as soon as its link shows such news.
 */
#include "base/real.h"

#include <pthread.h>

#include "base/conf.h"
#include "base/copy.h"
#include "engine/engine.h"
#include "engine/fast.h"
#include "engine/impl.h"

void sr_fast_update_tx(struct sr_stream *st)
{
	const unsigned unusual = SR_ST_CORK | SR_ST_HALF | SR_ST_CLOSING;
	bool fast = sr_gate_shut(&st->out.gate) && st->tx.state == SR_TX_LINK &&
		    st->out.link && !st->tx.ended && !sr_load(&st->out.broken) && !sr_load(&st->out.held) &&
		    !sr_load(&st->out.lost_ns) && !(sr_st_flags(st) & unusual) &&
		    !sr_load(&st->want_tcp) &&
		    !(sr_link_events(st->out.link) & (SR_LINK_DEAD | SR_LINK_END));

	sr_store(&st->head.tx_fast, fast);
	if (st->stat)
		sr_stat_tx(st);
}

void sr_fast_update_rx(struct sr_stream *st)
{
	const unsigned unusual = SR_ST_RDSHUT | SR_ST_CLOSING;
	unsigned char how = sr_st_flags(st) & SR_ST_INQ ? SR_RX_TELLS : SR_RX_FAST;
	bool fast = sr_gate_shut(&st->in.gate) && st->rx.state == SR_RX_LINK &&
		    st->in.link && st->in.link->ops->rx_look && !st->in.pushback_len &&
		    !st->rx.end && !st->rx.tcp_over && !st->in.fin_seen &&
		    !sr_load(&st->sets.nested) &&
		    !(sr_st_flags(st) & unusual) && !sr_load(&st->want_tcp) &&
		    !(sr_link_events(st->in.link) & (SR_LINK_DEAD | SR_LINK_END));

	sr_store(&st->head.rx_fast, fast ? how : SR_RX_SLOW);
	if (st->stat)
		sr_stat_rx(st);
}

static bool is_still_tx(struct sr_stream *st, int fd)
{
	return __builtin_expect(sr_tx_is_fast(st) && sr_fdtab_peek(fd) == st, 1);
}

static bool is_still_rx(struct sr_stream *st, int fd)
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
	if (!is_still_tx(st, fd))
		goto out;
	link = st->out.link;
	at = link->tx_piece.at;
	left = link->tx_piece.left;
	for (i = 0; i < n; i++) {
		if (v[i].iov_len > left - done) {
			done = 0;	/* nothing was committed */
			goto out;
		}
		if (v[i].iov_len)	/* else it may be NULL */
			sr_copy(at + done, v[i].iov_base, v[i].iov_len);
		done += v[i].iov_len;
	}
	if (!done)
		goto out;
	st->tx.w += done;
	st->tx_hot->link += done;
	link->ops->tx_commit(link, done, false);
out:
	sr_unlock(&st->tx_lock);
	return done;
}

/* Copies from one piece of the ring into v, after its first `skip` bytes. */
static size_t copy_out(const struct sr_piece *piece, const struct iovec *v, size_t n,
		       size_t skip)
{
	size_t done = 0;

	if (n == 1 && !skip && v->iov_len) {
		done = piece->left < v->iov_len ? piece->left : v->iov_len;
		sr_copy(v->iov_base, piece->at, done);
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
		sr_copy((char *)v->iov_base + skip, piece->at + done, k);
		done += k;
		skip = 0;
	}
	return done;
}

/* Takes all bytes there are, as far as they fit: by epoll(7) a short read on an
 * edge-triggered descriptor has drained the stream. */
size_t sr_fast_take(struct sr_stream *st, int fd, const struct iovec *v, size_t n)
{
	struct sr_piece piece;
	struct sr_link *link;
	size_t k, done = 0;
	ssize_t there;

	sr_lock(&st->rx_lock);
	if (!is_still_rx(st, fd))
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
		sr_link_received(st, k);
		link->ops->rx_free(link, k);
		if (k == (size_t)there || k < piece.left)
			break;
	}
out:
	sr_unlock(&st->rx_lock);
	return done;
}

size_t sr_fast_recv(struct sr_stream *st, int fd, const struct iovec *v, size_t n)
{
	pthread_testcancel();
	return sr_fast_take(st, fd, v, n);
}

static inline ssize_t look_rx(struct sr_stream *st, int fd)
{
	struct sr_piece piece;
	ssize_t there = -1;

	sr_lock(&st->rx_lock);
	if (is_still_rx(st, fd))
		there = st->in.link->ops->rx_look(st->in.link, &piece);
	sr_unlock(&st->rx_lock);
	return there;
}

ssize_t sr_fast_look(struct sr_stream *st, int fd)
{
	return look_rx(st, fd);
}

/* Poll bits of the incoming direction; -1: take the slow path. */
static int poll_rx(struct sr_stream *st, int fd, short events)
{
	ssize_t there = look_rx(st, fd);

	return there <= 0 ? (int)there : events & (POLLIN | POLLRDNORM);
}

/* The same for the outgoing direction; the slow path sets out.full. */
static int poll_tx(struct sr_stream *st, int fd, short events)
{
	int r = -1;

	sr_lock(&st->tx_lock);
	if (is_still_tx(st, fd) && st->out.link->tx_ready)
		r = events & (POLLOUT | POLLWRNORM);
	sr_unlock(&st->tx_lock);
	return r;
}

int sr_fast_poll(struct sr_stream *st, int fd, short events)
{
	const short out = POLLOUT | POLLWRNORM | POLLWRBAND;
	int rx, tx = 0;

	/* rx also shows the stream's end, which poll(2) always reports. */
	if (!sr_rx_is_fast(st) || ((events & out) && !sr_tx_is_fast(st)))
		return -1;
	rx = poll_rx(st, fd, events);
	if (rx < 0)
		return -1;
	if (events & out)
		tx = poll_tx(st, fd, events);
	return tx < 0 ? -1 : rx | tx;
}

/* ---- descriptors for which the kernel is not asked (SOCKRAIL_UNASKED_US) ---- */

/* A hash of the descriptors of this thread's last poll for which the kernel decides (0: none may
 * be left unasked), and when the kernel was asked.  If a signal handler that polls in between
 * changes both, the kernel is asked later, by one more interval at most. */
static __thread struct {
	uint64_t sum, ns;
} unasked;

bool sr_may_leave_unasked(void)
{
	return unasked.sum && sr_now_ns() - unasked.ns < sr_conf.unasked_us * 1000ull;
}

void sr_kernel_asked(void)
{
	unasked.ns = sr_now_ns();
}

/* Does the kernel alone decide on the descriptor?  A hint: a switch may be about to begin. */
static bool is_kernels(struct sr_stream *st)
{
	return !st || sr_is_retired(st) || !sr_any_gate_shut(st);
}

#define FACTOR 0x9e3779b97f4a7c15u	/* spreads the bits of the hash */

static bool begin_unasked(uint64_t sum)
{
	if (unasked.sum == sum)
		return sr_may_leave_unasked();
	unasked.sum = sum;
	unasked.ns = 0;
	return false;
}

int sr_fast_poll_all(struct pollfd *fds, size_t n)
{
	struct sr_stream *st;
	uint64_t sum = 0;
	int r, count = 0;
	size_t i;

	pthread_testcancel();
	for (i = 0; i < n; i++) {
		st = sr_fdtab_peek(fds[i].fd);
		r = st ? sr_fast_poll(st, fds[i].fd, fds[i].events) : -1;
		if (r < 0) {
			if (!sr_conf.unasked_us)
				return -1;
			if (!is_kernels(st)) {
				unasked.sum = 0;
				return -1;
			}
			sum = (sum ^ (uint32_t)fds[i].fd ^ (uint64_t)fds[i].events << 32) * FACTOR + 1;
			r = 0;
		}
		fds[i].revents = (short)r;
		count += r != 0;
	}
	return sum && (!begin_unasked(sum) || !count) ? -1 : count;
}
