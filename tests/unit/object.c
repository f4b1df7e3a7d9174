/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What sr_object_find() says of loaded objects, against dlsym(3). */
#include "base/object.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>

#include "check.h"

static const struct link_map *object_of(const char *function)
{
	void *at = dlsym(RTLD_DEFAULT, function);

	CHECK(at);
	return sr_object_at(at);
}

static void test_libc(void)
{
	static const char *const names[] = {"read", "__write", "dlsym", "epoll_wait", "environ"};
	void *handle = dlopen("libc.so.6", RTLD_LAZY);
	const struct link_map *libc = object_of("gnu_get_libc_version");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK(sr_object_find(libc, names[i]) == dlsym(handle, names[i]));
	CHECK(!sr_object_find(libc, "no_such_function"));
	CHECK(!sr_object_find(libc, ""));
	CHECK(!sr_object_find(libc, "main"));
}

/* Undefined symbols of the program are none of its own. */
static void test_own(void)
{
	const struct link_map *own = sr_object_own();

	CHECK(own == sr_object_at((void *)test_own));
	CHECK(!own->l_prev);
	CHECK(!sr_object_find(own, "gnu_get_libc_version"));
}

/* Every object, also the vDSO, whose pointers are not relocated. */
static void test_all(void)
{
	unsigned long vdso = getauxval(AT_SYSINFO_EHDR);
	int found = 0;

	for (const struct link_map *o = sr_object_own(); o; o = o->l_next) {
		void *at = sr_object_find(o, "__vdso_clock_gettime") ?:
			   sr_object_find(o, "__kernel_clock_gettime");

		CHECK(!sr_object_find(o, "no_such_function"));
		if (at) {
			found++;
			CHECK((unsigned long)at - vdso < 65536);
		}
	}
	CHECK_EQ(found, vdso ? 1 : 0);
}

static void test_nowhere(void)
{
	CHECK(!sr_object_at(NULL));
	CHECK(!sr_object_at(&(int){0}));
}

int main(void)
{
	test_libc();
	test_own();
	test_all();
	test_nowhere();
	return 0;
}
