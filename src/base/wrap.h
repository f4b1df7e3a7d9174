/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* wrap.h - breaks the tools' output into lines of 79 columns: some terminals break a line of 80
 * columns into two. */
#ifndef SR_WRAP_H
#define SR_WRAP_H

#include <stdio.h>
#include <string.h>

/* Prints the text from `column' on, broken between words and indented, and a newline.  A newline
 * in the text begins a new line.  Words that are too long are not broken, nor are the lines of a
 * text that begins with '[', a unit's file. */
static inline void sr_wrap(const char *text, int column, int indent)
{
	int file = *text == '[';

	while (*text) {
		int len = (int)strcspn(text, " \n");

		if (!file && column > indent && column + 1 + len > 79)
			column = printf("\n%*s", indent, "") - 1;
		else if (column > indent)
			column += printf(" ");
		column += printf("%.*s", len, text);
		text += len;
		if (*text == '\n')
			column = printf("\n%*s", indent, "") - 1;
		if (*text)
			text++;
	}
	putchar('\n');
}

#endif
