/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * unit.c - the directives of a systemd unit that prevent links, and a drop-in that
 * changes them.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "unit.h"

#define DEFAULT_MEMLOCK (8ull << 20)	/* DefaultLimitMEMLOCK= of systemd-system.conf(5) */
#define DEFAULT_NOFILE 1024ull

struct looking {
	const struct checked *c;
	struct unit u;
	char dropin[2000];
};

/* What to do about the line, as remedy() does, by a line for the drop-in. */
__attribute__((format(printf, 3, 4)))
static void unit_remedy(struct looking *l, const char *reason, const char *fmt, ...)
{
	size_t n = strlen(l->dropin);
	char text[600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	remedy(reason, "Drop-in: %s", text);
	snprintf(l->dropin + n, sizeof(l->dropin) - n, "%s\n", text);
}

/* ---- devices and namespaces ---- */

static enum verdict without_rdma(void)
{
	return have_device() ? PROBLEM : WARNING;
}

static void judge_devices(struct looking *l)
{
	const char *policy = unit_value(&l->u, "DevicePolicy");
	bool closed = !strcmp(policy, "strict") || !strcmp(policy, "closed") ||
		      *unit_value(&l->u, "DeviceAllow");

	if (unit_yes(&l->u, "PrivateDevices")) {
		say(without_rdma(), "PrivateDevices=", "hides /dev/infiniband: no RDMA");
		unit_remedy(l, "no-device", "PrivateDevices=no");
	}
	if (closed && unit_covers(&l->u, "DeviceAllow", "/dev/infiniband/rdma_cm") < 0) {
		say(without_rdma(), "DevicePolicy=, DeviceAllow=",
		    "RDMA devices are not among the allowed ones");
		unit_remedy(l, "no-device", "DeviceAllow=char-infiniband_verbs rw\n"
				     "DeviceAllow=/dev/infiniband/rdma_cm rw");
	}
}

static void judge_namespaces(struct looking *l)
{
	const char *user = unit_value(&l->u, "User");

	if (unit_yes(&l->u, "PrivateUsers")) {
		say(PROBLEM, "PrivateUsers=", "the unit sees other users as nobody: no shared "
			"memory with their programs");
		unit_remedy(l, "user", "PrivateUsers=no");
	}
	if (unit_yes(&l->u, "PrivateNetwork")) {
		say(PROBLEM, "PrivateNetwork=", "the unit has no network, for TCP or for links");
		unit_remedy(l, "no-match", "PrivateNetwork=no");
	}
	if (!strcmp(user, "nobody") || !strcmp(user, "65534")) {
		say(PROBLEM, "User=", "the user nobody cannot use shared memory");
		unit_remedy(l, "user", "DynamicUser=yes\nUser=sockrail-service");
	}
}

/* ---- calls ---- */

static void judge_families(struct looking *l)
{
	static const struct {
		const char *family, *reason, *text;
	} need[] = {
		{ "AF_NETLINK", "no-match", "forbids AF_NETLINK (sock_diag): no shared memory" },
		{ "AF_UNIX", "memory", "forbids AF_UNIX: no shared memory" },
	};

	for (int i = 0; i < 2; i++) {
		if (unit_allows(&l->u, "RestrictAddressFamilies", need[i].family))
			continue;
		say(PROBLEM, "RestrictAddressFamilies=", "%s", need[i].text);
		unit_remedy(l, need[i].reason, "RestrictAddressFamilies=%s", need[i].family);
	}
}

/* System calls that the library makes and that not every program makes, each with the groups
 * of systemd.exec(5) that include it (systemd-analyze syscall-filter). */
static const char *const calls[] = {
	"memfd_create @ipc @system-service @known",
	"ftruncate @file-system @system-service @known",
	"fstatfs @file-system @system-service @known",
	"inotify_init1 @file-system @system-service @known",
	"socket @network-io @system-service @known",
	"bind @network-io @system-service @known",
	"sendmsg @network-io @system-service @known",
	"recvmsg @network-io @system-service @known",
	"getsockopt @network-io @system-service @known",
	"clone3 @process @system-service @known",
	"prctl @process @system-service @known",
	"epoll_ctl @io-event @system-service @known",
	"epoll_wait @io-event @system-service @known",
	"eventfd2 @io-event @system-service @known",
	"ppoll @io-event @system-service @known",
	"rt_sigpending @signal @system-service @known",
	"madvise @system-service @known",
	"ioctl @system-service @known",
};

static void judge_calls(struct looking *l)
{
	char missing[400] = "";
	const char *set = unit_value(&l->u, "SystemCallFilter");

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		size_t n = strlen(missing);

		if (!unit_allows(&l->u, "SystemCallFilter", calls[i]))
			snprintf(missing + n, sizeof(missing) - n, "%s%.*s", n ? " " : "",
				 (int)strcspn(calls[i], " "), calls[i]);
	}
	if (*missing) {
		say(PROBLEM, "SystemCallFilter=", "forbids what the library calls: %s", missing);
		unit_remedy(l, "memory", "SystemCallFilter=%s", missing);
	} else if (*set) {
		say(OK, "SystemCallFilter=", "allows what the library calls");
	}
}

