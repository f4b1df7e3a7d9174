/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * dir.h - the rendezvous of shared memory in a directory (SOCKRAIL_DIR), for processes of
 * different network namespaces.  Service thread only, but for sr_dir_has() and
 * sr_dir_leave().
 */
#ifndef SR_SHM_DIR_H
#define SR_SHM_DIR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/loop.h"
#include "pure/request.h"

#define SR_DIR_NAME_MAX 72	/* a name, with the final 0 */
#define SR_DIR_ADDRESSES 8	/* of a door */
#define SR_DIR_PLACES 64	/* at one address; some may be dead */

/* Where a process listens in the directory. */
struct sr_dir_door {
	struct sr_watch watch;	/* fd -1: nowhere */
	struct sr_dir_door *next, **pprev;
	char place[SR_THERE_NAME_LEN];
	bool any6;		/* accepts at any address, of IPv6, too */
	uint16_t port;
	unsigned names;
	struct sockaddr_storage address[SR_DIR_ADDRESSES];
};

/* there: NULL: askers find it by the address; else by this place (request.h).  When a
 * process has connected to the door, fn is called in the loop.  The door's fd is -1 if it cannot
 * be opened, or if there is no directory (SOCKRAIL_DIR). */
void sr_dir_open(struct sr_dir_door *d, const struct sockaddr *addr, const char *there,
		 void (*fn)(struct sr_watch *w, uint32_t events));
/* Removes an open door's names.  The caller closes its watch. */
void sr_dir_close(struct sr_dir_door *d);
void sr_dir_leave(void);	/* exit: the same for all; any thread */
void sr_dir_forget(void);	/* child of fork */

/* Is there a name of this address?  Any thread. */
bool sr_dir_has(const struct sockaddr_storage *addr);

struct sr_dir_places {
	unsigned count, first;	/* first: of them to be asked; the others follow, in a circle */
	char place[SR_DIR_PLACES][SR_THERE_NAME_LEN];
};
void sr_dir_find(const struct sockaddr_storage *addr, struct sr_dir_places *to);
/* Connects to a place; addr NULL: that an asker was sent to.  0, or -1 and errno. */
int sr_dir_call(int sock, const struct sockaddr_storage *addr, const char *place);

#endif
