/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_wait.c - the ready list of a set, what its entries have, and
 * epoll_wait(2).  The argument is in epoll_impl.h.
 */
#include "base/real.h"

#include <errno.h>

#include "stream/epoll_impl.h"
#include "stream/waitset.h"

#define HARVEST 64
#define LOOKS 8
#define LINGER 16		/* entries that one thread may poll */
#define QUIET 32		/* looks that an entry lingers for */
#define ASK 8			/* looks at them for one at the kernel's set */
#define NAP_NS 1000000		/* in a set that another process serves */

/*
 * What makes an edge is notify(): a link's bell only says that it is time to
 * look, as others may have taken note before.  Looking finds arrivals by itself,
 * and is then told in its own thread.
 */
struct looking {
	struct sr_epoll_entry *e;
	uint32_t events, edge;
	bool told;
};
static __thread struct looking here __attribute__((tls_model("initial-exec")));

/* ---- the ready list: ready_lock held ---- */

static void push(struct sr_epoll *set, struct sr_epoll_entry *e, bool sure)
{
	e->listed = true;
	e->sure = sure;
	set->sure += sure;
	e->next_ready = NULL;
	if (set->last)
		set->last->next_ready = e;
	else
		set->first = e;
	set->last = e;
	atomic_fetch_add(&set->ready, 1);
}

static void unlisted(struct sr_epoll *set, struct sr_epoll_entry *e)
{
	e->listed = false;
	set->sure -= e->sure;
	e->sure = false;
	atomic_fetch_sub(&set->ready, 1);
}

static struct sr_epoll_entry *pop(struct sr_epoll *set)
{
	struct sr_epoll_entry *e = set->first;

	if (!e)
		return NULL;
	set->first = e->next_ready;
	if (!set->first)
		set->last = NULL;
	unlisted(set, e);
	return e;
}

/* Wakes one who sleeps; in level mode the bell says whether something is ready. */
static void ring(struct sr_epoll *set)
{
	const uint64_t one = 1;
	bool call = atomic_load(&set->level) ? set->sure :
			    atomic_load(&set->ready) &&
				    atomic_load(&set->sleepers);

	if (set->rung || !call)
		return;
	set->rung = true;
	(void)!sr_real.write(set->bell, &one, sizeof(one));
}

static void hush(struct sr_epoll *set)
{
	uint64_t n;

	if (!set->rung || (set->level && set->sure))
		return;
	set->rung = false;
	(void)!sr_real.read(set->bell, &n, sizeof(n));
}

static void list(struct sr_epoll *set, struct sr_epoll_entry *e, uint32_t edge)
{
	if (!e->live || e->parked)
		return;
	e->edge |= edge;
	if (e->busy)
		e->again = true;
	else if (!e->listed)
		push(set, e, false);
	if (atomic_load(&set->level))
		sr_loop_post(&set->task); /* is there really something? */
	else
		ring(set);
}

static bool wanted(uint32_t events, unsigned what)
{
	return !(what == SR_NOTIFY_RX && !(events & SR_EPOLL_IN)) &&
	       !(what == SR_NOTIFY_TX && !(events & SR_EPOLL_OUT));
}

static uint32_t edge_of(unsigned news)
{
	return (news & SR_NOTIFY_RX ? SR_EPOLL_IN : 0) |
	       (news & SR_NOTIFY_TX ? SR_EPOLL_OUT : 0) |
	       (news ? EPOLLERR | EPOLLHUP : 0);
}

void sr_epoll_list(struct sr_epoll_entry *e, uint32_t edge)
{
	struct sr_epoll *set = e->set;
	int err = errno;

	pthread_mutex_lock(&set->ready_lock);
	list(set, e, edge);
	pthread_mutex_unlock(&set->ready_lock);
	errno = err;
}

