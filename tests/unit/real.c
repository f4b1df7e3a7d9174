/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* include/calls.def against the C library that is here. */
#include "base/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/lib-names.h>
#include <stdbool.h>
#include <string.h>

#include "check.h"

/* Younger than the oldest C library we run on (2.34, RHEL 9); or of x86-64's first ones alone,
 * so that programs of other processors cannot be linked to it. */
static const char *const young[] = {"epoll_pwait2", "pidfd_spawn", "pidfd_spawnp", "__send"};

static bool may_miss(const char *name)
{
	for (size_t i = 0; i < sizeof(young) / sizeof(young[0]); i++) {
		if (!strcmp(young[i], name))
			return true;
	}
	return false;
}

/* A name that libc does not export would never be called. */
static void test_names(void)
{
	static const char *const names[] = {
#define SR_CALL(family, ret, name, params, args) #name,
#include "calls.def"
#undef SR_CALL
	};
	void *libc = dlopen(LIBC_SO, RTLD_LAZY);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!dlsym(libc, names[i]) && !may_miss(names[i])) {
			fprintf(stderr, "libc has no %s\n", names[i]);
			check_fail(__FILE__, __LINE__);
		}
	}
}

/* Each pointer is at the function of its name: libc's, or where a sanitizer's is in front
 * of that, one of ours that chooses between the two. */
static void test_pointers(void)
{
	const struct {
		const char *name;
		void *fn, *own;
	} slots[] = {
#define SR_CALL(family, ret, name, params, args) \
	{#name, (void *)sr_real.name, (void *)sr_libc.name},
#define SR_ALIAS(family, ret, name, params, expression)
#define SR_BY_HAND(family, ret, name, params)
#include "calls.def"
#undef SR_CALL
	};
	void *libc = dlopen(LIBC_SO, RTLD_LAZY);

	CHECK_EQ(sizeof(slots) / sizeof(slots[0]),
		 sizeof(sr_real) / sizeof(void *));
	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		void *own = dlsym(libc, slots[i].name), *fn;

		fn = dlsym(RTLD_NEXT, slots[i].name) ?: own;
		if (fn && ((fn == own) != (fn == slots[i].fn) || slots[i].own != own)) {
			fprintf(stderr, "sr_real.%s is astray\n",
				slots[i].name);
			check_fail(__FILE__, __LINE__);
		}
	}
}

int main(void)
{
	errno = 77;
	test_names();
	test_pointers();
	CHECK_EQ(sr_inside, 0);
	return 0;
}
