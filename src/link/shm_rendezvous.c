/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shm_rendezvous.c - how two processes on one host come to share memory.  All
 * in the loop, nothing blocks, no locks.
 *
 * Who accepts connections on tcp4:127.0.0.1:80 listens on the abstract name
 * "\0sockrail-1/tcp4:127.0.0.1:80", or "*" for any address; the kernel keeps
 * such names apart by network namespace.  Where several processes accept on one
 * address, the second finds the name taken and adds "/1", the third "/2".  An
 * asker goes through them until one knows its connection:
 *
 *     asker     one packet: version, ring sizes, the connection's name;
 *               with it: memfd, the answerer's end of the bell
 *     answerer  one packet: "ok", or a word of reasons.def
 *
 * After "ok" the connection becomes the link's line (shm.c).
 *
 * Both check that the other is the same user or root.  Each attempt has a memfd
 * of its own: who refused one cannot look on.
 */
#include "base/real.h"

#include "link/shm.h"

#include <arpa/inet.h>
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

#include "base/addr.h"
#include "base/fdpriv.h"
#include "base/log.h"
#include "base/report.h"

#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020 /* of <linux/fcntl.h> */
#endif
#define REQUEST_MS 3000 /* longer than an asker waits */
#define REST_MS 100
#define FULL_MS 10
#define BACKLOG 64
#define PENDING_MAX 1024 /* requests of a process waiting at one time */

static int descriptor(int fd)
{
	return fd < 0 ? -errno : fd;
}

void sr_shm_close_fds(int fd[SR_SHM_FDS])
{
	int i;

	for (i = 0; i < SR_SHM_FDS; i++) {
		if (fd[i] >= 0)
			sr_fd_close(fd[i]);
		fd[i] = -1;
	}
}

/* ---- names ---- */

/* "tcp4:*:80" and such; any: the wildcard in place of the address. */
int sr_shm_word(char *buf, size_t size, const struct sockaddr *sa, bool any,
		bool as_v6)
{
	char text[INET6_ADDRSTRLEN] = "*";
	struct sockaddr_storage plain;
	const void *addr;
	int family;
	size_t len;

	sr_addr_plain(&plain, sa);
	addr = sr_addr_bytes(&plain, &len);
	family = plain.ss_family;
	if (family != AF_INET && family != AF_INET6)
		return -EAFNOSUPPORT;
	if (!any && !sr_addr_is_any(&plain) &&
	    !inet_ntop(family, addr, text, sizeof(text)))
		return -errno;
	if (as_v6)
		family = AF_INET6;
	return sr_format(buf, size, "sockrail-%d/tcp%d:%s:%u", SR_WIRE_VERSION,
			 family == AF_INET ? 4 : 6, text, sr_addr_port(sa));
}

socklen_t sr_shm_unix_name(struct sockaddr_un *un, const char *word, unsigned i)
{
	int n;

	*un = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (i)
		n = sr_format(un->sun_path + 1, sizeof(un->sun_path) - 1,
			      "%s/%u", word, i);
	else
		n = sr_format(un->sun_path + 1, sizeof(un->sun_path) - 1, "%s",
			      word);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)n);
}

