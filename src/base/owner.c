/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * owner.c - finds the socket at the other end of a connection by sock_diag(7), which
 * looks the four-tuple up in the kernel's hash table.  It knows nothing of links.
 */
#include "base/real.h" /* before any system header */
#include "base/owner.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/rtnetlink.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "base/addr.h"
#include "base/fdpriv.h"
#include "base/now.h"

#define OVERFLOW_UID 65534 /* DEFAULT_OVERFLOWUID of linux/highuid.h */

struct question {
	struct nlmsghdr head;
	struct inet_diag_req_v2 body;
};

static void question_fill(struct question *q, const struct sockaddr_storage *own,
			  const struct sockaddr_storage *other)
{
	struct inet_diag_sockid *id = &q->body.id;
	const void *bytes;
	size_t len;

	*q = (struct question){
		.head = {.nlmsg_len = sizeof(*q),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
		.body = {.sdiag_family = (uint8_t)own->ss_family,
			 .sdiag_protocol = IPPROTO_TCP,
			 .idiag_states = UINT32_MAX},
	};
	id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	id->idiag_sport = htons(sr_addr_port((const struct sockaddr *)own));
	id->idiag_dport = htons(sr_addr_port((const struct sockaddr *)other));
	bytes = sr_addr_bytes(own, &len);
	memcpy(id->idiag_src, bytes, len);
	bytes = sr_addr_bytes(other, &len);
	memcpy(id->idiag_dst, bytes, len);
}

/* Returns the length of the answer, which the kernel has given when the first call returns. */
static ssize_t owner_ask(const void *q, size_t len, void *a, size_t size)
{
	int fd = sr_fd_own(sr_sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC,
					  NETLINK_SOCK_DIAG));
	ssize_t n = sr_now_send(fd, q, len);

	if (n > 0)
		n = sr_now_recv(fd, a, size, 0);
	if (fd >= 0)
		sr_fd_close(fd);
	return n;
}

/* A socket with an IPv4 connection is found by IPv4 addresses, even if it is of AF_INET6. */
static bool owner_find(const struct sockaddr_storage *own,
		       const struct sockaddr_storage *other, struct inet_diag_msg *found)
{
	struct question q;
	struct {
		struct nlmsghdr head;
		struct inet_diag_msg socket;
	} a;			/* the attributes behind are cut off */
	ssize_t n;

	question_fill(&q, own, other);
	n = owner_ask(&q, sizeof(q), &a, sizeof(a));
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(a.socket)) ||
	    a.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return false;
	*found = a.socket;
	/* Where there is no connection, the kernel names a socket that listens. */
	return a.socket.idiag_state != TCP_LISTEN;
}

int sr_owner_of_peer(const struct sockaddr_storage *local,
		     const struct sockaddr_storage *peer, uint32_t *uid)
{
	struct inet_diag_msg f;

	if (!owner_find(peer, local, &f) || !sr_owner_is_user(f.idiag_uid))
		return -ENOENT;
	/* A socket without an inode belongs to no process: it is closed, or, if it is in
	 * one of these states, it has not been accepted. */
	if (!f.idiag_inode && f.idiag_state != TCP_ESTABLISHED &&
	    f.idiag_state != TCP_SYN_RECV)
		return -ENOENT;
	*uid = f.idiag_uid;
	return !f.idiag_inode;
}

int sr_owner_cookie(const struct sockaddr_storage *local,
		    const struct sockaddr_storage *peer, uint64_t *cookie)
{
	struct inet_diag_msg f;

	if (!owner_find(peer, local, &f))
		return -ENOENT;
	*cookie = (uint64_t)f.id.idiag_cookie[1] << 32 | f.id.idiag_cookie[0];
	return 0;
}

bool sr_owner_is_here(uint64_t inode, const struct sockaddr_storage *local,
		      const struct sockaddr_storage *peer)
{
	struct inet_diag_msg f;

	return inode && owner_find(local, peer, &f) && f.idiag_inode == inode;
}

/* Of unix_diag, whose answer has attributes. */
struct line_answer {
	struct nlmsghdr head;
	struct unix_diag_msg socket;
	struct rtattr attributes[16];
};

static int read_peer(const struct line_answer *a, size_t n, uint32_t *inode)
{
	int len = (int)(n - offsetof(struct line_answer, attributes));

	for (const struct rtattr *r = a->attributes; RTA_OK(r, len); r = RTA_NEXT(r, len))
		if (r->rta_type == UNIX_DIAG_PEER && RTA_PAYLOAD(r) == sizeof(*inode)) {
			memcpy(inode, RTA_DATA(r), sizeof(*inode));
			return *inode ? 0 : -ENOENT;
		}
	return -ENOENT;
}

int sr_owner_line_peer(int fd, uint32_t *inode)
{
	struct {
		struct nlmsghdr head;
		struct unix_diag_req body;
	} q = {
		.head = {.nlmsg_len = sizeof(q),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
		.body = {.sdiag_family = AF_UNIX,
			 .udiag_states = UINT32_MAX,
			 .udiag_show = UDIAG_SHOW_PEER,
			 .udiag_cookie = {UINT32_MAX, UINT32_MAX}},
	};
	struct line_answer a;
	struct stat st;
	ssize_t n;

	if (sr_sys_fstat(fd, &st))
		return -ENOENT;
	q.body.udiag_ino = (uint32_t)st.st_ino;
	n = owner_ask(&q, sizeof(q), &a, sizeof(a));
	if (n < (ssize_t)offsetof(struct line_answer, attributes) ||
	    a.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || a.head.nlmsg_len > (size_t)n ||
	    a.socket.udiag_ino != q.body.udiag_ino)
		return -ENOENT;
	return read_peer(&a, a.head.nlmsg_len, inode);
}

bool sr_owner_is_user(uint32_t uid)
{
	return uid != OVERFLOW_UID;
}
