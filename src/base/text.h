/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * text.h - makes short texts of words and numbers, at a tenth of the cost of snprintf(3), for
 * places where a text is made for each connection.
 */
#ifndef SR_TEXT_H
#define SR_TEXT_H

#include <stddef.h>
#include <string.h>

/* What does not fit is cut off.  The caller ends the text: *at = '\0'. */
struct sr_text {
	char *at, *end;		/* end: where a '\0' still has room */
};

static inline void sr_text_bytes(struct sr_text *t, const char *s, size_t n)
{
	size_t room = (size_t)(t->end - t->at);

	if (n > room)
		n = room;
	memcpy(t->at, s, n);
	t->at += n;
}

static inline void sr_text_word(struct sr_text *t, const char *s)
{
	sr_text_bytes(t, s, strlen(s));
}

static inline void sr_text_number(struct sr_text *t, unsigned long long n)
{
	char digits[20], *first = digits + sizeof(digits);

	do
		*--first = (char)('0' + n % 10);
	while (n /= 10);
	sr_text_bytes(t, first, (size_t)(digits + sizeof(digits) - first));
}

#endif