void sr_epoll_unlist(struct sr_epoll_entry *e)
{
	struct sr_epoll *set = e->set;
	struct sr_epoll_entry *p;

	pthread_mutex_lock(&set->ready_lock);
	e->again = false;
	if (e->listed && set->first == e) {
		pop(set);
	} else if (e->listed) {
		for (p = set->first; p->next_ready != e; p = p->next_ready)
			;
		p->next_ready = e->next_ready;
		if (set->last == e)
			set->last = p;
		unlisted(set, e);
	}
	if (set->level)
		hush(set);
	pthread_mutex_unlock(&set->ready_lock);
}

/* By notify().  What is not a matter of room or bytes alone may be an error or
 * the end, which are always reported. */
void sr_epoll_told(struct sr_epoll_entry *e, unsigned what, unsigned news)
{
	struct sr_epoll *set = e->set;

	if (here.e == e) {
		here.told = true;
		if (wanted(here.events, what))
			here.edge |= edge_of(news);
		return;
	}
	pthread_mutex_lock(&set->ready_lock);
	if (wanted(e->events, what))
		list(set, e, edge_of(news));
	pthread_mutex_unlock(&set->ready_lock);
}

/* The anchor's event is an edge if the kernel still has a say; see look(). */
static void heard(struct sr_epoll *set, uint32_t events, uint64_t data)
{
	bool bell = data & SR_EPOLL_BELL;
	struct sr_epoll_entry *e = (void *)(uintptr_t)(data & ~(uint64_t)SR_EPOLL_BELL);

	pthread_mutex_lock(&set->ready_lock);
	if (e->live && !bell && !atomic_load(&e->st->tx_full))
		events &= ~(uint32_t)SR_EPOLL_OUT;
	if (bell || (events & (e->events | EPOLLERR | EPOLLHUP))) {
		e->anchor |= bell ? 0 : events;
		list(set, e, 0);
	}
	pthread_mutex_unlock(&set->ready_lock);
}

void sr_epoll_harvest(struct sr_epoll *set)
{
	struct epoll_event ev[HARVEST];
	int i, n;

	do {
		n = sr_real.epoll_pwait(set->inner, ev, HARVEST, 0, NULL);
		for (i = 0; i < n; i++) {
			if (ev[i].data.ptr != set)
				heard(set, ev[i].events, ev[i].data.u64);
		}
	} while (n == HARVEST);
}

/* ---- what a shut entry has ---- */

/* The kernel's part: the plain direction, raw bytes before a mark. */
static uint32_t ask_anchor(struct sr_stream *st, short events)
{
	const struct timespec now = { 0, 0 };
	struct pollfd p = { st->anchor, events, 0 };

	if (p.fd < 0 || sr_real.ppoll(&p, 1, &now, NULL) < 1)
		return 0;
	return (uint32_t)p.revents & ((uint32_t)events | EPOLLERR | EPOLLHUP);
}

/* *waits: it would have to stand on this link for bytes.  *mixed: of what the kernel
 * has a say. */
static uint32_t level(struct sr_stream *st, uint32_t events,
		      struct sr_link **waits, uint32_t *mixed)
{
	struct sr_waitset_entry w = { .st = st,
				      .events = (short)(events & 0x7fff) };
	uint32_t r;
	bool open;

	/* A gate that shuts meanwhile does so before a mark can come: what the
	 * kernel has may be one, and nothing to be read. */
	do {
		open = !sr_gate_shut(&st->rx_gate);
		sr_waitset_plan(&w);
		*waits = w.rx_link;
		sr_waitset_drop_links(&w);
		if (!w.shut)
			return 0;	/* the kernel says it, with the program's data */
		r = (uint32_t)(unsigned short)w.ours;
		if (w.pass)
			r |= ask_anchor(st, w.pass);
	} while (open && sr_gate_shut(&st->rx_gate));
	*mixed |= (unsigned short)w.pass;
	if ((r & EPOLLHUP) && !(r & EPOLLERR) && sr_anchor_kept(st))
		r |= EPOLLERR;
	return r;
}

