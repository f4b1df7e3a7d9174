/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rendezvous.c - how two processes on one host come to share memory: the
 * answering side; ask.c is the asking one.  It owns requests from the offer to
 * accept or refuse.  It knows no stream.  Service thread only; it never blocks;
 * no locks.
 *
 * A process that accepts connections on tcp4:127.0.0.1:80 listens on the
 * abstract name "\0sockrail-2/tcp4:127.0.0.1:80", or with "*" for any address;
 * the kernel keeps such names apart by network namespace.  Where several processes
 * accept, one of them has the name, and may send the asker to another one
 * (upgrade/keeper.c):
 *
 *     asker     connects a socket, the line, and sends an offer: version, ring
 *               sizes, the connection's name, and the doorbell socket's name
 *     answerer  "go", or a word of reasons.def
 *     asker     connects the doorbell, and sends "memory" with the memfd on the line
 *     answerer  "ok", or a word of reasons.def
 *
 * Nobody else has an end of the line or the doorbell, as neither end was sent.
 *
 * The asker sends nothing before it knows that the other process is root's, or
 * belongs to the user who owns the TCP socket at the stream's other end
 * (owner.h).  The answerer sends other users only "user".  Each attempt has a
 * memfd of its own, so that a process which refused one cannot read the next.
 *
 * Each end also makes sure that its own socket is the one that has the connection
 * in this network namespace (sr_owner_is_here()): the asker before it asks, the
 * answerer when it accepts.  Hence the two streams are the two ends of one
 * connection, and neither shows its history:
 *
 *   - Both processes asked the kernel in the namespace of the abstract name, where
 *     they met.  A socket never changes its namespace, and in one of them only one
 *     socket has a connection's addresses and ports at a time.
 *   - So the answerer's socket, when it accepts, is the peer of the one that then has
 *     the asker's addresses and ports.  If that is not the asker's any more, that was
 *     reset or closed, and no mark can be written to it: nothing gets out of the
 *     link.
 *   - A process that lies about its socket has the right user, who could as well read
 *     and write the stream.  It is the same for a descriptor that two processes share.
 *
 * A socket that is not accepted yet needs no exception: its process will have it when
 * it accepts the link.  Where the kernel does not say (no sock_diag, no /proc, a
 * socket bound to a device), there is no link.
 */
#include "base/real.h"

#include "link/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/fdpriv.h"
#include "base/log.h"
#include "base/now.h"
#include "base/owner.h"
#include "base/report.h"

#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020 /* of <linux/fcntl.h> */
#endif
#define REQUEST_MS 3000 /* longer than an asker waits */
#define PENDING_MAX 2048 /* requests that a process may have waiting */
#define CLOSE_MS 10 /* until a closer may be free */
#define LINK_FDS 2 /* the doorbell, and the memory for a moment */

struct pending {
	struct sr_request req; /* first; the upgrade room's when KNOWN */
	struct sr_watch watch; /* the line */
	struct sr_timer timer;
	enum {
		OFFER,	/* waits for the offer */
		MEMORY, /* waits for the memory and the doorbell */
		KNOWN,	/* the asker has sent everything */
		OVER,	/* over, except for close(2) */
	} stage;
	struct sr_shm_plan plan;
	uint8_t doorbell_name[SR_SHM_DOORBELL_LEN];
	int memory, doorbell; /* -1: not yet */
	uint32_t uid;
	bool stranger;	/* close(2) of its descriptors may block: closer.h */
	bool unchecked; /* a stranger's packets were not checked yet */
	struct sr_closer *closer; /* reserved for them */
	struct pending *next;
};

static struct pending *pendings;
static unsigned pending_count, strangers;

