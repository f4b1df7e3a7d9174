/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * failover.c - the fabric fails under streams whose calls are blocked.  The whole engine
 * runs on the device of fake_verbs.c, and the streams are TCP connections of this process
 * to itself.  Whatever fails: each blocked call returns, by TCP, no byte is lost, and once
 * the fabric is back the streams are on links again.  The times are printed, not checked:
 * a call that does not return hangs.
 *
 * Each case is a process of its own:  PROGRAM [-v] [fault ...]
 */
#include "base/real.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/now.h"
#include "check.h"
#include "engine/engine.h"
#include "engine/fdtab.h"
#include "fake_profile.h"
#include "fake_verbs.h"
#include "in_process.h"
#include "link/verbs/lib.h"
#include "sockrail.h"
#include "upgrade/upgrade.h"

enum { RECV, POLLED, EPOLLED, SEND, POLLED_OUT, CALLS };
enum { PAIRS = 2 * CALLS, HANG_S = 200, RETRY_MS = 400, AGAIN_MS = 300 };
enum { ASKER, ANSWERER };

/* Bytes of a direction are numbered by who sends them. */
struct pair {
	int fd[2], call, blocked;	/* which end is */
	uint64_t sent[2], got[2];
	uint64_t woke_ns;
	pthread_t thread;
	atomic_bool started;
};

static struct pair pairs[PAIRS];
static bool iwarp;

static uint8_t pattern(int from, uint64_t k)
{
	return (uint8_t)(k * 2654435761u >> 13) + (uint8_t)from;
}

static ssize_t say(struct pair *p, int from, size_t n, int flags)
{
	uint8_t buf[4096];
	ssize_t r;
	size_t i;

	CHECK(n <= sizeof(buf));
	for (i = 0; i < n; i++)
		buf[i] = pattern(from, p->sent[from] + i);
	r = sr_send(p->fd[from], buf, n, flags);
	if (r > 0)
		p->sent[from] += (uint64_t)r;
	return r;
}

static void hear(struct pair *p, int from, uint64_t n)
{
	uint8_t buf[4096];
	ssize_t r, i;

	while (n) {
		r = sr_recv(p->fd[!from], buf, n < sizeof(buf) ? n : sizeof(buf), 0);
		CHECK(r > 0);
		for (i = 0; i < r; i++)
			CHECK_EQ(buf[i], pattern(from, p->got[from]++));
		n -= (uint64_t)r;
	}
}

static void hear_all(struct pair *p)
{
	hear(p, ASKER, p->sent[ASKER] - p->got[ASKER]);
	hear(p, ANSWERER, p->sent[ANSWERER] - p->got[ANSWERER]);
}

/* ---- which way the bytes go ---- */

static bool are(struct pair *p, enum sr_tx_state tx, enum sr_rx_state rx)
{
	bool yes = true;
	int i;

	for (i = 0; i < 2; i++) {
		struct sr_stream *st = sr_fdtab_get(p->fd[i]);

		CHECK(st);
		yes &= sr_stream_tx(st) == tx && sr_stream_rx(st) == rx;
		sr_stream_put(st);
	}
	return yes;
}

static bool linked(struct pair *p)
{
	return are(p, SR_TX_LINK, SR_RX_LINK);
}

static bool plain(struct pair *p)
{
	return are(p, SR_TX_RAW, SR_RX_RAW);
}

static void talk(struct pair *p)
{
	CHECK_EQ(say(p, ASKER, 10, 0), 10);
	CHECK_EQ(say(p, ANSWERER, 10, 0), 10);
	hear_all(p);
	usleep(2000);
}

/* Both ends go on talking meanwhile.  Returns milliseconds. */
static unsigned talk_until(struct pair *p, bool (*is)(struct pair *))
{
	uint64_t from = sr_now_ns();

	while (!is(p))
		talk(p);
	return (unsigned)((sr_now_ns() - from) / 1000000);
}

/* ---- calls that are blocked ---- */

static void wait_for(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	CHECK_EQ(sr_poll(&p, 1, -1), 1);
	CHECK_EQ(p.revents, events);
}

