/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * option.c - connect, listen, socket options and ioctls.  All options are set on
 * the anchor; this file does what else an option needs while bytes travel by a
 * link.  It knows no kind of link.
 *
 * Locks: the lock of the direction that an option or ioctl concerns.
 */
#include "base/sys.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/addr.h"
#include "base/fdpriv.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "upgrade/upgrade.h"
#include "wait/sleep.h"
#include "sock/sock.h"

/* If the thread is cancelled in connect(), or a handler leaves it by longjmp(), the
 * connection is still being made. */
static void left_connecting(void *st)
{
	sr_st_set(st, SR_ST_CONNECT | SR_ST_FRESH);
	sr_stat_note(st);
	sr_stream_put(st);
}

SR_WINDOW_FRAME
static int kernel_connect(struct sr_stream *st, int fd,
			  const struct sockaddr *addr, socklen_t len)
{
	struct sr_window w;
	int r;

	sr_window_open(&w, left_connecting, st);
	r = sr_real.connect(fd, addr, len);
	if (r < 0)
		r = -errno;
	sr_window_close(&w);
	return r;
}

static void use_rule(struct sr_stream *st, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage peer = { 0 };

	if (!addr || len > sizeof(peer))
		return;
	memcpy(&peer, addr, len);
	sr_stream_policy(st, true, &peer);
}

static bool connect_dissolves(const struct sockaddr *addr, socklen_t len)
{
	return addr && len >= sizeof(sa_family_t) && addr->sa_family == AF_UNSPEC;
}

/* A new socket of the family of fd, or -1.  By it we let the kernel check an argument of the
 * program before the real call is made. */
static int trial_socket(int fd)
{
	socklen_t len = sizeof(int);
	int family;

	if (sr_sys_getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) < 0)
		return -1;
	return sr_fd_own(sr_sys_socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

/* Would connect(2) with this address dissolve the connection?  The kernel reads the address,
 * because the pointer may be invalid: it accepts a length of only the family if the family is
 * AF_UNSPEC. */
static bool would_dissolve(int fd, const struct sockaddr *addr, socklen_t len)
{
	bool taken;
	int trial;

	sr_hold();
	trial = trial_socket(fd);
	if (trial < 0) {
		taken = connect_dissolves(addr, len);
	} else {
		taken = len >= sizeof(sa_family_t) &&
			sr_sys_connect(trial, addr, sizeof(sa_family_t)) == 0;
		sr_fd_close(trial);
	}
	sr_release();
	return taken;
}

static int connect_held(struct sr_stream *st, int fd,
			const struct sockaddr *addr, socklen_t len)
{
	unsigned how = SR_ST_CONNECT;
	int r;

	r = kernel_connect(st, fd, addr, len);
	if (r == -EINPROGRESS || r == -EINTR)
		how |= SR_ST_FRESH;
	else if (r < 0)
		return r;
	if (r == 0 && connect_dissolves(addr, len))
		return 1;
	if (!(sr_st_flags(st) & SR_ST_CONNECT)) {
		use_rule(st, addr, len);
		sr_st_set(st, how);
		sr_stat_note(st);
	}
	/* Names the stream for the report now, because at its end the peer is no longer known. */
	if (sr_conf.report[0] && !(how & SR_ST_FRESH))
		sr_stream_name(st);
	return r;
}

int sr_stream_connect(struct sr_stream *st, int fd,
		      const struct sockaddr *addr, socklen_t len)
{
	int r;

	if ((sr_st_flags(st) & (SR_ST_CONNECT | SR_ST_ACCEPT)) && would_dissolve(fd, addr, len))
		sr_stream_make_plain(st, SR_REASON_OPTION, false);
	sr_hold();
	r = connect_held(st, fd, addr, len);
	sr_release();
	return r;
}

static bool has_port(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	return sr_sys_getsockname(fd, (struct sockaddr *)&ss, &len) == 0 &&
	       sr_addr_port((struct sockaddr *)&ss);
}

/* Is the listener to have a rendezvous?  If it cannot have one, says why.  In a signal handler the
 * service thread cannot be started; the first accepted stream starts it (sr_listener_worth()). */
static bool wants_rendezvous(struct sr_stream *st)
{
	struct sr_listener *l = sr_listener_of(st);
	enum sr_reason why = SR_REASON_NONE;
	int r = 0;

	if (st->policy->upgrade == SR_NEVER || (sr_st_flags(st) & SR_ST_LISTEN))
		return false;
	if (!sr_loop_runs())
		why = sr_listener_never(l);
	if (why == SR_REASON_NONE && sr_loop_may_start())
		r = sr_loop_start();
	if (r < 0)
		why = sr_reason_of(r, SR_REASON_MEMORY);
	if (why != SR_REASON_NONE)
		sr_listener_unavailable(l, why);
	return why == SR_REASON_NONE;
}

/* In policy wait the rendezvous opens before the port does, because a client that
 * connects at once would otherwise find no rendezvous.  (If the socket is unbound,
 * listen() chooses the port, so no peer can know it before.)  In the other
 * policies listen(2) must not take longer than without us: some programs tell their
 * peer a port and open it a moment later (iperf -d). */
int sr_stream_listen(struct sr_stream *st, int fd, int backlog)
{
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);
	bool early, want, waits;
	int r;

	if (sr_sys_getsockname(fd, (struct sockaddr *)&local, &len) == 0)
		sr_stream_policy(st, false, &local);
	waits = st->policy->upgrade == SR_WAIT && sr_loop_may_start();
	want = wants_rendezvous(st);
	early = want && waits && has_port(fd) &&
		!(sr_st_flags(st) & (SR_ST_CONNECT | SR_ST_ACCEPT));
	if (early)
		sr_listener_open(sr_listener_of(st), fd, true);
	if (sr_real.listen(fd, backlog) < 0) {
		r = -errno;
		if (early)
			sr_listener_stop(sr_listener_of(st));
		return r;
	}
	if (want && !early)
		sr_listener_open(sr_listener_of(st), fd, waits);
	return 0;
}

