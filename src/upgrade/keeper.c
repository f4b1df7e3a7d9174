/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * keeper.c - owns the lines between the keeper of a listening address and its workers
 * (keeper.h).  Must not know how requests arrive.  Loop only, no locks.
 *
 * The keeper listens on the abstract name of the address with "/keeper" behind it.
 *
 *     worker    connects, and says JOIN: where it answers
 *     keeper    FIND: a stream's name
 *     worker    HAVE: that name, once it has accepted the stream
 *     worker    CLAIM: a name, before it becomes another user (claim.c); no JOIN is needed
 *
 * A process that has nothing to say connects, too, and hears of the keeper's end.
 *
 * A keeper that has no descriptor left closes the lines of further workers, whose streams stay on
 * TCP.
 *
 * bind(2) decides which process is the keeper.  When the keeper ends, all lines close.  Each
 * worker then tries to take the name, and joins the process that has it if that fails.
 *
 * Any process may connect and say HAVE.  The keeper believes it if the sender is a trusted user,
 * or the user who owns the server's end of that stream (sr_local_owns()).  So no user can draw
 * the askers of others to its own process.  The sender is the user of the packet, not the user
 * who made the line, because the process may have become another user since.  Such a process
 * is believed of the streams that it claimed on this line before that, as long as their
 * sockets live, and of no others.
 *
 * A worker joins whichever process has the name, so that it can take that process's place when
 * it ends.  If a stranger has the name, the streams of the address stay on TCP, and the stranger
 * learns which of them each worker has.  It also learns where the worker answers; but any
 * process may ask there, and the worker refuses those that do not have the stream.
 */
#include "base/real.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/fdpriv.h"
#include "base/list.h"
#include "base/log.h"
#include "base/now.h"
#include "base/owner.h"
#include "base/pages.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "link/local.h"
#include "upgrade/keeper.h"
#include "upgrade/upgrade.h"

#define BACKLOG 1024
#define WORKERS_MAX 4096	/* of one address */
#define PACKETS 64		/* taken from a line before others have their turn */
#define TRIES 100		/* to open a rendezvous that another process had */
#define SUFFIX "/keeper"
#define BRIEF_NS 100000000u	/* a line that has lasted no longer is brief */
#define BRIEF_MAX 5		/* brief lines in a row, before this process rests */
#define REST_NS 500000000u

/* A stream that a worker has claimed. */
struct claim {
	struct claim *next;
	struct sr_name name;
	uint64_t cookie;	/* of the socket, because others may have its name later */
};

/* A worker, as the keeper knows it. */
struct worker {
	struct sr_watch line;
	struct sr_keeper *keeper;
	struct worker *next, **pprev;
	struct claim *claims;
	unsigned claim_count;
	bool stranger, joined;
	struct sr_there there;
};

struct sr_keeper {
	struct sr_watch watch;	/* the keeper's name, or a worker's line */
	struct sr_listener *listener;
	struct sr_keeper *next, **pprev;
	struct worker *workers;	/* only the keeper has any */
	unsigned count;
	unsigned tries;		/* sr_keeper_keeps() */
	uint64_t since_ns;	/* when the line was made */
	bool joined;		/* a worker has */
};

static struct sr_keeper *all;
static unsigned strangers;

static bool send_packet(int fd, const struct sr_line_packet *p)
{
	uint8_t buf[SR_LINE_PACKET_LEN];

	sr_line_packet_encode(p, buf);
	return sr_local_send_as(fd, buf, sizeof(buf));
}

/* *uid: the sender's user; a worker passes NULL, because any user may be the keeper.  > 0: a
 * packet; 0: none yet; < 0: the line has ended, or the packet is invalid. */
static int receive_packet(int fd, struct sr_line_packet *p, uint32_t *uid)
{
	uint8_t buf[SR_LINE_PACKET_LEN];
	ssize_t n = sr_local_recv_from(fd, buf, sizeof(buf), uid);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return n < 0 || sr_line_packet_decode(p, buf, (size_t)n) ? -1 : 1;
}

