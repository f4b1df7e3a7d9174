/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * iov.h - a cursor over a program's iovec; the iovec itself never changes.
 */
#ifndef SR_IOV_H
#define SR_IOV_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/copy.h"

struct sr_iov {
	const struct iovec *v;
	size_t n;		/* remaining entries, with the current one */
	size_t skip;		/* used bytes of the current entry */
	size_t left;		/* remaining bytes in all */
};

/* The kernel's verdict before it looks at a message's buffers: 0 or -errno. */
static inline int sr_msg_refused(const struct msghdr *msg)
{
	if (msg->msg_name && msg->msg_namelen > INT_MAX)
		return -EINVAL;
	return msg->msg_iovlen > UIO_MAXIOV ? -EMSGSIZE : 0;
}

/* readv(2): EINVAL if the lengths exceed an ssize_t. */
static inline bool sr_iov_valid(const struct iovec *v, size_t n)
{
	ssize_t sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		if (__builtin_add_overflow(sum, v[i].iov_len, &sum))
			return false;
	return true;
}

/* The most that one call transfers (write(2), sendfile(2)). */
#define SR_CALL_MAX ((size_t)0x7ffff000)

static inline struct sr_iov sr_iov_make(const struct iovec *v, size_t n)
{
	struct sr_iov c = { .v = v, .n = n };
	size_t i;

	for (i = 0; i < n; i++)
		c.left += v[i].iov_len;
	if (c.left > SR_CALL_MAX)
		c.left = SR_CALL_MAX;
	return c;
}

/* Uses the next piece, at most `most` bytes.  Valid only while left > 0. */
static inline struct iovec sr_iov_take(struct sr_iov *c, size_t most)
{
	struct iovec piece;

	while (c->skip == c->v->iov_len) {
		c->v++;
		c->n--;
		c->skip = 0;
	}
	if (most > c->left)
		most = c->left;
	piece = (struct iovec){ (char *)c->v->iov_base + c->skip,
				c->v->iov_len - c->skip };
	if (piece.iov_len > most)
		piece.iov_len = most;
	c->skip += piece.iov_len;
	c->left -= piece.iov_len;
	return piece;
}

static inline void sr_iov_advance(struct sr_iov *c, size_t bytes)
{
	while (bytes)
		bytes -= sr_iov_take(c, bytes).iov_len;
}

/* Stores up to max of the remaining bytes in at most cap entries of out.
 * Returns the number of entries; *bytes is their sum. */
static inline size_t sr_iov_rest(struct sr_iov c, size_t max, struct iovec *out,
				 size_t cap, size_t *bytes)
{
	size_t n;

	*bytes = 0;
	for (n = 0; n < cap && c.left && *bytes < max; n++) {
		out[n] = sr_iov_take(&c, max - *bytes);
		*bytes += out[n].iov_len;
	}
	return n;
}

/* Copies from buf into the rest, or from it into buf, and advances. */
static inline size_t sr_iov_fill(struct sr_iov *c, const void *buf, size_t len)
{
	size_t done = 0;

	while (done < len && c->left) {
		struct iovec p = sr_iov_take(c, len - done);

		sr_copy(p.iov_base, (const char *)buf + done, p.iov_len);
		done += p.iov_len;
	}
	return done;
}

static inline size_t sr_iov_drain(struct sr_iov *c, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len && c->left) {
		struct iovec p = sr_iov_take(c, len - done);

		sr_copy((char *)buf + done, p.iov_base, p.iov_len);
		done += p.iov_len;
	}
	return done;
}

#endif
