// SPDX-License-Identifier: Apache-2.0
#include "tools/eval_parts.h"

#include <errno.h>
#include <stdlib.h>

// The newest first: epochs come one after the other, but where a clock was set back.
static struct eval_part *part_of(struct eval_parts *parts, const struct trajectory_part *part)
{
    for (size_t i = parts->n; i-- > 0;)
        if (trajectory_is_same_part(&parts->parts[i].part, part))
            return &parts->parts[i];
    return NULL;
}

int eval_parts_find(const struct trajectory *trajectory, struct eval_parts *out)
{
    size_t max = 0;
    *out = (struct eval_parts){0};
    for (size_t i = 0; i < trajectory->n_poses; i++) {
        const struct trajectory_part its = trajectory_part_of(trajectory, i);
        struct eval_part *part = part_of(out, &its);
        if (!part && out->n == max) {
            max = max ? 2 * max : 4;
            struct eval_part *grown = realloc(out->parts, max * sizeof *grown);
            if (!grown) {
                eval_parts_free(out);
                return -ENOMEM;
            }
            out->parts = grown;
        }
        if (!part) {
            part = &out->parts[out->n++];
            *part = (struct eval_part){.part = its};
        }
        part->n_poses++;
    }
    for (size_t i = 1; i < out->n; i++)
        if (out->parts[i].n_poses > out->parts[out->longest].n_poses)
            out->longest = i;
    return 0;
}

static int judge(struct eval_part *part, const struct trajectory *truth,
                 const struct trajectory *trajectory, int64_t offset_ns, int64_t max_gap_ns)
{
    struct trajectory alone;
    struct evaluation e = {0};
    int error = trajectory_of_part(trajectory, &part->part, &alone);
    for (size_t i = 0; i < alone.n_poses; i++)
        alone.poses[i].time_ns += offset_ns;
    if (!error)
        error = evaluate_trajectory(truth, &alone, max_gap_ns, 1, &e);
    if (!error) {
        part->n_matched = e.n_matched;
        part->ate_rmse_m = e.ate_m.rmse;
        evaluation_free(&e);
    }
    trajectory_free(&alone);
    return error == -ENODATA ? 0 : error;
}

int eval_parts_judge(struct eval_parts *parts, const struct trajectory *truth,
                     const struct trajectory *trajectory, int64_t offset_ns, int64_t max_gap_ns)
{
    int error = 0;
    for (size_t i = 0; i < parts->n && !error; i++)
        error = judge(&parts->parts[i], truth, trajectory, offset_ns, max_gap_ns);
    return error;
}

void eval_part_name(const struct trajectory_part *part, char out[EVAL_PART_NAME_BYTES])
{
    const double set_s = (double)part->clock_set_ns * 1e-9;
    if (part->clock_set_ns == 0)
        snprintf(out, EVAL_PART_NAME_BYTES, "%u", part->epoch);
    else
        snprintf(out, EVAL_PART_NAME_BYTES, "%u, clock set %+.3f s", part->epoch, set_s);
}

void eval_parts_print(const struct eval_parts *parts)
{
    char name[EVAL_PART_NAME_BYTES];
    eval_part_name(&parts->parts[parts->longest].part, name);
    printf("parts            %zu (map epochs), not connected: epoch %s, the longest, is judged\n",
           parts->n, name);
    for (size_t i = 0; i < parts->n; i++) {
        const struct eval_part *p = &parts->parts[i];
        eval_part_name(&p->part, name);
        if (p->n_matched)
            printf("  epoch %-8s ATE rmse %9.4f mm  %zu of %zu poses matched\n", name,
                   p->ate_rmse_m * 1e3, p->n_matched, p->n_poses);
        else
            printf("  epoch %-8s none of %zu poses matched\n", name, p->n_poses);
    }
}

json_t *eval_parts_to_json(const struct eval_parts *parts)
{
    json_t *out = json_array();
    for (size_t i = 0; i < parts->n; i++) {
        const struct eval_part *p = &parts->parts[i];
        json_array_append_new(
            out, json_pack("{s:I, s:f, s:b, s:I, s:I, s:o}", "epoch", (json_int_t)p->part.epoch,
                           "clock_set_s", (double)p->part.clock_set_ns * 1e-9, "judged",
                           i == parts->longest, "n_poses", (json_int_t)p->n_poses, "n_matched",
                           (json_int_t)p->n_matched, "ate_rmse_m",
                           p->n_matched ? json_real(p->ate_rmse_m) : json_null()));
    }
    return out;
}

void eval_parts_free(struct eval_parts *parts)
{
    free(parts->parts);
    *parts = (struct eval_parts){0};
}
