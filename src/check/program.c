/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * program.c - can a program be accelerated?  The program must be loaded by glibc's dynamic
 * linker, must gain no privileges, and must make its calls through the C library.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "check.h"
#include "elf.h"

#define SCRIPTS_MAX 4

static void judge_elf(const char *what, const char *path, const void *bytes, size_t size)
{
	static const char go[] = "Its streams stay on TCP; nothing can be done from outside";
	static const struct {
		enum verdict verdict;
		const char *found, *remedy;
	} kinds[] = {
		[ELF_DYNAMIC] = { OK, "is linked dynamically, for glibc", NULL },
		[ELF_STATIC] = { PROBLEM, "is static: no library can be preloaded",
				 "Use a build of it that is linked dynamically" },
		[ELF_GO] = { PROBLEM, "is a Go program: it makes its system calls itself", go },
		[ELF_STATIC_GO] = { PROBLEM, "is a Go program, and static: it makes its system "
				    "calls itself", go },
		[ELF_MUSL] = { PROBLEM, "is built for musl, not for glibc",
			       "Use a build of it for glibc" },
		[ELF_IO_URING] = { WARNING, "uses io_uring, which fails with ENOSYS under "
				   "Sockrail", "If it needs io_uring, set SOCKRAIL_IO_URING=1; "
				   "its streams then stay on TCP" },
		[ELF_FOREIGN] = { WARNING, "may load libraries whose calls bypass Sockrail "
				  "(RTLD_DEEPBIND, dlmopen)", NULL },
		[ELF_OTHER_CLASS] = { PROBLEM, "is built for another word size than the library",
				      "Use a build of it for 64 bits" },
		[ELF_UNSOUND] = { WARNING, "is not a valid ELF program", NULL },
	};
	enum elf_kind kind = elf_kind(bytes, size);

	say(kinds[kind].verdict, what, "%s %s", path, kinds[kind].found);
	if (kind == ELF_FOREIGN)
		remedy("foreign-library", "%s", advice("foreign-library"));
	if (kinds[kind].remedy)
		remedy(kind == ELF_IO_URING ? "io_uring" : NULL, "%s", kinds[kind].remedy);
}

/* A program that gains privileges when it is executed is loaded without LD_PRELOAD. */
static bool say_privileged(const char *what, const char *path)
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

/* Sets path to the interpreter of a script; if that is env(1), to the program that env runs. */
static bool script_follow(const char *script, size_t size, char path[PATH_MAX])
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

static void no_format(const char *what, const char *path)
{
	say(PROBLEM, what, "%s has no program format: neither ELF nor a script with #!", path);
}

/* Maps the file.  NULL: it cannot be a program, and a line says so. */
static const char *map_program(const char *what, const char *path, size_t *size)
{
	const char *bytes = MAP_FAILED;
	struct stat st;
	int fd;

	if (!is_executable(path)) {
		say(PROBLEM, what, "%s is not executable", path);
		return NULL;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		say(WARNING, what, "%s cannot be read: %s", path, strerror(errno));
	} else {
		*size = (size_t)st.st_size;
		if (*size >= SELFMAG)
			bytes = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (bytes == MAP_FAILED)
			no_format(what, path);
	}
	if (fd >= 0)
		close(fd);
	return bytes == MAP_FAILED ? NULL : bytes;
}

void judge_program(const char *what, const char *command)
{
	char path[PATH_MAX], script[PATH_MAX];

	snprintf(path, sizeof(path), "%s", command);
	for (int i = 0; i < SCRIPTS_MAX; i++) {
		size_t size;
		const char *bytes = map_program(what, path, &size);
		bool on = false;

		if (!bytes)
			return;
		if (!memcmp(bytes, "#!", 2)) {
			strcpy(script, path);
			on = script_follow(bytes, size - 2, path);
			if (!on)
				say(WARNING, what, "%s: its interpreter is not found", script);
		} else if (!say_privileged(what, path)) {
			if (!memcmp(bytes, ELFMAG, SELFMAG))
				judge_elf(what, path, bytes, size);
			else
				no_format(what, path);
		}
		munmap((void *)bytes, size);
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
	if (!find_command(path, c->command) && access(path, F_OK))
		refuse("%s: %s", c->command, strerror(errno));
	c->command = path;
}

void check_command(struct checked *c)
{
	if (c->command)
		judge_program("command", c->command);
}
