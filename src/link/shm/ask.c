/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ask.c - the asking side of the rendezvous (rendezvous.c): goes through the
 * names that the accepting process may have, offers a link, waits for the
 * answer.  It owns requests until they are answered.  Service thread only, no
 * locks.
 */
#include "base/real.h"

#include "link/shm/shm.h"

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
#include "base/owner.h"
#include "base/report.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U	/* of <linux/memfd.h>; implies MFD_ALLOW_SEALING */
#endif

#define ANSWER_MS 2000
#define EARLY_MS 5 /* before another try, if nobody has accepted the connection */
/* Tries no longer than that: with TCP_DEFER_ACCEPT nobody accepts it before the program
 * sends, for which policy wait waits. */
#define EARLY_MOST_MS 40
#define ASK_FDS 4 /* descriptors in use at most: line, doorbell, memory, and a copy */

struct asking {
	struct sr_ask *ask;
	struct sr_timer timer; /* first the start, then the deadline */
	struct sr_watch watch; /* the line; fd -1: none */
	int doorbell;	       /* until the link has it; -1: none */
	struct sr_shm *link;   /* that was offered */
	uint32_t uid;	       /* of the answerer */
	int found;	       /* result of sr_owner_of_peer() */
	struct sr_shm_plan plan;
	unsigned attempt; /* the next name */
	char there[SR_THERE_LEN]; /* "": by the address; else where we were sent */
	unsigned redirects;
	struct sockaddr_un name; /* that the line is connected to */
	socklen_t name_len;
	uint64_t deadline_ns, early_ns;
	char word[32]; /* the answerer's last one */
	const char *reason; /* the most informative one so far */
};

#define ATTEMPTS 3 /* exact address, any IPv4, any IPv6 */

static void hang_up(struct asking *a)
{
	if (a->watch.fd >= 0) {
		sr_loop_unwatch(&a->watch);
		sr_fd_close(a->watch.fd);
		a->watch.fd = -1;
	}
	if (a->doorbell >= 0)
		sr_fd_close(a->doorbell);
	if (a->link)
		sr_link_put(&a->link->link);
	a->doorbell = -1;
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
	sr_shm_look(&l->link); /* looks for what came before UP */
}

/* Makes the name of an attempt.  Returns 0 or -errno. */
static int name_of(unsigned attempt, const struct sockaddr *to,
		   struct sockaddr_un *un, socklen_t *len)
{
	char word[100];
	int r = sr_local_word(word, sizeof(word), to, attempt > 0, attempt > 1);

	if (r < 0)
		return r;
	*len = sr_local_name(un, word, "");
	return 0;
}

/* Makes a socket with a name by which the answerer recognises it. */
static int make_doorbell(struct asking *a, uint8_t name[SR_SHM_DOORBELL_LEN])
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(un.sun_family);

	a->doorbell = sr_local_socket();
	if (a->doorbell < 0)
		return a->doorbell;
	if (bind(a->doorbell, (struct sockaddr *)&un, len))
		return -errno;
	len = sizeof(un);
	if (getsockname(a->doorbell, (struct sockaddr *)&un, &len))
		return -errno;
	sr_shm_doorbell_name(name, &un, len);
	return 0;
}

/* Reads the answerer's word, "" if there is none any more.  False: none yet.  If the
 * answerer hung up before it read what we had sent, recv() returns that error
 * before the word. */
static bool read_word(struct asking *a, int sock)
{
	ssize_t n = sr_real.recv(sock, a->word, sizeof(a->word) - 1, MSG_DONTWAIT);

	if (n < 0 && errno == ECONNRESET)
		n = sr_real.recv(sock, a->word, sizeof(a->word) - 1, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	a->word[n > 0 ? n : 0] = '\0';
	return true;
}

/* The reason that the word is; NULL if it is none. */
static const char *reason_in(struct asking *a)
{
	return sr_reason_word(sr_reason_find(a->word));
}

/* Is the word "there", and a place that may be one?  Notes it. */
static bool sent_there(struct asking *a)
{
	const char *place = a->word + sizeof(SR_THERE);

	if (strncmp(a->word, SR_THERE " ", sizeof(SR_THERE)) ||
	    strlen(place) >= sizeof(a->there) ||
	    place[strspn(place, "0123456789abcdef")])
		return false;
	strcpy(a->there, place);
	return true;
}

/* Returns NULL, or a reason. */
static const char *send_offer(struct asking *a, int line)
{
	const struct sr_policy *policy = a->ask->policy ?: &sr_conf.policy;
	struct sr_shm_plan *plan = &a->plan;
	struct sr_shm_offer offer = {.version = SR_WIRE_VERSION};
	int err;

	if (sr_shm_plan(plan, policy->ring_first, policy->ring_max))
		return "off";
	offer.first = (uint8_t)__builtin_ctzll(plan->size[0]);
	offer.max = (uint8_t)__builtin_ctzll(plan->size[plan->areas - 1]);
	sr_name_encode(&a->ask->name, offer.name);
	err = make_doorbell(a, offer.doorbell);
	if (err)
		return err == -EMFILE ? "descriptors" : "memory";
	if (sr_now_send(line, &offer, sizeof(offer)) == sizeof(offer))
		return NULL;
	/* The answerer has hung up already, and may have said why. */
	a->word[0] = '\0';
	read_word(a, line);
	return reason_in(a) ?: "refused";
}

/* The memory must not be executable.  Kernels from 6.3 on have a flag for that,
 * and may require it (vm.memfd_noexec). */
static int make_memory(size_t size)
{
	int err, fd = sr_fd_own(memfd_create(
			"sockrail", MFD_CLOEXEC | MFD_NOEXEC_SEAL));

	if (fd < 0 && errno == EINVAL)
		fd = sr_fd_own(memfd_create(
			"sockrail", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)size) &&
	    !sr_real.fcntl(fd, F_ADD_SEALS, SR_SHM_SEALS))
		return fd;
	err = -errno;
	sr_fd_close(fd);
	return err;
}

