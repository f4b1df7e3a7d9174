/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* launcher.h - the parts of the command sockrail. */
#ifndef SR_LAUNCHER_H
#define SR_LAUNCHER_H

#include <stdbool.h>

/* Exit statuses, as env(1) has them, and our own. */
enum { EXIT_MISTAKE = 1, EXIT_REFUSED = 3, EXIT_SELF = 125, EXIT_NOT_RUN = 126,
       EXIT_NOT_FOUND = 127 };

/* Becomes the program, or prints why not and returns the exit status. */
int launcher_exec(char **command);

/* Is kind one that --require takes? */
bool require_known(const char *kind);
/* Runs the command, with the environment as it is to be but for the report, and
 * judges its streams.  Returns the exit status. */
int require_run(const char *kind, char **command);

#endif
