/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Files of settings: addresses, rules, what comes first, what is said about mistakes. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/net.h"
#include "base/settings.h"
#include "check.h"

static char dir[] = "/tmp/settings-XXXXXX";
static char said[4096];

static struct sockaddr_storage address(const char *host, uint16_t port)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in *v4 = (void *)&ss;
	struct sockaddr_in6 *v6 = (void *)&ss;

	ss.ss_family = strchr(host, ':') ? AF_INET6 : AF_INET;
	CHECK(inet_pton(ss.ss_family, host,
			ss.ss_family == AF_INET ? (void *)&v4->sin_addr :
						  (void *)&v6->sin6_addr) == 1);
	sr_addr_set_port(&ss, port);
	return ss;
}

static bool has(const char *net, const char *host, uint16_t port)
{
	struct sockaddr_storage ss = address(host, port);
	struct sr_net n;

	CHECK(sr_net_parse(net, &n));
	return sr_net_has(&n, &ss);
}

static void nets(void)
{
	static const char *const bad[] = {
		"10.0.0.0/33", "10.0.0/8", "host:80", "[::1", "[::1]x", "10.0.0.1:",
		":80-", ":90-80", ":65536", "::1/129", "10.0.0.1/", ":-1", "1.2.3.4/8x",
		"10.0.0.1:80:90x", "0x10.1.1.1:5",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	};
	struct sr_net n;

	CHECK(has("10.0.0.0/8:6379", "10.255.1.2", 6379));
	CHECK(!has("10.0.0.0/8:6379", "11.0.0.1", 6379));
	CHECK(!has("10.0.0.0/8:6379", "10.0.0.1", 6380));
	CHECK(has("10.128.0.0/9", "10.129.0.0", 1) && !has("10.128.0.0/9", "10.127.0.0", 1));
	CHECK(has("192.168.1.1/32", "192.168.1.1", 1) && !has("192.168.1.1", "192.168.1.0", 1));
	CHECK(has("0.0.0.0/0", "1.2.3.4", 9) && !has("0.0.0.0/0", "::1", 9));
	CHECK(has(":22", "1.2.3.4", 22) && has(":22", "fd00::1", 22) && !has(":22", "::1", 23));
	CHECK(has("*", "1.2.3.4", 22) && has("*:8000-8099", "::1", 8099));
	CHECK(!has("*:8000-8099", "::1", 8100) && has("*:*", "::1", 1));
	CHECK(has("[fd00::/8]:80", "fd12::1", 80) && !has("[fd00::/8]:80", "fe80::1", 80));
	CHECK(has("fd00::/8", "fd12::1", 443) && has("[::1]", "::1", 5) && has("::1", "::1", 5));
	CHECK(!has("::ffff:0:0/96", "1.2.3.4", 5));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!sr_net_parse(bad[i], &n) || !bad[i]);
}