/* What SO_ERROR returns if the kernel says err. */
static int next_error(struct sr_stream *st, int err)
{
	int ours = sr_error_take(st);

	/* The link reported the reset before TCP did, and the program has been told. */
	if (!ours && err && sr_load(&st->out.broken) && sr_load(&st->err.reported))
		return 0;
	/* The kernel and the link may both have seen the same reset, but only the
	 * link has seen the peer's end that came before it. */
	if (ours || (err && sr_any_gate_shut(st)))
		sr_store(&st->err.reported, true);
	if (ours)
		return ours;
	sr_stream_failed(st, -err);
	return err == ECONNRESET && (sr_st_flags(st) & SR_ST_PEER_END) ? EPIPE : err;
}

int sr_stream_getsockopt(struct sr_stream *st, int fd, int level, int name,
			 void *val, socklen_t *len)
{
	int v = 0;

	/* This option reads bytes past the library. */
	if (level == IPPROTO_TCP && name == TCP_ZEROCOPY_RECEIVE)
		sr_stream_make_plain(st, SR_REASON_OPTION, true);
	if (sr_real.getsockopt(fd, level, name, val, len) < 0)
		return -errno;
	if (level == SOL_SOCKET && name == SO_ERROR) {
		/* The kernel has cut the value to the program's length. */
		memcpy(&v, val, *len);
		v = next_error(st, v);
		memcpy(val, &v, *len);
	}
	if (level == SOL_SOCKET && name == SO_KEEPALIVE &&
	    (sr_st_flags(st) & SR_ST_KEEPALIVE)) {
		v = 0;
		memcpy(val, &v, *len);
	}
	if (level == IPPROTO_TCP && name == TCP_INFO && sr_any_gate_shut(st))
		sr_state_info(st, val, *len);
	return 0;
}

/* Handles TCP_CORK, and TCP_NODELAY, which also sends what is corked: tcp(7). */
static void set_push(struct sr_stream *st, int name, bool on)
{
	sr_lock(&st->tx_lock);
	if (name == TCP_CORK && on)
		sr_st_set(st, SR_ST_CORK);
	else if (name == TCP_CORK)
		sr_st_clear(st, SR_ST_CORK);
	sr_fast_update_tx(st);
	if (on == (name == TCP_NODELAY) && st->out.link && st->tx.state == SR_TX_LINK)
		sr_tx_flush(st);
	sr_unlock(&st->tx_lock);
}

/* The program has set SO_KEEPALIVE.  While the stream is on a link, it stays on for the
 * anchor. */