static void wait_in_set(int fd)
{
	struct epoll_event e = {.events = EPOLLIN};
	int set = sr_epoll_create1(EPOLL_CLOEXEC);

	CHECK(set >= 0 && !sr_epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
	CHECK_EQ(sr_epoll_wait(set, &e, 1, -1), 1);
	CHECK_EQ(e.events, EPOLLIN);
	CHECK_EQ(sr_close(set), 0);
}

static void *block(void *arg)
{
	struct pair *p = arg;
	int fd = p->fd[p->blocked];

	atomic_store(&p->started, true);
	if (p->call == POLLED)
		wait_for(fd, POLLIN);
	if (p->call == EPOLLED)
		wait_in_set(fd);
	if (p->call == POLLED_OUT)
		wait_for(fd, POLLOUT);
	if (p->call >= SEND)
		CHECK_EQ(say(p, p->blocked, 100, 0), 100);
	else
		hear(p, !p->blocked, 1);
	p->woke_ns = sr_now_ns();
	return NULL;
}

static void begin_blocked(struct pair *p)
{
	ssize_t r = 0;

	if (p->call >= SEND)
		while (r >= 0)
			r = say(p, p->blocked, 4096, MSG_DONTWAIT);
	CHECK(r == 0 || errno == EAGAIN);
	CHECK(!pthread_create(&p->thread, NULL, block, p));
	while (!atomic_load(&p->started))
		usleep(1000);
}

/* ---- the streams ---- */

static int listener(struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int l = sr_socket(AF_INET, SOCK_STREAM, 0);

	*a = (struct sockaddr_in){.sin_family = AF_INET};
	a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(l >= 0 && !bind(l, (struct sockaddr *)a, len));
	CHECK(!sr_listen(l, PAIRS) && !getsockname(l, (struct sockaddr *)a, &len));
	return l;
}

static void connect_pair(struct pair *p, int l, const struct sockaddr_in *a, unsigned i)
{
	char c;

	*p = (struct pair){.call = (int)i % CALLS, .blocked = i >= CALLS};
	p->fd[ASKER] = sr_socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!sr_connect(p->fd[ASKER], (const struct sockaddr *)a, sizeof(*a)));
	p->fd[ANSWERER] = sr_accept(l, NULL, NULL);
	CHECK(p->fd[ANSWERER] >= 0);
	CHECK_EQ(sr_recv(p->fd[ANSWERER], &c, 1, MSG_DONTWAIT), -1);
}

static void open_pair(struct pair *p, int l, const struct sockaddr_in *a, unsigned i)
{
	connect_pair(p, l, a, i);
	talk_until(p, linked);
}

/* ---- what fails ---- */

static void port_error(void)
{
	fake_async(IBV_EVENT_PORT_ERR);
}

static void queue_error(void)
{
	fake_async(IBV_EVENT_CQ_ERR);
}

static void fatal_error(void)
{
	fake_async(IBV_EVENT_DEVICE_FATAL);
}

static void no_path(void)
{
	fake_fail_sends(IBV_WC_RETRY_EXC_ERR);
}

static void silence(void)
{
	fake_mute(true);
}

struct fault {
	const char *name;
	void (*run)(const struct fault *f), (*strike)(void);
	bool told;	/* the device says so, and so to both ends */
};

static void heal(void)
{
	fake_mute(false);
	fake_fail_sends(IBV_WC_SUCCESS);
	if (!sr_verbs_devices())
		fake_plug(iwarp);
}

/* Returns the milliseconds until the last call returned. */
static unsigned strike(const struct fault *f)
{
	uint64_t from = sr_now_ns(), last = 0;
	unsigned i;

	f->strike();
	for (i = 0; i < PAIRS; i++)
		if (pairs[i].call < SEND)
			CHECK_EQ(say(&pairs[i], !pairs[i].blocked, 1, 0), 1);
	for (i = 0; i < PAIRS; i++) {
		check_about("pair", i);
		pthread_join(pairs[i].thread, NULL);
		if (pairs[i].woke_ns > last)
			last = pairs[i].woke_ns;
	}
	return (unsigned)((last - from) / 1000000);
}

