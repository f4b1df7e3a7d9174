/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * owner.c - finds the socket at the other end of a connection by sock_diag(7), which
 * looks the four-tuple up in the kernel's hash table; or, where that is not to be had
 * (a module that is not there, a sandbox without AF_NETLINK), in /proc/net/tcp.
 * It knows nothing of links.
 */
#include "base/real.h" /* before any system header */
#include "base/owner.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/addr.h"
#include "base/fdpriv.h"
#include "base/log.h"
#include "base/now.h"

/* Of a table in /proc: some 7000 sockets, and 10 ms. */
#define READ_MAX (1 << 20)
#define LINE_MAX_LEN 256 /* a line of /proc/net/tcp6 has 190 bytes at most */
#define OVERFLOW_UID 65534 /* DEFAULT_OVERFLOWUID of linux/highuid.h */
#define ALL_USERS 4294967295ul /* user_namespaces(7): the map of the first one */

struct found {
	uint32_t uid, inode;
	unsigned state;
};

/* ---- files in /proc ---- */

/* The text from key on, in whatever case, to the end of its line.  0 or -errno. */
static int find_line(const char *path, const char *key,
		     char line[LINE_MAX_LEN])
{
	int fd = sr_fd_own(sr_now_open(path, O_RDONLY | O_CLOEXEC, 0));
	char buf[8192 + 1], *at, *end;
	size_t have = 0, total = 0;
	int result = fd < 0 ? -errno : -ENOENT;
	ssize_t n;

	while (fd >= 0 && total < READ_MAX &&
	       (n = sr_now_read(fd, buf + have, sizeof(buf) - 1 - have)) > 0) {
		have += (size_t)n;
		total += (size_t)n;
		buf[have] = '\0';
		at = strcasestr(buf, key);
		end = at ? strchr(at, '\n') : NULL;
		if (end && end - at < LINE_MAX_LEN) {
			*end = '\0';
			memcpy(line, at, (size_t)(end - at) + 1);
			result = 0;
			break;
		}
		/* The last line may go on in the next piece. */
		end = memrchr(buf, '\n', have);
		have = end ? have - (size_t)(end + 1 - buf) : 0;
		if (have)
			memmove(buf, end + 1, have);
	}
	if (fd >= 0)
		sr_fd_close(fd);
	return result;
}

static const char *skip_field(const char *s)
{
	s += strspn(s, " ");
	return s + strcspn(s, " ");
}

/* An address as /proc/net/tcp and tcp6 show it: words of 32 bits as they are in
 * memory. */
static int format_row(char *out, size_t size, const struct sockaddr_storage *a,
		      bool in_v6)
{
	uint32_t word[4] = {0, 0, htonl(0xffff), 0};
	size_t len, from = in_v6 ? 0 : 3;
	const void *bytes = sr_addr_bytes(a, &len);
	int n = 0;

	memcpy(len == 4 ? &word[3] : word, bytes, len);
	for (; from < 4; from++)
		n += sr_format(out + n, size - (size_t)n, "%08x", word[from]);
	return n + sr_format(out + n, size - (size_t)n, ":%04x ",
			     sr_addr_port((const struct sockaddr *)a));
}

/* The socket whose own address is `own`. */
static int find_in_table(const struct sockaddr_storage *own,
			 const struct sockaddr_storage *other, bool in_v6,
			 struct found *f)
{
	char key[128], line[LINE_MAX_LEN];
	const char *s = line;
	char *end;
	int n, err;

	n = format_row(key, sizeof(key), own, in_v6);
	n += format_row(key + n, sizeof(key) - (size_t)n, other, in_v6);
	err = find_line(in_v6 ? "/proc/net/tcp6" : "/proc/net/tcp", key, line);
	if (err)
		return err;
	f->state = (unsigned)strtoul(s + n, &end, 16);
	s = skip_field(skip_field(skip_field(end))); /* queues, timer, retries */
	f->uid = (uint32_t)strtoul(s, &end, 10);
	f->inode = (uint32_t)strtoul(skip_field(end), NULL, 10);
	return 0;
}

static int find_in_tables(const struct sockaddr_storage *own,
			  const struct sockaddr_storage *other, struct found *f)
{
	int err = -ENOENT;

	if (own->ss_family == AF_INET)
		err = find_in_table(own, other, false, f);
	return err ? find_in_table(own, other, true, f) : 0;
}

/* ---- sock_diag ---- */

/*
 * The interface by which the kernel keeps the connections of a link-local address
 * apart; 0 for others.  The name of a connection (wire.h) has none, but the address is
 * one of this host's.
 */
