/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * elf.c - tells from a program's file how the program will be loaded.  The file is not
 * trusted: nothing is read beyond its end, and no byte more than a few times.
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
static const void *image_at(const struct image *f, uint64_t offset, uint64_t n)
{
	return offset <= f->size && n <= f->size - offset ? f->bytes + offset : NULL;
}

/* Is the string at this offset?  whole: with its final 0, so that it is not the beginning of a
 * longer one. */
static bool is_at(const struct image *f, uint64_t offset, const char *s, bool whole)
{
	size_t n = strlen(s) + whole;
	const void *there = image_at(f, offset, n);

	return there && !memcmp(there, s, n);
}

static bool is_musl(const struct image *f, const ElfW(Phdr) *p)
{
	const char *loader = image_at(f, p->p_offset, p->p_filesz);

	return loader && memmem(loader, p->p_filesz, "musl", 4);
}

/* The segment that names the dynamic linker, or NULL. */
static const ElfW(Phdr) *interpreter_of(const struct image *f, const ElfW(Ehdr) *e)
{
	for (unsigned i = 0; i < e->e_phnum; i++) {
		const ElfW(Phdr) *p = image_at(f, e->e_phoff + i * sizeof(*p), sizeof(*p));

		if (p && p->p_type == PT_INTERP)
			return p;
	}
	return NULL;
}

static const ElfW(Shdr) *section_of(const struct image *f, const ElfW(Ehdr) *e, unsigned i)
{
	return i < e->e_shnum ? image_at(f, e->e_shoff + i * sizeof(ElfW(Shdr)),
					 sizeof(ElfW(Shdr))) : NULL;
}

static bool is_go(const struct image *f, const ElfW(Ehdr) *e)
{
	const ElfW(Shdr) *names = section_of(f, e, e->e_shstrndx), *s;

	for (unsigned i = 0; names && i < e->e_shnum; i++) {
		s = section_of(f, e, i);
		if (s && (is_at(f, names->sh_offset + s->sh_name, ".go.buildinfo", true) ||
			  is_at(f, names->sh_offset + s->sh_name, ".note.go.buildid", true)))
			return true;
	}
	return false;
}

/* A program is of this kind if it has one of these names among its dynamic symbols or its
 * libraries. */
static const struct {
	const char *name;
	bool whole;		/* false: the name begins with this */
	enum elf_kind kind;
} telling[] = {
	{ "io_uring_", false, ELF_IO_URING },
	{ "liburing.so", false, ELF_IO_URING },
	{ "dlmopen", true, ELF_FOREIGN },
	{ "php_load_extension", true, ELF_FOREIGN },	/* PHP's own: RTLD_DEEPBIND */
};

static enum elf_kind kind_by_names(const struct image *f, uint64_t offset, uint64_t size)
{
	const char *names = image_at(f, offset, size);

	for (uint64_t n = 0; names && n < size; n += strnlen(names + n, size - n) + 1)
		for (size_t i = 0; i < sizeof(telling) / sizeof(telling[0]); i++)
			if (is_at(f, offset + n, telling[i].name, telling[i].whole))
				return telling[i].kind;
	return ELF_DYNAMIC;
}

/* What its dynamic symbols tell of it. */
static enum elf_kind dynamic_kind(const struct image *f, const ElfW(Ehdr) *e)
{
	for (unsigned i = 0; i < e->e_shnum; i++) {
		const ElfW(Shdr) *s = section_of(f, e, i), *names;

		if (!s || s->sh_type != SHT_DYNSYM)
			continue;
		names = section_of(f, e, s->sh_link);	/* a file has one SHT_DYNSYM at most */
		return names ? kind_by_names(f, names->sh_offset, names->sh_size) : ELF_DYNAMIC;
	}
	return ELF_DYNAMIC;
}

enum elf_kind elf_kind(const void *bytes, size_t size)
{
	const struct image f = { bytes, size };
	const ElfW(Ehdr) *e = image_at(&f, 0, sizeof(*e));
	const ElfW(Phdr) *loader;

	if (!e || f.bytes[EI_CLASS] != OWN_CLASS)
		return ELF_OTHER_CLASS;
	if ((e->e_phoff | e->e_shoff) % _Alignof(ElfW(Phdr)))
		return ELF_UNSOUND;
	loader = interpreter_of(&f, e);
	if (is_go(&f, e))
		return loader ? ELF_GO : ELF_STATIC_GO;
	if (!loader)
		return ELF_STATIC;
	if (is_musl(&f, loader))
		return ELF_MUSL;
	return dynamic_kind(&f, e);
}
