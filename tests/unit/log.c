/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The log's lines and where they go. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/append.h"
#include "base/fdpriv.h"
#include "base/log.h"
#include "base/process.h"
#include "check.h"

static void names(void)
{
	CHECK(!strcmp(sr_errno_name(0), "0"));
	CHECK(!strcmp(sr_errno_name(ETIMEDOUT), "ETIMEDOUT"));
	CHECK(!strcmp(sr_errno_name(-EPIPE), "EPIPE"));
	CHECK(!strcmp(sr_errno_name(EAGAIN), "EAGAIN"));
	CHECK(!strcmp(sr_errno_name(4321), "?"));
}

/* What was written to fd since the last time. */
static const char *taken(int fd)
{
	static char buf[4096];
	ssize_t n = read(fd, buf, sizeof(buf) - 1);

	buf[n > 0 ? n : 0] = '\0';
	return buf;
}

static const char *line(const char *rest)
{
	static char buf[1024];

	snprintf(buf, sizeof(buf), "sockrail[%d] %s\n", (int)getpid(), rest);
	return buf;
}

static void to_stderr(int out)
{
	char big[2000];
	const char *got;

	sr_conf.log = SR_INFO;
	errno = EMFILE;
	sr_inform("fd %d: %s", 7, sr_errno_name(errno));
	CHECK(errno == EMFILE);
	CHECK(!strcmp(taken(out), line("info: fd 7: EMFILE")));
	sr_debug("not shown");
	sr_error("a\nb\tc\033[1m \303\251");
	CHECK(!strcmp(taken(out), line("error: a?b?c?[1m \303\251")));

	memset(big, 'y', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	sr_warn("%s", big);
	got = taken(out);
	CHECK(strlen(got) == 512 && got[511] == '\n' && got[510] == 'y');
}

/* Number 2 now is something that the program opened. */
static void not_to_others(int out, const char *dir)
{
	int saved = dup(2), fd, pair[2];
	char path[300];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
	dup2(pair[0], 2);
	sr_error("not into a connection");
	CHECK(!*taken(pair[1]));
	snprintf(path, sizeof(path), "%s/file", dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	dup2(fd, 2);
	sr_error("not into a file");
	CHECK(lseek(fd, 0, SEEK_END) == 0);
	close(2);
	sr_error("nowhere");
	dup2(saved, 2);
	sr_error("again");
	CHECK(!strcmp(taken(out), line("error: again")));
	close(fd);
	close(saved);
	close(pair[0]);
	close(pair[1]);
	unlink(path);
}

static int high_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 70000; fd++)
		n += sr_fd_is_private(fd);
	return n;
}

static void in_child(void (*fn)(int out), int out)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		fn(out);
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void to_file(int out, const char *dir)
{
	const char *got;
	int fd, status;
	pid_t child;

	snprintf(sr_conf.log_file, sizeof(sr_conf.log_file), "%s/log", dir);
	CHECK(high_fds() == 0);
	sr_inform("one");
	CHECK(high_fds() == 1);
	sr_inform("two");
	CHECK(high_fds() == 1);
	CHECK(!*taken(out));
	fd = open(sr_conf.log_file, O_RDONLY);
	CHECK(!strncmp(taken(fd), line("info: one"), strlen(line("info: one"))));
	CHECK(!*taken(fd));

	child = fork();
	if (child == 0) {
		sr_fd_forget_all(sr_log_keeps);
		CHECK(high_fds() == 1);
		sr_inform("child");
		CHECK(high_fds() == 1);
		/* Closed behind our back. */
		sr_fd_forget_all(NULL);
		CHECK(high_fds() == 0);
		sr_inform("again");
		CHECK(high_fds() == 1);
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	got = taken(fd);
	CHECK(strstr(got, "] info: child\n") && strstr(got, "] info: again\n"));

	/* As in the child of vfork: written, but no table is touched. */
	child = check_bare_fork();
	if (child == 0) {
		sr_inform("elsewhere");
		_exit(high_fds() != 1);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(strstr(taken(fd), "] info: elsewhere\n"));
	close(fd);
	unlink(sr_conf.log_file);
}

/* No such directory: standard error has it, and why, once. */
static void to_no_file(int out)
{
	const char *got, *why;

	sr_fd_forget_all(NULL);
	strcpy(sr_conf.log_file, "/no/such/log");
	sr_inform("lost");
	got = taken(out);
	why = line("warn: SOCKRAIL_LOG_FILE: cannot write \"/no/such/log\" "
		   "(ENOENT), using standard error");
	CHECK(!strncmp(got, why, strlen(why)));
	got += strlen(why);
	CHECK(!strcmp(got, line("info: lost")));
	sr_inform("too");
	CHECK(!strcmp(taken(out), line("info: too")));
}

static bool pending(int sig)
{
	sigset_t set;

	sigpending(&set);
	return sigismember(&set, sig);
}

/* Nobody reads any more: the program hears nothing of that, and what it has already
 * been sent stays. */
static void no_signal(int out)
{
	sigset_t one;

	close(out);
	sr_error("nobody reads");
	sigemptyset(&one);
	sigaddset(&one, SIGPIPE);
	sigprocmask(SIG_BLOCK, &one, NULL);
	sr_error("nobody reads");
	CHECK(!pending(SIGPIPE));
	raise(SIGPIPE);
	sr_error("nobody reads");
	CHECK(pending(SIGPIPE));
}

static atomic_int lowest;	/* number that is free; -1: it is over */

static void *close_it(void *unused)
{
	for (int fd; (fd = atomic_load(&lowest)) >= 0;)
		close(fd);
	return unused;
}

/* The program closes numbers that it does not have, and with them the file's, which it
 * has until it is moved up. */
static void closed_meanwhile(int out)
{
	char path[] = "/tmp/sockrail-log-XXXXXX";
	pthread_t t;

	(void)out;
	sr_process_begin();
	close(mkstemp(path));
	atomic_store(&lowest, dup(0));
	CHECK(!pthread_create(&t, NULL, close_it, NULL));
	for (int i = 0; i < 20000; i++) {
		struct sr_append file = { .path = path };

		CHECK(sr_append_text(&file, "x\n", 2));
		sr_fd_close(atomic_load(&file.kept) - 1);
	}
	atomic_store(&lowest, -1);
	pthread_join(t, NULL);
	unlink(path);
}

int main(void)
{
	char dir[] = "/tmp/sockrail-log-XXXXXX";
	int out[2], kept;

	CHECK(mkdtemp(dir));
	names();
	CHECK(pipe2(out, O_NONBLOCK) == 0);
	kept = dup(2);
	dup2(out[1], 2);
	sr_conf_load();
	sr_conf.log = SR_INFO;
	to_stderr(out[0]);
	not_to_others(out[0], dir);
	to_file(out[0], dir);
	in_child(to_no_file, out[0]);
	sr_conf.log_file[0] = '\0';
	no_signal(out[0]);
	in_child(closed_meanwhile, out[0]);
	dup2(kept, 2);
	rmdir(dir);
	return 0;
}
