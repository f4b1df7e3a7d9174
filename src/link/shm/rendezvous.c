/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rendezvous.c - how two processes on one host come to share memory: the
 * answering side; ask.c is the asking one.  It owns the listening sockets, and
 * requests from the offer to accept or refuse.  It knows no stream.  Service thread
 * only; it never blocks; no locks.
 *
 * A process that accepts connections on tcp4:127.0.0.1:80 listens on the
 * abstract name "\0sockrail-6/tcp4:127.0.0.1:80", or with "*" for any address;
 * the kernel keeps such names apart by network namespace.  Where several processes
 * accept, one of them has the name, and may send the asker to another one
 * (upgrade/keeper.c):
 *
 *     asker     connects a socket, which is called the line, and sends an offer: version,
 *               ring sizes, the connection's name, whether its program waits
 *     answerer  if the asker's program waits, and accept or refuse is not decided at
 *               once, sends a first answer (upgrade/answer.c)
 *     answerer  sends "ok", with the memfd and one end of the doorbell, a pair of
 *               sockets; or a word of reasons.def
 *
 * Each end must be a process of root, of the other's user, or of the user who owns the
 * TCP socket at its end (sr_local_owns()).  Before it knows that, the asker sends
 * nothing, and the answerer nothing but a word.  Each link has a memfd of its own.
 *
 * A stranger may send descriptors that take long to close, so an end peeks before it reads
 * (local.h).  This is safe only on a socket of which no other process has a copy, which
 * could read in between: the line, and the answerer's end of the doorbell, which are never
 * sent.  The asker's end of the doorbell was sent by the answerer.  So an asker that does
 * not trust the answerer has no doorbell but the line.
 *
 * Each end also makes sure that its own socket is the one that has the connection
 * in this network namespace (sr_owner_is_here()): the asker before it asks, the
 * answerer when it accepts.  Therefore the two streams are the two ends of one
 * connection, and neither end has to prove its history:
 *
 *   - Both processes ask the kernel in the namespace of the abstract name by which
 *     they met.  A socket never changes its namespace, and in a namespace only one
 *     socket at a time has a connection's addresses and ports.
 *   - So the answerer's socket, when the answerer accepts, is the peer of the socket that
 *     then has the asker's addresses and ports.  If the asker's socket does not have them
 *     any more, it was reset or closed.  Then no mark can be written to it, and no byte
 *     leaves the link.
 *   - A process that lies about its socket runs as a user who could read and write the
 *     stream anyway.  The same holds for a descriptor that two processes share.
 *
 * A socket that is not accepted yet needs no exception, because its process has it by the
 * time that it accepts the link.  If the kernel cannot tell (no sock_diag, no /proc, a
 * socket bound to a device), there is no link.
 */
#include "base/real.h"

#include "link/shm/dir.h"
#include "link/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/apart.h"
#include "base/closer.h"
#include "base/fdpriv.h"
#include "base/log.h"
#include "base/now.h"
#include "base/owner.h"
#include "base/pages.h"

#define BACKLOG 1024 /* an asker that finds it full does not wait */
#define REQUEST_MS 3000 /* longer than an asker waits */
#define PENDING_MAX 2048 /* requests that a process may have waiting */
#define FULL_MAX 4 /* the same if its descriptors are enough for a word only */
/* The most descriptors in use at a time, besides the lines and a doorbell for each asker in
 * progress: our end and the asker's end of a doorbell, the memory, and a copy. */
#define ACCEPT_FDS 4

struct pending {
	struct sr_request req; /* first; the upgrade room's when known */
	struct sr_watch watch; /* the line; fd -1: the link has it */
	struct sr_timer timer;
	bool known;	       /* the offer has come */
	bool alone;	       /* it wants no doorbell */
	bool stranger;
	bool full;	       /* it will get no link: no descriptors are left */
	uint32_t uid;
	struct sr_shm_plan plan;
};

static unsigned pending_count, strangers;

