// SPDX-License-Identifier: Apache-2.0
// Values of command line options. What is not as wanted ends the program (argp_error) with the
// option, what was given, and what is wanted; `option` is its long name.
#ifndef POSED_TOOLS_ARGUMENT_H
#define POSED_TOOLS_ARGUMENT_H

#include <argp.h>
#include <stdint.h>

// The index of `value` among `names` (ended by NULL).
int argument_choose(struct argp_state *state, const char *option, const char *value,
                    const char *const *names);

// A number, and a whole number, from low to high.
double argument_number(struct argp_state *state, const char *option, const char *value, double low,
                       double high);
uint64_t argument_count(struct argp_state *state, const char *option, const char *value,
                        uint64_t low, uint64_t high);

#endif