/* ---- the keeper ---- */

/* Has the socket with this cookie the name now? */
static bool has_name(uint64_t cookie, const struct sr_name *name)
{
	struct sockaddr_storage client, server;
	uint64_t now;

	sr_name_addresses(name, &client, &server);
	return !sr_owner_cookie(&client, &server, &now) && now == cookie;
}

static bool is_claimed(const struct worker *w, const struct sr_name *name)
{
	const struct claim *c = w->claims;

	while (c && !sr_name_equal(&c->name, name))
		c = c->next;
	return c && has_name(c->cookie, name);
}

static bool may_have(uint32_t uid, const struct sr_name *name)
{
	struct sockaddr_storage client, server;

	sr_name_addresses(name, &client, &server);
	return sr_local_owns(uid, &client, &server) > 0;
}

/* The cookie is that of the socket which the worker had as it sent the claim: meanwhile
 * another process may have got the name.  False: the worker has made more claims than an honest
 * one would. */
static bool note_claim(struct worker *w, const struct sr_line_packet *p, uint32_t uid)
{
	struct claim *c;

	if (w->claim_count == SR_CLAIMS_MAX)
		return false;
	c = may_have(uid, &p->name) && has_name(p->cookie, &p->name) ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		return true;
	c->name = p->name;
	c->cookie = p->cookie;
	c->next = w->claims;
	w->claims = c;
	w->claim_count++;
	return true;
}

static void worker_gone(struct worker *w)
{
	struct claim *c;

	while ((c = w->claims)) {
		w->claims = c->next;
		free(c);
	}
	SR_LIST_DROP(w);
	w->keeper->count--;
	strangers -= w->stranger;
	sr_loop_unwatch(&w->line);
	sr_local_close(w->line.fd);
	free(w);
}

static void ask_worker(const struct sr_name *name, void *worker)
{
	struct sr_line_packet p = { .word = SR_LINE_FIND, .name = *name };
	struct worker *w = worker;

	if (w->joined)
		(void)send_packet(w->line.fd, &p);
}

static bool worker_says(struct worker *w, const struct sr_line_packet *p, uint32_t uid)
{
	if (p->word == SR_LINE_JOIN && !w->joined) {
		w->there = p->there;
		w->joined = true;
		sr_answer_pending(ask_worker, w);	/* it may have what is asked for */
		return true;
	}
	if (p->word == SR_LINE_CLAIM)
		return note_claim(w, p, uid);
	if (p->word != SR_LINE_HAVE || !w->joined)
		return false;
	if (may_have(uid, &p->name) || is_claimed(w, &p->name))
		sr_answer_found(&p->name, &w->there);
	else
		sr_answer_foreign(&p->name);
	return true;
}

static void worker_readable(struct sr_watch *watch, uint32_t events)
{
	struct worker *w = SR_OF(struct worker, line, watch);
	struct sr_line_packet p;
	uint32_t uid;
	int r = 0;

	(void)events;
	for (int i = 0; i < PACKETS; i++) {
		r = receive_packet(w->line.fd, &p, &uid);
		if (r > 0 && !worker_says(w, &p, uid))
			r = -1;
		if (r <= 0)
			break;
	}
	if (r < 0)
		worker_gone(w);
}

/* Strangers have a quarter of the descriptors that the library may hold, at most. */
static bool may_come(const struct sr_keeper *k, bool stranger)
{
	return k->count < WORKERS_MAX && sr_fd_room(stranger ? 1 + 3 * strangers : 1);
}

