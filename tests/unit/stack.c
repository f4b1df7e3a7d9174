/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stack.c - our calls in threads whose stack is as small as POSIX allows, over RDMA, on the
 * device of fake_verbs.c, and over shared memory.  The service thread stands still while a
 * call is made on a stream whose link is over, so that the call itself goes back to TCP.
 */
#include "base/real.h"

#include <arpa/inet.h>

#include "base/conf.h"
#include "base/sodium.h"
#include "base/sys.h"
#include "check.h"
#include "engine/fdtab.h"
#include "engine/impl.h"
#include "fake_verbs.h"
#include "link/link.h"
#include "loop_call.h"
#include "sockrail.h"
#include "upgrade/upgrade.h"

#define STACK_CALL(name) sr_##name
#include "../progs/stack_calls.h"

#define HELD_MS 20	/* a call that waits for the service thread waits so long */
#define HANG_S 60	/* for one call, which takes 12 ms, on an emulated processor 100 ms */

enum way { PLAIN, AT_FIRST, LINKED, GROWING, RETURNING, BROKEN };

static const struct scene {
	const char *name;
	enum way way;
	size_t size;
	int wait_ms;
	bool full;
} scenes[] = {
	{"plain", PLAIN, 100, 0, false},
	{"at first", AT_FIRST, 100, 0, false},
	{"linked", LINKED, 100, 0, false},
	{"growing", GROWING, STACK_DATA, 20, false},
	{"returning", RETURNING, 100, 0, false},
	{"link broken", BROKEN, 100, 0, false},
	{"asleep, plain", PLAIN, 100, 1, true},
	{"asleep, linked", LINKED, 100, 1, true},
};

static struct sockaddr_in at;
static int listener;

