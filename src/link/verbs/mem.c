/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * mem.c - memory that the kernel pins for a device: rings, and what the device's own queues
 * take, which counts against the same limit (RLIMIT_MEMLOCK).
 *
 * The loop's and the thread of jobs', except where said; no locks.
 */
#include "base/now.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/pages.h"

#define FIRST_USER_NAMESPACE 0xEFFFFFFDu /* PROC_USER_INIT_INO of linux/proc_ns.h */

enum {
	HUGE_PAGE = 2 << 20,	/* of x86-64, and of arm64 with pages of 4 kB */
	NODES_MOST = 1024,	/* MAX_NUMNODES of the kernel */
	WORD_BITS = 8 * sizeof(long),
};

static _Atomic size_t locked_memory;	/* of all rings, and of the queues */
static _Atomic size_t grow_limit;	/* constant once there is a link */

static bool in_first_user_namespace(void)
{
	struct stat st = { 0 };
	int fd = sr_now_open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC, 0);
	bool is;

	if (fd < 0)	/* the kernel has no other ones, or /proc is not there */
		return true;
	is = sr_sys_fstat(fd, &st) || st.st_ino == FIRST_USER_NAMESPACE;
	sr_now_close(fd);
	return is;
}

/* Bytes that the process may lock: RLIMIT_MEMLOCK, or any number if it has the capability
 * CAP_IPC_LOCK (getrlimit(2)), which the kernel asks for in the first user namespace:
 * root of a rootless container does not have it there. */
static size_t lockable_bytes(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = { 0 };
	struct rlimit rl;

	SR_SYS(SYS_capget, &head, caps);
	if (sr_sys_getrlimit(RLIMIT_MEMLOCK, &rl) ||
	    (caps[0].effective & 1u << CAP_IPC_LOCK && in_first_user_namespace()))
		return SIZE_MAX;
	return rl.rlim_cur;
}

/* ENOMEM: the limit is reached; EPERM: it is zero (ib_umem_get() of the kernel).  EAGAIN: that
 * of a cgroup (rdma.max). */
const char *sr_vmem_refusal(int err)
{
	return err == ENOMEM || err == EPERM || err == EAGAIN ? "memlock" : "device-failed";
}

void sr_vmem_count(ssize_t bytes)
{
	sr_count(&locked_memory, bytes);
}

bool sr_vring_may_grow(size_t size)
{
	return sr_load(&locked_memory) + size <= sr_load(&grow_limit);
}

void sr_vring_forget(void)
{
	sr_store(&locked_memory, 0);
	sr_store(&grow_limit, 0);
}

/* ---- where the memory is ---- */

/* The first number in a file of sysfs; -1: there is none. */
static int number_in(const char *path, char *text, size_t size)
{
	int fd = sr_now_open(path, O_RDONLY | O_CLOEXEC, 0), number = 0;
	ssize_t n = fd < 0 ? -1 : sr_now_read(fd, text, size - 1);

	if (fd >= 0)
		sr_now_close(fd);
	text[n > 0 ? n : 0] = '\0';
	if (*text < '0' || *text > '9')
		return -1;
	for (; *text >= '0' && *text <= '9' && number < NODES_MOST; text++)
		number = number * 10 + (*text - '0');
	return number;
}

int sr_vmem_node(const char *ibdev_path)
{
	char path[sizeof(((struct ibv_device *)0)->ibdev_path) + sizeof("/device/numa_node")];
	char text[16];
	int node;

	sr_format(path, sizeof(path), "%s/device/numa_node", ibdev_path);
	node = number_in(path, text, sizeof(text));
	return node < NODES_MOST ? node : -1;
}

bool sr_vmem_has_nodes(void)
{
	char text[16];

	/* "0" where there is one; "0-1" or "0,2" where there are more */
	return number_in("/sys/devices/system/node/online", text, sizeof(text)) >= 0 &&
	       text[strspn(text, "0123456789")] > '\n';
}

