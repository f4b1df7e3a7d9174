/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * process.c - a round of tests/faults/run: ordinary TCP programs that hand their
 * streams to other processes, and end, in all ways and at all moments.
 *
 *     process round SEED FILE [rail]
 *
 * One process is the peer.  Each of several subjects has some streams with it; to each
 * stream belongs a child, which gets it at some moment; then the parent, the child, both
 * or neither of them uses it, and one after the other ends in its way (plan.h).  What
 * comes of each stream is printed.  rail: links are expected.
 */
#include "shared.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "moves.h"
#include "plan.h"

extern char **environ;

static const char *file;
static char self[4096];

static uint64_t number(struct subject *su, struct stream *s)
{
	return (uint64_t)(su - shared->subject) * STREAMS + (uint64_t)(s - su->stream);
}

static struct mover mover(struct subject *su, struct stream *s, int fd, int side, int way)
{
	return (struct mover){.of = su, .s = s, .fd = fd, .side = side, .way = way,
			      .chance = mix(shared->seed * 1000 + number(su, s) * 8 +
					    (uint64_t)side * 2 + (uint64_t)way)};
}

static void bump_all(struct subject *su)
{
	for (int i = 0; i < shared->streams; i++)
		bump(&su->stream[i]);
}

static void map_shared(const char *path, bool fresh)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | (fresh ? O_TRUNC : 0), 0600);

	file = path;
	if (fd < 0 || (fresh && ftruncate(fd, sizeof(*shared))))
		die(path);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		die("mmap");
	close(fd);
}

/* In ms ms, unless it has ended. */
static void kill_in(int ms)
{
	struct killing *k;

	if (ms < 0)
		return;
	k = &shared->kill[atomic_fetch_add(&shared->kills, 1)];
	k->at = now_ns() + (uint64_t)ms * 1000000;
	k->pid = getpid();
}

static int count_maps(void)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, "/memfd:") != NULL;
	if (f)
		fclose(f);
	return n;
}

/* The library keeps a few for itself, and events for the threads that sleep. */
static int count_sockets(void)
{
	char path[300], to[64];
	struct dirent *e;
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		n += readlink(path, to, sizeof(to)) > 6 && !memcmp(to, "socket", 6);
	}
	if (d)
		closedir(d);
	return n;
}

/* A process that crashed has no place in the plan. */
static void note_status(pid_t pid, int status)
{
	if (!WIFSIGNALED(status) || WTERMSIG(status) == SIGKILL)
		return;
	shared->crashes++;
	fprintf(stderr, "faults: process %d: signal %d\n", pid, WTERMSIG(status));
}

/* ------------------------------------------------------------- sockets */

static const char *address(void)
{
	const char *a = getenv("FAULTS_ADDR");

	return a ? a : "127.0.0.1";
}

static struct sockaddr_in at(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	a.sin_addr.s_addr = inet_addr(address());
	return a;
}

static int port_of(int fd, int (*get)(int, struct sockaddr *, socklen_t *))
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	if (get(fd, (struct sockaddr *)&a, &len))
		die("address");
	return ntohs(a.sin_port);
}

static int get_name(int fd, struct sockaddr *a, socklen_t *len)
{
	return getsockname(fd, a, len);
}

static int get_peer(int fd, struct sockaddr *a, socklen_t *len)
{
	return getpeername(fd, a, len);
}

static int listen_any(atomic_int *port)
{
	struct sockaddr_in a = at(0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, SOMAXCONN))
		die("listen");
	*port = port_of(fd, get_name);
	return fd;
}

static int dial(int port, struct stream *s)
{
	struct sockaddr_in a = at(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)))
		die("connect");
	s->port = port_of(fd, get_name);
	return fd;
}

/* Whose other end this is. */
static struct stream *match(int port, struct subject *first, int subjects, bool server)
{
	for (;; nap_us(200))
		for (int i = 0; i < subjects; i++)
			for (int j = 0; j < shared->streams; j++) {
				struct stream *s = &first[i].stream[j];

				if (s->port == port && s->server == server)
					return s;
			}
}