/* Accepts the next worker that has connected.  False: there is none, or it has to wait. */
static bool worker_new(struct sr_keeper *k)
{
	uint32_t uid;
	int fd = sr_local_accept(k->watch.fd, &uid);
	bool stranger = fd >= 0 && !sr_local_trusts(uid);
	struct worker *w;

	if (fd < 0)
		return false;
	w = may_come(k, stranger) ? calloc(1, sizeof(*w)) : NULL;
	if (!w)
		goto refuse;
	w->line = (struct sr_watch){ .fd = fd, .fn = worker_readable };
	w->keeper = k;
	w->stranger = stranger;
	if (sr_loop_watch(&w->line, EPOLLIN))
		goto refuse;
	SR_LIST_ADD(k->workers, w);
	k->count++;
	strangers += stranger;
	return true;
refuse:
	free(w);
	sr_local_close(fd);
	return true;
}

static void keeper_readable(struct sr_watch *watch, uint32_t events)
{
	struct sr_keeper *k = SR_OF(struct sr_keeper, watch, watch);

	(void)events;
	while (worker_new(k))
		;
}

/* ---- a worker ---- */

/* A line has ended, because the keeper has, or because the keeper has no room for this process.  In
 * the second case the next line would end at once, too.  So after some brief ones this process
 * rests (listener.c) before it makes another. */
static void note_line_end(struct sr_listener *l, uint64_t since_ns)
{
	uint64_t now = sr_now_ns();

	l->brief_lines = now - since_ns < BRIEF_NS ? l->brief_lines + 1 : 0;
	if (l->brief_lines >= BRIEF_MAX)
		l->rests_until_ns = now + REST_NS;
}

static void line_readable(struct sr_watch *watch, uint32_t events)
{
	struct sr_keeper *k = SR_OF(struct sr_keeper, watch, watch);
	struct sr_listener *l = k->listener;
	struct sr_line_packet p;
	int r = 1;

	(void)events;
	for (int i = 0; i < PACKETS && r > 0; i++) {
		r = receive_packet(k->watch.fd, &p, NULL);
		if (r > 0 && p.word == SR_LINE_FIND)
			sr_answer_asked(&p.name);
	}
	if (r >= 0)
		return;
	sr_debug("keeper: the line has ended");
	note_line_end(l, k->since_ns);
	sr_keeper_close(l);
	sr_stream_kick(l->socket);	/* sr_listener_progress() takes its place, or joins */
}

/* ---- both ---- */

static int keeper_make(struct sr_listener *l, int fd, uint32_t events,
		       void (*fn)(struct sr_watch *, uint32_t))
{
	struct sr_keeper *k = sr_pages_get_root(sizeof(*k));
	int err;

	if (!k)
		return -ENOMEM;
	k->watch = (struct sr_watch){ .fd = fd, .fn = fn };
	k->listener = l;
	k->since_ns = sr_now_ns();
	err = sr_loop_watch(&k->watch, events);
	if (err) {
		sr_pages_put_root(k, sizeof(*k));
		return err;
	}
	SR_LIST_ADD(all, k);
	l->keeper = k;
	return 0;
}

static int name_of(struct sr_listener *l, struct sockaddr_un *un)
{
	return sr_local_name(un, sr_listener_addr(l), 0, SUFFIX);
}

int sr_keeper_bind(struct sr_listener *l)
{
	struct sockaddr_un un;
	int fd, err, on = 1, len = name_of(l, &un);

	if (len < 0)
		return len;
	fd = sr_local_socket();
	if (fd < 0)
		return fd;
	sr_sys_setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	if (!sr_sys_bind(fd, (struct sockaddr *)&un, (socklen_t)len) && !sr_sys_listen(fd, BACKLOG))
		return fd;
	err = -errno;
	sr_fd_close(fd);
	return err;
}

int sr_keeper_open(struct sr_listener *l, int fd)
{
	int err = keeper_make(l, fd, EPOLLIN | EPOLLET, keeper_readable);

	if (err)
		sr_fd_close(fd);
	return err;
}