static void pending_free(struct pending *p)
{
	sr_timer_cancel(&p->timer);
	if (p->watch.fd >= 0) {
		sr_loop_unwatch(&p->watch);
		sr_local_close(p->watch.fd);
	}
	pending_count--;
	strangers -= p->stranger;
	free(p);
}

static void pending_gone(struct pending *p)
{
	if (p->known)
		sr_link_gone(&p->req);
	pending_free(p);
}

static void pending_due(struct sr_timer *t)
{
	pending_gone(SR_OF(struct pending, timer, t));
}

static bool offer_fits(struct pending *p, const uint8_t *buf, size_t n)
{
	struct sr_offer o;

	if (sr_offer_decode(&o, buf, n) ||
	    sr_shm_plan(&p->plan, (size_t)1 << o.first, (size_t)1 << o.max))
		return false;
	p->alone = o.alone;
	p->req.name = o.question.name;
	p->req.holds = o.question.holds;
	return true;
}

static void say_to_asker(int line, const char *word)
{
	(void)!sr_now_send(line, word, strlen(word));
}

static void refuse_request(struct sr_request *req, const char *reason)
{
	struct pending *p = (struct pending *)req;

	if (p->watch.fd >= 0)
		say_to_asker(p->watch.fd, reason);
	pending_free(p);
}

/* The request goes on: the final answer will come by the same line. */
static bool tell_asker(struct sr_request *req, enum sr_first first)
{
	struct pending *p = (struct pending *)req;

	say_to_asker(p->watch.fd, sr_first_word(first));
	req->holds = sr_first_holds(first);
	return false;
}

static bool may_ask(const struct pending *p)
{
	struct sockaddr_storage ours, theirs;

	if (p->req.proof == SR_PROOF_ALWAYS)
		return p->alone;
	sr_name_addresses(&p->req.name, &theirs, &ours);
	return sr_local_owns(p->uid, &ours, &theirs) > 0;
}

static void offer_readable(struct pending *p)
{
	uint8_t offer[SR_OFFER_LEN];
	ssize_t n = sr_local_recv(p->watch.fd, offer, sizeof(offer));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		pending_free(p);
	} else if (!offer_fits(p, offer, (size_t)n)) {
		refuse_request(&p->req, "protocol");
	} else if (p->full) {
		refuse_request(&p->req, "descriptors");
	} else if (!may_ask(p)) {
		refuse_request(&p->req, "user");
	} else {
		p->known = true;
		sr_link_request(&p->req);
	}
}

static void pending_readable(struct sr_watch *w, uint32_t events)
{
	struct pending *p = SR_OF(struct pending, watch, w);

	(void)events;
	if (p->known)	/* after the offer only the connection's end can come */
		pending_gone(p);
	else
		offer_readable(p);
}

/* A new connection to a listener. */
static void line_new(int fd, uint32_t uid, enum sr_proof proof)
{
	bool stranger = proof == SR_PROOF_ALWAYS || !sr_local_trusts(uid);
	/* Strangers hold at most a fifth of the descriptors: for each that waits, four more have
	 * to be free (pending_count has strangers in it, too). */
	bool full = !sr_fd_room(ACCEPT_FDS + pending_count + (stranger ? 3 * strangers : 0));
	struct pending *p = NULL;

	if (stranger)
		sr_fd_slow(fd);
	/* Closed without a word: the asker's filter may still drop it (sr_local_socket()). */
	if (full && pending_count >= FULL_MAX)
		goto close;
	if (stranger ? strangers < PENDING_MAX / 2 : pending_count < PENDING_MAX)
		p = calloc(1, sizeof(*p));
	if (!p)
		goto close;
	p->req.ops = &sr_rendezvous_shm;
	p->req.proof = proof;
	p->watch = (struct sr_watch){.fd = fd, .fn = pending_readable};
	p->timer.fn = pending_due;
	p->stranger = stranger;
	p->full = full;
	p->uid = uid;
	if (sr_loop_watch(&p->watch, EPOLLIN))
		goto close;
	sr_timer_set(&p->timer, REQUEST_MS);
	pending_count++;
	strangers += stranger;
	return;
close:
	free(p);
	sr_local_close(fd);
}

