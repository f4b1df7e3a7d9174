/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * forecast.c - policy lazy: streams that would not get a link, were they ever to ask.
 *
 * A lazy stream is watched for the moment to ask, which costs a program of small
 * messages some per cent of its time.  So somebody looks earlier whether there would be
 * anybody to ask; and if not, the stream is plain for good.
 *
 * A program that makes a connection for each request (no keep-alive) never comes to
 * ask.  Hence it is remembered by peer how many streams have carried bytes and ended
 * before; when they are MANY, the next looks as it connects.  Other streams look at
 * their CALLS-th call and whenever there have been twice as many.
 *
 * A peer that has only just begun to listen may not have its rendezvous open yet.
 * Hence two looks, RETRY_NS apart, have to agree; and a verdict is as short-lived as a
 * look is cheap: a server that comes back with Sockrail is found after FRESH_NS.
 *
 * The table is a cache: who finds it locked does without, as does for ever the child
 * of a fork that happened meanwhile.
 */
#include "base/real.h"

#include <errno.h>
#include <string.h>

#include "base/addr.h"
#include "base/log.h"
#include "base/now.h"
#include "stream/impl.h"

#define MANY 16
#define CALLS 16
#define PEERS 32
#define RETRY_NS 50000000ull
#define FRESH_NS 200000000ull
#define KNOWN_NS 10000000000ull	/* somebody is there */

static struct peer {
	struct sockaddr_storage addr;
	unsigned ended;		/* short streams so far, at most MANY */
	enum sr_reason why;	/* nobody is there; NONE: perhaps somebody */
	bool alone;		/* twice in a row */
	uint64_t until;		/* the next look */
} peers[PEERS];
static pthread_mutex_t peers_lock = PTHREAD_MUTEX_INITIALIZER;

static struct peer *find(const struct sockaddr_storage *addr)
{
	size_t len, i;
	const unsigned char *byte = sr_addr_bytes(addr, &len);
	unsigned h = sr_addr_port((const struct sockaddr *)addr);

	for (i = 0; i < len; i++)
		h = h * 31 + byte[i];
	return &peers[h % PEERS];
}

static bool is(const struct peer *p, const struct sockaddr_storage *addr)
{
	return sr_addr_same_host(&p->addr, addr) &&
	       sr_addr_port((const struct sockaddr *)&p->addr) ==
		       sr_addr_port((const struct sockaddr *)addr);
}

static void look_again(struct peer *p, uint64_t now)
{
	bool before = p->why != SR_REASON_NONE;

	p->why = sr_upgrade_hopeless(NULL, &p->addr, true);
	p->alone = before && p->why != SR_REASON_NONE;
	p->until = now + (p->why == SR_REASON_NONE ? KNOWN_NS :
			  p->alone ? FRESH_NS : RETRY_NS);
}

static enum sr_reason forecast(const struct sockaddr_storage *addr, bool connects)
{
	struct peer *p = find(addr);
	uint64_t now;

	if (!is(p, addr))
		*p = (struct peer){ .addr = *addr };
	if (connects && p->ended < MANY)
		return SR_REASON_NONE;
	now = sr_now_ns();
	if (now >= p->until)
		look_again(p, now);
	return p->alone ? p->why : SR_REASON_NONE;
}

static void look(struct sr_stream *st, const struct sockaddr_storage *addr,
		 bool connects)
{
	enum sr_reason why;
	int err = errno;

	/* To the wildcard address: only the kernel knows where that goes. */
	if (!addr->ss_family || sr_addr_is_any(addr) || !sr_trylock(&peers_lock))
		return;
	why = forecast(addr, connects);
	sr_unlock(&peers_lock);
	if (why != SR_REASON_NONE) {
		sr_stream_reason(st, why);
		sr_plain_for_good(st);
	}
	errno = err;
}

void sr_forecast_connected(struct sr_stream *st, const struct sockaddr *addr,
			   socklen_t len)
{
	if (sr_conf.upgrade != SR_LAZY || !addr || len < sr_addr_len(addr))
		return;
	sr_addr_plain(&st->peer, addr);	/* until it is named */
	look(st, &st->peer, true);
}

void sr_forecast_called(struct sr_stream *st, unsigned calls)
{
	struct sockaddr_storage peer;

	if (sr_conf.upgrade != SR_LAZY || calls < CALLS || (calls & (calls - 1)) ||
	    !sr_stream_name(st))
		return;
	sr_addr_plain(&peer, (struct sockaddr *)&st->peer);
	look(st, &peer, false);
}

void sr_forecast_ended(struct sr_stream *st)
{
	unsigned all = SR_ST_CONNECT | SR_ST_ASKED;
	struct peer *p;

	/* Only those that never asked, and carried bytes. */
	if (sr_conf.upgrade != SR_LAZY || sr_is_plain(st) ||
	    (sr_st_flags(st) & all) != SR_ST_CONNECT ||
	    !(atomic_load(&st->tx_tcp) + atomic_load(&st->rx_tcp)) ||
	    !st->peer.ss_family || !sr_trylock(&peers_lock))
		return;
	p = find(&st->peer);
	if (is(p, &st->peer) && p->ended < MANY)
		p->ended++;
	sr_unlock(&peers_lock);
}
