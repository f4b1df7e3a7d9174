/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * spoken_first.c - a server that speaks before its client reads, over RDMA.  The proof
 * covers all that the client has been sent, read or not.  On the device of fake_verbs.c.
 */
#include "base/real.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/sodium.h"
#include "check.h"
#include "engine/engine.h"
#include "engine/fdtab.h"
#include "engine/impl.h"
#include "fake_verbs.h"
#include "sockrail.h"
#include "upgrade/upgrade.h"

static char buf[1000];

static void wait_for_bytes(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	CHECK_EQ(sr_real.poll(&p, 1, 10000), 1);	/* no use that would ask for a link */
}

/* A byte each way. */
static void talk(const int fd[2])
{
	for (int from = 0; from < 2; from++) {
		CHECK_EQ(sr_send(fd[from], buf, 1, 0), 1);
		CHECK_EQ(sr_recv(fd[!from], buf, 1, 0), 1);
	}
	usleep(1000);
}

static bool linked(int fd)
{
	struct sr_info info;

	CHECK_EQ(sr_info(fd, &info, sizeof(info)), 0);
	return info.tx_state == SR_STATE_LINK && info.rx_state == SR_STATE_LINK;
}

static void connect_both(int fd[2], const struct sockaddr_in *a, int l)
{
	fd[0] = sr_socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!sr_connect(fd[0], (const struct sockaddr *)a, sizeof(*a)));
	fd[1] = sr_accept(l, NULL, NULL);
}

static unsigned links(int fd)
{
	struct sr_stream *st = sr_fdtab_get(fd);
	unsigned n = st->link_no;

	sr_stream_put(st);
	return n;
}

/* Policy wait: the first call that sends waits for the link. */
static void read_later(const struct sockaddr_in *a, int l)
{
	int fd[2];

	sr_conf.policy.upgrade = SR_WAIT;
	sr_conf.policy.upgrade_wait_ms = 20000;
	sr_conf.answer_ms = 20000;
	connect_both(fd, a, l);
	CHECK_EQ(sr_send(fd[1], buf, sizeof(buf), 0), (ssize_t)sizeof(buf));
	wait_for_bytes(fd[0]);
	CHECK_EQ(sr_send(fd[0], buf, 1, 0), 1);
	CHECK_EQ(sr_recv(fd[0], buf, sizeof(buf), MSG_WAITALL), (ssize_t)sizeof(buf));
	CHECK_EQ(sr_recv(fd[1], buf, 1, 0), 1);
	while (!linked(fd[0]) || !linked(fd[1]))
		talk(fd);
	CHECK_EQ(links(fd[0]), 1);	/* none was refused before */
	CHECK(!sr_close(fd[0]) && !sr_close(fd[1]));
}

/* Policy lazy: the client sends, and reads only at the end, as iperf 2 does. */
static void read_last(const struct sockaddr_in *a, int l)
{
	struct sr_info info;
	int fd[2];

	sr_conf.policy.upgrade = SR_LAZY;
	connect_both(fd, a, l);
	CHECK_EQ(sr_send(fd[1], buf, 28, 0), 28);
	wait_for_bytes(fd[0]);
	do {
		CHECK_EQ(sr_send(fd[0], buf, sizeof(buf), 0), (ssize_t)sizeof(buf));
		CHECK_EQ(sr_recv(fd[1], buf, sizeof(buf), MSG_WAITALL), (ssize_t)sizeof(buf));
		usleep(1000);
		CHECK_EQ(sr_info(fd[0], &info, sizeof(info)), 0);
	} while (info.tx_state != SR_STATE_LINK);
	CHECK_EQ(links(fd[0]), 1);
	CHECK_EQ(sr_recv(fd[0], buf, 28, MSG_WAITALL), 28);
	while (!linked(fd[0]) || !linked(fd[1]))
		talk(fd);
	CHECK(!sr_close(fd[0]) && !sr_close(fd[1]));
}

int main(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int l;

	if (!sr_sodium())
		return 77;
	alarm(60);
	strcpy(sr_conf.policy.links, "v");
	fake_plug(false);
	sr_answer_init();
	l = sr_socket(AF_INET, SOCK_STREAM, 0);
	CHECK(l >= 0 && !bind(l, (struct sockaddr *)&a, len) && !sr_listen(l, 1));
	CHECK(!getsockname(l, (struct sockaddr *)&a, &len));
	read_later(&a, l);
	read_last(&a, l);
	CHECK(!sr_close(l));
	return 0;
}
