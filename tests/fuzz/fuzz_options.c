// SPDX-License-Identifier: Apache-2.0
// Any words as the daemon's command line: refused or taken, and what is taken names settings with
// the text that was given for them. Words are separated by zeros.
#include <stdlib.h>
#include <string.h>

#include <argp.h>

#include "daemon/config/command_line.h"

#define MAX_WORDS 100

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct options options;
    static struct config config;
    char *words[MAX_WORDS + 2] = {"posed"};
    int n_words = 1;
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = 0;
    for (size_t at = 0; at < size && n_words <= MAX_WORDS; at += strlen(text + at) + 1)
        words[n_words++] = text + at;
    if (options_parse(&options, n_words, words, ARGP_SILENT) == 0) {
        char reason[300];
        if (options.n_assignments > OPTIONS_MAX_ASSIGNMENTS)
            abort();
        config_default(&config);
        for (size_t i = 0; i < options.n_assignments; i++) {
            const struct config_assignment *a = &options.assignments[i];
            if (!a->name[0] || !a->origin[0])
                abort();
            int rc = config_set(&config, a->name, a->value, a->origin, reason, sizeof reason);
            // Only --set may still name what is not there.
            if (rc != 0 && strcmp(a->origin, "--set") != 0 && strcmp(a->name, "capture.source"))
                abort();
        }
    }
    free(text);
    return 0;
}
