/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shm_ask.c - the asking side of shm_rendezvous.c: goes through the names that
 * the accepting process may have, offers a link, waits for the answer.  All in
 * the loop, no locks.
 */
#include "base/real.h"

#include "link/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/conf.h"
#include "base/fdpriv.h"
#include "base/now.h"
#include "base/report.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U	/* of <linux/memfd.h>; implies MFD_ALLOW_SEALING */
#endif

#define ANSWER_MS 2000
#define ASK_FDS 4 /* at most, while it is asked */
#define BUSY_MS 10 /* their backlog is full: again after this */

struct asking {
	struct sr_ask *ask;
	struct sr_timer timer; /* first the start, then the deadline */
	struct sr_watch watch; /* fd -1: no connection */
	struct sr_shm *link;   /* offered */
	unsigned attempt; /* the next name: word * SR_SHM_PROCESSES + number */
	uint64_t deadline_ns;
	const char *reason; /* the best one so far */
};

#define WORDS 3 /* exact, any IPv4, any IPv6 */
#define ATTEMPTS (WORDS * SR_SHM_PROCESSES)

static void hang_up(struct asking *a)
{
	if (a->watch.fd >= 0) {
		sr_loop_unwatch(&a->watch);
		sr_fd_close(a->watch.fd);
		a->watch.fd = -1;
	}
	if (a->link)
		sr_link_put(&a->link->link);
	a->link = NULL;
}

static void finish(struct asking *a, const char *reason)
{
	struct sr_ask *ask = a->ask;
	struct sr_shm *l = NULL;

	if (!reason) {
		sr_loop_unwatch(&a->watch);
		if (sr_shm_start(a->link, a->watch.fd)) {
			reason = "memory";
		} else {
			l = a->link;
			a->link = NULL;
		}
		a->watch.fd = -1;
	}
	hang_up(a);
	sr_timer_cancel(&a->timer);
	ask->kind = NULL;
	free(a);
	if (!l) {
		ask->done(ask, NULL, reason);
		return;
	}
	sr_link_raise(&l->link, SR_LINK_UP);
	ask->done(ask, &l->link, NULL);
	sr_shm_look(l); /* what came before we were up */
}

