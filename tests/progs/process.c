/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* process.c - descriptors that are copied, inherited, executed with, passed. */
#include "case.h"
#include "entries.h"

#include <spawn.h>
#include <sys/resource.h>

static char buf[1 << 17];
extern char **environ;

/* Echoes until the end; the number of bytes.  (Several threads may do so: no shared buffer.) */
static size_t echo(int fd)
{
	size_t total = 0;
	char data[5000];
	ssize_t n;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	while ((n = read(fd, data, sizeof(data))) > 0) {
		put(fd, data, (size_t)n);
		total += (size_t)n;
	}
	if (n < 0)
		die("read");
	return total;
}

static void talk(int fd, int seed, int rounds)
{
	struct data out = DATA(seed), in = DATA(0);

	for (int i = 0; i < rounds; i++) {
		size_t n = data_size(&out, 9000);

		data_fill(&out, buf, n);
		put(fd, buf, n);
		take_data(fd, &in, n, n);
	}
	say("%d rounds: %s", rounds, in.crc == out.crc ? "equal" : "DIFFERS");
}

static void talk_client(void)
{
	int fd = dial();

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	talk(fd, 61, 30);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

/* ----------------------------------------------------------- copies */

static void dup_server(int lfd)
{
	int fd = answer_warm(lfd), a, b, c;

	a = dup(fd);
	b = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	say("%d %d", b >= 100, fcntl(b, F_GETFD));
	c = dup2(fd, 200);
	say("%d", c);
	say_result("same", dup2(c, c));
	say_result("dup3 same", dup3(c, c, 0));
	put(a, "by a\n", 5);
	close(fd);
	put(b, "by b\n", 5);
	close(a);
	close(b);
	say_bytes("by c", (ssize_t)take(c, buf, 5), buf);
	/* Over a descriptor that is another stream's last: that one ends. */
	fd = answer(lfd);
	await_go(fd);
	say_result("dup3", dup3(c, fd, O_CLOEXEC));
	close(c);
	put(fd, "by fd\n", 6);
	say_bytes("rest", (ssize_t)take(fd, buf, 50), buf);
	close(fd);
	say_result("closed", write(fd, "x", 1));
}

static void dup_client(void)
{
	int fd = dial_warm(), second;

	say_bytes("got", (ssize_t)take(fd, buf, 10), buf);
	put(fd, "hello", 5);
	second = dial();
	send_go(second);
	say_result("second", recv(second, buf, 1, 0));
	say_bytes("got", (ssize_t)take(fd, buf, 6), buf);
	put(fd, "bye", 3);
	close(fd);
	close(second);
}

/* Daemons close everything they did not open. */
static void close_all_server(int lfd)
{
	int fd = answer_warm(lfd), again;

	/* all but the listener and the stream */
	for (int i = 3; i < 1024; i++)
		if (i != lfd && i != fd)
			close(i);
	warm_up(fd, false);
	if (close_range((unsigned)(fd > lfd ? fd : lfd) + 1, ~0U, 0))
		die("close_range");
	warm_up(fd, false);
	again = answer(lfd);
	warm_up(again, false);
	dup2(again, 3);
	closefrom(4);
	fd = fd == 3 ? 4 : fd;
	/* a descriptor on its way to a high number may be there for an instant */
	while (write(fd, "x", 1) < 0 && errno != EBADF)
		usleep(1000);
	say_result("closed", write(fd, "x", 1));
	send_go(3);
	close(3);
}

static void close_all_client(void)
{
	int fd = dial(), again;

	for (int i = 0; i < 3; i++)
		warm_up(fd, true);
	again = dial();
	warm_up(again, true);
	say_result("end", recv(fd, buf, 1, 0));
	await_go(again);
	say_result("end", recv(again, buf, 1, 0));
	close(fd);
	close(again);
}

/* ------------------------------------------------------------- fork */

/* A child for each stream. */
static void fork_child_server(int lfd)
{
	for (int i = 0; i < 3; i++) {
		int fd = answer(lfd);
		pid_t pid = split();

		if (!pid) {
			close(lfd);
			say("echoed %zu", echo(fd));
			exit(0);
		}
		close(fd);
		reap(pid);
	}
}

static void fork_child_client(void)
{
	for (int i = 0; i < 3; i++)
		talk_client();
}

/* Each child answers one request, which is there when it looks, and ends. */
static void fork_brief_server(int lfd)
{
	for (int i = 0; i < 3; i++) {
		int fd = answer(lfd), unread = 0;
		pid_t pid;

		for (uint64_t end = 0; unread < 100 && patient(&end);)
			if (ioctl(fd, FIONREAD, &unread))
				die("FIONREAD");
		pid = split();
		if (!pid) {
			if (recv(fd, buf, 1000, 0) != 100 || send(fd, buf, 500, 0) != 500)
				die("answer");
			say("threads: %d", count_entries("/proc/self/task") - 2);
			exit(0);
		}
		close(fd);
		reap(pid);
	}
}

static void fork_brief_client(void)
{
	for (int i = 0; i < 3; i++) {
		int fd = dial();

		if (send(fd, buf, 100, 0) != 100 ||
		    recv(fd, buf, 500, MSG_WAITALL) != 500)
			die("answer");
		say("then %zd", recv(fd, buf, 1, 0));
		close(fd);
	}
}

/* Both use a stream that has been in use, in turn; then the parent goes on. */
static void fork_both_client(void)
{
	int fd = dial();
	pid_t pid;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	talk(fd, 62, 20);
	pid = split();
	if (!pid) {
		talk(fd, 63, 20);
		_exit(3);
	}
	reap(pid);
	talk(fd, 64, 20);
	pid = split();
	if (!pid) {
		/* Closing here ends nothing. */
		close(fd);
		exit(4);
	}
	reap(pid);
	talk(fd, 65, 5);
	/* The child writes while the parent reads. */
	pid = split();
	if (!pid) {
		struct data d = DATA(66);

		put_data(fd, &d, 300000, 5000);
		exit(5);
	}
	{
		struct data d = DATA(0);

		take_data(fd, &d, 300000, 3000);
		say_data("got", &d);
	}
	reap(pid);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

static void echo_server(int lfd)
{
	int fd = answer(lfd);

	say("echoed %zu", echo(fd));
	close(fd);
}

/* ------------------------------------------------------------- exec */

/* As inetd does it: the stream is stdin and stdout of cat. */
static void inetd_server(int lfd)
{
	int fd = answer_warm(lfd);
	pid_t pid;

	pid = split();
	if (!pid) {
		dup2(fd, 0);
		dup2(fd, 1);
		close(fd);
		execlp("cat", "cat", (char *)NULL);
		_exit(127);
	}
	close(fd);
	reap(pid);
}

static void inetd_client(void)
{
	int fd = dial();

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	warm_up(fd, true);
	talk(fd, 69, 20);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

/* The process itself becomes another program, with bytes unread and unsent. */
static void exec_server(int lfd)
{
	int fd = answer_warm(lfd);

	send_go(fd);
	await_readable(fd, 5);
	put(fd, "before ", 7);
	dup2(fd, 0);
	dup2(fd, 5);
	execlp("sh", "sh", "-c", "read word; echo \"after $word\" >&5",
	       (char *)NULL);
	_exit(127);
}

static void exec_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	put(fd, "exec\n", 5);
	say_bytes("got", (ssize_t)take(fd, buf, 100), buf);
	close(fd);
}

/* Programs started on the way, which have nothing to do with the stream. */
static void spawn_client(void)
{
	int fd = dial(), status;
	char *argv[] = {(char *)"true", NULL};
	pid_t pid;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	talk(fd, 70, 10);
	say("system: %d", system("exit 3") >> 8);
	talk(fd, 71, 10);
	if (posix_spawnp(&pid, "true", NULL, NULL, argv, environ))
		die("posix_spawn");
	waitpid(pid, &status, 0);
	say("spawn: %d", status);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	pid = vfork();
	if (!pid) {
		execlp("true", "true", (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	say("vfork: %d", status);
	talk(fd, 72, 10);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

/* A failed exec leaves everything as it was. */
static void failed_exec_client(void)
{
	int fd = dial();

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	talk(fd, 73, 10);
	say_result("exec", execl("/no/such/program", "x", (char *)NULL));
	talk(fd, 74, 10);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

/* ---------------------------------------------------------- passing */

/* To itself: another descriptor of the same stream. */
static void pass_self_server(int lfd)
{
	int s[2], fd = answer(lfd), twin;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s))
		die("socketpair");
	warm_up(fd, false);
	send_fd(s[0], fd);
	twin = receive_fd(s[1]);
	close(fd);
	say("echoed %zu", echo(twin));
	close(twin);
}

/* ------------------------------------------------------------ stdio */

static void stdio_server(int lfd)
{
	int fd = answer_warm(lfd), lines = 0;
	FILE *f;

	f = fdopen(fd, "r+");
	dprintf(fd, "welcome ");
	fprintf(f, "%d\n", 1);
	fflush(f);
	while (fgets(buf, sizeof(buf), f)) {
		lines++;
		fseek(f, 0, SEEK_CUR);
		fprintf(f, "%d: %s", lines, buf);
		fflush(f);
	}
	say("%d lines", lines);
	fclose(f);
}

/* On a link by then. */
static void dprintf_server(int lfd)
{
	int fd = answer_warm(lfd);

	for (int i = 0; i < 20; i++) {
		say_result("dprintf", dprintf(fd, "line %d of %s\n", i, "many"));
		put(fd, "and\n", 4);
	}
	close(fd);
}

static void dprintf_client(void)
{
	int fd = dial_warm();
	FILE *f;

	f = fdopen(fd, "r");
	while (fgets(buf, sizeof(buf), f))
		say("%s", strtok(buf, "\n"));
	fclose(f);
}

static void stdio_client(void)
{
	int fd = dial_warm();
	FILE *in, *out;

	in = fdopen(fd, "r");
	out = fdopen(dup(fd), "w");
	for (int i = 0; i < 50; i++) {
		if (!fgets(buf, sizeof(buf), in))
			die("fgets");
		if (i < 3 || i > 47)
			printf("%s", buf);
		fprintf(out, "line %d %s\n", i, i & 1 ? "odd" : "even");
		fflush(out);
	}
	shutdown(fd, SHUT_WR);
	fclose(out);
	while (fgets(buf, sizeof(buf), in))
		printf("%s", buf);
	fclose(in);
}

/* ------------------------------------------------------------ the limit */

/* Streams and files up to half of RLIMIT_NOFILE. */
enum { FDS = 100, STREAMS = 36, FILES = 8 };

static void limit_fds(void)
{
	struct rlimit l;

	getrlimit(RLIMIT_NOFILE, &l);
	l.rlim_cur = FDS;
	if (setrlimit(RLIMIT_NOFILE, &l))
		die("setrlimit");
}

static void open_files(int fd[FILES])
{
	for (int i = 0; i < FILES; i++) {
		fd[i] = i & 1 ? open("/dev/null", O_RDWR) : dup(0);
		if (fd[i] < 0)
			die("open");
	}
	for (int i = 0; i < FILES; i++)
		close(fd[i]);
}

static void limit_server(int lfd)
{
	int fd[STREAMS], files[FILES];

	limit_fds();
	for (int i = 0; i < STREAMS; i++) {
		fd[i] = answer(lfd);
		warm_up(fd[i], false);
	}
	open_files(files);
	for (int i = 0; i < STREAMS; i++) {
		if (recv(fd[i], buf, 100, MSG_WAITALL) != 100)
			die("recv");
		put(fd[i], buf, 100);
		close(fd[i]);
	}
	say("done");
}

static void limit_client(void)
{
	int fd[STREAMS], files[FILES];

	limit_fds();
	for (int i = 0; i < STREAMS; i++) {
		fd[i] = dial();
		warm_up(fd[i], true);
	}
	open_files(files);
	for (int i = 0; i < STREAMS; i++) {
		put(fd[i], buf, 100);
		if (recv(fd[i], buf, 100, MSG_WAITALL) != 100)
			die("recv");
		close(fd[i]);
	}
	say("done");
}

/* More clients than the limit allows at a time.  Whoever has been served keeps its end
 * of the stream until all have been. */
enum { CROWD = 200 };

/* (How many of the crowd have a link is chance; one stream has it before they come.) */
static void crowd_server(int lfd)
{
	int fd[CROWD], accepted = 0, served = 0, first = answer_warm(lfd);
	char c;

	limit_fds();
	fcntl(lfd, F_SETFL, O_NONBLOCK);
	while (served < CROWD) {
		int got = accepted < CROWD ? accept(lfd, NULL, NULL) : -1;

		if (got >= 0) {
			fd[accepted++] = got;
		} else if (accepted > served) {
			if (take(fd[served], &c, 1) != 1)
				die("take");
			put(fd[served], &c, 1);
			close(fd[served++]);
		} else {
			nap(1);
		}
	}
	put(first, "x", 1);
	if (take(first, &c, 1) != 1)
		die("take");
	say("%d served", served);
}

static pthread_barrier_t all_served;

static void *crowd_talk(void *number)
{
	char c = (char)(intptr_t)number, answer = 0;
	int fd = dial();

	put(fd, &c, 1);
	if (take(fd, &answer, 1) != 1 || answer != c)
		die("answer");
	pthread_barrier_wait(&all_served);
	close(fd);
	return NULL;
}

static void crowd_client(void)
{
	pthread_t thread[CROWD];
	int first = dial_warm();
	char c;

	pthread_barrier_init(&all_served, NULL, CROWD);
	for (int i = 0; i < CROWD; i++)
		thread[i] = start(crowd_talk, (void *)(intptr_t)i);
	for (int i = 0; i < CROWD; i++)
		pthread_join(thread[i], NULL);
	if (take(first, &c, 1) != 1)
		die("take");
	put(first, &c, 1);
	say("%d answers", CROWD);
}

/* Half closed, and then for stdio: the answer comes in a while. */
static void half_stdio_server(int lfd)
{
	int fd = answer_warm(lfd);

	say("end: %zd", recv(fd, buf, 1, 0));
	await_peer_asleep();
	put(fd, "answer\n", 7);
	close(fd);
}

static void half_stdio_client(void)
{
	int fd = dial_warm();
	char line[20];
	FILE *f;

	shutdown(fd, SHUT_WR);
	nap(100);
	f = fdopen(fd, "r");
	if (!f || !fgets(line, sizeof(line), f))
		die("fgets");
	line[strcspn(line, "\n")] = 0;
	say("%s", line);
	fclose(f);
}

/* As servers do that show in ps(1) what each process is for. */
static void renamed_server(int lfd)
{
	char *name = program_invocation_name;
	pid_t child = fork();
	int fd;

	if (child) {
		close(lfd);
		waitpid(child, NULL, 0);
		return;
	}
	memset(name, 'x', strlen(name));
	fd = answer_warm(lfd);
	send_go(fd);
	await_go(fd);
	close(fd);
}

/* A process forks while a thread of it makes its first stream, for which libraries may
 * be loaded; the child makes one of its own. */
enum { LOADS = 100, LOAD_US = 1500 };

static void *echo_thread(void *fd)
{
	echo((int)(intptr_t)fd);
	close((int)(intptr_t)fd);
	return NULL;
}

static void loads_server(int lfd)
{
	pthread_t thread[2 * LOADS];

	for (int i = 0; i < 2 * LOADS; i++)
		thread[i] = start(echo_thread, (void *)(intptr_t)answer(lfd));
	for (int i = 0; i < 2 * LOADS; i++)
		pthread_join(thread[i], NULL);
}

static void *first_stream(void *arg)
{
	int fd = dial();

	put(fd, "hello", 5);
	take(fd, buf, 5);
	close(fd);
	return arg;
}

/* The child's exit status: 0 if all is well, or it says why. */
static int fork_early(int us)
{
	pthread_t thread = start(first_stream, NULL);
	int status;
	pid_t pid;

	usleep((unsigned)us);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		first_stream(NULL);
		exit(0);
	}
	waitpid(pid, &status, 0);
	pthread_join(thread, NULL);
	return status != 0;
}

static void loads_client(void)
{
	int status, failed = 0;

	for (int i = 0; i < LOADS; i++) {
		pid_t pid = fork();

		if (!pid)
			exit(fork_early(i * LOAD_US));
		waitpid(pid, &status, 0);
		failed += status != 0;
	}
	say("%d failed", failed);
}

const struct tcp_case cases[] = {
	{"limit", limit_server, limit_client},
	{"crowd", crowd_server, crowd_client},
	{"half-stdio", half_stdio_server, half_stdio_client},
	{"dup", dup_server, dup_client},
	{"close-all", close_all_server, close_all_client},
	{"fork-child", fork_child_server, fork_child_client},
	{"fork-brief", fork_brief_server, fork_brief_client},
	{"fork-both", echo_server, fork_both_client},
	{"inetd", inetd_server, inetd_client},
	{"exec", exec_server, exec_client},
	{"spawn", echo_server, spawn_client},
	{"failed-exec", echo_server, failed_exec_client},
	{"loads", loads_server, loads_client},
	{"pass-self", pass_self_server, inetd_client},
	{"stdio", stdio_server, stdio_client},
	{"dprintf", dprintf_server, dprintf_client},
	{"renamed", renamed_server, go_client},
	{0},
};
