/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * lib.c - loads librdmacm and libibverbs, when the first stream may need them
 * and there is an RDMA device.  They are never unloaded.  librdmacm remembers which devices
 * it has opened.  A program that uses it, too, would share them, and with them descriptors
 * and asynchronous events; and the child of a fork must not touch its parent's.  So each
 * process has a copy of that library for us alone.  The loop's, under the lock for loading
 * (base/lock.h).
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/apart.h"
#include "base/conf.h"
#include "base/fdpriv.h"
#include "base/library.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/now.h"

SR_APART struct sr_verbs_lib sr_vlib;
static bool loaded;
static bool stale;	/* librdmacm was used by a parent */

#define CLASS "/sys/class/infiniband"
#define MOST_COPIES 128
#define LOOK_NS 100000000u /* how long a look at sysfs counts: each connection asks twice */

/* Of getdents64(2). */
struct entry {
	uint64_t inode;
	int64_t next;
	uint16_t length;
	uint8_t type;
	char name[];
};

/* node_type is "1: CA" (InfiniBand, RoCE) or "4: RNIC" (iWARP).  Others (EFA, usNIC) have no
 * reliable connections. */
__attribute__((noinline)) static unsigned device_kind(const char *name)
{
	char path[sizeof(CLASS) + 280], type = 0;
	int fd;

	sr_format(path, sizeof(path), CLASS "/%s/node_type", name);
	fd = sr_now_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	if (sr_now_read(fd, &type, 1) != 1)
		type = 0;
	sr_now_close(fd);
	return type == '4' ? SR_VDEV_IWARP : type == '1' ? SR_VDEV_IB : 0;
}

static unsigned kinds_among(const char *entries, const char *end)
{
	const struct entry *e;
	unsigned kinds = 0;

	for (; entries < end; entries += e->length) {
		e = (const struct entry *)entries;
		if (e->name[0] != '.' && (!sr_conf.device[0] || !strcmp(sr_conf.device, e->name)))
			kinds |= device_kind(e->name);
	}
	return kinds;
}

/* A signal handler may be asking: opendir(3) would allocate memory. */
static unsigned look_for_devices(void)
{
	_Alignas(struct entry) char entries[400];
	unsigned kinds = 0;
	ssize_t n;
	int dir = sr_now_open(CLASS, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	while (dir >= 0 && (n = sr_sys_getdents(dir, entries, sizeof(entries))) > 0)
		kinds |= kinds_among(entries, entries + n);
	if (dir >= 0)
		sr_now_close(dir);
	return kinds;
}

unsigned sr_verbs_devices(void)
{
	static atomic_uint kinds;
	static _Atomic uint64_t until_ns;
	uint64_t now;

	/* Most hosts have none. */
	if (sr_sys_access(CLASS, F_OK) < 0)
		return 0;
	now = sr_now_ns();
	if (now >= sr_observe(&until_ns)) {	/* pairs with the publish of it */
		sr_store(&kinds, look_for_devices());
		sr_publish(&until_ns, now + LOOK_NS);
	}
	return sr_load(&kinds);
}

static void *open_or_tell_why(const struct sr_library *library)
{
	char why[256];
	void *lib = sr_library_open(library, sr_real.dlopen, why, sizeof(why));

	if (!lib)
		sr_inform("verbs: %s", why);
	return lib;
}

static bool copy_bytes(int from, int to)
{
	ssize_t n;

	do {
		n = sr_sys_sendfile(to, from, NULL, 1 << 20);
	} while (n > 0);
	return !n;
}

/* The loader takes it for the library that it has if the name is the same, and a parent's copy
 * may have had this number of a descriptor: each generation has one more slash. */
static void *open_copy(const void *symbol)
{
	static unsigned copies;	/* this process's and its ancestors' */
	char path[64 + MOST_COPIES] = "/proc/self/fd";
	size_t len = strlen(path);
	void *lib = NULL;
	Dl_info info;
	int from, to;

	if (copies == MOST_COPIES || !dladdr(symbol, &info))
		return NULL;
	from = sr_now_open(info.dli_fname, O_RDONLY | O_CLOEXEC, 0);
	if (from < 0)
		return NULL;
	to = sr_sys_memfd_create("librdmacm", MFD_CLOEXEC);
	if (to < 0)
		goto close_from;
	memset(path + len, '/', ++copies);
	len += copies;
	sr_format(path + len, sizeof(path) - len, "%d", to);
	if (copy_bytes(from, to))
		lib = open_or_tell_why(&(struct sr_library){ "a copy of librdmacm", { path } });
	sr_now_close(to);
close_from:
	sr_now_close(from);
	return lib;
}

/* The library itself is loaded first, so that a program which loads it later gets that one.
 * Where there can be no copy (a sandbox), we share it; but never a parent's. */
static void *open_cm(__typeof__(&dlsym) look_up)
{
	void *lib = open_or_tell_why(&sr_library_cm), *copy;

	if (!lib)
		return NULL;
	copy = open_copy(look_up(lib, "rdma_create_id"));
	return copy || stale ? copy : lib;
}

static int vlib_load(void)
{
	__typeof__(&dlsym) look_up = sr_next_dlsym();
	void *lib_cm, *lib_v;

	lib_v = open_or_tell_why(&sr_library_verbs);
	if (!lib_v)
		return -ELIBACC;
	lib_cm = open_cm(look_up);
	if (!lib_cm)
		return -ELIBACC;

#define RESOLVE(lib, prefix, name)                                             \
	sr_vlib.lib##_##name = look_up(lib_##lib, #prefix "_" #name);          \
	if (!sr_vlib.lib##_##name) {                                           \
		sr_warn("verbs: the library has no " #prefix "_" #name);       \
		return -ELIBACC;                                           \
	}
	SR_VERBS_CALLS(RESOLVE)
	sr_vlib.v_is_fork_initialized = look_up(lib_v, "ibv_is_fork_initialized");
	sr_vlib.v_reg_mr_iova2 = look_up(lib_v, "ibv_reg_mr_iova2");
	return 0;
}

int sr_verbs_load(void)
{
	int err;

	if (loaded)
		return 0;
	if (!sr_verbs_devices())
		return -ENODEV;
	err = vlib_load();
	loaded = !err;
	stale &= !loaded;
	return err;
}

/* VmPin of proc(5). */
size_t sr_verbs_pinned(void)
{
	char line[256];
	size_t kb = 0;
	FILE *status;

	sr_enter();
	status = fopen("/proc/self/status", "rce");
	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "VmPin: %zu", &kb) == 1)
			break;
	if (status)
		sr_real.fclose(status);
	sr_leave();
	return kb << 10;
}

