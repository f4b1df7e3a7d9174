/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * packet.c - a packet of records as it comes on a queue pair, and the credit in it.  A packet
 * that is accepted has one encoding.
 */
#include <errno.h>

#include "fuzz.h"
#include "pure/credit.h"
#include "pure/packet.h"

static bool put_again(struct sr_packet_out *out, const struct sr_record *r)
{
	uint8_t *body;

	switch (r->type) {
	case SR_RECORD_PROCESS:
		return sr_packet_put_process(out, &r->process);
	case SR_RECORD_OPEN:
		return sr_packet_put_open(out, r->number, &r->question);
	case SR_RECORD_ACCEPT:
		return sr_packet_put_accept(out, r->number, r->brief);
	case SR_RECORD_WORD:
		return sr_packet_put_first(out, r->number, r->first);
	case SR_RECORD_REFUSE:
		return sr_packet_put_refuse(out, r->number, r->word);
	case SR_RECORD_THERE:
		return sr_packet_put_there(out, r->number, r->there);
	case SR_RECORD_PAD:
	case SR_RECORD_DROP:
	case SR_MSG_BYTES:
		body = sr_packet_put_raw(out, r->number, r->type, r->ack, r->len);
		if (body)
			memcpy(body, r->body, r->len);
		return body;
	default:
		return sr_packet_put(out, r->number, &r->msg);
	}
}

static void packet(const uint8_t *data, size_t size)
{
	uint8_t again[SR_PACKET_MAX], *p = fuzz_exact(data, size);
	struct sr_packet_out out;
	struct sr_packet_in in;
	struct sr_record r;
	int more = sr_packet_open(&in, p, size);

	if (more)
		goto free_copy;
	CHECK(size <= SR_PACKET_MAX);
	sr_packet_begin(&out, again, sizeof(again));
	sr_packet_posted(&out, in.posted);
	while ((more = sr_packet_next(&in, &r)) > 0) {
		CHECK(r.number <= SR_RECORD_NUMBER_MAX);
		CHECK(r.body + r.len <= p + size);
		CHECK(put_again(&out, &r));
		CHECK_EQ(size - in.left, out.len);
	}
	CHECK(!memcmp(p, again, out.len));
	CHECK(more == -EPROTO || out.len == size);
free_copy:
	free(p);
}

/* A count that is believed takes nothing back, and promises no more than any end has. */
static void credit(struct fuzz *f)
{
	struct sr_packets p, before;
	uint32_t said;

	sr_packets_init(&p);
	p.sent = (uint32_t)fuzz_bytes(f, 4);
	p.peer_posted = p.sent + fuzz_below(f, SR_PACKETS_MOST + 1);
	before = p;
	said = (uint32_t)fuzz_number(f, p.peer_posted);
	if (sr_packets_said(&p, said))
		CHECK(!memcmp(&p, &before, sizeof(p)));
	CHECK(sr_packets_known(&p) >= sr_packets_known(&before));
	CHECK(sr_packets_known(&p) <= SR_PACKETS_MOST);
}

void fuzz_packet(const uint8_t *data, size_t size)
{
	struct fuzz f = {data, size};

	packet(data, size);
	credit(&f);
}
