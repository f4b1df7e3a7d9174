/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ask.c - the asking side of the rendezvous (rendezvous.c): tries the names
 * under which the accepting process may listen, offers a link, and waits for the
 * answer.  It owns requests until they are answered.  Service thread only, no
 * locks.
 */
#include "base/real.h"

#include "link/shm/dir.h"
#include "link/shm/shm.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/addr.h"
#include "base/closer.h"
#include "base/fdpriv.h"
#include "base/now.h"
#include "base/owner.h"
#include "base/report.h"

#define ANSWER_MS 2000 /* for each that is asked */
#define AGAIN_MS 5 /* before the address is asked again */
/* How long to ask again because no process has accepted the connection yet.  Not longer,
 * because with TCP_DEFER_ACCEPT the connection is accepted only after the client's first
 * bytes, and in policy wait these wait for us. */
#define EARLY_MS UINT64_C(40)
#define ASK_FDS 4 /* descriptors in use at most: line, doorbell, memory, and a copy */

struct asking {
	struct sr_ask *ask;
	struct sr_timer timer; /* to start, to ask again, to give up */
	struct sr_watch watch; /* the line; fd -1: none */
	struct sr_shm *link;   /* that is offered */
	unsigned attempt; /* the next name */
	bool stranger;	/* the process that is asked */
	enum sr_holds holds;
	/* Where to ask for a proof, in the directory; NULL: the kernel vouches, or not. */
	struct sr_dir_places *places;
	unsigned called; /* of them to which there was a line */
	bool early;	/* a user who listens may be about to accept the connection */
	uint64_t since_ns; /* 0: not yet */
	char word[sizeof(SR_THERE) + SR_THERE_LEN]; /* the answerer's last one */
	const char *reason; /* the most informative one so far */
};

/* Number of requests in progress.  Each of them may still get a doorbell, so the limit on
 * doorbells counts them. */
unsigned sr_shm_asking;

#define CALLED_MAX 8 /* processes of the directory that are asked for one stream */
#define ATTEMPTS 3 /* exact address, any IPv4, any IPv6 */

static void hang_up(struct asking *a)
{
	if (a->watch.fd < 0)
		return;
	sr_loop_unwatch(&a->watch);
	sr_local_close(a->watch.fd);
	a->watch.fd = -1;
}

static void ask_end(struct asking *a)
{
	hang_up(a);
	sr_timer_cancel(&a->timer);
	sr_shm_asking -= a->since_ns != 0;
	if (a->link)
		sr_link_put(&a->link->link);
	a->ask->kind = NULL;
	free(a->places);
	free(a);
}

static void asking_fail(struct asking *a, const char *reason)
{
	struct sr_ask *ask = a->ask;

	ask_end(a);
	ask->done(ask, NULL, reason);
}

/* The link has its memory and its doorbell, or will by the line. */
static void asking_succeed(struct asking *a)
{
	struct sr_ask *ask = a->ask;
	struct sr_shm *l = a->link;
	int line = a->watch.fd;

	sr_loop_unwatch(&a->watch);
	a->watch.fd = -1;
	if (sr_shm_start(l, line)) {
		asking_fail(a, "memory");
		return;
	}
	a->link = NULL;
	ask_end(a);
	ask->done(ask, &l->link, NULL);
}

/* Connects to the name of this attempt; or to the place that the word `there' names, if any.
 * 0, or -1 and errno. */
static int asking_call(int sock, const struct sockaddr *to, unsigned attempt, const char *there)
{
	char name[SR_THERE_NAME_LEN];
	struct sockaddr_un un;
	uint32_t user;
	int len = sr_there_shm(name, &user, there) ? (int)sr_local_there(&un, name) :
					       sr_local_name(&un, to, attempt, "");

	if (len < 0) {
		errno = -len;
		return -1;
	}
	return sr_now_connect(sock, (struct sockaddr *)&un, (socklen_t)len);
}

