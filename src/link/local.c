/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * local.c - AF_UNIX sockets by which processes of one host find each other: names,
 * and the user at the other end (local.h).  It knows no link.  No state, no locks.
 */
#include "base/real.h"

#include "link/local.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/closer.h"
#include "base/fdpriv.h"
#include "base/log.h"
#include "base/now.h"
#include "base/owner.h"
#include "pure/wire.h"

#define UNREAD_MAX 64 /* packets, more than a peer sends that keeps to the protocol */

/* ---- names ---- */

/* n bytes behind the leading zero are the name. */
static socklen_t local_length(int n)
{
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int sr_local_name(struct sockaddr_un *un, const struct sockaddr *sa, unsigned wider,
		  const char *suffix)
{
	char text[INET6_ADDRSTRLEN] = "*";
	struct sockaddr_storage plain;
	const void *addr;
	int family;
	size_t len;

	sr_addr_unmap(&plain, sa);
	addr = sr_addr_bytes(&plain, &len);
	family = plain.ss_family;
	if (family != AF_INET && family != AF_INET6)
		return -EAFNOSUPPORT;
	if (!wider && !sr_addr_is_any(&plain) &&
	    !inet_ntop(family, addr, text, sizeof(text)))
		return -errno;
	*un = (struct sockaddr_un){.sun_family = AF_UNIX};
	return (int)local_length(sr_format(un->sun_path + 1, sizeof(un->sun_path) - 1,
					   "sockrail-%d/tcp%d:%s:%u%s", SR_WIRE_VERSION,
					   family == AF_INET && wider < 2 ? 4 : 6, text,
					   sr_addr_port(sa), suffix));
}

socklen_t sr_local_there(struct sockaddr_un *un, const char *place)
{
	*un = (struct sockaddr_un){.sun_family = AF_UNIX};
	return local_length(sr_format(un->sun_path + 1, sizeof(un->sun_path) - 1,
				      "sockrail-%d/there/%.16s", SR_WIRE_VERSION, place));
}

/* ---- whose process is at the other end, and what it may send ---- */

/*
 * A packet may carry descriptors.  They are closed by the process that reads the packet, or
 * that closes the socket on which it lies unread; and the sender can make close(2) block for
 * as long as it likes (closer.h).  So we peek at each packet before we read it, and a thread
 * of its own closes a socket on which a packet with descriptors lies unread.
 * A connecting socket has a filter that drops all packets until we know the user of the
 * process that accepted the connection.  Descriptors in dropped packets are closed by their
 * sender.
 */
int sr_local_socket(void)
{
	struct sock_filter none[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
	struct sock_fprog program = {1, none};
	int fd;

	if (!sr_fd_spare(2 + SR_FD_LEFT))	/* and its copy, higher up */
		return -EMFILE;
	fd = sr_fd_own(sr_sys_socket(
		AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return -errno;
	sr_sys_setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program,
			   sizeof(program));
	return fd;
}

uint32_t sr_local_peer(int fd)
{
	struct ucred cred = {.uid = UINT32_MAX};
	socklen_t len = sizeof(cred);
	int ignored = 0;

	sr_sys_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	if (!sr_local_trusts(cred.uid))
		sr_fd_slow(fd);
	sr_sys_setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &ignored,
			   sizeof(ignored));
	return cred.uid;
}

bool sr_local_trusts(uint32_t uid)
{
	return uid == 0 || (uid == sr_sys_geteuid() && sr_owner_is_user(uid));
}

int sr_local_owns(uint32_t uid, const struct sockaddr_storage *local,
		  const struct sockaddr_storage *peer)
{
	uint32_t owner;
	int found = 0;

	if (sr_local_trusts(uid))
		return 1;
	/* Twice: while the socket is being accepted, the kernel may combine the user from before
	 * with the inode from after, and so no owner is found. */
	for (int i = 0; i < 2 && !found; i++) {
		found = sr_owner_of_peer(local, peer, &owner);
		if (found >= 0 && owner == uid)
			return 1;
	}
	return found > 0 ? -EAGAIN : 0;
}

/*
 * SO_PEERCRED tells which user connected, but the process may since have become another
 * user.  With SO_PASSCRED, which connections inherit from their listener, each packet comes
 * with its sender's credentials.  By default the kernel fills in the sender's real user.  Our
 * sender names its effective user instead, as SO_PEERCRED does; the kernel checks that it may.
 */
union credentials {
	char buf[CMSG_SPACE(sizeof(struct ucred))];
	struct cmsghdr align;
};

ssize_t sr_local_recv_from(int fd, void *buf, size_t n, uint32_t *uid)
{
	struct iovec v = {buf, n};
	union credentials control;
	struct msghdr msg = {
		.msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = uid ? &control : NULL,
		.msg_controllen = uid ? sizeof(control) : 0,
	};
	ssize_t got = sr_now_recvmsg(fd, &msg, MSG_PEEK | MSG_TRUNC);
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	if (uid)
		*uid = UINT32_MAX;
	if (got >= 0 && (msg.msg_flags & MSG_CTRUNC)) {
		errno = EBADMSG;
		return -1;
	}
	if (got > 0 && c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS)
		*uid = ((struct ucred *)CMSG_DATA(c))->uid;
	return got > 0 ? sr_now_recv(fd, buf, n, MSG_TRUNC) : got;
}

ssize_t sr_local_recv(int fd, void *buf, size_t n)
{
	return sr_local_recv_from(fd, buf, n, NULL);
}

union descriptors {
	char buf[CMSG_SPACE(SR_LOCAL_FDS * sizeof(int))];
	struct cmsghdr align;
};

int sr_local_send_fds(int fd, const void *buf, size_t n, const int *fds, unsigned count)
{
	struct iovec v = {(void *)buf, n};
	union descriptors control = {0};
	struct msghdr msg = {
		.msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = CMSG_SPACE(count * sizeof(int)),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	return sr_now_sendmsg(fd, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* If the peer hung up before it had read what we sent, the first recvmsg() returns ECONNRESET
 * and the second one the packet.  The peek makes descriptors of our own, so that reading the
 * packet, which drops its descriptors, is never the last close of one. */
ssize_t sr_local_recv_fds(int fd, void *buf, size_t n, int fds[SR_LOCAL_FDS], unsigned most)
{
	struct iovec v = {buf, n};
	union descriptors control;
	struct msghdr msg = {
		.msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		/* not CMSG_SPACE(), which may have room for one more */
		.msg_controllen = CMSG_LEN(most * sizeof(int)),
	};
	const int flags = MSG_PEEK | MSG_TRUNC | MSG_CMSG_CLOEXEC;
	ssize_t got = sr_now_recvmsg(fd, &msg, flags);
	struct cmsghdr *c;

	memset(fds, -1, SR_LOCAL_FDS * sizeof(int));
	if (got < 0 && errno == ECONNRESET)
		got = sr_now_recvmsg(fd, &msg, flags);
	if (got < 0)
		return got;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	if (msg.msg_flags & MSG_CTRUNC) {
		errno = EBADMSG;
		return -1;
	}
	return got > 0 ? sr_now_recv(fd, buf, n, MSG_TRUNC) : got;
}

bool sr_local_send_as(int fd, const void *buf, size_t n)
{
	const struct ucred self = {sr_sys_getpid(), sr_sys_geteuid(), sr_sys_getegid()};
	struct iovec v = {(void *)buf, n};
	union credentials control = {0};
	struct msghdr msg = {
		.msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_CREDENTIALS;
	c->cmsg_len = CMSG_LEN(sizeof(self));
	memcpy(CMSG_DATA(c), &self, sizeof(self));
	if (sr_now_sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)n)
		return true;
	/* A user that this user namespace does not map has no number to send. */
	return (errno == EPERM || errno == EINVAL) && sr_now_send(fd, buf, n) == (ssize_t)n;
}

void sr_local_close(int fd)
{
	int on = 1, off = 0, i = 0;
	char c;

	sr_sys_shutdown(fd, SHUT_RDWR); /* nothing more can come */
	sr_sys_setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &off, sizeof(off));
	while (sr_local_recv(fd, &c, 1) > 0 && i++ < UNREAD_MAX)
		;
	/* With SO_PASSCRED any packet, even an empty one, has a control message, which
	 * sr_local_recv() refuses: so it returns 0 only if no packet is left. */
	sr_sys_setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	if (sr_local_recv(fd, &c, 1))
		sr_closer_close(fd);
	else
		sr_fd_close(fd);
}

int sr_local_accept(int listener, uint32_t *uid)
{
	int fd;

	if (!sr_closer_free())
		return -EBUSY;
	if (!sr_fd_spare(2 + SR_FD_LEFT))	/* and its copy, higher up */
		return -EMFILE;
	fd = sr_fd_own(sr_sys_accept4(listener, NULL, NULL,
				       SOCK_CLOEXEC | SOCK_NONBLOCK));
	if (fd < 0)
		return -errno;
	*uid = sr_local_peer(fd);
	return fd;
}
