/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link_verbs_memory.c - the memory of verbs links: how much may be pinned, where it is, and
 * who may write it; and the completion vectors of their device.
 */
#include "verbs_faults.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/pages.h"
#include "fake_impl.h"

/* The sender cannot register as large a ring as the receiver offers.  It goes
 * on with the rings that there are, at their speed: the receiver returns credit
 * for each quarter of the ring that it believes to be in use. */
static int narrow_case(unsigned a, unsigned b)
{
	uint64_t start;
	struct end *e;
	unsigned i;

	(void)a, (void)b;
	begin_case();
	try_listen();
	e = open_end(SINK << 8 | 1);
	CHECK(!loop_call(no_call, NULL)); /* or work() is called once more */
	fake_fail("v_reg_mr", 2, ENOMEM);
	/* Rings grow only if the machine is quick enough. */
	for (i = 0; i < 50 && !fake_struck(); i++)
		CHECK(put(e, 256 << 10, true) == 256 << 10);
	start = sr_now_ns();
	CHECK(put(e, 4 << 20, true) == 4 << 20);
	CHECK(fake_struck() && sr_vlink(e->link)->tx.window == sr_conf.policy.ring_first);
	close_end(e);
	CHECK(sr_now_ns() - start < UINT64_C(3000000000));
	end_case();
	return STRUCK;
}

static void test_narrow(void)
{
	run_case(narrow_case, 0, 0);
}

/* ---- locked memory ---- */

static void see_carriers(void *any)
{
	*(bool *)any = sr_vmake_is_unmaking();
	for (struct sr_vdev *dev = sr_vdevs; dev; dev = dev->next)
		*(bool *)any |= dev->carriers != NULL;
}

/* An ask that meets the limit asks again if another carrier is just giving its memory back. */
static void await_unmade(void)
{
	bool any = true;

	while (any)
		CHECK(!loop_call(see_carriers, &any));
}

static const char *reason_for_none(void)
{
	const char *reason;
	struct end *e;

	await_unmade();
	e = ask_start(ECHO << 8 | 1, PORT);
	if (!ask_wait(e) && !e->link) {
		reason = e->reason;
		close_fds(e);
		return reason;
	}
	let_go(e);
	return NULL;
}

/* Whatever of a link is the first that may not be pinned, at whichever end: the word is
 * memlock. */
static int memlock_case(unsigned a, unsigned b)
{
	const char *reason = "";
	size_t bytes;

	(void)a, (void)b;
	begin_unshared();
	try_listen();
	for (bytes = 4096; reason; bytes += 4096) {
		fake_may_pin(bytes);
		reason = reason_for_none();
		say("%zu bytes: %s\n", bytes, reason ? reason : "a link");
		CHECK(!reason || !strcmp(reason, "memlock"));
	}
	CHECK(bytes > 90 << 10 && bytes < 200 << 10);
	fake_may_pin(0);
	fake_fail("v_reg_mr", 1, EPERM);	/* the limit is zero */
	CHECK(!strcmp(reason_for_none(), "memlock"));
	fake_fail("v_create_cq", 1, EIO);
	CHECK(!strcmp(reason_for_none(), "device-failed"));
	end_case();
	return STRUCK;
}

/* Without CAP_IPC_LOCK. */
static void limit_memory(size_t bytes)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
	struct rlimit rl = { bytes, bytes };

	CHECK(!syscall(SYS_capget, &head, caps));
	caps[0].effective &= ~(1u << CAP_IPC_LOCK);
	CHECK(!syscall(SYS_capset, &head, caps) && !setrlimit(RLIMIT_MEMLOCK, &rl));
	fake_may_pin(bytes);
}

/* Rings grow into half of what may be locked, queues included: the other half is for links
 * to come.  (Both ends are in this process.) */