/* With references; NULL if the direction is not on it. */
static struct sr_link *rx_link(struct sr_stream *st)
{
	struct sr_link *link = NULL;

	pthread_mutex_lock(&st->rx_lock);
	if (sr_gate_shut(&st->rx_gate) && st->rx.state == SR_RX_LINK)
		link = st->rx_link ? sr_link_get(st->rx_link) : NULL;
	pthread_mutex_unlock(&st->rx_lock);
	return link;
}

static struct sr_link *tx_link(struct sr_stream *st)
{
	struct sr_link *link = NULL;

	pthread_mutex_lock(&st->tx_lock);
	if (sr_gate_shut(&st->tx_gate) && st->tx.state == SR_TX_LINK)
		link = st->tx_link ? sr_link_get(st->tx_link) : NULL;
	pthread_mutex_unlock(&st->tx_lock);
	return link;
}

/* Stands on the links, and looks whether that was in time.  *rx: the link stood
 * on for bytes, to be compared only. */
static bool stand(struct sr_epoll_entry *e, uint32_t events, bool full,
		  struct sr_link **rx)
{
	struct sr_stream *st = e->st;
	struct sr_link *l[2] = { NULL, NULL };
	bool shut;

	if (events & SR_EPOLL_IN)
		l[0] = rx_link(st);
	if (events & SR_EPOLL_OUT)
		l[1] = tx_link(st);
	*rx = l[0];
	shut = sr_epoll_stand(e, l[0], l[1], full);
	for (int i = 0; i < 2; i++) {
		if (!l[i])
			continue;
		l[i]->ops->poll(l[i]);
		sr_link_put(l[i]);
	}
	return shut;
}

/* A level-triggered entry that is ready stays on the list, and need not be told
 * of more.  All others stand first, so that what comes after is told; unless they
 * linger, on the list. */
static uint32_t look(struct sr_epoll_entry *e, uint32_t events, bool linger,
		     uint32_t *mixed)
{
	struct sr_stream *st = e->st;
	struct sr_link *waits, *stood;
	bool full, lt = !(events & EPOLLET);
	uint32_t r;
	int tries = LOOKS;

	/* Looking at one direction may have moved on the other, and an edge is
	 * reported once, with all that there is. */
	do {
		here.told = false;
		r = level(st, events, &waits, mixed);
	} while (here.told && linger && --tries);
	if ((r && lt) || (linger && tries))
		return r;
	tries = LOOKS;
	do {
		here.told = false;
		full = atomic_load(&st->tx_full);
		if (!stand(e, events, full, &stood))
			return r;
		r = level(st, events, &waits, mixed);
		if (r && lt)
			return r;
	} while (--tries && (here.told || (waits && waits != stood) ||
			     ((events & SR_EPOLL_OUT) && !full &&
			      atomic_load(&st->tx_full))));
	if (!tries)	/* it never rests */
		sr_epoll_list(e, here.edge);
	return r;
}

/* ---- taking from the list ---- */

static void drop(struct sr_epoll *set, struct sr_epoll_entry *e)
{
	pthread_mutex_unlock(&set->ready_lock);
	pthread_mutex_lock(&set->lock);
	sr_epoll_entry_free(e);
	pthread_mutex_unlock(&set->lock);
	pthread_mutex_lock(&set->ready_lock);
}