/* Not to be executed, where the kernel (6.3) knows of that: it may want to be told. */
static int make_memory(void)
{
	int fd = sr_real.memfd_create("sockrail", MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = sr_real.memfd_create("sockrail", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return sr_fd_own(fd);
}

/* The peer's to fd, our end of the bell to *bell. */
static int make_fds(int fd[SR_SHM_FDS], int *bell,
		    const struct sr_shm_plan *plan)
{
	int pair[2] = {-1, -1};

	fd[SR_SHM_FD_MEM] = make_memory();
	sr_fd_making();
	sr_fd_making();
	sr_real.socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
	*bell = sr_fd_made(pair[0]);
	fd[SR_SHM_FD_BELL] = sr_fd_made(pair[1]);
	if (fd[SR_SHM_FD_MEM] < 0 || *bell < 0 || fd[SR_SHM_FD_BELL] < 0)
		return -EMFILE;
	if (ftruncate(fd[SR_SHM_FD_MEM], (off_t)plan->total) ||
	    sr_real.fcntl(fd[SR_SHM_FD_MEM], F_ADD_SEALS, SR_SHM_SEALS))
		return -errno;
	return 0;
}

static int note_inode(struct sr_shm *l, int memfd)
{
	struct stat st;

	if (fstat(memfd, &st))
		return -errno;
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	return 0;
}

static int send_offer(int sock, const struct sr_ask *ask,
		      const struct sr_shm_plan *plan, const int fd[SR_SHM_FDS])
{
	struct sr_shm_offer offer = {
		.version = SR_WIRE_VERSION,
		.first = (uint8_t)__builtin_ctzll(plan->size[0]),
		.max = (uint8_t)__builtin_ctzll(plan->size[plan->areas - 1]),
	};
	struct iovec v = {&offer, sizeof(offer)};
	union {
		char buf[CMSG_SPACE(SR_SHM_FDS * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr msg = {
		.msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	sr_name_encode(&ask->name, offer.name);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(SR_SHM_FDS * sizeof(int));
	memcpy(CMSG_DATA(c), fd, SR_SHM_FDS * sizeof(int));
	if (sr_real.sendmsg(sock, &msg, MSG_NOSIGNAL) < 0)
		return -errno;
	return 0;
}

/* What the answerer has said: "ok" or a reason; NULL: nothing yet.  It may have hung up
 * before it had read our offer: that error comes before its word. */
static const char *read_word(int sock)
{
	char word[32] = "";
	ssize_t n = sr_real.recv(sock, word, sizeof(word) - 1, MSG_DONTWAIT);

	if (n < 0 && errno == ECONNRESET)
		n = sr_real.recv(sock, word, sizeof(word) - 1, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return NULL;
	if (n > 0 && !strcmp(word, "ok"))
		return "ok";
	return (n > 0 ? sr_reason_word(sr_reason_find(word)) : NULL) ?: "refused";
}

/* A fresh link over a fresh memfd, offered on sock.  NULL, or a reason. */
static const char *offer_link(struct asking *a, int sock, uint32_t uid)
{
	int fd[SR_SHM_FDS] = {-1, -1};
	struct sr_shm_plan plan;
	const char *reason = "memory";
	struct sr_shm *l;
	int err;

	if (sr_shm_plan(&plan, sr_conf.ring_first, sr_conf.ring_max))
		return "off";
	l = sr_shm_new(SR_ROLE_ASKER, a->ask->name.link_no, a->ask->owner,
		       a->ask->notify);
	if (!l)
		return "memory";
	l->uid[0] = geteuid();
	l->uid[1] = uid;
	err = make_fds(fd, &l->bell, &plan);
	if (err == -EMFILE)
		reason = "descriptors";
	if (err || note_inode(l, fd[SR_SHM_FD_MEM]) ||
	    sr_shm_map(l, fd[SR_SHM_FD_MEM], &plan))
		goto fail;
	if (send_offer(sock, a->ask, &plan, fd)) {
		reason = read_word(sock) ?: "refused";
		goto fail;
	}
	sr_shm_close_fds(fd);
	a->link = l;
	return NULL;
fail:
	sr_shm_close_fds(fd);
	sr_link_put(&l->link);
	return reason;
}

static void next_name(struct asking *a);

static void answered(struct sr_watch *w, uint32_t events)
{
	struct asking *a =
		(struct asking *)((char *)w - offsetof(struct asking, watch));
	const char *word = read_word(w->fd);

	(void)events;
	if (!word)
		return;
	if (!strcmp(word, "ok")) {
		finish(a, NULL);
		return;
	}
	a->reason = word;
	hang_up(a);
	/* Another of the server's processes may have it. */
	if (strcmp(a->reason, "no-match") && strcmp(a->reason, "fork")) {
		finish(a, a->reason);
		return;
	}
	next_name(a);
}

/* True: try the next name. */
static bool connected(struct asking *a, int sock)
{
	const char *reason;
	uint32_t uid;

	if (!sr_shm_peer_uid(sock, &uid) || !sr_shm_may_share(uid)) {
		sr_fd_close(sock);
		a->reason = "user";
		return true;
	}
	reason = offer_link(a, sock, uid);
	if (!reason) {
		a->watch = (struct sr_watch){.fd = sock, .fn = answered};
		if (!sr_loop_watch(&a->watch, EPOLLIN))
			return false;
		a->watch.fd = -1;
		hang_up(a);
		reason = "memory";
	}
	sr_fd_close(sock);
	a->reason = reason;
	return true;
}

static void wait_ms(struct asking *a, unsigned ms)
{
	uint64_t now = sr_now_ns();
	uint64_t left = a->deadline_ns > now ? a->deadline_ns - now : 0;

	if (!ms || left / 1000000 < ms)
		ms = (unsigned)(left / 1000000) + 1;
	sr_timer_set(&a->timer, ms);
}

/* The attempt's name.  0 or -errno. */
static int name_of(unsigned attempt, const struct sockaddr *to,
		   struct sockaddr_un *un, socklen_t *len)
{
	unsigned kind = attempt / SR_SHM_PROCESSES;
	char word[100];
	int r = sr_shm_word(word, sizeof(word), to, kind > 0, kind > 1);

	if (r < 0)
		return r;
	*len = sr_shm_unix_name(un, word, attempt % SR_SHM_PROCESSES);
	return 0;
}

bool sr_shm_absent(const struct sockaddr *to)
{
	struct sockaddr_un un;
	socklen_t len;
	unsigned i;
	bool refused;
	int sock;

	/* As in sr_addr_is_local(). */
	sr_fd_making();
	sock = sr_real.socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC |
					       SOCK_NONBLOCK, 0);
	refused = sock >= 0;
	for (i = 0; i < ATTEMPTS && refused; i++)
		refused = !name_of(i, to, &un, &len) &&
			  sr_now_connect(sock, (struct sockaddr *)&un, len) &&
			  errno == ECONNREFUSED;
	if (sock >= 0)
		sr_now_close(sock);
	sr_fd_made(-1);
	return refused;
}

/* Goes on from a->attempt to a process that answers, or to the end. */
static void next_name(struct asking *a)
{
	const struct sockaddr *dst = (const struct sockaddr *)&a->ask->dst;
	struct sockaddr_un un;
	socklen_t len;
	int sock = -1;

	for (; a->attempt < ATTEMPTS; a->attempt++) {
		if (name_of(a->attempt, dst, &un, &len))
			break;
		if (sock < 0)
			sock = sr_shm_unix_socket();
		if (sock < 0) {
			a->reason = sock == -EMFILE ? "descriptors" : "memory";
			break;
		}
		if (sr_real.connect(sock, (struct sockaddr *)&un, len)) {
			if (errno != EAGAIN)
				continue;
			sr_fd_close(sock);
			wait_ms(a, BUSY_MS);
			return;
		}
		if (!connected(a, sock)) {
			a->attempt++;
			wait_ms(a, 0);
			return;
		}
		sock = -1;
	}
	if (sock >= 0)
		sr_fd_close(sock);
	finish(a, a->reason);
}

static void due(struct sr_timer *t)
{
	struct asking *a =
		(struct asking *)((char *)t - offsetof(struct asking, timer));
	bool first = !a->deadline_ns;

	if (first) {
		a->deadline_ns = sr_now_ns() + ANSWER_MS * UINT64_C(1000000);
		/* (Without a socket asking is the other way to find out.) */
		if (!sr_addr_is_local(&a->ask->dst)) {
			finish(a, "no-listener");
			return;
		}
		if (!sr_fd_room(ASK_FDS)) {
			finish(a, "descriptors");
			return;
		}
	} else if (sr_now_ns() >= a->deadline_ns) {
		finish(a, "timeout");
		return;
	} else if (a->watch.fd >= 0) {
		wait_ms(a, 0);
		return;
	}
	next_name(a);
}

int sr_shm_ask(struct sr_ask *ask)
{
	struct asking *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->ask = ask;
	a->watch.fd = -1;
	a->reason = "no-listener";
	a->timer.fn = due;
	ask->kind = a;
	sr_timer_set(&a->timer, 0); /* done() is never called from here */
	return 0;
}

void sr_shm_cancel(struct sr_ask *ask)
{
	struct asking *a = ask->kind;

	if (!a)
		return;
	hang_up(a);
	sr_timer_cancel(&a->timer);
	ask->kind = NULL;
	free(a);
}
