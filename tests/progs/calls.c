/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * calls.c - random calls on both ends of a connection, within one process:
 *
 *     calls ADDRESS FIRST-SEED COUNT [late]
 *
 * prints each call with its result, the same on every run over kernel TCP.  What
 * sockrail(7) says to differ is avoided; with "late" also what differs where one
 * direction is on a link and the other one is not.
 */
#include "calls_io.h"
#include "calls_more.h"
#include "calls_wait.h"

#define STEPS 60

static int lfd;

/* ------------------------------------------------------------ options and controls */

static void tell_option(struct end *e, const char *name, int level, int option)
{
	socklen_t len = once_in(6) ? pick(9) : sizeof(int);
	int v[4] = {0x1234, 0, 0, 0}, r;

	errno = 0;
	r = getsockopt(any_fd(e), level, option, v, &len);
	printf("%d %c get %s: %d %s, %x, %u\n", step, e->name, name, r, error_name(r), v[0], len);
}

static void set_option(struct end *e)
{
	static const struct {
		const char *name;
		int level, option, value[3];
		bool odd;
	} o[] = {
		{"REUSEADDR", SOL_SOCKET, SO_REUSEADDR, {0, 1, 7}, false},
		{"OOBINLINE", SOL_SOCKET, SO_OOBINLINE, {0, 1, 0}, false},
		{"PRIORITY", SOL_SOCKET, SO_PRIORITY, {0, 3, 5}, false},
		{"SNDBUF", SOL_SOCKET, SO_SNDBUF, {40000, 100000, 300000}, false},
		{"RCVBUF", SOL_SOCKET, SO_RCVBUF, {40000, 100000, 300000}, false},
		{"NODELAY", IPPROTO_TCP, TCP_NODELAY, {1, 1, 1}, false},
		{"USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT, {0, 10000, -1}, false},
		{"KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE, {50, 7000, 0}, false},
		{"KEEPCNT", IPPROTO_TCP, TCP_KEEPCNT, {1, 100, 1000}, false},
		{"LINGER2", IPPROTO_TCP, TCP_LINGER2, {0, 3, 60}, false},
		{"nothing", IPPROTO_TCP, 999, {0, 0, 0}, false},
		{"RCVLOWAT 1", SOL_SOCKET, SO_RCVLOWAT, {0, 1, 1}, false},
		{"RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT, {1, 2, 300}, true},
		{"ZEROCOPY", SOL_SOCKET, SO_ZEROCOPY, {0, 1, 2}, true},
		{"PEEK_OFF", SOL_SOCKET, SO_PEEK_OFF, {-1, -1, -1}, true},
		{"TIMESTAMP", SOL_SOCKET, SO_TIMESTAMP, {0, 0, 0}, true},
		{"SNDBUF small", SOL_SOCKET, SO_SNDBUF, {50000, 50000, 50000}, true},
		/* Another traffic class: over RDMA, of another link */
		{"TOS", IPPROTO_IP, IP_TOS, {0, 8, 16}, true},
		{"PRIORITY class", SOL_SOCKET, SO_PRIORITY, {2, 4, 6}, true},
	};
	unsigned i = pick(odd_for(e, 1) ? COUNT(o) : COUNT(o) - 7);
	socklen_t len = once_in(8) ? pick(5) : sizeof(int);
	int v = o[i].value[pick(3)], r;

	if (o[i].option == TCP_NODELAY && len < sizeof(int))
		len = sizeof(int);
	errno = 0;
	r = setsockopt(any_fd(e), o[i].level, o[i].option, &v, len);
	printf("%d %c set %s %d (%u): %d %s\n", step, e->name, o[i].name, v, len, r,
	       error_name(r));
	if (!r)
		tell_option(e, o[i].name, o[i].level, o[i].option);
	if (!r && o[i].option == SO_RCVLOWAT && o[i].level == SOL_SOCKET)
		e->least = v ? (size_t)v : 1;
	if (!r && o[i].option == TCP_NODELAY)
		push(e);
}

static void get_option(struct end *e)
{
	switch (pick(8)) {
	case 0:
		tell_option(e, "TYPE", SOL_SOCKET, SO_TYPE);
		break;
	case 1:
		tell_option(e, "DOMAIN", SOL_SOCKET, SO_DOMAIN);
		break;
	case 2:
		tell_option(e, "ACCEPTCONN", SOL_SOCKET, SO_ACCEPTCONN);
		break;
	case 3:
		tell_option(e, "NODELAY", IPPROTO_TCP, TCP_NODELAY);
		break;
	case 4:
		tell_option(e, "CORK", IPPROTO_TCP, TCP_CORK);
		break;
	case 5:
		tell_option(e, "RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT);
		break;
	default:
		tell_option(e, "ERROR", SOL_SOCKET, SO_ERROR);
	}
}

static void set_cork(struct end *e)
{
	int on = !e->corked, r;

	errno = 0;
	r = setsockopt(any_fd(e), IPPROTO_TCP, TCP_CORK, &on, sizeof(on));
	tell_result(e, on ? "cork" : "uncork", r);
	if (r)
		return;
	e->corked = on;
	if (!on)
		push(e);
}

static void set_time(struct end *e)
{
	struct timeval tv = {0, e->timed ? 0 : 8000}, got = {9, 9};
	socklen_t len = sizeof(got);
	int name = once_in(3) ? SO_SNDTIMEO : SO_RCVTIMEO, r;

	if (once_in(8))
		tv.tv_usec = 1000000;
	errno = 0;
	r = setsockopt(any_fd(e), SOL_SOCKET, name, &tv, sizeof(tv));
	tell_result(e, name == SO_RCVTIMEO ? "RCVTIMEO" : "SNDTIMEO", r);
	r |= getsockopt(any_fd(e), SOL_SOCKET, name, &got, &len);
	say("  %ld %ld, %u", got.tv_sec, got.tv_usec, len);
	if (!r && name == SO_RCVTIMEO)
		e->timed = tv.tv_usec != 0;
}

static void set_mode(struct end *e)
{
	int fd = any_fd(e), on = !e->nonblock, flags = fcntl(fd, F_GETFL), r;

	errno = 0;
	if (once_in(2))
		r = ioctl(fd, FIONBIO, &on);
	else
		r = fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
	tell_result(e, on ? "non-blocking" : "blocking", r);
	e->nonblock = on;
	say("  flags %x", fcntl(any_fd(e), F_GETFL));
}

static void control(struct end *e)
{
	int fd = any_fd(e), n = 77, r;

	errno = 0;
	switch (pick(5)) {
	case 0:
	case 1:
		r = ioctl(fd, FIONREAD, &n);
		break;
	case 2:
		r = ioctl(fd, SIOCATMARK, &n);
		break;
	case 3:
		r = ioctl(fd, 0x1234, &n);
		break;
	default:
		r = fcntl(fd, F_GETFD);
	}
	tell_result(e, "control", r);
	say("  %d", n);
}

static void as_file(struct end *e)
{
	int fd = any_fd(e);
	struct stat st;
	ssize_t r = -1;
	unsigned which = pick(6);

	errno = 0;
	switch (which) {
	case 0:
		r = lseek(fd, 0, SEEK_CUR);
		break;
	case 1:
		r = pread(fd, buf, 10, 0);
		break;
	case 2:
		r = pwrite(fd, buf, 10, 0);
		break;
	case 3:
		r = fsync(fd);
		break;
	case 4:
		r = ftruncate(fd, 0);
		break;
	case 5:
		r = fstat(fd, &st) ? -1 : S_ISSOCK(st.st_mode);
		break;
	}
	printf("%u", which);
	tell_result(e, "as a file", r);
}

/* ------------------------------------------------------------ names */

static void tell_name(struct end *e)
{
	struct sockaddr_in own = {0}, other = {0};
	socklen_t len = sizeof(own), room = once_in(4) ? pick(20) : sizeof(other),
		  other_len = room;
	bool peer = once_in(2);
	int fd = any_fd(e), r;

	if (over(e))
		settle(e);
	errno = 0;
	if (peer)
		r = getpeername(fd, (void *)&other, &other_len);
	else
		r = getsockname(fd, (void *)&other, &other_len);
	if (peer && over(e) && (e->in || e->peer->in))	/* TCP's end may come later */
		return;
	tell_result(e, peer ? "getpeername" : "getsockname", r);
	if (other_len < sizeof(other) || e->peer->closed || over(e) || r)
		return;
	if (peer)
		getsockname(e->peer->fd[0], (void *)&own, &len);
	else if (getpeername(e->peer->fd[0], (void *)&own, &len))
		return;
	say("  length %u, %s", other_len, room < sizeof(other) ? "a part" :
	    own.sin_port == other.sin_port ? "the same" : "another");
}

static void connect_again(struct end *e)
{
	struct sockaddr_in a = {0};
	socklen_t len = sizeof(a);

	if (over(e))
		return;
	getsockname(lfd, (void *)&a, &len);
	errno = 0;
	tell_result(e, "connect", connect(any_fd(e), (void *)&a, len));
	errno = 0;
	tell_result(e, "accept", accept(any_fd(e), NULL, NULL));
	errno = 0;
	tell_result(e, "bind", bind(any_fd(e), (void *)&a, len));
	errno = 0;
	tell_result(e, "listen", listen(any_fd(e), 1));
}

/* ------------------------------------------------------------ descriptors */

static void duplicate(struct end *e)
{
	int fd = any_fd(e), to = -1;

	errno = 0;
	if (e->fds < FDS) {
		switch (pick(4)) {
		case 0:
			to = dup(fd);
			break;
		case 1:
			to = fcntl(fd, F_DUPFD_CLOEXEC, 100);
			break;
		case 2:
			to = dup2(fd, 150 + (int)pick(10) + (e == ends ? 10 : 0));
			break;
		case 3:
			to = fcntl(fd, F_DUPFD, 50);
			break;
		}
		for (int i = 0; i < e->fds; i++)
			if (e->fd[i] == to)
				return;
		e->fd[e->fds++] = to;
	} else if (once_in(3)) {	/* in place of another one */
		to = dup3(e->fd[0], e->fd[1], O_CLOEXEC);
		tell_result(e, "dup3 to itself", dup3(fd, fd, 0));
		errno = 0;
	} else {
		fd = e->fd[0];
		memmove(e->fd, e->fd + 1, (size_t)--e->fds * sizeof(fd));
		to = close(fd);
	}
	tell_result(e, "duplicate", to < 0 ? to : e->fds);
}

/* ------------------------------------------------------------ ends */

static void shut(struct end *e)
{
	static const int hows[] = {SHUT_RD, SHUT_WR, SHUT_WR, SHUT_RDWR, 7};
	int how = hows[pick(COUNT(hows))], r;

	if (how == 7 && !once_in(3))
		return;
	errno = 0;
	r = shutdown(any_fd(e), how);
	printf("%d ", how);
	tell_result(e, "shutdown", r);
	if (r)
		return;
	if (how != SHUT_WR)
		e->rd_shut = true;
	if (how != SHUT_RD && !e->wr_shut) {
		e->wr_shut = true;
		if (!e->peer->closed)
			e->peer->in += e->held;
		e->held = 0;
		e->peer->fin = true;
		settle(e->peer);
		settle(e);
	}
}

static void end_of(struct end *e)
{
	struct linger l = {1, (int)pick(2)};
	struct end *peer = e->peer;
	bool reset, tame = (peer->rd_shut && peer->wr_shut) || (late && e->wr_shut);

	/* (A reset of what has been shut down both ways is seen a moment later.) */
	if (tame && e->in)
		e->in -= take(e->fd[0], buf, e->in);
	reset = e->in && !over(e);
	if (!tame && once_in(3)) {
		setsockopt(e->fd[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l));
		say("linger %d", l.l_linger);
		reset |= !l.l_linger && !over(e);
	}
	while (e->fds) {
		errno = 0;
		tell_result(e, "close", close(e->fd[--e->fds]));
	}
	e->closed = true;
	if (!peer->closed) {
		if (reset)
			peer->dead = true;
		else
			peer->in += e->held;
		peer->fin = true;
	}
	e->held = 0;
	settle(peer);
}

/* ------------------------------------------------------------ a seed */

static const struct {
	void (*call)(struct end *e);
	unsigned weight;
} ops[] = {
	{send_some, 30}, {by_file, 4}, {receive_some, 36}, {odd_count, 3}, {poll_some, 16},
	{select_some, 10}, {set_option, 4}, {get_option, 5}, {set_cork, 2}, {set_time, 2},
	{set_mode, 3}, {control, 5}, {as_file, 1}, {tell_name, 2}, {connect_again, 1},
	{duplicate, 5}, {shut, 2}, {bulk, 1}, {fill, 1}, {be_woken, 1},
};

static void (*some_op(void))(struct end *)
{
	unsigned sum = 0, at;

	for (size_t i = 0; i < COUNT(ops); i++)
		sum += ops[i].weight;
	at = pick(sum);
	for (size_t i = 0;; i++) {
		if (at < ops[i].weight)
			return ops[i].call;
		at -= ops[i].weight;
	}
}

/* What is held back goes out before anything else, as TCP does not hold it for ever. */
static void turn(void)
{
	struct end *e = &ends[pick(2)];
	void (*op)(struct end *) = some_op();

	if (e->closed)
		e = e->peer;
	for (int i = 0; i < 2; i++)
		if (ends[i].held) {
			e = &ends[i];
			op = e->held > 2000 && !e->corked ? send_some :
			     e->held > 2000 || (e->corked && once_in(3)) ? set_cork : send_some;
		}
	if (op == receive_some && !ready(e) && !e->peer->closed && !once_in(3))
		e = e->peer;
	if ((op == send_some || op == by_file) && !may_send(e))
		op = receive_some;
	op(e);
}

/* Most streams have a link from then on, if they ask for it at once. */
static void warm_up_both(void)
{
	for (int i = 0; i < 2; i++) {
		put(ends[i].fd[0], "w", 1);
		take(ends[!i].fd[0], buf, 1);
	}
}

static void begin(uint64_t seed)
{
	int flags, fd;

	chance = (struct data)DATA(seed + 1);
	for (int i = 0; i < 8; i++)
		pick(2);
	odd = once_in(4);
	flags = once_in(2) ? 0 : once_in(2) ? SOCK_CLOEXEC : SOCK_NONBLOCK;
	for (int i = 0; i < 2; i++)
		ends[i] = (struct end){.fds = 1, .least = 1, .name = (char)('A' + i), .peer = &ends[!i],
				       .tx = DATA(seed * 2 + (uint64_t)i + 100)};
	ends[0].fd[0] = dial();
	fd = accept4(lfd, NULL, NULL, flags);
	ends[1].fd[0] = fd;
	ends[1].nonblock = flags == SOCK_NONBLOCK;
	say("seed %llu: %x %x", (unsigned long long)seed, fcntl(fd, F_GETFL),
	    fcntl(fd, F_GETFD));
	for (int i = 0; i < 2; i++) {
		set_int(ends[i].fd[0], IPPROTO_TCP, TCP_NODELAY, 1);
		say_result("nothing yet", recv(ends[i].fd[0], buf, 1, MSG_DONTWAIT));
	}
	if (!once_in(4))
		warm_up_both();
	step = 0;
}

static void run(uint64_t seed)
{
	int first;

	begin(seed);
	first = (int)pick(2);
	for (; step < STEPS; step++) {
		alarm(100);
		turn();
	}
	while (ends[0].held || ends[1].held)
		turn();
	end_of(&ends[first]);
	for (int i = 0; i < 10; i++, step++)
		turn();
	end_of(&ends[!first]);
	if (once_in(4))
		listener();
	alarm(0);
}

static void count_signal(int sig)
{
	(void)sig;
	signals++;
}

static void hang(int sig)
{
	static const char text[] = "it hangs\n";

	(void)sig;
	fflush(stdout);
	(void)!write(2, text, sizeof(text) - 1);
	abort();
}

int main(int argc, char **argv)
{
	struct data d = DATA(7);

	if (argc < 4)
		return 2;
	late = argc > 4;
	signal(SIGPIPE, count_signal);
	signal(SIGALRM, hang);
	file = tmpfile();
	data_fill(&d, buf, FILE_SIZE);
	if (!file || fwrite(buf, FILE_SIZE, 1, file) != 1 || fflush(file) || pipe(empty))
		die("file");
	set_addr(argv[1], 0);
	lfd = listen_on("/dev/null");
	for (int i = 0, n = atoi(argv[3]); i < n; i++)
		run(strtoull(argv[2], NULL, 0) + (uint64_t)i);
	return 0;
}