/* ---- files ---- */

static void judge_library(struct looking *l)
{
	const char *path = l->c->library;
	const char *home = unit_value(&l->u, "ProtectHome");
	bool bound = unit_covers(&l->u, "BindReadOnlyPaths", path) >= 0 ||
		     unit_covers(&l->u, "BindPaths", path) >= 0;
	bool hidden = !bound && (unit_yes(&l->u, "ProtectHome") || !strcmp(home, "tmpfs"));
	int covered = unit_covers(&l->u, "NoExecPaths", path);

	if (!*path)
		return;
	if (covered > unit_covers(&l->u, "ExecPaths", path)) {
		say(PROBLEM, "NoExecPaths=", "%s cannot be loaded: ExecPaths= does not have it",
		    path);
		unit_remedy(l, NULL, "ExecPaths=%s", path);
	} else if (covered >= 0) {
		say(OK, "NoExecPaths=", "ExecPaths= lets the library be loaded");
	}
	if (unit_yes(&l->u, "MemoryDenyWriteExecute"))
		say(OK, "MemoryDenyWriteExecute=", "the library needs no memory that is writable and "
						   "executable");
	if (*unit_value(&l->u, "ProtectProc") || *unit_value(&l->u, "ProcSubset"))
		say(OK, "ProtectProc=, ProcSubset=", "the process sees its own entries in /proc, "
		    "which is enough");
	if (*unit_value(&l->u, "RootDirectory") || *unit_value(&l->u, "RootImage")) {
		say(WARNING, "RootDirectory=, RootImage=", "the library must be there, too, and "
		    "for RDMA libibverbs, librdmacm and libsodium");
		unit_remedy(l, NULL, "BindReadOnlyPaths=%s", path);
	}
	if (hidden && (is_below(path, "/home") || is_below(path, "/root"))) {
		say(PROBLEM, "ProtectHome=", "hides the library, %s", path);
		unit_remedy(l, NULL, "BindReadOnlyPaths=%s", path);
	}
}

/* Do the directives let the unit write to path? */
static bool may_write(const struct unit *u, const char *path)
{
	const char *system = unit_value(u, "ProtectSystem"), *home = unit_value(u, "ProtectHome");
	bool strict = !strcmp(system, "strict"), full = !strcmp(system, "full");

	if (unit_covers(u, "ReadWritePaths", path) >= 0 ||
	    unit_covers(u, "ReadWriteDirectories", path) >= 0)
		return true;
	if (*home && strcmp(home, "no") && strcmp(home, "false") &&
	    (is_below(path, "/home") || is_below(path, "/root")))
		return false;
	if (is_below(path, "/tmp") || is_below(path, "/var/tmp"))
		return !strict || unit_yes(u, "PrivateTmp");
	if (strict)
		return is_below(path, "/dev") || is_below(path, "/run");
	return !((full || unit_yes(u, "ProtectSystem")) &&
		 (is_below(path, "/usr") || is_below(path, "/boot") ||
		  (full && is_below(path, "/etc"))));
}

static void judge_files(struct looking *l)
{
	static const char *const names[] = { "SOCKRAIL_REPORT", "SOCKRAIL_LOG_FILE" };
	char path[PATH_MAX];

	for (int i = 0; i < 2; i++) {
		if (!unit_variable(&l->u, names[i], path) || *path != '/')
			continue;
		if (!may_write(&l->u, path)) {
			say(WARNING, names[i], "%s: ProtectSystem= or ProtectHome= forbids it",
			    path);
			unit_remedy(l, NULL, "ReadWritePaths=%.*s",
				    (int)(strrchr(path, '/') - path) ?: 1, path);
		} else if (unit_yes(&l->u, "PrivateTmp") && is_below(path, "/tmp")) {
			say(OK, names[i], "%s is below /tmp/systemd-private-*-%s-*", path,
			    l->u.name);
		}
	}
}

/* ---- limits ---- */

