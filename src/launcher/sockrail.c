/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sockrail.c - the command: runs a program with the library preloaded.
 *
 * It sets environment variables and becomes the program; with --require it becomes
 * the program's parent.  It is not linked to the library, and knows nothing of what
 * the library does.
 */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher.h"

#define LIBRARY "libsockrail.so.0"

/* If the library was built with a sanitizer, its runtime has to be preloaded, too, because the
 * programs were not. */
#ifdef SANITIZER_RUNTIME
#define ALSO ":" SANITIZER_RUNTIME
#else
#define ALSO ""
#endif

static const struct {
	const char *name; /* without SOCKRAIL_ */
	const char *def, *text;
} knobs[] = {
#define SR_KNOB(name, kind, field, def, text) {#name, def, text},
#include "knobs.def"
#undef SR_KNOB
};

static void launcher_usage(FILE *to)
{
	fputs("Usage: sockrail [OPTION]... COMMAND [ARGUMENT]...\n"
	      "       sockrail [OPTION]... --show-config\n"
	      "       sockrail [OPTION]... check [ARGUMENT]...  (see sockrail-check(1))\n"
	      "Runs COMMAND; its TCP streams go over RDMA or shared memory "
	      "where they can.\n\n"
	      "  -s, --set KNOB=VALUE  set a knob; see sockrail(7)\n"
	      "  -p, --profile NAME    latency, throughput, memory, safe, or a file\n"
	      "  -r, --require[=KIND]  status 3 if bytes went by TCP; KIND: link, verbs, shm\n"
	      "  -c, --show-config     print what is set, and where\n"
	      "  -h, --help            print this\n"
	      "  -V, --version         print the version\n\n"
	      "Knobs, also settable as SOCKRAIL_KNOB in the environment, and [their defaults]:\n",
	      to);
	for (size_t i = 0; i < sizeof(knobs) / sizeof(knobs[0]); i++)
		fprintf(to, knobs[i].def[0] ? "  %-15s %s [%s]\n" : "  %-15s %s\n",
			knobs[i].name, knobs[i].text, knobs[i].def);
}

/* The names of the knobs that -s has set, for --show-config. */
static char names_set[512];

/* Puts knob=value, in either case, into the environment.  Refuses a name that the
 * library does not know, because it is probably misspelt. */
static bool set_knob(const char *arg)
{
	const char *eq = strchr(arg, '=');
	size_t len = eq ? (size_t)(eq - arg) : strlen(arg);
	char name[64];

	for (size_t i = 0; i < sizeof(knobs) / sizeof(knobs[0]); i++) {
		if (strncasecmp(knobs[i].name, arg, len) ||
		    knobs[i].name[len])
			continue;
		if (!eq) {
			fprintf(stderr, "sockrail: -s %s: no value\n", arg);
			return false;
		}
		snprintf(name, sizeof(name), "SOCKRAIL_%s", knobs[i].name);
		if (strlen(names_set) + len + 2 < sizeof(names_set))
			strcat(strcat(names_set, knobs[i].name), " ");
		return !setenv(name, eq + 1, 1);
	}
	fprintf(stderr, "sockrail: -s %s: no such knob; see sockrail --help\n", arg);
	return false;
}

/* The path of a file in this program's directory; "" if /proc does not tell that directory. */
static void path_beside(char path[PATH_MAX], const char *name)
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);

	while (n > 0 && path[n - 1] != '/')
		n--;
	if (n <= 0 || (size_t)n + strlen(name) >= PATH_MAX)
		*path = '\0';
	else
		strcpy(path + n, name);
}

/* The library of the build tree if this is the command of a build tree; else the
 * installed one. */
static const char *find_library(char buf[PATH_MAX])
{
	const char *given = getenv("SOCKRAIL_PRELOAD_LIBRARY");

	if (given && *given)
		return given;
	path_beside(buf, ".libs/" LIBRARY);
	return !access(buf, F_OK) ? buf : LIBRARY_DIR "/" LIBRARY;
}

/* ThreadSanitizer sees some accesses of the library (those by memcpy(3)), but not its locks.  So
 * this sets the option by which it ignores code that was not compiled with it, such as the
 * library's, unless the user has set that option. */
static bool quiet_tsan(void)
{
	const char *old = getenv("TSAN_OPTIONS"), *flag = "ignore_noninstrumented_modules";
	char *value;
	bool ok;

	if (old && strstr(old, flag))
		return true;
	if (asprintf(&value, "%s=1%s%s", flag, old ? ":" : "", old ?: "") < 0)
		return false;
	ok = !setenv("TSAN_OPTIONS", value, 1);
	free(value);
	return ok;
}

static bool set_preload(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	size_t len = strlen(library);
	char *value;
	bool ok;

	if (!old)
		old = "";
	/* The library is there already if a sockrail has run this one.  (strchr() also finds the
	 * final 0 of old.) */
	if (!strncmp(old, library, len) && strchr(": ", old[len]))
		return true;
	if (*ALSO)
		setenv("ASAN_OPTIONS",
		       "verify_asan_link_order=0:detect_leaks=0", 0);
	if (asprintf(&value, "%s" ALSO "%s%s", library, *old ? ":" : "", old) <
	    0)
		return false;
	ok = !setenv("LD_PRELOAD", value, 1) && quiet_tsan();
	free(value);
	return ok;
}

