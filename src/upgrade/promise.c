/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * promise.c - owns the options of options.def that promise what a link cannot carry, and
 * which of them a stream's socket has.  It keeps a set of the options that the program has set on
 * the stream, or that the stream inherited from its listener.  When a link is asked for, only the
 * options in this set are read from the socket, and their values at that moment count.
 *
 * If another program has set the listener up, the set is not known, and all options are read, and
 * TCP_INQ as well, which a link can carry.  An option that another process sets later, on a
 * socket that both processes hold, is not noticed.
 *
 * Locks: rx_lock, under which the anchor is not closed.
 */
#include "base/sys.h"

#include <errno.h>
#include <limits.h>
#include <linux/in6.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/addr.h"
#include "base/log.h"
#include "base/now.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "upgrade/upgrade.h"

#define SMALL_BUFFER 8192	/* bytes: sockrail(7), Limits */

/* Not in the headers of Debian 12. */
#ifndef TCP_AO_ADD_KEY
#define TCP_AO_ADD_KEY 38
#endif

enum form { INT, SIZE, TEXT, BYTES, KEY, EVER };

static const struct promise {
	int level, name;
	enum form form;
	bool read;		/* getsockopt(2) shows it */
	int least, most;	/* INT: the neutral values */
	const char *word, *text; /* for the log */
} promises[] = {
#define SR_OPTION(level, name, text)
#define SR_PROMISE(level, name, form, read, least, most, text) \
	{ level, name, form, read, least, most, #name, text },
#include "options.def"
};

#define COUNT (sizeof(promises) / sizeof(promises[0]))
#define FOREIGN (UINT64_C(1) << 63) /* another program has set the socket up */

_Static_assert(COUNT < 63, "bits of up.promises");

/* Options with two names */
static int one_option_name(int level, int name)
{
	if (level != SOL_SOCKET)
		return name;
	switch (name) {
	case SO_RCVBUFFORCE:
		return SO_RCVBUF;
	case SO_SNDBUFFORCE:
		return SO_SNDBUF;
	case SO_RCVTIMEO_NEW:
		return SO_RCVTIMEO_OLD;
	case SO_SNDTIMEO_NEW:
		return SO_SNDTIMEO_OLD;
	}
	return name;
}

int sr_promise_find(int level, int name)
{
	name = one_option_name(level, name);
	for (size_t i = 0; i < COUNT; i++)
		if (promises[i].level == level && promises[i].name == name)
			return (int)i;
	return -1;
}

bool sr_promise_limits_time(int i)
{
	const struct promise *p = &promises[i];

	return p->level == SOL_SOCKET &&
	       (p->name == SO_RCVTIMEO_OLD || p->name == SO_SNDTIMEO_OLD);
}

/* Is the value outside the neutral ones?  It is an int, or a byte where IP takes one, too. */
static bool is_beyond(const struct promise *p, const void *val, socklen_t len)
{
	int v;

	if (len >= sizeof(v))
		memcpy(&v, val, sizeof(v));
	else if (len && p->level == IPPROTO_IP)
		v = *(const unsigned char *)val;
	else
		return false;	/* refused */
	return v < p->least || v > p->most;
}

bool sr_promise_made(int i, const void *val, socklen_t len)
{
	const struct promise *p = &promises[i];
	const struct tcp_md5sig *key = val;
	uint16_t keylen = 0;

	switch (p->form) {
	case INT:
	case SIZE:
		return is_beyond(p, val, len);
	case TEXT:
		return len && *(const char *)val;
	case BYTES:
		return len;
	case KEY:
		if (len >= sizeof(*key))
			memcpy(&keylen, &key->tcpm_keylen, sizeof(keylen));
		return keylen;
	default:
		return true;
	}
}

void sr_promise_note(struct sr_stream *st, int i, bool made)
{
	if (made)		/* pair option: sr_attach_begin(); go_plain() of sock/option.c looks */
		atomic_fetch_or_explicit(&st->up.promises, UINT64_C(1) << i, memory_order_seq_cst);
	else if (promises[i].form != KEY)	/* there may be keys for others */
		atomic_fetch_and_explicit(&st->up.promises, ~(UINT64_C(1) << i), memory_order_relaxed);
}

void sr_promise_say(struct sr_stream *st, int i)
{
	sr_hold();
	sr_inform("%s: a link cannot carry the option %s (%s)",
		  sr_stream_label(st, (char[128]){ 0 }), promises[i].word, promises[i].text);
	sr_release();
}

void sr_promise_foreign(struct sr_stream *st)
{
	socklen_t len = sizeof(int);
	int inq = 0;

	/* (The stream has just been accepted, and has no link.) */
	atomic_fetch_or_explicit(&st->up.promises, FOREIGN, memory_order_relaxed);
	if (!sr_sys_getsockopt(sr_load(&st->anchor), IPPROTO_TCP, TCP_INQ, &inq, &len) && inq)
		sr_st_set(st, SR_ST_INQ);
}

/* ---- the way ---- */

static int option_of(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int v = 0;

	return sr_sys_getsockopt(fd, level, name, &v, &len) ? 0 : v;
}

/* Does the interface have the address?  The kernel answers if the interface and the address
 * are asked for together: by SIOCGIFADDR, and by bind(2) of a socket bound to a device. */
static bool device_has(int device, const struct sockaddr_storage *addr)
{
	int fd = sr_sys_socket(addr->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = { .ifr_ifindex = device };
	bool has;

	if (fd < 0)
		return false;
	if (addr->ss_family == AF_INET) {
		has = !sr_sys_ioctl(fd, SIOCGIFNAME, &r);
		memcpy(&r.ifr_addr, addr, sizeof(r.ifr_addr));
		has = has && !sr_sys_ioctl(fd, SIOCGIFADDR, &r) &&
		      ((struct sockaddr_in *)&r.ifr_addr)->sin_addr.s_addr ==
			      ((const struct sockaddr_in *)addr)->sin_addr.s_addr;
	} else {
		has = !sr_sys_setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &device, sizeof(device)) &&
		      !sr_sys_bind(fd, (const struct sockaddr *)addr, sizeof(*addr));
	}
	sr_now_close(fd);
	return has;
}

/* A link leaves by the device of the stream's own address.  So a socket that is bound to that
 * device goes the same way; one bound to another device, a VRF's among them, may not. */
static bool is_bound_elsewhere(int fd)
{
	int device = option_of(fd, SOL_SOCKET, SO_BINDTOIFINDEX);
	struct sockaddr_storage own, plain;
	socklen_t len = sizeof(own);

	if (!device)
		return false;
	if (sr_sys_getsockname(fd, (struct sockaddr *)&own, &len))
		return true;
	sr_addr_unmap(&plain, (const struct sockaddr *)&own);
	sr_addr_set_port(&plain, 0);
	return !device_has(device, &plain);
}

bool sr_promise_leads_away(struct sr_stream *st)
{
	int err = errno;
	bool does;

	sr_lock(&st->rx_lock);
	does = sr_load(&st->anchor) >= 0 && (is_bound_elsewhere(sr_load(&st->anchor)) ||
				   option_of(sr_load(&st->anchor), SOL_SOCKET, SO_MARK));
	sr_unlock(&st->rx_lock);
	errno = err;
	return does;
}

/* ---- what a socket has ---- */

static bool is_device(const struct promise *p)
{
	return p->level == SOL_SOCKET &&
	       (p->name == SO_BINDTODEVICE || p->name == SO_BINDTOIFINDEX);
}

static bool is_kept(int fd, const struct promise *p)
{
	char val[256] = "";
	socklen_t len = sizeof(val);
	int twice;

	if (is_device(p))
		return is_bound_elsewhere(fd);
	if (sr_sys_getsockopt(fd, p->level, p->name, val, &len) < 0)
		return false;	/* not of this family, or of this kernel */
	if (p->form == SIZE) {
		memcpy(&twice, val, sizeof(twice));
		twice /= 2;
		memcpy(val, &twice, sizeof(twice));
	}
	return sr_promise_made((int)(p - promises), val, len);
}

/* The first option that the socket has, or -1. */
static int promise_of(struct sr_stream *st, uint64_t noted)
{
	for (size_t i = 0; i < COUNT; i++) {
		const struct promise *p = &promises[i];
		bool own = noted >> i & 1;

		if (p->read ? (own || (noted & FOREIGN)) && is_kept(sr_load(&st->anchor), p) : own)
			return (int)i;
	}
	return -1;
}

bool sr_promise_bars(struct sr_stream *st)
{
	/* pair option: sr_promise_note(); the service thread has changed up.att */
	uint64_t noted = sr_look(&st->up.promises);
	int err = errno, i = -1;

	if (!noted)
		return false;
	sr_lock(&st->rx_lock);
	if (sr_load(&st->anchor) >= 0)
		i = promise_of(st, noted);
	sr_unlock(&st->rx_lock);
	errno = err;
	if (i < 0)
		return false;
	if (!(sr_st_flags(st) & SR_ST_BARRED))
		sr_promise_say(st, i);
	sr_stream_bar(st, SR_REASON_OPTION);
	return true;
}
