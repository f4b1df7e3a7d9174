/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* fabric.h - trouble that befalls the network and the RDMA device, not a half: a script
 * makes it (fabric).  Part of trouble.h. */
#ifndef FAULTS_FABRIC_H
#define FAULTS_FABRIC_H

/* In the driver. */
static void strike_fabric(const char *kind)
{
	const char *script = getenv("FAULTS_FABRIC");
	char n[24];

	if (r->due == NEVER)
		return;	/* both halves are its victims */
	r->due = NEVER;
	unsetenv("LD_PRELOAD");
	snprintf(n, sizeof(n), "%llu", (unsigned long long)(r->strength % 1000000));
	r->fabric = fork();
	if (r->fabric)
		return;
	dup2(2, 1);
	if (script)
		execl(script, script, "strike", kind, n, NULL);
	_exit(1);
}

/* Until it is well again the senders take their time. */
static void fabric_is_well(int status)
{
	r->fabric = 0;
	r->well = true;
	if (WIFEXITED(status) && WEXITSTATUS(status))
		r->failed = 1;	/* (it is killed if the streams end before it) */
}

#endif
