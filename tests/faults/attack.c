/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * attack.c - somebody who reaches a host's RDMA ports, and has none of the streams that he
 * asks or answers for.  He keeps to sockrail-protocol(7) as far as it suits him, and says
 * what he got.
 *
 *     attack ask HOW ADDRESS PORT SPORT FILE KNOWN [RECORD|OTHER-SPORT]
 *     attack answer HOW ADDRESS PORT FILE KNOWN TIMES
 *     attack flood N ADDRESS PORT
 *
 * ask: for the stream from SPORT to that port, which he reads from /proc/net/tcp.  Both its
 * directions are the bytes of FILE; he knows the first KNOWN of them.  HOW:
 *
 *     counts    claims to have received and sent other numbers of bytes each time, and
 *               guesses where he is shown a share
 *     guess     what he does not know are zeros
 *     silent    the same, and shows no tag
 *     record    once, and notes in RECORD what he sends
 *     replay    what RECORD has
 *     neighbour asks for the stream from OTHER-SPORT, too, and writes by the link of the first
 *               one to its ring, and to that of the other
 *
 * answer: so often for whoever asks, in the place of a server.  HOW: guess, and tries all
 * of a dictionary, in which the right guess is, on what he was sent ("matches"); or counts,
 * which are 0; or take, and his tag is right, too, if his guess is, and he takes what
 * comes.
 *
 * flood: N requests, each fourth one for a stream that is there.
 *
 * ATTACK_PORT_OFFSET, in the environment: from TCP's port to that of RDMA's CM (iWARP).
 *
 * Of the library this uses only src/pure, to write messages and to compute.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "attacker.h"

enum { CANDIDATES = 100 };

static struct sockaddr_in server, door;		/* of TCP, and of RDMA's CM */
static uint8_t all[FILE_MAX], known[FILE_MAX];	/* the stream; what he knows of it */
static char refusal[64] = "none";

/* ---- asking ---- */

/* A stream to the server's port, as anybody can read it; sport 0: the n-th one. */
static bool steal(uint16_t sport, unsigned n, struct sr_name *name)
{
	FILE *table = fopen("/proc/net/tcp", "r");
	unsigned from, fport, to, tport, state;
	struct sockaddr_in src = { .sin_family = AF_INET };
	char line[256];
	bool found = false;

	CHECK(table);
	while (!found && fgets(line, sizeof(line), table)) {
		if (sscanf(line, " %*d: %x:%x %x:%x %x", &from, &fport, &to, &tport,
			   &state) != 5 || state != TCP_ESTABLISHED ||
		    tport != ntohs(server.sin_port) ||
		    (sport ? sport != fport : n-- > 0))
			continue;
		src.sin_addr.s_addr = from;
		src.sin_port = htons((uint16_t)fport);
		found = !sr_name_make(name, (void *)&src, (void *)&server, 1);
	}
	fclose(table);
	return found;
}

static void note_refusal(const struct rdma_cm_event *event)
{
	if (event->param.conn.private_data_len && *(char *)event->param.conn.private_data)
		snprintf(refusal, sizeof(refusal), "%.60s",
			 (const char *)event->param.conn.private_data);
}

