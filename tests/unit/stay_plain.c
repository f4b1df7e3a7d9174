/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stay_plain.c - why a stream has no link over RDMA, or has one again: requests that are lost, a
 * path that loses long packets, its traffic class, and the way that the kernel sends it.
 */
#include "failover.h"

#include <net/if.h>

#include "base/sodium.h"

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

/* ---- packets of the device's length are lost ---- */

static bool fails_by_path(struct pair *p)
{
	CHECK(!linked(p));
	return reason_of(p, ASKER) == SR_REASON_PATH;
}

static bool fails_by_path_at_both(struct pair *p)
{
	return fails_by_path(p) && reason_of(p, ANSWERER) == SR_REASON_PATH;
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
	sr_conf.again_ms = 600000;	/* each stream asks once */
	sr_conf.retry_ms = 5000;	/* the device gives up first */
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

/* ---- bytes that are not read yet ---- */

enum { UNREAD_BYTES = 1 << 20, UNREAD_CHUNK = 1 << 16 };

/* The answerer has shown that it has the stream, so the asker's direction is to switch. */
static bool asker_switches(struct pair *p)
{
	struct sr_stream *st = sr_fdtab_get(p->fd[ASKER]);
	bool yes;

	CHECK(st);
	yes = sr_stream_tx(st) == SR_TX_WAIT || sr_stream_tx(st) == SR_TX_LINK;
	sr_stream_put(st);
	return yes;
}

/* Sends a megabyte, of which the last call makes the stream worth a link. */
static bool send_unread(struct pair *p)
{
	static uint8_t buf[UNREAD_CHUNK];
	ssize_t n = UNREAD_CHUNK;

	for (int i = 0; i < UNREAD_BYTES / UNREAD_CHUNK && n == UNREAD_CHUNK; i++) {
		for (size_t k = 0; k < sizeof(buf); k++)
			buf[k] = pattern(ASKER, p->sent[ASKER] + k);
		n = sr_send(p->fd[ASKER], buf, sizeof(buf), MSG_DONTWAIT);
		p->sent[ASKER] += n > 0 ? (uint64_t)n : 0;
	}
	return n == UNREAD_CHUNK;
}

/* The answerer has to show all that TCP has acknowledged, and its program has read none of a
 * megabyte. */
static void unread(const struct fault *f)
{
	const int room = 8 << 20;
	struct sockaddr_in a;
	uint64_t from;
	int l;

	(void)f;
	if (!sr_sodium())
		return;
	fake_plug(iwarp);
	sr_conf.policy.upgrade = SR_LAZY;
	sr_conf.policy.upgrade_bytes = UNREAD_BYTES;
	l = listener(&a);
	if (setsockopt(l, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room))) {
		printf(" needs privilege\n");
		return;
	}
	connect_pair(pairs, l, &a, 0);
	talk(pairs);
	CHECK(send_unread(pairs));
	from = sr_now_ns();
	while (!asker_switches(pairs)) {
		CHECK(reason_of(pairs, ASKER) != SR_REASON_UNREAD);
		CHECK(sr_now_ns() - from < UINT64_C(60000000000));
		usleep(1000);
	}
	printf(" %u ms\n", (unsigned)((sr_now_ns() - from) / 1000000));
	hear_all(pairs);
	talk_until(pairs, linked);
	close_pair(pairs);
	sr_close(l);
}

static const struct fault faults[] = {
	{.name = "unread", .run = unread},
	{.name = "classes", .run = classes},
	{.name = "unheard", .run = unheard},
	{.name = "narrow", .run = narrow},
	{.name = "ways", .run = ways},
	{.name = "other-devices", .run = other_devices},
};

int main(int argc, char **argv)
{
	return run_faults(argc, argv, faults, sizeof(faults) / sizeof(faults[0]));
}
