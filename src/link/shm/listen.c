/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * listen.c - the abstract names that askers connect to (rendezvous.c).  It owns
 * the listening sockets, and knows nothing of the offers.  Service thread only,
 * no locks.
 */
#include "base/real.h"

#include "link/shm/shm.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/fdpriv.h"
#include "base/log.h"
#include "base/pages.h"

#define BACKLOG 1024 /* an asker that finds it full does not wait */

/* -EBUSY, -EMFILE, -ENFILE: what is left has to wait in the backlog, for the next one to
 * come.  (An asker does not wait for long.) */
static int take_lines(int listener)
{
	uint32_t uid;
	int fd;

	do {
		fd = sr_local_accept(listener, &uid);
		if (fd >= 0)
			sr_shm_line_new(fd, uid);
	} while (fd >= 0);
	return fd;
}

static void listener_readable(struct sr_watch *w, uint32_t events)
{
	(void)events;
	take_lines(w->fd);
}

/* The name that askers derive from the address; or one that nobody can guess, nor
 * have taken.  Its length, or -errno. */
static int make_name(const struct sockaddr *addr, char *there, struct sockaddr_un *un)
{
	uint64_t random;

	if (!there)
		return sr_local_name(un, addr, 0, "");
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		return -errno;
	sr_format(there, SR_THERE_LEN, "%016llx", (unsigned long long)random);
	return (int)sr_local_there(un, there);
}

int sr_shm_listen(const struct sockaddr *addr, char *there, void **out)
{
	struct sr_watch *listener;
	struct sockaddr_un un;
	int fd, err, len = make_name(addr, there, &un);

	if (len < 0)
		return len;
	fd = sr_local_socket();
	if (fd < 0)
		return fd;
	err = -ENOMEM;
	listener = sr_pages_get(sizeof(*listener));
	if (!listener)
		goto close;
	*listener = (struct sr_watch){.fd = fd, .fn = listener_readable};
	err = bind(fd, (struct sockaddr *)&un, (socklen_t)len) ||
	      sr_real.listen(fd, BACKLOG) ? -errno : 0;
	/* Edge-triggered: one that has to wait must not keep the thread busy. */
	if (!err)
		err = sr_loop_watch(listener, EPOLLIN | EPOLLET);
	if (err)
		goto free;
	*out = listener;
	return 0;
free:
	sr_pages_put(listener, sizeof(*listener));
close:
	sr_fd_close(fd);
	return err;
}

/* Empties the backlog first, because of what strangers have sent there. */
void sr_shm_unlisten(void *handle)
{
	struct sr_watch *listener = handle;
	int err;

	sr_loop_unwatch(listener);
	sr_real.shutdown(listener->fd, SHUT_RD); /* nobody else can connect now */
	err = take_lines(listener->fd);
	if (err == -EBUSY || err == -EMFILE || err == -ENFILE)
		sr_closer_close(listener->fd);	/* with what is left */
	else
		sr_fd_close(listener->fd);
	sr_pages_put(listener, sizeof(*listener));
}
