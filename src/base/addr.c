/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* addr.c - internet addresses. */
#include "base/real.h" /* before any system header */
#include "base/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/log.h"
#include "base/now.h"
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
