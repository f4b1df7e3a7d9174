/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * owner.c - whether a descriptor is one of the two ends of a connection: over IPv4, IPv6
 * and both in one, before accept(2), after it and after close(2).
 */
#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/conf.h"
#include "base/owner.h"
#include "check.h"

struct pair {
	int listener, asker, answerer;
	struct sockaddr_storage from, to; /* the asker's address, the answerer's */
};

static void address(struct sockaddr_storage *ss, const char *text, uint16_t port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
				  .sin6_port = htons(port)};

	memset(ss, 0, sizeof(*ss));
	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		memcpy(ss, &v4, sizeof(v4));
	else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1)
		memcpy(ss, &v6, sizeof(v6));
}

static void listen_at(struct pair *p, const char *at)
{
	struct sockaddr_storage ss;

	address(&ss, at, 0);
	p->answerer = -1;
	p->listener = socket(ss.ss_family, SOCK_STREAM, 0);
	CHECK(!bind(p->listener, (void *)&ss, sr_addr_len((void *)&ss)));
	CHECK(!listen(p->listener, 5));
}

static void connect_to(struct pair *p, const char *to)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	CHECK(!getsockname(p->listener, (void *)&ss, &len));
	address(&p->to, to, sr_addr_port((void *)&ss));
	p->asker = socket(p->to.ss_family, SOCK_STREAM, 0);
	CHECK(!connect(p->asker, (void *)&p->to, sr_addr_len((void *)&p->to)));
	len = sizeof(ss);
	CHECK(!getsockname(p->asker, (void *)&ss, &len));
	sr_addr_plain(&p->from, (void *)&ss);
}

static void await_end(int fd)
{
	struct pollfd pfd = {fd, POLLRDHUP, 0};

	CHECK(poll(&pfd, 1, 5000) == 1);
}

static void connection(const char *at, const char *to)
{
	struct pair p;

	printf("%s, to %s\n", at, to);
	listen_at(&p, at);
	connect_to(&p, to);
	CHECK(sr_owner_is_here(p.asker, &p.from, &p.to));
	CHECK(!sr_owner_is_here(p.listener, &p.to, &p.from));
	p.answerer = accept(p.listener, NULL, NULL);
	CHECK(p.answerer >= 0);
	CHECK(sr_owner_is_here(p.asker, &p.from, &p.to));
	CHECK(sr_owner_is_here(p.answerer, &p.to, &p.from));
	CHECK(!sr_owner_is_here(p.asker, &p.to, &p.from));
	CHECK(!sr_owner_is_here(p.listener, &p.to, &p.from));
	CHECK(!sr_owner_is_here(-1, &p.from, &p.to));

	/* Gone, but the kernel still has it; a listener is not taken for it. */
	close(p.asker);
	await_end(p.answerer);
	CHECK(!sr_owner_is_here(p.answerer, &p.from, &p.to));
	close(p.answerer);
	sr_addr_set_port(&p.from, 1);
	CHECK(!sr_owner_is_here(p.asker, &p.from, &p.to));
	close(p.listener);
	CHECK(!sr_owner_is_here(p.listener, &p.from, &p.to));
}

static void all(void)
{
	connection("127.0.0.1", "127.0.0.1");
	connection("0.0.0.0", "127.0.0.2");
	connection("::1", "::1");
	connection("::", "127.0.0.1");
	connection("::", "::1");
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	sr_conf_load();
	all();
	return 0;
}
