/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The service thread: tasks, timers, watches, start and fork. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/fdpriv.h"
#include "base/loop.h"
#include "base/real.h"
#include "check.h"
#include "in_process.h"
#include "loop_call.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static void nothing(void *arg)
{
	(void)arg;
}

/* All that was posted before has run. */
static void settle(void)
{
	CHECK(loop_call(nothing, NULL) == 0);
}

static void wait_for(atomic_int *n, int value)
{
	for (int i = 0; atomic_load(n) != value; i++) {
		CHECK(i < 10000);
		usleep(1000);
	}
}

/* ---- start, call ---- */

static void look_around(void *arg)
{
	sigset_t mask;
	char name[16];

	CHECK(sr_loop_here());
	CHECK(sr_inside == 1);
	prctl(PR_GET_NAME, name, 0, 0, 0);
	CHECK(!strcmp(name, "sockrail"));
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	CHECK(sigismember(&mask, SIGTERM) && sigismember(&mask, SIGPROF));
	/* From within: at once. */
	CHECK(loop_call(nothing, NULL) == 0);
	*(int *)arg = 1;
}

static void call(void)
{
	int done = 0;
	sigset_t mask;

	errno = EDOM;
	CHECK(loop_call(look_around, &done) == 0);
	CHECK(errno == EDOM);
	CHECK(done == 1);
	CHECK(!sr_loop_here() && sr_inside == 0);
	CHECK(sr_loop_start() == 0);
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	CHECK(!sigismember(&mask, SIGTERM));
}

/* ---- tasks ---- */

static struct numbered {
	struct sr_task task;
	int number;
} numbered[100];
static int order[200], ran;

static void note(struct sr_task *t)
{
	order[ran++] = ((struct numbered *)t)->number;
}

static void post_all(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100; i++)
		sr_loop_post(&numbered[i].task);
	/* Queued already. */
	for (int i = 99; i >= 0; i--)
		sr_loop_post(&numbered[i].task);
}

static void in_order(void)
{
	for (int i = 0; i < 100; i++)
		numbered[i] = (struct numbered){{.fn = note}, i};
	CHECK(loop_call(post_all, NULL) == 0);
	settle();
	CHECK(ran == 100);
	for (int i = 0; i < 100; i++)
		CHECK(order[i] == i);
}

static atomic_int again_left;

static void again(struct sr_task *t)
{
	if (atomic_fetch_sub(&again_left, 1) > 1)
		sr_loop_post(t);
}

static void repost(void)
{
	static struct sr_task t = {.fn = again};

	atomic_store(&again_left, 10000);
	sr_loop_post(&t);
	wait_for(&again_left, 0);
}

static void release(struct sr_task *t)
{
	free(t);
	atomic_fetch_add(&again_left, 1);
}

static void freed_by_itself(void)
{
	struct sr_task *t = calloc(1, sizeof(*t));

	t->fn = release;
	sr_loop_post(t);
	wait_for(&again_left, 1);
}

/* Several threads count up (not atomically: the post must publish it) and post;
 * a run after the last post sees everything. */
#define POSTERS 4
#define ROUNDS 50000

static struct {
	unsigned char pad[64];
	atomic_uint count;
} counts[POSTERS];
static atomic_uint sum_seen;

static void add_up(struct sr_task *t)
{
	unsigned sum = 0;

	(void)t;
	for (int i = 0; i < POSTERS; i++)
		sum += atomic_load_explicit(&counts[i].count,
					    memory_order_relaxed);
	atomic_store(&sum_seen, sum);
}

static struct sr_task shared = {.fn = add_up};

static void *poster(void *arg)
{
	atomic_uint *count = arg;

	for (int i = 0; i < ROUNDS; i++) {
		atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
		sr_loop_post(&shared);
	}
	return NULL;
}