static void fail_over(const struct fault *f)
{
	struct sockaddr_in a;
	unsigned i, ms, back = 0;
	int l;

	fake_plug(iwarp);
	l = listener(&a);
	for (i = 0; i < PAIRS; i++)
		open_pair(&pairs[i], l, &a, i);
	for (i = 0; i < PAIRS; i++)
		begin_blocked(&pairs[i]);
	usleep(50000);	/* until they sleep */
	ms = strike(f);
	for (i = 0; i < PAIRS; i++) {
		check_about("stays plain: pair", i);
		hear_all(&pairs[i]);
		if (!f->told)
			talk_until(&pairs[i], plain);
	}
	heal();
	for (i = 0; i < PAIRS; i++) {
		check_about("comes back: pair", i);
		back += talk_until(&pairs[i], linked);
		CHECK(!sr_close(pairs[i].fd[0]) && !sr_close(pairs[i].fd[1]));
	}
	sr_close(l);
	printf(" by TCP after %u ms, back after %u\n", ms, back);
}

/* When the asker may ask again, by sr_now_ns(). */
static uint64_t next_ask(struct pair *p)
{
	struct sr_stream *st = sr_fdtab_get(p->fd[ASKER]);
	uint64_t ns;

	CHECK(st);
	ns = st->up.next_ask_ns;
	sr_stream_put(st);
	return ns;
}

/* Links that break soon after they are made: the pause doubles each time. */
static void flap(const struct fault *f)
{
	uint64_t pause = AGAIN_MS * UINT64_C(1000000), from, next, last;
	struct sockaddr_in a;
	unsigned i;
	int l;

	fake_plug(iwarp);
	l = listener(&a);
	open_pair(pairs, l, &a, 0);
	for (i = 0; i < 3; i++, pause *= 2) {
		last = next_ask(pairs);
		from = sr_now_ns();
		f->strike();
		while ((next = next_ask(pairs)) == last)
			talk(pairs);
		CHECK(next >= from + pause && next <= sr_now_ns() + pause);
		printf(" %u", talk_until(pairs, linked));
		CHECK(sr_now_ns() >= next);
	}
	printf(" ms\n");
	CHECK(!sr_close(pairs->fd[0]) && !sr_close(pairs->fd[1]));
	sr_close(l);
}

/* All requests are lost, until the asker has given up: it asks again later. */
static void unheard(const struct fault *f)
{
	struct sockaddr_in a;
	uint64_t from;
	int l;

	(void)f;
	if (iwarp) {	/* TCP sends again */
		printf("\n");
		return;
	}
	fake_plug(iwarp);
	l = listener(&a);
	fake_lose_requests(2);
	connect_pair(pairs, l, &a, 0);
	from = sr_now_ns();
	while (!linked(pairs)) {
		CHECK(sr_now_ns() - from < UINT64_C(60000000000));
		talk(pairs);
		usleep(20000);
	}
	printf(" %u ms\n", (unsigned)((sr_now_ns() - from) / 1000000));
	CHECK(!sr_close(pairs->fd[0]) && !sr_close(pairs->fd[1]));
	sr_close(l);
}

static enum sr_reason reason_of(struct pair *p, int end)
{
	struct sr_stream *st = sr_fdtab_get(p->fd[end]);
	enum sr_reason r;

	CHECK(st);
	r = (enum sr_reason)atomic_load(&st->reason);
	sr_stream_put(st);
	return r;
}

/* ---- packets of the device's length are lost ---- */

static bool fails_by_path(struct pair *p)
{
	CHECK(plain(p));
	return reason_of(p, ASKER) == SR_REASON_PATH;
}

static bool fails_by_path_at_both(struct pair *p)
{
	return fails_by_path(p) && reason_of(p, ANSWERER) == SR_REASON_PATH;
}

static void close_pair(struct pair *p)
{
	hear_all(p);
	CHECK(!sr_close(p->fd[0]) && !sr_close(p->fd[1]));
}

/* From 127.0.0.2 to 127.0.0.1: each end has a memory of its own. */
static void connect_from(struct pair *p, int l, const struct sockaddr_in *a)
{
	struct sockaddr_in from = *a;

	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	from.sin_port = 0;
	*p = (struct pair){ 0 };
	p->fd[ASKER] = sr_socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!bind(p->fd[ASKER], (struct sockaddr *)&from, sizeof(from)));
	CHECK(!sr_connect(p->fd[ASKER], (const struct sockaddr *)a, sizeof(*a)));
	p->fd[ANSWERER] = sr_accept(l, NULL, NULL);
	CHECK(p->fd[ANSWERER] >= 0);
}

