/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* base/signal.c: signals that come while something is held, and who learns what. */
#include "base/real.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/signal.h"
#include "check.h"
#include "sockrail.h"

static volatile int runs[_NSIG];
static volatile int values[16], seen;
static volatile bool usr2_blocked, high_stack;
static siginfo_t last;
static char stack[65536];

static bool is_blocked(int sig)
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	return sigismember(&now, sig);
}

static void noted(int sig, siginfo_t *info, void *context)
{
	char here;

	CHECK_EQ(sr_held.count, 0);
	CHECK(context);
	runs[sig]++;
	if (seen < 16)
		values[seen++] = info->si_value.sival_int;
	last = *info;
	usr2_blocked = is_blocked(SIGUSR2);
	high_stack = &here >= stack && &here < stack + sizeof(stack);
	errno = 99;
}

static void install(int sig, int flags, int also)
{
	struct sigaction sa = { .sa_sigaction = noted,
				.sa_flags = SA_SIGINFO | flags };

	if (also)
		sigaddset(&sa.sa_mask, also);
	CHECK_EQ(sr_sigaction(sig, &sa, NULL), 0);
	runs[sig] = 0;
	seen = 0;
}

static void send_value(int sig, int n)
{
	CHECK_EQ(sigqueue(getpid(), sig, (union sigval){ .sival_int = n }), 0);
}

/* It runs when the last hold is over, as if nothing had been. */
static void test_put_off(void)
{
	stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };

	sigaltstack(&alt, NULL);
	install(SIGUSR1, SA_ONSTACK, SIGUSR2);
	sr_hold();
	send_value(SIGUSR1, 42);
	CHECK_EQ(runs[SIGUSR1], 0);
	CHECK(sr_held.off && is_blocked(SIGUSR1) && is_blocked(SIGTERM));
	CHECK(!is_blocked(SIGSEGV));
	sr_enter();
	sr_leave();
	CHECK_EQ(runs[SIGUSR1], 0);
	errno = 7;
	sr_release();
	CHECK_EQ(errno, 7);
	CHECK_EQ(runs[SIGUSR1], 1);
	CHECK_EQ(values[0], 42);
	CHECK_EQ(last.si_code, SI_QUEUE);
	CHECK_EQ(last.si_pid, getpid());
	CHECK(usr2_blocked && high_stack);
	CHECK(!sr_held.off && !is_blocked(SIGUSR1) && !is_blocked(SIGUSR2));
	alt.ss_flags = SS_DISABLE;
	sigaltstack(&alt, NULL);

	sr_enter();
	raise(SIGUSR1);
	CHECK_EQ(runs[SIGUSR1], 1);
	sr_leave();
	CHECK_EQ(runs[SIGUSR1], 2);
	CHECK_EQ(last.si_code, SI_TKILL);
}

/* The kernel stacks the frames of all that are pending before one runs. */
static void test_two_at_once(void)
{
	sigset_t both, before, after;

	install(SIGUSR1, 0, 0);
	install(SIGUSR2, 0, SIGHUP);
	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, NULL, &before);
	pthread_sigmask(SIG_BLOCK, &both, NULL);
	send_value(SIGUSR1, 1);
	send_value(SIGUSR2, 2);
	sr_hold();
	pthread_sigmask(SIG_UNBLOCK, &both, NULL);
	CHECK_EQ(seen, 0);
	sr_release();
	CHECK_EQ(seen, 2);
	CHECK_EQ(runs[SIGUSR1] * 10 + runs[SIGUSR2], 11);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	CHECK(!memcmp(&before, &after, _NSIG / 8));
}

static void test_resethand(void)
{
	struct sigaction now;

	install(SIGUSR1, SA_RESETHAND, 0);
	sr_hold();
	raise(SIGUSR1);
	CHECK_EQ(runs[SIGUSR1], 0);
	sr_sigaction(SIGUSR1, NULL, &now);
	CHECK(now.sa_sigaction == noted);
	sr_release();
	CHECK_EQ(runs[SIGUSR1], 1);
	sr_sigaction(SIGUSR1, NULL, &now);
	CHECK(now.sa_handler == SIG_DFL);
}

static sigjmp_buf out;

static void jump(int sig)
{
	siglongjmp(out, sig);
}

/* These cannot wait. */
static void test_faults(void)
{
	volatile bool jumped = false;
	char *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);

	sr_signal(SIGSEGV, jump);
	sr_signal(SIGABRT, jump);
	sr_hold();
	if (!sigsetjmp(out, 1))
		*(volatile char *)nowhere = 0;
	else
		jumped = true;
	CHECK(jumped && !sr_held.off && sr_held.count == 1);
	if (!sigsetjmp(out, 1))
		abort();
	CHECK(!sr_held.off && sr_held.count == 1);
	sr_release();
	sr_signal(SIGSEGV, SIG_DFL);
	sr_signal(SIGABRT, SIG_DFL);
}

/* A call that sleeps: handlers run in its window, whatever is held around it. */
static int pair[2];
static volatile int answers;

static void not_abandoned(void *arg)
{
	(void)arg;
	CHECK(false);
}

static void answer(int sig)
{
	runs[sig]++;
	CHECK_EQ(sr_held.count, 0);
	sr_hold();
	sr_release();
	answers += send(pair[1], "x", 1, 0) == 1;
}

