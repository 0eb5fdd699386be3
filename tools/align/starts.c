// SPDX-License-Identifier: Apache-2.0
#include "tools/align/starts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/register/register.h"
#include "proto/se3.h"

#define MOST_POINTS   60000u // of an image: registration thins far more itself
#define MOST_PARTNERS 64u    // that one image is tried with
#define APART         4      // between groups, in sizes of the largest image

struct cloud {
    struct point_set points;
    float *memory;
};

struct starts {
    const struct images *images;
    struct registration *registration;
    struct cloud *clouds;
    bool *placed;
    uint32_t *n_tried; // partners of each image
    bool *tried;       // n x n
    struct se3 *T_world_image;
    double size_m; // of the largest image
    bool quiet;
};

static int take_cloud(struct starts *s, uint32_t i)
{
    const struct align_source *source = &s->images->source;
    struct align_image *image;
    int rc = source->load(source->user, i, &image);
    if (rc < 0)
        return rc;
    uint32_t level = 0;
    while (level + 1 < ALIGN_LEVELS && image->n_level[level] > MOST_POINTS)
        level++;
    const size_t n = image->n_level[level];
    const float *const from[6] = {image->x_m, image->y_m, image->z_m,
                                  image->nx,  image->ny,  image->nz};
    float *to = malloc(6 * n * sizeof *to);
    if (to) {
        for (size_t k = 0; k < 6; k++)
            memcpy(to + k * n, from[k], n * sizeof *to);
        s->clouds[i] =
            (struct cloud){{to, to + n, to + 2 * n, to + 3 * n, to + 4 * n, to + 5 * n, n}, to};
        for (int k = 0; k < 3; k++)
            s->size_m = fmax(s->size_m, image->high_m[k] - image->low_m[k]);
    }
    align_image_destroy(&image);
    return to ? 0 : -ENOMEM;
}

// Image i is tried with the images before and after it, nearest in the order first: i - 1, i + 1,
// i - 2 ... Returns false when there are no more.
static bool partner(uint32_t n_images, uint32_t i, uint32_t k, uint32_t *out)
{
    const uint32_t below = i, above = n_images - 1 - i;
    const uint32_t both = below < above ? below : above;
    if (k >= n_images - 1)
        return false;
    if (k < 2 * both)
        *out = k % 2 == 0 ? i - 1 - k / 2 : i + 1 + k / 2;
    else
        *out = below > above ? i - 1 - (k - both) : i + 1 + (k - both);
    return true;
}

// Returns 1 when image i has a place now, 0 when not, or a negative errno value.
static int place(struct starts *s, uint32_t i)
{
    const uint32_t n = s->images->n;
    struct register_settings settings;
    struct register_result result;
    register_settings_default(&settings);
    settings.start = REGISTER_START_MANY;
    uint32_t j;
    for (uint32_t k = 0; s->n_tried[i] < MOST_PARTNERS && partner(n, i, k, &j); k++) {
        bool *tried = &s->tried[(size_t)i * n + j];
        if (!s->placed[j] || *tried)
            continue;
        *tried = true;
        s->n_tried[i]++;
        int rc = registration_run(s->registration, &s->clouds[i].points, &s->clouds[j].points,
                                  &settings, NULL, &result, NULL);
        if (rc < 0)
            return rc;
        if (!result.ambiguous) {
            s->T_world_image[i] = se3_compose(&s->T_world_image[j], &result.T_target_source);
            if (!s->quiet)
                fprintf(stderr, "start      %s by %s: %.0f %% of it agree\n", s->images->names[i],
                        s->images->names[j], 100 * result.overlap_source);
            return 1;
        }
    }
    return 0;
}

// Every image that fits to one of those placed so far, until none does any more.
static int grow(struct starts *s)
{
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < s->images->n; i++) {
            int rc = s->placed[i] ? 0 : place(s, i);
            if (rc < 0)
                return rc;
            if (rc > 0)
                s->placed[i] = more = true;
        }
    }
    return 0;
}

static int place_all(struct starts *s)
{
    const struct images *images = s->images;
    int rc = 0, n_groups = 0;
    for (uint32_t i = 0; i < images->n && rc == 0; i++)
        rc = take_cloud(s, i);
    for (uint32_t i = 0; i < images->n && rc == 0; i++) {
        if (s->placed[i])
            continue;
        if (i > 0) {
            s->T_world_image[i] = s->T_world_image[0];
            s->T_world_image[i].t_m[0] += ++n_groups * APART * s->size_m;
            log_to(&images->log, LOG_LEVEL_WARNING,
                   "%s fits to none of the images before it: it begins a group of its own, %.3g "
                   "to the side; a start pose (--conf, --poses) would say where it belongs",
                   images->names[i], n_groups * APART * s->size_m);
        }
        s->placed[i] = true;
        rc = grow(s);
    }
    return rc;
}

int align_starts_find(const struct images *images, const struct align_settings *settings,
                      bool quiet, struct se3 *T_world_image)
{
    const size_t n = images->n;
    struct starts s = {.images = images, .T_world_image = T_world_image, .quiet = quiet};
    struct register_config config;
    register_config_default(&config);
    config.backend = settings->backend;
    config.n_threads = settings->n_threads;
    config.log = images->log;
    s.clouds = calloc(n, sizeof *s.clouds);
    s.placed = calloc(n, sizeof *s.placed);
    s.n_tried = calloc(n, sizeof *s.n_tried);
    s.tried = calloc(n * n, sizeof *s.tried);
    int rc = s.clouds && s.placed && s.n_tried && s.tried
                 ? registration_open(&s.registration, &config)
                 : -ENOMEM;
    if (rc == 0)
        rc = place_all(&s);
    registration_close(&s.registration);
    if (rc == -ENOMEM)
        log_to(&images->log, LOG_LEVEL_ERROR, "no memory for the start poses of %zu images", n);
    for (size_t i = 0; s.clouds && i < n; i++)
        free(s.clouds[i].memory);
    free(s.tried);
    free(s.n_tried);
    free(s.placed);
    free(s.clouds);
    return rc;
}
