/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_wait.c - epoll_wait(2): what is listed, what the kernel has, spinning and
 * sleeping.  The argument is in epoll_impl.h.
 */
#include "base/real.h"

#include <errno.h>
#include <sys/single_threaded.h>

#include "base/fdpriv.h"
#include "base/now.h"
#include "stream/epoll_impl.h"

#define LINGER 16		/* entries that one thread may poll */
#define ASK 8			/* looks at them for one at the kernel's set */
#define NAP_NS 1000000		/* in a set that another process serves */

struct wait {
	struct sr_epoll *set;
	int epfd;
	const struct sr_epoll_time *t;
	bool at_once;		/* the program's time is none */
	uint64_t deadline;	/* ns; UINT64_MAX: none */
	bool again;		/* the program's time has begun to run */
	uint64_t start;		/* ns: when it found nothing */
	bool spins;		/* set->spinning is ours */
	bool asked;		/* what was found then is the kernel's */
	unsigned handled;	/* sr_handled.all, as the call began */
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
	if (!w->at_once)
		w->deadline = sr_deadline_ns(sec, ns);
}

static bool over(const struct wait *w)
{
	return w->at_once ||
	       (w->deadline != UINT64_MAX && sr_now_ns() >= w->deadline);
}

static bool signalled(const struct wait *w)
{
	return sr_handled.all != w->handled;
}

/* In a window.  A handler that was put off during the call ran as it opened, and ends
 * the call.  A program that gives no fraction of a millisecond may have a kernel
 * without epoll_pwait2(2). */
static int call_kernel(struct wait *w, struct epoll_event *ev, int max,
		       bool sleep)
{
	const struct sr_epoll_time *t = w->t;
	const struct timespec none = { 0, 0 };
	bool rest = sleep && w->again && w->deadline != UINT64_MAX;
	uint64_t now = rest ? sr_now_ns() : 0;
	uint64_t left = rest && now < w->deadline ? w->deadline - now : 0;
	struct timespec ts = left ? sr_timespec(left) : none;

	if (sleep && !w->at_once && signalled(w)) {
		errno = EINTR;
		return -1;
	}
	if (t->fine)
		return sr_real.epoll_pwait2(w->epfd, ev, max,
					    !sleep ? &none : rest ? &ts : t->ts,
					    t->mask);
	return sr_real.epoll_pwait(w->epfd, ev, max,
				   !sleep ? 0 :
				   rest ? (int)((left + 999999) / 1000000) : t->ms,
				   t->mask);
}

/* A locked instruction just behind a system call costs a quarter of the cheapest one,
 * and a process of one thread needs none: a signal handler leaves the sleepers as it
 * found them and does not run where we count calls (sr_hold), and a thread that is
 * created counts after its creator.  The new value. */
static unsigned add(atomic_uint *number, unsigned by)
{
	unsigned n;

	if (!__libc_single_threaded)
		return atomic_fetch_add(number, by) + by;
	n = atomic_load_explicit(number, memory_order_relaxed) + by;
	atomic_store_explicit(number, n, memory_order_relaxed);
	return n;
}

/* Who is in the kernel: a cancellation point. */
struct seat {
	struct sr_epoll *volatile set;
	bool spins;
	bool holds;		/* a reference, which goes with the call */
	unsigned epoch;		/* sr_fd_epoch() */
};

static void sit(struct seat *seat, struct sr_epoll *set, bool spins)
{
	seat->set = set;
	seat->spins = spins;
	seat->epoch = sr_fd_epoch();
	add(&set->sleepers, 1);
}

static void leave(struct seat *seat)
{
	/* (A handler may have forked: the child has forgotten its sleepers.) */
	if (seat->set && seat->epoch == sr_fd_epoch())
		add(&seat->set->sleepers, -1u);
	seat->set = NULL;
}

static void put(struct sr_epoll **set)
{
	if (*set)
		sr_epoll_put(*set);
}

static void abandoned(void *arg)
{
	struct seat *seat = arg;
	struct sr_epoll *held = seat->holds ? seat->set : NULL;

	if (seat->set && seat->spins)
		atomic_store(&seat->set->spinning, false);
	leave(seat);
	put(&held);
}

static int ask_kernel(struct wait *w, struct epoll_event *ev, int max,
		      bool sleep)
{
	__attribute__((cleanup(leave))) struct seat seat = { .set = NULL };
	struct sr_epoll *set = w->set;
	unsigned call = add(&set->calls, 1);
	struct sr_window win;
	int r;

	sit(&seat, set, w->spins);
	seat.holds = true;
	sleep &= !atomic_load(&set->ready);
	sr_window_open(&win, abandoned, &seat);
	r = call_kernel(w, ev, max, sleep);
	sr_window_close(&win);
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

	sr_lock(&set->ready_lock);
	mine = e->live && e->armed && sr_epoll_entry_data(e) == ev->data.u64;
	if (mine) {
		e->armed = false;
		ev->data = e->data;
	}
	sr_unlock(&set->ready_lock);
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
	if (called)
		sr_epoll_hush(set);
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
		n = sr_epoll_collect(set, ev, max, turn, true);
		if (!n && i % ASK == 0) {
			r = ask_kernel(w, ev, max, false);
			n = r < 0 ? -errno : take_answer(w, ev, r);
			w->asked = n > 0;
		}
		if (n)
			return n;
		if (signalled(w))
			return -EINTR;
		if (sr_held.off)
			return 0;	/* let in by who sleeps */
		now = sr_now_ns();
		if (sr_spin_stolen(&set->spin, limit, now - last) ||
		    now - w->start >= limit || now >= w->deadline)
			return 0;
		last = now;
		sr_relax();
	}
}