static int listen_here(struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int l = sr_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*a = (struct sockaddr_in){.sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	CHECK(l >= 0 && !bind(l, (struct sockaddr *)a, len) && !sr_listen(l, 8));
	CHECK(!getsockname(l, (struct sockaddr *)a, &len));
	return l;
}

static struct sr_info info_of(int fd)
{
	struct sr_info info;

	CHECK_EQ(sr_info(fd, &info, sizeof(info)), 0);
	return info;
}

static bool is_linked(int fd)
{
	struct sr_info info = info_of(fd);

	return info.tx_state == SR_STATE_LINK && info.rx_state == SR_STATE_LINK;
}

static void talk(const int fd[2])
{
	for (int from = 0; from < 2; from++) {
		CHECK_EQ(sr_send(fd[from], stack_data, 1, 0), 1);
		CHECK_EQ(sr_recv(fd[!from], stack_data, 1, 0), 1);
	}
}

static void connect_both(int fd[2], enum way way)
{
	sr_conf.policy.upgrade = way == PLAIN ? SR_NEVER : way == AT_FIRST ? SR_LAZY : SR_WAIT;
	sr_conf.policy.upgrade_wait_ms = 10;	/* the loop below waits for the link */
	fd[0] = sr_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(!sr_connect(fd[0], (struct sockaddr *)&at, sizeof(at)));
	fd[1] = sr_accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(fd[1] >= 0);
	CHECK_EQ(sr_send(fd[1], stack_data, 1, 0), 1);	/* its program has used it */
	CHECK_EQ(sr_recv(fd[0], stack_data, 1, 0), 1);
	talk(fd);
	while (way >= LINKED && !is_linked(fd[0]) + !is_linked(fd[1])) {
		talk(fd);
		usleep(1000);
	}
}

/* ---- the service thread stands still ---- */

static sem_t held, go;

static void hold_loop(struct sr_task *t)
{
	struct timespec end;

	(void)t;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += HELD_MS * 1000000L;
	end.tv_sec += end.tv_nsec / 1000000000L;
	end.tv_nsec %= 1000000000L;
	sem_post(&held);
	while (sem_timedwait(&go, &end) && errno == EINTR)
		;
}

static void nothing(void *arg)
{
	(void)arg;
}

static void loop_hold(void)
{
	static struct sr_task hold = {.fn = hold_loop};

	sem_init(&held, 0, 0);
	sem_init(&go, 0, 0);
	sr_loop_post(&hold);
	sem_wait(&held);
}

static void loop_go(void)
{
	sem_post(&go);
	CHECK(!loop_call(nothing, NULL));
}

static void end_link(enum way way, int peer)
{
	struct sr_stream *st;

	loop_hold();
	if (way == BROKEN)
		fake_flush();
	st = sr_fdtab_get(peer);
	CHECK(st != NULL);
	if (way == RETURNING)
		sr_back_begin(st);
	sr_stream_put(st);
}

/* ---- a call ---- */

static void limit_time(int fd, int name, int ms)
{
	struct timeval t = {0, ms * 1000};

	CHECK_EQ(sr_setsockopt(fd, SOL_SOCKET, name, &t, sizeof(t)), 0);
}

static void prepare(const struct scene *s, const int fd[2])
{
	on.size = s->size;
	on.wait_ms = s->wait_ms < 2 ? s->wait_ms : 1;
	if (s->wait_ms) {
		limit_time(fd[0], SO_RCVTIMEO, on.wait_ms);
		limit_time(fd[0], SO_SNDTIMEO, s->wait_ms);
	} else {
		CHECK(!sr_fcntl(fd[0], F_SETFL, O_NONBLOCK));
	}
	for (int i = 0; s->full && i < 3; i++, usleep(100))
		while (sr_send(fd[0], stack_data, STACK_DATA, MSG_DONTWAIT) > 0)
			;
	for (int i = 0; !s->full && i < (s->way == GROWING ? 5 : 1); i++, usleep(500))
		sr_send(fd[1], stack_data, s->way == GROWING ? STACK_DATA : 5000, MSG_DONTWAIT);
	if (s->way >= RETURNING)
		end_link(s->way, fd[1]);
}

static unsigned returned, grew;

static bool one_fits(const struct scene *s, int number, const char *kind)
{
	size_t memory;
	char what[64];
	bool fits;
	int fd[2];

	snprintf(what, sizeof(what), "%s over %s", s->name, kind);
	check_about(what, (uint64_t)number);
	alarm(HANG_S);
	connect_both(fd, s->way);
	prepare(s, fd);
	memory = sr_memory_used();
	fits = stack_fits(what, number, fd[0]);
	if (s->way >= RETURNING) {
		returned += sr_fdtab_has(fd[0]) && !is_linked(fd[0]);
		loop_go();
	}
	grew += s->way == GROWING && sr_memory_used() > memory;
	if (sr_sys_fcntl(fd[0], F_GETFD, 0) >= 0)
		sr_close(fd[0]);
	sr_close(fd[1]);
	return fits;
}

static bool all_fit(const char *kind)
{
	bool fits = true;

	returned = grew = 0;
	for (size_t k = 0; k < sizeof(scenes) / sizeof(scenes[0]); k++)
		for (int i = 0; i < CALLS; i++)
			if (stack_calls[i].run && (scenes[k].way != BROKEN || kind[0] == 'v'))
				fits = one_fits(&scenes[k], i, kind) && fits;
	printf("%s: %u returned, %u grew\n", kind, returned, grew);
	CHECK(returned >= 20 && grew);
	return fits;
}

int main(int argc, char **argv)
{
	bool fits;

	(void)argc;
	if (getenv("SR_TEST_SANITIZER") || !sr_sodium())	/* sanitizers' frames are larger */
		return 77;
	if (!getenv("SOCKRAIL_REPORT")) {	/* they are read before main() */
		setenv("SOCKRAIL_REPORT", "/dev/null", 1);
		setenv("SOCKRAIL_LOG_FILE", "/dev/null", 1);
		setenv("SOCKRAIL_LOG", "debug", 1);
		execv(argv[0], argv);
	}
	if (stack_forgotten())
		printf("%s is neither called nor left out\n", stack_forgotten());
	CHECK(!stack_forgotten());
	sr_answer_init();	/* as the constructor of fork.c, which is not linked */
	fake_plug(false);
	on.ep = sr_epoll_create1(EPOLL_CLOEXEC);
	on.file = memfd_create("zeros", MFD_CLOEXEC);
	CHECK(on.ep >= 0 && !ftruncate(on.file, STACK_DATA));
	on.listener = listen_here(&on.self);
	CHECK(!sr_fcntl(on.listener, F_SETFL, O_NONBLOCK));
	strcpy(sr_conf.policy.links, "v");
	listener = listen_here(&at);
	fits = all_fit("verbs");
	strcpy(sr_conf.policy.links, "s");
	sr_close(listener);
	listener = listen_here(&at);
	fits = all_fit("shm") && fits;
	return !fits;
}
