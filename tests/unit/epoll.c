/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll.c - an epoll set with a stream on a fake link: level, edge, one-shot, and what
 * happens between two steps of a wait, which no program can bring about at will.
 */
#include "fake_link.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "base/loop.h"
#include "base/process.h"
#include "base/sys.h"
#include "epoll/epoll.h"
#include "epoll/impl.h"
#include "epoll/pool.h"
#include "upgrade/upgrade.h"

#define NEVER_MS 20		/* enough to see that nothing comes */
#define SOON_MS 10000		/* a test that needs it all has failed */

static struct fake_pair e;
static int ep;
static uint8_t much[FAKE_RING];

static int control(int op, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return sr_epoll_ctl_stream(e.st, ep, op, e.fd, &ev);
}

/* The events, if there is one entry that has some; *data. */
static uint32_t wait_ms(int ms, uint64_t *data)
{
	struct epoll_event ev[4];
	int n = sr_epoll_wait_ms(sr_epoll_peek(ep), ep, ev, 4, ms, NULL);

	CHECK(n == 0 || n == 1);
	if (n && data)
		*data = ev[0].data.u64;
	return n ? ev[0].events : 0;
}

static void begin(bool doorbell, uint32_t events)
{
	e = fake_linked(doorbell);
	ep = epoll_create1(0);
	sr_epoll_opened(ep);
	CHECK_EQ(control(EPOLL_CTL_ADD, events, 5), 0);
}

static void end(void)
{
	sr_epoll_gone(ep);
	close(ep);
	CHECK(!e.st->sets.first);
	fake_end(&e);
}

static void swallow(size_t n)
{
	char buf[64];

	CHECK_EQ(fake_recv(&e, buf, n), n);
}

static void level(bool doorbell)
{
	uint64_t data = 0;

	begin(doorbell, EPOLLIN);
	CHECK_EQ(wait_ms(0, NULL), 0);
	fake_send(e.f, "abc", 3);
	CHECK_EQ(wait_ms(SOON_MS, &data), EPOLLIN);
	CHECK_EQ(data, 5);
	swallow(2);
	CHECK_EQ(wait_ms(0, NULL), EPOLLIN);
	swallow(1);
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	CHECK_EQ(control(EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT, 6), 0);
	CHECK_EQ(wait_ms(SOON_MS, &data), EPOLLOUT);
	CHECK_EQ(data, 6);
	CHECK_EQ(control(EPOLL_CTL_DEL, 0, 0), 0);
	CHECK_EQ(wait_ms(0, NULL), 0);
	CHECK_EQ(control(EPOLL_CTL_DEL, 0, 0), -ENOENT);
	end();
}

static void edge(bool doorbell)
{
	begin(doorbell, EPOLLIN | EPOLLOUT | EPOLLET);
	CHECK_EQ(wait_ms(SOON_MS, NULL), EPOLLOUT);
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	fake_send(e.f, "abc", 3);
	CHECK(wait_ms(SOON_MS, NULL) & EPOLLIN);
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	swallow(1);
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	fake_send(e.f, "d", 1);
	CHECK(wait_ms(SOON_MS, NULL) & EPOLLIN);
	swallow(3);
	/* Room is an edge once there was none. */
	CHECK_EQ(fake_write(&e, much, FAKE_RING), FAKE_RING);
	fake_take(e.f, much, 10);
	fake_poll(&e.f->link);
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	CHECK_EQ(fake_write(&e, much, 10), 10);
	CHECK_EQ(fake_write(&e, much, 1), -EAGAIN);
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	fake_take(e.f, much, 10);
	CHECK_EQ(wait_ms(SOON_MS, NULL), EPOLLOUT);
	end();
}

static void oneshot(void)
{
	begin(true, EPOLLIN | EPOLLONESHOT);
	fake_send(e.f, "a", 1);
	CHECK_EQ(wait_ms(SOON_MS, NULL), EPOLLIN);
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	fake_send(e.f, "b", 1);
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	CHECK_EQ(control(EPOLL_CTL_MOD, EPOLLIN | EPOLLONESHOT, 5), 0);
	CHECK_EQ(wait_ms(SOON_MS, NULL), EPOLLIN);
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	end();
}

