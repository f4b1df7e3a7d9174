/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shm.c - an end of a link over shared memory, whose other end writes what it likes into
 * its page, at any moment.  What the end finds lies in the rings; no counter passes
 * another one that it must not pass.
 */
#include "base/real.h"

#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "loop_hold.h"
#include "link/shm/shm.h"

#define STEPS 300

static struct sr_shm *l;
static struct fuzz f;

static void heard(struct sr_link *link, unsigned what)
{
	(void)link;
	(void)what;
}

/* Is that in the ring of the direction?  Touches it. */
static void in_ring(const struct sr_shm_ring *r, const void *at, size_t n)
{
	const uint8_t *from = r->area[0].mem, *p = at;

	if (n)
		CHECK(p >= from && p + n <= from + l->plan.ring);
}

static void pieces(const struct sr_shm_ring *r, const struct iovec v[2], size_t n)
{
	CHECK_EQ(v[0].iov_len + v[1].iov_len, n);
	in_ring(r, v[0].iov_base, v[0].iov_len);
	in_ring(r, v[1].iov_base, v[1].iov_len);
}

/* ---- the peer ---- */

static void peer_counts(void)
{
	struct sr_shm_page *p = l->peer;
	struct sr_gen *g = &p->gen[fuzz_below(&f, SR_GENS)];

	switch (fuzz_below(&f, 10)) {
	case 0: p->tx_w = fuzz_number(&f, l->link.rx_h); break;
	case 1: p->tx_kept = fuzz_number(&f, l->link.rx_h); break;
	case 2: p->rx_taken = fuzz_number(&f, l->link.tx_acked); break;
	case 3: p->ctl = (uint32_t)fuzz_bytes(&f, 4); break;
	case 4: p->dropped = (uint32_t)fuzz_bytes(&f, 1) % 6; break;
	case 5: p->gens = l->rx.gens.n + (uint32_t)fuzz_bytes(&f, 1); break;
	case 6: g->start = fuzz_number(&f, l->link.rx_h); break;
	case 7: g->ring = (uint32_t)fuzz_bytes(&f, 1); break;
	case 8: p->asleep = (uint32_t)fuzz_bytes(&f, 1); break;
	default: p->core = (uint32_t)fuzz_number(&f, 0);
	}
}

/* An honest message, or any bytes. */
static void peer_says(void)
{
	struct sr_msg msg = {.type = 1 + (enum sr_msg_type)fuzz_below(&f, SR_MSG_SHARE)};
	unsigned type = fuzz_below(&f, 4) ? msg.type : fuzz_below(&f, SR_SHM_SLOTS);
	struct sr_shm_slot *slot = &l->peer->slot[type];

	if (msg.type == SR_MSG_HELLO)
		msg.hello = (struct sr_hello){.version = SR_WIRE_VERSION,
					      .role = SR_ROLE_ANSWERER, .link_no = 1};
	if (msg.type == SR_MSG_SWITCH)
		msg.sw = (struct sr_switch){.n = fuzz_number(&f, 1000), .link_no = 1};
	if (msg.type == SR_MSG_END)
		msg.end = fuzz_number(&f, l->link.rx_h);
	if (msg.type == SR_MSG_DATA || msg.type == SR_MSG_RING)
		slot->len = (uint32_t)fuzz_copy(&f, slot->msg, fuzz_below(&f, SR_MSG_MAX));
	else
		slot->len = (uint32_t)sr_msg_encode(&msg, slot->msg);
	if (!fuzz_below(&f, 8))
		slot->len = (uint32_t)fuzz_number(&f, slot->len);
	l->peer->ctl |= 1u << type;
}

/* ---- the end ---- */

static void says(void)
{
	struct sr_msg msg = {.type = 1 + (enum sr_msg_type)fuzz_below(&f, SR_MSG_SHARE)};

	if (msg.type == SR_MSG_SWITCH)
		msg.sw = (struct sr_switch){.n = 500};
	if (msg.type > SR_MSG_ACKEND && msg.type < SR_MSG_SHARE)
		return;
	if (msg.type == SR_MSG_END)
		msg.end = l->link.tx_w;
	l->link.ops->ctl(&l->link, &msg);
}

