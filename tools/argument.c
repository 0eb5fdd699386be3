// SPDX-License-Identifier: Apache-2.0
#include "tools/argument.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int argument_choose(struct argp_state *state, const char *option, const char *value,
                    const char *const *names)
{
    char wanted[128] = "";
    size_t n = 0;
    for (int i = 0; names[i]; i++) {
        if (!strcmp(value, names[i]))
            return i;
        n += (size_t)snprintf(wanted + n, sizeof wanted - n, "%s%s",
                              i == 0         ? ""
                              : names[i + 1] ? ", "
                                             : " or ",
                              names[i]);
    }
    argp_error(state, "--%s %s: %s is wanted", option, value, wanted);
    return 0;
}

double argument_number(struct argp_state *state, const char *option, const char *value, double low,
                       double high)
{
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end || !(number >= low && number <= high))
        argp_error(state, "--%s %s: a number from %.10g to %.10g is wanted", option, value, low,
                   high);
    return number;
}

uint64_t argument_count(struct argp_state *state, const char *option, const char *value,
                        uint64_t low, uint64_t high)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    // strtoull takes a sign and wraps it around.
    if (end == value || *end || strchr(value, '-') || errno || number < low || number > high)
        argp_error(state, "--%s %s: a whole number from %" PRIu64 " to %" PRIu64 " is wanted",
                   option, value, low, high);
    return number;
}
