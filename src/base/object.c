/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * object.c - reads the symbol tables of mapped objects (System V ABI, Dynamic Linking; the GNU
 * hash table is described in binutils' documentation of --hash-style).  It allocates nothing,
 * and calls no function but dladdr1(3), which only sr_object_at() needs.
 */
#include "base/object.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define WORD_BITS (8 * sizeof(ElfW(Addr)))

struct tables {
	const ElfW(Sym) *symbols;
	const char *strings;
	const uint32_t *gnu_hash, *hash;	/* either may be missing */
};

SR_EARLY const struct link_map *sr_object_at(const void *address)
{
	struct link_map *object = NULL;
	Dl_info info;

	return dladdr1(address, &info, (void **)&object, RTLD_DL_LINKMAP) ? object : NULL;
}

/* Each object has a dynamic section of its own, so its address tells which of the program's objects
 * is ours.  The list is the loader's, and one that debuggers read.  NULL: dlmopen(3) has
 * loaded the library. */
SR_EARLY static const struct link_map *find_own(void)
{
	extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));
	const struct link_map *object = _r_debug.r_map;

	while (object && object->l_ld != _DYNAMIC)
		object = object->l_next;
	return object;
}

/* Not by dladdr1(3) if it can be avoided: MemorySanitizer's runtime has a function of that name,
 * which asks for the next one before it knows that. */
SR_EARLY const struct link_map *sr_object_own(void)
{
	static const struct link_map *own;
	const struct link_map *found = __atomic_load_n(&own, __ATOMIC_RELAXED);

	if (!found) {
		found = find_own() ?: sr_object_at(&own);
		__atomic_store_n(&own, found, __ATOMIC_RELAXED);
	}
	return found;
}

SR_EARLY bool sr_object_is_before(const struct link_map *first, const struct link_map *second)
{
	while (first && first != second)
		first = first->l_next;
	return first;
}

/* The loader has relocated the pointers in an object's dynamic section, unless that is
 * read-only, as the vDSO's. */
SR_EARLY static const void *table_at(const struct link_map *object, uintptr_t pointer)
{
	return (const void *)(pointer < object->l_addr ? object->l_addr + pointer : pointer);
}

SR_EARLY static void find_tables(const struct link_map *object, struct tables *t)
{
	*t = (struct tables){ 0 };
	for (const ElfW(Dyn) *d = object->l_ld; d && d->d_tag != DT_NULL; d++) {
		const void *at = table_at(object, d->d_un.d_ptr);

		if (d->d_tag == DT_SYMTAB)
			t->symbols = at;
		else if (d->d_tag == DT_STRTAB)
			t->strings = at;
		else if (d->d_tag == DT_GNU_HASH)
			t->gnu_hash = at;
		else if (d->d_tag == DT_HASH)
			t->hash = at;
	}
}

/* (Not strcmp(), which a sanitizer's runtime may have, and not be ready for.) */
SR_EARLY static bool is_same_symbol(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

SR_EARLY static bool is_defined(const struct tables *t, uint32_t i, const char *name)
{
	const ElfW(Sym) *s = &t->symbols[i];

	return s->st_shndx != SHN_UNDEF && s->st_value &&
	       is_same_symbol(t->strings + s->st_name, name);
}

/* Both functions return the index of a symbol; 0, which is never a symbol's: there is none. */
SR_EARLY static uint32_t gnu_find(const struct tables *t, const char *name)
{
	const uint32_t buckets = t->gnu_hash[0], first = t->gnu_hash[1];
	const uint32_t words = t->gnu_hash[2], shift = t->gnu_hash[3];
	const ElfW(Addr) *filter = (const void *)(t->gnu_hash + 4);
	const uint32_t *bucket = (const void *)(filter + words), *chain = bucket + buckets;
	uint32_t h = 5381, i;
	ElfW(Addr) word;

	for (const char *c = name; *c; c++)
		h = h * 33 + (unsigned char)*c;
	word = filter[h / WORD_BITS % words];
	if (!(word >> h % WORD_BITS & word >> (h >> shift) % WORD_BITS & 1))
		return 0;
	i = bucket[h % buckets];
	if (i < first)
		return 0;
	do
		if ((chain[i - first] | 1) == (h | 1) && is_defined(t, i, name))
			return i;
	while (!(chain[i++ - first] & 1));
	return 0;
}

SR_EARLY static uint32_t sysv_find(const struct tables *t, const char *name)
{
	const uint32_t buckets = t->hash[0];
	const uint32_t *bucket = t->hash + 2, *chain = bucket + buckets;
	uint32_t h = 0;

	for (const char *c = name; *c; c++) {
		h = (h << 4) + (unsigned char)*c;
		h = (h ^ (h >> 24 & 0xf0)) & 0xfffffff;
	}
	for (uint32_t i = bucket[h % buckets]; i; i = chain[i])
		if (is_defined(t, i, name))
			return i;
	return 0;
}

SR_EARLY void *sr_object_find(const struct link_map *object, const char *name)
{
	struct tables t;
	uint32_t i = 0;

	find_tables(object, &t);
	if (!t.symbols || !t.strings)
		return NULL;
	if (t.gnu_hash)
		i = gnu_find(&t, name);
	else if (t.hash)
		i = sysv_find(&t, name);
	return i ? (void *)(object->l_addr + t.symbols[i].st_value) : NULL;
}