static void many_posters(void)
{
	pthread_t threads[POSTERS];

	for (int i = 0; i < POSTERS; i++)
		CHECK(!pthread_create(&threads[i], NULL, poster,
				      &counts[i].count));
	for (int i = 0; i < POSTERS; i++)
		pthread_join(threads[i], NULL);
	/* Not settle(): whoever posted last has to have woken the loop. */
	for (int i = 0; atomic_load(&sum_seen) != POSTERS * ROUNDS; i++) {
		CHECK(i < 10000);
		usleep(1000);
	}
}

/* Each call posts when the loop is about to sleep, or has just done so. */
static void no_wakeup_lost(void)
{
	for (int i = 0; i < 20000; i++)
		settle();
}

static void *caller(void *arg)
{
	for (int i = 0; i < 5000; i++)
		CHECK(loop_call(nothing, arg) == 0);
	return NULL;
}

static void many_callers(void)
{
	pthread_t threads[POSTERS];

	for (int i = 0; i < POSTERS; i++)
		CHECK(!pthread_create(&threads[i], NULL, caller, NULL));
	for (int i = 0; i < POSTERS; i++)
		pthread_join(threads[i], NULL);
}

static atomic_int signalled, handled;

static void count_handled(struct sr_task *t)
{
	(void)t;
	atomic_store(&handled, atomic_load(&signalled));
}

static struct sr_task from_handler = {.fn = count_handled};

static void handler(int sig)
{
	(void)sig;
	atomic_fetch_add(&signalled, 1);
	sr_loop_post(&from_handler);
}

static void posts_in_handlers(void)
{
	struct sigaction act = {.sa_handler = handler};

	sigaction(SIGUSR1, &act, NULL);
	for (int i = 0; i < 2000; i++)
		raise(SIGUSR1);
	wait_for(&handled, 2000);
}

/* ---- timers ---- */

#define TIMERS 2000

static struct timed {
	struct sr_timer timer;
	unsigned ms;
	bool cancelled;
} timed[TIMERS];
static int fired, expected;
static uint64_t last_ns;
static atomic_int done;

static void fire(struct sr_timer *t)
{
	struct timed *self = (struct timed *)t;
	uint64_t now = sr_now_ns();

	CHECK(t->at_ns == 0);
	CHECK(!self->cancelled);
	/* at_ns is gone; the order is that of `ms`, as all were set at once
	 * up to what setting took, and nobody comes early. */
	CHECK(now >= last_ns + (uint64_t)self->ms * 1000000);
	fired++;
	if (fired == expected)
		atomic_store(&done, 1);
}

static void set_timers(void *arg)
{
	unsigned seed = 42;

	(void)arg;
	last_ns = sr_now_ns();
	for (int i = 0; i < TIMERS; i++) {
		timed[i].timer.fn = fire;
		timed[i].ms = (unsigned)rand_r(&seed) % 300;
		sr_timer_set(&timed[i].timer, (unsigned)rand_r(&seed) % 300);
	}
	for (int i = 0; i < TIMERS; i++) {
		if (i % 3 == 0) {
			timed[i].cancelled = true;
			sr_timer_cancel(&timed[i].timer);
			CHECK(timed[i].timer.at_ns == 0);
			sr_timer_cancel(&timed[i].timer);
		} else {
			sr_timer_set(&timed[i].timer, timed[i].ms);
			expected++;
		}
	}
}

static int sequence[3], steps;

static void step(struct sr_timer *t)
{
	sequence[steps++] = (int)(((struct timed *)t)->ms);
	if (steps == 3)
		atomic_store(&done, 2);
}

static struct timed three[3];

static void set_three(void *arg)
{
	static const unsigned ms[3] = {30, 10, 20};

	(void)arg;
	for (int i = 0; i < 3; i++) {
		three[i] = (struct timed){.timer = {.fn = step}, .ms = ms[i]};
		sr_timer_set(&three[i].timer, ms[i]);
	}
}

static atomic_int ticks;

static void tick(struct sr_timer *t)
{
	if (atomic_fetch_add(&ticks, 1) < 99)
		sr_timer_set(t, 0);
}

