/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* addr.c - internet addresses. */
#include "base/real.h" /* before any system header */
#include "base/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>

#include "base/fdpriv.h"
#include "base/log.h"
#include "base/now.h"
#include "base/pages.h"
#include "base/text.h"

void sr_addr_unmap(struct sockaddr_storage *to, const struct sockaddr *from)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6;

	memset(to, 0, sizeof(*to));
	if (from->sa_family == AF_INET)
		memcpy(to, from, sizeof(in));
	if (from->sa_family != AF_INET6)
		return;
	memcpy(&in6, from, sizeof(in6));
	if (!IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
		memcpy(to, &in6, sizeof(in6));
		return;
	}
	in.sin_port = in6.sin6_port;
	memcpy(&in.sin_addr, in6.sin6_addr.s6_addr + 12, 4);
	memcpy(to, &in, sizeof(in));
}

void sr_addr_set_port(struct sockaddr_storage *a, uint16_t port)
{
	((struct sockaddr_in *)a)->sin_port = htons(port);
}

unsigned sr_addr_hash(const struct sockaddr_storage *a, unsigned first)
{
	unsigned h = first;
	size_t len;
	const unsigned char *byte = sr_addr_bytes(a, &len);

	for (size_t i = 0; i < len; i++)
		h = h * 31 + byte[i];
	return h;
}

bool sr_addr_same_host(const struct sockaddr_storage *a,
		       const struct sockaddr_storage *b)
{
	size_t len;
	const void *mine = sr_addr_bytes(a, &len);

	return a->ss_family == b->ss_family &&
	       !memcmp(mine, sr_addr_bytes(b, &len), len);
}

bool sr_addr_is_any(const struct sockaddr_storage *a)
{
	static const uint8_t zero[16];
	size_t len;
	const void *bytes = sr_addr_bytes(a, &len);

	return !memcmp(bytes, zero, len);
}

/* As snprintf(3). */
static int format_v4(char *buf, size_t size, const struct sockaddr_storage *plain)
{
	char all[sizeof("255.255.255.255:65535")];
	struct sr_text t = { all, all + sizeof(all) - 1 };
	size_t len, n;
	const uint8_t *bytes = sr_addr_bytes(plain, &len);

	for (size_t i = 0; i < len; i++) {
		sr_text_number(&t, bytes[i]);
		sr_text_word(&t, i + 1 < len ? "." : ":");
	}
	sr_text_number(&t, sr_addr_port((const struct sockaddr *)plain));
	n = (size_t)(t.at - all);
	if (size) {
		len = n < size ? n : size - 1;
		memcpy(buf, all, len);
		buf[len] = '\0';
	}
	return (int)n;
}

int sr_addr_format(char *buf, size_t size, const struct sockaddr_storage *any)
{
	const struct sockaddr *sa = (const void *)any;
	const struct sockaddr_in6 *v6 = (const void *)any;
	char text[INET6_ADDRSTRLEN], scope[12] = "";
	struct sockaddr_storage plain;
	int err = errno;
	size_t len;

	sr_addr_unmap(&plain, sa);
	if (plain.ss_family == AF_INET)
		return format_v4(buf, size, &plain);
	if (!inet_ntop(plain.ss_family, sr_addr_bytes(&plain, &len), text, sizeof(text))) {
		errno = err;
		return sr_format(buf, size, "%s", "");
	}
	if (v6->sin6_scope_id)
		sr_format(scope, sizeof(scope), "%%%u", v6->sin6_scope_id);
	return sr_format(buf, size, "[%s%s]:%u", text, scope, sr_addr_port(sa));
}

int sr_addr_is_local(const struct sockaddr_storage *a)
{
	struct sockaddr_storage any = *a;
	int fd, r = -1;

	sr_addr_set_port(&any, 0);
	fd = sr_sys_socket(any.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		r = sr_sys_bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0;
		sr_now_close(fd);
	}
	return r;
}

/* ---- the addresses of the interfaces ---- */

struct address_dump {
	void (*fn)(const struct sockaddr_storage *a, void *arg);
	void *arg;
};

/* IFA_LOCAL is the interface's own where IFA_ADDRESS is the peer's (rtnetlink(7)). */
static void look_at_address(const struct address_dump *d, const struct nlmsghdr *head)
{
	const struct ifaddrmsg *ifa = NLMSG_DATA(head);
	int len = (int)IFA_PAYLOAD(head);
	struct sockaddr_storage a = { .ss_family = ifa->ifa_family };
	size_t size;
	void *to = (void *)(uintptr_t)sr_addr_bytes(&a, &size);
	bool found = false;

	if ((ifa->ifa_family != AF_INET && ifa->ifa_family != AF_INET6) ||
	    ifa->ifa_scope >= RT_SCOPE_LINK)
		return;
	for (const struct rtattr *r = IFA_RTA(ifa); RTA_OK(r, len); r = RTA_NEXT(r, len)) {
		if ((r->rta_type == IFA_LOCAL || (r->rta_type == IFA_ADDRESS && !found)) &&
		    RTA_PAYLOAD(r) == size) {
			memcpy(to, RTA_DATA(r), size);
			found = true;
		}
	}
	if (found)
		d->fn(&a, d->arg);
}

/* True: more will come. */
static bool look_at_addresses(const struct address_dump *d, const struct nlmsghdr *head, size_t n)
{
	for (; NLMSG_OK(head, n); head = NLMSG_NEXT(head, n)) {
		if (head->nlmsg_type != RTM_NEWADDR)
			return false;
		if (head->nlmsg_len >= NLMSG_LENGTH(sizeof(struct ifaddrmsg)))
			look_at_address(d, head);
	}
	return true;
}

void sr_addr_each(void (*fn)(const struct sockaddr_storage *a, void *arg), void *arg)
{
	const struct address_dump d = { fn, arg };
	struct {
		struct nlmsghdr head;
		struct ifaddrmsg body;
	} q = { .head = { .nlmsg_len = sizeof(q),
			  .nlmsg_type = RTM_GETADDR,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP } };
	size_t size = 32768;	/* what the kernel puts into one answer (netlink(7)) */
	struct nlmsghdr *answer = sr_pages_get(size);
	int fd = sr_fd_own(sr_sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
	ssize_t n;

	if (answer && sr_now_send(fd, &q, sizeof(q)) > 0) {
		do
			n = sr_now_recv(fd, answer, size, 0);
		while (n > 0 && look_at_addresses(&d, answer, (size_t)n));
	}
	if (fd >= 0)
		sr_fd_close(fd);
	if (answer)
		sr_pages_put(answer, size);
}