static int room_case(unsigned limit, unsigned links)
{
	enum { BUSY_LINKS = 8, MOST = 64 };
	struct end *e[BUSY_LINKS + MOST];
	size_t idle;
	unsigned i, n;
	bool grown;

	/* The answerers of the links that are not in use yet wait for longer than a lost
	 * wake-up is waited for, if the machine has much else to do. */
	wait_limit = HANG_S * 1000;
	limit_memory(limit);
	begin_unshared();
	try_listen();
	for (n = 0; n < BUSY_LINKS; n++)
		e[n] = open_end(ECHO << 8 | n);
	idle = fake_pinned() / BUSY_LINKS;
	grown = idle * BUSY_LINKS > limit / 2;	/* there is no room for that */
	/* Rings grow only if the machine is quick enough. */
	for (i = 0; i < BUSY_LINKS || (!grown && i < 50 * BUSY_LINKS); i++) {
		both_ways(e[i % BUSY_LINKS], 512 << 10, i);
		grown |= fake_pinned() > idle * BUSY_LINKS;
	}
	say("idle %zu, with busy ones %zu bytes\n", idle, fake_pinned());
	CHECK(grown);
	for (i = 0; i < links && i < limit / 2 / idle && i < MOST; i++)
		e[n + i] = open_end(ECHO << 8 | (n + i));
	n += i;
	while (n-- > 0)
		let_go(e[n]);
	fake_may_pin(0);
	end_case();
	return STRUCK;
}

static void test_memlock(void)
{
	run_case(memlock_case, 0, 0);
	run_case(room_case, 4 << 20, UINT_MAX);
}

/* A peer that lies: it writes to another link's ring, whose address and key it knows. */
static int neighbour_case(unsigned a, unsigned b)
{
	struct sr_ring_ref own, other;
	struct end *e, *f;

	(void)a, (void)b;
	sr_conf.policy.ring_first = 2 * SR_V_ORDINARY;	/* registered at once */
	begin_unshared();
	try_listen();
	e = open_end(SINK << 8 | 2);
	f = open_end(ECHO << 8 | 2);
	both_ways(f, 5000, 1);
	sr_lock(&sr_vlink(f->link)->c->lock);
	other = sr_vlink(f->link)->tx.peer;
	sr_unlock(&sr_vlink(f->link)->c->lock);
	sr_lock(&sr_vlink(e->link)->c->lock);
	own = sr_vlink(e->link)->tx.peer;
	CHECK(own.rkey != other.rkey);
	sr_vlink(e->link)->tx.peer = (struct sr_ring_ref){
		.addr = other.addr, .rkey = other.rkey, .size = own.size, .gen = own.gen };
	sr_unlock(&sr_vlink(e->link)->c->lock);
	CHECK(put(e, 2 * SR_PACKET_MAX, true) == 2 * SR_PACKET_MAX);	/* too much for a record */
	CHECK(!await(e, SR_NOTIFY_TX, all_acked));
	say("%s\n", e->link->reason);
	CHECK(!strcmp(e->link->reason, "peer-dropped"));
	both_ways(f, 100000, 1);
	let_go(e);
	close_end(f);
	end_case();
	return STRUCK;
}

static void test_neighbour(void)
{
	run_case(neighbour_case, 0, 0);
}

/* ---- where the memory is ---- */

/* How the kernel treats the pages at that address: a word of VmFlags in smaps. */
static bool has_flag(const void *at, const char *flag)
{
	FILE *maps = fopen("/proc/self/smaps", "re");
	unsigned long from, to;
	bool here = false, has = false;
	char line[512];

	CHECK(maps);
	while (!has && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = from <= (uintptr_t)at && (uintptr_t)at < to;
		has = here && !strncmp(line, "VmFlags:", 8) && strstr(line, flag);
	}
	fclose(maps);
	return has;
}

static int access_of(const struct sr_vring *r)
{
	return ((struct mr *)r->mr)->access;
}

/* Receive rings alone are written in any order.  Large ones lie in huge pages, if there are
 * any, and small ones do not. */
static int memory_case(unsigned kb, unsigned huge)
{
	const bool relaxed = !fake_profile()->old_kernel;
	struct sr_vlink *l;
	struct end *e;

	sr_conf.policy.ring_first = kb << 10;
	sr_conf.policy.ring_max = kb << 10;
	begin_case();
	try_listen();
	e = open_end(ECHO << 8 | 2);
	l = sr_vlink(e->link);
	CHECK_EQ(!!(access_of(&l->rx.ring[0]) & IBV_ACCESS_RELAXED_ORDERING), relaxed);
	CHECK(!((access_of(&l->tx.ring) | access_of(&l->c->ctl)) & IBV_ACCESS_RELAXED_ORDERING));
	CHECK_EQ(!has_flag(l->rx.ring[0].buf, " hg"), !huge);
	CHECK_EQ(!has_flag(l->tx.ring.buf, " hg"), !huge);
	CHECK(has_flag(l->rx.ring[0].buf, " dc"));	/* not for children of fork */
	if (huge)
		CHECK(!((uintptr_t)l->rx.ring[0].buf % (2 << 20)));
	both_ways(e, 3 * kb << 10, 1);
	close_end(e);
	end_case();
	return STRUCK;
}