static int send_memory(int line, int memfd)
{
	char word[] = SR_SHM_MEMORY;
	struct iovec v = {word, sizeof(word) - 1};
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr msg = {
		.msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &memfd, sizeof(memfd));
	if (sr_real.sendmsg(line, &msg, MSG_NOSIGNAL) < 0)
		return -errno;
	return 0;
}

/* Connects to the name that the line was connected to. */
static int connect_doorbell(struct asking *a)
{
	uint32_t uid;
	int err = 0;

	if (sr_real.connect(a->doorbell, (struct sockaddr *)&a->name, a->name_len))
		err = -errno;
	if (!err && (!sr_local_peer_uid(a->doorbell, &uid) || uid != a->uid ||
		     !sr_local_hears(a->doorbell, uid)))
		err = -EPERM;
	return err;
}

/* Makes a new link on a new memfd.  Returns NULL, or a reason. */
static const char *hand_over(struct asking *a)
{
	const char *reason = "memory";
	struct sr_shm *l;
	int memfd;

	l = a->link = sr_shm_new(SR_ROLE_ASKER, a->ask->name.link_no,
				 a->ask->owner, a->ask->notify);
	if (!l)
		return "memory";
	memfd = make_memory(a->plan.total);
	if (memfd < 0)
		return memfd == -EMFILE ? "descriptors" : "memory";
	if (!sr_shm_map(l, memfd, &a->plan))
		reason = connect_doorbell(a) || send_memory(a->watch.fd, memfd) ?
				 "refused" : NULL;
	sr_fd_close(memfd);
	l->doorbell = a->doorbell;
	a->doorbell = -1;
	return reason;
}

static void next_name(struct asking *a);

static void answered(struct sr_watch *w, uint32_t events)
{
	struct asking *a =
		(struct asking *)((char *)w - offsetof(struct asking, watch));
	const char *reason = NULL;

	(void)events;
	if (!read_word(a, w->fd))
		return;
	if (!strcmp(a->word, "ok") && a->link) {
		finish(a, NULL);
		return;
	}
	if (!strcmp(a->word, SR_SHM_GO) && !a->link) {
		reason = hand_over(a);
		if (!reason)
			return;
		if (!strcmp(reason, "refused"))	/* and the answerer has sent why */
			read_word(a, w->fd);
	}
	hang_up(a);
	if (sent_there(a)) {
		next_name(a);
		return;
	}
	a->there[0] = '\0';
	/* A keeper that has ended without a word is followed by another one, which is
	 * asked later. */
	a->reason = reason_in(a) ?: reason ?: a->word[0] ? "refused" : "no-match";
	/* Another process may listen at an address that is less exact. */
	if (strcmp(a->reason, "no-match") != 0 && strcmp(a->reason, "fork") != 0) {
		finish(a, a->reason);
		return;
	}
	next_name(a);
}

/* A process that listens at a name of the peer's address may answer if it is
 * root's, or belongs to the user to whom the kernel delivers the bytes: the
 * owner of the TCP socket at the other end.  Until that socket is accepted, the
 * listening socket's owner counts, as that user can accept it; but another user
 * may come to own it. */
static bool may_answer(struct asking *a, uint32_t uid)
{
	uint32_t owner;

	if (uid == 0)
		return true;
	a->found = sr_owner_of_peer(&a->ask->src, &a->ask->dst, &owner);
	return a->found >= 0 && uid == owner;
}