/* Sets the profile: that of the build tree if this is the command of a build tree; else the
 * library finds it by its name. */
static bool set_profile(const char *name)
{
	char path[PATH_MAX] = "", file[64], arg[PATH_MAX + 16];
	bool is_file = strchr(name, '/');

	if (!is_file && strlen(name) < 32) {
		snprintf(file, sizeof(file), "profiles/%s.conf", name);
		path_beside(path, file);
		if (!access(path, R_OK)) {
			snprintf(arg, sizeof(arg), "PROFILE=%s", path);
			return set_knob(arg);
		}
	}
	snprintf(path, sizeof(path), is_file ? "%s" : PROFILE_DIR "/%s.conf", name);
	if (access(path, R_OK)) {
		fprintf(stderr, "sockrail: -p %s: %s: %s\n", name, path, strerror(errno));
		return false;
	}
	snprintf(arg, sizeof(arg), "PROFILE=%s", name);
	return set_knob(arg);
}

int launcher_exec(char **command)
{
	int err;

	execvp(command[0], command);
	err = errno;
	fprintf(stderr, "sockrail: %s: %s\n", command[0], strerror(err));
	return err == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
}

/* Runs a program that does nothing, in which the library prints the settings.  Mistakes are the
 * warnings that the library logs. */
static int show_config(void)
{
	char name[] = "true", *command[] = { name, NULL }, *line = NULL;
	int said[2], status;
	bool mistake = false;
	size_t size = 0;
	FILE *from;
	pid_t child;

	setenv("SOCKRAIL_SHOW_CONFIG", names_set, 1);
	if (pipe(said) || !(from = fdopen(said[0], "r")) || (child = fork()) < 0) {
		perror("sockrail");
		return EXIT_SELF;
	}
	if (!child) {
		dup2(said[1], STDERR_FILENO);
		close(said[0]);
		close(said[1]);
		_exit(launcher_exec(command));
	}
	close(said[1]);
	while (getline(&line, &size, from) > 0) {
		mistake |= strstr(line, "] warn: ") || strstr(line, "] error: ");
		fputs(line, stderr);
	}
	free(line);
	fclose(from);
	if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status))
		return EXIT_SELF;
	return mistake ? EXIT_MISTAKE : WEXITSTATUS(status);
}

/* sockrail-check is beside this program. */
static int check_exec(char **argv)
{
	char path[PATH_MAX], name[] = "sockrail-check";

	path_beside(path, name);
	argv[0] = *path ? path : name;
	return launcher_exec(argv);
}

static const struct option options[] = {
	{"set", required_argument, NULL, 's'},
	{"profile", required_argument, NULL, 'p'},
	{"require", optional_argument, NULL, 'r'},
	{"show-config", no_argument, NULL, 'c'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

/* Returns -1, or the exit status. */
static int take_launcher_options(int argc, char **argv, const char **require, bool *show)
{
	int c;

	while ((c = getopt_long(argc, argv, "+s:p:r::chV", options, NULL)) != -1) {
		switch (c) {
		case 's':
			if (!set_knob(optarg))
				return EXIT_SELF;
			break;
		case 'p':
			if (!set_profile(optarg))
				return EXIT_SELF;
			break;
		case 'r':
			*require = optarg ? optarg : "link";
			break;
		case 'c':
			*show = true;
			break;
		case 'h':
			launcher_usage(stdout);
			return 0;
		case 'V':
			puts(PACKAGE_STRING);
			return 0;
		default:
			fputs("Try 'sockrail --help'.\n", stderr);
			return EXIT_SELF;
		}
	}
	return -1;
}

/* False: it failed, and a message says why. */
static bool load_library(void)
{
	char buf[PATH_MAX];
	const char *library = find_library(buf);

	if (access(library, R_OK))
		fprintf(stderr, "sockrail: %s: %s\n", library, strerror(errno));
	else if (strpbrk(library, ": "))
		fprintf(stderr, "sockrail: %s: LD_PRELOAD allows no space and "
				"no colon in a path\n", library);
	else if (!set_preload(library))
		perror("sockrail");
	else
		return true;
	return false;
}

int main(int argc, char **argv)
{
	const char *require = getenv("SOCKRAIL_REQUIRE");
	bool show = false;
	int status;

	if (require && !*require)	/* as with knobs: not set */
		require = NULL;
	status = take_launcher_options(argc, argv, &require, &show);
	if (status >= 0)
		return status;
	if (show && optind < argc) {
		fputs("sockrail: --show-config runs no command\n", stderr);
		return EXIT_SELF;
	}
	if (optind == argc && !show) {
		launcher_usage(stderr);
		return EXIT_SELF;
	}
	if (!show && !strcmp(argv[optind], "check") && strcmp(argv[optind - 1], "--") != 0)
		return check_exec(argv + optind);
	if (require && !require_known(require)) {
		fprintf(stderr, "sockrail: --require=%s: not link, verbs or shm\n", require);
		return EXIT_SELF;
	}
	if (!load_library())
		return EXIT_SELF;
	if (show)
		return show_config();
	if (!require)
		return launcher_exec(argv + optind);
	/* In the other policies each stream's first bytes go by TCP. */
	setenv("SOCKRAIL_UPGRADE", "wait", 0);
	return require_run(require, argv + optind);
}
