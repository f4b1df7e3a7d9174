/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * anchor.c - owns the use of the kernel's TCP socket under a stream: the library's own
 * non-blocking reads and writes on it, and the comparison of the kernel's byte counters with
 * ours (sockrail-protocol(7), promise 6).  Must not know what the bytes mean.  The caller holds
 * the direction's lock; while the direction's gate is shut, no other thread uses the anchor for
 * that direction (but for one receiving call, see impl.h).
 *
 * The library enters the kernel with the anchor's number only under rx_lock or tx_lock,
 * unless it does so on behalf of a program's call on that descriptor.  A system call keeps
 * the open file alive until it returns, even if another thread closes the number meanwhile;
 * and as long as the file lives, the program's epoll sets report it, a listener's port is
 * in use, and the peer gets no FIN.  close(2) takes both locks before it closes the number
 * (sock/close.c), so that no call of ours is in the kernel then.
 */
#include "base/real.h"

#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/now.h"
#include "engine/engine.h"
#include "engine/impl.h"

int sr_reset_error(struct sr_stream *st)
{
	return (sr_st_flags(st) & SR_ST_PEER_END) || st->rx.state == SR_RX_EOF ?
		       EPIPE : ECONNRESET;
}

/* Translates the kernel's error for the program.  EPIPE answers the library's write, not one of
 * the program.  If a reset was already reported, there is no further error.  If the program
 * receives by TCP, the kernel says EPIPE for a reset behind the peer's end, so it stays.
 * Otherwise EPIPE stands for a reset. */
static int known_as(struct sr_stream *st, int err)
{
	if (err == EPIPE &&
	    (sr_load(&st->err.ended) || sr_load(&st->err.reported)))
		return 0;
	if (err == EPIPE && !sr_gate_shut(&st->in.gate))
		return EPIPE;
	return err == EPIPE || err == ECONNRESET ? sr_reset_error(st) : err;
}

/* The kernel reports a socket error once, to its next caller.  If the library
 * made that call, it keeps the error for the program. */
static ssize_t keep_failure(struct sr_stream *st, ssize_t r)
{
	if (r >= 0)
		return r;
	r = -errno;
	if (r != -EAGAIN && r != -EINTR && !sr_load(&st->out.broken))
		sr_error_keep(st, known_as(st, (int)-r));
	sr_stream_failed(st, r);
	return r;
}

/* The library calls the anchor and stores the error under one of the two locks.
 * After both locks were held, the error of any earlier call is visible here. */
int sr_anchor_kept(struct sr_stream *st)
{
	sr_lock(&st->rx_lock);
	sr_unlock(&st->rx_lock);
	sr_lock(&st->tx_lock);
	sr_unlock(&st->tx_lock);
	return sr_load(&st->err.pending);
}

ssize_t sr_anchor_write(struct sr_stream *st, const void *buf, size_t len, bool more)
{
	int flags = more ? MSG_MORE : 0;
	ssize_t r = keep_failure(st, sr_now_send_flags(sr_load(&st->anchor), buf, len, flags));

	if (r > 0)
		sr_tcp_sent(st, r);
	return r;
}

ssize_t sr_anchor_read(struct sr_stream *st, void *buf, size_t len, int flags)
{
	ssize_t r = keep_failure(st, sr_now_recv(sr_load(&st->anchor), buf, len, flags));

	if (r > 0 && !(flags & MSG_PEEK))
		sr_tcp_received(st, r);
	return r;
}

bool sr_anchor_writable(struct sr_stream *st)
{
	struct pollfd p = { .fd = sr_load(&st->anchor), .events = POLLOUT };

	return sr_now_poll(&p, 1) == 1 && (p.revents & (POLLOUT | POLLERR | POLLHUP));
}

bool sr_anchor_connected(struct sr_stream *st)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	bool yes;

	sr_lock(&st->rx_lock);
	yes = sr_load(&st->anchor) >= 0 &&
	      sr_sys_getpeername(sr_load(&st->anchor), (struct sockaddr *)&peer, &len) == 0;
	sr_unlock(&st->rx_lock);
	return yes;
}

uint64_t sr_anchor_inode(struct sr_stream *st)
{
	struct stat s;
	bool is_socket;
	int fd;

	sr_lock(&st->rx_lock);
	fd = sr_load(&st->anchor);
	is_socket = fd >= 0 && sr_sys_fstat(fd, &s) == 0 && S_ISSOCK(s.st_mode);
	sr_unlock(&st->rx_lock);
	return is_socket ? s.st_ino : 0;
}

