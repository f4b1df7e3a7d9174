/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tail.c - the interposers of functions that look at their caller: dlopen(3) uses the RUNPATH
 * and the namespace of the object that contains its return address.  So libc's function must
 * find the program's return address there.  The interposer does its work first and then jumps
 * to libc's function.  C compilers make a jump of a call only if they optimise, so these
 * interposers are in assembler.
 *
 * NAME calls `before` with the program's arguments, three at most, and the return address as
 * the fourth; `before` returns the function to jump to.
 */
#if defined(__x86_64__)
/* The stack is a multiple of 16 at a call (System V ABI): 8 bytes of it are the return address. */
#define TAIL(name, before) \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n" \
		#name ":\n" \
		"\t.cfi_startproc\n\tendbr64\n" \
		"\tpush %rdi\n\t.cfi_adjust_cfa_offset 8\n" \
		"\tpush %rsi\n\t.cfi_adjust_cfa_offset 8\n" \
		"\tpush %rdx\n\t.cfi_adjust_cfa_offset 8\n" \
		"\tmov 24(%rsp), %rcx\n" \
		"\tcall " #before "@PLT\n" \
		"\tpop %rdx\n\t.cfi_adjust_cfa_offset -8\n" \
		"\tpop %rsi\n\t.cfi_adjust_cfa_offset -8\n" \
		"\tpop %rdi\n\t.cfi_adjust_cfa_offset -8\n" \
		"\tjmp *%rax\n\t.cfi_endproc\n.size " #name ", .-" #name "\n")
#elif defined(__aarch64__)
#define TAIL(name, before) \
	__asm__(".text\n.globl " #name "\n.type " #name ", %function\n" \
		#name ":\n" \
		"\t.cfi_startproc\n" \
		"\tstp x29, x30, [sp, #-48]!\n\t.cfi_adjust_cfa_offset 48\n" \
		"\t.cfi_rel_offset x30, 8\n" \
		"\tstp x0, x1, [sp, #16]\n" \
		"\tstr x2, [sp, #32]\n" \
		"\tmov x3, x30\n" \
		"\tbl " #before "\n" \
		"\tmov x16, x0\n" \
		"\tldr x2, [sp, #32]\n" \
		"\tldp x0, x1, [sp, #16]\n" \
		"\tldp x29, x30, [sp], #48\n\t.cfi_adjust_cfa_offset -48\n" \
		"\t.cfi_restore x30\n" \
		"\tbr x16\n\t.cfi_endproc\n.size " #name ", .-" #name "\n")
#else
#error "a jump to libc's function in the place of ours"
#endif

TAIL(dlopen, sr_before_dlopen);
TAIL(dlmopen, sr_before_dlmopen);
TAIL(dlsym, sr_before_dlsym);
TAIL(dlvsym, sr_before_dlvsym);
