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
#include "base/fdpriv.h"
#include "base/log.h"
#include "base/owner.h"
#include "pure/wire.h"

/* ---- names ---- */

/* Makes "tcp4:*:80" and the like; any: the wildcard in place of the address. */
int sr_local_word(char *buf, size_t size, const struct sockaddr *sa, bool any,
		bool as_v6)
{
	char text[INET6_ADDRSTRLEN] = "*";
	struct sockaddr_storage plain;
	const void *addr;
	int family;
	size_t len;

	sr_addr_plain(&plain, sa);
	addr = sr_addr_bytes(&plain, &len);
	family = plain.ss_family;
	if (family != AF_INET && family != AF_INET6)
		return -EAFNOSUPPORT;
	if (!any && !sr_addr_is_any(&plain) &&
	    !inet_ntop(family, addr, text, sizeof(text)))
		return -errno;
	if (as_v6)
		family = AF_INET6;
	return sr_format(buf, size, "sockrail-%d/tcp%d:%s:%u", SR_WIRE_VERSION,
			 family == AF_INET ? 4 : 6, text, sr_addr_port(sa));
}

socklen_t sr_local_name(struct sockaddr_un *un, const char *word,
			const char *suffix)
{
	int n;

	*un = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = sr_format(un->sun_path + 1, sizeof(un->sun_path) - 1, "%s%s", word,
		      suffix);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)n);
}

/* ---- unwanted descriptors ---- */

/*
 * A packet may carry descriptors.  The process that reads the packet, or closes
 * the socket on which it lies unread, closes them, and that may block for as
 * long as the sender likes (closer.h).  So no descriptors may be let in:
 *
 *   - since Linux 6.16, a socket can refuse them (SO_PASSRIGHTS), and a
 *     listening socket passes this on to those that it accepts;
 *   - before that, a socket that connects drops all packets by a filter (what
 *     is in them is closed by their sender) until the user who accepted it is
 *     known.  An accepted socket cannot be protected in this way.
 *
 * So on older kernels, links are made only with root and with processes of the
 * same user.
 */
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* asm-generic/socket.h */
#endif

static int option(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	sr_real.getsockopt(fd, SOL_SOCKET, name, &value, &len);
	return value;
}

bool sr_local_bar(int fd, bool bar)
{
	int pass = !bar;

	return !sr_real.setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &pass,
				   sizeof(pass));
}

bool sr_local_barred(int fd)
{
	return option(fd, SO_PASSRIGHTS) == 0;
}

void sr_local_shield(int fd)
{
	struct sock_filter none[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
	struct sock_fprog program = {1, none};

	if (!sr_local_bar(fd, true))
		sr_real.setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program,
				   sizeof(program));
}

bool sr_local_trusts(uint32_t uid)
{
	return uid == 0 || (uid == geteuid() && sr_owner_is_user(uid));
}

bool sr_local_hears(int fd, uint32_t uid)
{
	int ignored = 0;

	if (sr_local_barred(fd))
		return true;
	if (!sr_local_trusts(uid))
		return false;
	sr_real.setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &ignored,
			   sizeof(ignored));
	return true;
}

int sr_local_socket(void)
{
	int fd = sr_fd_own(sr_real.socket(
		AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	if (fd < 0)
		return -errno;
	sr_local_shield(fd);
	return fd;
}

/* ---- the other end's user ---- */

bool sr_local_peer_uid(int fd, uint32_t *uid)
{
	struct ucred cred = {.uid = (uid_t)-1};
	socklen_t len = sizeof(cred);

	if (sr_real.getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return false;
	*uid = cred.uid;
	return true;
}