/* ready_lock held, but let go of meanwhile.  False: it is gone, or parked. */
static bool look_at(struct sr_epoll *set, struct sr_epoll_entry *e, bool linger,
		    uint32_t *r, uint32_t *edge)
{
	uint32_t events = e->events, anchor = e->anchor, mixed = 0;
	unsigned count = e->count;

	*r = *edge = 0;
	e->again = false;
	if (!e->armed && (events & EPOLLONESHOT))
		return true;	/* has fired: nothing until a MOD lists it */
	e->busy = true;
	*edge = e->edge;
	e->edge = e->anchor = 0;
	pthread_mutex_unlock(&set->ready_lock);
	here = (struct looking){ .e = e, .events = events };
	*r = look(e, events, linger, &mixed);
	if (mixed)
		*edge |= anchor & (mixed | EPOLLERR | EPOLLHUP);
	*edge |= here.edge;
	here.e = NULL;
	pthread_mutex_lock(&set->ready_lock);
	e->busy = false;
	if (!e->live) {
		drop(set, e);
		return false;
	}
	if (e->parked)
		return false;
	if (count != e->count)
		*r = 0;	/* it has been modified, and again is set */
	e->quiet = *r ? 0 : e->quiet + 1;
	if (!(*r & *edge) && (events & EPOLLET))
		*r = 0;
	return true;
}

/* False: the list is empty, and nobody has taken anything from it. */
static bool begin_looking(struct sr_epoll *set)
{
	if (!atomic_load(&set->ready) && !atomic_load(&set->looking))
		return false;
	pthread_mutex_lock(&set->look_lock);
	pthread_mutex_lock(&set->ready_lock);
	atomic_store(&set->looking, true);
	return true;
}

static void end_looking(struct sr_epoll *set)
{
	hush(set);
	ring(set);
	atomic_store(&set->looking, false);
	pthread_mutex_unlock(&set->ready_lock);
	pthread_mutex_unlock(&set->look_lock);
}

/* Reports up to max of what is listed, none twice in a turn. */
static int collect(struct sr_epoll *set, struct epoll_event *ev, int max,
		   unsigned turn, bool linger)
{
	int left, n = 0;
	uint32_t r, edge;
	bool stays;

	if (!begin_looking(set))
		return 0;
	for (left = atomic_load(&set->ready); n < max && left > 0; left--) {
		struct sr_epoll_entry *e = pop(set);

		if (!e)
			break;
		if (e->turn == turn) {
			push(set, e, true);
			continue;
		}
		stays = linger && e->quiet < QUIET;
		if (!look_at(set, e, stays, &r, &edge))
			continue;
		e->edge |= r ? 0 : edge;
		if (r) {
			e->turn = turn;
			ev[n].events = r;
			ev[n++].data = e->data;
			if (e->events & EPOLLONESHOT)
				e->armed = false;
		}
		if (e->events & EPOLLONESHOT)
			stays &= e->armed;
		r = e->events & (EPOLLET | EPOLLONESHOT) ? 0 : r;
		if (e->again || r || stays)
			push(set, e, r);
	}
	end_looking(set);
	return n;
}

/* As collect(), but everything that would be reported stays. */
void sr_epoll_settle(struct sr_epoll *set)
{
	uint32_t r, edge;
	int left;

	if (!begin_looking(set))
		return;
	for (left = atomic_load(&set->ready); left > 0; left--) {
		struct sr_epoll_entry *e = pop(set);

		if (!e || !look_at(set, e, false, &r, &edge))
			continue;
		e->edge |= edge;
		if (e->again || r)
			push(set, e, r);
	}
	end_looking(set);
}

/* ---- epoll_wait(2) ---- */

struct wait {
	struct sr_epoll *set;
	int epfd;
	const struct sr_epoll_time *t;
	bool at_once;		/* the program's time is none */
	uint64_t deadline;	/* ns; UINT64_MAX: none */
	bool again;		/* the program's time has begun to run */
	uint64_t start;		/* ns: when it found nothing */
	bool asked;		/* what was found then is the kernel's */
};

static void begin(struct wait *w)
{
	const struct sr_epoll_time *t = w->t;
	uint64_t sec, ns = 0;

	w->deadline = UINT64_MAX;
	if (t->fine && t->ts) {
		sec = (uint64_t)t->ts->tv_sec;
		ns = (uint64_t)t->ts->tv_nsec;
	} else if (!t->fine && t->ms >= 0) {
		sec = (uint64_t)t->ms / 1000;
		ns = (uint64_t)t->ms % 1000 * 1000000u;
	} else {
		return;
	}
	w->at_once = !sec && !ns;
	if (!w->at_once && sec < UINT64_MAX / 1000000000u / 2)
		w->deadline = sr_now_ns() + sec * 1000000000u + ns;
}