/* A plain one-shot entry fires by its token, and is fired, too, when it is linked. */
static void oneshot_plain(void)
{
	uint64_t data = 0;

	e = fake_begin(true);
	ep = epoll_create1(0);
	sr_epoll_opened(ep);
	CHECK_EQ(control(EPOLL_CTL_ADD, EPOLLOUT | EPOLLONESHOT, 5), 0);
	CHECK_EQ(wait_ms(SOON_MS, &data), EPOLLOUT);
	CHECK_EQ(data, 5);
	fake_tx_switch(&e);
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	CHECK_EQ(control(EPOLL_CTL_MOD, EPOLLOUT | EPOLLONESHOT, 6), 0);
	CHECK_EQ(wait_ms(SOON_MS, &data), EPOLLOUT);
	CHECK_EQ(data, 6);
	end();
}

/* ---- between two steps ---- */

static void send_one(struct fake *f)
{
	fake_send(f, "x", 1);
}

/* Bytes that come just before the link is armed ring no doorbell: the look behind it
 * finds them.  Those that come just behind that look ring it. */
static void before_armed(uint32_t events)
{
	begin(true, events);
	e.f->on_stand = send_one;
	CHECK(wait_ms(SOON_MS, NULL) & EPOLLIN);
	CHECK(!e.f->on_stand);
	end();
}

static void *send_later(void *arg)
{
	(void)arg;
	while (!(e.f->armed & SR_NOTIFY_RX))
		usleep(1000);
	usleep(1000);
	fake_send(e.f, "x", 1);
	return NULL;
}

static void behind_armed(bool doorbell, uint32_t events)
{
	pthread_t t;

	begin(doorbell, events);
	pthread_create(&t, NULL, send_later, NULL);
	CHECK(wait_ms(SOON_MS, NULL) & EPOLLIN);
	pthread_join(t, NULL);
	end();
}

static void take_all(struct fake *f)
{
	fake_take(f, much, FAKE_RING);
}

/* The peer takes all just when a wait looks for room, so that no notify() tells of it:
 * the edge of room comes all the same. */
static void room_in_a_look(bool doorbell)
{
	begin(doorbell, EPOLLIN | EPOLLOUT | EPOLLET);
	CHECK_EQ(wait_ms(SOON_MS, NULL), EPOLLOUT);
	CHECK_EQ(fake_write(&e, much, FAKE_RING), FAKE_RING);
	CHECK_EQ(fake_write(&e, much, 1), -EAGAIN);
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	e.f->on_room = take_all;
	e.f->link.notify(&e.f->link, SR_NOTIFY_RX); /* that there is none is no matter */
	CHECK_EQ(wait_ms(SOON_MS, NULL), EPOLLOUT);
	CHECK(!e.f->on_room);
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	end();
}

/* The program has found TCP full when the switch begins, and bytes come, and TCP has room
 * again, before the peer agrees to it: the edge of room is not lost with that of bytes. */
static void room_behind_a_switch(void)
{
	size_t n = 0;
	ssize_t r;

	e = fake_begin(true);
	ep = epoll_create1(0);
	sr_epoll_opened(ep);
	CHECK_EQ(control(EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT | EPOLLET, 5), 0);
	CHECK_EQ(wait_ms(SOON_MS, NULL), EPOLLOUT);
	while ((r = fake_write(&e, much, FAKE_RING)) > 0)
		n += (size_t)r;
	CHECK_EQ(r, -EAGAIN);
	fake_tx_start(&e);
	for (; n; n -= (size_t)r)
		r = (ssize_t)fake_peer_gets(&e, much, n < FAKE_RING ? n : FAKE_RING);
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	CHECK_EQ(send(e.peer, "x", 1, 0), 1);
	CHECK_EQ(wait_ms(SOON_MS, NULL), EPOLLIN);
	swallow(1);
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	fake_say(e.f, (struct sr_msg){ .type = SR_MSG_ACKSW });
	CHECK(wait_ms(SOON_MS, NULL) & EPOLLOUT);
	CHECK_EQ(e.st->tx.state, SR_TX_LINK);
	end();
}

static void delete_it(struct fake *f)
{
	(void)f;
	CHECK_EQ(control(EPOLL_CTL_DEL, 0, 0), 0);
}

/* The stream's own reference and its entry's: the service thread has others for a moment. */
static void one_entry_refers(void)
{
	for (int i = 0; i < SOON_MS && sr_load(&e.st->refs) != 2; i++)
		poll(NULL, 0, 1);
	CHECK_EQ(sr_load(&e.st->refs), 2);
}