static void set_ticker(void *arg)
{
	static struct sr_timer t = {.fn = tick};

	(void)arg;
	sr_timer_set(&t, 0);
}

static void all_timers(void)
{
	CHECK(loop_call(set_timers, NULL) == 0);
	wait_for(&done, 1);
	usleep(20000);
	CHECK(fired == expected);
	CHECK(loop_call(set_three, NULL) == 0);
	wait_for(&done, 2);
	CHECK(sequence[0] == 10 && sequence[1] == 20 && sequence[2] == 30);
	CHECK(loop_call(set_ticker, NULL) == 0);
	wait_for(&ticks, 100);
}

/* ---- watches ---- */

struct pair {
	struct sr_watch watch;
	struct pair *other;
	int write_end;
};
static atomic_int seen, alive;

static struct pair *pair_new(void (*fn)(struct sr_watch *, uint32_t))
{
	struct pair *p = calloc(1, sizeof(*p));
	int fds[2];

	CHECK(pipe2(fds, O_NONBLOCK) == 0);
	p->watch.fd = fds[0];
	p->watch.fn = fn;
	p->write_end = fds[1];
	atomic_fetch_add(&alive, 1);
	return p;
}

static void pair_free(struct pair *p)
{
	sr_loop_unwatch(&p->watch);
	close(p->watch.fd);
	close(p->write_end);
	free(p);
	atomic_fetch_sub(&alive, 1);
}

static void drain(struct sr_watch *w, uint32_t events)
{
	char buf[10];

	CHECK(events & EPOLLIN);
	CHECK(read(w->fd, buf, sizeof(buf)) == 1);
	atomic_fetch_add(&seen, 1);
}

/* Both are ready; whichever comes first frees both. */
static void free_both(struct sr_watch *w, uint32_t events)
{
	struct pair *p = (struct pair *)w;

	(void)events;
	atomic_fetch_add(&seen, 1);
	pair_free(p->other);
	pair_free(p);
}

static void watch_both(void *arg)
{
	struct pair *p = arg;

	CHECK(sr_loop_watch(&p->watch, EPOLLIN) == 0);
	CHECK(sr_loop_watch(&p->other->watch, EPOLLIN) == 0);
}

static void free_pair(void *arg)
{
	pair_free(arg);
}

static void watches(void)
{
	struct pair *p = pair_new(drain);

	/* From another thread than the loop's. */
	errno = EDOM;
	CHECK(sr_loop_watch(&p->watch, EPOLLIN | EPOLLONESHOT) == 0);
	CHECK(sr_loop_watch(&p->watch, EPOLLIN) == -EEXIST);
	CHECK(errno == EDOM);
	CHECK(write(p->write_end, "a", 1) == 1);
	wait_for(&seen, 1);
	CHECK(write(p->write_end, "b", 1) == 1);
	usleep(10000);
	CHECK(atomic_load(&seen) == 1);
	CHECK(sr_loop_rearm(&p->watch, EPOLLIN) == 0);
	wait_for(&seen, 2);
	CHECK(loop_call(free_pair, p) == 0);

	for (int i = 0; i < 100; i++) {
		atomic_store(&seen, 0);
		p = pair_new(free_both);
		p->other = pair_new(free_both);
		p->other->other = p;
		CHECK(write(p->write_end, "a", 1) == 1);
		CHECK(write(p->other->write_end, "a", 1) == 1);
		CHECK(loop_call(watch_both, p) == 0);
		wait_for(&alive, 0);
		settle();
		CHECK(atomic_load(&seen) == 1);
	}
}

/* ---- fork, failure ---- */

static void stop_here(struct sr_timer *t)
{
	(void)t;
	CHECK(false);
}

static struct sr_timer long_timer = {.fn = stop_here};

static void set_long_timer(void *arg)
{
	(void)arg;
	sr_timer_set(&long_timer, 3600 * 1000);
}

static void again_short(struct sr_timer *t)
{
	(void)t;
	atomic_store(&done, 3);
}