/* What the kernel has carried of the program's bytes in both directions. */
static uint64_t by_kernel(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return 0;
	return info.tcpi_bytes_sent + info.tcpi_bytes_received;
}

/* ---------------------------------------------------------------- peer */

struct peer_end {
	struct subject *su;
	struct stream *s;
	int fd;
	pthread_t reader, writer;
};

static void *peer_reads(void *arg)
{
	struct peer_end *p = arg;
	struct mover m = mover(p->su, p->s, p->fd, PEER, UP);
	struct way *w = &p->s->way[UP];

	while (w->end == NO_END) {
		AWAIT(p->s, w->end != NO_END || may(&m));
		move(&m);
	}
	return NULL;
}

static void *peer_writes(void *arg)
{
	struct peer_end *p = arg;
	struct mover m = mover(p->su, p->s, p->fd, PEER, DOWN);
	struct way *w = &p->s->way[DOWN];

	do {
		AWAIT(p->s, w->stopped || may(&m) || p->s->fin ||
				    p->s->way[UP].end != NO_END);
		move(&m);
	} while (may(&m) || (!w->stopped && !p->s->fin && p->s->way[UP].end == NO_END));
	if (p->s->fin)
		shutdown(p->fd, SHUT_WR);
	return NULL;
}

static void *peer_closes(void *arg)
{
	struct peer_end *p = arg;

	pthread_create(&p->writer, NULL, peer_writes, p);
	peer_reads(p);
	pthread_join(p->writer, NULL);
	close(p->fd);
	p->s->over = true;
	bump(p->s);
	return NULL;
}

/* fds: the streams' that are open; some are left to the next program. */
static void end_process(int end, const int *fds, int n, uint64_t *chance)
{
	for (int i = 0; end == EXEC && i < n; i++)
		if (fds[i] >= 0 && draw(chance, 2))
			fcntl(fds[i], F_SETFD, 0);
	if (end == KILL)
		kill(getpid(), SIGKILL);
	if (end == EXEC)
		execl(self, "process", "rest", NULL);
	if (end == EXIT)
		exit(0);
	_exit(0);
}

/* A child that has nothing to do with the streams. */
static void bystander(uint64_t *chance)
{
	unsigned us = (unsigned)draw(chance, 20000);
	int end = (int)draw(chance, ENDS);
	pid_t pid = fork();

	if (pid) {
		if (end == KILL)
			shared->uncounted = true;
		return;
	}
	nap_us(us);
	end_process(end, NULL, 0, chance);
}

static int peer(void)
{
	uint64_t chance = mix(shared->seed + 5);
	int lfd = listen_any(&shared->port), n = SUBJECTS * shared->streams, got = 0;
	struct peer_end *ends = calloc((size_t)n, sizeof(*ends));
	int status;
	pid_t pid;

	for (int i = 0; i < SUBJECTS; i++)
		for (int j = 0; j < shared->streams; j++) {
			struct subject *su = &shared->subject[i];
			struct stream *s = &su->stream[j];

			if (!s->server)
				continue;
			while (!su->port)
				nap_us(300);
			ends[got++] = (struct peer_end){.su = su, .s = s,
							.fd = dial(su->port, s)};
		}
	for (int i = 0; i < got; i++)
		pthread_create(&ends[i].reader, NULL, peer_closes, &ends[i]);
	for (; got < n; got++) {
		int fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
		struct stream *s = match(port_of(fd, get_peer), shared->subject, SUBJECTS, false);

		ends[got] = (struct peer_end){.s = s, .fd = fd};
		for (int i = 0; i < SUBJECTS; i++)
			if (s >= shared->subject[i].stream && s < shared->subject[i].stream + STREAMS)
				ends[got].su = &shared->subject[i];
		pthread_create(&ends[got].reader, NULL, peer_closes, &ends[got]);
	}
	for (uint64_t i = draw(&chance, 4); i > 0; i--) {
		nap_us((unsigned)draw(&chance, 30000));
		bystander(&chance);
	}
	for (int i = 0; i < n; i++)
		pthread_join(ends[i].reader, NULL);
	while ((pid = wait(&status)) > 0)
		note_status(pid, status);
	exit(0);
}

