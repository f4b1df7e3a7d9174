/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rendezvous.h - how the two ends of a stream find each other and make a link: the
 * connecting side asks, the accepting side answers.  Each kind of link has a table of
 * these functions.  They run in the service thread, except usable(), absent() and forget().
 */
#ifndef SR_RENDEZVOUS_H
#define SR_RENDEZVOUS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/conf.h"
#include "link/ops.h"
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

	/* True if no process would answer a request for a link to this address
	 * now.  False if that is uncertain, or cannot be found out quickly.
	 * NULL: always false.  any. */
	bool (*absent)(const struct sockaddr *to);

	/*
	 * Asks the accepting side of the connection for a link.  Unless cancelled,
	 * the kind calls done() once, later: with a link that is UP, or with
	 * NULL and a reason, which done() passes to sr_ask_again() first.  Returns 0;
	 * or -ENODEV, -ELIBACC (the library cannot be loaded) or -ENOMEM, and
	 * done() is not called.  The process that answers must have the TCP
	 * peer's address, or be on this host.
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
	 * Sends the asker a first answer, by which the asker decides whether to wait on, and
	 * changes `holds'.  True: that has ended the request, and the asker will make
	 * another one.
	 */
	bool (*tell)(struct sr_request *req, enum sr_first first);

	/* accept() answers a request, whose `inode` and `policy` the caller has set.
	 * It returns a new link, which is UP now or later.  If it can make none, it returns NULL
	 * and a reason; the caller notes the reason of its stream and then refuses the request,
	 * because the peer may end the stream as soon as it is refused.  The peer logs the reason
	 * that refuse() sends. */
	struct sr_link *(*accept)(struct sr_request *req, void *owner,
				  void (*notify)(struct sr_link *, unsigned),
				  const char **reason);
	void (*refuse)(struct sr_request *req, const char *reason);

	/* The process ends: takes away what would outlive it.  May be NULL.  any. */
	void (*leave)(void);

	/* In the child of fork: forgets the parent's links, listeners and
	 * requests.  May be NULL. */
	void (*forget)(void);
};

struct sr_ask {
	const struct sr_rendezvous *ops;
	struct sr_name name;
	enum sr_proof proof;		/* of the link */
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
	/* The kind calls this each time it has sent the question (SR_FIRST_SENT), and when a
	 * first answer has come. */
	void (*told)(struct sr_ask *ask, enum sr_first first);
	/* The epoll set that is to wait for the stream (upgrade.c).  Streams of one domain are to share
	 * a carrier.  NULL: it shares one only where there may be no more.  Only compared: what it
	 * points to may be gone. */
	const void *domain;
	bool alone;			/* shares none with any other stream */
	uint8_t tclass;			/* of the link's packets; 0: none */
	bool holds;			/* wants a first answer */
	bool heard;			/* a process has answered, if only by a refusal */
	void *kind;			/* the kind's own */
};

#define SR_THERE_MOST 3		/* how often an asker lets itself be sent elsewhere */

/* done() calls this first.  If another process has the stream (the reason is SR_THERE), asks
 * that process.  If the process that was said to have it has ended, asks by the address again.
 * True: it has asked, and done() will be called once more. */
bool sr_ask_again(struct sr_ask *ask, const char **reason);

/* An asker's request, in the kind's memory until accept() or refuse(). */
struct sr_request {
	const struct sr_rendezvous *ops;
	struct sr_name name;
	enum sr_holds holds;		/* the asker's: does it wait for tell()? */
	enum sr_proof proof;		/* of the link, if there is one */
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
