// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/track.h"

#include <stdio.h>

static const char *const stage_names[GPU_N_STAGES] = {"upload", "filter", "maps", "align"};
const char *const captured_names[N_CAPTURED] = {"", "copied", "locked", "written"};

static void print_stats(const char *name, const struct bench_stats *s)
{
    printf("%-22s %10.1f %10.1f %10.1f %10.1f %10.1f\n", name, s->p50_us, s->p90_us, s->p99_us,
           s->min_us, s->p50_us > 0 ? 100 * (s->p99_us / s->p50_us - 1) : 0);
}

static void json_string(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        if ((unsigned char)*text >= 0x20)
            putchar(*text);
    }
    putchar('"');
}

static void json_stats(const char *name, const struct bench_stats *s)
{
    printf("\"%s\":{\"p50_us\":%.3f,\"p90_us\":%.3f,\"p99_us\":%.3f,\"min_us\":%.3f,"
           "\"max_us\":%.3f,\"n\":%zu}",
           name, s->p50_us, s->p90_us, s->p99_us, s->min_us, s->max_us, s->n);
}

static void json_head(const struct options *o, const struct recording *r, const char *description)
{
    printf("{\"source\":");
    json_string(o->source);
    printf(",\"device\":");
    json_string(description);
    printf(",\"width_px\":%u,\"height_px\":%u,\"iterations\":[%u,%u,%u],\"early_stop\":%s,"
           "\"bilateral_radius_px\":%u,\"dirty\":%s,\"captured\":\"%s\",",
           r->info.camera.width_px, r->info.camera.height_px, o->align.iterations[0],
           o->align.iterations[1], o->align.iterations[2], o->align.early_stop ? "true" : "false",
           o->bilateral_radius_px, o->dirty ? "true" : "false", captured_names[o->captured]);
}

// What a stage must do for a frame: each input read once, each output written once, and single
// precision operations. Raw depth in and maps of three levels out; a tap of the filter is 6
// operations, a map pixel 40; a pair of an iteration is 105 and reads source and target, 16 bytes
// each.
struct work {
    double bytes, operations, bytes_per_s_limit;
};

static struct work work_of(enum gpu_stage stage, const struct options *o, const struct recording *r,
                           const struct report *report)
{
    double px = (double)r->info.camera.width_px * r->info.camera.height_px, n_pairs = 0;
    double taps = (2 * o->bilateral_radius_px + 1) * (2 * o->bilateral_radius_px + 1);
    double memory = report->limits.memory_bytes_per_s;
    for (int level = 0; level < GPU_LEVELS; level++)
        n_pairs += report->mean_iterations[level] * px / (1 << (2 * level));
    switch (stage) {
    case GPU_STAGE_UPLOAD:
        return (struct work){2 * px, 0, report->limits.upload_bytes_per_s};
    case GPU_STAGE_FILTER:
        return (struct work){2 * px, 6 * taps * px, memory};
    case GPU_STAGE_MAPS:
        return (struct work){16 * 1.3125 * px, 40 * 1.3125 * px, memory};
    default:
        return (struct work){32 * n_pairs, 105 * n_pairs, memory};
    }
}

// False: the plain path of small kernels, which has no times of its own.
static bool stages_timed(const struct report *report)
{
    return report->stages[GPU_STAGE_ALIGN].p50_us > 0;
}

// Percent of what the hardware could have done in that time; 0: unknown.
static double share(double amount, double time_us, double limit_per_s)
{
    return time_us > 0 && limit_per_s > 0 ? 100 * amount / (time_us * 1e-6 * limit_per_s) : 0;
}

static void print_share(double percent)
{
    if (percent > 0)
        printf(" %9.1f%%", percent);
    else
        printf(" %10s", "-");
}

// A GPU filters parts of the image while others are on the bus, and what its stages say is what is
// left of each.
static bool stages_overlap(const struct options *o, const struct report *report)
{
    return report->limits.upload_bytes_per_s > 0 && !o->overlap;
}

// The time that a stage's work took. The iterations' is that of the loop alone: in the frame it
// holds what the launch costs. Of stages that overlap it is that of all.
static double stage_us(const struct options *o, const struct report *report, enum gpu_stage stage)
{
    const struct bench_stats *stages = report->stages;
    if (stage == GPU_STAGE_ALIGN)
        return report->loop.p50_us;
    if (stages_overlap(o, report))
        return stages[GPU_STAGE_UPLOAD].p50_us + stages[GPU_STAGE_FILTER].p50_us +
               stages[GPU_STAGE_MAPS].p50_us;
    return stages[stage].p50_us;
}

static void print_work(const struct options *o, const struct recording *r,
                       const struct report *report)
{
    printf("%-22s %10s %10s %10s %10s %10s\n", "a frame must", "MB", "GB/s", "of limit", "Mop",
           "of limit");
    for (enum gpu_stage stage = 0; stage < GPU_N_STAGES; stage++) {
        const struct work w = work_of(stage, o, r, report);
        double us = stage_us(o, report, stage);
        if (us <= 0)
            continue;
        printf("%-22s %10.2f %10.0f", stage_names[stage], w.bytes * 1e-6, w.bytes / us * 1e-3);
        print_share(share(w.bytes, us, w.bytes_per_s_limit));
        printf(" %10.1f", w.operations * 1e-6);
        print_share(share(w.operations, us, report->limits.operations_per_s));
        putchar('\n');
    }
    if (stages_overlap(o, report))
        puts("upload, filter and maps overlap: in the time of all three");
    if (report->limits.operations_per_s > 0)
        printf("limits: bus %.1f GB/s, memory %.0f GB/s, %.1f Top/s\n",
               report->limits.upload_bytes_per_s * 1e-9, report->limits.memory_bytes_per_s * 1e-9,
               report->limits.operations_per_s * 1e-12);
}

