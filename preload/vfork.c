/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * vfork.c - whoever lends a child this process's memory says so before: then
 * getpid(2) has to tell the two apart (src/base/process.h).
 *
 * vfork(2) returns twice, on the caller's stack, so nothing of ours may be on it: we
 * jump.  The same goes for clone(2), which then need not be variadic here.  The C
 * library's own children (posix_spawn(3), system(3)) do nothing by way of us.
 */
#include "sockrail.h"

/* The sanitizers have interposers of their own, which look after the stack. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
	!defined(__SANITIZE_THREAD__)

/* The arguments' registers are kept, and the stack is aligned at the call. */
#define STUB(name, real)                                                       \
	__asm__(".text\n"                                                      \
		".globl " name "\n"                                            \
		".type " name ", @function\n"                                  \
		name ":\n"                                                     \
		"	endbr64\n"                                             \
		"	pushq %rdi\n"                                          \
		"	pushq %rsi\n"                                          \
		"	pushq %rdx\n"                                          \
		"	pushq %rcx\n"                                          \
		"	pushq %r8\n"                                           \
		"	pushq %r9\n"                                           \
		"	subq $8, %rsp\n"                                       \
		"	call sr_process_lends@PLT\n"                           \
		"	addq $8, %rsp\n"                                       \
		"	popq %r9\n"                                            \
		"	popq %r8\n"                                            \
		"	popq %rcx\n"                                           \
		"	popq %rdx\n"                                           \
		"	popq %rsi\n"                                           \
		"	popq %rdi\n"                                           \
		"	jmp *" real "@GOTPCREL(%rip)\n"                        \
		".size " name ", .-" name "\n")

STUB("vfork", "__vfork");
STUB("clone", "__clone");

__attribute__((constructor)) static void begin(void)
{
	sr_process_told();
}

#endif