/* An entry that is deleted while a wait looks at it is not reported.  It is kept for the
 * next ADD, unless that is to another set: then a wait frees it. */
static void deleted(uint32_t events)
{
	struct epoll_event ev[4];
	int first;

	begin(true, events);
	first = ep;
	one_entry_refers();
	fake_send(e.f, "x", 1);
	if (events & EPOLLET)
		e.f->on_poll = delete_it;
	else
		e.f->on_look = delete_it;
	CHECK_EQ(wait_ms(0, NULL), 0);
	CHECK_EQ(wait_ms(0, NULL), 0);
	CHECK(!e.f->on_look && !e.f->on_poll);
	CHECK_EQ(control(EPOLL_CTL_MOD, events, 7), -ENOENT);
	CHECK_EQ(control(EPOLL_CTL_ADD, events, 7), 0);
	CHECK(wait_ms(SOON_MS, NULL) & EPOLLIN);
	CHECK_EQ(control(EPOLL_CTL_DEL, 0, 0), 0);
	one_entry_refers();
	ep = epoll_create1(0);
	sr_epoll_opened(ep);
	CHECK_EQ(control(EPOLL_CTL_ADD, events, 8), 0);
	CHECK(wait_ms(SOON_MS, NULL) & EPOLLIN);
	sr_epoll_wait_ms(sr_epoll_peek(first), first, ev, 4, 0, NULL);
	one_entry_refers();
	sr_epoll_gone(first);
	close(first);
	end();
}

static void modify_it(struct fake *f)
{
	(void)f;
	CHECK_EQ(control(EPOLL_CTL_MOD, EPOLLIN, 8), 0);
}

static void modified(void)
{
	uint64_t data = 0;

	begin(true, EPOLLIN);
	fake_send(e.f, "x", 1);
	e.f->on_look = modify_it;
	CHECK_EQ(wait_ms(SOON_MS, &data), EPOLLIN);
	CHECK_EQ(data, 8);
	end();
}

/* The link fails while the entry is armed: the stream is plain again, and the kernel
 * reports the rest. */
static void link_fails(void)
{
	uint8_t record[SR_RECORD_LEN];
	uint64_t data = 0;

	begin(true, EPOLLIN);
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	e.f->link.ops->drop(&e.f->link, "test");
	CHECK_EQ(wait_ms(NEVER_MS, NULL), 0);
	sr_resume_make(record, 0, 0);
	CHECK_EQ(send(e.peer, record, sizeof(record), 0), sizeof(record));
	CHECK_EQ(send(e.peer, "y", 1, 0), 1);
	CHECK_EQ(wait_ms(SOON_MS, &data), EPOLLIN);
	CHECK_EQ(data, 5);
	swallow(1);
	end();
}

/* ---- the child of vfork: our memory, but descriptors of its own ---- */

#ifndef __SANITIZE_THREAD__
static atomic_bool born, added;

static void *add_and_wait(void *arg)
{
	while (!born)
		usleep(1000);
	ep = epoll_create1(0);	/* the child does not have it */
	sr_epoll_opened(ep);
	CHECK_EQ(control(EPOLL_CTL_ADD, EPOLLIN, 5), 0);
	added = true;
	*(uint32_t *)arg = wait_ms(SOON_MS, NULL);
	return NULL;
}

