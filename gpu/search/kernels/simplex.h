// SPDX-License-Identifier: Apache-2.0
// The downhill simplex (Nelder and Mead 1965) over a translation (x, y, z) in map pixels, written
// once for both twins, as a dialogue: the simplex names a point, the twin tells the error there.
// One place of evaluation keeps a GPU's code small enough for its instruction cache (inlined at
// every use it was five times slower). Vertices stay sorted by error and every index is a constant,
// so that they stay in registers. Coefficients are the usual ones: reflection 1, expansion 2,
// contraction and shrinkage 1/2.
#ifndef POSED_GPU_SEARCH_KERNELS_SIMPLEX_H
#define POSED_GPU_SEARCH_KERNELS_SIMPLEX_H

#include "gpu/search/kernels/germann_error.h"

#define SIMPLEX_STEP_PX (0.05f * SEARCH_MAP_PX) // the paper: 5 % of the image width

enum simplex_phase {
    SIMPLEX_PHASE_FIRST, // .. + 3: the four vertices of the start
    SIMPLEX_PHASE_REFLECT = SIMPLEX_PHASE_FIRST + 4,
    SIMPLEX_PHASE_EXPAND,
    SIMPLEX_PHASE_CONTRACT,
    SIMPLEX_PHASE_SHRINK, // .. + 2: the three vertices that move
    SIMPLEX_PHASE_DONE = SIMPLEX_PHASE_SHRINK + 3,
};

struct simplex_vertex {
    float x, y, z, error;
};

struct simplex {
    struct simplex_vertex v0, v1, v2, v3; // best first
    struct simplex_vertex reflected;
    struct simplex_vertex trial; // evaluate here, then simplex_tell
    int phase;
    int n_left; // iterations
};

SEARCH_FN void simplex_order(struct simplex_vertex *a, struct simplex_vertex *b)
{
    if (b->error < a->error) {
        struct simplex_vertex swap = *a;
        *a = *b;
        *b = swap;
    }
}

SEARCH_FN void simplex_sort(struct simplex *s)
{
    simplex_order(&s->v0, &s->v1);
    simplex_order(&s->v2, &s->v3);
    simplex_order(&s->v0, &s->v2);
    simplex_order(&s->v1, &s->v3);
    simplex_order(&s->v1, &s->v2);
}

SEARCH_FN void simplex_ask(struct simplex *s, int phase, float x, float y, float z)
{
    s->phase = phase;
    s->trial.x = x;
    s->trial.y = y;
    s->trial.z = z;
}

// Asks for c + k (c - worst), c the middle of the three better vertices.
SEARCH_FN void simplex_ask_beyond(struct simplex *s, int phase, float k)
{
    float cx = (s->v0.x + s->v1.x + s->v2.x) * (1.f / 3);
    float cy = (s->v0.y + s->v1.y + s->v2.y) * (1.f / 3);
    float cz = (s->v0.z + s->v1.z + s->v2.z) * (1.f / 3);
    simplex_ask(s, phase, cx + k * (cx - s->v3.x), cy + k * (cy - s->v3.y),
                cz + k * (cz - s->v3.z));
}

SEARCH_FN void simplex_ask_halfway(struct simplex *s, int phase, const struct simplex_vertex *v)
{
    simplex_ask(s, phase, s->v0.x + 0.5f * (v->x - s->v0.x), s->v0.y + 0.5f * (v->y - s->v0.y),
                s->v0.z + 0.5f * (v->z - s->v0.z));
}

SEARCH_FN void simplex_begin(struct simplex *s, float x, float y, float z, int n_iterations)
{
    const struct simplex_vertex start = {x, y, z, 0.f};
    s->v0 = s->v1 = s->v2 = s->v3 = s->reflected = s->trial = start;
    s->phase = SIMPLEX_PHASE_FIRST;
    s->n_left = n_iterations;
}

// Ends an iteration, or with `begun` false starts the first.
SEARCH_FN void simplex_next(struct simplex *s, int begun)
{
    simplex_sort(s);
    s->n_left -= begun;
    if (s->n_left > 0)
        simplex_ask_beyond(s, SIMPLEX_PHASE_REFLECT, 1.f);
    else
        s->phase = SIMPLEX_PHASE_DONE;
}

// Takes the error at `trial` and names the next one; phase DONE: v0 is the answer.
SEARCH_FN void simplex_tell(struct simplex *s, float error)
{
    s->trial.error = error;
    switch (s->phase) {
    case SIMPLEX_PHASE_FIRST:
        s->v0 = s->trial;
        simplex_ask(s, SIMPLEX_PHASE_FIRST + 1, s->v0.x + SIMPLEX_STEP_PX, s->v0.y, s->v0.z);
        break;
    case SIMPLEX_PHASE_FIRST + 1:
        s->v1 = s->trial;
        simplex_ask(s, SIMPLEX_PHASE_FIRST + 2, s->v0.x, s->v0.y + SIMPLEX_STEP_PX, s->v0.z);
        break;
    case SIMPLEX_PHASE_FIRST + 2:
        s->v2 = s->trial;
        simplex_ask(s, SIMPLEX_PHASE_FIRST + 3, s->v0.x, s->v0.y, s->v0.z + SIMPLEX_STEP_PX);
        break;
    case SIMPLEX_PHASE_FIRST + 3:
        s->v3 = s->trial;
        simplex_next(s, 0);
        break;
    case SIMPLEX_PHASE_REFLECT:
        s->reflected = s->trial;
        if (error < s->v0.error) {
            simplex_ask_beyond(s, SIMPLEX_PHASE_EXPAND, 2.f);
        } else if (error < s->v2.error) {
            s->v3 = s->trial;
            simplex_next(s, 1);
        } else {
            simplex_ask_beyond(s, SIMPLEX_PHASE_CONTRACT, error < s->v3.error ? 0.5f : -0.5f);
        }
        break;
    case SIMPLEX_PHASE_EXPAND:
        s->v3 = error < s->reflected.error ? s->trial : s->reflected;
        simplex_next(s, 1);
        break;
    case SIMPLEX_PHASE_CONTRACT:
        if (error < s->reflected.error && error < s->v3.error) {
            s->v3 = s->trial;
            simplex_next(s, 1);
        } else {
            simplex_ask_halfway(s, SIMPLEX_PHASE_SHRINK, &s->v1);
        }
        break;
    case SIMPLEX_PHASE_SHRINK:
        s->v1 = s->trial;
        simplex_ask_halfway(s, SIMPLEX_PHASE_SHRINK + 1, &s->v2);
        break;
    case SIMPLEX_PHASE_SHRINK + 1:
        s->v2 = s->trial;
        simplex_ask_halfway(s, SIMPLEX_PHASE_SHRINK + 2, &s->v3);
        break;
    case SIMPLEX_PHASE_SHRINK + 2:
        s->v3 = s->trial;
        simplex_next(s, 1);
        break;
    default:
        break;
    }
}

#endif
