// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the word of a list that a mistyped one is nearest to.
#ifndef POSED_PROTO_CLOSEST_H
#define POSED_PROTO_CLOSEST_H

#include <stddef.h>
#include <string.h>

// Letters to change, insert or leave out (Levenshtein), to make one word of n letters the other.
// Words of 48 letters and more are as far apart as can be.
static inline size_t closest_distance(const char *a, size_t n, const char *b)
{
    size_t row[48], m = strlen(b);
    if (m >= 48 || n >= 48)
        return 48;
    for (size_t k = 0; k <= m; k++)
        row[k] = k;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t k = 1; k <= m; k++) {
            size_t replaced = diagonal + (a[i - 1] != b[k - 1]), least = row[k];
            diagonal = row[k];
            least = (row[k - 1] < least ? row[k - 1] : least) + 1;
            row[k] = replaced < least ? replaced : least;
        }
    }
    return row[m];
}

// Whether `candidate` may be what was meant by a word of n letters, and is nearer than *best (at
// first: SIZE_MAX); *best is then its distance. Of three letters two may be wrong, of six three.
static inline int closest_is_better(const char *word, size_t n, const char *candidate, size_t *best)
{
    size_t distance = closest_distance(word, n, candidate);
    if (distance >= *best || 3 * distance > n + 3)
        return 0;
    *best = distance;
    return 1;
}

#endif