static void stop_spinning(struct wait **w)
{
	if ((*w)->spins)
		atomic_store(&(*w)->set->spinning, false);
	(*w)->spins = false;
}

static int spin(struct wait *w, struct epoll_event *ev, int max, unsigned turn)
{
	__attribute__((cleanup(stop_spinning))) struct wait *spinner = w;
	struct sr_epoll *set = w->set;

	if (w->start || w->at_once || !atomic_load(&set->shut))
		return 0;
	w->start = sr_now_ns();
	if (!sr_spin_pays(&set->spin, sr_conf.spin_us * 1000ull))
		return 0;
	if (atomic_exchange(&set->spinning, true))
		return 0;
	w->spins = true;
	return spin_on(w, ev, max, turn);
}

/* One round: ours and the kernel's get half of the room each, and what the other
 * leaves; where there is room for one they take turns. */
static int round_of(struct wait *w, struct epoll_event *ev, int max)
{
	struct sr_epoll *set = w->set;
	unsigned turn = add(&set->turns, 1);
	int n, r, half = (max + (int)(turn & 1)) / 2;

	n = sr_epoll_collect(set, ev, half, turn, may_linger(set));
	if (!n && half)
		n = spin(w, ev, half, turn);
	if (n < 0 || w->asked)
		return n;
	/* Who lingers stands now. */
	if (!n && !w->at_once)
		n = sr_epoll_collect(set, ev, half, turn, false);
	if (n == max)
		return n;
	r = ask_kernel(w, ev + n, max - n, !n && !w->at_once);
	if (r < 0)
		return n ? n : -errno;
	n += take_answer(w, ev + n, r);
	if (n < max)
		n += sr_epoll_collect(set, ev + n, max - n, turn, may_linger(set));
	return n;
}

static void learn(struct wait *w, int n)
{
	if (n > 0 && w->start)
		sr_spin_learn(&w->set->spin, sr_conf.spin_us * 1000ull,
			      sr_now_ns() - w->start);
}

static int wait_on(struct wait *w, struct epoll_event *ev, int max)
{
	struct sr_epoll *set = w->set;
	int n;

	if (atomic_load(&set->forked)) {
		if (!atomic_load(&set->foreign) && sr_epoll_used_by_child(set))
			sr_epoll_share(set);
		else if (atomic_load(&set->foreign))
			sr_epoll_foreign_use(set);
	}
	for (;;) {
		n = round_of(w, ev, max);
		if (n || over(w))
			break;
		if (signalled(w)) {
			n = -EINTR;
			break;
		}
		w->again = true;
		w->epfd = atomic_load(&set->epfd); /* that one may be closed */
	}
	learn(w, n);
	return n;
}

/*
 * A set without any stream that may ever be on a link: the kernel's call.  We only
 * count the sleeper, for whom an entry that comes meanwhile may have to ring (members
 * and sleepers are a Dekker pair, too).  No reference: a set's memory stays a set's,
 * and the count is right for whichever it is.  False: there is more to do.
 */
static bool wait_quietly(struct wait *w, struct epoll_event *ev, int max, int *n)
{
	__attribute__((cleanup(leave))) struct seat seat = { .set = NULL };
	struct sr_epoll *set = w->set;
	struct sr_window win;
	int r;

	if (atomic_load(&set->members) || atomic_load(&set->ready) ||
	    atomic_load(&set->level) || atomic_load(&set->forked))
		return false;
	sit(&seat, set, false);
	if (atomic_load(&set->members))
		return false;
	sr_window_open(&win, abandoned, &seat);
	r = call_kernel(w, ev, max, true);
	sr_window_close(&win);
	leave(&seat);
	*n = r < 0 ? -errno : take_answer(w, ev, r);
	w->again = true;
	if (*n > 0 && atomic_load(&set->ready))
		sr_epoll_ring(set);
	return r <= 0 || *n;
}

int sr_epoll_wait_for(int epfd, struct epoll_event *ev, int max,
		      const struct sr_epoll_time *t)
{
	struct wait w = { .set = sr_epoll_peek(epfd), .epfd = epfd, .t = t,
			  .handled = sr_handled.all };
	__attribute__((cleanup(put))) struct sr_epoll *held = NULL;
	int n, err = errno;

	pthread_testcancel(); /* as in sr_stream_recv() */
	sr_epolls_settle_nested();
	begin(&w);
	sr_hold();
	if (!w.set || !wait_quietly(&w, ev, max, &n)) {
		w.set = held = sr_epoll_get(epfd);
		n = held ? wait_on(&w, ev, max) :
			   -EBADF;	/* closed under the call */
	}
	put(&held);
	held = NULL;
	errno = err;
	sr_release();
	return n;
}