int sr_shm_unix_socket(void)
{
	return descriptor(sr_fd_own(sr_real.socket(
		AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
}

bool sr_shm_peer_uid(int fd, uint32_t *uid)
{
	struct ucred cred = {.uid = (uid_t)-1};
	socklen_t len = sizeof(cred);

	if (sr_real.getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return false;
	*uid = cred.uid;
	return true;
}

bool sr_shm_may_share(uint32_t uid)
{
	uint32_t own = geteuid();

	return uid == own || uid == 0 || own == 0;
}

/* ---- answering ---- */

struct listener {
	struct sr_watch watch;
	struct sr_timer timer;
	uint32_t uid; /* ours when we began: what askers see */
};

struct pending {
	struct sr_request req; /* first; the stream floor's while `known` */
	struct sr_watch watch; /* the connection */
	struct sr_timer timer;
	struct sr_shm_plan plan;
	int fd[SR_SHM_FDS];
	uint32_t uid[2];
	bool known;
};

static unsigned pendings;

static void pending_free(struct pending *p)
{
	sr_timer_cancel(&p->timer);
	if (p->watch.fd >= 0) {
		sr_loop_unwatch(&p->watch);
		sr_fd_close(p->watch.fd);
	}
	sr_shm_close_fds(p->fd);
	free(p);
	pendings--;
}

static void pending_gone(struct pending *p)
{
	if (p->known && sr_link_gone)
		sr_link_gone(&p->req);
	pending_free(p);
}

static void pending_due(struct sr_timer *t)
{
	pending_gone((struct pending *)((char *)t -
					offsetof(struct pending, timer)));
}

static int option(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	sr_real.getsockopt(fd, SOL_SOCKET, name, &value, &len);
	return value;
}

/* A socket as we make them: what it carries wakes us, and nothing else. */
static bool is_bell(int fd)
{
	return option(fd, SO_DOMAIN) == AF_UNIX &&
	       option(fd, SO_TYPE) == SOCK_STREAM;
}

/* Memory that nobody can shrink beneath us, of the size it should have, and
 * that does not need huge pages which may be lacking.  The kernel may have sealed its
 * mode, too (sysctl vm.memfd_noexec), which is nothing to us. */
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
	if (o->version != SR_WIRE_VERSION || o->zero || o->first > o->max ||
	    o->max > 30)
		return false;
	if (sr_shm_plan(&p->plan, (size_t)1 << o->first, (size_t)1 << o->max))
		return false;
	if (sr_name_decode(&p->req.name, o->name, sizeof(o->name)))
		return false;
	return is_memory(p->fd[SR_SHM_FD_MEM], &p->plan) &&
	       is_bell(p->fd[SR_SHM_FD_BELL]);
}

/* All descriptors that came become ours, or are closed. */
static void take_fds(struct pending *p, struct msghdr *msg)
{
	struct cmsghdr *c;
	unsigned have = 0;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t i, n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		int fd;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int),
			       sizeof(int));
			fd = sr_fd_own(fd);
			if (have < SR_SHM_FDS)
				p->fd[have++] = fd;
			else
				sr_fd_close(fd);
		}
	}
}

