/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report's lines, their keys in sockrail(7), and addresses as text. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/addr.h"
#include "base/report.h"
#include "check.h"

static struct sockaddr_storage addr(const char *text, unsigned short port,
				    unsigned scope)
{
	struct sockaddr_storage a = {.ss_family = AF_UNSPEC};
	struct sockaddr_in *v4 = (void *)&a;
	struct sockaddr_in6 *v6 = (void *)&a;

	if (strchr(text, ':')) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		v6->sin6_scope_id = scope;
		CHECK(inet_pton(AF_INET6, text, &v6->sin6_addr) == 1);
	} else {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		CHECK(inet_pton(AF_INET, text, &v4->sin_addr) == 1);
	}
	return a;
}

static void address(const char *text, unsigned scope, const char *expect)
{
	struct sockaddr_storage a = addr(text, 80, scope);
	char buf[80];

	CHECK(sr_addr_format(buf, sizeof(buf), &a) == (int)strlen(expect));
	CHECK(!strcmp(buf, expect));
}

static void addresses(void)
{
	struct sockaddr_storage none = {.ss_family = AF_UNSPEC};
	char buf[80];

	address("1.2.3.4", 0, "1.2.3.4:80");
	address("255.255.255.255", 0, "255.255.255.255:80");
	address("::1", 0, "[::1]:80");
	address("::", 0, "[::]:80");
	address("1::", 0, "[1::]:80");
	address("2001:db8:0:0:1:0:0:1", 0, "[2001:db8::1:0:0:1]:80");
	address("1:0:2:3:4:5:6:7", 0, "[1:0:2:3:4:5:6:7]:80");
	address("::ffff:10.0.0.1", 0, "10.0.0.1:80");
	address("fe80::1", 3, "[fe80::1%3]:80");
	CHECK(sr_addr_format(buf, sizeof(buf), &none) == 0 && !*buf);
	CHECK(sr_addr_format(buf, 4, &none) == 0);
	none = addr("1.2.3.4", 80, 0);
	CHECK(sr_addr_format(buf, 4, &none) == 10 && !strcmp(buf, "1.2"));

}

static void reasons(void)
{
	CHECK(!sr_reason_word(SR_REASON_NONE));
	CHECK(!sr_reason_word(SR_REASONS));
	CHECK(!strcmp(sr_reason_word(SR_REASON_NEVER), "never"));
	CHECK(sr_reason_find(NULL) == SR_REASON_NONE);
	CHECK(sr_reason_find("nonsense") == SR_REASON_NONE);
	for (int r = 1; r < SR_REASONS; r++)
		CHECK((int)sr_reason_find(sr_reason_word(
			      (enum sr_reason)r)) == r);
}

/* Writes a line for a program of that name and returns it. */
static const char *written(struct sr_report *r, char *program)
{
	static char buf[4096];
	char *old = program_invocation_short_name;
	ssize_t n;
	int fd;

	(void)!truncate(sr_conf.report, 0);
	program_invocation_short_name = program;
	sr_report_init();
	program_invocation_short_name = old;
	errno = EDOM;
	sr_report_write(r);
	CHECK(errno == EDOM);
	fd = open(sr_conf.report, O_RDONLY);
	CHECK(fd >= 0);
	n = read(fd, buf, sizeof(buf) - 1);
	CHECK(n > 0);
	buf[n] = '\0';
	close(fd);
	return buf;
}

static void program_name(char *name, const char *expect)
{
	struct sr_report r = {.link = "plain"};
	char start[400];

	snprintf(start, sizeof(start), "{\"program\":\"%s\",\"pid\":", expect);
	CHECK(!strncmp(written(&r, name), start, strlen(start)));
}

static void lines(void)
{
	struct sr_report r = {
		.connected = true,
		.local = addr("::ffff:10.0.0.1", 40000, 0),
		.peer = addr("fd00::2", 80, 0),
		.link = "verbs:rxe0",
		.tx = {1, 2, UINT64_MAX},
		.rx = {[SR_WAY_VERBS] = 7},
		.switches = 3,
	};
	char expect[1000];

	snprintf(expect, sizeof(expect),
		 "{\"program\":\"cat\",\"pid\":%d,\"role\":\"connect\","
		 "\"local\":\"10.0.0.1:40000\",\"peer\":\"[fd00::2]:80\","
		 "\"link\":\"verbs:rxe0\","
		 "\"tx_plain\":1,\"tx_shm\":2,"
		 "\"tx_verbs\":18446744073709551615,"
		 "\"rx_plain\":0,\"rx_shm\":0,\"rx_verbs\":7,"
		 "\"switches\":3,\"reason\":null,\"error\":null}\n",
		 (int)getpid());
	CHECK(!strcmp(written(&r, "cat"), expect));
	r.connected = false;
	r.reason = SR_REASON_NO_DEVICE;
	r.error = ECONNRESET;
	strcpy(r.link, "plain");
	CHECK(strstr(written(&r, "cat"), "\"role\":\"accept\","));
	CHECK(strstr(written(&r, "cat"), "\"reason\":\"no-device\","
					 "\"error\":\"ECONNRESET\"}\n"));
}

static void programs(void)
{
	char big[300];

	program_name("a b", "a b");
	program_name("q\"b\\", "q\\\"b\\\\");
	program_name("n\n\001\177 \303\251", "n??? ??");
	program_name("", "");
	memset(big, 'x', sizeof(big));
	big[299] = '\0';
	/* Cut. */
	CHECK(strstr(written(&(struct sr_report){.link = ""}, big),
		     "xx\",\"pid\":"));
}

static void appended(void)
{
	struct sr_report r = {.link = "shm"};
	const char *line;
	char buf[4096];
	size_t len;
	int fd;

	line = written(&r, "x");
	len = strlen(line);
	sr_report_write(&r);
	fd = open(sr_conf.report, O_RDONLY);
	CHECK(read(fd, buf, sizeof(buf)) > (ssize_t)len);
	CHECK(!memcmp(buf, line, len) && buf[len] == '{');
	close(fd);
	unlink(sr_conf.report);
	sr_conf.report[0] = '\0';
	sr_report_write(&r);
}

/* Every key of a line is in the page as ".It Ic key", and no other. */
static void manual(void)
{
	const char *srcdir = getenv("srcdir"), *line;
	struct sr_report r = {.link = ""};
	char path[1000], text[300], key[40], quoted[50];
	int listed = 0, keys = 0;
	FILE *page;

	snprintf(path, sizeof(path), "%s/man/sockrail.7",
		 srcdir ? srcdir : ".");
	page = fopen(path, "r");
	CHECK(page);
	line = written(&r, "x");
	while (fgets(text, sizeof(text), page)) {
		if (sscanf(text, ".It Ic %39s", key) != 1)
			continue;
		snprintf(quoted, sizeof(quoted), "\"%s\":", key);
		CHECK(strstr(line, quoted));
		listed++;
	}
	fclose(page);
	for (const char *p = line; (p = strstr(p, "\":")); p++)
		keys++;
	CHECK(listed == keys);
}

int main(void)
{
	char path[] = "/tmp/sockrail-report-XXXXXX";

	close(mkstemp(path));
	strcpy(sr_conf.report, path);
	addresses();
	reasons();
	lines();
	programs();
	manual();
	appended();
	return 0;
}
