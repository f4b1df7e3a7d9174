/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * line.c - a link of shared memory whose peer the kernel cannot vouch for, because it is in
 * another network namespace: the ends say HELLO, SHARE and PROOF to each other by the line,
 * and have no memory in common before that.  It knows neither names nor requests.  Loop only.
 *
 * The answerer sends its memfd with its PROOF, which it says when the asker's was right; the
 * asker uses the memory when that of the answerer is right.
 *
 * A process in the middle could be connected to both ends, pass all packets on, and keep the
 * memory.  So the proof holds for this line alone, by its identity: which kernel this is
 * (boot_id), and the inode of the socket at the answerer's end.  The answerer looks at its
 * own socket.  The asker asks its kernel for the inode of the one to which its own socket is
 * connected (unix_diag).  At the ends of two different lines these differ: no two
 * sockets of one kernel have the same inode number at a time, and for a number to
 * be used again 2^32 inodes would have to be made while the asker waits.
 */
#include "base/real.h"

#include "link/shm/shm.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/closer.h"
#include "base/conf.h"
#include "base/fdpriv.h"
#include "base/log.h"
#include "base/now.h"
#include "base/owner.h"
#include "base/sys.h"

#define PACKETS 4	/* more than a peer sends that keeps to the protocol */

/* ---- the line's identity ---- */

static bool read_boot_id(uint8_t id[SR_SHM_BOOT_LEN])
{
	int fd = sr_fd_own(sr_now_open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC, 0));
	ssize_t n = fd >= 0 ? sr_now_read(fd, id, SR_SHM_BOOT_LEN) : -1;

	if (fd >= 0)
		sr_fd_close(fd);
	return n == SR_SHM_BOOT_LEN;
}

static bool find_inode(int line, enum sr_role role, uint32_t *inode)
{
	struct stat st;

	if (role == SR_ROLE_ASKER && sr_owner_line_peer(line, inode)) {
		sr_inform("no link by %s: the kernel does not say which Unix sockets are connected "
			  "(modprobe unix_diag)", sr_conf.dir);
		return false;
	}
	if (role == SR_ROLE_ASKER)
		return true;
	if (sr_sys_fstat(line, &st))
		return false;
	*inode = (uint32_t)st.st_ino;	/* all that unix_diag tells; sockets have no more */
	return true;
}

const char *sr_shm_by_line(struct sr_shm *l, int line)
{
	uint32_t inode;

	if (!read_boot_id(l->id) || !find_inode(line, l->link.role, &inode))
		return "no-match";
	inode = htobe32(inode);
	memcpy(l->id + SR_SHM_BOOT_LEN, &inode, sizeof(inode));
	l->link.proof = SR_PROOF_ALWAYS;
	sr_store(&l->by_line, true);
	return NULL;
}

size_t sr_shm_identity(struct sr_link *link, uint8_t id[SR_ID_MAX])
{
	memcpy(id, sr_shm_of(link)->id, SR_SHM_ID_LEN);
	return SR_SHM_ID_LEN;
}

/* ---- messages ---- */

/* From now on the ends use the memory, and the line is the doorbell. */
static void go_to_memory(struct sr_shm *l)
{
	l->doorbell = l->line.fd;
	l->line.fn = sr_shm_line_readable;
	sr_publish(&l->by_line, false);	/* pairs with all that observe it: the memory is there */
}

int sr_shm_line_say(struct sr_shm *l, const struct sr_msg *msg)
{
	bool last = msg->type == SR_MSG_PROOF && l->link.role == SR_ROLE_ANSWERER;
	uint8_t buf[SR_MSG_MAX];
	size_t n = sr_msg_encode(msg, buf);

	if (!last)
		return sr_now_send(l->line.fd, buf, n) == (ssize_t)n ? 0 : -EPIPE;
	if (sr_local_send_fds(l->line.fd, buf, n, &l->memory, 1))
		return -EPIPE;
	sr_fd_close(l->memory);
	l->memory = -1;
	go_to_memory(l);
	return 0;
}

/* The answerer's PROOF brings its memory.  Whether it is right is for prove.c to say: until
 * then nothing is sent by it. */
static const char *take_proof(struct sr_shm *l, int *fd)
{
	const char *bad = sr_shm_take_memory(l, fd);

	if (!bad)
		go_to_memory(l);
	return bad;
}

static const char *take_packet(struct sr_shm *l, const uint8_t *buf, size_t n, int *fd)
{
	bool last;
	struct sr_msg msg;
	const char *bad = NULL;

	if (n > SR_MSG_MAX || sr_msg_decode(&msg, buf, n) ||
	    (msg.type != SR_MSG_HELLO && msg.type != SR_MSG_SHARE && msg.type != SR_MSG_PROOF))
		return "protocol";
	last = msg.type == SR_MSG_PROOF && l->link.role == SR_ROLE_ASKER;
	if (!last && *fd >= 0)
		return "protocol";
	/* (sr_link_take() refuses a PROOF that comes too early.) */
	if (last)
		bad = take_proof(l, fd);
	return bad ?: sr_link_take(&l->link, &msg) ? "protocol" : NULL;
}

/* One packet.  False: there is none, or the line is over. */
static bool line_hear(struct sr_shm *l)
{
	unsigned most = l->link.role == SR_ROLE_ASKER;
	uint8_t buf[SR_MSG_MAX + 1];
	int fds[SR_LOCAL_FDS] = { -1, -1 };
	const char *bad = "protocol";
	ssize_t n;

	n = most ? sr_local_recv_fds(l->line.fd, buf, sizeof(buf), fds, most) :
		   sr_local_recv(l->line.fd, buf, sizeof(buf));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n == 0 || (n < 0 && errno != EBADMSG)) {
		sr_loop_unwatch(&l->line);
		sr_shm_line_lost(l);
		return false;
	}
	if (n > 0)
		bad = take_packet(l, buf, (size_t)n, &fds[0]);
	if (fds[0] >= 0)
		sr_closer_close(fds[0]);
	if (bad) {
		sr_loop_unwatch(&l->line);
		sr_shm_drop(&l->link, bad);
	} else {
		l->link.notify(&l->link, SR_NOTIFY_CTL);
	}
	return !bad && sr_load(&l->by_line);
}

void sr_shm_line_heard(struct sr_watch *w, uint32_t events)
{
	struct sr_shm *l = SR_OF(struct sr_shm, line, w);

	(void)events;
	for (int i = 0; i < PACKETS && line_hear(l); i++)
		;
}
