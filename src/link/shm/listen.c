/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * listen.c - the abstract names that askers connect to (rendezvous.c).  It owns
 * the listening sockets, and knows nothing of the offers.  Service thread only,
 * no locks.
 */
#include "base/real.h"

#include "link/shm/shm.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fdpriv.h"
#include "base/log.h"

#define REST_MS 100
#define BACKLOG 1024 /* an asker that finds it full does not wait */
#define BATCH 64 /* connections accepted at a time */

struct listener {
	struct sr_watch watch;
	struct sr_timer timer;
};

static int take_lines(struct listener *listener)
{
	int i, fd = 0;

	for (i = 0; i < BATCH && (fd >= 0 || fd == -ECONNREFUSED); i++) {
		fd = sr_local_accept(listener->watch.fd);
		if (fd >= 0)
			sr_shm_line_new(fd);
	}
	return fd >= 0 || fd == -ECONNREFUSED ? 0 : fd;
}

static bool must_wait(int err)
{
	return err == -EBUSY || err == -EMFILE || err == -ENFILE;
}

static void rested(struct sr_timer *t)
{
	struct listener *listener =
		(struct listener *)((char *)t -
				    offsetof(struct listener, timer));

	sr_loop_watch(&listener->watch, EPOLLIN);
}

/* A listener that stays readable would keep the service thread busy. */
static void listener_readable(struct sr_watch *w, uint32_t events)
{
	struct listener *listener =
		(struct listener *)((char *)w -
				    offsetof(struct listener, watch));
	int err = take_lines(listener);

	(void)events;
	if (!must_wait(err))
		return;
	sr_loop_unwatch(&listener->watch);
	listener->timer.fn = rested;
	sr_timer_set(&listener->timer, REST_MS);
}

/* The name that askers derive from the address; or one that nobody can guess, nor
 * have taken. */
static int make_name(const struct sockaddr *addr, char *there,
		     struct sockaddr_un *un, socklen_t *len)
{
	char word[100];
	uint64_t random;
	int n;

	if (there) {
		if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
			return -errno;
		sr_format(there, SR_THERE_LEN, "%016llx", (unsigned long long)random);
		*len = sr_local_name(un, SR_SHM_THERE, there);
		return 0;
	}
	n = sr_local_word(word, sizeof(word), addr, false, false);
	if (n < 0)
		return n;
	*len = sr_local_name(un, word, "");
	return 0;
}

int sr_shm_listen(const struct sockaddr *addr, char *there, void **out)
{
	struct listener *listener;
	struct sockaddr_un un;
	socklen_t len = 0;
	int fd, err;

	err = make_name(addr, there, &un, &len);
	if (err)
		return err;
	fd = sr_local_socket();
	if (fd < 0)
		return fd;
	err = bind(fd, (struct sockaddr *)&un, len) ? -errno : 0;
	if (err)
		goto close;
	err = -ENOMEM;
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		goto close;
	listener->watch = (struct sr_watch){.fd = fd, .fn = listener_readable};
	err = sr_real.listen(fd, BACKLOG) ? -errno : 0;
	if (!err)
		err = sr_loop_watch(&listener->watch, EPOLLIN);
	if (err)
		goto free;
	*out = listener;
	return 0;
free:
	free(listener);
close:
	sr_fd_close(fd);
	return err;
}

/* Empties the backlog first, because of what strangers have sent there. */
static void end_listener(struct sr_timer *t)
{
	struct listener *listener =
		(struct listener *)((char *)t -
				    offsetof(struct listener, timer));
	int err = take_lines(listener);

	if (!err || must_wait(err)) {
		sr_timer_set(t, REST_MS);
		return;
	}
	sr_fd_close(listener->watch.fd);
	free(listener);
}

void sr_shm_unlisten(void *handle)
{
	struct listener *listener = handle;

	sr_timer_cancel(&listener->timer);
	sr_loop_unwatch(&listener->watch);
	sr_real.shutdown(listener->watch.fd, SHUT_RD); /* nobody else can connect now */
	listener->timer.fn = end_listener;
	end_listener(&listener->timer);
}