static void *send_both(void *main_thread)
{
	struct timespec t = { 0, 50000000 };

	nanosleep(&t, NULL);
	pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
	pthread_kill(*(pthread_t *)main_thread, SIGUSR2);
	return NULL;
}

static ssize_t window_recv(void (*gone)(void *arg))
{
	struct sr_window w;
	ssize_t r;
	char c;

	sr_window_open(&w, gone, NULL);
	r = recv(pair[0], &c, 1, 0);
	sr_window_close(&w);
	return r;
}

static ssize_t disturbed_recv(void)
{
	pthread_t me = pthread_self(), t;
	ssize_t r;

	CHECK_EQ(pthread_create(&t, NULL, send_both, &me), 0);
	r = window_recv(not_abandoned);
	pthread_join(t, NULL);
	return r;
}

static void test_window(void)
{
	struct sigaction sa = { .sa_handler = answer, .sa_flags = SA_RESTART };
	sigset_t none, now;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	sr_sigaction(SIGUSR1, &sa, NULL);
	sr_sigaction(SIGUSR2, &sa, NULL);
	runs[SIGUSR1] = runs[SIGUSR2] = 0;
	sr_hold();
	raise(SIGUSR1);
	CHECK_EQ(answers, 0);
	CHECK_EQ(window_recv(not_abandoned), 1);
	CHECK_EQ(answers, 1);
	CHECK_EQ(disturbed_recv(), 1);
	CHECK_EQ(sr_held.count, 1);
	sr_release();
	CHECK_EQ(answers, 3);
	CHECK_EQ(runs[SIGUSR1] * 10 + runs[SIGUSR2], 21);
	CHECK(!sr_held.off && !sr_held.count);
	sigemptyset(&none);
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	CHECK(!memcmp(&none, &now, _NSIG / 8));
	CHECK_EQ(window_recv(not_abandoned), 1);	/* what the second one sent */

	install(SIGUSR1, 0, 0);
	install(SIGUSR2, 0, 0);
	sr_hold();
	CHECK_EQ(disturbed_recv(), -1);
	sr_release();
	CHECK_EQ(runs[SIGUSR1] * 10 + runs[SIGUSR2], 11);
	close(pair[0]);
	close(pair[1]);
}

/* A handler leaves for good. */
static int abandoned;

static void note_abandoned(void *arg)
{
	(void)arg;
	abandoned++;
}

static void test_jump_out(void)
{
	pthread_t me = pthread_self(), t;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	sr_signal(SIGUSR1, jump);
	sr_signal(SIGUSR2, SIG_IGN);
	CHECK_EQ(pthread_create(&t, NULL, send_both, &me), 0);
	sr_hold();
	if (!sigsetjmp(out, 1))
		window_recv(note_abandoned);
	CHECK_EQ(abandoned, 1);
	CHECK(!sr_held.off && !sr_held.count);
	pthread_join(t, NULL);
	close(pair[0]);
	close(pair[1]);
}

/* What runs in a handler knows it, and what runs behind one that has left by a jump, too. */
static volatile int known;

static void know(int sig)
{
	known += sr_signal_in_handler();
	if (sig == SIGUSR1)
		raise(SIGUSR2);
	known += sr_signal_in_handler();
	if (sig == SIGHUP)
		siglongjmp(out, 1);
}

static void test_in_handler(void)
{
	struct sigaction sa = { .sa_handler = know };

	sr_sigaction(SIGUSR1, &sa, NULL);
	sr_sigaction(SIGUSR2, &sa, NULL);
	sr_sigaction(SIGHUP, &sa, NULL);
	CHECK(!sr_signal_in_handler());
	raise(SIGUSR1);
	CHECK_EQ(known, 4);
	CHECK(!sr_signal_in_handler());
	if (!sigsetjmp(out, 1))
		raise(SIGHUP);
	CHECK_EQ(known, 6);
	CHECK(!sr_signal_in_handler());
}

/* The child has the mask that the program had; the signal is the parent's. */
static void test_fork(void)
{
	int status;
	pid_t pid;

	install(SIGUSR1, 0, 0);
	sr_hold();
	raise(SIGUSR1);
	pid = fork();
	if (!pid) {
		sr_hold_none();	/* as service/fork.c does */
		_exit(sr_held.count || sr_held.off || is_blocked(SIGUSR1) ||
		      runs[SIGUSR1]);
	}
	CHECK_EQ(runs[SIGUSR1], 0);
	sr_release();
	CHECK_EQ(runs[SIGUSR1], 1);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

static void test_counts(void)
{
	struct sr_handled was = sr_handled;

	install(SIGUSR1, 0, 0);
	install(SIGUSR2, SA_RESTART, 0);
	raise(SIGUSR2);
	CHECK_EQ(sr_handled.all - was.all, 1);
	CHECK_EQ(sr_handled.breaking - was.breaking, 0);
	raise(SIGUSR1);
	CHECK_EQ(sr_handled.breaking - was.breaking, 1);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__
	return 77;	/* it holds signals back, and counts by itself */
#endif
	if (check_in_valgrind())	/* no handler changes its thread's mask */
		return 77;
	test_put_off();
	test_two_at_once();
	test_resethand();
	test_faults();
	test_window();
	test_jump_out();
	test_in_handler();
	test_fork();
	test_counts();
	return 0;
}
