/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * dcb.c - the kernel's answer about PFC and priorities, as dcbnl_ieee_fill() (net/dcb/dcbnl.c)
 * writes it, whole and broken; and what sockrail check makes of it.  No driver that answers
 * is to be had without hardware.
 */
#include "src/check/dcb.h"
#include "check.h"

#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

static _Alignas(8) char reply[1024];
static size_t used;

static size_t put(unsigned kind, const void *value, size_t len)
{
	struct nlattr a = { .nla_type = (uint16_t)kind,
			    .nla_len = (uint16_t)(sizeof(a) + len) };
	size_t at = used;

	memcpy(reply + used, &a, sizeof(a));
	if (len)
		memcpy(reply + used + sizeof(a), value, len);
	used += NLA_ALIGN(a.nla_len);
	return at;
}

static void end(size_t nest)
{
	uint16_t len = (uint16_t)(used - nest);

	memcpy(reply + nest, &len, sizeof(len));
}

static void put_app(uint8_t selector, uint16_t protocol, uint8_t priority)
{
	const struct dcb_app app = { .selector = selector, .priority = priority,
				     .protocol = protocol };

	put(DCB_ATTR_IEEE_APP, &app, sizeof(app));
}

/* mlx5 with trust=dscp: DSCP 24 to 31 is priority 3, and so on. */
static void make(uint8_t pfc_en, bool dscp)
{
	const struct dcbmsg m = { .dcb_family = AF_UNSPEC, .cmd = DCB_CMD_IEEE_GET };
	const struct ieee_pfc pfc = { .pfc_cap = 8, .pfc_en = pfc_en };
	const struct ieee_ets ets = { .ets_cap = 8, .prio_tc = { 9, 9, 9 } };
	struct nlmsghdr h = { .nlmsg_type = RTM_GETDCB };
	const uint8_t dcbx = 4;
	size_t ieee, table;

	memset(reply, 0, sizeof(reply));
	memcpy(reply + sizeof(h), &m, sizeof(m));
	used = sizeof(h) + NLMSG_ALIGN(sizeof(m));
	put(DCB_ATTR_IFNAME, "eth0", 5);
	ieee = put(DCB_ATTR_IEEE, NULL, 0);
	put(DCB_ATTR_IEEE_ETS, &ets, sizeof(ets));
	put(DCB_ATTR_IEEE_PFC, &pfc, sizeof(pfc));
	table = put(DCB_ATTR_IEEE_APP_TABLE, NULL, 0);
	put_app(IEEE_8021QAZ_APP_SEL_ETHERTYPE, 0x8915, 5); /* none of a DSCP */
	for (uint16_t i = 0; dscp && i < 64; i++)
		put_app(IEEE_8021QAZ_APP_SEL_DSCP, i, (uint8_t)(i / 8));
	end(table);
	end(ieee);
	put(DCB_ATTR_DCBX, &dcbx, sizeof(dcbx));
	h.nlmsg_len = (uint32_t)used;
	memcpy(reply, &h, sizeof(h));
}

static enum verdict judge(unsigned tclass, const char *says, unsigned better)
{
	enum verdict verdict;
	unsigned other;
	char found[256];
	struct dcb d;

	CHECK(dcb_parse(&d, reply, used));
	verdict = dcb_judge(&d, tclass, found, sizeof(found), &other);
	if (!strstr(found, says))
		fprintf(stderr, "%s: not in: %s\n", says, found);
	CHECK(strstr(found, says));
	CHECK_EQ(other, better);
	return verdict;
}

static void check_answers(void)
{
	make(1 << 3, true);
	CHECK_EQ(judge(106, "106 (DSCP 26) has priority 3; PFC is on for 3", 0), OK);
	CHECK_EQ(judge(0, "0 (DSCP 0) has priority 0; PFC is on for 3", 24 << 2), WARNING);
	make(1 << 3 | 1 << 4, true);
	CHECK_EQ(judge(0xb8, "DSCP 46) has priority 5; PFC is on for 3, 4", 24 << 2), WARNING);
	make(0, true);
	CHECK_EQ(judge(0, "no priority has PFC", 0), OK);
	make(1 << 3, false);
	CHECK_EQ(judge(0, "the VLAN tag says", 0), OK);
	/* For all DSCPs that have no rule, 0 (the kernel's default). */
	make(1, true);
	CHECK_EQ(judge(0, "PFC is on for 0", 0), OK);
}

/* Cut, and with each length broken: nothing is read behind the end (ASan). */
static void check_broken(void)
{
	struct dcb d;
	char *copy;

	make(1 << 3, true);
	for (size_t len = 0; len < used; len++) {
		copy = malloc(len + 1);
		memcpy(copy, reply, len);
		CHECK(!dcb_parse(&d, copy, len));
		if (len >= sizeof(struct nlmsghdr)) {
			((struct nlmsghdr *)(void *)copy)->nlmsg_len = (uint32_t)len;
			dcb_parse(&d, copy, len);
		}
		free(copy);
	}
	for (size_t i = sizeof(struct nlmsghdr); i < used; i++)
		for (int value = 0; value < 256; value += 51) {
			copy = malloc(used);
			memcpy(copy, reply, used);
			copy[i] = (char)value;
			dcb_parse(&d, copy, used);
			free(copy);
		}
}

static void check_refusal(void)
{
	struct nlmsghdr h = { .nlmsg_len = 36, .nlmsg_type = NLMSG_ERROR };
	struct dcb d;

	make(1 << 3, true);
	memcpy(reply, &h, sizeof(h));
	CHECK(!dcb_parse(&d, reply, used));
	CHECK(!dcb_read(&d, "lo")); /* the real thing: -EOPNOTSUPP */
	CHECK(!dcb_read(&d, "a name that is too long for one"));
}

int main(void)
{
	check_answers();
	check_broken();
	check_refusal();
	return 0;
}
