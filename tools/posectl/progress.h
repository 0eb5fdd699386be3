// SPDX-License-Identifier: Apache-2.0
// How far a long piece of work is, on a terminal: one line on stderr that takes the place of the
// one before. Where stderr is no terminal, nothing. One piece of work at a time, one thread.
#ifndef POSED_TOOLS_POSECTL_PROGRESS_H
#define POSED_TOOLS_POSECTL_PROGRESS_H

#include <stdbool.h>

// Whether anything is shown at all.
bool progress_is_shown(void);

// `share` 0..1, or negative when it is not known; `stage` may be NULL. A call within a tenth of a
// second of the last one shows nothing.
void progress_show(double share, const char *stage);

// Clears the line, if there is one. Call it before anything else is written.
void progress_end(void);

#endif
