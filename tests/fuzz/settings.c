/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * settings.c - a file of settings: knobs, and rules for streams.  They are the host's or
 * the user's, but a wrong letter must not do more than a warning says.
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "fuzz.h"
#include "base/conf.h"
#include "base/settings.h"

static bool power_of_two(size_t n)
{
	return n && !(n & (n - 1));
}

static void sound(const struct sr_policy *p)
{
	size_t letters = strnlen(p->links, sizeof(p->links));

	CHECK(letters < sizeof(p->links) && strspn(p->links, "vs") == letters);
	CHECK(p->upgrade >= SR_LAZY && p->upgrade <= SR_NEVER);
	CHECK(p->upgrade_wait_ms <= 3600 * 1000);
	CHECK(power_of_two(p->ring_first) && power_of_two(p->ring_max));
	CHECK(p->ring_first >= 4096 && p->ring_first <= p->ring_max &&
	      p->ring_max <= (size_t)1 << 30);
}

static bool ends(const char *s, size_t size)
{
	return strnlen(s, size) < size;
}

/* What streams get by the rules. */
static void policies(void)
{
	struct sockaddr_storage a = {.ss_family = AF_INET};
	struct sockaddr_in *in = (struct sockaddr_in *)&a;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a;

	in->sin_port = htons(80);
	for (int i = 0; i < 2; i++)
		sound(sr_policy_of(i, &a));
	in->sin_addr.s_addr = htonl(0x0a000001);
	for (int i = 0; i < 2; i++)
		sound(sr_policy_of(i, &a));
	in6->sin6_family = AF_INET6;
	in6->sin6_addr = in6addr_loopback;
	for (int i = 0; i < 2; i++)
		sound(sr_policy_of(i, &a));
}

void fuzz_settings(const uint8_t *data, size_t size)
{
	char *text = calloc(1, size + 1);

	CHECK(text != NULL);
	/* What the environment sets, no file sets again: warnings go nowhere. */
	setenv("SOCKRAIL_LOG_FILE", "/dev/null", 1);
	setenv("SOCKRAIL_CONFIG_DIR", "/nonexistent", 1);
	sr_conf_load();
	for (int knobs = 1; knobs >= 0; knobs--) {
		memcpy(text, data, size);
		sr_settings_text("file", text, size, knobs);
	}
	sound(&sr_conf.policy);
	policies();
	CHECK(ends(sr_conf.device, sizeof(sr_conf.device)) &&
	      ends(sr_conf.report, sizeof(sr_conf.report)) &&
	      ends(sr_conf.rules, sizeof(sr_conf.rules)) &&
	      ends(sr_conf.profile, sizeof(sr_conf.profile)));
	CHECK(!strcmp(sr_conf.log_file, "/dev/null"));
	CHECK(sr_conf.log <= SR_TRACE && sr_conf.spin_us <= 1000 * 1000);
	free(text);
	unsetenv("SOCKRAIL_LOG_FILE");
	unsetenv("SOCKRAIL_CONFIG_DIR");
	sr_conf_load();
}
