/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * owner.c - the owner of the socket at the other end: over IPv4, IPv6 and both in one,
 * before accept(2), after it and after close(2), and whether a descriptor is one of the
 * two ends; the inode at the other end of an AF_UNIX socket; and what a user namespace says of users that it does not map.  The users
 * differ if root
 * runs this.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/conf.h"
#include "base/owner.h"
#include "base/process.h"
#include "check.h"

struct pair {
	int listener, asker, answerer;
	struct sockaddr_storage from, to; /* the asker's address, the answerer's */
};

/* Who listens, connects and accepts. */
static uint32_t users[3];

static void become(unsigned i)
{
	CHECK(!seteuid(0) || getuid());
	CHECK(!seteuid(users[i]));
}

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

	become(0);
	address(&ss, at, 0);
	p->answerer = -1;
	p->listener = socket(ss.ss_family, SOCK_STREAM, 0);
	CHECK(!bind(p->listener, (void *)&ss, sizeof(ss)));
	CHECK(!listen(p->listener, 5));
}

static void connect_to(struct pair *p, const char *to)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	CHECK(!getsockname(p->listener, (void *)&ss, &len));
	address(&p->to, to, sr_addr_port((void *)&ss));
	become(1);
	p->asker = socket(p->to.ss_family, SOCK_STREAM, 0);
	CHECK(!connect(p->asker, (void *)&p->to, sizeof(p->to)));
	len = sizeof(ss);
	CHECK(!getsockname(p->asker, (void *)&ss, &len));
	sr_addr_unmap(&p->from, (void *)&ss);
}

static void await_end(int fd)
{
	struct pollfd pfd = {fd, POLLRDHUP, 0};

	CHECK(poll(&pfd, 1, 5000) == 1);
}

static uint64_t inode_of(int fd)
{
	struct stat st;

	CHECK(!fstat(fd, &st));
	return st.st_ino;
}

static void connection(const char *at, const char *to)
{
	uint32_t uid = 99;
	struct pair p;

	printf("%s, to %s\n", at, to);
	listen_at(&p, at);
	connect_to(&p, to);
	CHECK_EQ(sr_owner_of_peer(&p.from, &p.to, &uid), 1);
	CHECK(uid == users[0] || uid == 0);
	CHECK_EQ(sr_owner_of_peer(&p.to, &p.from, &uid), 0);
	CHECK_EQ(uid, users[1]);
	become(2);
	p.answerer = accept(p.listener, NULL, NULL);
	CHECK(p.answerer >= 0);
	CHECK_EQ(sr_owner_of_peer(&p.from, &p.to, &uid), 0);
	CHECK_EQ(uid, users[2]);
	CHECK(sr_owner_is_here(inode_of(p.asker), &p.from, &p.to));
	CHECK(sr_owner_is_here(inode_of(p.answerer), &p.to, &p.from));
	CHECK(!sr_owner_is_here(inode_of(p.asker), &p.to, &p.from));
	CHECK(!sr_owner_is_here(inode_of(p.listener), &p.to, &p.from));
	CHECK(!sr_owner_is_here(0, &p.from, &p.to));

	/* Gone, but the kernel still has it; a listener is not taken for it. */
	uid = 99;
	close(p.asker);
	await_end(p.answerer);
	CHECK_EQ(sr_owner_of_peer(&p.to, &p.from, &uid), -ENOENT);
	close(p.answerer);
	sr_addr_set_port(&p.from, 1);
	CHECK_EQ(sr_owner_of_peer(&p.from, &p.to, &uid), -ENOENT);
	close(p.listener);
	CHECK_EQ(sr_owner_of_peer(&p.from, &p.to, &uid), -ENOENT);
	CHECK_EQ(uid, 99);
}

/* The kernel knows of it, but accept(2) has to wait for bytes. */
static void deferred(void)
{
	uint32_t uid;
	struct pair p;
	int s = 5;

	listen_at(&p, "127.0.0.1");
	CHECK(!setsockopt(p.listener, IPPROTO_TCP, 9 /* TCP_DEFER_ACCEPT */, &s,
			  sizeof(s)));
	connect_to(&p, "127.0.0.1");
	CHECK_EQ(sr_owner_of_peer(&p.from, &p.to, &uid), 1);
	close(p.asker);
	close(p.listener);
}

/* The inode of the socket to which a line is connected; there is one once it is accepted. */
static void line(void)
{
	const struct sockaddr_un un = { .sun_family = AF_UNIX, .sun_path = "\0line of tests/unit" };
	int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	int asker = socket(AF_UNIX, SOCK_SEQPACKET, 0), answerer;
	uint32_t inode = 0;
	struct stat st;

	CHECK(!bind(listener, (const struct sockaddr *)&un, sizeof(un)));
	CHECK(!listen(listener, 1));
	CHECK_EQ(sr_owner_line_peer(asker, &inode), -ENOENT);
	CHECK(!connect(asker, (const struct sockaddr *)&un, sizeof(un)));
	CHECK_EQ(sr_owner_line_peer(asker, &inode), -ENOENT);
	answerer = accept(listener, NULL, NULL);
	CHECK(answerer >= 0 && !fstat(answerer, &st));
	CHECK_EQ(sr_owner_line_peer(asker, &inode), 0);
	CHECK(inode == (uint32_t)st.st_ino);
	close(asker);
	close(answerer);
	close(listener);
}

static void all(void)
{
	line();
	connection("127.0.0.1", "127.0.0.1");
	connection("0.0.0.0", "127.0.0.2");
	connection("::1", "::1");
	connection("::", "127.0.0.1");
	connection("::", "::1");
	deferred();
}

/* ---- in processes of their own ---- */

static void unmapped(void)
{
	uint32_t uid;
	struct pair p;

	users[0] = users[1] = users[2] = geteuid();
	listen_at(&p, "127.0.0.1");
	connect_to(&p, "127.0.0.1");
	if (unshare(CLONE_NEWUSER)) {
		printf("no user namespaces\n");
		return;
	}
	CHECK_EQ(geteuid(), 65534);
	CHECK(!sr_owner_is_user(geteuid()) && sr_owner_is_user(0));
	CHECK_EQ(sr_owner_of_peer(&p.to, &p.from, &uid), -ENOENT);
}

static void in_child(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		sr_process_begin();
		fn();
		_exit(0); /* LeakSanitizer may not look at another user */
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	sr_conf_load();
	for (unsigned i = 0; i < 3; i++)
		users[i] = geteuid() ? geteuid() : 1000 + i;
	in_child(unmapped);
	in_child(all);
	return 0;
}
