/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * dir.c - owns names in the directory (SOCKRAIL_DIR) in which processes of different network
 * namespaces of one host find each other: doors, which are listening sockets, and what askers
 * look for.  It knows no requests.
 *
 *     6.there.PLACE                 the door of a process; PLACE: 16 random hexadecimal digits
 *     6.tcp4:10.0.0.2:80.PLACE      the same socket (a hard link), for an address at which
 *                                   its process, a keeper, accepts
 *
 * Others may write to the directory, too.  So a name says nothing: each asker of a door, and
 * each door, wants a proof (line.c).  What others can do here costs links.
 *
 * Lock: a leaf, over the list of doors, which exit() closes from another thread.  Else the
 * service thread alone is here, but for sr_dir_has().
 */
#include "base/real.h"

#include "link/shm/dir.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "base/addr.h"
#include "base/apart.h"
#include "base/conf.h"
#include "base/fdpriv.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/now.h"
#include "base/sys.h"
#include "base/text.h"
#include "link/local.h"
#include "pure/wire.h"

#define BACKLOG 1024
#define ENTRIES_MAX 4096	/* of the directory that are looked at: others may fill it */
#define TRIED_MAX 64		/* names that may be dead, each time a door is opened */
#define OLD_S 10		/* a younger socket may be about to listen */

static struct sr_mutex doors_lock = SR_MUTEX(SR_RANK_LEAF);
static struct sr_dir_door *doors;

/* ---- names ---- */

/* Of getdents64(2). */
struct dir_entry {
	uint64_t inode;
	int64_t next;
	uint16_t length;
	uint8_t type;
	char name[];
};

