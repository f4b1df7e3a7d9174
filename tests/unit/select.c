/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * select() of sets with a stream in them, against the kernel's on the same
 * sets: a plain stream looks the same to both.
 */
#include "base/real.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "check.h"
#include "sockrail.h"
#include "engine/fdtab.h"

#define ROUNDS 3000
#define BIG FD_SETSIZE
#define WORDS (BIG / 64)

struct big {
	unsigned long w[WORDS];
};

static void set(struct big *s, int fd)
{
	s->w[fd / 64] |= 1ul << fd % 64;
}

static int calm[2]; /* a plain stream: accepted, connected */
static int fds[16], nfds;

static void add(int fd)
{
	CHECK(fd >= 0 && nfds < 16);
	fds[nfds++] = fd;
}

static void make_stream(int pair[2])
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(a);
	int l = sr_socket(AF_INET, SOCK_STREAM, 0);

	CHECK_EQ(bind(l, (struct sockaddr *)&a, sizeof(a)), 0);
	CHECK_EQ(getsockname(l, (struct sockaddr *)&a, &len), 0);
	CHECK_EQ(sr_listen(l, 1), 0);
	pair[1] = sr_socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(sr_connect(pair[1], (struct sockaddr *)&a, sizeof(a)), 0);
	pair[0] = sr_accept(l, NULL, NULL);
	CHECK(pair[0] >= 0);
	CHECK_EQ(sr_close(l), 0);
}

/* Descriptors in all sorts of states. */
static void populate(void)
{
	int p[2], q[2];

	make_stream(calm);
	add(calm[0]);
	add(calm[1]);
	make_stream(p); /* readable, with urgent data */
	add(p[0]);
	CHECK_EQ(sr_send(p[1], "abc", 3, 0), 3);
	CHECK_EQ(sr_send(p[1], "!", 1, MSG_OOB), 1);
	make_stream(p); /* half closed */
	add(p[0]);
	add(p[1]);
	CHECK_EQ(sr_shutdown(p[1], SHUT_WR), 0);
	make_stream(p); /* closed both ways */
	add(p[0]);
	CHECK_EQ(sr_shutdown(p[0], SHUT_WR), 0);
	CHECK_EQ(sr_close(p[1]), 0);
	CHECK_EQ(pipe(q), 0);
	add(q[0]);
	add(q[1]);
	CHECK_EQ(pipe(q), 0); /* hung up: POLLHUP alone */
	add(q[0]);
	CHECK_EQ(sr_close(q[1]), 0);
	CHECK_EQ(pipe(q), 0); /* POLLERR */
	add(q[1]);
	CHECK_EQ(sr_close(q[0]), 0);
	add(sr_fcntl(calm[0], F_DUPFD, 900));
	usleep(20000);
}

static void random_sets(struct big s[3], uint64_t *seed)
{
	memset(s, 0, 3 * sizeof(*s));
	for (int i = 0; i < 3; i++) {
		uint64_t r = check_random(seed);

		for (int k = 0; k < nfds; k++) {
			if ((r >> k & 1) && fds[k] != calm[0])
				set(&s[i], fds[k]);
		}
	}
	/* Never without a stream, or the kernel would be asked twice. */
	set(&s[2], calm[0]);
}

static void compare(uint64_t *seed)
{
	struct big a[3], b[3];
	struct timeval ta = {0, 1000}, tb = ta;
	uint64_t r = check_random(seed);
	bool null[3] = {r & 1, r & 2, false};
	int n = r & 4 ? BIG : 1 + fds[(r >> 8) % (unsigned)nfds];
	int ra, rb;

	random_sets(a, seed);
	memcpy(b, a, sizeof(a));
#define SET(s, i) (null[i] ? NULL : (fd_set *)&(s)[i])
	ra = sr_real.select(n, SET(a, 0), SET(a, 1), SET(a, 2), &ta);
	errno = 55;
	rb = sr_select(n, SET(b, 0), SET(b, 1), SET(b, 2), &tb);
	CHECK_EQ(rb, ra);
	CHECK_EQ(errno, 55);
	CHECK(!memcmp(a, b, sizeof(a)));
	/* (Something ready may be late, too, on a busy machine.) */
	if (!ra)
		CHECK(!ta.tv_usec && !tb.tv_usec);
	CHECK_EQ(tb.tv_sec, 0);

	struct timespec t = {0, 0};
	rb = sr_pselect(n, SET(b, 0), SET(b, 1), SET(b, 2), &t, NULL);
	CHECK_EQ(t.tv_nsec, 0);
	CHECK_EQ(rb, ra);
	CHECK(!memcmp(a, b, sizeof(a)));
}

static void test_errors(void)
{
	struct big s = {{0}}, was;
	struct timeval t = {-1, 0};
	struct timespec ts = {0, 1000000000};

	set(&s, calm[0]);
	set(&s, 999); /* not open */
	was = s;
	errno = 0;
	t = (struct timeval){5, 0};
	CHECK_EQ(sr_select(BIG, (fd_set *)&s, NULL, NULL, &t), -1);
	CHECK_EQ(errno, EBADF);
	CHECK(!memcmp(&s, &was, sizeof(s)));
	CHECK(t.tv_sec == 4);
	t = (struct timeval){-1, 0};
	CHECK_EQ(sr_select(100, (fd_set *)&s, NULL, NULL, &t), -1);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(sr_select(-1, (fd_set *)&s, NULL, NULL, NULL), -1);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(sr_pselect(100, (fd_set *)&s, NULL, NULL, &ts, NULL), -1);
	CHECK_EQ(errno, EINVAL);
	/* Longer than the clock will run; wakes at once. */
	t = (struct timeval){__LONG_MAX__, 999999};
	CHECK_EQ(sr_select(100, NULL, (fd_set *)&s, NULL, &t), 1);
}

static void on_alarm(int sig)
{
	(void)sig;
}

static void test_interrupted(void)
{
	struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	struct big s = {{0}}, was;
	struct timeval t = {5, 0};

	sigaction(SIGALRM, &sa, NULL);
	set(&s, calm[0]);
	was = s;
	ualarm(50000, 0);
	CHECK_EQ(sr_select(BIG, (fd_set *)&s, NULL, NULL, &t), -1);
	CHECK_EQ(errno, EINTR);
	CHECK(!memcmp(&s, &was, sizeof(s)));
	CHECK(t.tv_sec == 4);
}

int main(void)
{
	struct rlimit rl;
	uint64_t seed = 1;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &rl), 0);
	if (rl.rlim_cur < BIG && rl.rlim_max >= BIG) {
		rl.rlim_cur = BIG;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
	signal(SIGPIPE, SIG_IGN);
	populate();
	for (int i = 0; i < ROUNDS; i++) {
		check_about("round", (uint64_t)i);
		compare(&seed);
	}
	check_about("errors", 0);
	test_errors();
	test_interrupted();
	return 0;
}
