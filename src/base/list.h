/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* list.h - lists of structs with the members next and pprev; and SR_OF, which finds a struct
 * by the address of its member. */
#ifndef SR_LIST_H
#define SR_LIST_H

#include <stddef.h>

#define SR_LIST_ADD(head, x)                                                   \
	do {                                                                   \
		(x)->next = (head);                                            \
		(x)->pprev = &(head);                                          \
		if ((x)->next)                                                 \
			(x)->next->pprev = &(x)->next;                         \
		(head) = (x);                                                  \
	} while (0)
#define SR_LIST_DROP(x)                                                        \
	do {                                                                   \
		*(x)->pprev = (x)->next;                                       \
		if ((x)->next)                                                 \
			(x)->next->pprev = (x)->pprev;                         \
	} while (0)

/* The struct whose member is at p. */
#define SR_OF(type, member, p) ((type *)(void *)((char *)(p) - offsetof(type, member)))

#endif
