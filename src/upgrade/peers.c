/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * peers.c - owns the memory of peers that refused or did not answer: a small table by address
 * and kind of link, in which the newer of two entries that collide stays.  Must not know of
 * streams.
 *
 * The time for which a peer is not asked doubles with each refusal, up to
 * MOST_NS: a peer may just have begun to listen, or come back with Sockrail,
 * but a program that connects to a plain server again and again must not pay
 * for asking.
 *
 * The lock is a leaf and only tried: a thread that finds it held skips the table.  (If it was
 * held at a fork, the child skips the table for ever.)
 */
#include "base/real.h"

#include "base/addr.h"
#include "base/apart.h"
#include "base/now.h"
#include "engine/impl.h"
#include "upgrade/upgrade.h"

#define PEERS 32
#define MOST_NS 10000000000ull

SR_APART static struct peer {
	struct sockaddr_storage addr;
	struct {
		enum sr_reason why;
		unsigned times;		/* refusals in a row */
		uint64_t until;
	} kind[SR_KINDS];
} peers[PEERS];
static struct sr_mutex lock = SR_MUTEX(SR_RANK_LEAF);

/* Returns the peer's entry, and in *plain its address as it is on the wire. */
static struct peer *peer_place(const struct sockaddr_storage *addr,
			       struct sockaddr_storage *plain)
{
	sr_addr_unmap(plain, (const struct sockaddr *)addr);
	return &peers[sr_addr_hash(plain, sr_addr_port((const struct sockaddr *)plain)) % PEERS];
}

static bool peer_has_address(const struct peer *p, const struct sockaddr_storage *addr)
{
	return sr_addr_same_host(&p->addr, addr) &&
	       sr_addr_port((const struct sockaddr *)&p->addr) ==
		       sr_addr_port((const struct sockaddr *)addr);
}

void sr_peer_refused(const struct sockaddr_storage *addr,
		     const struct sr_rendezvous *ops, enum sr_reason why, uint64_t first_ns)
{
	struct sockaddr_storage plain;
	struct peer *p = peer_place(addr, &plain);
	uint64_t now = sr_now_ns(), ns;
	int k = ops->kind;

	if (!sr_trylock(&lock))
		return;
	if (!peer_has_address(p, &plain))
		*p = (struct peer){ .addr = plain };
	/* Streams that ask at one time count as one refusal. */
	if (now >= p->kind[k].until) {
		ns = first_ns << p->kind[k].times;
		p->kind[k].times += p->kind[k].times < 10;
		p->kind[k].until = now + (ns < MOST_NS ? ns : MOST_NS);
	}
	p->kind[k].why = why;
	sr_unlock(&lock);
}

void sr_peer_answered(const struct sockaddr_storage *addr,
		      const struct sr_rendezvous *ops)
{
	struct sockaddr_storage plain;
	struct peer *p = peer_place(addr, &plain);

	if (!sr_trylock(&lock))
		return;
	if (peer_has_address(p, &plain))
		p->kind[ops->kind].times = 0;
	sr_unlock(&lock);
}

enum sr_reason sr_peer_pause_reason(const struct sr_rendezvous *ops,
			       const struct sockaddr_storage *addr)
{
	struct sockaddr_storage plain;
	struct peer *p = peer_place(addr, &plain);
	enum sr_reason why = SR_REASON_NONE;
	int k = ops->kind;

	if (!sr_trylock(&lock))
		return why;
	if (peer_has_address(p, &plain) && sr_now_ns() < p->kind[k].until)
		why = p->kind[k].why;
	sr_unlock(&lock);
	return why;
}