/* ---- the names that askers connect to ---- */

/* Accepts all connections in the backlog.  -EBUSY, -EMFILE, -ENFILE: the others stay there
 * until the next connection comes.  (An asker does not wait for long.) */
static int take_lines(int listener, enum sr_proof proof)
{
	uint32_t uid;
	int fd;

	do {
		fd = sr_local_accept(listener, &uid);
		if (fd >= 0)
			line_new(fd, uid, proof);
	} while (fd >= 0);
	return fd;
}

static void listener_readable(struct sr_watch *w, uint32_t events)
{
	(void)events;
	take_lines(w->fd, SR_PROOF_NONE);
}

static void door_readable(struct sr_watch *w, uint32_t events)
{
	(void)events;
	take_lines(w->fd, SR_PROOF_ALWAYS);
}

/* Without `there', makes the name that askers derive from the address; with it, a random
 * name, which nobody can guess or have taken before.  Returns its length, or -errno. */
static int make_address(const struct sockaddr *addr, char *there, struct sockaddr_un *un)
{
	uint64_t random;

	if (!there)
		return sr_local_name(un, addr, 0, "");
	if (sr_sys_getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		return -errno;
	sr_place_shm(there, random, sr_sys_geteuid());
	return (int)sr_local_there(un, there);
}

struct listener {
	struct sr_watch watch;	/* for askers of this network namespace */
	struct sr_dir_door door;	/* for those of others, if there is a directory for them */
};

static int listen_at(const struct sockaddr *addr, char *there, void **out)
{
	struct listener *listener;
	struct sockaddr_un un;
	int fd, err, len = make_address(addr, there, &un);

	if (len < 0)
		return len;
	fd = sr_local_socket();
	if (fd < 0)
		return fd;
	err = -ENOMEM;
	listener = sr_pages_get(sizeof(*listener));
	if (!listener)
		goto close;
	listener->watch = (struct sr_watch){.fd = fd, .fn = listener_readable};
	err = sr_sys_bind(fd, (struct sockaddr *)&un, (socklen_t)len) ||
	      sr_sys_listen(fd, BACKLOG) ? -errno : 0;
	/* Edge-triggered: a connection that stays in the backlog must not keep the thread busy. */
	if (!err)
		err = sr_loop_watch(&listener->watch, EPOLLIN | EPOLLET);
	if (err)
		goto free;
	sr_dir_open(&listener->door, addr, there, door_readable);
	*out = listener;
	return 0;
free:
	sr_pages_put(listener, sizeof(*listener));
close:
	sr_fd_close(fd);
	return err;
}

/* Empties the backlog first: to close the listener closes the connections in it, and the
 * descriptors that strangers may have sent on these. */
static void close_listener(struct sr_watch *w, enum sr_proof proof)
{
	int err;

	sr_loop_unwatch(w);
	sr_sys_shutdown(w->fd, SHUT_RD); /* no process can connect any more */
	err = take_lines(w->fd, proof);
	if (err == -EBUSY || err == -EMFILE || err == -ENFILE)
		sr_closer_close(w->fd);	/* with what is left */
	else
		sr_fd_close(w->fd);
}

static void shm_unlisten(void *handle)
{
	struct listener *listener = handle;

	close_listener(&listener->watch, SR_PROOF_NONE);
	if (listener->door.watch.fd >= 0) {
		sr_dir_close(&listener->door);
		close_listener(&listener->door.watch, SR_PROOF_ALWAYS);
	}
	sr_pages_put(listener, sizeof(*listener));
}

/* ---- accept ---- */

/* Makes our end of the doorbell, and the asker's, which goes to *theirs.  Returns NULL or a
 * reason. */
static const char *make_doorbell(struct sr_shm *l, bool stranger, int *theirs)
{
	const int type = stranger ? SOCK_SEQPACKET : SOCK_STREAM;
	int pair[2];

	if (sr_sys_socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		return errno == EMFILE ? "descriptors" : "memory";
	l->bell_streams = !stranger;
	l->doorbell = sr_fd_own(pair[0]);
	if (stranger && l->doorbell >= 0)
		sr_fd_slow(l->doorbell);
	*theirs = sr_fd_own(pair[1]);
	return l->doorbell < 0 || *theirs < 0 ? "descriptors" : NULL;
}

/* Makes the memory and the doorbell, and sends them to the asker.  NULL, or a reason. */
static const char *hand_over(struct sr_shm *l, struct pending *p)
{
	int fds[SR_SHM_FDS] = {sr_shm_memory(p->plan.total), -1};
	const char *reason = NULL;

	if (fds[0] < 0)
		return errno == EMFILE ? "descriptors" : "memory";
	if (!p->alone)
		reason = make_doorbell(l, p->stranger, &fds[1]);
	if (!reason && sr_shm_map(l, fds[0]))
		reason = "memory";
	if (!reason && sr_local_send_fds(p->watch.fd, "ok", 2, fds, p->alone ? 1 : SR_SHM_FDS))
		reason = "peer-dropped";
	if (!reason && p->alone)
		l->doorbell = p->watch.fd;
	for (int i = 0; i < SR_SHM_FDS; i++)
		if (fds[i] >= 0)
			sr_fd_close(fds[i]);
	return reason;
}

/* Makes the memory, which the asker gets when it has proven itself.  NULL, or a reason. */
static const char *ask_for_proof(struct sr_shm *l, struct pending *p)
{
	const char *reason;

	l->memory = sr_shm_memory(p->plan.total);
	if (l->memory < 0)
		return errno == EMFILE ? "descriptors" : "memory";
	if (sr_shm_map(l, l->memory))
		return "memory";
	reason = sr_shm_by_line(l, p->watch.fd);
	if (!reason)
		say_to_asker(p->watch.fd, "prove");
	return reason;
}

static struct sr_link *accept_request(struct sr_request *req, void *owner,
			      void (*notify)(struct sr_link *, unsigned),
			      const char **reason)
{
	struct pending *p = (struct pending *)req;
	struct sockaddr_storage ours, theirs;
	struct sr_shm *l;
	int err;

	sr_name_addresses(&req->name, &theirs, &ours);
	if (!sr_owner_is_here(req->inode, &ours, &theirs)) {
		*reason = "no-match";
		return NULL;
	}
	*reason = "memory";
	l = sr_shm_new(SR_ROLE_ANSWERER, req->name.link_no, owner, notify,
		       req->policy, &p->plan);
	if (!l)
		return NULL;
	l->stranger = p->stranger;
	*reason = req->proof == SR_PROOF_ALWAYS ? ask_for_proof(l, p) : hand_over(l, p);
	if (*reason)
		goto put;
	*reason = "memory";
	sr_loop_unwatch(&p->watch);
	err = sr_shm_start(l, p->watch.fd);
	p->watch.fd = -1;	/* the link's, or closed: then there is nobody to refuse */
	if (err)
		goto put;
	pending_free(p);
	return &l->link;
put:
	sr_link_put(&l->link);
	return NULL;
}

SR_SELDOM static void forget(void)
{
	pending_count = strangers = sr_shm_asking = 0;
	sr_dir_forget();
}

static const char *shm_usable(void)
{
	return NULL;
}

const struct sr_rendezvous sr_rendezvous_shm = {
	.name = "shm",
	.kind = 0,
	.usable = shm_usable,
	.absent = sr_shm_absent,
	.ask = sr_shm_ask,
	.cancel = sr_shm_cancel,
	.listen = listen_at,
	.unlisten = shm_unlisten,
	.tell = tell_asker,
	.accept = accept_request,
	.refuse = refuse_request,
	.leave = sr_dir_leave,
	.forget = forget,
};