/* False: refused, as it says why. */
static bool ask(struct end *e, uint16_t sport)
{
	struct rdma_conn_param p = { .responder_resources = 1, .initiator_depth = 1,
				     .retry_count = 3, .rnr_retry_count = 7 };
	uint8_t data[SR_QUESTION_LEN];
	struct sr_question question = { .holds = SR_HOLDS_NOT };
	struct sockaddr_in src = { .sin_family = AF_INET, .sin_addr = server.sin_addr };

	memset(e, 0, sizeof(*e));
	CHECK(steal(sport, 0, &e->name));
	CHECK(!rdma_create_id(NULL, &e->id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(e->id, (void *)&src, (void *)&door, 2000));
	CHECK(!rdma_resolve_route(e->id, 2000));
	make_end(e);
	question.name = e->name;
	sr_question_encode(&question, data);
	p.private_data = data;
	p.private_data_len = sizeof(data);
	got.asked++;
	if (!rdma_connect(e->id, &p)) {
		got.links++;
		return true;
	}
	if (e->id->event)
		note_refusal(e->id->event);
	free_end(e);
	return false;
}

/* All as it should be, but for the mark, which he cannot write. */
static void announce(struct end *e)
{
	struct sr_msg msg = { .type = SR_MSG_SWITCH };

	msg.sw = (struct sr_switch){ .n = e->said[SR_MSG_HELLO].hello.rx_have,
				     .link_no = e->name.link_no };
	send_msg(e, &msg);
	hear(e, SR_MSG_SWITCH, 1000);
}

static void ask_once(uint16_t sport, uint64_t tx_have, uint64_t rx_have, bool silent)
{
	struct sr_msg msg = { .type = SR_MSG_PROOF };
	struct guess g;
	struct end e;

	if (!ask(&e, sport))
		return;
	send_hello(&e, SR_ROLE_ASKER, tx_have, rx_have);
	if (hear(&e, SR_MSG_HELLO, 2000) && hear(&e, SR_MSG_SHARE, 500)) {
		make_guess(&e, &g, known);
		send_share(&e, &g);
		make_tag(&e, &g, &e.pake, 0, msg.tag);
		if (!silent)
			send_msg(&e, &msg);
		if (hear(&e, SR_MSG_PROOF, 500))
			announce(&e);
	}
	free_end(&e);
}

static void ask_counts(uint16_t sport, uint64_t most)
{
	const uint64_t n[][2] = { { 0, 0 }, { 16, 0 }, { 0, 16 }, { 1, 1 }, { most - 1, most },
				  { most, most - 1 }, { most, 0 }, { most, most },
				  { UINT64_MAX, UINT64_MAX }, { most + 1, most }, { most, most } };

	for (unsigned i = 0; i < sizeof(n) / sizeof(n[0]); i++)
		ask_once(sport, n[i][0], n[i][1], false);
}

/* The ring of the HELLO is his own one of now. */
static void replay(uint16_t sport)
{
	uint8_t buf[SR_MSG_MAX], len;
	struct sr_msg msg;
	struct end e;

	if (!ask(&e, sport))
		return;
	e.replays = true;
	while (fread(&len, 1, 1, record) == 1 && fread(buf, len, 1, record) == 1) {
		CHECK(!sr_msg_decode(&msg, buf, len));
		if (msg.type == SR_MSG_HELLO)
			msg.hello.ring = ring_of(&e);
		send_msg(&e, &msg);
	}
	hear(&e, SR_MSG_PROOF, 1000);
	free_end(&e);
}

/* Can e's queue pair write to the ring that the server told `of`?  (An RDMA WRITE takes no
 * receive there, so the server does not hear of it; and iWARP completes it before it has got
 * there.  A queue pair whose write is refused ends, and its probe finds no answer.) */
static bool can_write(struct end *e, struct end *of)
{
	struct sr_ring_ref *ring = &of->said[SR_MSG_HELLO].hello.ring;
	struct sr_msg probe = { .type = SR_MSG_PROBE };

	CHECK(!rdma_post_write(e->id, NULL, e->in, 64, e->mr, IBV_SEND_SIGNALED, ring->addr,
			       ring->rkey));
	if (!is_sent(e))
		return false;
	e->heard &= ~(1u << SR_MSG_ACK);
	send_msg(e, &probe);
	return hear(e, SR_MSG_ACK, 2000);
}

static void ask_neighbour(uint16_t sport, uint16_t other)
{
	struct end e, f;
	bool own, foreign;

	CHECK(ask(&e, sport) && ask(&f, other));
	send_hello(&e, SR_ROLE_ASKER, UINT64_MAX, UINT64_MAX);
	send_hello(&f, SR_ROLE_ASKER, UINT64_MAX, UINT64_MAX);
	CHECK(hear(&e, SR_MSG_HELLO, 2000) && hear(&f, SR_MSG_HELLO, 2000));
	own = can_write(&e, &e);
	foreign = can_write(&e, &f);
	printf("writes to his ring %d, to his neighbour's %d\n", own, foreign);
	free_end(&e);
	free_end(&f);
}

static void say_all(void)
{
	printf("asked %u, links %u, shares %u, tags %u, switches %u, acks %u, bytes %u, "
	       "matches %u, refusal %s\n", got.asked, got.links, got.shares, got.tags,
	       got.switches, got.acks, got.bytes, got.matches, refusal);
}

static int be_asker(const char *how, uint16_t sport, const char *file)
{
	bool silent = !strcmp(how, "silent"), records = !strcmp(how, "record");
	unsigned times = silent || !strcmp(how, "guess") ? 5 : records;

	if (!strcmp(how, "neighbour") && file) {
		ask_neighbour(sport, (uint16_t)atoi(file));
		return 0;
	}
	if (file)
		record = fopen(file, records ? "w" : "r");
	CHECK(record || !file);
	if (!strcmp(how, "counts"))
		ask_counts(sport, strlen((char *)all));
	else if (!strcmp(how, "replay"))
		replay(sport);
	while (times--)
		ask_once(sport, UINT64_MAX, UINT64_MAX, silent);
	say_all();
	return 0;
}

/* ---- answering ---- */

static const struct end *past;

static void same_scalar(uint8_t out[SR_POINT_LEN])
{
	memcpy(out, past->pake.scalar, SR_POINT_LEN);
}

/* Had he guessed that one, would he have been shown this tag? */
static void try_dictionary(struct end *e)
{
	uint8_t candidate[FILE_MAX], tag[SR_TAG_LEN];
	struct sr_sodium same = *na;
	struct sr_pake pake;
	struct guess g;

	past = e;
	same.scalar_random = same_scalar;
	for (unsigned i = 0; i <= CANDIDATES; i++) {
		memcpy(candidate, all, sizeof(all));
		candidate[0] ^= (uint8_t)i;	/* 0: it is right */
		make_guess(e, &g, candidate);
		sr_pake_begin(&same, &pake, &g.terms);
		make_tag(e, &g, &pake, 0, tag);
		got.matches += !memcmp(tag, e->said[SR_MSG_PROOF].tag, SR_TAG_LEN);
	}
}

/* As the server would, so that the asker's bytes come: all that he sends after its mark. */
static void take_bytes(struct end *e)
{
	struct sr_msg msg = { .type = SR_MSG_ACKSW };

	if (!hear(e, SR_MSG_SWITCH, 1000))
		return;
	send_msg(e, &msg);
	hear(e, SR_MSG_END, 2000);
}

static void answer_once(struct end *e, const char *how)
{
	uint64_t have = strcmp(how, "counts") ? UINT64_MAX : 0;
	bool take = !strcmp(how, "take");
	struct sr_msg msg = { .type = SR_MSG_PROOF };
	struct guess g;

	if (!hear(e, SR_MSG_HELLO, 2000))
		return;
	send_hello(e, SR_ROLE_ANSWERER, have, have);
	make_guess(e, &g, known);
	send_share(e, &g);
	if (!hear(e, SR_MSG_PROOF, 1000))
		return;
	try_dictionary(e);
	if (take)
		make_tag(e, &g, &e->pake, 1, msg.tag);
	send_msg(e, &msg);	/* else it is a wrong one */
	take_bytes(e);
}

/* Somebody may have asked. */
static void take_event(struct rdma_cm_event *event, const char *how)
{
	struct rdma_conn_param p = { .responder_resources = 1, .initiator_depth = 1,
				     .retry_count = 3, .rnr_retry_count = 7 };
	struct end e = { .id = event->id };
	bool asked = event->event == RDMA_CM_EVENT_CONNECT_REQUEST &&
		     !sr_name_decode(&e.name, event->param.conn.private_data, SR_NAME_LEN);

	rdma_ack_cm_event(event);
	if (!asked)
		return;
	got.asked++;
	make_end(&e);
	CHECK(!rdma_accept(e.id, &p));
	answer_once(&e, how);
	free_end(&e);
}

static int be_answerer(const char *how, unsigned times)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener;
	struct pollfd fd = { .events = POLLIN };
	struct rdma_cm_event *event;
	unsigned start = now_ms();

	CHECK(channel && !rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(listener, (void *)&door) && !rdma_listen(listener, 16));
	printf("ready\n");
	fflush(stdout);
	fd.fd = channel->fd;
	while (got.asked < times && now_ms() - start < 20000)
		if (poll(&fd, 1, 100) > 0 && !rdma_get_cm_event(channel, &event))
			take_event(event, how);
	say_all();
	return 0;
}