static bool over(const struct wait *w)
{
	return w->at_once ||
	       (w->deadline != UINT64_MAX && sr_now_ns() >= w->deadline);
}

static int call_kernel(struct wait *w, struct epoll_event *ev, int max,
		       bool sleep)
{
	const struct sr_epoll_time *t = w->t;
	struct timespec ts = { 0, 0 };
	const struct timespec *p = sleep && !w->again ? t->ts : &ts;
	int ms = sleep ? t->ms : 0;
	uint64_t now;

	if (sleep && w->again && w->deadline == UINT64_MAX) {
		p = NULL;
	} else if (sleep && w->again) {
		now = sr_now_ns();
		now = now < w->deadline ? w->deadline - now : 0;
		ts.tv_sec = (time_t)(now / 1000000000u);
		ts.tv_nsec = (long)(now % 1000000000u);
		ms = (int)((now + 999999) / 1000000);
	}
	if (t->fine)
		return sr_real.epoll_pwait2(w->epfd, ev, max, p, t->mask);
	return sr_real.epoll_pwait(w->epfd, ev, max, ms, t->mask);
}

/* Sleeping is a cancellation point. */
static void leave(struct sr_epoll **set)
{
	atomic_fetch_sub(&(*set)->sleepers, 1);
}

static int ask_kernel(struct wait *w, struct epoll_event *ev, int max,
		      bool sleep)
{
	__attribute__((cleanup(leave))) struct sr_epoll *set = w->set;
	unsigned call = atomic_fetch_add(&set->calls, 1) + 1;
	int r;

	atomic_fetch_add(&set->sleepers, 1);
	sleep &= !atomic_load(&set->ready);
	r = call_kernel(w, ev, max, sleep);
	/* (Two that do so at once may leave the earlier: an edge too many.) */
	if (r >= 0 && r < max && (int)(call - atomic_load(&set->complete)) > 0)
		atomic_store(&set->complete, call);
	return r;
}

/* A one-shot entry of plain days.  Whose is the event?  True: the caller's. */
static bool take_token(struct sr_epoll_entry *e, struct epoll_event *ev)
{
	struct sr_epoll *set = e->set;
	bool mine;

	pthread_mutex_lock(&set->ready_lock);
	mine = e->live && e->armed && sr_epoll_entry_data(e) == ev->data.u64;
	if (mine) {
		e->armed = false;
		ev->data = e->data;
	}
	pthread_mutex_unlock(&set->ready_lock);
	return mine;
}

/* Takes what is ours out of the kernel's answer.  *called: inner or the bell. */
static int sift(struct sr_epoll *set, struct epoll_event *ev, int n,
		bool *called)
{
	bool oneshots = atomic_load_explicit(&set->oneshots,
					     memory_order_relaxed);
	int i, kept = 0;

	for (i = 0; i < n; i++) {
		struct sr_epoll_entry *e;

		if (ev[i].data.ptr == set) {
			*called = true;
			continue;
		}
		e = oneshots ? sr_epoll_entry_of(set, ev[i].data.u64) : NULL;
		if (e && !take_token(e, &ev[i]))
			continue;
		ev[kept++] = ev[i];
	}
	return kept;
}

/* Takes what the kernel says and what it leads to. */
static int take_answer(struct wait *w, struct epoll_event *ev, int r)
{
	struct sr_epoll *set = w->set;
	bool called = false;
	int n = sift(set, ev, r, &called);

	if (called && !n && atomic_load(&set->foreign)) {
		nanosleep(&(struct timespec){ 0, NAP_NS }, NULL);
		return 0;
	}
	if (called && !atomic_load(&set->level))
		sr_epoll_harvest(set);
	if (called) {
		pthread_mutex_lock(&set->ready_lock);
		hush(set);
		pthread_mutex_unlock(&set->ready_lock);
	}
	return n;
}

