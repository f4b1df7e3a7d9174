/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * thread_stack.c - calls on streams in threads whose stack is as small as POSIX allows.  With
 * CASE_DEPTH each call says how much of it is used.
 */
#include "case.h"

#define STACK_CALL(name) name
#include "stack_calls.h"

/* What the client asks the server for, by the stream's first byte. */
enum order {
	BYTES = 'b',	/* some bytes */
	MUCH = 'm',	/* as many as there is room for */
	NOTHING = 'n',
	RETURN = 'r'	/* some bytes; at the second byte its end goes back to TCP */
};

/* Waits for the client's next byte, or its end. */
static void next_byte(int fd, char *byte)
{
	*byte = 0;
	(void)!read(fd, byte, 1);
}

static void serve(int fd)
{
	char order, go;
	FILE *f;

	next_byte(fd, &order);
	if (order == BYTES || order == RETURN)
		send(fd, stack_data, 5000, MSG_NOSIGNAL);
	else if (order == MUCH)
		send(fd, stack_data, sizeof(stack_data), MSG_NOSIGNAL | MSG_DONTWAIT);
	if (order != NOTHING)
		next_byte(fd, &go);
	if (order == RETURN) {
		next_byte(fd, &go);
		f = fdopen(dup(fd), "r");	/* needs TCP */
		if (f)
			fclose(f);
	}
}

/* The next stream shows that the last one is over.  (What comes by TCP and is not read holds
 * the peer's end up.) */
static void small_server(int lfd)
{
	struct pollfd next = {lfd, POLLIN, 0};
	int fd = -1;

	while (!is_posted("measured")) {
		if (poll(&next, 1, 20) != 1)
			continue;
		if (fd >= 0)
			close(fd);
		fd = answer(lfd);
		serve(fd);
	}
}

static const struct scene {
	const char *name;
	enum order order;
	bool plain, full;	/* for good; with no room for what is sent */
	size_t size;
	int wait_ms;
} scenes[] = {
	{"at first", BYTES, false, false, 100, 0},	/* in lazy without a link */
	{"plain", BYTES, true, false, 100, 0},
	{"linked", BYTES, false, false, 100, 0},
	{"growing", MUCH, false, false, STACK_DATA, 0},
	{"returning", RETURN, false, false, 100, 0},
	{"asleep, plain", NOTHING, true, true, 100, 1},
	{"asleep, linked", NOTHING, false, true, 100, 1},
};

static void prepare(void)
{
	socklen_t len = sizeof(on.self);

	on.ep = epoll_create1(EPOLL_CLOEXEC);
	on.file = memfd_create("zeros", MFD_CLOEXEC);
	on.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	on.self = (struct sockaddr_in){.sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (ftruncate(on.file, STACK_DATA) ||
	    bind(on.listener, (struct sockaddr *)&on.self, len) || listen(on.listener, 8) ||
	    getsockname(on.listener, (struct sockaddr *)&on.self, &len))
		die("prepare");
}

/* The stream that a call is made on. */
static int begin(const struct scene *s)
{
	struct timeval little = {0, 1000};
	struct iovec none = {stack_data, 0};
	int fd = dial();

	fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (s->plain)
		(void)!preadv2(fd, &none, 1, -1, 0);
	put(fd, &(char){(char)s->order}, 1);
	if (s->order != NOTHING) {
		await_readable(fd, 1000);
		send_go(fd);
	}
	if (s->full)
		while (send(fd, stack_data, sizeof(stack_data), MSG_DONTWAIT) > 0)
			;
	if (s->wait_ms) {
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &little, sizeof(little));
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &little, sizeof(little));
	} else {
		fcntl(fd, F_SETFL, O_NONBLOCK);
	}
	on.size = s->size;
	on.wait_ms = s->wait_ms;
	if (s->order == RETURN)
		send_go(fd);
	return fd;
}

static bool all(const struct scene *s)
{
	bool fits = true;
	int fd;

	for (int i = 0; i < CALLS; i++) {
		if (!stack_calls[i].run)
			continue;
		fd = begin(s);
		fits = stack_fits(s->name, i, fd) && fits;
		if (fcntl(fd, F_GETFD) >= 0)
			close(fd);
	}
	return fits;
}

static void small_client(void)
{
	bool fits = true;

	if (stack_forgotten()) {
		say("%s: neither called nor left out", stack_forgotten());
		return;
	}
	prepare();
	for (size_t i = 0; i < COUNT(scenes); i++)
		fits = all(&scenes[i]) && fits;
	say("fits: %d", fits);
	post("measured");
}

const struct tcp_case cases[] = {
	{"small", small_server, small_client},
	{0},
};