/* Connects to the next place of the directory, or to that to which we are sent. */
static int call_in_dir(int sock, struct asking *a)
{
	struct sr_dir_places *p = a->places;
	unsigned i = (p->first + a->attempt++) % (p->count ?: 1);
	char there[SR_THERE_NAME_LEN];
	uint32_t user;

	if (sr_there_shm(there, &user, a->ask->there))
		return sr_dir_call(sock, NULL, there);
	return sr_dir_call(sock, &a->ask->dst, p->place[i]);
}

static void give_up(struct asking *a, int fds[SR_SHM_FDS])
{
	for (int i = 0; i < SR_SHM_FDS; i++) {
		if (fds[i] >= 0 && a->stranger)
			sr_closer_close(fds[i]);
		else if (fds[i] >= 0)
			sr_fd_close(fds[i]);
		fds[i] = -1;
	}
}

/* Reads the answerer's word; "" if the answerer has hung up.  False: no word has come
 * yet.  A word that came with more descriptors than it may is taken as one without any. */
static bool read_word(struct asking *a, int line, int fds[SR_SHM_FDS])
{
	ssize_t n;

	memset(a->word, 0, sizeof(a->word));
	n = sr_local_recv_fds(line, a->word, sizeof(a->word) - 1, fds,
			      a->stranger ? 1 : SR_SHM_FDS);
	if (n < 0 && errno == EBADMSG)
		give_up(a, fds);
	return n >= 0 || (errno != EAGAIN && errno != EINTR);
}

/* The answerer's word, if it is one of reasons.def; else NULL. */
static const char *reason_in(struct asking *a)
{
	return sr_reason_word(sr_reason_find(a->word));
}

/* Returns NULL, or a reason. */
static const char *send_offer(struct asking *a, int line)
{
	const struct sr_shm_plan *plan = &a->link->plan;
	const struct sr_offer offer = {
		.first = (uint8_t)__builtin_ctzll(plan->size[0]),
		.max = (uint8_t)__builtin_ctzll(plan->size[plan->areas - 1]),
		.alone = a->stranger,
		.question = {.name = a->ask->name, .holds = a->holds},
	};
	uint8_t buf[SR_OFFER_LEN];
	int fds[SR_SHM_FDS];

	sr_offer_encode(&offer, buf);
	if (sr_now_send(line, buf, sizeof(buf)) == sizeof(buf))
		return NULL;
	/* The answerer has hung up already, and may have said why. */
	a->word[0] = '\0';
	if (read_word(a, line, fds))
		give_up(a, fds);
	return reason_in(a) ?: "refused";
}

/* (An answerer of another version may have made a pair of another type.) */
static bool is_stream(int fd)
{
	int type = 0;
	socklen_t len = sizeof(type);

	return !sr_sys_getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_STREAM;
}

/* Returns NULL, or a reason. */
static const char *take_over(struct asking *a, int fds[SR_SHM_FDS])
{
	struct sr_shm *l = a->link;
	const char *reason = sr_shm_take_memory(l, &fds[0]);

	if (reason)
		return reason;
	l->doorbell = sr_fd_own(fds[1]);
	fds[1] = -1;
	l->stranger = a->stranger;
	if (a->stranger)
		l->doorbell = a->watch.fd;
	else
		l->bell_streams = is_stream(l->doorbell);
	return l->doorbell < 0 ? "descriptors" : NULL;
}

/* The answerer has the stream, and both have to prove that.  Returns NULL, or a reason. */
static const char *begin_proof(struct asking *a)
{
	struct sr_shm *l = a->link;

	l->stranger = true;
	return sr_shm_map(l, -1) ? "memory" : sr_shm_by_line(l, a->watch.fd);
}

static void next_name(struct asking *a);

