/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * lib.h - librdmacm and libibverbs, loaded when there is a device: the table of
 * the functions that the library calls.
 */
#ifndef SR_VERBS_LIB_H
#define SR_VERBS_LIB_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* All the functions that are called and not inline in the headers. */
#define SR_VERBS_CALLS(X)                                                      \
	X(cm, rdma, create_event_channel)                                      \
	X(cm, rdma, create_id)                                                 \
	X(cm, rdma, destroy_id)                                                \
	X(cm, rdma, bind_addr)                                                 \
	X(cm, rdma, resolve_addr)                                              \
	X(cm, rdma, resolve_route)                                             \
	X(cm, rdma, create_qp)                                                 \
	X(cm, rdma, connect)                                                   \
	X(cm, rdma, listen)                                                    \
	X(cm, rdma, accept)                                                    \
	X(cm, rdma, reject)                                                    \
	X(cm, rdma, disconnect)                                                \
	X(cm, rdma, get_cm_event)                                              \
	X(cm, rdma, ack_cm_event)                                              \
	X(cm, rdma, set_option)                                                \
	X(v, ibv, fork_init)                                                   \
	X(v, ibv, alloc_pd)                                                    \
	X(v, ibv, dealloc_pd)                                                  \
	X(v, ibv, reg_mr)                                                      \
	X(v, ibv, dereg_mr)                                                    \
	X(v, ibv, create_comp_channel)                                         \
	X(v, ibv, destroy_comp_channel)                                        \
	X(v, ibv, create_cq)                                                   \
	X(v, ibv, destroy_cq)                                                  \
	X(v, ibv, destroy_qp)                                                  \
	X(v, ibv, get_cq_event)                                                \
	X(v, ibv, ack_cq_events)                                               \
	X(v, ibv, get_async_event)                                             \
	X(v, ibv, ack_async_event)

#define SR_VERBS_FIELD(lib, prefix, name)                                      \
	__typeof__(prefix##_##name) *lib##_##name;
struct sr_verbs_lib {
	SR_VERBS_CALLS(SR_VERBS_FIELD)
	int (*v_is_fork_initialized)(void);	/* NULL before rdma-core 35 */
	/* NULL before rdma-core 28.  It leaves out flags that the kernel does not know. */
	__typeof__(ibv_reg_mr_iova2) *v_reg_mr_iova2;
};
#undef SR_VERBS_FIELD
extern struct sr_verbs_lib sr_vlib;

/* Which kinds of device are there?  Looks at sysfs only. */
enum { SR_VDEV_IB = 1, SR_VDEV_IWARP = 2 };
unsigned sr_verbs_devices(void);
/* Loads the libraries.  0, -ENODEV or -ELIBACC.  loop. */
int sr_verbs_load(void);
/* Bytes that the kernel has pinned for the process, which RLIMIT_MEMLOCK limits.  job. */
size_t sr_verbs_pinned(void);
void sr_verbs_unload(void);	/* in the child of fork */

#endif
