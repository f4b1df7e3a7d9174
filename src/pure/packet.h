/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * packet.h - what one SEND of a verbs link carries: a packet, which says how many receive
 * buffers its sender has posted, and records, each a message of a link or a few bytes of its
 * stream.  The form is that of tests/model/PROTOCOL.md, "Packet".
 *
 * A packet is built and read in place, in the device's buffer.  The reading functions check
 * everything that can be checked without knowing the link; the caller checks the rest.
 *
 * Pure: no I/O, no locks, no globals.
 */
#ifndef SR_PACKET_H
#define SR_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pure/request.h"
#include "pure/wire.h"

enum {
	SR_PACKET_MAX = 4096,	/* bytes: one receive buffer */
	SR_PACKET_HEAD = 8,
	SR_RECORD_HEAD = 16,
	SR_RECORD_ALIGN = 8,	/* where a record begins, from the packet's beginning */
	SR_RECORD_BYTES_MAX = SR_PACKET_MAX - SR_PACKET_HEAD - SR_RECORD_HEAD,
	SR_RECORD_NUMBER_MAX = 65535,
	SR_PROCESS_LEN = 16,	/* bytes of a process's number */
	SR_WORD_MAX = 32,	/* bytes of REFUSE's and THERE's body */
};

/* Types of records that are no messages (enum sr_msg_type). */
enum {
	SR_RECORD_OPEN = 16,	/* the asker's question: a link for this stream, with this number */
	SR_RECORD_ACCEPT,	/* from here to THERE the answerer's */
	SR_RECORD_WORD,		/* a first answer; more may follow */
	SR_RECORD_REFUSE,	/* no link: its last record */
	SR_RECORD_THERE,	/* ask another process: its last record */
	SR_RECORD_DROP,		/* the link is over: its sender's last record */
	SR_RECORD_PROCESS,	/* the first record of a queue pair */
	SR_RECORD_PAD,		/* makes a packet longer, and says nothing */
};

struct sr_process {
	uint8_t version;
	uint16_t links;		/* the sender takes no link of a higher number */
	uint8_t process[SR_PROCESS_LEN];
};

struct sr_record {
	uint32_t number;	/* of the link; 0: the queue pair itself */
	uint8_t type;		/* enum sr_msg_type, or one of the above */
	uint64_t ack;		/* bytes taken by the program of the record's sender */
	const uint8_t *body;	/* in the packet: of BYTES the stream's bytes, at least one */
	size_t len;		/* of the body */
	union {
		struct sr_msg msg;	/* a message, but not BYTES; its ack is set, too */
		struct sr_process process;
		struct sr_question question; /* OPEN */
		bool brief;		/* ACCEPT: HELLO and SWITCH behind OPEN count */
		enum sr_first first;	/* WORD: SR_FIRST_TAKEN and later ones */
		char word[SR_WORD_MAX + 1]; /* REFUSE: a reason's, perhaps an unknown one */
		uint16_t there[2];	/* THERE: as sr_there_verbs() says */
	};
};

/* ---- building ---- */

struct sr_packet_out {
	uint8_t *buf;
	size_t size, len;
};

/* size: at most SR_PACKET_MAX, and at least SR_PACKET_HEAD. */
void sr_packet_begin(struct sr_packet_out *p, uint8_t *buf, size_t size);
/* Sets `posted` in the header, at any time before the packet is sent. */
void sr_packet_posted(struct sr_packet_out *p, uint32_t posted);
/* How many bytes the body of the next record may have; 0 also if there is no room for one. */
size_t sr_packet_room(const struct sr_packet_out *p);
/* Adds a message other than BYTES.  False: there is no room. */
bool sr_packet_put(struct sr_packet_out *p, uint32_t number, const struct sr_msg *msg);
bool sr_packet_put_process(struct sr_packet_out *p, const struct sr_process *process);
bool sr_packet_put_open(struct sr_packet_out *p, uint32_t number,
			const struct sr_question *question);
bool sr_packet_put_accept(struct sr_packet_out *p, uint32_t number, bool brief);
bool sr_packet_put_first(struct sr_packet_out *p, uint32_t number, enum sr_first first);
/* word: of small letters, digits and hyphens, at most SR_WORD_MAX bytes. */
bool sr_packet_put_refuse(struct sr_packet_out *p, uint32_t number, const char *word);
bool sr_packet_put_there(struct sr_packet_out *p, uint32_t number, const uint16_t there[2]);
/* Adds DROP, BYTES or PAD and returns its body of n bytes, which the caller fills in; that of PAD
 * is zero already.  NULL: there is no room. */
uint8_t *sr_packet_put_raw(struct sr_packet_out *p, uint32_t number, uint8_t type, uint64_t ack,
			   size_t n);

/* ---- reading ---- */

struct sr_packet_in {
	const uint8_t *at;
	size_t left;
	uint32_t posted;
};

/* 0 or -EPROTO. */
int sr_packet_open(struct sr_packet_in *p, const uint8_t *buf, size_t len);
/* Returns 1: the next record; 0: there is none left; -EPROTO: this is no valid packet, even if
 * records of it were read before. */
int sr_packet_next(struct sr_packet_in *p, struct sr_record *record);

#endif
