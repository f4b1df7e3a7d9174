/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* around.c - what the C library does inside its functions: fork, end, execute, duplicate. */
#include "case.h"

#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <wordexp.h>

static char buf[1 << 16];

/* Runs first() in a process.  All that come of it print, then how it ended: all of them have
 * the other end of a pipe. */
static void await_family(void (*first)(void))
{
	int family[2];
	pid_t pid;
	char c;

	if (pipe(family))
		die("pipe");
	pid = split();
	if (!pid) {
		close(family[0]);
		first();
		exit(3);
	}
	close(family[1]);
	if (read(family[0], &c, 1))
		die("family");
	close(family[0]);
	reap(pid);
}

/* Sends back what comes until the end.  How many bytes. */
static size_t echo(int lfd)
{
	int fd = answer_warm(lfd);
	size_t total = 0;
	ssize_t n;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	while ((n = recv(fd, buf, 5000, 0)) > 0) {
		put(fd, buf, (size_t)n);
		total += (size_t)n;
	}
	say_result("end", n);
	close(fd);
	return total;
}

static void echo_server(int lfd)
{
	say("%zu bytes", echo(lfd));
}

/* For a client that sends until it is told otherwise. */
static void quiet_server(int lfd)
{
	echo(lfd);
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

static int dial_and_talk(int seed)
{
	int fd = dial_warm();

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	talk(fd, seed, 30);
	return fd;
}

/* ------------------------------------------------------------ daemon(3) */

/* It connects, and goes to the background, as ssh -f does. */
static void be_daemon(void)
{
	int fd = dial_and_talk(80);

	fflush(NULL);
	say_result("daemon", daemon(1, 1));
	talk(fd, 81, 300);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

static void daemon_client(void)
{
	await_family(be_daemon);
}

/* Talks until there is the note. */
static void talk_until(int fd, const char *name)
{
	char note[4096];

	note_path(note, name);
	for (bool last = false; !last;) {
		last = !access(note, F_OK);
		warm_up(fd, true);
	}
}

static void be_long_daemon(void)
{
	int fd = dial_warm();

	talk_until(fd, "1");
	say_result("daemon", daemon(1, 1));
	talk_until(fd, "2");
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

static void daemon_long_client(void)
{
	await_family(be_long_daemon);
}

static bool is_null(int fd)
{
	char path[64], name[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, name, sizeof(name) - 1) > 0 && !strcmp(name, "/dev/null");
}

/* Nor does it keep its directory or its terminal.  The parent half ends with 0. */
static void be_daemon_away(void)
{
	int out = dup(1), fd = dial_and_talk(82), null[2];

	fflush(NULL);
	if (dup2(out, 0) < 0 || daemon(0, 0))
		die("daemon");
	null[0] = is_null(0);
	null[1] = is_null(2);
	dup2(out, 1);
	say("in %s, leads %d, 0 and 2 are /dev/null: %d %d", getcwd(buf, sizeof(buf)),
	    getsid(0) == getpid(), null[0], null[1]);
	talk(fd, 83, 30);
	close(fd);
}

static void daemon_away_client(void)
{
	await_family(be_daemon_away);
}

/* ------------------------------------------------------------ wordexp(3) */

/* Words without a command are nothing to a stream; a command may write to one. */
static void wordexp_client(void)
{
	int fd = dial_and_talk(84), status;
	wordexp_t words;

	snprintf(buf, sizeof(buf), "a b $((1 + 2))");
	status = wordexp(buf, &words, 0);
	say("wordexp: %d, %zu words", status, words.we_wordc);
	wordfree(&words);
	talk(fd, 85, 10);
	snprintf(buf, sizeof(buf), "$(echo by the command >&%d; echo two words)", fd);
	status = wordexp(buf, &words, 0);
	say("wordexp: %d, %zu words", status, words.we_wordc);
	wordfree(&words);
	say_bytes("echoed", (ssize_t)take(fd, buf, 15), buf);
	talk(fd, 86, 10);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

/* ------------------------------------------------------------ libraries */

typedef ssize_t echo_fn(int fd, int rounds);

static void library_server(int lfd, bool own_libc)
{
	const char *file = getenv("PLUG");
	int fd = answer_warm(lfd);
	void *lib = own_libc ? dlmopen(LM_ID_NEWLM, file, RTLD_NOW) :
			       dlopen(file, RTLD_NOW | RTLD_DEEPBIND);
	echo_fn *plug_echo = lib ? (echo_fn *)dlsym(lib, "plug_echo") : NULL;

	if (!plug_echo) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	say_result("by the library", plug_echo(fd, 40));
	warm_up(fd, false);
	close(fd);
}

static void deepbind_server(int lfd)
{
	library_server(lfd, false);
}

static void namespace_server(int lfd)
{
	library_server(lfd, true);
}

static void *in_version(void *where, const char *name)
{
	return dlvsym(where, name, "GLIBC_2.2.5") ?: /* x86-64 */
	       dlvsym(where, name, "GLIBC_2.17");    /* aarch64 */
}

/* As a language's interface to foreign functions looks them up */
static void by_name_server(int lfd)
{
	void *libc = dlopen(LIBC_SO, RTLD_LAZY);
	ssize_t (*get)(int, void *, size_t) = (ssize_t(*)(int, void *, size_t))dlsym(libc, "read");
	ssize_t (*give)(int, const void *, size_t);
	int fd = answer_warm(lfd);
	void *const where[] = {libc, RTLD_DEFAULT, RTLD_NEXT};
	size_t turn = 0;
	ssize_t n;

	give = (ssize_t(*)(int, const void *, size_t))in_version(libc, "write");
	while ((n = get(fd, buf, 5000)) > 0) {
		for (ssize_t done = 0, sent; done < n; done += sent)
			if ((sent = give(fd, buf + done, (size_t)(n - done))) < 0)
				die("write");
		give = (ssize_t(*)(int, const void *, size_t))(
			turn % 2 ? dlsym(libc, "__write") :
				   in_version(where[turn / 2 % 3], "write"));
		turn++;
	}
	say_result("end", n);
	close(fd);
}

static void by_name_client(void)
{
	int fd = dial_and_talk(87);

	shutdown(fd, SHUT_WR);
	await_end(fd);
}

static void library_client(void)
{
	int fd = dial_warm();

	for (int i = 0; i < 10; i++)
		warm_up(fd, true);
	warm_up(fd, true);
	await_end(fd);
}

/* ------------------------------------------------------------ pidfd_spawn(3) */

int pidfd_spawn(int *pidfd, const char *path, const posix_spawn_file_actions_t *actions,
		const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
	__attribute__((weak)); /* since glibc 2.39 */

/* The child inherits the stream, and answers. */
static void pidfd_server(int lfd)
{
	int fd = answer_warm(lfd), pidfd = -1, err;
	char *argv[] = {(char *)"sh", (char *)"-c", buf, NULL}, *none[] = {NULL};
	siginfo_t info;

	snprintf(buf, sizeof(buf), "echo by the child >&%d", fd);
	err = pidfd_spawn ? pidfd_spawn(&pidfd, "/bin/sh", NULL, NULL, argv, none) : ENOSYS;
	say("pidfd_spawn: %d", err);
	if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED))
		die("waitid");
	warm_up(fd, false);
	close(fd);
}

static void pidfd_client(void)
{
	int fd = dial_warm();

	say_bytes("got", (ssize_t)take(fd, buf, 13), buf);
	warm_up(fd, true);
	await_end(fd);
}

/* ------------------------------------------------------------ strangers */

/* Past the C library, as by io_uring, or by a program that is none of C. */
static void strange_write(int fd, size_t n)
{
	memset(buf, n == 1 ? 's' : 'x', n); /* Sockrail's own records begin with s */
	if (syscall(SYS_write, fd, buf, n) != (ssize_t)n)
		die("write");
	post("written");
}

static void say_next(int fd)
{
	ssize_t n = recv(fd, buf, sizeof(buf), 0);

	say_bytes("next", n, buf);
}

/* n bytes, while both ends are asleep in recv or not in a call. */
static void stranger(int fd, size_t n)
{
	await_go(fd);
	strange_write(fd, n);
	say_next(fd);
	say_next(fd);
	close(fd);
}

static void stranger_server(int lfd)
{
	stranger(answer_warm(lfd), 1);
}

static void stranger_many_server(int lfd)
{
	stranger(answer_warm(lfd), 18);
}

static void stranger_client(void)
{
	stranger(dial_warm(), 18);
}

static void innocent(int fd)
{
	send_go(fd);
	await_post("written");
	say_next(fd);
	say_result("send", send(fd, "x", 1, MSG_NOSIGNAL));
	close(fd);
}

static void innocent_server(int lfd)
{
	innocent(answer_warm(lfd));
}

static void innocent_client(void)
{
	innocent(dial_warm());
}

/* It goes back to TCP at once. */
static void stranger_back_server(int lfd)
{
	int fd = answer_warm(lfd);

	await_go(fd);
	strange_write(fd, 18);
	if (system("true"))
		die("system");
	say_next(fd);
	close(fd);
}

/* By a process that was made without fork, or by one that the kernel gives none of ours. */
static void stranger_child_server(int lfd)
{
	int fd = answer_warm(lfd);
	pid_t pid;

	await_go(fd);
	pid = _Fork();
	if (!pid) {
		strange_write(fd, 18);
		syscall(SYS_exit_group, 0);
	}
	reap(pid);
	say_next(fd);
	close(fd);
}

const struct tcp_case cases[] = {
	{"daemon", echo_server, daemon_client},
	{"daemon-long", quiet_server, daemon_long_client},
	{"daemon-away", echo_server, daemon_away_client},
	{"wordexp", echo_server, wordexp_client},
	{"deepbind", deepbind_server, library_client},
	{"namespace", namespace_server, library_client},
	{"by-name", by_name_server, by_name_client},
	{"pidfd", pidfd_server, pidfd_client},
	{"stranger", stranger_server, innocent_client},
	{"stranger-many", stranger_many_server, innocent_client},
	{"stranger-client", innocent_server, stranger_client},
	{"stranger-back", stranger_back_server, innocent_client},
	{"stranger-child", stranger_child_server, innocent_client},
	{0},
};