enum { PREFERRED = 1, NODE_OF_ADDRESS = 2 };	/* MPOL_, MPOL_F_ of linux/mempolicy.h */

/* Has the memory at that address been given a node?  (If the kernel does not say: as wanted.) */
static bool is_placed(void *at, bool wanted)
{
	int policy = -1;

	if (!syscall(SYS_get_mempolicy, &policy, NULL, 0, at, NODE_OF_ADDRESS))
		return policy == PREFERRED;
	say("no get_mempolicy: %s\n", strerror(errno));
	return wanted;
}

/* The kernel's word for a device that is near one node.  Where it has but one node, none is
 * asked for. */
static int node_case(unsigned a, unsigned b)
{
	char dir[] = "/tmp/node.XXXXXX", path[64];
	const size_t size = 65536;
	FILE *file;
	void *mem;

	(void)a, (void)b;
	CHECK(mkdtemp(dir));
	CHECK_EQ(sr_vmem_node(dir), -1);
	snprintf(path, sizeof(path), "%s/device", dir);
	CHECK(!mkdir(path, 0700));
	snprintf(path, sizeof(path), "%s/device/numa_node", dir);
	for (int node = -1; node < 2; node++) {
		file = fopen(path, "we");
		CHECK(file && fprintf(file, "%d\n", node) > 0);
		fclose(file);
		CHECK_EQ(sr_vmem_node(dir), node);
	}
	CHECK(!unlink(path));
	snprintf(path, sizeof(path), "%s/device", dir);
	CHECK(!rmdir(path) && !rmdir(dir));

	mem = sr_pages_get(size);
	sr_vmem_place(mem, size, 0);
	CHECK(is_placed(mem, true));
	sr_pages_put(mem, size);
	return STRUCK;
}

static void set_node(void *dev)
{
	((struct sr_vdev *)dev)->node = 0;
}

/* All that a device reads and writes lies near it, if it has a node. */
static int near_case(unsigned a, unsigned b)
{
	struct sr_vlink *l;
	struct end *e[2];
	unsigned i;

	(void)a, (void)b;
	sr_conf.policy.ring_first = 1 << 20;
	begin_unshared();
	try_listen();
	for (i = 0; i < 2; i++) {
		e[i] = open_end(ECHO << 8 | i);
		l = sr_vlink(e[i]->link);
		CHECK_EQ(is_placed(l->rx.ring[0].buf, i), i);
		CHECK_EQ(is_placed(l->tx.ring.buf, i), i);
		CHECK_EQ(is_placed(l->c->ctl.buf, i), i);
		CHECK(!loop_call(set_node, l->c->dev));
	}
	while (i-- > 0)
		let_go(e[i]);
	end_case();
	return STRUCK;
}

static void test_memory(void)
{
	run_case(memory_case, 1 << 10, false);
	if (!access("/sys/kernel/mm/transparent_hugepage", F_OK)) {
		run_case(memory_case, 2 << 10, true);
		run_case(memory_case, 4 << 10, true);
	}
	run_case(node_case, 0, 0);
	run_case(near_case, 0, 0);
}

/* A completion vector is an interrupt, and so a CPU, which wakes those that sleep. */
static int vectors_case(unsigned a, unsigned b)
{
	enum { SOME = 8 };
	struct end *e[SOME];
	unsigned i, most = fake_profile()->vectors;

	(void)a, (void)b;
	begin_unshared();
	try_listen();
	for (i = 0; i < SOME; i++)
		e[i] = open_end(ECHO << 8 | i);
	say("%u of %u vectors\n", fake_vectors(), most);
	CHECK(fake_vectors() == (most < SOME ? most : SOME));
	while (i-- > 0)
		let_go(e[i]);
	end_case();
	return STRUCK;
}

static void test_vectors(void)
{
	run_case(vectors_case, 0, 0);
}

static const struct test tests[] = {
	{"narrow", test_narrow, false},
	{"memlock", test_memlock, false},
	{"neighbour", test_neighbour, false},
	{"memory", test_memory, false},
	{"vectors", test_vectors, false},
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, COUNT(tests), run_cases);
}