/* A name chosen by the kernel is five hexadecimal digits (unix(7), autobind). */
void sr_shm_doorbell_name(uint8_t name[SR_SHM_DOORBELL_LEN],
		      const struct sockaddr_un *un, socklen_t len)
{
	size_t n = len - offsetof(struct sockaddr_un, sun_path);

	memset(name, 0, SR_SHM_DOORBELL_LEN);
	if (len > offsetof(struct sockaddr_un, sun_path) && !un->sun_path[0] &&
	    n - 1 <= SR_SHM_DOORBELL_LEN)
		memcpy(name, un->sun_path + 1, n - 1);
}

static void close_one(int fd)
{
	if (fd >= 0)
		sr_fd_close(fd);
}

static void pending_free(struct pending *p)
{
	struct pending **at = &pendings;

	sr_timer_cancel(&p->timer);
	if (p->watch.fd >= 0)
		sr_loop_unwatch(&p->watch);
	if (p->unchecked && !p->closer)
		p->closer = sr_closer_take();
	if (p->unchecked && !p->closer) {
		p->stage = OVER;
		sr_timer_set(&p->timer, CLOSE_MS);
		return;
	}
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	pending_count--;
	strangers -= p->stranger;
	if (p->closer) {
		sr_closer_close(p->closer, p->watch.fd, p->memory);
	} else {
		close_one(p->watch.fd);
		close_one(p->memory);
	}
	close_one(p->doorbell);
	free(p);
}

static void pending_gone(struct pending *p)
{
	if (p->stage == KNOWN && sr_link_gone)
		sr_link_gone(&p->req);
	pending_free(p);
}

static void pending_due(struct sr_timer *t)
{
	pending_gone((struct pending *)((char *)t -
					offsetof(struct pending, timer)));
}

/* Accepts only memory that nobody can shrink beneath us, of the right size, and
 * without huge pages, which might be lacking.  The kernel may also have sealed
 * its mode (sysctl vm.memfd_noexec), which does not matter. */
static bool is_memory(int fd, const struct sr_shm_plan *plan)
{
	struct statfs fs;
	struct stat st;
	int seals = sr_real.fcntl(fd, F_GET_SEALS);

	return (seals & ~F_SEAL_EXEC) == SR_SHM_SEALS && !fstatfs(fd, &fs) &&
	       fs.f_type == TMPFS_MAGIC && !fstat(fd, &st) &&
	       S_ISREG(st.st_mode) && (uint64_t)st.st_size == plan->total;
}

static bool offer_fits(struct pending *p, const struct sr_shm_offer *o)
{
	static const uint8_t no_name[SR_SHM_DOORBELL_LEN];

	if (o->version != SR_WIRE_VERSION || o->zero || o->first > o->max ||
	    o->max > 30)
		return false;
	if (sr_shm_plan(&p->plan, (size_t)1 << o->first, (size_t)1 << o->max))
		return false;
	memcpy(p->doorbell_name, o->doorbell, sizeof(p->doorbell_name));
	return !sr_name_decode(&p->req.name, o->name, sizeof(o->name)) &&
	       memcmp(o->doorbell, no_name, sizeof(no_name));
}