unsigned sr_anchor_backlog(struct sr_stream *listener)
{
	struct tcp_info ti = { .tcpi_unacked = 1 };
	socklen_t len = sizeof(ti);

	sr_lock(&listener->rx_lock);
	if (sr_load(&listener->anchor) < 0)
		ti.tcpi_unacked = 0;
	else
		sr_sys_getsockopt(sr_load(&listener->anchor), IPPROTO_TCP, TCP_INFO, &ti, &len);
	sr_unlock(&listener->rx_lock);
	return ti.tcpi_unacked;
}

bool sr_anchor_defers(struct sr_stream *listener)
{
	socklen_t len = sizeof(int);
	int seconds = 0;

	sr_lock(&listener->rx_lock);
	if (sr_load(&listener->anchor) >= 0)
		sr_sys_getsockopt(sr_load(&listener->anchor), IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, &len);
	sr_unlock(&listener->rx_lock);
	return seconds;
}

/* struct tcp_info is that of <linux/tcp.h>; older kernels fill less of it. */
static bool anchor_info(struct sr_stream *st, struct tcp_info *ti)
{
	socklen_t len = sizeof(*ti);

	memset(ti, 0, sizeof(*ti));
	return sr_sys_getsockopt(sr_load(&st->anchor), IPPROTO_TCP, TCP_INFO, ti,
				  &len) == 0 &&
	       len >= offsetof(struct tcp_info, tcpi_bytes_received) + 8;
}

/* (poll(2) would take our own shutdown(SHUT_RD) for the peer's end.) */
bool sr_anchor_ended(struct sr_stream *st)
{
	struct tcp_info ti;

	return anchor_info(st, &ti) && ti.tcpi_state > SR_TCP_FIN_WAIT2;
}

/* What counts in bytes_acked beside the bytes: the SYN of the end that connects, and our
 * FIN. */
static uint64_t acked_beside(struct sr_stream *st, unsigned state)
{
	return (sr_st_flags(st) & SR_ST_CONNECT ? 1 : 0) +
	       (state == SR_TCP_FIN_WAIT2 || state == SR_TCP_TIME_WAIT);
}

/* Our FIN counts in SIOCOUTQ until the peer has acknowledged it. */
static uint64_t queued_beside(unsigned state)
{
	return state == SR_TCP_FIN_WAIT1 || state == SR_TCP_LAST_ACK || state == SR_TCP_CLOSING;
}

/* Reads queue, counter, queue, until the queue has not changed in between; then
 * the sum is exact. */
static bool anchor_sample(struct sr_stream *st, bool tx, uint64_t *sum)
{
	unsigned long req = tx ? SIOCOUTQ : SIOCINQ;
	struct tcp_info ti;
	int before, after, tries;

	for (tries = 0; tries < 8; tries++) {
		if (sr_sys_ioctl(sr_load(&st->anchor), req, &before) < 0 ||
		    !anchor_info(st, &ti) ||
		    sr_sys_ioctl(sr_load(&st->anchor), req, &after) < 0)
			return false;
		if (before != after)
			continue;
		*sum = tx ? ti.tcpi_bytes_acked - acked_beside(st, ti.tcpi_state) +
				    (uint64_t)after - queued_beside(ti.tcpi_state) :
			    ti.tcpi_bytes_received - (uint64_t)after;
		return true;
	}
	return false;
}

bool sr_anchor_shut(struct sr_stream *st)
{
	struct tcp_info ti;

	return anchor_info(st, &ti) && (acked_beside(st, ti.tcpi_state) > acked_beside(st, 0) ||
					queued_beside(ti.tcpi_state));
}

static bool counts_agree(const char *way, uint64_t kernel, uint64_t ours)
{
	if (kernel != ours)
		sr_debug("%s counters: kernel %llu, ours %llu", way,
			 (unsigned long long)kernel, (unsigned long long)ours);
	return kernel == ours;
}

uint64_t sr_anchor_received(struct sr_stream *st)
{
	struct tcp_info ti;

	return anchor_info(st, &ti) ? ti.tcpi_bytes_received : 0;
}

