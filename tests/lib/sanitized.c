/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sanitized.c - an ordinary TCP program, to be built with sanitizers: a server's thread
 * with an epoll set, and clients that block, each in a thread of its own, the first ones
 * one after the other and the last ones at once.  Its memory is allocated and freed by
 * threads that share streams' descriptors and nothing else.  When it ends, a stream is open
 * whose other end a child has, which listens at the same address; then a sanitizer may look
 * for memory to which nothing leads any more.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define FORKS 0	/* it bears no child of a process with threads */
#else
#define FORKS 1
#endif

#define CLIENTS 4
#define ROUNDS 300
#define SIZE 4000

static struct sockaddr_in addr = { .sin_family = AF_INET };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int done;

static void on_signal(int sig)
{
	(void)sig;
}

static void echo(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(0);
	char *buf = malloc(SIZE);
	ssize_t n;

	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	while (epoll_wait(ep, &ev, 1, -1) == 1 && (n = recv(fd, buf, SIZE, 0)) > 0)
		send(fd, buf, (size_t)n, 0);
	free(buf);
	close(fd);
	close(ep);
}

static void *one_echo(void *fd)
{
	echo((int)(long)fd);
	return NULL;
}

static void *serve(void *arg)
{
	pthread_t last[CLIENTS];
	int listener = *(int *)arg;

	for (int i = 0; i < CLIENTS; i++)
		echo(accept(listener, NULL, NULL));
	for (int i = 0; i < CLIENTS; i++)
		pthread_create(&last[i], NULL, one_echo,
			       (void *)(long)accept(listener, NULL, NULL));
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(last[i], NULL);
	return NULL;
}

static int round_trip(int fd, char *out, char *in, int i)
{
	size_t got = 0;
	ssize_t n;

	memset(out, i, SIZE);
	if (write(fd, out, SIZE) != SIZE)
		return -1;
	while (got < SIZE && (n = read(fd, in + got, SIZE - got)) > 0)
		got += (size_t)n;
	return got == SIZE && !memcmp(out, in, SIZE) ? 0 : -1;
}

/* Connects the socket.  Returns how many round trips came back right. */
static int talk(int fd)
{
	char *out = malloc(SIZE), *in = malloc(SIZE);
	int i = 0;

	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		perror("connect");
	while (i < ROUNDS && !round_trip(fd, out, in, i))
		i++;
	free(out);
	free(in);
	return i;
}

static void *client(void *arg)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), i = talk(fd);

	(void)arg;
	close(fd);
	pthread_mutex_lock(&mutex);
	done += i;
	pthread_mutex_unlock(&mutex);
	return NULL;
}

/* Both ends of the stream stay open until their processes have ended. */
static int leave_open(int listener)
{
	if (!fork()) {
		echo(accept(listener, NULL, NULL));
		_exit(0);
	}
	return talk(socket(AF_INET, SOCK_STREAM, 0));
}

int main(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);
	pthread_t server, clients[CLIENTS];

	signal(SIGUSR1, on_signal);
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&addr, len) || listen(listener, CLIENTS) ||
	    getsockname(listener, (struct sockaddr *)&addr, &len))
		return 1;
	pthread_create(&server, NULL, serve, &listener);
	for (int i = 0; i < CLIENTS; i++) {
		pthread_create(&clients[i], NULL, client, NULL);
		pthread_join(clients[i], NULL);
	}
	for (int i = 0; i < CLIENTS; i++)
		pthread_create(&clients[i], NULL, client, NULL);
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(clients[i], NULL);
	pthread_join(server, NULL);
	done += FORKS ? leave_open(listener) : ROUNDS;
	raise(SIGUSR1);
	printf("%d round trips\n", done);
	return 0;
}