/* ------------------------------------------------------ ends of processes */

/* The survivor's: everything has been said; the two ends say so, or not. */
static void say_end(struct subject *su, struct stream *s, int fd, int side)
{
	struct mover m = mover(su, s, fd, side, DOWN);

	if (!s->half || s->way[DOWN].stopped)
		return;
	if (s->half == 1)
		s->fin = true;
	else
		shutdown(fd, SHUT_WR);
	bump(s);
	s->way[DOWN].may_get = s->way[DOWN].limit + 1;
	while (s->way[DOWN].end == NO_END)
		move(&m);
}

static bool moved(struct stream *s, int way, uint64_t upto)
{
	struct way *w = &s->way[way];
	bool over = way == UP ? w->stopped : w->end != NO_END;

	return over || (way == UP ? w->sent : w->got) >= upto;
}

/* The survivor's bytes. */
static void go_on(struct stream *s)
{
	for (int way = UP; way <= DOWN; way++) {
		s->way[way].limit += s->tail[way];
		if (way == DOWN)
			s->way[way].may_get = s->way[way].limit;
	}
	bump(s);
}

/* --------------------------------------------------------------- child */

static bool parent_is_gone(struct subject *su, struct stream *s)
{
	return su->gone || s->over;
}

static void child_moves(struct subject *su, struct stream *s, int fd, uint64_t *chance,
			bool tail)
{
	struct mover m[2] = {mover(su, s, fd, CHILD, UP), mover(su, s, fd, CHILD, DOWN)};
	uint64_t upto[2];

	for (int way = UP; way <= DOWN; way++)
		upto[way] = tail ? s->way[way].limit : s->way[way].use_end;
	for (;;) {
		int first = (int)draw(chance, 2);

		if (moved(s, UP, upto[UP]) && moved(s, DOWN, upto[DOWN]))
			return;
		if (move(&m[first]) || move(&m[!first]))
			continue;
		if (parent_is_gone(su, s))
			return;
		AWAIT(s, may(&m[0]) || may(&m[1]) || parent_is_gone(su, s) ||
				 (moved(s, UP, upto[UP]) && moved(s, DOWN, upto[DOWN])));
	}
}

/* fds: of all the subject's streams that it has, -1 for the others */
static void child(struct subject *su, struct stream *s, int *fds)
{
	uint64_t chance = mix(shared->seed + 1000 + number(su, s));
	int mine = (int)(s - su->stream), fd = fds[mine];

	s->child = getpid();
	s->maps = count_maps();
	kill_in(s->early_ms);
	for (int i = 0; i < shared->streams; i++)
		if (i != mine && fds[i] >= 0 && draw(&chance, 2)) {
			close(fds[i]);
			fds[i] = -1;
		} else if (i != mine && fds[i] >= 0 && s->child_end == EXEC) {
			su->stream[i].handed = true;
		}
	s->ready = true;
	bump(s);
	AWAIT(s, s->forked || parent_is_gone(su, s));
	if (s->who != NEITHER)
		child_moves(su, s, fd, &chance, false);
	bump(s);
	AWAIT(s, parent_is_gone(su, s) || (s->parent_first ? s->parent_closed : s->child_go));
	if (s->forked && s->parent_first && s->who != NEITHER && moved(s, UP, s->way[UP].use_end) &&
	    moved(s, DOWN, s->way[DOWN].use_end)) {
		go_on(s);
		child_moves(su, s, fd, &chance, true);
		say_end(su, s, fd, CHILD);
	}
	if (s->child_end == EXEC && (su->parent_end == KILL || su->early_ms >= 0))
		for (int i = 0; i < shared->streams; i++)
			fds[i] = i == mine ? fd : -1;
	if (s->child_end != CLOSE)
		end_process(s->child_end, fds, shared->streams, &chance);
	for (int i = 0; i < shared->streams; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	s->child_closed = true;
	bump(s);
	AWAIT(s, s->over || su->gone);
	_exit(0);
}

/* --------------------------------------------------------------- parent */

static void reap(struct subject *su)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		note_status(pid, status);
		for (int i = 0; i < shared->streams; i++)
			if (su->stream[i].child == pid) {
				su->stream[i].child_gone = true;
				bump(&su->stream[i]);
			}
	}
}

