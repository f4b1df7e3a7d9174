/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * library.c - is the library found and loaded, and what is set?
 */
#include "config.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* The path of a library in /proc/PID/maps. */
static bool find_mapped(const char *maps, const char *name, char path[PATH_MAX])
{
	const char *at = strstr(maps, name), *from = at;

	if (!at)
		return false;
	while (from > maps && from[-1] != ' ' && from[-1] != '\n')
		from--;
	snprintf(path, PATH_MAX, "%.*s", (int)(at - from + strcspn(at, " \n")), from);
	return true;
}

/* Prints the version of the library that this program has, and what is mapped. */
int print_library(void)
{
	const char *(*version)(void);
	char line[PATH_MAX + 200];
	FILE *maps = fopen("/proc/self/maps", "re");

	*(void **)&version = dlsym(RTLD_DEFAULT, "sr_version");
	puts(version ? version() : "of unknown version");
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "/libsockrail"))
			fputs(line, stdout);
	return 0;
}

/* A program that the launcher runs shows whether it has the library. */
void check_library(struct checked *c)
{
	const char *const look[] = { c->launcher, c->self, "--echo-library", NULL };
	const char *const ask[] = { c->launcher, "--version", NULL };
	char maps[32768], version[256], *soname;
	const char *own;
	int status = run_program(maps, sizeof(maps), true, look);

	if (status || !find_mapped(maps, "/libsockrail-preload.so", c->library)) {
		maps[strcspn(maps, "\n")] = '\0';
		say(PROBLEM, "library", "programs run by %s do not have it: %s", c->launcher,
		    status ? *maps ? maps : "it cannot be run" :
			     strncmp(maps, "ERROR", 5) ? "it is not mapped" : maps);
		remedy(NULL, "Install Sockrail again (make install; ldconfig), or name the "
			     "library by SOCKRAIL_PRELOAD_LIBRARY");
		c->library[0] = '\0';
		return;
	}
	if (find_mapped(maps, "/libsockrail.so.", c->engine)) {
		soname = strrchr(c->engine, '/') + strlen("/libsockrail.so.");
		soname[strspn(soname, "0123456789")] = '\0';
	}
	run_program(version, sizeof(version), false, ask);
	version[strcspn(version, "\n")] = '\0';
	/* (A line of the library's log may come before.) */
	own = strstr(maps, PACKAGE_VERSION "\n");
	maps[strcspn(maps, "\n")] = '\0';
	if (!own || strcmp(version, PACKAGE_STRING) != 0) {
		say(PROBLEM, "library", "%s is %s, %s is %s, and this is " PACKAGE_VERSION,
		    c->library, own ? PACKAGE_VERSION : maps, c->launcher, version);
		remedy("protocol", "Install one version, and remove the other");
		return;
	}
	say(OK, "library", "%s and %s are loaded, version " PACKAGE_VERSION, c->library,
	    c->engine);
}

/* One line of --show-config: NAME=VALUE, blanks, where from. */
void check_settings(struct checked *c)
{
	const char *const ask[] = { c->launcher, "--show-config", NULL };
	char text[8192], list[900] = "", *save, *l;
	bool never = false;
	size_t n = 0;

	/* (1: there are mistakes, which it says.) */
	if (!*c->library || run_program(text, sizeof(text), true, ask) > 1)
		return;
	for (l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		if (!strncmp(l, "sockrail[", 9)) {
			say(WARNING, "settings", "%s", strchr(l, ':') + 2);
			remedy(NULL, "Mend it; until then the default holds, and the line "
				     "counts for nothing");
			continue;
		}
		never |= !strncmp(l, "UPGRADE=never", 13) || !strncmp(l, "LINKS=none", 10);
		for (; *l && n + 3 < sizeof(list); l++)
			if (*l != ' ' || l[1] != ' ')
				list[n++] = *l;
		n += (size_t)snprintf(list + n, sizeof(list) - n, "; ");
		if (n >= sizeof(list))
			n = sizeof(list) - 1;
	}
	if (n > 2)
		list[n - 2] = '\0';
	say(never ? WARNING : OK, "settings", "%s", *list ? list : "all are the defaults");
	if (never)
		remedy("never", "Streams stay plain but for rules: %s", advice("never"));
}
