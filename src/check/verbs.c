/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * verbs.c - what only libibverbs knows of a device.  libibverbs is loaded by name, as by the
 * library, because the command has to work without it.
 */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/library.h"
#include "device.h"

#ifdef HAVE_VERBS
#include <infiniband/verbs.h>
#undef ibv_query_port /* a macro, for programs that are linked to libibverbs */

static struct {
	struct ibv_device **(*get_device_list)(int *n);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	/* (This function fills in only the older members of the structure.) */
	int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
	int (*is_fork_initialized)(void);	/* NULL before rdma-core 35 */
} verbs;

static bool verbs_open_library(void)
{
	static const struct {
		void *to;
		const char *name;
	} calls[] = {
		{ &verbs.get_device_list, "ibv_get_device_list" },
		{ &verbs.free_device_list, "ibv_free_device_list" },
		{ &verbs.get_device_name, "ibv_get_device_name" },
		{ &verbs.open_device, "ibv_open_device" },
		{ &verbs.close_device, "ibv_close_device" },
		{ &verbs.query_port, "ibv_query_port" },
		{ &verbs.is_fork_initialized, "ibv_is_fork_initialized" },
	};
	char why[256];
	void *lib = sr_library_open(&sr_library_verbs, dlopen, why, sizeof(why)), *symbol;

	for (size_t i = 0; lib && i < sizeof(calls) / sizeof(calls[0]); i++) {
		symbol = dlsym(lib, calls[i].name);
		memcpy(calls[i].to, &symbol, sizeof(symbol));
	}
	return lib && verbs.get_device_list && verbs.free_device_list && verbs.get_device_name &&
	       verbs.open_device && verbs.close_device && verbs.query_port;
}

static void verbs_query(struct verbs_found *f, struct ibv_device *device, unsigned port)
{
	struct ibv_context *context = verbs.open_device(device);
	struct ibv_port_attr attr;

	if (!context) {
		f->what = VERBS_NOT_OPENED;
		f->err = errno;
		return;
	}
	f->what = VERBS_OPENED;
	f->vectors = context->num_comp_vectors;
	memset(&attr, 0, sizeof(attr));
	/* 1 is 256 bytes, 5 is 4096 */
	if (!verbs.query_port(context, (uint8_t)port, &attr) && attr.active_mtu >= IBV_MTU_256 &&
	    attr.active_mtu <= IBV_MTU_4096)
		f->mtu = 128u << attr.active_mtu;
	verbs.close_device(context);
}

void verbs_look(struct verbs_found *f, const char *device, unsigned port)
{
	struct ibv_device **list;

	*f = (struct verbs_found){ .what = VERBS_NOT_ASKED };
	if (!verbs_open_library())
		return;
	f->what = VERBS_NO_DRIVER;
	list = verbs.get_device_list(NULL);
	for (int i = 0; list && list[i]; i++)
		if (!strcmp(verbs.get_device_name(list[i]), device))
			verbs_query(f, list[i], port);
	if (list)
		verbs.free_device_list(list);
}

const char *verbs_fork(void)
{
	enum { UNNEEDED = 2 }; /* IBV_FORK_UNNEEDED, of rdma-core 35 */

	if (!verbs_open_library() ||
	    (verbs.is_fork_initialized && verbs.is_fork_initialized() == UNNEEDED))
		return "";
	return "the kernel does not report that fork copies memory which a device has pinned (Linux "
	       "5.9 does): such memory is kept out of children (ibv_fork_init), and forks take longer";
}

#else

void verbs_look(struct verbs_found *f, const char *device, unsigned port)
{
	(void)device;
	(void)port;
	*f = (struct verbs_found){ .what = VERBS_NOT_ASKED };
}

const char *verbs_fork(void)
{
	return "";
}

#endif