/* Calls fn for the directory's names until it returns true.  Any thread. */
static void each_name(bool (*fn)(const char *name, void *arg), void *arg)
{
	_Alignas(struct dir_entry) char entries[320];
	int dir = sr_fd_own(sr_now_open(sr_conf.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
	unsigned count = 0;
	bool done = dir < 0;
	ssize_t n;

	while (!done && count < ENTRIES_MAX &&
	       (n = sr_sys_getdents(dir, entries, sizeof(entries))) > 0) {
		for (char *at = entries; at < entries + n && !done; count++) {
			const struct dir_entry *e = (const struct dir_entry *)at;

			done = fn(e->name, arg);
			at += e->length;
		}
	}
	if (dir >= 0)
		sr_fd_close(dir);
}

/* What stands in front of the place in the names of an address. */
static void dir_address(char name[SR_DIR_NAME_MAX], const struct sockaddr_storage *any)
{
	char text[INET6_ADDRSTRLEN] = "";
	struct sockaddr_storage plain;
	size_t len;
	const void *bytes;

	sr_addr_unmap(&plain, (const struct sockaddr *)any);
	bytes = sr_addr_bytes(&plain, &len);
	inet_ntop(plain.ss_family, bytes, text, sizeof(text));
	sr_format(name, SR_DIR_NAME_MAX, "%d.tcp%d:%s:%u.", SR_WIRE_VERSION,
		  plain.ss_family == AF_INET ? 4 : 6, text,
		  sr_addr_port((const struct sockaddr *)&plain));
}

static void dir_door(char name[SR_DIR_NAME_MAX])
{
	sr_format(name, SR_DIR_NAME_MAX, "%d.there.", SR_WIRE_VERSION);
}

/* conf.h: each name has room behind the directory. */
static void path_of(struct sockaddr_un *un, const char *name, const char *place)
{
	struct sr_text t = { un->sun_path, un->sun_path + sizeof(un->sun_path) - 1 };

	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	sr_text_word(&t, sr_conf.dir);
	sr_text_word(&t, "/");
	sr_text_word(&t, name);
	sr_text_word(&t, place);
}

/* ---- askers ---- */

struct search {
	char name[SR_DIR_NAME_MAX];
	struct sr_dir_places *places;	/* NULL: one is enough */
	bool found;
};

static bool look_at_name(const char *name, void *arg)
{
	struct search *s = arg;
	size_t len = strlen(s->name);
	struct sr_dir_places *to = s->places;

	if (strncmp(name, s->name, len) != 0 || strlen(name + len) != SR_THERE_NAME_LEN - 1)
		return false;
	s->found = true;
	if (to)
		memcpy(to->place[to->count++], name + len, SR_THERE_NAME_LEN);
	return !to || to->count == SR_DIR_PLACES;
}

bool sr_dir_has(const struct sockaddr_storage *addr)
{
	struct search s = { .places = NULL };

	dir_address(s.name, addr);
	each_name(look_at_name, &s);
	return s.found;
}

/* They begin anywhere, so that a stranger's names are not asked first each time. */
void sr_dir_find(const struct sockaddr_storage *addr, struct sr_dir_places *to)
{
	struct search s = { .places = to };

	to->count = to->first = 0;
	dir_address(s.name, addr);
	each_name(look_at_name, &s);
	if (to->count && sr_sys_getrandom(&to->first, sizeof(to->first), GRND_NONBLOCK) > 0)
		to->first %= to->count;
}

int sr_dir_call(int sock, const struct sockaddr_storage *addr, const char *place)
{
	char name[SR_DIR_NAME_MAX];
	struct sockaddr_un un;

	if (addr)
		dir_address(name, addr);
	else
		dir_door(name);
	path_of(&un, name, place);
	return sr_now_connect(sock, (struct sockaddr *)&un, sizeof(un));
}

/* ---- dead names ---- */

/* Does nobody listen at this name, and is it this user's? */
static bool is_dead(const struct sockaddr_un *un)
{
	struct timespec now;
	struct stat st;
	int sock;
	bool dead;

	if (sr_sys_lstat(un->sun_path, &st) || !S_ISSOCK(st.st_mode) ||
	    st.st_uid != sr_sys_geteuid())
		return false;
	sr_clock(CLOCK_REALTIME, &now);
	if (now.tv_sec - st.st_mtim.tv_sec < OLD_S)
		return false;
	sock = sr_local_socket();
	dead = sock >= 0 && sr_now_connect(sock, (const struct sockaddr *)un, sizeof(*un)) &&
	       errno == ECONNREFUSED;
	if (sock >= 0)
		sr_fd_close(sock);
	return dead;
}

/* All names of a process die together, and one that is killed and begins again has the same
 * addresses: their names are tried each time.  So is one in eight of the others. */
struct tidying {
	struct sr_dir_door *door;
	uint32_t random;
	unsigned tried;
};

static bool is_of_door(const struct sr_dir_door *d, const char *name)
{
	char own[SR_DIR_NAME_MAX];

	for (unsigned i = 0; i < d->names; i++) {
		dir_address(own, &d->address[i]);
		if (!strncmp(name, own, strlen(own)))
			return true;
	}
	return false;
}

static bool tidy_name(const char *name, void *arg)
{
	struct tidying *t = arg;
	struct sockaddr_un un;
	size_t len = strlen(name);
	char door[SR_DIR_NAME_MAX];

	dir_door(door);
	t->random = t->random * 1103515245 + 12345;	/* rand(3) of POSIX */
	if (len < SR_THERE_NAME_LEN || len >= SR_DIR_NAME_MAX ||
	    name[0] != door[0] || name[1] != '.' ||
	    (t->random >> 29 && !is_of_door(t->door, name)))
		return false;
	path_of(&un, name, "");
	if (is_dead(&un)) {
		sr_debug("%s is dead, and is removed", un.sun_path);
		sr_sys_unlink(un.sun_path);
		path_of(&un, door, name + len - (SR_THERE_NAME_LEN - 1));
		if (is_dead(&un))
			sr_sys_unlink(un.sun_path);
	}
	return ++t->tried == TRIED_MAX;
}

static void dir_tidy(struct sr_dir_door *d)
{
	struct tidying t = { .door = d };

	if (sr_sys_getrandom(&t.random, sizeof(t.random), GRND_NONBLOCK) > 0)
		each_name(tidy_name, &t);
}

/* ---- doors ---- */

/*
 * bind(2) takes the umask, which is the program's, off the socket's mode, and others need the
 * right to write.  Somebody else may have put another file in the socket's place, which must
 * not be changed: so it is looked at by a descriptor that nobody can replace.  It is ours if it
 * is a socket of this user's that has no name but this one.
 */
static int open_to_all(const char *path)
{
	char link[sizeof("/proc/self/fd/2147483647")];
	int err = -EACCES, fd = sr_fd_own(sr_now_open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0));
	struct stat st;

	if (fd < 0)
		return -errno;
	sr_format(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (!sr_sys_fstat(fd, &st) && S_ISSOCK(st.st_mode) && st.st_nlink == 1 &&
	    st.st_uid == sr_sys_geteuid())
		err = sr_sys_chmod(link, 0666) ? -errno : 0;
	sr_fd_close(fd);
	return err;
}

static int bind_door(struct sr_dir_door *d)
{
	char name[SR_DIR_NAME_MAX];
	struct sockaddr_un un;
	int err;

	dir_door(name);
	path_of(&un, name, d->place);
	if (sr_sys_bind(d->watch.fd, (struct sockaddr *)&un, sizeof(un)))
		return -errno;
	err = open_to_all(un.sun_path);
	if (!err && sr_sys_listen(d->watch.fd, BACKLOG))
		err = -errno;
	if (!err)
		err = sr_loop_watch(&d->watch, EPOLLIN | EPOLLET);
	if (err)
		sr_sys_unlink(un.sun_path);
	return err;
}

static void add_address(const struct sockaddr_storage *a, void *arg)
{
	struct sr_dir_door *d = arg;

	if (d->names < SR_DIR_ADDRESSES && (d->any6 || a->ss_family == AF_INET)) {
		d->address[d->names] = *a;
		sr_addr_set_port(&d->address[d->names++], d->port);
	}
}

/* Those of the listener; of one that accepts at any, those that interfaces have now. */
static void find_addresses(struct sr_dir_door *d, const struct sockaddr *addr)
{
	struct sockaddr_storage plain;

	sr_addr_unmap(&plain, addr);
	d->port = sr_addr_port(addr);
	if (sr_addr_is_any(&plain)) {
		d->any6 = addr->sa_family == AF_INET6;
		sr_addr_each(add_address, d);
	} else {
		d->address[d->names++] = plain;
	}
}

static void link_or_unlink(const struct sr_dir_door *d, bool add)
{
	char name[SR_DIR_NAME_MAX];
	struct sockaddr_un door, un;

	dir_door(name);
	path_of(&door, name, d->place);
	for (unsigned i = 0; i < d->names; i++) {
		dir_address(name, &d->address[i]);
		path_of(&un, name, d->place);
		if (!add)
			sr_sys_unlink(un.sun_path);
		else if (!sr_sys_link(door.sun_path, un.sun_path))
			sr_debug("rendezvous %s", un.sun_path);
	}
	if (!add)
		sr_sys_unlink(door.sun_path);
}

static int door_open(struct sr_dir_door *d, const struct sockaddr *addr, const char *there)
{
	uint64_t random;
	int err;

	if (sr_sys_getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		return -errno;
	if (there)
		memcpy(d->place, there, SR_THERE_NAME_LEN - 1);
	else
		sr_format(d->place, sizeof(d->place), "%016llx", (unsigned long long)random);
	d->watch.fd = sr_local_socket();
	if (d->watch.fd < 0)
		return d->watch.fd;
	err = bind_door(d);
	if (err) {
		sr_fd_close(d->watch.fd);
		d->watch.fd = -1;
		return err;
	}
	if (!there)
		find_addresses(d, addr);
	link_or_unlink(d, true);
	sr_lock(&doors_lock);
	SR_LIST_ADD(doors, d);
	sr_unlock(&doors_lock);
	dir_tidy(d);
	return 0;
}

void sr_dir_open(struct sr_dir_door *d, const struct sockaddr *addr, const char *there,
		 void (*fn)(struct sr_watch *w, uint32_t events))
{
	int err;

	*d = (struct sr_dir_door){ .watch = { .fd = -1, .fn = fn } };
	err = sr_conf.dir[0] ? door_open(d, addr, there) : 0;
	if (err)
		sr_inform("no rendezvous in %s: %s", sr_conf.dir, sr_errno_name(-err));
}

void sr_dir_close(struct sr_dir_door *d)
{
	sr_lock(&doors_lock);
	SR_LIST_DROP(d);
	sr_unlock(&doors_lock);
	link_or_unlink(d, false);
}

SR_SELDOM void sr_dir_leave(void)
{
	sr_lock(&doors_lock);
	for (struct sr_dir_door *d = doors; d; d = d->next)
		link_or_unlink(d, false);
	sr_unlock(&doors_lock);
}

SR_SELDOM void sr_dir_forget(void)
{
	sr_mutex_init(&doors_lock, SR_RANK_LEAF);
	doors = NULL;
}
