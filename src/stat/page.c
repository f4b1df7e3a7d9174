/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * page.c - finds and maps the page of a process, and copies slots out of it.
 *
 * The page is not trusted, because any program may have written it.  It is mapped only if it
 * is a sealed memfd, which cannot be shortened while it is mapped (that would raise SIGBUS).
 * All numbers and texts in it are checked where they are used.
 */
#include "base/order.h"
#include "stat/stat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define TMPFS 0x01021994	/* TMPFS_MAGIC of linux/magic.h */
#define TRIES 100
#define LINK "/memfd:" SR_PAGE_NAME " (deleted)"

/* Has the process mapped a page?  Looked at first, because a program may have far more
 * descriptors than mappings.  0, -ENOENT or -errno. */
static int is_mapped(pid_t pid)
{
	char path[64], *line = NULL;
	size_t size = 0;
	int r = -ENOENT;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return -errno;
	errno = 0;
	while (r && getline(&line, &size, maps) > 0)
		if (strstr(line, LINK))
			r = 0;
	if (r && errno == ESRCH)
		r = -ESRCH;
	free(line);
	fclose(maps);
	return r;
}

static int open_link(pid_t pid, const char *number)
{
	char path[64], to[sizeof(LINK)];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.20s", (int)pid, number);
	n = readlink(path, to, sizeof(to));
	if (n != sizeof(LINK) - 1 || memcmp(to, LINK, (size_t)n))
		return -ENOENT;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int stat_page_open(pid_t pid)
{
	struct dirent *entry;
	char path[64];
	int r = is_mapped(pid);
	DIR *dir;

	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	r = -ENOENT;
	while (r < 0 && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			r = open_link(pid, entry->d_name);
	closedir(dir);
	return r;
}

/* Is the page this process's own?  Compares the process's number in its own namespace with the
 * page's, because a child that shares its parent's memory (vfork) has its parent's page. */
static bool is_owner(const struct sr_page *page, pid_t pid)
{
	char path[64], line[256], *last;
	bool yes = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "NSpid:", 6))
			continue;
		last = strrchr(line, '\t');
		yes = last && atoi(last + 1) == page->pid;
	}
	fclose(f);
	return yes;
}

/* Is it a memfd that cannot become smaller than it is, and holds what all versions have?  *size
 * is its size. */
static bool is_sealed_memory(int fd, off_t *size)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || fstatfs(fd, &fs))
		return false;
	*size = st.st_size;
	return fs.f_type == TMPFS && *size >= (off_t)offsetof(struct sr_page, program);
}

static bool is_our_version(const struct sr_page *p, off_t size)
{
	return p->version == SR_PAGE_VERSION && p->head_size == offsetof(struct sr_page, slot) &&
	       p->slot_size == sizeof(struct sr_page_slot) && p->slots == SR_PAGE_SLOTS &&
	       p->reasons == SR_REASONS && p->counters == SR_COUNTERS && size == sizeof(*p);
}

struct sr_page *stat_page_map(int fd, pid_t pid, uint32_t *version)
{
	struct sr_page *p;
	off_t size;

	*version = 0;
	if (!is_sealed_memory(fd, &size))
		return NULL;
	p = mmap(NULL, sizeof(*p), PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (!memcmp(p->magic, SR_PAGE_MAGIC, sizeof(p->magic)) && is_owner(p, pid)) {
		*version = p->version;
		if (is_our_version(p, size))
			return p;
	}
	munmap(p, sizeof(*p));
	return NULL;
}

/* If it is still being rewritten after TRIES, the writer was stopped or killed meanwhile, and
 * the copy is taken as it is. */
static void copy_dir(struct sr_page_dir *to, struct sr_page_dir *from)
{
	uint32_t seq, after;
	int i;

	for (i = 0; i < TRIES; i++) {
		seq = sr_observe(&from->seq); /* pairs with stat_dir_finish() */
		memcpy(to, from, sizeof(*to));
		/* Pairs with the release fence in stat_dir_begin(). */
		atomic_thread_fence(memory_order_acquire);
		after = sr_load(&from->seq);
		if (seq == after && !(seq & 1))
			break;
	}
}

bool stat_page_slot(struct sr_page_slot *to, struct sr_page_slot *from)
{
	uint64_t id = sr_observe(&from->id);	/* pairs with sr_stat_open() */

	if (!id)
		return false;
	memcpy(to, from, sizeof(*to));
	copy_dir(&to->tx, &from->tx);
	copy_dir(&to->rx, &from->rx);
	/* Orders the copies before the second look at the identity, which pairs with the store
	 * of 0 when the slot is given back (base/page.c). */
	atomic_thread_fence(memory_order_acquire);
	return sr_load(&from->id) == id;
}
