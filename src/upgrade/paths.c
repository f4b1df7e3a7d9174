/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * paths.c - owns the memory of hosts to which a link over RDMA can be made, but then does not
 * carry packets of full length (reason "path"): a small table by address, in which the newer of
 * two entries that collide stays.  Must not know of streams or links.
 *
 * Each such link costs its stream a second or more.  After the second one in a row the host is
 * left alone for REST_NS, and after each further one for twice as long, up to 8 times that.
 * The asker does not ask it, and the answerer refuses it, because askers may be short processes
 * that remember nothing.  Links that were being made at the same time count as one.
 *
 * The lock is a leaf and only tried, as in peers.c.
 */
#include "base/real.h"

#include "base/addr.h"
#include "base/apart.h"
#include "base/log.h"
#include "engine/impl.h"
#include "upgrade/upgrade.h"

#define HOSTS 32
#define REST_NS SR_PATH_REST_NS
#define DOUBLES 3
#define IN_A_ROW 2

SR_APART static struct path {
	struct sockaddr_storage host;
	unsigned deaths;	/* in a row */
	uint64_t died_ns, until_ns;
} paths[HOSTS];
static struct sr_mutex path_lock = SR_MUTEX(SR_RANK_LEAF);

/* Returns the host's place, and in *plain its address as it is on the wire. */
static struct path *path_place(const struct sockaddr_storage *peer,
			       struct sockaddr_storage *plain)
{
	sr_addr_unmap(plain, (const struct sockaddr *)peer);
	return &paths[sr_addr_hash(plain, 0) % HOSTS];
}

uint64_t sr_path_died(const struct sockaddr_storage *peer, uint64_t since_ns, uint64_t now_ns)
{
	struct sockaddr_storage plain;
	struct path *p = path_place(peer, &plain);
	uint64_t rest_ns = 0;
	unsigned more;

	if (!sr_trylock(&path_lock))
		return 0;
	if (!sr_addr_same_host(&p->host, &plain))
		*p = (struct path){ .host = plain };
	if (!p->deaths || since_ns >= p->died_ns) {
		p->died_ns = now_ns;
		p->deaths++;
		if (p->deaths >= IN_A_ROW) {
			more = p->deaths - IN_A_ROW;
			rest_ns = REST_NS << (more < DOUBLES ? more : DOUBLES);
			p->until_ns = now_ns + rest_ns;
		}
	}
	sr_unlock(&path_lock);
	return rest_ns;
}

void sr_path_works(const struct sockaddr_storage *peer)
{
	struct sockaddr_storage plain;
	struct path *p = path_place(peer, &plain);

	if (!sr_trylock(&path_lock))
		return;
	if (sr_addr_same_host(&p->host, &plain))
		*p = (struct path){ .host = plain };
	sr_unlock(&path_lock);
}

bool sr_path_rests(const struct sockaddr_storage *peer, uint64_t now_ns)
{
	struct sockaddr_storage plain;
	struct path *p = path_place(peer, &plain);
	bool rests;

	if (!sr_trylock(&path_lock))
		return false;
	rests = sr_addr_same_host(&p->host, &plain) && now_ns < p->until_ns;
	sr_unlock(&path_lock);
	return rests;
}
