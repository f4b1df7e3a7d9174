/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The knobs: defaults, values, and what is said about bad ones. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/process.h"
#include "base/log.h"
#include "check.h"

static int err_pipe[2];

/* Loads with one variable in the environment (or none); what was logged. */
static const char *load(const char *name, const char *value)
{
	static char said[4096];
	int kept = dup(2);
	ssize_t n;

	clearenv();
	if (name)
		setenv(name, value, 1);
	dup2(err_pipe[1], 2);
	errno = EDOM;
	sr_conf_load();
	CHECK(errno == EDOM);
	dup2(kept, 2);
	close(kept);
	n = read(err_pipe[0], said, sizeof(said) - 1);
	said[n > 0 ? n : 0] = '\0';
	return said;
}

static void defaults(void)
{
	CHECK(!*load(NULL, NULL));
	CHECK(!sr_conf.inert);
	CHECK(!strcmp(sr_conf.policy.links, "vs"));
	CHECK(sr_conf.policy.upgrade == SR_LAZY);
	CHECK(sr_conf.policy.upgrade_bytes == 64 * 1024);
	CHECK(sr_conf.policy.upgrade_wait_ms == 2000);
	CHECK(!sr_conf.dir[0] && !sr_conf.device[0]);
	CHECK(sr_conf.cm_port_offset == 10000);
	CHECK(sr_conf.policy.ring_first == 16384 && sr_conf.policy.ring_max == 1 << 20);
	CHECK(sr_conf.policy.tos == 0);
	CHECK(sr_conf.memory == 256 << 20);
	CHECK(sr_conf.spin_us == 100);
	CHECK(!sr_conf.io_uring);
	CHECK(sr_conf.policy.carriers == 8);
	CHECK(sr_conf.log == SR_WARN);
	CHECK(!sr_conf.log_file[0] && !sr_conf.report[0]);
	CHECK(sr_process_ours());
}

#define GOOD(name, value, cond) \
	do { \
		CHECK(!*load("SOCKRAIL_" name, value)); \
		CHECK(cond); \
	} while (0)

static void good(void)
{
	GOOD("LINKS", "shm", !strcmp(sr_conf.policy.links, "s"));
	GOOD("LINKS", "shm,verbs", !strcmp(sr_conf.policy.links, "sv"));
	GOOD("LINKS", "none", !strcmp(sr_conf.policy.links, ""));
	GOOD("UPGRADE", "eager", sr_conf.policy.upgrade == SR_EAGER);
	GOOD("UPGRADE", "wait", sr_conf.policy.upgrade == SR_WAIT);
	GOOD("UPGRADE", "never", sr_conf.policy.upgrade == SR_NEVER);
	GOOD("UPGRADE_BYTES", "0", sr_conf.policy.upgrade_bytes == 0);
	GOOD("UPGRADE_BYTES", "123", sr_conf.policy.upgrade_bytes == 123);
	GOOD("UPGRADE_BYTES", "2K", sr_conf.policy.upgrade_bytes == 2048);
	GOOD("UPGRADE_WAIT_MS", "0", sr_conf.policy.upgrade_wait_ms == 0);
	GOOD("REPORT_MS", "0", sr_conf.report_ms == 0);
	GOOD("ANSWER_MS", "100", sr_conf.answer_ms == 100);
	GOOD("DIR", "/run/sockrail", !strcmp(sr_conf.dir, "/run/sockrail"));
	GOOD("DIR", "/234567890123456789012345678901234567", strlen(sr_conf.dir) == 37);
	GOOD("DEVICE", "rxe0", !strcmp(sr_conf.device, "rxe0"));
	GOOD("CM_PORT_OFFSET", "-5", sr_conf.cm_port_offset == -5);
	GOOD("AGAIN_MS", "0", sr_conf.again_ms == 0);
	GOOD("RETRY_MS", "200", sr_conf.retry_ms == 200);
	GOOD("RING", "4k:64k",
	     sr_conf.policy.ring_first == 4096 && sr_conf.policy.ring_max == 65536);
	GOOD("RING", "65536:65536",
	     sr_conf.policy.ring_first == 65536 && sr_conf.policy.ring_max == 65536);
	GOOD("TOS", "106", sr_conf.policy.tos == 106);
	GOOD("MEMORY", "3g", sr_conf.memory == (size_t)3 << 30);
	GOOD("SPIN_US", "0", sr_conf.spin_us == 0);
	GOOD("IO_URING", "1", sr_conf.io_uring);
	GOOD("CARRIERS", "0", !sr_conf.policy.carriers);
	GOOD("LOG", "trace", sr_conf.log == SR_TRACE);
	GOOD("LOG_FILE", "/a/b", !strcmp(sr_conf.log_file, "/a/b"));
	GOOD("REPORT", "/x", !strcmp(sr_conf.report, "/x"));
	/* Empty is not set. */
	GOOD("RING", "", sr_conf.policy.ring_first == 16384);
	GOOD("PRELOAD_LIBRARY", "/lib/x.so", true);
	CHECK(!*load("SOCKRAI", "x") && !*load("NOT_SOCKRAIL_X", "x"));
}

