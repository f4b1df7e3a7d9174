/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * format.c - the subset of printf that the log needs, without stdio, malloc or
 * locale.  Pure but for reading errno; async-signal-safe.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "base/log.h"

struct out {
	char *buf;
	size_t size, len;	/* len counts what did not fit, too */
};

struct spec {
	bool zero, left;
	int width, precision;	/* precision: -1 none */
	int length;		/* h: -1, hh: -2, l: 1, ll: 2, z: 3 */
	char type;
};

static void put(struct out *o, char c)
{
	if (o->len + 1 < o->size)
		o->buf[o->len] = c;
	o->len++;
}

static void put_padded(struct out *o, const struct spec *s, const char *sign,
		       const char *text, size_t n)
{
	size_t used = n + strlen(sign);
	size_t pad = s->width > 0 && (size_t)s->width > used ?
			     (size_t)s->width - used : 0;

	if (!s->zero && !s->left)
		for (; pad; pad--)
			put(o, ' ');
	while (*sign)
		put(o, *sign++);
	if (s->zero && !s->left)
		for (; pad; pad--)
			put(o, '0');
	while (n--)
		put(o, *text++);
	for (; pad; pad--)
		put(o, ' ');
}

static void put_number(struct out *o, const struct spec *s, const char *sign,
		       uint64_t value, unsigned base)
{
	char digits[20], *p = digits + sizeof(digits);

	do {
		*--p = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	put_padded(o, s, sign, p, (size_t)(digits + sizeof(digits) - p));
}

static void put_text(struct out *o, struct spec *s, const char *text)
{
	if (!text)
		text = "(null)";
	s->zero = false;
	put_padded(o, s, "", text,
		   s->precision < 0 ? strlen(text) :
				      strnlen(text, (size_t)s->precision));
}

static int digits(const char **p)
{
	int n = 0;

	while (**p >= '0' && **p <= '9' && n < 10000)
		n = n * 10 + *(*p)++ - '0';
	return n;
}

/* A va_list inside a struct can be passed on by address everywhere. */
struct args {
	va_list list;
};

static const char *parse_spec(const char *p, struct spec *s, struct args *a)
{
	*s = (struct spec){.precision = -1};
	for (;; p++) {
		if (*p == '0')
			s->zero = true;
		else if (*p == '-')
			s->left = true;
		else
			break;
	}
	if (*p == '*') {
		s->width = va_arg(a->list, int);
		if (s->width < 0) {
			s->left = true;
			s->width = -s->width;
		}
		p++;
	} else {
		s->width = digits(&p);
	}
	if (*p == '.') {
		p++;
		if (*p == '*') {
			s->precision = va_arg(a->list, int);
			p++;
		} else {
			s->precision = digits(&p);
		}
	}
	for (;; p++) {
		if (*p == 'l')
			s->length++;
		else if (*p == 'h')
			s->length--;
		else if (*p == 'z')
			s->length = 3;
		else
			break;
	}
	s->type = *p;
	return p;
}

static int64_t next_signed(const struct spec *s, struct args *a)
{
	switch (s->length) {
	case -2:
		return (signed char)va_arg(a->list, int);
	case -1:
		return (short)va_arg(a->list, int);
	case 0:
		return va_arg(a->list, int);
	case 1:
		return va_arg(a->list, long);
	case 2:
		return va_arg(a->list, long long);
	default:
		return va_arg(a->list, ssize_t);
	}
}

static uint64_t next_unsigned(const struct spec *s, struct args *a)
{
	switch (s->length) {
	case -2:
		return (unsigned char)va_arg(a->list, int);
	case -1:
		return (unsigned short)va_arg(a->list, int);
	case 0:
		return va_arg(a->list, unsigned);
	case 1:
		return va_arg(a->list, unsigned long);
	case 2:
		return va_arg(a->list, unsigned long long);
	default:
		return va_arg(a->list, size_t);
	}
}

static void put_signed(struct out *o, const struct spec *s, int64_t value)
{
	if (value < 0)
		put_number(o, s, "-", -(uint64_t)value, 10);
	else
		put_number(o, s, "", (uint64_t)value, 10);
}

/* False: not ours; the caller shows the specification as it stands. */
static bool put_spec(struct out *o, struct spec *s, struct args *a, int err)
{
	char c;

	switch (s->type) {
	case 'd':
	case 'i':
		put_signed(o, s, next_signed(s, a));
		return true;
	case 'u':
		put_number(o, s, "", next_unsigned(s, a), 10);
		return true;
	case 'x':
		put_number(o, s, "", next_unsigned(s, a), 16);
		return true;
	case 'p':
		put_number(o, s, "0x", (uintptr_t)va_arg(a->list, void *), 16);
		return true;
	case 'c':
		c = (char)va_arg(a->list, int);
		s->zero = false;
		put_padded(o, s, "", &c, 1);
		return true;
	case 's':
		put_text(o, s, va_arg(a->list, const char *));
		return true;
	case 'm':
		put_text(o, s, sr_errno_name(err));
		return true;
	case '%':
		put(o, '%');
		return true;
	}
	return false;
}

int sr_vformat(char *buf, size_t size, const char *fmt, va_list list)
{
	struct out o = {.buf = buf, .size = size};
	int err = errno;
	struct args a;

	va_copy(a.list, list);
	for (const char *p = fmt; *p; p++) {
		struct spec s;
		const char *end;

		if (*p != '%') {
			put(&o, *p);
			continue;
		}
		end = parse_spec(p + 1, &s, &a);
		if (put_spec(&o, &s, &a, err)) {
			p = end;
			continue;
		}
		/* What follows could not be matched with its argument. */
		while (*p)
			put(&o, *p++);
		break;
	}
	va_end(a.list);
	if (size)
		buf[o.len < size ? o.len : size - 1] = '\0';
	return (int)o.len;
}

int sr_format(char *buf, size_t size, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = sr_vformat(buf, size, fmt, args);
	va_end(args);
	return n;
}