static void put(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Loads with the files of the directory, and more variables: NAME, value, ... NULL. */
static const char *load(const char *name, ...)
{
	int fd[2], kept = dup(2);
	va_list more;
	ssize_t n;

	clearenv();
	setenv("SOCKRAIL_CONFIG_DIR", dir, 1);
	va_start(more, name);
	for (; name; name = va_arg(more, const char *))
		setenv(name, va_arg(more, const char *), 1);
	va_end(more);
	CHECK(pipe(fd) == 0 && dup2(fd[1], 2) == 2 && fcntl(fd[0], F_SETFL, O_NONBLOCK) == 0);
	sr_conf_load();
	dup2(kept, 2);
	close(kept);
	n = read(fd[0], said, sizeof(said) - 1);
	said[n > 0 ? n : 0] = '\0';
	close(fd[0]);
	close(fd[1]);
	return said;
}

static const struct sr_policy *policy(bool connects, const char *host, uint16_t port)
{
	struct sockaddr_storage ss = address(host, port);

	return sr_policy_of(connects, &ss);
}

static void rules(void)
{
	put("a.conf", "# the first match counts\n"
		      "connect 10.0.0.0/8:6379 upgrade=eager ring=64k:4m tos=104 carriers=3 # redis\n"
		      "connect 10.0.0.0/8 never\n\n"
		      "\tlisten :22\tnever\r\n"
		      "upgrade_wait_ms=77\n"
		      "connect 10.9.0.0/16 wait\n");
	CHECK(!*load(NULL));
	CHECK(policy(true, "10.1.1.1", 6379)->upgrade == SR_EAGER);
	CHECK(policy(true, "10.1.1.1", 6379)->ring_first == 64 << 10);
	CHECK(policy(true, "10.1.1.1", 6379)->ring_max == 4 << 20);
	CHECK(policy(true, "10.1.1.1", 6379)->tos == 104 && !sr_conf.policy.tos);
	CHECK(policy(true, "10.1.1.1", 6379)->carriers == 3 && sr_conf.policy.carriers == 8);
	/* Knobs that stand below a rule in the file count for it, too. */
	CHECK(policy(true, "10.1.1.1", 6379)->upgrade_wait_ms == 77);
	CHECK(policy(true, "10.9.1.1", 80)->upgrade == SR_NEVER);
	CHECK(policy(true, "11.1.1.1", 80) == &sr_conf.policy);
	CHECK(policy(false, "1.2.3.4", 22)->upgrade == SR_NEVER);
	CHECK(policy(true, "1.2.3.4", 22) == &sr_conf.policy);
	CHECK(sr_conf.policy.upgrade_wait_ms == 77 && !sr_conf.never);
}

/* A wildcard listener is open if a rule opens one of its addresses. */
static void wildcards(void)
{
	put("a.conf", "listen 10.0.0.0/8:80 eager\nlisten :80 never\nupgrade=never\n");
	CHECK(!*load(NULL));
	CHECK(policy(false, "0.0.0.0", 80)->upgrade == SR_EAGER);
	CHECK(policy(false, "::", 80)->upgrade == SR_EAGER);
	CHECK(policy(false, "10.0.0.1", 80)->upgrade == SR_EAGER);
	CHECK(policy(false, "1.0.0.1", 80)->upgrade == SR_NEVER);
	CHECK(policy(false, "0.0.0.0", 81) == &sr_conf.policy && !sr_conf.never);
	put("a.conf", "upgrade=never\n");
	CHECK(!*load(NULL) && sr_conf.never);
}

static void order(void)
{
	char first[64], profile[64];

	snprintf(first, sizeof(first), "%s/first", dir);
	snprintf(profile, sizeof(profile), "%s/profile", dir);
	put("first", "SPIN_US=1\nconnect :1 never\n");
	put("profile", "spin_us=2\nmemory=2m\nconnect :1 wait\nconnect :2 wait\n");
	put("a.conf", "spin_us=3\nmemory=3m\nio_uring=1\nconnect :2 eager\n");
	put("b.conf", "io_uring=0\nupgrade_bytes=4k\nspin_us=nonsense\n");
	put(".hidden.conf", "nonsense\n");
	put("other", "nonsense\n");
	CHECK(!*load("SOCKRAIL_RULES", first, "SOCKRAIL_PROFILE", profile, NULL));
	CHECK(sr_conf.spin_us == 1 && sr_conf.memory == 2 << 20 && sr_conf.io_uring);
	CHECK(sr_conf.policy.upgrade_bytes == 4096);
	CHECK(policy(true, "1.1.1.1", 1)->upgrade == SR_NEVER);
	CHECK(policy(true, "1.1.1.1", 2)->upgrade == SR_WAIT);
	CHECK(!*load("SOCKRAIL_SPIN_US", "9", "SOCKRAIL_RULES", first, NULL));
	CHECK(sr_conf.spin_us == 9 && sr_conf.memory == 3 << 20);
	put("b.conf", "");
}

/* What is wrong costs one line with file, line and word, and nothing else. */
static void wrong(const char *text, const char *line, const char *word)
{
	put("a.conf", text);
	load(NULL);
	CHECK(strstr(said, "a.conf:") && strstr(said, line) && strstr(said, word));
	CHECK(strchr(said, '\n') && !strchr(strchr(said, '\n') + 1, '\n'));
}

static void mistakes(void)
{
	wrong("\n\nupgrad=never\n", ":3:", "\"upgrad\"");
	wrong("upgrade=maybe\n", ":1:", "\"maybe\"");
	wrong("connect host:80 never\n", ":1:", "\"host:80\"");
	wrong("connect\n", ":1:", "address");
	wrong("connect :80\n", ":1:", "sets nothing");
	wrong("connect :80 sometimes\n", ":1:", "\"sometimes\"");
	wrong("connect :80 spin_us=1\n", ":1:", "spin_us");
	wrong("connect :80 ring=1:2\n", ":1:", "\"1:2\"");
	wrong("refuse :80\n", ":1:", "\"refuse\"");
	wrong("upgrade = never\n", ":1:", "\"upgrade\"");
	wrong("upgrade=never connect\n", ":1:", "upgrade=never");
	CHECK(!sr_has_rules());
	put("a.conf", "");
	load("SOCKRAIL_RULES", "/no/such", NULL);
	CHECK(strstr(said, "/no/such: ENOENT"));
}

int main(void)
{
	char command[64];

	CHECK(mkdtemp(dir) != NULL);
	nets();
	rules();
	wildcards();
	order();
	mistakes();
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command) != 0;
}