/* The arguments of a program that becomes the child. */
static char **child_args(struct subject *su, struct stream *s, int fd)
{
	static char text[3][16], words[2][8] = {"process", "child"};
	static char *args[7] = {words[0], words[1]};

	snprintf(text[0], 16, "%d", (int)(su - shared->subject));
	snprintf(text[1], 16, "%d", (int)(s - su->stream));
	snprintf(text[2], 16, "%d", fd);
	args[2] = (char *)file;
	for (int i = 0; i < 3; i++)
		args[3 + i] = text[i];
	return args;
}

static void run_spawn(struct subject *su, struct stream *s, int fd, bool dup)
{
	posix_spawn_file_actions_t actions;
	int to = dup ? 300 : fd;
	char **args = child_args(su, s, to);
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	if (dup)
		posix_spawn_file_actions_adddup2(&actions, fd, to);
	else
		fcntl(fd, F_SETFD, 0);
	errno = posix_spawn(&pid, self, &actions, NULL, args, environ);
	if (errno)
		die("posix_spawn");
	posix_spawn_file_actions_destroy(&actions);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static void __attribute__((noinline)) run_vfork(struct subject *su, struct stream *s, int fd)
{
	char **args = child_args(su, s, fd);
	pid_t pid;

	fcntl(fd, F_SETFD, 0);
	pid = vfork();
	if (!pid) {
		execv(self, args);
		_exit(9);
	}
	if (pid < 0)
		die("vfork");
	fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static void pass_fd(int to, int fd)
{
	char c = 'f', control[CMSG_SPACE(sizeof(fd))] = "";
	struct iovec iov = {&c, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	if (sendmsg(to, &m, MSG_NOSIGNAL) != 1)
		die("SCM_RIGHTS");
}

static int take_fd(int from)
{
	char c, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {&c, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			   .msg_controllen = sizeof(control)};
	int fd;

	if (recvmsg(from, &m, 0) != 1 || !CMSG_FIRSTHDR(&m))
		_exit(0);	/* the parent has ended before */
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* A process that is there before the streams are.  Returns the socket to it. */
static int start_receiver(struct subject *su, struct stream *s)
{
	int pair[2], fds[STREAMS];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		die("socketpair");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid) {
		close(pair[1]);
		return pair[0];
	}
	close(pair[0]);
	memset(fds, -1, sizeof(fds));
	fds[s - su->stream] = take_fd(pair[1]);
	child(su, s, fds);
	_exit(0);
}

static void run_fork(struct subject *su, struct stream *s, int *fds)
{
	int mine = (int)(s - su->stream);
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid)
		return;
	if (s->how == DOUBLE && fork())
		_exit(0);
	if (s->how != FORK_EXEC)
		child(su, s, fds);
	fcntl(fds[mine], F_SETFD, 0);
	execv(self, child_args(su, s, fds[mine]));
	_exit(9);
}

static void make_child(struct subject *su, struct stream *s, int *fds, int receiver,
		       uint64_t *chance)
{
	int fd = fds[s - su->stream];

	switch (s->how) {
	case VFORK:
		run_vfork(su, s, fd);
		break;
	case SPAWN:
		run_spawn(su, s, fd, draw(chance, 2));
		break;
	case PASS:
		pass_fd(receiver, fd);
		break;
	default:
		run_fork(su, s, fds);
	}
}

static void *parent_moves(void *arg)
{
	struct mover *m = arg;

	while (!m->s->parent_done) {
		AWAIT(m->s, m->s->parent_done || may(m));
		move(m);
	}
	return NULL;
}

struct own {
	struct subject *su;
	struct stream *s;
	int fd;
	uint64_t kernels;		/* by_kernel() before the fork */
	struct mover m[2];
	pthread_t thread[2];
};

/* The parent moves n bytes more each way. */
static void extend(struct stream *s, uint64_t up, uint64_t down)
{
	s->way[UP].limit += up;
	s->way[UP].may_get = NEVER;
	s->way[DOWN].limit += down;
	s->way[DOWN].may_get = s->way[DOWN].limit;
	bump(s);
}

static bool all_done(struct stream *s)
{
	struct way *up = &s->way[UP], *down = &s->way[DOWN];

	return (up->stopped || up->end != NO_END || up->got >= up->limit) &&
	       (down->end != NO_END || down->got >= down->limit);
}

static bool settles(struct stream *s)
{
	return s->when == AFTER || s->when == UNREAD || s->when == ASLEEP;
}

/* Moves some bytes on each stream that is to have a link.  False: one has none yet. */
static bool settle_once(struct own *own, int n)
{
	uint64_t before[STREAMS];
	bool all = true;

	for (int i = 0; i < n; i++) {
		before[i] = by_kernel(own[i].fd);
		if (settles(own[i].s) && own[i].s->linked != 1)
			extend(own[i].s, 3000, 3000);
	}
	for (int i = 0; i < n; i++) {
		if (!settles(own[i].s) || own[i].s->linked == 1)
			continue;
		AWAIT(own[i].s, all_done(own[i].s));
		own[i].s->linked = by_kernel(own[i].fd) == before[i];
		all &= own[i].s->linked;
	}
	return all;
}

/* Until they have links, or that takes too long: who has met another process's fork
 * asks again after a second or two. */
static void settle(struct own *own, int n)
{
	uint64_t since = now_ns();
	bool all = false;

	for (int i = 0; i < 3 || (shared->rail && !all && !shared->uncounted); i++) {
		all = settle_once(own, n);
		if (now_ns() - since > 6000000000ull)
			break;
		nap_us(all ? 0 : 1000);
	}
	for (int i = 0; i < n; i++)
		if (!own[i].s->linked && shared->uncounted)
			own[i].s->linked = -1;
}

static void begin_stream(struct own *o)
{
	for (int way = UP; way <= DOWN; way++) {
		set_turn(&o->s->way[way], 0, NEVER, PARENT);
		o->m[way] = mover(o->su, o->s, o->fd, PARENT, way);
		pthread_create(&o->thread[way], NULL, parent_moves, &o->m[way]);
	}
	/* In policy wait who asks in vain, because the other end makes no call, asks no
	 * other stream of that end for long. */
	if (settles(o->s))
		o->s->way[UP].may_get = NEVER;
}

/* To the moment at which the child is made. */
static void prepare(struct own *o)
{
	struct stream *s = o->s;

	if (s->when == UNREAD) {
		s->way[UP].may_get = s->way[UP].limit;
		s->way[UP].limit += s->unread[UP];
		s->way[DOWN].limit += s->unread[DOWN];
		bump(s);
	}
	if (s->when == ASLEEP) {
		s->way[DOWN].may_get += 1000;
		bump(s);
	}
}

static void moment(struct own *o, uint64_t *chance)
{
	struct stream *s = o->s;

	if (s->when == DURING)
		extend(s, 3000 + draw(chance, 20000), 3000 + draw(chance, 20000));
	if (s->when == SWITCH)
		extend(s, 300000, 300000);
	if (s->when != BEFORE)
		nap_us((unsigned)draw(chance, 4000));
	o->kernels = by_kernel(o->fd);
}

/* Now the bytes belong to those who have the stream. */
static void begin_use(struct stream *s)
{
	uint64_t asleep = s->when == ASLEEP ? 1000 : 0;

	s->way[UP].may_get = NEVER;
	share_out(s, UP, s->way[UP].limit, s->use[UP]);
	if (s->when == UNREAD && s->who != NEITHER)
		share_out(s, DOWN, s->way[DOWN].may_get, s->unread[DOWN] + s->use[DOWN]);
	else
		share_out(s, DOWN, s->way[DOWN].limit + asleep, s->use[DOWN]);
	s->way[UP].limit += s->use[UP];
	s->way[DOWN].limit += s->use[DOWN] + asleep;
	if (s->who != NEITHER)
		s->way[DOWN].may_get = s->way[DOWN].limit;
	s->forked = true;
	bump(s);
}

static bool used(struct stream *s)
{
	return s->child_gone || (moved(s, UP, s->way[UP].use_end) &&
				 ((s->who == NEITHER && s->when == UNREAD) ||
				  moved(s, DOWN, s->way[DOWN].limit)));
}

static void end_threads(struct own *o)
{
	o->s->parent_done = true;
	bump(o->s);
	pthread_join(o->thread[0], NULL);
	pthread_join(o->thread[1], NULL);
}

static void *early_end(void *arg)
{
	struct subject *su = arg;

	(void)su;
	kill_in(su->early_ms);
	return NULL;
}

/* A stream that the parent alone has from now on. */
static void survive(struct own *o)
{
	struct stream *s = o->s;

	s->child_go = true;
	bump(s);
	AWAIT(s, (reap(o->su), s->child_closed || s->child_gone));
	if (!moved(s, UP, s->way[UP].use_end) || !moved(s, DOWN, s->way[DOWN].use_end))
		return;
	go_on(s);
	AWAIT(s, moved(s, UP, s->way[UP].limit) && moved(s, DOWN, s->way[DOWN].limit));
	end_threads(o);
	say_end(o->su, s, o->fd, PARENT);
}

/* The first of the two ends, and what the other one does then. */
static void part(struct own *o, int *fds)
{
	struct stream *s = o->s;
	bool close_it = o->su->parent_end == CLOSE;

	AWAIT(s, (reap(o->su), used(s)));
	if (s->stayed < 0 && s->linked == 1 && s->who == PARENT &&
	    (s->how == FORK || s->how == DOUBLE) && s->early_ms < 0)
		s->stayed = s->handed ? -1 : by_kernel(o->fd) == o->kernels;
	if (!s->parent_first)
		survive(o);
	if (!s->parent_first || !close_it) {
		if (!close_it)
			return;
	}
	if (!s->parent_done)
		end_threads(o);
	close(o->fd);
	fds[s - o->su->stream] = -1;
	s->parent_closed = true;
	bump(s);
}

static void check_left(struct subject *su, int before)
{
	int n = 0, maps = 1;

	for (int i = 0; i < shared->streams; i++)
		AWAIT(&su->stream[i], (reap(su), su->stream[i].over));
	for (int i = 0; i < 300 && (n > before + 5 || maps); i++, nap_us(10000)) {
		n = count_sockets();
		maps = count_maps();
	}
	su->leaked = n - before;
	su->leaked_maps = maps;
}

static int open_stream(struct subject *su, int lfd, int *fds)
{
	for (int i = 0; i < shared->streams; i++) {
		struct stream *s = &su->stream[i];

		if (!s->server) {
			while (!shared->port)
				nap_us(300);
			fds[i] = dial(shared->port, s);
			continue;
		}
	}
	for (int i = 0; i < shared->streams; i++) {
		struct stream *s;
		int fd;

		if (!su->stream[i].server)
			continue;
		fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
		s = match(port_of(fd, get_peer), su, 1, true);
		fds[s - su->stream] = fd;
	}
	return 0;
}

static int subject(struct subject *su)
{
	static struct own own[STREAMS];
	int fds[STREAMS], receiver[STREAMS], lfd, before, n = shared->streams;
	uint64_t chance = mix(shared->seed + 100 + (uint64_t)(su - shared->subject));

	su->pid = getpid();
	for (int i = 0; i < n; i++)
		receiver[i] = su->stream[i].how == PASS ?
				      start_receiver(su, &su->stream[i]) : -1;
	memset(fds, -1, sizeof(fds));
	lfd = listen_any(&su->port);
	before = count_sockets();
	open_stream(su, lfd, fds);
	for (int i = 0; i < n; i++) {
		own[i] = (struct own){.su = su, .s = &su->stream[i], .fd = fds[i]};
		begin_stream(&own[i]);
	}
	settle(own, n);
	for (int i = 0; i < n; i++)
		prepare(&own[i]);
	early_end(su);
	for (int i = 0; i < n; i++) {
		moment(&own[i], &chance);
		make_child(su, own[i].s, fds, receiver[i], &chance);
		begin_use(own[i].s);
	}
	for (int i = 0; i < n; i++)
		part(&own[i], fds);
	if (su->parent_end == CLOSE) {
		check_left(su, before);
		exit(0);
	}
	end_process(su->parent_end, fds, n, &chance);
	return 0;
}

/* ---------------------------------------------------------------- round */

static pid_t start(const char *what, int number)
{
	char n[16];
	pid_t pid = fork();

	snprintf(n, sizeof(n), "%d", number);
	if (!pid) {
		execl(self, "process", what, file, n, NULL);
		die("exec");
	}
	return pid;
}

static void note_gone(pid_t pid)
{
	for (int i = 0; i < SUBJECTS; i++) {
		struct subject *su = &shared->subject[i];

		if (su->pid == pid) {
			su->gone = true;
			for (int j = 0; j < shared->streams; j++)
				su->stream[j].way[UP].may_get = NEVER;
			bump_all(su);
		}
		for (int j = 0; j < shared->streams; j++)
			if (su->stream[j].child == pid) {
				su->stream[j].child_gone = true;
				bump(&su->stream[j]);
			}
	}
}

static void kill_due(void)
{
	for (unsigned i = 0; i < shared->kills; i++) {
		struct killing *k = &shared->kill[i];

		if (k->pid > 0 && now_ns() > k->at) {
			kill(k->pid, SIGKILL);
			k->pid = -1;
		}
	}
}

static uint64_t progress(void)
{
	uint64_t n = 0;

	for (int i = 0; i < SUBJECTS; i++)
		for (int j = 0; j < shared->streams; j++) {
			struct stream *s = &shared->subject[i].stream[j];

			for (int way = UP; way <= DOWN; way++)
				n += s->way[way].sent + s->way[way].got;
			n += s->child_closed + s->child_gone + s->over + s->parent_closed;
		}
	return n;
}

/* Shows where the descendants are, and ends them. */
static void show_hang(void)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "%s %d >&2", getenv("FAULTS_SHOW") ? getenv("FAULTS_SHOW") : "true",
		 getpid());
	unsetenv("LD_PRELOAD");
	if (system(command))
		fprintf(stderr, "faults: cannot show them\n");
}