void sr_vmem_place(void *mem, size_t size, int node)
{
	unsigned long mask[NODES_MOST / WORD_BITS] = { 0 };

	mask[node / WORD_BITS] = 1ul << node % WORD_BITS;
	/* Another node serves where this one has no memory left.  (One bit more than there are:
	 * the kernel takes one off.) */
	SR_SYS(SYS_mbind, mem, size, MPOL_PREFERRED, mask, NODES_MOST + 1, 0);
}

/* A large ring lies in huge pages, if the kernel has any: fewer entries of the device's
 * translation table.  Not the pages that the administrator has reserved (MAP_HUGETLB), because
 * they are meant for another program. */
static void *ring_pages(size_t size)
{
	uint8_t *mem, *at;
	size_t before;

	if (size < HUGE_PAGE)
		return sr_pages_get(size);
	mem = sr_pages_get(size + HUGE_PAGE);
	if (!mem)
		return NULL;
	before = -(uintptr_t)mem % HUGE_PAGE;
	at = mem + before;
	if (before)
		sr_pages_put(mem, before);
	sr_pages_put(at + size, HUGE_PAGE - before);
	sr_sys_madvise(at, size, MADV_HUGEPAGE);
	return at;
}

static struct ibv_mr *ring_register(struct sr_vcarrier *c, void *mem, size_t size, int access)
{
	struct ibv_mr *mr;

	if ((access & IBV_ACCESS_RELAXED_ORDERING) && sr_vlib.v_reg_mr_iova2) {
		mr = sr_vlib.v_reg_mr_iova2(c->pd, mem, size, (uintptr_t)mem, access);
		if (mr || (errno != EINVAL && errno != EOPNOTSUPP))
			return mr;
	}
	return sr_vlib.v_reg_mr(c->pd, mem, size, access & ~IBV_ACCESS_RELAXED_ORDERING);
}

bool sr_vring_fill(struct sr_vring *r)
{
	if (r->buf)
		return true;
	if (!sr_memory_take(r->size))
		return false;
	r->buf = ring_pages(r->size);
	if (!r->buf) {
		sr_memory_give(r->size);
		return false;
	}
	/* A child's copy-on-write would give the parent other pages than the device has. */
	sr_sys_madvise(r->buf, r->size, MADV_DONTFORK);
	return true;
}

void sr_vring_empty(struct sr_vring *r)
{
	if (!r->buf)
		return;
	sr_pages_put(r->buf, r->size);
	sr_memory_give(r->size);
	r->buf = NULL;
}

struct sr_ring_ref sr_vring_ref(const struct sr_vring *r, uint32_t gen)
{
	return (struct sr_ring_ref){
		.addr = r->mr ? (uintptr_t)r->buf : 0,
		.rkey = r->mr ? r->mr->rkey : 0,
		.size = r->size,
		.gen = gen,
	};
}

const char *sr_vring_make(struct sr_vcarrier *c, struct sr_vring *r, size_t size, int access)
{
	const char *reason;

	if (!sr_load(&grow_limit))
		sr_store(&grow_limit, lockable_bytes() / 2);
	r->size = size;
	if (!sr_vring_fill(r)) {
		r->size = 0;
		return "memory";
	}
	if (c->dev->node >= 0)
		sr_vmem_place(r->buf, size, c->dev->node);
	r->mr = ring_register(c, r->buf, size, access);
	if (!r->mr) {
		reason = sr_vmem_refusal(errno);
		sr_vring_free(r);
		return reason;
	}
	sr_count(&locked_memory, size);
	return NULL;
}

void sr_vring_close(struct sr_vring *r)
{
	if (!r->mr)
		return;
	sr_vlib.v_dereg_mr(r->mr);
	r->mr = NULL;
	sr_count(&locked_memory, -r->size);
}

void sr_vring_free(struct sr_vring *r)
{
	sr_vring_close(r);
	sr_vring_empty(r);
	r->size = 0;
}
