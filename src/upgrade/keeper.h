/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * keeper.h - which of the processes that accept at one address answers for a stream.
 *
 * One of them is the keeper: it holds the address's name, and so the rendezvous where
 * askers look first.  Each other one that has a stream worth a link is a worker, with
 * a rendezvous of its own and a line to the keeper.  One that accepts, but has no such stream
 * yet, has a line only.  Loop only, no locks.
 */
#ifndef SR_KEEPER_H
#define SR_KEEPER_H

#include "engine/stream.h"
#include "pure/request.h"

/* Takes the name of the listener's address.  Returns a descriptor, which the caller owns;
 * -EADDRINUSE: another process has it; or -errno.  Any thread. */
int sr_keeper_bind(struct sr_listener *l);
/* Makes this process the keeper of the listener's address.  fd: from sr_keeper_bind(), and is
 * taken over.  0, or -errno. */
int sr_keeper_open(struct sr_listener *l, int fd);
/* Makes this process a worker of the process that has the name.  0, or -errno: that process is
 * busy, or has ended. */
int sr_keeper_join(struct sr_listener *l, const struct sr_there *there);
/* Is the process, which is keeper or worker, the keeper?  False also after TRIES calls. */
bool sr_keeper_keeps(struct sr_listener *l);
/* Connects to the process that has the name, only to hear of its end: a process that accepts, and
 * has no stream yet that is worth a link, takes its place then.  0, or -errno as above. */
int sr_keeper_watch(struct sr_listener *l);
/* l->keeper is set.  Does this process only watch the process that has the name, after
 * sr_keeper_watch()? */
bool sr_keeper_only_watches(struct sr_listener *l);
void sr_keeper_close(struct sr_listener *l);
/* Connects to the process that has the listener's name.  Returns the line, which the caller
 * owns, or -errno.  Any thread. */
int sr_keeper_call(struct sr_listener *l);
/* Claims the stream of that name, whose socket has this SO_COOKIE, on such a line (claim.c).
 * False: nothing was sent.  Any thread. */
bool sr_keeper_claim(int line, const struct sr_name *name, uint64_t cookie);
/* Asks all workers at the port of `name` for that stream; sr_answer_found() takes
 * the answer.  False: there is none. */
bool sr_keeper_ask(const struct sr_name *name);
/* Tells the keepers of that port that this process has the stream. */
void sr_keeper_tell(const struct sr_name *name);
/* Is another process the keeper of that port, and this one a worker only?  Then all requests
 * come from askers that a keeper has sent here. */
bool sr_keeper_is_elsewhere(unsigned port);
void sr_keeper_forget(void);		/* child of fork */

/* ---- claim.c ---- */
#define SR_CLAIMS_MAX 64	/* on a line */
/* Has this process claimed streams of the listener that its line, if it has one, does not
 * know?  Then it has to join anew.  Loop. */
bool sr_claims_wait(struct sr_listener *l);
/* Takes the line on which it has claimed them, or -1.  The caller owns the line. */
int sr_claims_take_line(struct sr_listener *l);

#endif
