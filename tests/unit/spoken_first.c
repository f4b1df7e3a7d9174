/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * spoken_first.c - policy wait, over RDMA, and a server that speaks first.  The proof
 * covers what the client has been sent, so the client's first send must not wait for the
 * link until its program has read that.  On the device of fake_verbs.c.
 */
#include "base/real.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
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

int main(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	struct sr_stream *st;
	int fd[2], l;

	alarm(60);
	strcpy(sr_conf.policy.links, "v");
	sr_conf.policy.upgrade = SR_WAIT;
	sr_conf.policy.upgrade_wait_ms = 20000;
	fake_plug(false);
	sr_answer_init();
	l = sr_socket(AF_INET, SOCK_STREAM, 0);
	CHECK(l >= 0 && !bind(l, (struct sockaddr *)&a, len) && !sr_listen(l, 1));
	CHECK(!getsockname(l, (struct sockaddr *)&a, &len));
	fd[0] = sr_socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!sr_connect(fd[0], (struct sockaddr *)&a, len));
	fd[1] = sr_accept(l, NULL, NULL);

	CHECK_EQ(sr_send(fd[1], buf, sizeof(buf), 0), (ssize_t)sizeof(buf));
	wait_for_bytes(fd[0]);
	CHECK_EQ(sr_send(fd[0], buf, 1, 0), 1);
	CHECK_EQ(sr_recv(fd[0], buf, sizeof(buf), MSG_WAITALL), (ssize_t)sizeof(buf));
	CHECK_EQ(sr_recv(fd[1], buf, 1, 0), 1);
	while (!linked(fd[0]) || !linked(fd[1]))
		talk(fd);
	st = sr_fdtab_get(fd[0]);
	CHECK_EQ(st->link_no, 1);	/* none was refused before */
	sr_stream_put(st);
	CHECK(!sr_close(fd[0]) && !sr_close(fd[1]) && !sr_close(l));
	return 0;
}
