/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * program.c - can a program be accelerated?  It must be loaded by glibc's dynamic
 * linker, must gain no privileges, and must make its calls through the C library.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "check.h"

#define SCRIPTS_MAX 4
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

static void judge_elf(const char *what, const char *path, const struct image *f)
{
	const ElfW(Ehdr) *e = at(f, 0, sizeof(*e));
	const char *loader;
	bool go;

	if (!e || f->bytes[EI_CLASS] != OWN_CLASS) {
		say(PROBLEM, what, "%s is built for another word size than the library", path);
		remedy(NULL, "Use a build of it for %d bits", (int)sizeof(void *) * 8);
		return;
	}
	if ((e->e_phoff | e->e_shoff) % _Alignof(ElfW(Phdr))) {
		say(WARNING, what, "%s is no sound ELF program", path);
		return;
	}
	loader = interpreter(f, e);
	go = is_go(f, e);
	if (go) {
		say(PROBLEM, what, "%s is a Go program%s: it makes its system calls itself", path,
		    loader ? "" : ", and static");
		remedy(NULL, "Its streams stay on TCP; nothing can be done from outside");
	} else if (!loader) {
		say(PROBLEM, what, "%s is static: no library can be preloaded", path);
		remedy(NULL, "Use a build of it that is linked dynamically");
	} else if (strstr(loader, "musl")) {
		say(PROBLEM, what, "%s is built for musl, not for glibc", path);
		remedy(NULL, "Use a build of it for glibc");
	} else if (imports(f, e, "io_uring_") || imports(f, e, "liburing.so")) {
		say(WARNING, what, "%s uses io_uring, which fails with ENOSYS under Sockrail", path);
		remedy("io_uring", "If it cannot do without, SOCKRAIL_IO_URING=1 lets it, and its "
				   "streams stay on TCP");
	} else {
		say(OK, what, "%s is linked dynamically, for glibc", path);
	}
}

/* Who gains privileges by being executed is loaded without LD_PRELOAD. */
static bool privileged(const char *what, const char *path)
{
	const char *how = NULL;
	struct stat st;

	if (stat(path, &st))
		return false;
	if (st.st_mode & S_ISUID && st.st_uid != geteuid())
		how = "setuid";
	else if (st.st_mode & S_ISGID && st.st_gid != getegid())
		how = "setgid";
	else if (getxattr(path, "security.capability", NULL, 0) > 0)
		how = "executed with file capabilities (getcap)";
	if (!how)
		return false;
	say(PROBLEM, what, "%s is %s: the library is not preloaded", path, how);
	remedy(NULL, "Run it as the user itself, for example by a unit with User= and "
		     "AmbientCapabilities=");
	return true;
}

/* The interpreter of a script, in path; with env(1), the program that it names. */
static bool follow(const char *script, size_t size, char path[PATH_MAX])
{
	char line[512], *word, *save;

	snprintf(line, sizeof(line), "%.*s", size > 500 ? 500 : (int)size, script + 2);
	line[strcspn(line, "\n")] = '\0';
	word = strtok_r(line, " \t", &save);
	if (word && strlen(word) >= 4 && !strcmp(word + strlen(word) - 4, "/env"))
		do
			word = strtok_r(NULL, " \t", &save);
		while (word && (*word == '-' || strchr(word, '=')));
	return word && find_command(path, word);
}

void judge_program(const char *what, const char *command)
{
	char path[PATH_MAX], script[PATH_MAX];

	snprintf(path, sizeof(path), "%s", command);
	for (int i = 0; i < SCRIPTS_MAX; i++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		struct image f = { NULL, 0 };
		struct stat st;
		bool on = false;

		if (fd < 0 || fstat(fd, &st) || st.st_size < 4 ||
		    (f.bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd,
				    0)) == MAP_FAILED) {
			say(WARNING, what, "%s cannot be read: %s", path, strerror(errno));
			close(fd);
			return;
		}
		f.size = (size_t)st.st_size;
		close(fd);
		if (!memcmp(f.bytes, "#!", 2)) {
			strcpy(script, path);
			on = follow(f.bytes, f.size - 2, path);
			if (!on)
				say(WARNING, what, "%s: its interpreter is not found", script);
		} else if (!privileged(what, path)) {
			if (!memcmp(f.bytes, ELFMAG, SELFMAG))
				judge_elf(what, path, &f);
			else
				say(WARNING, what, "%s is no ELF program", path);
		}
		munmap((void *)f.bytes, f.size);
		if (!on)
			return;
	}
	say(WARNING, what, "%s: too many interpreters", path);
}

void find_program(struct checked *c)
{
	static char path[PATH_MAX];

	if (!c->command)
		return;
	if (!find_command(path, c->command))
		refuse("%s: no such command", c->command);
	c->command = path;
}

void check_command(struct checked *c)
{
	if (c->command)
		judge_program("command", c->command);
}