static ssize_t receive_offer(struct pending *p, struct sr_shm_offer *offer)
{
	struct iovec v = {offer, sizeof(*offer)};
	union {
		char buf[CMSG_SPACE(SR_SHM_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr msg = {
		.msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	ssize_t n;

	sr_fd_making();
	n = sr_real.recvmsg(p->watch.fd, &msg,
			    MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		n = -errno;
	else
		take_fds(p, &msg);
	sr_fd_made(-1);
	if (n < 0)
		return n;
	if (msg.msg_flags & MSG_CTRUNC)
		return -EMFILE;
	return msg.msg_flags & MSG_TRUNC ? -EPROTO : n;
}

static void say(int fd, const char *word)
{
	(void)!sr_real.send(fd, word, strlen(word),
			    MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_word(struct pending *p, const char *word)
{
	say(p->watch.fd, word);
}

static void pending_readable(struct sr_watch *w, uint32_t events)
{
	struct pending *p =
		(struct pending *)((char *)w - offsetof(struct pending, watch));
	struct sr_shm_offer offer;
	ssize_t n;

	(void)events;
	if (p->known) { /* it has nothing more to say but goodbye */
		pending_gone(p);
		return;
	}
	n = receive_offer(p, &offer);
	if (n == -EAGAIN || n == -EINTR)
		return;
	if (n == -EMFILE) {
		send_word(p, "descriptors");
		pending_free(p);
		return;
	}
	if (n != sizeof(offer) || !offer_fits(p, &offer)) {
		if (n > 0)
			send_word(p, "protocol");
		pending_free(p);
		return;
	}
	if (!sr_link_request) {
		sr_shm_refuse(&p->req, "no-match");
		return;
	}
	p->known = true;
	sr_link_request(&p->req);
}

static void pending_new(struct listener *listener, int fd)
{
	struct pending *p = NULL;
	uint32_t uid;

	if (!sr_fd_room(SR_SHM_FDS))
		say(fd, "descriptors");	/* before it hands us some */
	else if (sr_shm_peer_uid(fd, &uid) && sr_shm_may_share(uid))
		p = calloc(1, sizeof(*p));
	if (!p)
		goto close;
	p->req.ops = &sr_link_shm;
	p->watch = (struct sr_watch){.fd = fd, .fn = pending_readable};
	p->timer.fn = pending_due;
	p->fd[SR_SHM_FD_MEM] = p->fd[SR_SHM_FD_BELL] = -1;
	p->uid[0] = uid;
	p->uid[1] = listener->uid;
	if (sr_loop_watch(&p->watch, EPOLLIN)) {
		free(p);
		goto close;
	}
	sr_timer_set(&p->timer, REQUEST_MS);
	pendings++;
	return;
close:
	sr_fd_close(fd);
}

static void rested(struct sr_timer *t)
{
	struct listener *listener =
		(struct listener *)((char *)t -
				    offsetof(struct listener, timer));

	sr_loop_watch(&listener->watch, EPOLLIN);
}

/* No descriptor or no room for who asks: it stays readable, and would keep the loop
 * busy.  Askers wait in the backlog, or outside, in their time. */
static void rest(struct listener *listener, unsigned ms)
{
	sr_loop_unwatch(&listener->watch);
	listener->timer.fn = rested;
	sr_timer_set(&listener->timer, ms);
}

static void listener_readable(struct sr_watch *w, uint32_t events)
{
	struct listener *listener =
		(struct listener *)((char *)w -
				    offsetof(struct listener, watch));
	int i, fd;

	(void)events;
	for (i = 0; i < BACKLOG; i++) {
		if (pendings >= PENDING_MAX) {
			rest(listener, FULL_MS);
			return;
		}
		fd = sr_fd_own(sr_real.accept4(w->fd, NULL, NULL,
					       SOCK_CLOEXEC | SOCK_NONBLOCK));
		if (fd < 0 && (errno == EMFILE || errno == ENFILE))
			rest(listener, REST_MS);
		if (fd < 0)
			return;
		pending_new(listener, fd);
	}
}

static int bind_name(int fd, const char *word)
{
	struct sockaddr_un un;
	socklen_t len;
	unsigned i;

	for (i = 0; i < SR_SHM_PROCESSES; i++) {
		len = sr_shm_unix_name(&un, word, i);
		if (!bind(fd, (struct sockaddr *)&un, len))
			return 0;
		if (errno != EADDRINUSE)
			break;
	}
	return -errno;
}

int sr_shm_listen(const struct sockaddr *addr, void **out)
{
	struct listener *listener;
	char word[100];
	int fd, err;

	err = sr_shm_word(word, sizeof(word), addr, false, false);
	if (err < 0)
		return err;
	fd = sr_shm_unix_socket();
	if (fd < 0)
		return fd;
	err = bind_name(fd, word);
	if (err) {
		sr_tell("shm: nobody can ask at %s: %s", word,
			sr_errno_name(-err));
		goto close;
	}
	err = -ENOMEM;
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		goto close;
	listener->uid = geteuid();
	listener->watch = (struct sr_watch){.fd = fd, .fn = listener_readable};
	err = sr_real.listen(fd, BACKLOG) ? -errno : 0;
	if (!err)
		err = sr_loop_watch(&listener->watch, EPOLLIN);
	if (err)
		goto free;
	*out = listener;
	return 0;
free:
	free(listener);
close:
	sr_fd_close(fd);
	return err;
}

void sr_shm_unlisten(void *handle)
{
	struct listener *listener = handle;

	sr_timer_cancel(&listener->timer);
	sr_loop_unwatch(&listener->watch);
	sr_fd_close(listener->watch.fd);
	free(listener);
}

void sr_shm_refuse(struct sr_request *req, const char *reason)
{
	struct pending *p = (struct pending *)req;

	send_word(p, reason);
	pending_free(p);
}

struct sr_link *sr_shm_accept(struct sr_request *req, void *owner,
			      void (*notify)(struct sr_link *, unsigned),
			      const char **reason)
{
	struct pending *p = (struct pending *)req;
	struct sr_shm *l;
	struct stat st;
	int err;

	*reason = "memory";
	l = sr_shm_new(SR_ROLE_ANSWERER, req->name.link_no, owner, notify);
	if (!l)
		goto refuse;
	memcpy(l->uid, p->uid, sizeof(l->uid));
	if (fstat(p->fd[SR_SHM_FD_MEM], &st) ||
	    sr_shm_map(l, p->fd[SR_SHM_FD_MEM], &p->plan))
		goto put;
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	l->bell = p->fd[SR_SHM_FD_BELL];
	p->fd[SR_SHM_FD_BELL] = -1;
	send_word(p, "ok");
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
	sr_shm_refuse(req, *reason);
	return NULL;
}

void sr_shm_forget(void)
{
	pendings = 0;
	sr_shm_ring_forget();
}