/* ---- a flood ---- */

static struct rdma_event_channel *flood_channel;
static unsigned flying;

static void begin_request(void)
{
	struct sockaddr_in src = { .sin_family = AF_INET, .sin_addr = server.sin_addr };
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(flood_channel, &id, NULL, RDMA_PS_TCP));
	flying++;
	if (rdma_resolve_addr(id, (void *)&src, (void *)&door, 2000)) {
		flying--;
		rdma_destroy_id(id);
	}
}

static bool send_request(struct rdma_cm_id *id)
{
	struct rdma_conn_param p = { .qp_num = 2, .retry_count = 3 };
	struct sockaddr_in src = { .sin_family = AF_INET, .sin_addr = server.sin_addr,
				   .sin_port = htons((uint16_t)(1024 + random() % 60000)) };
	uint8_t data[SR_QUESTION_LEN];
	struct sr_question q = { .holds = (enum sr_holds)(random() % 3) };

	if (got.asked++ % 4 || !steal(0, (unsigned)random() % 4, &q.name))
		CHECK(!sr_name_make(&q.name, (void *)&src, (void *)&server, got.asked));
	sr_question_encode(&q, data);
	p.private_data = data;
	p.private_data_len = sizeof(data);
	return !rdma_connect(id, &p);
}

/* True: the request goes on. */
static bool advance(const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return !rdma_resolve_route(event->id, 2000);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return send_request(event->id);
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
		got.links++;
		return false;
	case RDMA_CM_EVENT_REJECTED:
		note_refusal(event);
		return false;
	default:
		return false;
	}
}