static void relative(void)
{
	CHECK(chdir("/usr") == 0);
	GOOD("REPORT", "r.json", !strcmp(sr_conf.report, "/usr/r.json"));
	CHECK(chdir("/") == 0);
}

/* One line, that names the knob, the value and the default; and the default
 * holds. */
#define BAD(name, value, def, cond) \
	do { \
		char expect_[200]; \
		const char *said_ = load("SOCKRAIL_" name, value); \
		snprintf(expect_, sizeof(expect_), \
			 "sockrail[%d] warn: SOCKRAIL_" name \
			 ": bad value \"" value "\", using \"" def "\"\n", \
			 (int)getpid()); \
		CHECK(!strcmp(said_, expect_)); \
		CHECK(cond); \
	} while (0)

static void bad(void)
{
	BAD("DIR", "/2345678901234567890123456789012345678", "", !sr_conf.dir[0]);
	BAD("LINKS", "verbs,", "verbs,shm", !strcmp(sr_conf.policy.links, "vs"));
	BAD("LINKS", "shm,shm", "verbs,shm", !strcmp(sr_conf.policy.links, "vs"));
	BAD("LINKS", "tcp", "verbs,shm", !strcmp(sr_conf.policy.links, "vs"));
	BAD("LINKS", "v", "verbs,shm", !strcmp(sr_conf.policy.links, "vs"));
	BAD("UPGRADE", "Lazy", "lazy", sr_conf.policy.upgrade == SR_LAZY);
	BAD("UPGRADE_BYTES", "k", "64k", sr_conf.policy.upgrade_bytes == 65536);
	BAD("UPGRADE_BYTES", "1kk", "64k", sr_conf.policy.upgrade_bytes == 65536);
	BAD("UPGRADE_BYTES", "-1", "64k", sr_conf.policy.upgrade_bytes == 65536);
	BAD("MEMORY", "99999999999999999999", "256m",
	    sr_conf.memory == 256 << 20);
	BAD("MEMORY", "99999999999g", "256m", sr_conf.memory == 256 << 20);
	BAD("UPGRADE_WAIT_MS", "1s", "2000", sr_conf.policy.upgrade_wait_ms == 2000);
	BAD("UPGRADE_WAIT_MS", "99999999999", "2000",
	    sr_conf.policy.upgrade_wait_ms == 2000);
	BAD("CM_PORT_OFFSET", "65536", "10000",
	    sr_conf.cm_port_offset == 10000);
	BAD("CM_PORT_OFFSET", "-", "10000", sr_conf.cm_port_offset == 10000);
	BAD("AGAIN_MS", "-1", "1000", sr_conf.again_ms == 1000);
	BAD("RETRY_MS", "199", "1000", sr_conf.retry_ms == 1000);
	BAD("RING", "16k", "16k:1m", sr_conf.policy.ring_first == 16384);
	BAD("RING", "1m:16k", "16k:1m", sr_conf.policy.ring_first == 16384);
	BAD("RING", "16k:48k", "16k:1m", sr_conf.policy.ring_max == 1 << 20);
	BAD("RING", "2k:4k", "16k:1m", sr_conf.policy.ring_first == 16384);
	BAD("RING", "4k:2g", "16k:1m", sr_conf.policy.ring_max == 1 << 20);
	BAD("TOS", "256", "0", sr_conf.policy.tos == 0);
	BAD("TOS", "-1", "0", sr_conf.policy.tos == 0);
	BAD("SPIN_US", "5 ", "100", sr_conf.spin_us == 100);
	BAD("IO_URING", "yes", "0", !sr_conf.io_uring);
	BAD("IO_URING", "2", "0", !sr_conf.io_uring);
	BAD("CARRIERS", "65", "8", sr_conf.policy.carriers == 8);
	BAD("CARRIERS", "-1", "8", sr_conf.policy.carriers == 8);
	BAD("LOG", "warning", "warn", sr_conf.log == SR_WARN);
}