static void set_again(void *arg)
{
	(void)arg;
	long_timer.fn = again_short;
	sr_timer_set(&long_timer, 1);
}

static void block_on(struct sr_task *t)
{
	(void)t;
	while (!atomic_load(&handled))
		usleep(1000);
}

static void count_up(struct sr_task *t)
{
	(void)t;
	atomic_fetch_add(&seen, 1);
}

static void forked(void)
{
	static struct sr_task blocker = {.fn = block_on};
	static struct sr_task queued = {.fn = count_up};
	int status;
	pid_t child;

	CHECK(loop_call(set_long_timer, NULL) == 0);
	atomic_store(&handled, 0);
	atomic_store(&seen, 0);
	sr_loop_post(&blocker);
	sr_loop_post(&queued);
	child = fork();
	if (child == 0) {
		alarm(60);
		/* Before its memory is its own it may do nothing: vfork. */
		CHECK(loop_call(nothing, NULL) == -ECHILD);
		sr_loop_forget();
		sr_fd_forget_all(NULL);
		/* What was queued is not; it can be posted again. */
		CHECK(loop_call(nothing, NULL) == 0);
		CHECK(atomic_load(&seen) == 0);
		sr_loop_post(&queued);
		wait_for(&seen, 1);
		CHECK(loop_call(set_again, NULL) == 0);
		wait_for(&done, 3);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(atomic_load(&seen) == 0);
	atomic_store(&handled, 1);
	settle();
	CHECK(atomic_load(&seen) == 1);
}

/* Without descriptors or memory there is no thread, and later there is. */
static int starts_later(void *arg)
{
	static struct sr_task early = {.fn = count_up};
	struct rlimit old, none;
	int low = dup(STDERR_FILENO); /* the least one that is free */

	(void)arg;
	close(low);
	sr_conf.log = SR_ERROR;
	/* Posted before there is a loop: waits. */
	sr_loop_post(&early);
	getrlimit(RLIMIT_NOFILE, &old);
	none = old;
	none.rlim_cur = (rlim_t)low;
	setrlimit(RLIMIT_NOFILE, &none);
	CHECK(sr_loop_start() == -EMFILE);
	CHECK(loop_call(nothing, NULL) == -EMFILE);
	none.rlim_cur = (rlim_t)low + 1;
	setrlimit(RLIMIT_NOFILE, &none);
	CHECK(sr_loop_start() == -EMFILE);
	setrlimit(RLIMIT_NOFILE, &old);
	if (!SANITIZED) {
		getrlimit(RLIMIT_AS, &old);
		none = old;
		none.rlim_cur = 4096;
		setrlimit(RLIMIT_AS, &none);
		CHECK(sr_loop_start() == -EAGAIN);
		setrlimit(RLIMIT_AS, &old);
	}
	CHECK(fcntl(low, F_GETFD) < 0);
	CHECK(atomic_load(&seen) == 0);
	CHECK(sr_loop_start() == 0);
	wait_for(&seen, 1);
	return 0;
}

/* Our descriptors are closed by the system call itself: tasks and timers go on. */
static int robbed(void *arg)
{
	(void)arg;
	strcpy(sr_conf.log_file, "/dev/null");	/* it complains */
	CHECK(sr_loop_start() == 0);
	settle();
	for (int fd = 3; fd < 20000; fd++)
		if (sr_fd_is_private(fd))
			syscall(SYS_close, fd);
	atomic_store(&done, 0);
	CHECK(loop_call(set_again, NULL) == 0);
	for (int i = 0; i < 3; i++)
		settle();
	wait_for(&done, 3);
	return 0;
}

int main(void)
{
	alarm(120);
	sr_conf_load();
	CHECK_EQ(in_process(starts_later, NULL, 60), 0);
	CHECK_EQ(in_process(robbed, NULL, 60), 0);
	call();
	in_order();
	repost();
	freed_by_itself();
	many_posters();
	no_wakeup_lost();
	many_callers();
	posts_in_handlers();
	all_timers();
	watches();
	forked();
	return 0;
}