// Shares are null where the limit is not known.
static void json_share(const char *name, double percent)
{
    if (percent > 0)
        printf(",\"%s\":%.4f", name, percent / 100);
    else
        printf(",\"%s\":null", name);
}

static void json_work(const struct options *o, const struct recording *r,
                      const struct report *report)
{
    printf(",\"work\":{");
    for (enum gpu_stage stage = 0; stage < GPU_N_STAGES; stage++) {
        const struct work w = work_of(stage, o, r, report);
        double us = stage_us(o, report, stage);
        printf("%s\"%s\":{\"bytes\":%.0f,\"operations\":%.0f", stage ? "," : "", stage_names[stage],
               w.bytes, w.operations);
        json_share("bytes_share", share(w.bytes, us, w.bytes_per_s_limit));
        json_share("operations_share", share(w.operations, us, report->limits.operations_per_s));
        putchar('}');
    }
    putchar('}');
}

static double all_iterations(const struct report *report)
{
    double n = 0;
    for (int level = 0; level < GPU_LEVELS; level++)
        n += report->mean_iterations[level];
    return n;
}

void report_print(const struct options *o, const struct recording *r, const char *description,
                  const struct report *report)
{
    if (o->json) {
        json_head(o, r, description);
        json_stats("frame", &report->frame);
        putchar(',');
        json_stats("loop", &report->loop);
        putchar(',');
        json_stats("loop_call", &report->loop_call);
        for (int i = 0; i < GPU_N_STAGES; i++) {
            putchar(',');
            json_stats(stage_names[i], &report->stages[i]);
        }
        printf(",\"frames_per_s\":%.1f,\"mean_iterations\":%.2f,\"mean_residual_rms_m\":%.3g,"
               "\"mean_pairs\":%.0f,\"pose_hash\":\"%016llx\"",
               report->frames_per_s, all_iterations(report), report->mean_rms_m, report->mean_pairs,
               (unsigned long long)report->pose_hash);
        json_work(o, r, report);
        if (o->agreement)
            printf(",\"agreement_m\":%.3g,\"agreement_rad\":%.3g,\"held_agreement_m\":%.3g,"
                   "\"held_agreement_rad\":%.3g,\"not_held\":%u",
                   report->whole.m, report->whole.rad, report->held.m, report->held.rad,
                   report->n_not_held);
        printf("}\n");
        return;
    }
    printf("%s\n%s\n", r->info.description, description);
    printf("%zu frames, %ux%u, iterations %u,%u,%u, early stop %s, filter %ux%u", r->n_frames,
           r->info.camera.width_px, r->info.camera.height_px, o->align.iterations[0],
           o->align.iterations[1], o->align.iterations[2], o->align.early_stop ? "on" : "off",
           2 * o->bilateral_radius_px + 1, 2 * o->bilateral_radius_px + 1);
    if (o->captured)
        printf(", from the source's thread (%s)", captured_names[o->captured]);
    else
        printf("%s", o->written   ? ", frames written anew and out of the CPU cache"
                     : o->dirty   ? ", frames dirty in the CPU cache"
                     : o->overlap ? ", uploads overlapped"
                                  : "");
    putchar('\n');
    printf("%-22s %10s %10s %10s %10s %10s\n", "us", "p50", "p90", "p99", "min", "p99/p50 +%");
    print_stats("whole frame", &report->frame);
    for (int i = 0; i < GPU_N_STAGES && stages_timed(report); i++)
        print_stats(stage_names[i], &report->stages[i]);
    if (stages_timed(report))
        print_stats("loop alone", &report->loop);
    print_stats("loop alone, call", &report->loop_call);
    printf("%.0f frames/s, %.1f iterations a frame, residual %.2f mm, %.0f pairs, pose hash "
           "%016llx\n",
           report->frames_per_s, all_iterations(report), 1e3 * report->mean_rms_m,
           report->mean_pairs, (unsigned long long)report->pose_hash);
    if (stages_timed(report))
        print_work(o, r, report);
    if (o->agreement)
        printf("largest difference to the CPU backend: %.3g m, %.3g rad; in directions that the "
               "scene holds %.3g m, %.3g rad (%u frames are not held in all)\n",
               report->whole.m, report->whole.rad, report->held.m, report->held.rad,
               report->n_not_held);
}

void report_print_streams(const struct options *o, const struct recording *r,
                          const char *description, double frames_per_s)
{
    if (o->json) {
        json_head(o, r, description);
        printf("\"n_streams\":%zu,\"frames_per_s\":%.1f}\n", o->n_streams, frames_per_s);
    } else {
        printf("%s\n%zu streams: %.0f frames/s in total\n", description, o->n_streams,
               frames_per_s);
    }
}
