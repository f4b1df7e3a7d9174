/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * window.c - where the program's signal handlers may interrupt us (signal.h): calls
 * that sleep.
 *
 * A handler that leaves by siglongjmp() must not take a result with it: what recv()
 * has read may be a mark of the protocol, and has to be booked anyway.  So a call that
 * transfers bytes is made by a piece of code whose bounds are known.  A handler finds
 * its thread either before the system call (which includes one that is going to be
 * restarted: SA_RESTART) and runs, or behind it, with a result that nobody has seen
 * yet, perhaps EINTR: then it is put off until the call on the stream is over.  If it
 * was put off just before, the call does not begin.
 *
 * Elsewhere there is no result to lose, and nothing is held in the window.
 */
#include "base/real.h"

#include <errno.h>
#include <ucontext.h>

#include "base/signal.h"

/* Of the C library, whose headers have forgotten them. */
void _pthread_cleanup_push(struct _pthread_cleanup_buffer *buffer,
			   void (*routine)(void *), void *arg);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *buffer, int execute);

/* ---- windows in which nothing is held ---- */

static void let_in(void)
{
	int held = sr_held.count;

	sr_held.count = 1;
	sr_release();
	sr_held.count = held;
	atomic_signal_fence(memory_order_seq_cst);
}

/* Of the thread: its type was `type` before a call of ours changed it. */
static __thread volatile struct {
	bool on;
	int type;
} async;

bool sr_async_begin(void)
{
	bool was = async.on;
	int type;

	if (!was) {
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
		async.type = type;
		async.on = true;
	}
	return was;
}

void sr_async_end(bool was)
{
	if (!was) {
		pthread_setcanceltype(async.type, NULL);
		async.on = false;
	}
}

static void gone(void *window)
{
	struct sr_window *w = window;

	sr_async_end(!async.on);
	w->abandoned(w->arg);
}

void sr_window_open(struct sr_window *w, void (*abandoned)(void *arg), void *arg)
{
	w->abandoned = abandoned;
	w->arg = arg;
	_pthread_cleanup_push(&w->buffer, gone, w);
	w->held = sr_held.count;
	sr_held.count = 1;
	sr_release();
}

void sr_window_close(struct sr_window *w)
{
	sr_held.count = w->held;
	atomic_signal_fence(memory_order_seq_cst);
	_pthread_cleanup_pop(&w->buffer, 0);
}

void sr_signals_pass(void)
{
	if (sr_held.off)
		let_in();
}

/* ---- calls that are no cancellation points ---- */

static void cancel_as_before(void *window)
{
	struct sr_window *w = window;

	pthread_setcancelstate(w->held, NULL);
}

void sr_cancel_off(struct sr_window *w)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &w->held);
	_pthread_cleanup_push(&w->buffer, cancel_as_before, w);
}

void sr_cancel_on(struct sr_window *w)
{
	_pthread_cleanup_pop(&w->buffer, 1);
}

/* ---- calls with a result ---- */

#define NOT_BEGUN (-512)	/* no errno */

#if defined(__x86_64__)

#define PC(context) ((uintptr_t)(context)->uc_mcontext.gregs[REG_RIP])
__asm__(".pushsection .text\n"
	"	.globl	sr_window_call, sr_window_begin, sr_window_end\n"
	"	.hidden	sr_window_call, sr_window_begin, sr_window_end\n"
	"	.type	sr_window_call, @function\n"
	"sr_window_call:\n"
	"	.cfi_startproc\n"
	"sr_window_begin:\n"
	"	cmpb	$0, (%rdi)\n"
	"	jne	1f\n"
	"	mov	%rsi, %rax\n"
	"	mov	%rdx, %rdi\n"
	"	mov	%rcx, %rsi\n"
	"	mov	%r8, %rdx\n"
	"	mov	%r9, %r10\n"
	"	mov	8(%rsp), %r8\n"
	"	mov	16(%rsp), %r9\n"
	"	syscall\n"
	"sr_window_end:\n"
	"	ret\n"
	"1:	mov	$-512, %rax\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size	sr_window_call, . - sr_window_call\n"
	"	.popsection\n");

#elif defined(__aarch64__)

#define PC(context) ((uintptr_t)(context)->uc_mcontext.pc)
__asm__(".pushsection .text\n"
	"	.globl	sr_window_call, sr_window_begin, sr_window_end\n"
	"	.hidden	sr_window_call, sr_window_begin, sr_window_end\n"
	"	.type	sr_window_call, %function\n"
	"sr_window_call:\n"
	"	.cfi_startproc\n"
	"sr_window_begin:\n"
	"	ldrb	w9, [x0]\n"
	"	cbnz	w9, 1f\n"
	"	mov	x8, x1\n"
	"	mov	x0, x2\n"
	"	mov	x1, x3\n"
	"	mov	x2, x4\n"
	"	mov	x3, x5\n"
	"	mov	x4, x6\n"
	"	mov	x5, x7\n"
	"	svc	#0\n"
	"sr_window_end:\n"
	"	ret\n"
	"1:	mov	x0, #-512\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size	sr_window_call, . - sr_window_call\n"
	"	.popsection\n");

#else
#error "the way to a system call of this architecture"
#endif

/* Makes the system call unless *off. */
long sr_window_call(volatile bool *off, long number, long a, long b, long c,
		    long d, long e, long f);
extern const char sr_window_begin[], sr_window_end[];

bool sr_window_at(const void *context)
{
	uintptr_t pc = PC((const ucontext_t *)context);

	return pc >= (uintptr_t)sr_window_begin && pc < (uintptr_t)sr_window_end;
}

static void call_gone(void *window)
{
	sr_hold_none();
	gone(window);
}

SR_WINDOW_FRAME
long sr_window_syscall(void (*abandoned)(void *arg), void *arg,
		       const unsigned *since, long number, long a, long b, long c,
		       long d, long e, long f)
{
	struct sr_window w = { .abandoned = abandoned, .arg = arg };
	bool was;
	long r;

	_pthread_cleanup_push(&w.buffer, call_gone, &w);
	do {
		sr_signals_pass();
		if (since && sr_handled.all != *since) {
			r = -EINTR;
			break;
		}
		was = sr_async_begin();
		r = sr_window_call(&sr_held.off, number, a, b, c, d, e,
				   f);
		sr_async_end(was);
	} while (r == NOT_BEGUN);
	_pthread_cleanup_pop(&w.buffer, 0);
	return r;
}