static bool is_descendant(pid_t pid)
{
	char path[64], line[512], *p;
	FILE *f;
	int up;

	while (pid > 1) {
		if (pid == getpid())
			return true;
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		f = fopen(path, "re");
		if (!f)
			return false;
		p = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
		fclose(f);
		if (!p || sscanf(p + 1, " %*c %d", &up) != 1)
			return false;
		pid = up;
	}
	return false;
}

static void end_descendants(void)
{
	struct dirent *e;
	DIR *d = opendir("/proc");

	while (d && (e = readdir(d))) {
		pid_t pid = atoi(e->d_name);

		if (pid > 0 && pid != getpid() && is_descendant(pid))
			kill(pid, SIGKILL);
	}
	if (d)
		closedir(d);
}

static bool await_all(unsigned limit_ms)
{
	uint64_t since = now_ns(), last = 0, n;
	bool hung = false;
	int status;
	pid_t pid;

	for (;;) {
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
			note_status(pid, status);
			note_gone(pid);
		}
		if (pid < 0)
			return hung;
		kill_due();
		n = progress();
		if (n != last) {
			last = n;
			since = now_ns();
		}
		if (now_ns() - since > limit_ms * 1000000ull) {
			if (!hung)
				show_hang();
			hung = true;
			end_descendants();
		}
		nap_us(1000);
	}
}

