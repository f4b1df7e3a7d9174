/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * claim.c - owns what a process says of its streams before it becomes another user, as the
 * child of smbd or of ftpd does that has accepted a stream as root.
 *
 * The keeper believes only root, its own user, and the user who owns the stream's socket
 * (keeper.c).  So while the thread is still that user, it connects a line to the keeper of
 * each listener that it has such streams of, and claims them there.  The worker joins on
 * that line when one of the streams is worth a link, perhaps as another user; a worker
 * that has joined already joins anew.
 *
 * What an attacker gains who takes over the process after the change, while it was honest as
 * root:
 *
 *   - It is not believed about a stream that it has not claimed, such as a sibling's.  The
 *     kernel adds the sender's user to each packet as the packet is sent (SCM_CREDENTIALS), and
 *     a process can name no user that it cannot become.  So it does not help to use an old line,
 *     an inherited or a passed one, or to repeat a claim.  The keeper uses only the user's
 *     number in the packet, and looks up no process that may have ended.
 *   - What it claimed as root counts for that socket alone: the claim has the cookie of the
 *     socket, which the keeper compares as it reads the claim and when the worker says HAVE.
 *     The four-tuple may be another socket's at either moment.
 *   - It may name any place as its own, but only the askers of its own streams go there.  The
 *     asker expects there a process of the user whom the keeper has named, not of root (ask.c).
 *   - If it is the keeper, it goes on to be believed as the user who called listen(2) on the
 *     name (SO_PEERCRED).  It became the keeper because it has a socket that listens at the
 *     address.  With that socket it can also call accept(2), and so take any stream of the
 *     address; being the keeper gives it no more.  But if it has closed that socket, it can
 *     still draw the address's askers to itself.
 *
 * It costs a process that changes its user some system calls for the streams that it has
 * then, and nobody else anything.  No locks: the words are atomic.
 */
#include "base/sys.h"

#include "base/fdpriv.h"
#include "engine/engine.h"
#include "engine/fast.h"
#include "engine/fdtab.h"
#include "link/local.h"
#include "upgrade/keeper.h"
#include "upgrade/upgrade.h"

static void close_line(int line)
{
	if (line >= 0)
		sr_local_close(line);
}

int sr_claims_take_line(struct sr_listener *l)
{
	return atomic_exchange_explicit(&l->claims, 0, memory_order_relaxed) - 1;
}

bool sr_claims_wait(struct sr_listener *l)
{
	return sr_load(&l->claims);
}

/* Another thread may have made a line meanwhile.  That line's claims are lost, so these streams
 * stay on TCP. */
static void give_line(struct sr_listener *l, int line)
{
	close_line(atomic_exchange_explicit(&l->claims, line + 1, memory_order_relaxed) - 1);
	if (sr_loop_runs())
		sr_stream_kick(l->socket);
}

/* A line to the keeper, which is another process; or -1. */
static int line_to(struct sr_listener *l)
{
	int line = sr_claims_take_line(l);
	struct ucred keeper = { 0 };
	socklen_t len = sizeof(keeper);

	if (line < 0)
		line = sr_keeper_call(l);
	if (line < 0)
		return -1;
	sr_sys_getsockopt(line, SOL_SOCKET, SO_PEERCRED, &keeper, &len);
	if (keeper.pid != sr_sys_getpid())
		return line;
	close_line(line);
	return -1;
}

static bool is_claimable(struct sr_stream *st, int fd)
{
	const unsigned never = SR_ST_BARRED | SR_ST_CLOSING;
	struct sr_listener *l = st->up.listener;
	uid_t user = sr_sys_geteuid();
	struct stat socket;

	return l && (sr_st_flags(st) & (SR_ST_ACCEPT | never)) == SR_ST_ACCEPT &&
	       !sr_is_retired(st) && !sr_listener_has(l, SR_LISTENER_UNAVAILABLE) &&
	       !sr_load(&st->up.claimed) && sr_sys_fstat(fd, &socket) == 0 &&
	       (user == 0 || user == socket.st_uid) && sr_stream_name(st);
}

/* Claims the stream.  True: it counts towards SR_CLAIMS_MAX, even if no keeper can be reached. */
static bool claim_one(struct sr_stream *st, int fd)
{
	struct sr_listener *l = st->up.listener;
	socklen_t len = sizeof(uint64_t);
	uint64_t cookie;
	int line;

	if (!is_claimable(st, fd) ||
	    sr_sys_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len))
		return false;
	sr_store(&st->up.claimed, true);
	sr_listener_set(l, SR_LISTENER_CLAIMED);
	line = line_to(l);
	if (line >= 0 && sr_keeper_claim(line, &st->rare->name, cookie))
		give_line(l, line);
	else
		close_line(line);
	return true;
}

void sr_claims_make(void)
{
	struct sr_stream *st;
	int top = sr_fdtab_max();
	unsigned n = 0;

	for (int fd = 0; fd <= top && n < SR_CLAIMS_MAX; fd++) {
		st = sr_fdtab_has(fd) ? sr_fdtab_get(fd) : NULL;
		if (!st)
			continue;
		n += claim_one(st, fd);
		sr_stream_put(st);
	}
}