/* Is the word a first answer, after which the final one comes? */
static bool is_first_answer(struct asking *a)
{
	enum sr_first first = sr_first_find(a->word, a->holds);

	if (first == SR_FIRST_NONE)
		return false;
	a->holds = sr_first_holds(first);
	a->ask->told(a->ask, first);
	return true;
}

static void on_answer(struct sr_watch *w, uint32_t events)
{
	struct asking *a = SR_OF(struct asking, watch, w);
	char name[SR_THERE_NAME_LEN];
	enum sr_reason why;
	const char *reason;
	int fds[SR_SHM_FDS];
	uint32_t user;

	(void)events;
	if (!read_word(a, w->fd, fds))
		return;
	a->ask->heard |= a->word[0];
	if (is_first_answer(a)) {
		give_up(a, fds);
		return;
	}
	if (!strcmp(a->word, a->places ? "prove" : "ok")) {
		reason = a->places ? begin_proof(a) : take_over(a, fds);
		give_up(a, fds);
		if (reason)
			asking_fail(a, reason);
		else
			asking_succeed(a);
		return;
	}
	give_up(a, fds);
	hang_up(a);
	if (sr_there_shm(name, &user, a->word)) {
		strcpy(a->ask->there, a->word);
		asking_fail(a, SR_THERE);
		return;
	}
	/* If a keeper has ended without a word, another process takes its place, and is asked
	 * later. */
	a->reason = reason_in(a) ?: a->word[0] ? "refused" : "no-match";
	/* Another process may listen at the wildcard address. */
	why = sr_reason_find(a->reason);
	if (why == SR_REASON_NO_MATCH || why == SR_REASON_FORK)
		next_name(a);
	else
		asking_fail(a, a->reason);
}

/* Was the asker sent to a process of this user?  A process that may hold the peer's end has said
 * so, and is believed: the other process has become this user since (upgrade/claim.c). */
static bool is_sent_to(struct asking *a, uint32_t uid)
{
	char name[SR_THERE_NAME_LEN];
	uint32_t user;

	return sr_there_shm(name, &user, a->ask->there) && user == uid &&
	       sr_owner_is_user(uid);
}

/* May the process at the other end have the link?  1; 0; -EAGAIN: not yet. */
static int is_peer(struct asking *a, uint32_t uid)
{
	if (a->places || is_sent_to(a, uid))
		return 1;
	return sr_local_owns(uid, &a->ask->src, &a->ask->dst);
}

/* Returns true if the caller must try the next name. */
static bool asking_connected(struct asking *a, int sock)
{
	const char *reason = "user";
	uint32_t uid = sr_local_peer(sock);
	int owns = is_peer(a, uid);

	a->early |= owns == -EAGAIN;
	if (a->places)
		sr_fd_slow(sock);
	if (owns > 0) {
		a->stranger = a->places || !sr_local_trusts(uid);
		a->holds = a->ask->holds ? SR_HOLDS_FIRST : SR_HOLDS_NOT;
		reason = a->stranger && !sr_closer_free() ? "refused" :
							     send_offer(a, sock);
	}
	if (!reason) {
		a->watch = (struct sr_watch){.fd = sock, .fn = on_answer};
		if (!sr_loop_watch(&a->watch, EPOLLIN))
			return false;
		a->watch.fd = -1;
		reason = "memory";
	}
	sr_local_close(sock);
	a->reason = reason;
	return true;
}

bool sr_shm_absent(const struct sockaddr *to)
{
	struct sockaddr_storage plain;
	bool refused;
	int sock;

	sr_addr_unmap(&plain, to);
	if (sr_conf.dir[0] && !sr_addr_is_local(&plain))
		return !sr_dir_has(&plain);
	sock = sr_local_socket();
	refused = sock >= 0;

	for (unsigned i = 0; i < ATTEMPTS && refused; i++)
		refused = asking_call(sock, to, i, "") && errno == ECONNREFUSED;
	if (sock >= 0)
		sr_fd_close(sock);
	return refused;
}