static void say(int fd, const char *word)
{
	(void)!sr_real.send(fd, word, strlen(word),
			    MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Peeks at the packet; p->memory becomes a copy of its descriptor, whatever
 * that is.  Anything else in the packet stays in the queue.  Returns the
 * packet's length, or -errno; EBADF: not what it should be. */
static ssize_t peek_memory(struct pending *p)
{
	char word[sizeof(SR_SHM_MEMORY)];
	struct iovec v = {word, sizeof(word)};
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr msg = {
		.msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		/* not CMSG_SPACE(), which has room for two */
		.msg_controllen = CMSG_LEN(sizeof(int)),
	};
	struct cmsghdr *c;
	int fd = -1;
	ssize_t n;

	n = sr_real.recvmsg(p->watch.fd, &msg,
			    MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		n = -errno;
	c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (n > 0 && fd < 0 && (msg.msg_flags & MSG_CTRUNC))
		n = -EMFILE;
	else if (n > 0 && (n != sizeof(word) - 1 ||
			   (msg.msg_flags & MSG_CTRUNC) ||
			   !is_memory(fd, &p->plan)))
		n = -EBADF;
	/* sr_fd_own() closes the first number, which may take long unless it is
	 * memory. */
	p->memory = n > 0 ? sr_fd_own(fd) : fd;
	return n;
}

/* Like peek_memory(), but empties the queue afterwards and lets nothing more in. */
static ssize_t receive_memory(struct pending *p)
{
	ssize_t n = peek_memory(p);
	char c;

	if (n <= 0)
		return n;
	sr_local_bar(p->watch.fd, true);
	sr_now_recv(p->watch.fd, &c, 1, 0);
	if (sr_now_recv(p->watch.fd, &c, 1, MSG_PEEK) >= 0 || errno != EAGAIN)
		return -EBADF;
	p->unchecked = false;
	return n;
}

static void refuse_request(struct sr_request *req, const char *reason)
{
	struct pending *p = (struct pending *)req;

	say(p->watch.fd, reason);
	pending_free(p);
}

static void complete(struct pending *p)
{
	if (p->memory < 0 || p->doorbell < 0)
		return;
	if (!sr_link_request) {
		refuse_request(&p->req, "no-match");
		return;
	}
	p->stage = KNOWN;
	sr_link_request(&p->req);
}

/* Does the asking user own the TCP socket at the asker's end? */
static bool may_ask(const struct pending *p)
{
	struct sockaddr_storage ours, theirs;
	uint32_t owner;

	sr_name_addresses(&p->req.name, &theirs, &ours);
	return p->uid == 0 || (!sr_owner_of_peer(&ours, &theirs, &owner) &&
				  owner == p->uid);
}

/* Sends the word before it does anything else, so that the time it takes does
 * not show whether such a stream exists. */
static void refuse_user(struct pending *p)
{
	struct sr_name name = p->req.name;

	refuse_request(&p->req, "user");
	if (sr_link_refused)
		sr_link_refused(&name, "user");
}

static void go(struct pending *p)
{
	p->stage = MEMORY;
	p->unchecked = p->stranger;
	sr_local_bar(p->watch.fd, false);
	say(p->watch.fd, SR_SHM_GO);
}

static void offer_readable(struct pending *p)
{
	struct sr_shm_offer offer;
	ssize_t n = sr_now_recv(p->watch.fd, &offer, sizeof(offer), MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		pending_free(p);
	else if (n != sizeof(offer) || !offer_fits(p, &offer))
		refuse_request(&p->req, "protocol");
	else if (!may_ask(p))
		refuse_user(p);
	else
		go(p);
}

static void memory_readable(struct pending *p)
{
	ssize_t n;

	if (p->unchecked)
		p->closer = sr_closer_take();
	if (p->unchecked && !p->closer) {
		refuse_request(&p->req, "refused");
		return;
	}
	n = receive_memory(p);
	if (p->closer && (!p->unchecked || n == -EAGAIN)) {
		sr_closer_give(p->closer);
		p->closer = NULL;
	}
	if (n == -EAGAIN)
		return;
	if (n > 0)
		complete(p);
	else if (n == -EMFILE)
		refuse_request(&p->req, "descriptors");
	else if (n == -EBADF)
		refuse_request(&p->req, "protocol");
	else
		pending_free(p);
}

static void pending_readable(struct sr_watch *w, uint32_t events)
{
	struct pending *p =
		(struct pending *)((char *)w - offsetof(struct pending, watch));

	(void)events;
	if (p->stage == OFFER)
		offer_readable(p);
	else if (p->stage == MEMORY && p->memory < 0)
		memory_readable(p);
	else /* nothing but the connection's end can come */
		pending_gone(p);
}

static void pending_new(int fd, uint32_t uid)
{
	bool stranger = !sr_local_trusts(uid);
	struct pending *p = NULL;

	/* Strangers leave half of the descriptors and of the places to others. */
	if (!sr_fd_room(LINK_FDS + (stranger ? sr_fd_held() : 0)))
		say(fd, "descriptors");	/* before it sends us any */
	else if (stranger ? strangers < PENDING_MAX / 2 :
			    pending_count < PENDING_MAX)
		p = calloc(1, sizeof(*p));
	if (!p)
		goto close;
	p->req.ops = &sr_rendezvous_shm;
	p->watch = (struct sr_watch){.fd = fd, .fn = pending_readable};
	p->timer.fn = pending_due;
	p->memory = p->doorbell = -1;
	p->uid = uid;
	p->stranger = stranger;
	if (sr_loop_watch(&p->watch, EPOLLIN)) {
		free(p);
		goto close;
	}
	sr_timer_set(&p->timer, REQUEST_MS);
	p->next = pendings;
	pendings = p;
	pending_count++;
	strangers += stranger;
	return;
close:
	sr_fd_close(fd);
}

/* A connection from a socket with a name is a doorbell. */
static void doorbell_new(int fd, uint32_t uid, const struct sockaddr_un *un,
		     socklen_t len)
{
	uint8_t name[SR_SHM_DOORBELL_LEN];
	struct pending *p;

	sr_shm_doorbell_name(name, un, len);
	for (p = pendings; p; p = p->next)
		if (p->stage == MEMORY && p->doorbell < 0 && p->uid == uid &&
		    !memcmp(p->doorbell_name, name, sizeof(name)))
			break;
	if (!p) {
		sr_fd_close(fd);
		return;
	}
	p->doorbell = fd;
	complete(p);
}

bool sr_shm_line_new(int fd, const struct sockaddr_un *un, socklen_t len)
{
	uint32_t uid;

	if (!sr_local_peer_uid(fd, &uid) || !sr_local_hears(fd, uid))
		return false;
	if (len > offsetof(struct sockaddr_un, sun_path))
		doorbell_new(fd, uid, un, len);
	else
		pending_new(fd, uid);
	return true;
}

static struct sr_link *accept_request(struct sr_request *req, void *owner,
			      void (*notify)(struct sr_link *, unsigned),
			      const char **reason)
{
	struct pending *p = (struct pending *)req;
	struct sockaddr_storage ours, theirs;
	struct sr_shm *l;
	int err;

	*reason = "no-match";
	sr_name_addresses(&req->name, &theirs, &ours);
	if (!sr_owner_is_here(req->anchor, &ours, &theirs))
		goto refuse;
	*reason = "memory";
	l = sr_shm_new(SR_ROLE_ANSWERER, req->name.link_no, owner, notify);
	if (!l)
		goto refuse;
	if (sr_shm_map(l, p->memory, &p->plan))
		goto put;
	l->doorbell = p->doorbell;
	p->doorbell = -1;
	say(p->watch.fd, "ok");
	sr_loop_unwatch(&p->watch);
	err = sr_shm_start(l, p->watch.fd);
	p->watch.fd = -1;
	pending_free(p);
	if (err) {
		sr_link_put(&l->link);
		return NULL;
	}
	sr_link_get(&l->link);
	sr_loop_post(&l->up);
	return &l->link;
put:
	sr_link_put(&l->link);
refuse:
	refuse_request(req, *reason);
	return NULL;
}

static void forget(void)
{
	pendings = NULL;
	pending_count = strangers = 0;
	sr_shm_ring_forget();
}

static const char *usable(void)
{
	return NULL;
}

const struct sr_rendezvous sr_rendezvous_shm = {
	.name = "shm",
	.usable = usable,
	.absent = sr_shm_absent,
	.ask = sr_shm_ask,
	.cancel = sr_shm_cancel,
	.listen = sr_shm_listen,
	.unlisten = sr_shm_unlisten,
	.accept = accept_request,
	.refuse = refuse_request,
	.forget = forget,
};
