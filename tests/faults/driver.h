/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* driver.h - the process that starts a round, and waits until it is over. */
#ifndef FAULTS_DRIVER_H
#define FAULTS_DRIVER_H

#include <sys/mman.h>

#include "ends.h"

/* What the driver has to know of the round. */
struct round_ops {
	uint64_t (*progress)(void);	/* another number as long as something moves */
	void (*gone)(pid_t pid, int status);
	void (*turn)(void);		/* each millisecond */
};

/* What all processes of a round have mapped, `size` bytes. */
static inline void map_shared(const char *path, size_t size, bool fresh)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | (fresh ? O_TRUNC : 0), 0600);

	file = path;
	if (fd < 0 || (fresh && ftruncate(fd, (off_t)size)))
		die(path);
	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		die("mmap");
	close(fd);
}

static inline pid_t start(const char *what, int number)
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

/* Shows where the descendants are, and ends them. */
static inline void show_hang(void)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "%s %d >&2", getenv("FAULTS_SHOW") ? getenv("FAULTS_SHOW") : "true",
		 getpid());
	unsetenv("LD_PRELOAD");
	if (system(command))
		fprintf(stderr, "faults: cannot show them\n");
}

static inline bool is_descendant(pid_t pid)
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

static inline void end_descendants(void)
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

/* Until all processes have ended.  True: nothing has moved for limit_ms, and they had
 * to be ended.  A time in which this process did not run either, as the machine stood
 * still, counts for TURN_NS at most. */
#define TURN_NS 50000000ull

static inline bool await_all(const struct round_ops *ops, unsigned limit_ms)
{
	uint64_t before = now_ns(), idle = 0, last = 0, n;
	bool hung = false;
	int status;
	pid_t pid;

	for (;;) {
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			ops->gone(pid, status);
		if (pid < 0)
			return hung;
		ops->turn();
		n = now_ns();
		idle += n - before < TURN_NS ? n - before : TURN_NS;
		before = n;
		n = ops->progress();
		if (n != last)
			idle = 0;
		last = n;
		if (idle > limit_ms * 1000000ull) {
			if (!hung)
				show_hang();
			hung = true;
			end_descendants();
		}
		nap_us(1000);
	}
}

#endif
