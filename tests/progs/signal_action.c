/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* signal_action.c - who installs signal handlers: sigaction and its like. */
#include "handler.h"

static volatile sig_atomic_t plain_runs, info_runs;
static volatile int info_value;
static volatile bool usr2_blocked, self_blocked;

static bool is_blocked(int sig)
{
	sigset_t now;

	sigprocmask(SIG_BLOCK, NULL, &now);
	return sigismember(&now, sig);
}

static void plain_handler(int sig)
{
	plain_runs++;
	self_blocked = is_blocked(sig);
}

static void info_handler(int sig, siginfo_t *info, void *context)
{
	(void)context;
	(void)sig;
	info_runs++;
	info_value = info->si_value.sival_int;
	usr2_blocked = is_blocked(SIGUSR2);
}

static const char *name_of(void (*handler)(int))
{
	return handler == SIG_DFL ? "default" : handler == SIG_IGN ? "ignored" :
	       handler == SIG_ERR ? "error" :
	       handler == plain_handler ? "plain_handler" :
	       (void *)handler == (void *)info_handler ? "info_handler" : "ANOTHER";
}

static void say_action(const char *what, int sig)
{
	struct sigaction sa;
	int n = 0;

	if (sigaction(sig, NULL, &sa)) {
		say_result(what, -1);
		return;
	}
	for (int i = 1; i < 65; i++)
		n += sigismember(&sa.sa_mask, i) == 1;
	say("%s: %s%s, flags %x, %d masked", what, name_of(sa.sa_handler),
	    sa.sa_flags & SA_SIGINFO ? " with info" : "",
	    (unsigned)sa.sa_flags & ~0x4000000u, n);
}

static void actions(void)
{
	struct sigaction sa = {.sa_sigaction = info_handler,
			       .sa_flags = SA_SIGINFO | SA_NOCLDSTOP}, old;
	struct sigaction bad = {.sa_handler = plain_handler};

	say_action("fresh", SIGUSR1);
	sigaddset(&sa.sa_mask, SIGUSR2);
	say_result("sigaction", sigaction(SIGUSR1, &sa, &old));
	say("old: %s", name_of(old.sa_handler));
	say_action("set", SIGUSR1);
	sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 77});
	say("ran %d, value %d, SIGUSR2 blocked %d", info_runs, info_value,
	    usr2_blocked);
	say("signal: %s", name_of(signal(SIGUSR1, plain_handler)));
	say_action("signal", SIGUSR1);
	raise(SIGUSR1);
	say("ran %d, blocked %d", plain_runs, self_blocked);
	say("signal: %s", name_of(signal(SIGUSR1, SIG_IGN)));
	say("signal: %s", name_of(signal(SIGUSR1, SIG_DFL)));
	say_result("restore", sigaction(SIGUSR1, &sa, &old));
	say_result("restore", sigaction(SIGUSR1, &old, &sa));
	say("old: %s", name_of(sa.sa_handler));
	say_result("SIGKILL", sigaction(SIGKILL, &bad, NULL));
	say_result("0", sigaction(0, &bad, NULL));
	say_result("65", sigaction(65, &bad, NULL));
	say_result("32", sigaction(32, &bad, NULL));
	say("SIG_ERR: %s", name_of(signal(SIGUSR1, SIG_ERR)));
	say("1000: %s", name_of(signal(1000, plain_handler)));
}

static void once_only(void)
{
	plain_runs = 0;
	handle(SIGUSR1, plain_handler, (int)SA_RESETHAND | SA_NODEFER);
	say_action("once", SIGUSR1);
	raise(SIGUSR1);
	say("ran %d, blocked %d", plain_runs, self_blocked);
	say_action("after", SIGUSR1);
	say("sysv: %s", name_of(sysv_signal(SIGUSR1, plain_handler)));
	say_action("sysv", SIGUSR1);
	raise(SIGUSR1);
	say("ran %d", plain_runs);
	say_action("after", SIGUSR1);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void old_fashioned(void)
{
	signal(SIGUSR1, plain_handler);
	say_result("siginterrupt", siginterrupt(SIGUSR1, 1));
	say_action("interrupts", SIGUSR1);
	say("signal: %s", name_of(signal(SIGUSR1, plain_handler)));
	say_action("still", SIGUSR1);
	say_result("siginterrupt", siginterrupt(SIGUSR1, 0));
	say_action("restarts", SIGUSR1);
	say_result("siginterrupt", siginterrupt(100, 0));
	signal(SIGUSR1, plain_handler);
	say_result("sigignore", sigignore(SIGUSR1));
	say("ssignal: %s", name_of(ssignal(SIGUSR1, plain_handler)));
}

/* libc saves what there is, and puts it back. */
static void by_libc(void)
{
	plain_runs = 0;
	signal(SIGINT, plain_handler);
	signal(SIGQUIT, plain_handler);
	say("system: %d", system("kill -INT $PPID; exit 3") >> 8);
	say("ran %d", plain_runs);
	say_action("after", SIGINT);
	raise(SIGINT);
	say("ran %d", plain_runs);
}

static void report_child(const char *what, pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		;
	say("%s: %s %d", what, WIFSIGNALED(status) ? "signal" : "status",
	    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void children(void)
{
	pid_t pid;

	plain_runs = 0;
	handle(SIGUSR1, plain_handler, 0);
	handle(SIGUSR2, plain_handler, SA_RESTART);
	pid = fork();
	if (!pid) {
		struct sigaction sa;

		raise(SIGUSR1);
		sigaction(SIGUSR2, NULL, &sa);
		signal(SIGUSR2, SIG_DFL);
		_exit(plain_runs * 10 + (sa.sa_handler == plain_handler));
	}
	report_child("fork", pid);
	pid = vfork();
	if (!pid) {
		signal(SIGUSR1, SIG_DFL);
		signal(SIGUSR2, SIG_IGN);
		execl("/bin/sh", "sh", "-c", "kill -USR2 $$; kill -USR1 $$", NULL);
		_exit(127);
	}
	report_child("vfork", pid);
	raise(SIGUSR1);
	say("ran %d", plain_runs);
	say_action("after", SIGUSR1);
	say_action("after", SIGUSR2);
}

static void actions_server(int lfd)
{
	int fd = answer_warm(lfd);

	actions();
	once_only();
	old_fashioned();
	send_go(fd);
	await_go(fd);
	close(fd);
	by_libc();
	children();
}

const struct tcp_case cases[] = {
	{"actions", actions_server, go_client},
	{0},
};
