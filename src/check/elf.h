/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* elf.h - tells from a program's file how the program will be loaded. */
#ifndef SR_CHECK_ELF_H
#define SR_CHECK_ELF_H

#include <stddef.h>

enum elf_kind {
	ELF_DYNAMIC,		/* by glibc's dynamic linker */
	ELF_STATIC, ELF_GO, ELF_STATIC_GO, ELF_MUSL, ELF_IO_URING,
	ELF_FOREIGN,		/* loads libraries by dlmopen or RTLD_DEEPBIND */
	ELF_OTHER_CLASS,	/* for another word size */
	ELF_UNSOUND,
};

enum elf_kind elf_kind(const void *bytes, size_t size);

#endif