static unsigned attempts_of(const struct asking *a)
{
	if (a->ask->there[0])
		return 1;
	if (!a->places)
		return ATTEMPTS;
	return a->called < CALLED_MAX ? a->places->count : 0;
}

static int call_next(struct asking *a, int sock)
{
	int r;

	if (!a->places)
		return asking_call(sock, (const struct sockaddr *)&a->ask->dst, a->attempt++,
				   a->ask->there);
	r = call_in_dir(sock, a);
	a->called += r == 0;
	return r;
}

/* Tries names from a->attempt on, until a process answers or none is left. */
static void next_name(struct asking *a)
{
	int sock = -1;

	while (a->attempt < attempts_of(a)) {
		if (sock < 0)
			sock = sr_local_socket();
		if (sock < 0) {
			a->reason = sock == -EMFILE ? "descriptors" : "memory";
			break;
		}
		if (call_next(a, sock)) {
			/* The backlog is full.  We do not wait for room, because the
			 * process with this name may never accept.  A worker with a
			 * full backlog is treated as if it had ended (sr_ask_again()). */
			if (errno == EAGAIN && !a->ask->there[0])
				a->reason = "refused";
		} else if (!asking_connected(a, sock)) {
			sr_timer_set(&a->timer, ANSWER_MS);
			return;
		} else {
			sock = -1;
		}
	}
	if (sock >= 0)
		sr_fd_close(sock);
	if (!a->early || sr_reason_find(a->reason) != SR_REASON_USER) {
		asking_fail(a, a->reason);
	} else if (sr_now_ns() - a->since_ns < EARLY_MS * 1000000) {
		a->early = false;
		a->attempt = 0;
		sr_timer_set(&a->timer, AGAIN_MS);
	} else {
		asking_fail(a, "no-match");
	}
}

/* Returns NULL, or the reason why there is nothing to ask. */
static const char *ask_begin(struct asking *a)
{
	struct sr_ask *ask = a->ask;
	struct sr_shm_plan plan;

	a->since_ns = sr_now_ns();
	sr_shm_asking++;
	if (ask->holds)
		ask->told(ask, SR_FIRST_SENT);
	/* (If there is no socket for this, asking finds it out, too.) */
	if (ask->proof != SR_PROOF_ALWAYS && !sr_addr_is_local(&ask->dst))
		return "no-listener";
	if (ask->proof == SR_PROOF_ALWAYS) {
		a->places = malloc(sizeof(*a->places));
		if (!a->places)
			return "memory";
		sr_dir_find(&ask->dst, a->places);
	}
	if (!sr_fd_room(ASK_FDS + sr_shm_asking - 1))
		return "descriptors";
	if (!sr_owner_is_here(ask->inode, &ask->src, &ask->dst))
		return "no-match";
	if (sr_shm_plan(&plan, ask->policy->ring_first, ask->policy->ring_max))
		return "off";
	a->link = sr_shm_new(SR_ROLE_ASKER, ask->name.link_no, ask->owner, ask->notify,
			     ask->policy, &plan);
	return a->link ? NULL : "memory";
}

static void on_asking_timer(struct sr_timer *t)
{
	struct asking *a = SR_OF(struct asking, timer, t);
	const char *reason = a->watch.fd >= 0 ? "timeout" : NULL;

	if (reason && a->places) {	/* it may be a stranger, in the way of the next one */
		hang_up(a);
		a->reason = reason;
		reason = NULL;
	}
	if (!a->since_ns)
		reason = ask_begin(a);
	if (reason)
		asking_fail(a, reason);
	else
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
	a->timer.fn = on_asking_timer;
	ask->kind = a;
	/* done() is never called from here. */
	sr_timer_set(&a->timer, ask->redirects && !ask->there[0] ? AGAIN_MS : 0);
	return 0;
}

void sr_shm_cancel(struct sr_ask *ask)
{
	if (ask->kind)
		ask_end(ask->kind);
}