static void too_long(void)
{
	char name[3000];
	const char *said;

	memset(name, 'd', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	said = load("SOCKRAIL_DEVICE", name);
	CHECK(strstr(said, "dddd\", using \"\"\n"));
	CHECK(!sr_conf.device[0]);
	name[0] = '/';
	CHECK(strstr(load("SOCKRAIL_REPORT", name), "using \"\"\n"));
	CHECK(!sr_conf.report[0]);
}

static void unknown(void)
{
	CHECK(strstr(load("SOCKRAIL_UPGRAD", "x"),
		     "warn: SOCKRAIL_UPGRAD is unknown and ignored; see sockrail --help\n"));
	CHECK(strstr(load("SOCKRAIL_", "x"), "SOCKRAIL_ is unknown"));
	CHECK(strstr(load("SOCKRAIL_log", "x"), "SOCKRAIL_log is unknown"));
}

/* LOG counts for what is said about the others. */
static void quiet(void)
{
	char two[] = "SOCKRAIL_IO_URING=9", one[] = "SOCKRAIL_LOG=error";
	char again[] = "SOCKRAIL_LOG=trace";
	char *env[] = {two, one, again, NULL}, **old = environ;
	char buf[100];

	environ = env;
	dup2(err_pipe[1], 2);
	sr_conf_load();
	CHECK(sr_conf.log == SR_ERROR);
	CHECK(read(err_pipe[0], buf, sizeof(buf)) < 0);
	environ = NULL;
	sr_conf_load();
	CHECK(sr_conf.log == SR_WARN);
	environ = old;
}

/* Started as a setuid program by somebody else. */
static int secure(void)
{
	if (!getauxval(AT_SECURE))
		return 77;
	sr_conf_load();
	return sr_conf.inert && !sr_conf.report[0] ? 0 : 1;
}

static void setuid_program(void)
{
	char path[] = "/tmp/sockrail-conf-XXXXXX";
	int in, out, status;
	struct stat st;
	pid_t child;

	if (geteuid()) {
		fprintf(stderr, "not root: no setuid program to test with\n");
		return;
	}
	in = open("/proc/self/exe", O_RDONLY);
	out = mkstemp(path);
	CHECK(in >= 0 && out >= 0 && fstat(in, &st) == 0);
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = sendfile(out, in, NULL, (size_t)left);

		CHECK(n > 0);
		left -= n;
	}
	CHECK(fchmod(out, 04755) == 0);
	close(in);
	close(out);
	child = fork();
	if (child == 0) {
		char *argv[] = {path, NULL};
		char *env[] = {"SOCKRAIL_REPORT=/r", "SECURE=1", NULL};

		CHECK(setgid(65534) == 0 && setuid(65534) == 0);
		execve(path, argv, env);
		exit(126);
	}
	CHECK(waitpid(child, &status, 0) == child);
	unlink(path);
	if (WEXITSTATUS(status) == 77)
		fprintf(stderr, "/tmp is nosuid: setuid not tested\n");
	else
		CHECK(status == 0);
}

int main(void)
{
	bool valgrind = check_in_valgrind(); /* it executes no setuid program */

	if (getenv("SECURE"))
		return secure();
	CHECK(pipe2(err_pipe, O_NONBLOCK) == 0);
	defaults();
	good();
	relative();
	bad();
	too_long();
	unknown();
	if (!valgrind)
		setuid_program();
	quiet();
	return 0;
}