int sr_keeper_call(struct sr_listener *l)
{
	struct sockaddr_un un;
	int fd, err, len = name_of(l, &un);

	if (len < 0)
		return len;
	fd = sr_local_socket();
	if (fd < 0)
		return fd;
	if (sr_now_connect(fd, (struct sockaddr *)&un, (socklen_t)len)) {
		err = -errno;
		sr_fd_close(fd);
		return err;
	}
	return fd;
}

bool sr_keeper_claim(int line, const struct sr_name *name, uint64_t cookie)
{
	const struct sr_line_packet p = {
		.word = SR_LINE_CLAIM,
		.name = *name,
		.cookie = cookie,
	};

	return send_packet(line, &p);
}

/* Before the worker says anything, as the answer would be dropped. */
static void let_packets_in(int fd)
{
	sr_local_peer(fd); /* of any user */
}

static int make_line(struct sr_listener *l, int fd)
{
	int err = keeper_make(l, fd, EPOLLIN, line_readable);

	if (err)
		sr_local_close(fd);
	return err;
}

int sr_keeper_join(struct sr_listener *l, const struct sr_there *there)
{
	struct sr_line_packet p = { .word = SR_LINE_JOIN, .there = *there };
	int err, fd = sr_claims_take_line(l);

	if (fd < 0)
		fd = sr_keeper_call(l);
	if (fd < 0)
		return fd;
	let_packets_in(fd);
	if (!send_packet(fd, &p)) {
		sr_local_close(fd);
		note_line_end(l, sr_now_ns());
		return -EPIPE;
	}
	err = make_line(l, fd);
	if (!err)
		l->keeper->joined = true;
	return err;
}

int sr_keeper_watch(struct sr_listener *l)
{
	int fd = sr_keeper_call(l);

	if (fd < 0)
		return fd;
	let_packets_in(fd);
	return make_line(l, fd);
}

bool sr_keeper_only_watches(struct sr_listener *l)
{
	return l->keeper->watch.fn == line_readable && !l->keeper->joined;
}

bool sr_keeper_keeps(struct sr_listener *l)
{
	struct sr_keeper *k = l->keeper;

	return k->watch.fn == keeper_readable && k->tries++ < TRIES;
}

bool sr_keeper_is_elsewhere(unsigned port)
{
	bool elsewhere = false;

	for (const struct sr_keeper *k = all; k; k = k->next) {
		if (sr_addr_port(sr_listener_addr(k->listener)) != port)
			continue;
		if (k->watch.fn == keeper_readable)
			return false;
		elsewhere = true;
	}
	return elsewhere;
}

void sr_keeper_close(struct sr_listener *l)
{
	struct sr_keeper *k = l->keeper;

	if (!k)
		return;
	l->keeper = NULL;
	SR_LIST_DROP(k);
	while (k->workers)
		worker_gone(k->workers);
	sr_loop_unwatch(&k->watch);
	if (k->watch.fn == keeper_readable)
		sr_fd_close(k->watch.fd);
	else
		sr_local_close(k->watch.fd);
	sr_pages_put_root(k, sizeof(*k));
}

bool sr_keeper_ask(const struct sr_name *name)
{
	struct sr_keeper *k;
	struct worker *w;
	bool any = false;

	for (k = all; k; k = k->next) {
		if (sr_addr_port(sr_listener_addr(k->listener)) != name->dport)
			continue;
		for (w = k->workers; w; w = w->next) {
			ask_worker(name, w);
			any = true;
		}
	}
	return any;
}

void sr_keeper_tell(const struct sr_name *name)
{
	struct sr_line_packet p = { .word = SR_LINE_HAVE, .name = *name };
	struct sr_keeper *k;

	for (k = all; k; k = k->next)
		if (k->watch.fn == line_readable &&
		    sr_addr_port(sr_listener_addr(k->listener)) == name->dport)
			(void)send_packet(k->watch.fd, &p);
}

void sr_keeper_forget(void)
{
	strangers = 0;
	all = NULL;	/* the descriptors go with sr_fd_forget_all() */
}
