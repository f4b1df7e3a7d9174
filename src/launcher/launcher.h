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

/* Does --require take this kind? */
bool require_known(const char *kind);
/* Runs the command and judges its streams.  Sets the environment for the report; the caller has
 * set all else.  Returns the exit status. */
int require_run(const char *kind, char **command);

#endif
