/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * dir.c - checks the directory in which processes of different network namespaces find each
 * other (SOCKRAIL_DIR): may this user use it, how many processes accept by it, and does the
 * kernel tell which Unix sockets are connected, as links by the directory need.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"
#include "pure/wire.h"

#define ENTRIES_MAX 4096	/* as many as the library looks at */

/* Does the process that made this name still listen? */
static bool name_answers(const char *dir, const char *name)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool refused;

	refused = (size_t)snprintf(un.sun_path, sizeof(un.sun_path), "%s/%s", dir, name) <
		  sizeof(un.sun_path) && connect(fd, (struct sockaddr *)&un, sizeof(un)) &&
		  errno == ECONNREFUSED;
	if (fd >= 0)
		close(fd);
	return !refused;
}

/* Counts the names of addresses, of this version of the protocol. */
static void count_names(const char *dir, unsigned *alive, unsigned *dead)
{
	DIR *d = opendir(dir);
	const struct dirent *e;
	char own[16];

	*alive = *dead = 0;
	snprintf(own, sizeof(own), "%d.tcp", SR_WIRE_VERSION);
	for (unsigned i = 0; d && i < ENTRIES_MAX && (e = readdir(d)); i++) {
		if (strncmp(e->d_name, own, strlen(own)) != 0)
			continue;
		if (name_answers(dir, e->d_name))
			++*alive;
		else
			++*dead;
	}
	if (d)
		closedir(d);
}

/* Returns NULL, or what is wrong with the directory, how bad that is, and what to do about it. */
static const char *dir_trouble(const char *dir, struct stat *st, enum verdict *verdict,
			       const char **cure)
{
	*verdict = PROBLEM;
	*cure = "Create it on the host with mode 1777, and mount it at this path for both ends";
	if (stat(dir, st))
		return strerror(errno);
	if (!S_ISDIR(st->st_mode))
		return "not a directory";
	*cure = "Give it mode 1777, or that of a group to which both ends belong (chmod 3770)";
	if (access(dir, R_OK | X_OK))
		return "this user may not read it";
	if (access(dir, W_OK))
		return "this user may not write to it, and so not accept by it";
	*verdict = WARNING;
	*cure = "chmod +t, so that only its owner can remove a name";
	if ((st->st_mode & 022) && !(st->st_mode & S_ISVTX))
		return "users may remove each other's names";
	return NULL;
}

static void judge_dir(const char *dir)
{
	const char *cure, *trouble, *who = "all users";
	unsigned alive, dead;
	enum verdict verdict;
	struct stat st;

	trouble = dir_trouble(dir, &st, &verdict, &cure);
	if (trouble) {
		say(verdict, "directory", "%s: %s", dir, trouble);
		remedy("no-listener", "%s", cure);
		return;
	}
	if (!(st.st_mode & 02))
		who = st.st_mode & 020 ? "its group" : "its owner";
	count_names(dir, &alive, &dead);
	say(OK, "directory", "%s: mode %04o, for %s (user %u, group %u); %u names of addresses at "
	    "which a process accepts, %u of processes that were killed, which the next one of their "
	    "user removes", dir, st.st_mode & 07777, who, (unsigned)st.st_uid, (unsigned)st.st_gid,
	    alive, dead);
}

/* Does the kernel say to which socket this one is connected?  0 or an errno. */
static int ask_unix_diag(int socket_fd)
{
	struct {
		struct nlmsghdr head;
		struct unix_diag_req body;
	} q = {
		.head = {.nlmsg_len = sizeof(q),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
		.body = {.sdiag_family = AF_UNIX,
			 .udiag_states = UINT32_MAX,
			 .udiag_show = UDIAG_SHOW_PEER,
			 .udiag_cookie = {UINT32_MAX, UINT32_MAX}},
	};
	struct stat st;

	if (fstat(socket_fd, &st))
		return errno;
	q.body.udiag_ino = (uint32_t)st.st_ino;
	return ask_sock_diag(&q, sizeof(q));
}

static void judge_unix_diag(void)
{
	int ends[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return;	/* check_unix() says so */
	err = ask_unix_diag(ends[0]);
	close(ends[0]);
	close(ends[1]);
	if (!err) {
		say(OK, "unix_diag", "works, which links by the directory need");
		return;
	}
	say(PROBLEM, "unix_diag", "the kernel does not say which Unix sockets are connected: %s: no "
	    "links by the directory", strerror(err));
	remedy("no-match", "modprobe unix_diag, on the host; in a sandbox allow AF_NETLINK sockets");
}

void check_directory(struct checked *c)
{
	if (!*c->dir)
		return;
	judge_dir(c->dir);
	judge_unix_diag();
	if (c->not_lazy) {
		say(WARNING, "directory", "SOCKRAIL_UPGRADE is not lazy, and other policies do not ask by it");
		remedy("off", "Use the policy lazy, here or in a rule");
	}
}
