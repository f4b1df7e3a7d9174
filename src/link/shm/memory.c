/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * memory.c - the memfd of a shared memory link: making one, and checking and mapping one that
 * the peer has made.  It knows no bytes and no messages.  Loop only, no locks.
 */
#include "base/real.h"

#include "link/shm/shm.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/stat.h>

#include "base/fdpriv.h"
#include "base/sys.h"

#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020 /* of <linux/fcntl.h> */
#endif

int sr_shm_memory(size_t size)
{
	int fd = sr_fd_memory("sockrail", size);

	if (fd >= 0 && sr_sys_fcntl(fd, F_ADD_SEALS, SR_SHM_SEALS)) {
		sr_fd_close(fd);
		fd = -1;
	}
	return fd;
}

int sr_shm_map(struct sr_shm *l, int memfd)
{
	bool asker = l->link.role == SR_ROLE_ASKER;
	const struct sr_shm_plan *plan = &l->plan;
	uint8_t *rings;
	int flags = memfd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
	void *map;

	if (l->map)
		flags |= MAP_FIXED;
	map = sr_sys_mmap(l->map, plan->total, PROT_READ | PROT_WRITE, flags, memfd, 0);
	if (map == MAP_FAILED)
		return -errno;
	sr_sys_madvise(map, plan->total, MADV_DONTFORK);
	l->map = map;
	l->own = (void *)(l->map + (asker ? 0 : plan->page));
	l->peer = (void *)(l->map + (asker ? plan->page : 0));
	rings = l->map + 2 * plan->page;
	sr_shm_ring_init(&l->tx, plan, rings + (asker ? 0 : plan->ring));
	sr_shm_ring_init(&l->rx, plan, rings + (asker ? plan->ring : 0));
	sr_publish(&l->own->gens, 1);	/* pairs with the peer's take_gens() */
	return 0;
}

/* Accepts only memory that no process can shrink, that has the right size, and that
 * has no huge pages, because the system may have none left.  The kernel may also
 * have sealed its mode (sysctl vm.memfd_noexec), which does not matter. */
static bool is_memory(int fd, const struct sr_shm_plan *plan)
{
	struct statfs fs;
	struct stat st;
	int seals = sr_sys_fcntl(fd, F_GET_SEALS, 0);

	return (seals & ~F_SEAL_EXEC) == SR_SHM_SEALS && !sr_sys_fstatfs(fd, &fs) &&
	       fs.f_type == TMPFS_MAGIC && !sr_sys_fstat(fd, &st) &&
	       S_ISREG(st.st_mode) && (uint64_t)st.st_size == plan->total;
}

const char *sr_shm_take_memory(struct sr_shm *l, int *fd)
{
	int err, memory;

	if (*fd < 0)
		return "descriptors";
	if (!is_memory(*fd, &l->plan))
		return "protocol";
	memory = sr_fd_own(*fd);
	*fd = -1;
	if (memory < 0)
		return "descriptors";
	err = sr_shm_map(l, memory);
	sr_fd_close(memory);
	return err ? "memory" : NULL;
}