/* ---- the child of fork ---- */

/* Is this descriptor the program's, and of that device file? */
static bool is_of_program(int fd, ino_t node)
{
	struct stat st;

	return !sr_fd_is_private(fd) && !sr_sys_fstat(fd, &st) && st.st_ino == node &&
	       S_ISCHR(st.st_mode);
}

static bool any_of_program(const char *entries, const char *end, ino_t node)
{
	const struct entry *e;

	for (; entries < end; entries += e->length) {
		e = (const struct entry *)entries;
		if (e->name[0] != '.' && is_of_program(atoi(e->name), node))
			return true;
	}
	return false;
}

/* Does the program use that device itself?  It has it open, then. */
__attribute__((noinline)) static bool program_has(ino_t node)
{
	_Alignas(struct entry) char entries[240];
	bool has = false;
	ssize_t n;
	int dir = sr_now_open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	while (dir >= 0 && !has && (n = sr_sys_getdents(dir, entries, sizeof(entries))) > 0)
		has = any_of_program(entries, entries + n, node);
	if (dir >= 0)
		sr_now_close(dir);
	return has;
}

/*
 * The parent's queues, mapped here too: they keep the kernel's device file, and
 * so a removal of the device, waiting for us.  Nothing tells them from queues of the program's
 * own on that device, which stay; and so do ours then: the program keeps the device file
 * anyway.
 */
static void unmap_queues(void)
{
	unsigned long from, to, node, looked_at = 0;
	bool stays = false;
	char line[256];
	FILE *maps;

	sr_enter();
	maps = fopen("/proc/self/maps", "rce");	/* c: no cancellation point */
	while (maps && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, " /dev/infiniband/") ||
		    sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &node) != 3)
			continue;
		if (node != looked_at)
			stays = program_has(node);
		looked_at = node;
		if (!stays)
			sr_sys_munmap((void *)from, to - from);
	}
	if (maps)
		sr_real.fclose(maps);
	sr_leave();
}

void sr_verbs_unload(void)
{
	if (!loaded)
		return;
	unmap_queues();
	stale = true;
	loaded = false;
}
