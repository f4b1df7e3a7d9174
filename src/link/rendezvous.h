/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rendezvous.h - how the two ends of a stream find each other and make a link: the
 * connecting side asks, the accepting side answers.  One table for each kind of link.
 * All in the loop, but for usable(), absent() and forget().
 */
#ifndef SR_RENDEZVOUS_H
#define SR_RENDEZVOUS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/conf.h"
#include "pure/request.h"

struct sr_ask;
struct sr_link;
struct sr_request;

struct sr_rendezvous {
	const char *name;	/* of the kind: "shm", "verbs"; by its first letter in knobs */
	int kind;		/* its number, SR_KINDS */

	/* Can this kind work on this host at all?  Returns NULL, or a reason
	 * word ("no-device", "no-library", "off").  Cheap; loads nothing. */
	const char *(*usable)(void);

	/* True if it is certain, and found out quickly, that nobody would
	 * answer a request for a link to this address now.  NULL: never.
	 * any. */
	bool (*absent)(const struct sockaddr *to);

	/*
	 * Asks the accepting side of the connection for a link.  done() is
	 * called once, later, unless cancelled: with a link that is UP, or with
	 * NULL and a reason, which may be for sr_ask_again().  Returns 0; or
	 * -ENODEV, -ELIBACC (the library cannot be loaded) or -ENOMEM, and
	 * done() is not called.  The peer of the rendezvous must have the TCP
	 * peer's own address, or be on this host.
	 */
	int (*ask)(struct sr_ask *ask);
	void (*cancel)(struct sr_ask *ask);

	/*
	 * Begins to answer requests for connections that were accepted on this local address
	 * (0.0.0.0 or ::: any).  With there == NULL it listens where askers look first.
	 * Otherwise it listens at a place of this process's own, and writes the name of that
	 * place to there[SR_THERE_LEN].  Any process sends an asker to that place by
	 * refuse(req, SR_THERE " " name).  *out is for unlisten().  Returns 0 or -errno, as
	 * ask() does.
	 */
	int (*listen)(const struct sockaddr *addr, char *there, void **out);
	void (*unlisten)(void *listener);

	/*
	 * Tells the asker of a request how things are, for it to go on waiting or not, and
	 * changes `holds'.  True: the request has ended, and the asker comes with another
	 * one.
	 */
	bool (*tell)(struct sr_request *req, enum sr_first first);

	/* Answers a request, whose `inode` and `policy` the caller has set.  Returns a new
	 * link, UP now or later; or NULL and a reason if none could be made,
	 * after refusing the asker.  The reason that refuse() sends goes to the
	 * peer's log. */
	struct sr_link *(*accept)(struct sr_request *req, void *owner,
				  void (*notify)(struct sr_link *, unsigned),
				  const char **reason);
	void (*refuse)(struct sr_request *req, const char *reason);

	/* In the child of fork: forgets the parent's links, listeners and
	 * requests.  May be NULL. */
	void (*forget)(void);
};

struct sr_ask {
	const struct sr_rendezvous *ops;
	struct sr_name name;
	struct sockaddr_storage src, dst; /* our and the peer's TCP address */
	/* The last word that has sent us elsewhere; "": asks by the address. */
	char there[sizeof(SR_THERE) + SR_THERE_LEN];
	unsigned redirects;
	uint64_t inode;			/* of our socket */
	const struct sr_policy *policy;
	void *owner;			/* for the link */
	void (*notify)(struct sr_link *link, unsigned what); /* for the link */
	void (*done)(struct sr_ask *ask, struct sr_link *link,
		     const char *reason);
	/* The question has gone out, by which the kind calls it each time, or a first answer
	 * has come. */
	void (*told)(struct sr_ask *ask, enum sr_first first);
	uint8_t tclass;			/* of the link's packets; 0: none */
	bool holds;			/* wants a first answer */
	bool heard;			/* a process has answered, if only by a refusal */
	void *kind;			/* the kind's own */
};

#define SR_THERE_MOST 3		/* so often an asker lets itself be sent elsewhere */

/* For done(), first.  Another process has the stream (the reason is SR_THERE), or the one
 * that was said to have it has ended: the keeper, or another one after it, is asked again.
 * True: done() will be called once more. */
bool sr_ask_again(struct sr_ask *ask, const char **reason);

/* An asker's request, in the kind's memory until accept() or refuse(). */
struct sr_request {
	const struct sr_rendezvous *ops;
	struct sr_name name;
	enum sr_holds holds;		/* its asker waits for tell() */
	uint8_t tclass;			/* its asker's */
	/* The upgrade room's, for accept(): */
	uint64_t inode;			/* of our socket */
	const struct sr_policy *policy;
};

/* Set once by the upgrade room, which handles requests.  loop.
 * sr_link_gone(): the asker left before it was answered; the kind frees the
 * request afterwards. */
extern void (*sr_link_request)(struct sr_request *req);
extern void (*sr_link_gone)(struct sr_request *req);

extern const struct sr_rendezvous sr_rendezvous_shm, sr_rendezvous_verbs;

#endif
