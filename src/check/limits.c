/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * limits.c - how many streams locked memory and descriptors allow.
 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "check.h"

/* What an idle link over RDMA locks with the default rings: its packet buffers.  The rings of busy
 * links grow, all together, into half of what may be locked, so the other half is left for idle
 * links (src/link/verbs/mem.c). */
#define IDLE_BYTES (48ull << 10)
/* What hardware locks for a link's queues: the figure of mlx5 (providers/mlx5 of rdma-core 65),
 * whose send and receive queue take 12 kB together, and each of the two completion queues 4 kB.
 * If the queue pair were made with only the operations that are used (send_ops_flags), it would
 * take 8 kB: that is not worth a second way to make one.  The kernel's software devices lock
 * nothing for queues. */
#define QUEUE_BYTES (20ull << 10)
#define CAP_IPC_LOCK_BIT 14	/* linux/capability.h */
#define FIRST_USER_NAMESPACE 0xEFFFFFFDu /* PROC_USER_INIT_INO of linux/proc_ns.h */

/* The kernel requires the capability in the first user namespace (ib_umem_get()). */
static bool no_limit_applies(void)
{
	struct stat st;

	return status_number("CapEff", 16) >> CAP_IPC_LOCK_BIT & 1 &&
	       (stat("/proc/self/ns/user", &st) || st.st_ino == FIRST_USER_NAMESPACE);
}

void judge_memlock(const char *what, unsigned long long soft, unsigned long long hard,
		   bool here)
{
	unsigned long long idle = soft / (IDLE_BYTES + (have_hardware() ? QUEUE_BYTES : 0));
	char a[32], b[64] = "", h[32];

	if (soft == RLIM_INFINITY) {
		say(OK, what, "unlimited");
		return;
	}
	if (here)
		snprintf(b, sizeof(b), " (hard limit %s)", size_text(h, hard));
	say(idle >= 200 ? OK : !idle && have_device() ? PROBLEM : WARNING, what,
	    "%s%s: enough for about %llu idle streams over RDMA, or %llu beside busy ones, "
	    "whose rings grow into half of it%s", size_text(a, soft), b, idle, idle / 2,
	    have_hardware() ? "; each locks 48 kB, and about 20 kB for queues of the device" : "");
	if (here && idle < 200)
		remedy("memlock", "ulimit -l unlimited (root, or limits.conf(5)), or the "
				  "profile memory. Shared memory needs none");
}

/* A link over shared memory takes two descriptors, and links may take half of the limit. */
void judge_nofile(const char *what, unsigned long long soft, unsigned long long hard,
		  bool here)
{
	char b[64] = "";

	if (soft == RLIM_INFINITY) {
		say(OK, what, "unlimited");
		return;
	}
	if (here)
		snprintf(b, sizeof(b), " (hard limit %llu)", hard);
	say(soft < 1024 ? WARNING : OK, what,
	    "%llu%s: Sockrail uses at most half, enough for %llu streams over shared memory",
	    soft, b, soft / 4);
	if (here && soft < 1024)
		remedy("descriptors", "ulimit -n %llu", hard > 65536 ? 65536 : hard);
}

void check_limits(struct checked *c)
{
	struct rlimit l;

	(void)c;
	getrlimit(RLIMIT_MEMLOCK, &l);
	if (no_limit_applies())
		say(OK, "locked memory", "no limit applies (CAP_IPC_LOCK)");
	else
		judge_memlock("locked memory", l.rlim_cur, l.rlim_max, true);
	getrlimit(RLIMIT_NOFILE, &l);
	judge_nofile("descriptors", l.rlim_cur, l.rlim_max, true);
}