static int flood(unsigned n)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	bool more;

	flood_channel = rdma_create_event_channel();
	CHECK(flood_channel);
	while (n || flying) {
		for (; n && flying < 300; n--)
			begin_request();
		CHECK(!rdma_get_cm_event(flood_channel, &event));
		more = advance(event);
		id = event->id;
		rdma_ack_cm_event(event);
		if (more)
			continue;
		flying--;
		rdma_destroy_id(id);
	}
	say_all();
	return 0;
}

static void read_file(const char *path, size_t n)
{
	FILE *file = fopen(path, "r");

	CHECK(file && fread(all, 1, sizeof(all) - 1, file));
	memcpy(known, all, n);
	fclose(file);
}

int main(int argc, char **argv)
{
	CHECK(argc > 4);
	server = (struct sockaddr_in){ .sin_family = AF_INET,
				       .sin_addr.s_addr = inet_addr(argv[3]),
				       .sin_port = htons((uint16_t)atoi(argv[4])) };
	door = server;
	if (getenv("ATTACK_PORT_OFFSET"))	/* iWARP */
		door.sin_port = htons((uint16_t)(atoi(argv[4]) + atoi(getenv("ATTACK_PORT_OFFSET"))));
	na = sr_sodium();
	CHECK(na);
	if (argc == 5)
		return flood((unsigned)atoi(argv[2]));
	CHECK(argc == 8 || argc == 9);
	if (!strcmp(argv[1], "answer")) {
		read_file(argv[5], (size_t)atoi(argv[6]));
		return be_answerer(argv[2], (unsigned)atoi(argv[7]));
	}
	read_file(argv[6], (size_t)atoi(argv[7]));
	return be_asker(argv[2], (uint16_t)atoi(argv[5]), argv[8]);
}