static const char *class_of(struct way *w)
{
	static const char *const of[] = {"none", "eof", "reset", "failed"};

	return of[w->end];
}

static void print_stream(struct subject *su, struct stream *s, bool hung)
{
	struct way *up = &s->way[UP], *down = &s->way[DOWN];

	printf("%d.%d %s %s %s %s %s %s half=%d early=%d,%d linked=%d stayed=%d maps=%d "
	       "up=%llu/%llu/%llu:%s%s down=%llu/%llu/%llu:%s%s wrong=%d hung=%d leaked=%d,%d "
	       "port=%d\n",
	       (int)(su - shared->subject), (int)(s - su->stream), how_names[s->how],
	       when_names[s->when], who_names[s->who], end_names[s->child_end],
	       end_names[su->parent_end], s->parent_first ? "parent-first" : "child-first",
	       s->half, s->early_ms, su->early_ms, s->linked, s->stayed, s->maps,
	       (unsigned long long)up->got, (unsigned long long)up->sent,
	       (unsigned long long)up->tried, class_of(up), down->stopped ? ",sent" : "",
	       (unsigned long long)down->got,
	       (unsigned long long)down->sent, (unsigned long long)down->tried,
	       class_of(down), up->stopped ? ",sent" : "", s->wrong, hung && !s->over, su->leaked, su->leaked_maps,
	       s->port);
	if (hung && !s->over && getenv("FAULTS_SHOW"))
		for (int way = UP; way <= DOWN; way++) {
			struct way *w = &s->way[way];

			fprintf(stderr, "  way %d: limit %llu may_get %llu use_end %llu turns", way,
				(unsigned long long)w->limit, (unsigned long long)w->may_get,
				(unsigned long long)w->use_end);
			for (int i = 0; i < TURNS; i++)
				fprintf(stderr, " %llu:%d", (unsigned long long)w->turn[i].upto,
					w->turn[i].side);
			fprintf(stderr, " forked %d go %d closed %d gone %d parent %d %d\n",
				s->forked, s->child_go, s->child_closed, s->child_gone,
				s->parent_done, s->parent_closed);
		}
}

