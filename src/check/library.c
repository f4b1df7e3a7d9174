/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * library.c - is the library found and loaded, and what is set?
 */
#include "config.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define SR_CALL(family, ret, name, params, args)
#include "calls.def"
#undef SR_CALL

#define LOADED "loaded: " /* version, a blank, and the path by which it was loaded */

/* Prints which library this program has. */
int print_library(void)
{
	void *version = dlsym(RTLD_DEFAULT, "sr_version");
	Dl_info info;

	if (version && dladdr(version, &info))
		printf(LOADED "%s %s\n", ((const char *(*)(void))version)(), info.dli_fname);
	return 0;
}

/* Lets the launcher run this program, which then says which library it has. */
void check_library(struct checked *c)
{
	const char *const look[] = { c->launcher, c->self, "--echo-library", NULL };
	const char *const ask[] = { c->launcher, "--version", NULL };
	char text[PATH_MAX + 4096], version[256], *own;
	int status = run_program(text, sizeof(text), true, look);

	/* (A line of the library's log may come before.) */
	own = strstr(text, LOADED);
	if (status || !own || sscanf(own, LOADED "%255s %4095[^\n]", version, c->library) != 2) {
		text[strcspn(text, "\n")] = '\0';
		say(PROBLEM, "library", "not loaded into programs run by %s: %s", c->launcher,
		    status ? *text ? text : "it cannot be run" :
			     strncmp(text, "ERROR", 5) ? "the dynamic linker reports no error" : text);
		remedy(NULL, "Install Sockrail again (make install; ldconfig), or name the "
			     "library by SOCKRAIL_PRELOAD_LIBRARY");
		c->library[0] = '\0';
		return;
	}
	run_program(text, sizeof(text), false, ask);
	text[strcspn(text, "\n")] = '\0';
	if (strcmp(version, PACKAGE_VERSION) != 0 || strcmp(text, PACKAGE_STRING) != 0) {
		say(PROBLEM, "library", "versions differ: %s is %s, %s is %s, and this is " PACKAGE_VERSION,
		    c->library, version, c->launcher, text);
		remedy("protocol", "Install one version, and remove the other");
		return;
	}
	say(OK, "library", "%s is loaded, version " PACKAGE_VERSION, c->library);
}

/* A newer C library may have calls that calls.def does not list. */
void check_libc(struct checked *c)
{
	const char *version = gnu_get_libc_version();

	(void)c;
	if (strverscmp(version, SR_CALLS_GLIBC) <= 0) {
		say(OK, "libc", "glibc %s; its calls are known up to " SR_CALLS_GLIBC, version);
		return;
	}
	say(WARNING, "libc", "glibc %s is newer than " SR_CALLS_GLIBC ", the last version whose calls are "
			     "known: a stream on which a program makes a newer call may be reset", version);
	remedy("counters", "Install a newer Sockrail. Streams that are reset are named in the log, with the reason");
}

/* MLX5_SINGLE_THREADED promises libmlx5 that only one thread uses the device, so that it takes no
 * locks. */
static void check_mlx5_locks(void)
{
	const char *value = getenv("MLX5_SINGLE_THREADED");

	if (!value || strcmp(value, "1"))
		return;
	say(PROBLEM, "environment", "MLX5_SINGLE_THREADED is 1, but Sockrail uses the device in "
				    "several threads");
	remedy(NULL, "Unset it, or leave out verbs (SOCKRAIL_LINKS=shm)");
}

/* What other checks want to know of the settings. */
static void note_setting(struct checked *c, const char *setting)
{
	c->never |= !strncmp(setting, "UPGRADE=never", 13);
	c->not_lazy |= !strncmp(setting, "UPGRADE=", 8) && strncmp(setting + 8, "lazy ", 5) != 0;
	sscanf(setting, "TOS=%u", &c->tos);
	sscanf(setting, "DIR=%63s", c->dir);
}

/* Each line of --show-config is NAME=VALUE, blanks, and where that was set. */
void check_settings(struct checked *c)
{
	const char *const ask[] = { c->launcher, "--show-config", NULL };
	char text[8192], list[900] = "", *save, *l;
	bool none = false;
	size_t n = 0;

	/* Status 1: there are mistakes, which are in its output. */
	if (!*c->library || run_program(text, sizeof(text), true, ask) > 1)
		return;
	for (l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		if (!strncmp(l, "sockrail[", 9)) {
			say(WARNING, "settings", "%s", strchr(l, ':') + 2);
			remedy(NULL, "Correct it; until then the line is ignored and the "
				     "default used");
			continue;
		}
		none |= !strncmp(l, "LINKS=none", 10);
		note_setting(c, l);
		for (; *l && n + 3 < sizeof(list); l++)
			if (*l != ' ' || l[1] != ' ')
				list[n++] = *l;
		n += (size_t)snprintf(list + n, sizeof(list) - n, "; ");
		if (n >= sizeof(list))
			n = sizeof(list) - 1;
	}
	if (n > 2)
		list[n - 2] = '\0';
	say(c->never || none ? WARNING : OK, "settings", "%s", *list ? list : "all knobs have their defaults");
	if (c->never || none)
		remedy("never", "Streams stay plain, except those that rules name: %s", advice("never"));
	check_mlx5_locks();
}
