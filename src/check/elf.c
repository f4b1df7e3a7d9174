/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * elf.c - what a program's file says of how it will be loaded.  The file may be anybody's:
 * nothing is read beyond its end.
 */
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "elf.h"

#define OWN_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)

struct image {
	const char *bytes;
	size_t size;
};

/* n bytes at an offset of the file, or NULL. */
static const void *at(const struct image *f, uint64_t offset, uint64_t n)
{
	return offset <= f->size && n <= f->size - offset ? f->bytes + offset : NULL;
}

/* A string there, which ends in the file; "" if not. */
static const char *string_at(const struct image *f, uint64_t offset)
{
	return offset < f->size && memchr(f->bytes + offset, 0, f->size - offset) ?
		f->bytes + offset : "";
}

static const char *interpreter(const struct image *f, const ElfW(Ehdr) *e)
{
	for (unsigned i = 0; i < e->e_phnum; i++) {
		const ElfW(Phdr) *p = at(f, e->e_phoff + i * sizeof(*p), sizeof(*p));

		if (p && p->p_type == PT_INTERP)
			return string_at(f, p->p_offset);
	}
	return NULL;
}

static const ElfW(Shdr) *section(const struct image *f, const ElfW(Ehdr) *e, unsigned i)
{
	return i < e->e_shnum ? at(f, e->e_shoff + i * sizeof(ElfW(Shdr)),
				   sizeof(ElfW(Shdr))) : NULL;
}

static bool is_go(const struct image *f, const ElfW(Ehdr) *e)
{
	const ElfW(Shdr) *names = section(f, e, e->e_shstrndx), *s;

	for (unsigned i = 0; names && i < e->e_shnum; i++) {
		const char *name;

		s = section(f, e, i);
		name = s ? string_at(f, names->sh_offset + s->sh_name) : "";
		if (!strcmp(name, ".go.buildinfo") || !strcmp(name, ".note.go.buildid"))
			return true;
	}
	return false;
}

/* Is a string that begins so among the names of what it imports? */
static bool imports(const struct image *f, const ElfW(Ehdr) *e, const char *prefix)
{
	for (unsigned i = 0; i < e->e_shnum; i++) {
		const ElfW(Shdr) *s = section(f, e, i), *names;
		const char *all;

		if (!s || s->sh_type != SHT_DYNSYM)
			continue;
		names = section(f, e, s->sh_link);
		all = names ? at(f, names->sh_offset, names->sh_size) : NULL;
		for (size_t n = 0; all && n < names->sh_size;
		     n += strnlen(all + n, names->sh_size - n) + 1)
			if (!strncmp(all + n, prefix, strlen(prefix)))
				return true;
	}
	return false;
}

enum elf_kind elf_kind(const void *bytes, size_t size)
{
	const struct image f = { bytes, size };
	const ElfW(Ehdr) *e = at(&f, 0, sizeof(*e));
	const char *loader;

	if (!e || f.bytes[EI_CLASS] != OWN_CLASS)
		return ELF_OTHER_CLASS;
	if ((e->e_phoff | e->e_shoff) % _Alignof(ElfW(Phdr)))
		return ELF_UNSOUND;
	loader = interpreter(&f, e);
	if (is_go(&f, e))
		return loader ? ELF_GO : ELF_STATIC_GO;
	if (!loader)
		return ELF_STATIC;
	if (strstr(loader, "musl"))
		return ELF_MUSL;
	return imports(&f, e, "io_uring_") || imports(&f, e, "liburing.so") ? ELF_IO_URING :
									       ELF_DYNAMIC;
}