static void forget_path(in_addr_t host)
{
	struct sockaddr_storage a = { .ss_family = AF_INET };

	((struct sockaddr_in *)&a)->sin_addr.s_addr = htonl(host);
	sr_path_works(&a);
}

/* Two streams find out.  The third does not ask; an asker that knows nothing is refused; and
 * once both ends have forgotten it, and the network is mended, streams have links. */
static void narrow(const struct fault *f)
{
	struct sockaddr_in a;
	unsigned asked;
	int l, i;

	(void)f;
	if (iwarp) {	/* TCP finds out how long packets may be */
		printf("\n");
		return;
	}
	fake_plug(iwarp);
	l = listener(&a);
	fake_lose_longer(1024);
	for (i = 0; i < 2; i++) {
		connect_from(pairs, l, &a);
		printf(" %u", talk_until(pairs, fails_by_path_at_both));
		close_pair(pairs);
	}
	asked = fake_calls("cm_connect");
	connect_from(pairs, l, &a);
	talk_until(pairs, fails_by_path);
	close_pair(pairs);
	CHECK_EQ(fake_calls("cm_connect"), asked);

	forget_path(INADDR_LOOPBACK);
	fake_lose_longer(0);
	connect_from(pairs, l, &a);
	printf(" %u ms\n", talk_until(pairs, fails_by_path));
	close_pair(pairs);
	CHECK(fake_calls("cm_connect") > asked);

	forget_path(INADDR_LOOPBACK + 1);
	connect_from(pairs, l, &a);
	talk_until(pairs, linked);
	close_pair(pairs);
	sr_close(l);
}

/* ---- traffic class ---- */

static void set_class(struct pair *p, int end, int level, int name, int v)
{
	CHECK(!sr_setsockopt(p->fd[end], level, name, &v, sizeof(v)));
}

static bool refused_for_its_class(struct pair *p)
{
	return plain(p) && reason_of(p, ASKER) == SR_REASON_OPTION;
}

/* The link's class is that of the asker's socket; and of the new link, if the program sets
 * another one. */
static void classes(const struct fault *f)
{
	struct sockaddr_in a;
	int l, tos = 0x68;

	(void)f;
	fake_plug(iwarp);
	l = listener(&a);
	open_pair(pairs, l, &a, 0);
	CHECK_EQ(fake_class(), 0);
	set_class(pairs, ASKER, IPPROTO_IP, IP_TOS, tos);
	printf(" %u", talk_until(pairs, plain));
	printf(" %u", talk_until(pairs, linked));
	CHECK_EQ(fake_class(), tos);
	/* The answerer's program sets the same, and the asker's once more: nothing changes. */
	set_class(pairs, ANSWERER, IPPROTO_IP, IP_TOS, tos);
	set_class(pairs, ASKER, IPPROTO_IP, IP_TOS, tos);
	for (int i = 0; i < 30; i++) {
		talk(pairs);
		CHECK(linked(pairs));
	}
	set_class(pairs, ANSWERER, IPPROTO_IP, IP_TOS, IPTOS_LOWDELAY);
	printf(" %u ms\n", talk_until(pairs, refused_for_its_class));
	CHECK(!sr_close(pairs->fd[0]) && !sr_close(pairs->fd[1]));
	/* Before there is a link; a priority is as good as a class. */
	connect_pair(pairs, l, &a, 0);
	set_class(pairs, ASKER, SOL_SOCKET, SO_PRIORITY, 6);
	talk_until(pairs, linked);
	CHECK_EQ(fake_class(), IPTOS_LOWDELAY);
	CHECK(!sr_close(pairs->fd[0]) && !sr_close(pairs->fd[1]));
	sr_conf.policy.tos = 106;	/* where the program sets none */
	open_pair(pairs, l, &a, 0);
	CHECK_EQ(fake_class(), 106);
	CHECK(!sr_close(pairs->fd[0]) && !sr_close(pairs->fd[1]));
	sr_conf.policy.tos = 0;
	sr_close(l);
}

/* ---- the way that the kernel sends a stream ---- */

static bool refused_for_its_way(struct pair *p)
{
	CHECK(plain(p));
	return reason_of(p, ASKER) == SR_REASON_OPTION;
}

/* Set by the kernel's call, as a BPF program of a cgroup does, of which the library hears
 * nothing.  False: it may not be set. */