static void set_keepalive(struct sr_stream *st, bool on)
{
	sr_lock(&st->rx_lock);
	sr_st_clear(st, SR_ST_KEEPALIVE);
	if (!on && sr_load(&st->anchor) >= 0 && sr_any_gate_shut(st))
		sr_anchor_keepalive(st);
	sr_unlock(&st->rx_lock);
}

/* Handles TCP_INQ: while the gate is open the kernel gives the control messages. */
static void set_inq(struct sr_stream *st, bool on)
{
	sr_lock(&st->rx_lock);
	if (on)
		sr_st_set(st, SR_ST_INQ);
	else
		sr_st_clear(st, SR_ST_INQ);
	sr_fast_update_rx(st);
	sr_unlock(&st->rx_lock);
}

/* A link cannot carry what the option promises: ends a link, even one that was made while the
 * option was being set.  (A link that is still being made is refused by upgrade/attach.c.) */
static void go_plain(struct sr_stream *st)
{
	/* pair option: sr_attach_begin(); sr_promise_note() has changed up.promises */
	if (sr_look(&st->up.att) || sr_any_gate_shut(st) || sr_observe(&st->owned.guest))
		sr_stream_make_plain(st, SR_REASON_OPTION, true);
}

/* Would the kernel refuse the option?  Tried on a new socket.  If the kernel accepts the option
 * there but refuses it for the stream, the stream goes back to TCP although it need not. */
static bool is_refused(int fd, int level, int name, const void *val, socklen_t len)
{
	bool refused;
	int trial;

	sr_hold();
	trial = trial_socket(fd);
	refused = trial >= 0 && sr_sys_setsockopt(trial, level, name, val, len) < 0;
	if (trial >= 0)
		sr_fd_close(trial);
	sr_release();
	return refused;
}

/* The program's value is read only after a system call has checked the pointer.  An option that
 * could disturb the return to TCP is set after the return. */
/* The kernel has set an option that a link follows. */
static void follow_option(struct sr_stream *st, int level, int name, const void *val)
{
	int v;

	if (sr_tclass_is(level, name))
		sr_tclass_set(st);
	if (level == IPPROTO_TCP && (name == TCP_CORK || name == TCP_NODELAY)) {
		memcpy(&v, val, sizeof(v));
		set_push(st, name, v);
	} else if (level == SOL_SOCKET && name == SO_KEEPALIVE) {
		memcpy(&v, val, sizeof(v));
		set_keepalive(st, v);
	} else if (level == IPPROTO_TCP && name == TCP_INQ) {
		memcpy(&v, val, sizeof(v));
		set_inq(st, v);
	} else if (level == SOL_SOCKET && (name == SO_TIMESTAMP || name == SO_TIMESTAMPNS)) {
		/* Many programs set these and never look (iperf 2); recv.c sees
		 * which do. */
		sr_st_set(st, SR_ST_STAMPS);
	}
}

int sr_stream_setsockopt(struct sr_stream *st, int fd, int level, int name,
			 const void *val, socklen_t len)
{
	int promise = sr_promise_find(level, name);
	bool time = promise >= 0 && sr_promise_limits_time(promise), made;

	if (promise >= 0 && !time && sr_any_gate_shut(st) &&
	    !is_refused(fd, level, name, val, len) && sr_promise_made(promise, val, len)) {
		sr_promise_say(st, promise);
		sr_stream_make_plain(st, SR_REASON_OPTION, true);
	}
	if (sr_real.setsockopt(fd, level, name, val, len) < 0)
		return -errno;
	if (promise >= 0) {
		made = sr_promise_made(promise, val, len);
		sr_promise_note(st, promise, made);
		if (made)
			go_plain(st);
	}
	if (time)
		sr_stream_mode_changed(st);
	follow_option(st, level, name, val);
	return 0;
}

int sr_stream_ioctl(struct sr_stream *st, int fd, unsigned long req, void *arg)
{
	int r;

	if (req == FIOASYNC)
		sr_stream_make_plain(st, SR_REASON_OPTION, false);
	if (req == SIOCINQ)
		sr_guest_use(st, SR_NOTIFY_RX);
	r = sr_real.ioctl(fd, req, arg);
	if (r == 0 && (req == SIOCINQ || req == SIOCOUTQ || req == SIOCOUTQNSD))
		return sr_state_queue(st, fd, req, arg);
	if (req == FIONBIO)
		sr_stream_mode_changed(st);
	return r < 0 ? -errno : r;
}
