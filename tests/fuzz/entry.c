/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* entry.c - makes libFuzzer call the target that SR_FUZZ_TARGET names. */
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void (*target)(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *name = getenv("SR_FUZZ_TARGET");

	(void)argc;
	(void)argv;
#define SR_FUZZ(of) if (name && !strcmp(name, #of)) target = fuzz_##of;
#include "targets.def"
	CHECK(target != NULL);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	target(data, size);
	return 0;
}
