/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tail.c - the interposers of functions that look at their caller: dlopen(3) uses the RUNPATH
 * and the namespace of the object that contains its return address.  So libc's function must
 * find the program's return address there.  The interposer does its work first and then jumps
 * to libc's function.  C compilers make a jump of a call only if they optimise, so these
 * interposers are in assembler.
 *
 * NAME calls `before` with the program's arguments, three at most, and the return address as
 * the fourth; `before` returns the function to jump to.  BODY() is what that takes on a
 * processor; its arguments are the two names, as strings.
 */
#if defined(__x86_64__)
/* The stack is a multiple of 16 at a call (System V ABI): 8 bytes of it are the return address. */
#define BODY(name, before) \
	"\tendbr64\n" \
	"\tpush %rdi\n\t.cfi_adjust_cfa_offset 8\n" \
	"\tpush %rsi\n\t.cfi_adjust_cfa_offset 8\n" \
	"\tpush %rdx\n\t.cfi_adjust_cfa_offset 8\n" \
	"\tmov 24(%rsp), %rcx\n" \
	"\tcall " before "@PLT\n" \
	"\tpop %rdx\n\t.cfi_adjust_cfa_offset -8\n" \
	"\tpop %rsi\n\t.cfi_adjust_cfa_offset -8\n" \
	"\tpop %rdi\n\t.cfi_adjust_cfa_offset -8\n" \
	"\tjmp *%rax\n"
#elif defined(__aarch64__)
#define BODY(name, before) \
	"\tstp x29, x30, [sp, #-48]!\n\t.cfi_adjust_cfa_offset 48\n" \
	"\t.cfi_rel_offset x30, 8\n" \
	"\tstp x0, x1, [sp, #16]\n" \
	"\tstr x2, [sp, #32]\n" \
	"\tmov x3, x30\n" \
	"\tbl " before "\n" \
	"\tmov x16, x0\n" \
	"\tldr x2, [sp, #32]\n" \
	"\tldp x0, x1, [sp, #16]\n" \
	"\tldp x29, x30, [sp], #48\n\t.cfi_adjust_cfa_offset -48\n" \
	"\t.cfi_restore x30\n" \
	"\tbr x16\n"
#elif defined(__riscv) && __riscv_xlen == 64
#define BODY(name, before) \
	"\taddi sp, sp, -32\n\t.cfi_adjust_cfa_offset 32\n" \
	"\tsd ra, 24(sp)\n\t.cfi_rel_offset ra, 24\n" \
	"\tsd a0, 0(sp)\n\tsd a1, 8(sp)\n\tsd a2, 16(sp)\n" \
	"\tmv a3, ra\n" \
	"\tcall " before "\n" \
	"\tmv t1, a0\n" \
	"\tld a0, 0(sp)\n\tld a1, 8(sp)\n\tld a2, 16(sp)\n" \
	"\tld ra, 24(sp)\n\t.cfi_restore ra\n" \
	"\taddi sp, sp, 32\n\t.cfi_adjust_cfa_offset -32\n" \
	"\tjr t1\n"
#elif defined(__s390x__)
/* The caller's frame has room for the arguments and the return address (ELF ABI, 160 bytes). */
#define BODY(name, before) \
	"\tstmg %r2, %r4, 16(%r15)\n" \
	"\tstg %r14, 112(%r15)\n\t.cfi_offset %r14, -48\n" \
	"\tlgr %r5, %r14\n" \
	"\taghi %r15, -160\n\t.cfi_adjust_cfa_offset 160\n" \
	"\tbrasl %r14, " before "\n" \
	"\tlgr %r1, %r2\n" \
	"\taghi %r15, 160\n\t.cfi_adjust_cfa_offset -160\n" \
	"\tlg %r14, 112(%r15)\n\t.cfi_restore %r14\n" \
	"\tlmg %r2, %r4, 16(%r15)\n" \
	"\tbr %r1\n"
#elif defined(__powerpc64__) && _CALL_ELF == 2
/* A function finds its table of contents (r2) by its own address, which is in r12. */
#define BODY(name, before) \
	"0:\taddis 2, 12, (.TOC.-0b)@ha\n\taddi 2, 2, (.TOC.-0b)@l\n" \
	"\t.localentry " name ", .-" name "\n" \
	"\tmflr 0\n\tstd 0, 16(1)\n\t.cfi_offset 65, 16\n" \
	"\tstdu 1, -64(1)\n\t.cfi_adjust_cfa_offset 64\n" \
	"\tstd 3, 32(1)\n\tstd 4, 40(1)\n\tstd 5, 48(1)\n" \
	"\tmr 6, 0\n" \
	"\tbl " before "\n\tnop\n" \
	"\tmr 12, 3\n\tmtctr 12\n" \
	"\tld 3, 32(1)\n\tld 4, 40(1)\n\tld 5, 48(1)\n" \
	"\taddi 1, 1, 64\n\t.cfi_adjust_cfa_offset -64\n" \
	"\tld 0, 16(1)\n\tmtlr 0\n\t.cfi_restore 65\n" \
	"\tbctr\n"
#else
#error "a jump to libc's function in the place of ours"
#endif

#define TAIL(name, before) \
	__asm__(".text\n.globl " #name "\n.type " #name ", %function\n" \
		#name ":\n\t.cfi_startproc\n" \
		BODY(#name, #before) \
		"\t.cfi_endproc\n.size " #name ", .-" #name "\n")

TAIL(dlopen, sr_before_dlopen);
TAIL(dlmopen, sr_before_dlmopen);
TAIL(dlsym, sr_before_dlsym);
TAIL(dlvsym, sr_before_dlvsym);