/* May what is quiet linger?  Only if nobody sleeps who would have to hear of it,
 * and the set's readiness is nobody else's affair. */
static bool may_linger(struct sr_epoll *set)
{
	return sr_conf.spin_us && !atomic_load(&set->level) &&
	       !atomic_load(&set->sleepers) &&
	       atomic_load(&set->ready) <= LINGER;
}

/* Events, 0: time to sleep, or -errno. */
static int spin_on(struct wait *w, struct epoll_event *ev, int max,
		   unsigned turn)
{
	uint64_t limit = sr_conf.spin_us * 1000ull, last = w->start, now;
	struct sr_epoll *set = w->set;
	int i, n, r;

	for (i = 1;; i++) {
		if (!atomic_load(&set->ready))
			return 0;	/* they stand by now */
		n = collect(set, ev, max, turn, true);
		if (!n && i % ASK == 0) {
			r = ask_kernel(w, ev, max, false);
			n = r < 0 ? -errno : take_answer(w, ev, r);
			w->asked = n > 0;
		}
		if (n)
			return n;
		now = sr_now_ns();
		if (sr_spin_stolen(&set->spin, limit, now - last) ||
		    now - w->start >= limit || now >= w->deadline)
			return 0;
		last = now;
		sr_relax();
	}
}

static int spin(struct wait *w, struct epoll_event *ev, int max, unsigned turn)
{
	struct sr_epoll *set = w->set;
	int n = 0;

	if (w->start || w->at_once || !atomic_load(&set->shut))
		return 0;
	w->start = sr_now_ns();
	if (!sr_spin_pays(&set->spin, sr_conf.spin_us * 1000ull))
		return 0;
	if (atomic_exchange(&set->spinning, true))
		return 0;
	n = spin_on(w, ev, max, turn);
	atomic_store(&set->spinning, false);
	return n;
}

/* One round: ours and the kernel's get half of the room each, and what the other
 * leaves; where there is room for one they take turns. */
static int round_of(struct wait *w, struct epoll_event *ev, int max)
{
	struct sr_epoll *set = w->set;
	unsigned turn = atomic_fetch_add(&set->turns, 1) + 1;
	int n, r, half = (max + (int)(turn & 1)) / 2;

	n = collect(set, ev, half, turn, may_linger(set));
	if (!n && half)
		n = spin(w, ev, half, turn);
	if (n < 0 || w->asked)
		return n;
	/* Who lingers stands now. */
	if (!n && !w->at_once)
		n = collect(set, ev, half, turn, false);
	if (n == max)
		return n;
	r = ask_kernel(w, ev + n, max - n, !n && !w->at_once);
	if (r < 0)
		return n ? n : -errno;
	n += take_answer(w, ev + n, r);
	if (n < max)
		n += collect(set, ev + n, max - n, turn, may_linger(set));
	return n;
}

static void learn(struct wait *w, int n)
{
	if (n > 0 && w->start)
		sr_spin_learn(&w->set->spin, sr_conf.spin_us * 1000ull,
			      sr_now_ns() - w->start);
}

int sr_epoll_wait_for(struct sr_epoll *set, int epfd, struct epoll_event *ev,
		      int max, const struct sr_epoll_time *t)
{
	struct wait w = { .set = set, .epfd = epfd, .t = t };
	int n, err = errno;

	if (atomic_load(&set->forked)) {
		if (!atomic_load(&set->foreign) && sr_epoll_used_by_child(set))
			sr_epoll_share(set);
		else if (atomic_load(&set->foreign))
			sr_epoll_foreign_use(set);
	}
	sr_epolls_settle_nested();
	begin(&w);
	for (;;) {
		n = round_of(&w, ev, max);
		if (n || over(&w))
			break;
		w.again = true;
	}
	learn(&w, n);
	errno = err;
	return n;
}
