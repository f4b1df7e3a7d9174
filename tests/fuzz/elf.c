/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* elf.c - a program's file, which sockrail check looks at and somebody else has made. */
#include "fuzz.h"
#include "check/elf.h"

void fuzz_elf(const uint8_t *data, size_t size)
{
	uint8_t *p = fuzz_exact(data, size);
	enum elf_kind kind = elf_kind(p, size);

	CHECK(kind >= ELF_DYNAMIC && kind <= ELF_UNSOUND);
	free(p);
}