uint64_t sr_anchor_acked(struct sr_stream *st)
{
	struct tcp_info ti;

	return anchor_info(st, &ti) && ti.tcpi_bytes_acked ?
		       ti.tcpi_bytes_acked - acked_beside(st, ti.tcpi_state) : 0;
}

bool sr_anchor_fin(struct sr_stream *st)
{
	return sr_anchor_received(st) == sr_load(&st->in.tcp) + 1;
}

bool sr_anchor_tx_agrees(struct sr_stream *st)
{
	uint64_t kernel;

	return anchor_sample(st, true, &kernel) &&
	       counts_agree("tx", kernel, sr_load(&st->out.tcp));
}

/* (A closed socket sends no bytes any more, and does not tell whether a FIN of ours counts.) */
bool sr_anchor_is_bypassed(struct sr_stream *st)
{
	struct tcp_info ti;
	uint64_t kernel;

	return anchor_sample(st, true, &kernel) && kernel > sr_load(&st->out.tcp) &&
	       anchor_info(st, &ti) && ti.tcpi_state != SR_TCP_CLOSE;
}

void sr_anchor_disagrees(struct sr_stream *st, struct sr_link *link)
{
	if (sr_load(&st->anchor) < 0) {
		link->ops->drop(link, "short");
		return;
	}
	sr_stream_bar(st, SR_REASON_COUNTERS);
	link->ops->drop(link, "counters");
}

size_t sr_anchor_unbooked_tx(struct sr_stream *st)
{
	uint64_t kernel, ours = sr_load(&st->out.tcp);
	bool ok = sr_gate_calls(&st->out.gate) == 1 &&
		  anchor_sample(st, true, &kernel);

	return ok && kernel > ours ? kernel - ours : 0;
}

size_t sr_anchor_unbooked_rx(struct sr_stream *st)
{
	uint64_t kernel, ours = sr_load(&st->in.tcp);
	bool ok = sr_gate_calls(&st->in.gate) == 1 &&
		  anchor_sample(st, false, &kernel);

	if (ok && sr_anchor_ended(st))
		kernel--;			/* the FIN */
	return ok && kernel > ours ? kernel - ours : 0;
}

bool sr_anchor_rx_agrees(struct sr_stream *st)
{
	uint64_t kernel, ours = sr_load(&st->in.tcp);

	if (!anchor_sample(st, false, &kernel))
		return false;
	/* A received FIN counts 1 in bytes_received and nothing in SIOCINQ. */
	if (kernel == ours + 1 && sr_anchor_ended(st))
		kernel--;
	return counts_agree("rx", kernel, ours);
}

/* A stream on a link leaves its anchor idle for days, and firewalls drop idle
 * connections.  So keepalive is on from the first switch, whatever the program
 * chose; SO_KEEPALIVE tells the program what that was (sock/option.c). */
void sr_anchor_keepalive(struct sr_stream *st)
{
	int on = 0;
	socklen_t len = sizeof(on);

	sr_sys_getsockopt(sr_load(&st->anchor), SOL_SOCKET, SO_KEEPALIVE, &on, &len);
	if (on)
		return;
	on = 1;
	sr_sys_setsockopt(sr_load(&st->anchor), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	sr_st_set(st, SR_ST_KEEPALIVE);
}

#define QUARTER_HOUR_MS 900000	/* about what tcp_retries2 grants bytes on their way */

static int tcp_option(struct sr_stream *st, int name)
{
	int value = 0;
	socklen_t len = sizeof(value);

	sr_sys_getsockopt(sr_load(&st->anchor), IPPROTO_TCP, name, &value, &len);
	return value;
}

/* TCP sends keepalive probes only while nothing is on its way (tcp_keepalive_timer() in
 * Linux).  So to a host that is gone RESUME may be on its way for no longer than the
 * probes would have taken, if the program has chosen a time for them. */
void sr_anchor_resumed(struct sr_stream *st)
{
	long long ms = 1000ll * (tcp_option(st, TCP_KEEPIDLE) +
				 (long long)tcp_option(st, TCP_KEEPINTVL) *
					 tcp_option(st, TCP_KEEPCNT));
	unsigned limit = (unsigned)ms;

	if (ms > 0 && ms < QUARTER_HOUR_MS && !tcp_option(st, TCP_USER_TIMEOUT))
		sr_sys_setsockopt(sr_load(&st->anchor), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit,
				   sizeof(limit));
}