/* Parses a limit: a number with a suffix, or two with a colon, of which the first counts. */
static unsigned long long limit_parse(const char *text, unsigned long long none)
{
	static const char suffixes[] = "KMGTPE";
	unsigned long long n;
	const char *suffix;
	char *end;

	if (!*text)
		return none;
	if (!strncmp(text, "infinity", 8))
		return RLIM_INFINITY;
	n = strtoull(text, &end, 10);
	suffix = *end ? strchr(suffixes, toupper((unsigned char)*end)) : NULL;
	return suffix ? n << 10 * (suffix - suffixes + 1) : n;
}

/* The limit in the unit, or else that of the running systemd. */
static unsigned long long find_limit(const struct looking *l, const char *name,
				     unsigned long long none)
{
	char property[40], text[128];
	const char *const show[] = { "systemctl", "show", "--value", "-p", property, "--",
				     l->u.name, NULL };

	if (*unit_value(&l->u, name))
		return limit_parse(unit_value(&l->u, name), none);
	snprintf(property, sizeof(property), "%sSoft", name);
	if (l->c->unit_path || access("/run/systemd/system", F_OK) ||
	    run_program(text, sizeof(text), false, show))
		return none;
	return limit_parse(text, none);
}

static void judge_limits(struct looking *l)
{
	unsigned long long memlock = find_limit(l, "LimitMEMLOCK", DEFAULT_MEMLOCK),
			   nofile = find_limit(l, "LimitNOFILE", DEFAULT_NOFILE);
	const char *user = unit_value(&l->u, "User");
	bool root = (!*user || !strcmp(user, "root")) && !unit_yes(&l->u, "DynamicUser") &&
		    unit_allows(&l->u, "CapabilityBoundingSet", "CAP_IPC_LOCK");

	if (root)
		say(OK, "LimitMEMLOCK=", "does not apply to root (CAP_IPC_LOCK)");
	else if (!judge_memlock("LimitMEMLOCK=", memlock, memlock, false))
		unit_remedy(l, "memlock", "LimitMEMLOCK=infinity");
	judge_nofile("LimitNOFILE=", nofile, nofile, false);
	if (nofile <= DEFAULT_NOFILE)
		unit_remedy(l, "descriptors", "LimitNOFILE=65536");
}

/* ---- the program ---- */

static void judge_start(struct looking *l)
{
	const char *line = unit_value(&l->u, "ExecStart");
	char program[PATH_MAX], found[PATH_MAX], preload[PATH_MAX] = "";

	line += strspn(line, "@-:+!|");
	if (!unit_word(&line, program, sizeof(program))) {
		say(WARNING, "ExecStart=", "%s does not set it", l->u.name);
		return;
	}
	if (find_command(found, program) || !access(found, F_OK))
		judge_program("ExecStart=", found);
	else
		say(WARNING, "ExecStart=", "%s is not installed", program);
	if (unit_variable(&l->u, "LD_PRELOAD", preload) && strstr(preload, "sockrail")) {
		say(OK, "LD_PRELOAD", "the unit has the library: %s", preload);
	} else if (strlen(program) >= 8 && !strcmp(program + strlen(program) - 8, "sockrail")) {
		say(OK, "ExecStart=", "is run by sockrail");
	} else {
		say(WARNING, "LD_PRELOAD", "the unit does not have the library");
		unit_remedy(l, NULL, "Environment=LD_PRELOAD=%s%s%s",
			    *l->c->library ? l->c->library : "libsockrail.so.0",
		     *preload ? ":" : "", preload);
	}
	if (*unit_value(&l->u, "AmbientCapabilities"))
		say(OK, "AmbientCapabilities=", "keeps the library preloaded");
}

static void (*const judges[])(struct looking *l) = {
	judge_start, judge_devices, judge_namespaces, judge_families, judge_calls,
	judge_library, judge_files, judge_limits,
};

static struct looking looked;

void load_checked_unit(const struct checked *c)
{
	if (c->unit)
		unit_load(&looked.u, c->unit, c->unit_path);
}

void check_unit(struct checked *c)
{
	if (!c->unit)
		return;
	looked.c = c;
	say(OK, "unit", "%s is read", looked.u.name);
	for (size_t i = 0; i < sizeof(judges) / sizeof(judges[0]); i++)
		judges[i](&looked);
	if (!*looked.dropin)
		return;
	looked.dropin[strlen(looked.dropin) - 1] = '\0';
	say(OK, "drop-in", "the lines above, for /etc/systemd/system/%s.d/sockrail.conf:",
	    looked.u.name);
	remedy(NULL, "[Service]\n%s", looked.dropin);
}
