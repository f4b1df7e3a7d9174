/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * forks.c - the load of tests/bench/fork.
 *
 *     forks time STREAMS FORKS  how long fork(2) takes a process with so many streams,
 *                               whose child ends at once; page faults of both
 *     forks serve               a server with a process for each connection; prints its port
 *     forks ask PORT MS         connections to it, one after the other, per second
 */
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in address(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return a;
}

static int listen_any(int *port)
{
	struct sockaddr_in a = address(0);
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) || listen(fd, 1000) ||
	    getsockname(fd, (struct sockaddr *)&a, &len))
		die("listen");
	*port = ntohs(a.sin_port);
	return fd;
}

static int dial(int port)
{
	struct sockaddr_in a = address(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)))
		die("connect");
	return fd;
}

/* The other end of the streams: echoes until they end. */
static int echo(int port, int n)
{
	char buf[4096];
	int *fd = calloc((size_t)n, sizeof(*fd));
	ssize_t r;

	for (int i = 0; i < n; i++)
		fd[i] = dial(port);
	while (!n)
		pause();
	for (;;)
		for (int i = 0; i < n; i++) {
			r = recv(fd[i], buf, sizeof(buf), 0);
			if (r <= 0)
				return 0;
			while (r < (ssize_t)sizeof(buf))
				r += recv(fd[i], buf, sizeof(buf) - (size_t)r, 0);
			send(fd[i], buf, sizeof(buf), MSG_NOSIGNAL);
		}
}

static void talk(int fd)
{
	char buf[4096] = "";

	if (send(fd, buf, sizeof(buf), 0) != sizeof(buf) ||
	    recv(fd, buf, sizeof(buf), MSG_WAITALL) != sizeof(buf))
		die("talk");
}

static double faults_so_far(void)
{
	struct rusage own, children;

	if (getrusage(RUSAGE_SELF, &own) || getrusage(RUSAGE_CHILDREN, &children))
		die("getrusage");
	return (double)(own.ru_minflt + children.ru_minflt);
}

static int time_forks(int n, unsigned forks)
{
	double faults;
	uint64_t *ns = calloc(forks, sizeof(*ns)), *all = calloc(forks, sizeof(*all));
	int port, lfd = listen_any(&port), *fd = calloc((size_t)n + 1, sizeof(*fd));
	pid_t other = fork(), pid;
	char text[2][16];

	if (!other) {
		snprintf(text[0], 16, "%d", port);
		snprintf(text[1], 16, "%d", n);
		execl("/proc/self/exe", "forks", "echo", text[0], text[1], NULL);
		_exit(1);
	}
	for (int i = 0; i < n; i++)
		fd[i] = accept(lfd, NULL, NULL);
	for (int turn = 0; turn < 20; turn++) {
		for (int i = 0; i < n; i++)
			talk(fd[i]);
		usleep(30000);
	}
	faults = faults_so_far();
	for (unsigned i = 0; i < forks; i++) {
		uint64_t t = now_ns();

		pid = fork();
		if (!pid)
			_exit(0);
		ns[i] = now_ns() - t;
		waitpid(pid, NULL, 0);
		all[i] = now_ns() - t;
		usleep(500);
	}
	faults = faults_so_far() - faults;
	print_times("fork", ns, forks);
	print_times("child", all, forks);
	printf("faults %.1f\n", faults / forks);
	kill(other, SIGKILL);
	return 0;
}

static void answer(int fd)
{
	char buf[1000] = "";

	if (recv(fd, buf, 100, MSG_WAITALL) == 100)
		send(fd, buf, sizeof(buf), MSG_NOSIGNAL);
}

static int serve(void)
{
	int port, lfd = listen_any(&port), fd;

	signal(SIGCHLD, SIG_IGN);
	printf("%d\n", port);
	fflush(stdout);
	while ((fd = accept(lfd, NULL, NULL)) >= 0) {
		if (!fork()) {
			answer(fd);
			exit(0);
		}
		close(fd);
	}
	return 1;
}

static int ask(int port, unsigned ms)
{
	uint64_t since = now_ns(), n = 0, ns;
	char buf[1000] = "";

	do {
		int fd = dial(port);

		if (send(fd, buf, 100, 0) != 100 ||
		    recv(fd, buf, sizeof(buf), MSG_WAITALL) != sizeof(buf) ||
		    recv(fd, buf, 1, 0) != 0)
			die("answer");
		close(fd);
		n++;
		ns = now_ns() - since;
	} while (ns < ms * UINT64_C(1000000));
	printf("per_s %.1f\n", (double)n * 1e9 / (double)ns);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "time") && argc > 3)
		return time_forks(atoi(argv[2]), (unsigned)atoi(argv[3]));
	if (!strcmp(what, "echo") && argc > 3)
		return echo(atoi(argv[2]), atoi(argv[3]));
	if (!strcmp(what, "serve"))
		return serve();
	if (!strcmp(what, "ask") && argc > 3)
		return ask(atoi(argv[2]), (unsigned)atoi(argv[3]));
	return 2;
}