static uint32_t interface_of(const struct sockaddr_storage *a)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
	const uint8_t *b = v6->sin6_addr.s6_addr;
	char key[33], line[LINE_MAX_LEN];

	if (a->ss_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
		return 0;
	if (v6->sin6_scope_id)
		return v6->sin6_scope_id;
	for (int i = 0; i < 16; i++)
		sr_format(key + 2 * i, 3, "%02x", b[i]);
	if (find_line("/proc/net/if_inet6", key, line))
		return 0;
	return (uint32_t)strtoul(line + 32, NULL, 16);
}

struct question {
	struct nlmsghdr head;
	struct inet_diag_req_v2 body;
};

static void fill(struct question *q, const struct sockaddr_storage *own,
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
	id->idiag_if = interface_of(own);
	id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	id->idiag_sport = htons(sr_addr_port((const struct sockaddr *)own));
	id->idiag_dport = htons(sr_addr_port((const struct sockaddr *)other));
	bytes = sr_addr_bytes(own, &len);
	memcpy(id->idiag_src, bytes, len);
	bytes = sr_addr_bytes(other, &len);
	memcpy(id->idiag_dst, bytes, len);
}

/* A socket that IPv4 reaches is found as IPv4, also if it is of AF_INET6. */
static int find_by_diag(const struct sockaddr_storage *own,
			const struct sockaddr_storage *other, struct found *f)
{
	struct question q;
	struct {
		struct nlmsghdr head;
		union {
			struct nlmsgerr error;
			struct inet_diag_msg socket;
			uint8_t attributes[1024];
		};
	} a;
	int result = -EPROTO, fd;
	ssize_t n;

	fill(&q, own, other);
	fd = sr_fd_own(sr_real.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC,
				      NETLINK_SOCK_DIAG));
	if (fd < 0)
		return -errno;
	/* The kernel has answered when the call returns. */
	n = sr_now_send(fd, &q, sizeof(q));
	if (n > 0)
		n = sr_now_recv(fd, &a, sizeof(a), 0);
	if (n < 0)
		result = -errno;
	else if (n >= (ssize_t)NLMSG_LENGTH(sizeof(a.error)) &&
		 a.head.nlmsg_type == NLMSG_ERROR)
		result = a.error.error ? a.error.error : -EPROTO;
	else if (n >= (ssize_t)NLMSG_LENGTH(sizeof(a.socket)) &&
		 a.head.nlmsg_type == SOCK_DIAG_BY_FAMILY)
		result = 0;
	sr_fd_close(fd);
	if (!result)
		*f = (struct found){a.socket.idiag_uid, a.socket.idiag_inode,
				    a.socket.idiag_state};
	return result;
}

/* ---- */

/* The socket that has the connection from `own` to `other`. */
static int find(const struct sockaddr_storage *own,
		const struct sockaddr_storage *other, struct found *f)
{
	static atomic_bool diag_works;
	int err = find_by_diag(own, other, f);

	if (!err)
		atomic_store(&diag_works, true);
	/* "Not found" is also what the kernel says without its module. */
	else if (err != -ENOENT || !atomic_load(&diag_works))
		err = find_in_tables(own, other, f);
	/* Where there is no connection, one that could come is found. */
	return !err && f->state == TCP_LISTEN ? -ENOENT : err;
}

int sr_owner_of_peer(const struct sockaddr_storage *local,
		     const struct sockaddr_storage *peer, uint32_t *uid)
{
	struct found f;
	int saved = errno, err = find(peer, local, &f);
	/* Without an inode no process has it: it is closed, or, in these states, has
	 * not been accepted. */
	bool early = !err && !f.inode &&
		     (f.state == TCP_ESTABLISHED || f.state == TCP_SYN_RECV);

	if (!err && ((!f.inode && !early) || !sr_owner_is_user(f.uid)))
		err = -ENOENT;
	errno = saved;
	if (err)
		return err;
	*uid = f.uid;
	return early;
}

bool sr_owner_is_here(int fd, const struct sockaddr_storage *local,
		      const struct sockaddr_storage *peer)
{
	struct found f;
	struct stat st;
	int saved = errno;
	bool here = !fstat(fd, &st) && S_ISSOCK(st.st_mode) &&
		    !find(local, peer, &f) && f.inode == st.st_ino;

	errno = saved;
	return here;
}

bool sr_owner_is_user(uint32_t uid)
{
	unsigned long overflow = OVERFLOW_UID, first;
	char line[LINE_MAX_LEN], *s;
	int saved = errno;
	bool is_user;

	if (!find_line("/proc/sys/kernel/overflowuid", "", line))
		overflow = strtoul(line, NULL, 10);
	is_user = uid != overflow;
	if (!is_user && !find_line("/proc/self/uid_map", "", line)) {
		first = strtoul(line, &s, 10);
		is_user = !first && strtoul(skip_field(s), NULL, 10) == ALL_USERS;
	}
	errno = saved;
	return is_user;
}