/* It has the stream returned to TCP, for the program that it is going to be. */
static void vfork_child(void)
{
	uint32_t got = 0;
	int status;
	pthread_t t;
	pid_t pid;

	sr_process_begin();
	e = fake_begin(true);
	fake_tx_switch(&e);
	CHECK(!sr_loop_start());
	pthread_create(&t, NULL, add_and_wait, &got);
	pid = vfork();
	if (!pid) {
		born = true;
		while (!added)
			usleep(1000);
		usleep(NEVER_MS * 1000); /* asleep by now */
		sr_stream_make_plain(e.st, SR_REASON_EXEC, false);
		_exit(!sr_back_is_plain(e.st));
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK_EQ(e.st->tx.state, SR_TX_RAW);
	CHECK_EQ(send(e.peer, "y", 1, 0), 1);
	pthread_join(t, NULL);
	CHECK_EQ(got, EPOLLIN);
	end();
}
#endif

static struct fake_pair other;
static atomic_bool meets;
static __thread bool first;	/* of the two threads */

/* A stream in two sets, of which the second one cannot wait for links: both gates stay open,
 * and the first set still reports with the program's data. */
static void half_shut(void)
{
	struct epoll_event ev = { .events = EPOLLOUT, .data.u64 = 6 };
	int second = epoll_create1(0);
	uint64_t data = 0;

	e = fake_begin(true);
	ep = epoll_create1(0);
	sr_epoll_opened(ep);
	sr_epoll_opened(second);
	CHECK_EQ(sr_epoll_ctl_stream(e.st, second, EPOLL_CTL_ADD, e.fd, &ev), 0);
	CHECK_EQ(control(EPOLL_CTL_ADD, EPOLLOUT, 5), 0); /* it is linked first */
	sr_epoll_peek(second)->foreign = true;
	sr_stream_lock(e.st);
	CHECK(!sr_tx_gate_close(e.st));
	sr_stream_unlock(e.st);
	CHECK_EQ(wait_ms(0, &data), EPOLLOUT);
	CHECK_EQ(data, 5);
	sr_stream_lock(e.st);
	CHECK(!sr_rx_gate_close(e.st));
	sr_stream_unlock(e.st);
	CHECK_EQ(wait_ms(0, &data), EPOLLOUT);
	CHECK_EQ(sr_epoll_peek(ep)->linked, 0);
	sr_epoll_gone(second);
	close(second);
	end();
}

static void *add_other(void *arg)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int fd = epoll_create1(0);

	(void)arg;
	sr_epoll_opened(fd);
	CHECK_EQ(sr_epoll_ctl_stream(other.st, fd, EPOLL_CTL_ADD, other.fd, &ev), 0);
	sr_epoll_gone(fd);
	close(fd);
	return NULL;
}

/* Just before the first thread makes its call, the other one has made its. */
int sr_sys_fails(long number)
{
	pthread_t thread;

	if (first && number == SYS_epoll_ctl && atomic_exchange(&meets, false)) {
		CHECK(!pthread_create(&thread, NULL, add_other, NULL));
		CHECK(!pthread_join(thread, NULL));
	}
	return 0;
}

/* Two threads use the process's first sets at one time: both sets can serve a link. */
static void first_sets(void)
{
	CHECK_EQ(sr_loop_start(), 0);
	other = fake_linked(false);
	atomic_store(&meets, true);
	first = true;
	begin(false, EPOLLIN);
	CHECK(!atomic_load(&meets));
	CHECK(!(sr_st_flags(e.st) & SR_ST_BARRED));
	CHECK(!(sr_st_flags(other.st) & SR_ST_BARRED));
	fake_end(&other);
	end();
}

static char *map(size_t size)
{
	char *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		       0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* The next large mapping is to be around a multiple of 4 GB. */
static void fill_up_to_boundary(void)
{
	char *next = map(SR_EPOLL_POOL);

	munmap(next, SR_EPOLL_POOL);
	map((uint32_t)(uintptr_t)next + SR_EPOLL_POOL / 2);
}

/* A program may store a descriptor in 32 bits of an entry's data, and leave in the others
 * what was there, half of an address. */
static void numbers_are_no_tokens(void)
{
	uint64_t low = sr_epoll_pool >> 32, high = (sr_epoll_pool + SR_EPOLL_POOL) >> 32;

	CHECK(sr_epoll_pool);
	for (uint64_t half = low; half <= high; half++)
		for (uint64_t fd = 0; fd < 1 << 20; fd++)
			CHECK(!sr_epoll_is_token(half << 32 | fd));
}

int main(void)
{
	if (!check_in_valgrind())
		fill_up_to_boundary();
	first_sets();
	numbers_are_no_tokens();
	for (int doorbell = 0; doorbell < 2; doorbell++) {
		check_about("doorbell", (uint64_t)doorbell);
		level(doorbell);
		edge(doorbell);
		room_in_a_look(doorbell);
		behind_armed(doorbell, EPOLLIN);
		behind_armed(doorbell, EPOLLIN | EPOLLET);
	}
	oneshot();
	oneshot_plain();
	before_armed(EPOLLIN);
	before_armed(EPOLLIN | EPOLLET);
	deleted(EPOLLIN);
	deleted(EPOLLIN | EPOLLET);
	modified();
	room_behind_a_switch();
	link_fails();
	half_shut();
#ifndef __SANITIZE_THREAD__	/* it makes vfork a fork */
	if (!check_in_valgrind())	/* so does valgrind */
		vfork_child();
#endif
	return 0;
}
