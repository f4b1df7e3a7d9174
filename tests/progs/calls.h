/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * calls.h - the two ends of a connection within one process, and what the program has to
 * know of them so that each call has one result over kernel TCP: how much lies unread, what
 * has ended, what would block.
 */
#ifndef TEST_CALLS_H
#define TEST_CALLS_H

#include <sys/stat.h>

#define OWN_MAIN
#include "case.h"

#define FDS 3		/* descriptors of one end */
#define ROOM 6000	/* bytes that may lie unread: less than any buffer or first ring */
#define BUF 16384

struct end {
	int fd[FDS], fds;
	size_t in;		/* unread */
	size_t least;		/* SO_RCVLOWAT */
	size_t held;		/* sent, and held back by MSG_MORE or TCP_CORK */
	bool corked;
	bool nonblock, timed;	/* O_NONBLOCK, SO_RCVTIMEO */
	bool wr_shut, rd_shut, closed;
	bool fin;		/* the peer's end has come, or lies behind what is unread */
	bool dead;		/* reset */
	struct data tx;
	struct end *peer;
	char name;
};

static struct end ends[2];
static struct data chance;
static bool odd;	/* this seed makes calls that no link serves, too */
static bool late;	/* one direction may be on a link and the other one not, or not yet */
static int step;
static volatile int signals;
static char buf[BUF];

static inline unsigned pick(unsigned n)
{
	return (unsigned)(data_next(&chance) >> 16) % n;
}

static inline bool once_in(unsigned n)
{
	return pick(n) == 0;
}

static inline int any_fd(const struct end *e)
{
	return e->fd[pick((unsigned)e->fds)];
}

static inline bool over(const struct end *e)
{
	return e->dead || (e->wr_shut && e->fin);
}

/* Would a receive return at once? */
static inline bool ready(const struct end *e)
{
	return e->in >= e->least || e->fin || e->dead || e->rd_shut;
}

static inline size_t room(const struct end *e)
{
	size_t used = e->peer->in + e->held;

	return used < ROOM ? ROOM - used : 0;
}

/*
 * Not to an end that has shut both ways down: a link takes what TCP refuses.  Not behind
 * the own end when a reset has come: a link may say EPIPE first.  And where the peer's end
 * came by TCP, but the other direction is on a link, a reset may have another name.
 */
static inline bool may_send(const struct end *e)
{
	if (late && e->peer->closed && !e->dead)
		return false;
	if (e->dead || e->wr_shut)
		return !(e->dead && e->wr_shut);
	return !(e->peer->rd_shut && e->peer->wr_shut);
}

/* Calls that no link serves.  (What lies unread of a peer that has gone is lost by them.) */
static inline bool odd_for(const struct end *e, unsigned n)
{
	return odd && !e->peer->closed && !e->dead && once_in(n);
}

/* errno was 0 before the call: a success leaves it alone. */
static inline const char *error_name(ssize_t r)
{
	return r < 0 || errno ? strerrorname_np(errno) : "";
}

/* ------------------------------------------------------------ arrival */

static inline int state(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) ? -1 : info.tcpi_state;
}

/* Of a stream on a link the kernel's socket follows what TCP_INFO says. */
static inline bool is_gone(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	return state(fd) == TCP_CLOSE && getpeername(fd, (struct sockaddr *)&sa, &len);
}

static inline bool has_come(const struct end *e)
{
	short want = over(e) ? POLLHUP : e->fin ? POLLRDHUP : 0;
	struct pollfd p = {.fd = e->fd[0], .events = POLLRDHUP};
	int n = 0;

	if (ioctl(e->fd[0], FIONREAD, &n) || n < (int)e->in || poll(&p, 1, 0) < 0)
		return false;
	if ((p.revents & want) != want)
		return false;
	return !over(e) || e->in || e->peer->in || is_gone(e->fd[0]);
}

/* Until what was sent to this end is there. */
static inline void settle(const struct end *e)
{
	uint64_t end = 0;
	int n = -1;

	if (e->closed)
		return;
	for (int i = 0; i <= 50 || patient(&end); i++)
		if (has_come(e))
			return;
	ioctl(e->fd[0], FIONREAD, &n);
	say("%c: not settled: %d unread, not %zu; state %d", e->name, n, e->in,
	    state(e->fd[0]));
}

/* While a stream switches to a link it may have no room: waits until both have. */
static void await_room(void)
{
	for (int i = 0; i < 2; i++) {
		struct pollfd p = {.fd = ends[i].fd[0], .events = POLLOUT};

		if (!ends[i].closed && poll(&p, 1, 4000) != 1)
			say("%c: no room", ends[i].name);
	}
}

/* What was held back goes out. */
static inline void push(struct end *e)
{
	if (!e->peer->closed)
		e->peer->in += e->held;
	e->held = 0;
	settle(e->peer);
}

/* The result of a call that sends. */
static inline void has_sent(struct end *e, ssize_t r, bool more)
{
	if (r <= 0)
		return;
	e->held += (size_t)r;
	if (e->peer->closed && !e->dead) {
		e->dead = true;		/* nobody is there */
		settle(e);
	} else if (!more && !e->corked) {
		push(e);
	}
}

static inline uint32_t digest(const void *p, ssize_t n)
{
	struct data d = {0};

	if (n > 0)
		data_sum(&d, p, (size_t)n);
	return d.crc;
}

/* ------------------------------------------------------------ transcript */

static inline const char *flag_names(int flags)
{
	static const struct {
		int flag;
		const char *name;
	} names[] = {{MSG_DONTWAIT, "DONTWAIT"}, {MSG_NOSIGNAL, "NOSIGNAL"}, {MSG_MORE, "MORE"},
		     {MSG_PEEK, "PEEK"}, {MSG_WAITALL, "WAITALL"}, {MSG_TRUNC, "TRUNC"},
		     {MSG_EOR, "EOR"}, {MSG_CTRUNC, "CTRUNC"}, {MSG_CMSG_CLOEXEC, "CLOEXEC"}};
	static char text[2][200];
	static int turn;
	char *t = text[turn ^= 1];

	strcpy(t, flags ? "" : " 0");
	for (size_t i = 0; i < COUNT(names); i++)
		if (flags & names[i].flag)
			strcat(strcat(t, " "), names[i].name);
	return t;
}

/* A call that moves bytes. */
static inline void tell(const struct end *e, const char *call, size_t n, int flags, ssize_t r,
			uint32_t crc)
{
	int saved = errno;

	printf("%d %c %s %zu%s: %zd %s", step, e->name, call, n, flag_names(flags), r,
	       error_name(r));
	if (crc)
		printf(" crc %08x", crc);
	if (signals)
		printf(" SIGPIPE %d", signals);
	putchar('\n');
	signals = 0;
	errno = saved;
}

/* Any other. */
static inline void tell_result(const struct end *e, const char *call, ssize_t r)
{
	printf("%d %c %s: %zd %s\n", step, e->name, call, r, error_name(r));
}

#endif