static bool receives(void)
{
	return sr_link_events(&l->link) & SR_LINK_SWITCH;
}

static void reads(void)
{
	struct sr_piece piece;
	struct iovec v[2];
	size_t skip = fuzz_below(&f, 4), n;
	ssize_t r;

	if (!receives())
		return;
	if (fuzz_below(&f, 2)) {
		r = l->link.ops->rx_look(&l->link, &piece);
		CHECK(r >= -1 && r <= (ssize_t)l->plan.ring);
		if (r > 0)
			in_ring(&l->rx, piece.at, piece.left);
		n = r > 0 && piece.left < (size_t)r ? piece.left : r > 0 ? (size_t)r : 0;
	} else {
		n = l->link.ops->rx_data(&l->link, 0, v);
		pieces(&l->rx, v, n);
		pieces(&l->rx, v, l->link.ops->rx_data(&l->link, 0, v));
		if (skip <= n) {
			size_t rest = l->link.ops->rx_data(&l->link, skip, v);

			pieces(&l->rx, v, rest);
		}
	}
	if (n)
		l->link.ops->rx_free(&l->link, 1 + fuzz_bytes(&f, 2) % n);
}

static void writes(void)
{
	struct iovec v[2];
	size_t n;

	if (!(atomic_load(&l->link.said) & 1u << SR_MSG_SWITCH))
		return;
	n = l->link.ops->tx_room(&l->link, v);
	if (!n && fuzz_below(&f, 2))
		n = l->link.ops->tx_rest(&l->link, v);
	if (n)
		pieces(&l->tx, v, n);
	if (n)
		n = 1 + fuzz_bytes(&f, 2) % n;
	l->link.ops->tx_commit(&l->link, n, fuzz_below(&f, 2));
	n = l->link.ops->tx_retained(&l->link, l->link.tx_acked, v);
	pieces(&l->tx, v, n);
}

static void step(void)
{
	switch (fuzz_below(&f, 16)) {
	case 0: case 1: case 2: case 3: peer_counts(); break;
	case 4: case 5: peer_says(); break;
	case 6: says(); break;
	case 7: case 8: reads(); break;
	case 9: case 10: writes(); break;
	case 11: l->link.ops->tx_work(&l->link); break;
	case 12:
		if (!fuzz_below(&f, 16))
			l->link.ops->rx_last(&l->link);
		break;
	case 13:
		if (!fuzz_below(&f, 32))
			l->link.ops->leave(&l->link, fuzz_below(&f, 2));
		break;
	default: l->link.ops->poll(&l->link);
	}
}

static void begin(void)
{
	const struct sr_policy policy = {.ring_max = 65536};
	struct sr_shm_plan plan;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	CHECK(!sr_shm_plan(&plan, 4096, 65536));
	CHECK(fd >= 0 && !ftruncate(fd, (off_t)plan.total));
	l = sr_shm_new(SR_ROLE_ASKER, 1, NULL, heard, &policy, &plan);
	CHECK(l && !sr_shm_map(l, fd));
	close(fd);
	sr_link_raise(&l->link, SR_LINK_UP);
}

void fuzz_shm(const uint8_t *data, size_t size)
{
	f = (struct fuzz){data, size};
	loop_hold();
	begin();
	for (int i = 0; i < STEPS && f.left; i++) {
		step();
		CHECK(l->link.tx_acked <= l->link.tx_w);
		CHECK(l->link.rx_h <= INT64_MAX && l->link.rx_taken <= INT64_MAX);
		CHECK(l->link.rx_h <= l->link.rx_taken ||
		      l->link.rx_h - l->link.rx_taken <= l->plan.ring);
		CHECK(l->link.tx_w - l->link.tx_acked <= l->plan.ring);
	}
	l->link.ops->free(&l->link);
	loop_let_go();
}
