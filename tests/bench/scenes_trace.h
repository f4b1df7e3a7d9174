/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * scenes_trace.h - for scenes.c: the system calls of the process's threads, counted by a
 * child that traces them: without privileges, and in a container.  A traced thread is slow,
 * so nothing else is measured meanwhile.
 */
#ifndef SCENES_TRACE_H
#define SCENES_TRACE_H

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "scenes_watch.h"

/* Numbers of system calls stay below it. */
enum { CALL_NUMBERS = 512 };

struct trace {
	atomic_uint attached;
	atomic_ulong calls[KINDS][CALL_NUMBERS];
};

static struct trace *trace; /* shared with the child */
static pid_t tracer;
static int trace_orders[2];

/* So that any of the threads' numbers is found at once. */
static enum kind *traced_kinds;

static void trace_stop(pid_t tid, int status)
{
	struct __ptrace_syscall_info info;
	int sig = WSTOPSIG(status);

	if (sig == (SIGTRAP | 0x80)) {
		sig = 0;
		if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) > 0 &&
		    info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr < CALL_NUMBERS)
			atomic_fetch_add(&trace->calls[traced_kinds[tid]][info.entry.nr], 1);
	} else if (status >> 16 == PTRACE_EVENT_STOP) {
		sig = 0;
		atomic_fetch_add(&trace->attached, 1);
	}
	ptrace(PTRACE_SYSCALL, tid, 0, sig);
}

/* Traces the threads that it is told of, until it is killed; then they go on without it. */
static _Noreturn void trace_run(int orders)
{
	struct thread t;
	int status;
	pid_t tid;

	traced_kinds = calloc((size_t)1 << 22, sizeof(*traced_kinds)); /* PID_MAX_LIMIT */
	while (read(orders, &t, sizeof(t)) == sizeof(t) && t.tid) {
		traced_kinds[t.tid] = t.kind;
		if (!ptrace(PTRACE_SEIZE, t.tid, 0, PTRACE_O_TRACESYSGOOD))
			ptrace(PTRACE_INTERRUPT, t.tid, 0, 0);
		else if (errno == ESRCH) /* it has ended */
			atomic_fetch_add(&trace->attached, 1);
		else
			_exit(1);
	}
	for (;;) {
		tid = waitpid(-1, &status, __WALL);
		if (tid < 0)
			_exit(0);
		if (WIFSTOPPED(status))
			trace_stop(tid, status);
		else
			atomic_fetch_add(&trace->attached, 1);
	}
}

/* Before there is any stream or thread. */
static void trace_prepare(void)
{
	trace = mmap(NULL, sizeof(*trace), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	if (trace == MAP_FAILED || pipe(trace_orders))
		die("trace");
	tracer = fork();
	if (!tracer) {
		close(trace_orders[1]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		trace_run(trace_orders[0]);
	}
	close(trace_orders[0]);
	prctl(PR_SET_PTRACER, tracer);
}

/* False: it may not be. */
static bool trace_begin(void)
{
	static const struct thread end;
	unsigned n = 0;

	for (unsigned i = 0; i < n_threads; i++) {
		if (threads[i].kind == OTHER)
			continue;
		if (write(trace_orders[1], &threads[i], sizeof(end)) != sizeof(end))
			return false;
		n++;
	}
	if (write(trace_orders[1], &end, sizeof(end)) != sizeof(end))
		return false;
	while (atomic_load(&trace->attached) < n) {
		if (waitpid(tracer, NULL, WNOHANG))
			return false;
		usleep(1000);
	}
	return true;
}

static void trace_end(void)
{
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);
}

struct call_counts {
	uint64_t calls[KINDS][CALL_NUMBERS];
};

static void calls_look(struct call_counts *c)
{
	for (int k = 0; k < KINDS; k++)
		for (int i = 0; i < CALL_NUMBERS; i++)
			c->calls[k][i] = atomic_load(&trace->calls[k][i]);
}

static uint64_t calls_made(const struct call_counts *a, const struct call_counts *b, enum kind k)
{
	uint64_t n = 0;

	for (int i = 0; i < CALL_NUMBERS; i++)
		if (i != SYS_futex || !DEVICE_HAS_LOCK)
			n += b->calls[k][i] - a->calls[k][i];
	return n;
}

/* Also those that a stream may need for a message, by name. */
static void print_calls(const struct call_counts *a, const struct call_counts *b,
			double messages)
{
#define NAMED(name) {SYS_##name, #name}
	static const struct {
		int number;
		const char *name;
	} named[] = {NAMED(sendto), NAMED(recvfrom), NAMED(read), NAMED(write), NAMED(ioctl),
		     NAMED(epoll_ctl), NAMED(epoll_pwait), NAMED(ppoll), NAMED(futex),
#ifdef SYS_epoll_wait
		     NAMED(epoll_wait), NAMED(poll),
#endif
		     NAMED(getsockopt)};
#undef NAMED
	uint64_t c = calls_made(a, b, CLIENT), s = calls_made(a, b, SERVER),
		 own = calls_made(a, b, SERVICE), n;

	printf("calls %.3f\n", (double)(c + s + own) / messages);
	printf("calls_client %.3f\n", (double)c / messages);
	printf("calls_server %.3f\n", (double)s / messages);
	printf("calls_service %.3f\n", (double)own / messages);
	for (unsigned i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		n = 0;
		for (int k = CLIENT; k <= SERVICE; k++)
			n += b->calls[k][named[i].number] - a->calls[k][named[i].number];
		if (n)
			printf("call_%s %.3f\n", named[i].name, (double)n / messages);
	}
}

#endif
