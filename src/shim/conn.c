/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * conn.c - socket(2), accept(2) and connect(2).
 */
#include "shim/shim.h"

#include <netinet/in.h>

static bool is_tcp(int domain, int type, int protocol)
{
	return (domain == AF_INET || domain == AF_INET6) &&
	       (type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) == SOCK_STREAM &&
	       (protocol == 0 || protocol == IPPROTO_TCP);
}

int sr_socket(int domain, int type, int protocol)
{
	int fd, saved;

	sr_shim_makes();
	fd = sr_real.socket(domain, type, protocol);
	saved = errno;
	if (fd < 0 || sr_inside || sr_shim_has_made(fd))
		return fd;
	if (!is_tcp(domain, type, protocol) || !sr_shim_ready() ||
	    !sr_process_ours())
		return sr_shim_fresh(fd);
	sr_hold();
	sr_shim_enter(fd, sr_stream_open(fd));
	sr_release();
	errno = saved;
	return fd;
}

/* Makes a stream of a listening socket that the program has inherited. */
static struct sr_stream *adopt_inherited(int fd)
{
	struct sr_stream *st = NULL;

	if (sr_shim_ready() && sr_process_ours())
		st = sr_listener_adopt(fd);
	if (st)
		sr_shim_enter(fd, st);
	return st ? sr_fdtab_get(fd) : NULL;
}

/* Enters the accepted connection fd.  The listener is looked up only now, because
 * accept() may have slept for long, and may be cancelled. */
static int enter_accepted(int listener, int fd)
{
	struct sr_stream *st;
	int saved = errno;

	if (fd < 0 || sr_inside || sr_shim_has_made(fd))
		return fd;
	sr_hold();
	st = sr_fdtab_get(listener);
	if (!st)
		st = adopt_inherited(listener);
	if (!st)
		sr_shim_fresh(fd);
	else if (sr_process_ours())
		sr_shim_enter(fd, sr_stream_accepted(st, fd));
	if (st)
		sr_stream_put(st);
	sr_answer_look();
	sr_release();
	errno = saved;
	return fd;
}

/* A signal handler has left the call by siglongjmp(3), or the thread is cancelled. */
static void left_accept(void *socket)
{
	sr_listener_leave(socket);
	sr_stream_put(socket);
}

/* flags: NULL for accept(2). */
static int call_accept(int fd, struct sockaddr *addr, socklen_t *len, const int *flags)
{
	return flags ? sr_real.accept4(fd, addr, len, *flags) : sr_real.accept(fd, addr, len);
}

/* While this thread waits, the asker of a connection that comes is told that a thread is in
 * accept() (upgrade/hold.c). */
SR_WINDOW_FRAME
static int wait_in_accept(struct sr_stream *st, int fd, struct sockaddr *addr,
			  socklen_t *len, const int *flags)
{
	struct sr_window w;
	int r, err = errno;

	sr_hold();
	sr_listener_enter(st);
	errno = err;
	sr_window_open(&w, left_accept, st);
	r = call_accept(fd, addr, len, flags);
	err = errno;
	sr_window_close(&w);
	sr_listener_leave(st);
	sr_stream_put(st);
	sr_release();
	errno = err;
	return r;
}

static int accept_next(int fd, struct sockaddr *addr, socklen_t *len, const int *flags)
{
	struct sr_stream *listener = sr_inside ? NULL : sr_fdtab_get(fd);

	sr_shim_makes();
	if (!listener)
		return enter_accepted(fd, call_accept(fd, addr, len, flags));
	return enter_accepted(fd, wait_in_accept(listener, fd, addr, len, flags));
}

int sr_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return accept_next(fd, addr, len, NULL);
}

int sr_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	return accept_next(fd, addr, len, &flags);
}

int sr_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sr_stream *st = sr_fdtab_get(fd);
	int saved = errno, r;

	if (!st)
		return sr_real.connect(fd, addr, len);
	r = sr_stream_connect(st, fd, addr, len);
	/* The connection was dissolved (AF_UNSPEC): a new one of this socket stays plain. */
	if (r == 1 && sr_process_ours())
		sr_shim_release(fd);
	return (int)sr_result(st, saved, r == 1 ? 0 : r);
}