static bool set_unheard(struct pair *p, int end, int name, int v)
{
	return !setsockopt(p->fd[end], SOL_SOCKET, name, &v, sizeof(v));
}

/* A stream whose socket is bound to the device of its address has a link; one that may be sent
 * another way, by another device or by its mark, has none. */
static void ways(const struct fault *f)
{
	int l, lo = (int)if_nametoindex("lo");
	struct sockaddr_in a;

	(void)f;
	fake_plug(iwarp);
	l = listener(&a);
	connect_pair(pairs, l, &a, 0);
	CHECK(!sr_setsockopt(pairs->fd[ASKER], SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
	CHECK(set_unheard(pairs, ANSWERER, SO_BINDTOIFINDEX, lo));
	printf(" %u", talk_until(pairs, linked));
	close_pair(pairs);
	for (int end = ASKER; end <= ANSWERER; end++) {
		connect_pair(pairs, l, &a, 0);
		if (set_unheard(pairs, end, SO_MARK, 5))
			printf(" %u", talk_until(pairs, refused_for_its_way));
		close_pair(pairs);
	}
	printf("\n");
	sr_close(l);
}

/* What of sr_promise_leads_away() needs no traffic: all other interfaces. */
static void other_devices(const struct fault *f)
{
	struct if_nameindex *all = if_nameindex(), *i;
	struct sr_stream *st;
	struct sockaddr_in a;
	int l;

	(void)f;
	fake_plug(iwarp);
	l = listener(&a);
	for (i = all; i && i->if_index; i++) {
		connect_pair(pairs, l, &a, 0);
		st = sr_fdtab_get(pairs->fd[ASKER]);
		CHECK(set_unheard(pairs, ASKER, SO_BINDTOIFINDEX, (int)i->if_index));
		CHECK_EQ(sr_promise_leads_away(st), strcmp(i->if_name, "lo") != 0);
		sr_stream_put(st);
		CHECK(!sr_close(pairs->fd[0]) && !sr_close(pairs->fd[1]));
		printf(" %s", i->if_name);
	}
	printf("\n");
	if_freenameindex(all);
	sr_close(l);
}

static const struct fault faults[] = {
	{"port-error", fail_over, port_error, true},
	{"queue-error", fail_over, queue_error, true},
	{"fatal-error", fail_over, fatal_error, true},
	{"flushed", fail_over, fake_flush, true},
	{"hung-up", fail_over, fake_kill, true},
	{"unplugged", fail_over, fake_unplug, true},
	{"no-path", fail_over, no_path, false},
	{"silence", fail_over, silence, false},
	{"flapping", flap, fake_flush, true},
	{"classes", classes, fake_flush, true},
	{"unheard", unheard, fake_flush, true},
	{"narrow", narrow, fake_flush, true},
	{"ways", ways, fake_flush, true},
	{"other-devices", other_devices, fake_flush, true},
};

static int run_case(void *arg)
{
	const struct fault *f = arg;

	sr_answer_init();
	f->run(f);
	return 0;
}

int main(int argc, char **argv)
{
	struct fault f;
	unsigned i, k;
	bool run;

	strcpy(sr_conf.policy.links, "v");
	sr_conf.policy.upgrade = SR_WAIT;
	sr_conf.policy.upgrade_wait_ms = 5000;
	sr_conf.answer_ms = 5000;
	sr_conf.policy.ring_max = 65536;
	sr_conf.retry_ms = RETRY_MS;
	sr_conf.again_ms = AGAIN_MS;
	if (argc > 1 && !strcmp(argv[1], "-v")) {
		sr_conf.log = SR_DEBUG;
		argc--, argv++;
	}
	for (i = 0; i < 2 * sizeof(faults) / sizeof(faults[0]); i++) {
		iwarp = i % 2;
		f = faults[i / 2];
		run = argc < 2;
		for (k = 1; k < (unsigned)argc; k++)
			run |= !strcmp(argv[k], f.name);
		if (!run || !(fake_profile()->kinds & (iwarp ? FAKE_IWARP : FAKE_IB)))
			continue;
		printf("%s%s:", f.name, iwarp ? ", iWARP" : "");
		CHECK_EQ(in_process(run_case, &f, HANG_S), 0);
	}
	return 0;
}