/* Returns true if the caller must try the next name. */
static bool connected(struct asking *a, int sock)
{
	const char *reason = "user";

	if (sr_local_peer_uid(sock, &a->uid) && sr_local_hears(sock, a->uid) &&
	    may_answer(a, a->uid))
		reason = send_offer(a, sock);
	if (!reason) {
		a->watch = (struct sr_watch){.fd = sock, .fn = answered};
		if (!sr_loop_watch(&a->watch, EPOLLIN))
			return false;
		a->watch.fd = -1;
		reason = "memory";
	}
	hang_up(a);
	sr_fd_close(sock);
	a->reason = reason;
	return true;
}

static void wait_for_answer(struct asking *a)
{
	uint64_t now = sr_now_ns();
	uint64_t left = a->deadline_ns > now ? a->deadline_ns - now : 0;

	sr_timer_set(&a->timer, (unsigned)(left / 1000000) + 1);
}

bool sr_shm_absent(const struct sockaddr *to)
{
	struct sockaddr_un un;
	socklen_t len;
	unsigned i;
	bool refused;
	int sock;

	sock = sr_real.socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC |
					       SOCK_NONBLOCK, 0);
	refused = sock >= 0;
	if (refused)
		sr_local_shield(sock);
	for (i = 0; i < ATTEMPTS && refused; i++)
		refused = !name_of(i, to, &un, &len) &&
			  sr_now_connect(sock, (struct sockaddr *)&un, len) &&
			  errno == ECONNREFUSED;
	if (sock >= 0)
		sr_now_close(sock);
	return refused;
}

/*
 * The keeper has sent us to a worker.  If that has ended meanwhile, the keeper, or
 * another one after it, is asked again.
 */
static void go_there(struct asking *a)
{
	int sock = sr_local_socket();

	a->name_len = sr_local_name(&a->name, SR_SHM_THERE, a->there);
	if (sock >= 0 && a->redirects++ < SR_THERE_MOST &&
	    !sr_real.connect(sock, (struct sockaddr *)&a->name, a->name_len)) {
		if (!connected(a, sock))
			wait_for_answer(a);
		else
			finish(a, a->reason);
		return;
	}
	if (sock >= 0)
		sr_fd_close(sock);
	a->there[0] = '\0';
	a->reason = "no-match";
	if (a->redirects >= SR_THERE_MOST) {
		finish(a, a->reason);
		return;
	}
	a->attempt = 0;
	sr_timer_set(&a->timer, EARLY_MS);
}

/* Tries names from a->attempt on, until a process answers or none is left. */
static void next_name(struct asking *a)
{
	const struct sockaddr *dst = (const struct sockaddr *)&a->ask->dst;
	int sock = -1;

	if (a->there[0]) {
		go_there(a);
		return;
	}
	for (; a->attempt < ATTEMPTS; a->attempt++) {
		if (name_of(a->attempt, dst, &a->name, &a->name_len))
			break;
		if (sock < 0)
			sock = sr_local_socket();
		if (sock < 0) {
			a->reason = sock == -EMFILE ? "descriptors" : "memory";
			break;
		}
		if (sr_real.connect(sock, (struct sockaddr *)&a->name, a->name_len)) {
			/* The backlog is full.  We do not wait for room: the
			 * process with this name may never accept anybody. */
			if (errno == EAGAIN)
				a->reason = "refused";
			continue;
		}
		if (!connected(a, sock)) {
			a->attempt++;
			wait_for_answer(a);
			return;
		}
		sock = -1;
	}
	if (sock >= 0)
		sr_fd_close(sock);
	/* One of the users who listen may be about to accept the connection. */
	if (a->found > 0 && !strcmp(a->reason, "user")) {
		if (sr_now_ns() < a->early_ns) {
			a->attempt = 0;
			sr_timer_set(&a->timer, EARLY_MS);
			return;
		}
		a->reason = "no-match";
	}
	finish(a, a->reason);
}

static void due(struct sr_timer *t)
{
	struct asking *a =
		(struct asking *)((char *)t - offsetof(struct asking, timer));
	bool first = !a->deadline_ns;

	if (first) {
		a->deadline_ns = sr_now_ns() + ANSWER_MS * UINT64_C(1000000);
		a->early_ns = sr_now_ns() + EARLY_MOST_MS * UINT64_C(1000000);
		/* (If there is no socket for this, asking finds it out, too.) */
		if (!sr_addr_is_local(&a->ask->dst)) {
			finish(a, "no-listener");
			return;
		}
		if (!sr_fd_room(ASK_FDS)) {
			finish(a, "descriptors");
			return;
		}
		if (!sr_owner_is_here(a->ask->anchor, &a->ask->src, &a->ask->dst)) {
			finish(a, "no-match");
			return;
		}
	} else if (sr_now_ns() >= a->deadline_ns) {
		finish(a, "timeout");
		return;
	} else if (a->watch.fd >= 0) {
		wait_for_answer(a);
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
	a->watch.fd = a->doorbell = -1;
	a->reason = "no-listener";
	a->timer.fn = due;
	ask->kind = a;
	sr_timer_set(&a->timer, 0); /* so that done() is never called from here */
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
