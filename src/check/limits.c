/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * limits.c - how many queue pairs locked memory allows, and how many streams descriptors.
 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "check.h"

/* What a queue pair locks while its streams are idle, with the default rings: its packet buffers.
 * The rings of busy streams grow, all together, into half of what may be locked, so the other half
 * is left for queue pairs (src/link/verbs/mem.c). */
#define IDLE_BYTES (48ull << 10)
/* What hardware locks for the queues of a queue pair: the figure of mlx5 (providers/mlx5 of rdma-core 65),
 * whose send and receive queue take 12 kB together, and each of the two completion queues 4 kB.
 * If the queue pair were made with only the operations that are used (send_ops_flags), it would
 * take 8 kB: that is not worth a second way to make one.  The kernel's software devices lock
 * nothing for queues. */
#define QUEUE_BYTES (20ull << 10)
/* Queue pairs that are enough for a process: eight with each of eight others. */
#define ENOUGH 64
/* A service has many clients, and at least one queue pair for each process among these. */
#define ENOUGH_FOR_SERVICE 200
#define CAP_IPC_LOCK_BIT 14	/* linux/capability.h */
#define FIRST_USER_NAMESPACE 0xEFFFFFFDu /* PROC_USER_INIT_INO of linux/proc_ns.h */

/* The kernel requires the capability in the first user namespace (ib_umem_get()). */
static bool no_limit_applies(void)
{
	struct stat st;

	return status_number("CapEff", 16) >> CAP_IPC_LOCK_BIT & 1 &&
	       (stat("/proc/self/ns/user", &st) || st.st_ino == FIRST_USER_NAMESPACE);
}

bool judge_memlock(const char *what, unsigned long long soft, unsigned long long hard,
		   bool here)
{
	unsigned long long pairs = soft / (IDLE_BYTES + (have_hardware() ? QUEUE_BYTES : 0));
	bool enough = pairs >= (here ? ENOUGH : ENOUGH_FOR_SERVICE);
	char a[32], b[64] = "", h[32];

	if (soft == RLIM_INFINITY) {
		say(OK, what, "unlimited");
		return true;
	}
	if (here)
		snprintf(b, sizeof(b), " (hard limit %s)", size_text(h, hard));
	say(enough ? OK : !pairs && have_device() ? PROBLEM : WARNING, what,
	    "%s%s: enough for about %llu queue pair%s, or %llu beside busy streams, whose rings grow "
	    "into half of it. Each locks 48 kB%s. The streams between two processes share up to "
	    "eight by default (SOCKRAIL_CARRIERS)", size_text(a, soft), b, pairs,
	    pairs == 1 ? "" : "s", pairs / 2,
	    have_hardware() ? ", and about 20 kB for queues of the device" : "");
	if (here && !enough)
		remedy("memlock", "ulimit -l unlimited (root, or limits.conf(5)), or the "
				  "profile memory. Shared memory needs none");
	return enough;
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