static int round_of(uint64_t seed, bool rail)
{
	bool hung;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	plan(seed);
	shared->rail = rail;
	shared->peer = start("peer", 0);
	for (int i = 0; i < SUBJECTS; i++)
		start("subject", i);
	hung = await_all(rail ? 5000 : 5000);
	for (int i = 0; i < SUBJECTS; i++)
		for (int j = 0; j < shared->streams; j++)
			print_stream(&shared->subject[i], &shared->subject[i].stream[j], hung);
	printf("peer %d crashes %d\n", shared->peer, shared->crashes);
	return hung;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int fds[STREAMS];

	signal(SIGPIPE, SIG_IGN);
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		die("self");
	if (!strcmp(what, "rest")) {
		nap_us(10000);
		return 0;
	}
	if (argc < 3)
		return 2;
	if (!strcmp(what, "round") && argc > 3) {
		map_shared(argv[3], true);
		return round_of(strtoull(argv[2], NULL, 0), argc > 4);
	}
	map_shared(argv[2], false);
	if (!strcmp(what, "peer"))
		return peer();
	if (!strcmp(what, "subject") && argc > 3)
		return subject(&shared->subject[atoi(argv[3])]);
	if (!strcmp(what, "child") && argc > 5) {
		struct subject *su = &shared->subject[atoi(argv[3])];

		memset(fds, -1, sizeof(fds));
		fds[atoi(argv[4])] = atoi(argv[5]);
		child(su, &su->stream[atoi(argv[4])], fds);
	}
	return 2;
}
