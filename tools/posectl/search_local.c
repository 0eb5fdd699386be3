// SPDX-License-Identifier: Apache-2.0
#include "tools/posectl/search_local.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/plot/search.h"

// What an object is searched with.
struct model {
    struct search_mesh mesh; // of a file
    struct search_object *object;
};

static int add_known(void *user, const char *name)
{
    return sought_find(user, name) ? 0 : -ENOMEM;
}

static int add_all(const struct objects *objects, struct sought *sought)
{
    int err = objects_visit_names(objects, add_known, sought);
    if (!err && sought->n == 0) {
        posectl_complain("search --all: no object is there: posectl object add --local");
        err = -ENOENT;
    }
    return err;
}

// What is only read comes first: a wrong file is not told of after minutes of drawing.
static int open_models(struct search *search, const struct objects *objects,
                       const struct sought *sought, struct model *models)
{
    int err = 0;
    for (size_t i = 0; i < sought->n && !err; i++) {
        const struct sought_object *one = &sought->objects[i];
        if (one->given && !objects_is_name(one->given))
            err = objects_read_mesh(one->given, &models[i].mesh);
        else
            err = objects_open(objects, search, one->name, &models[i].object);
    }
    for (size_t i = 0; i < sought->n && !err; i++)
        if (!models[i].object)
            err = objects_build(objects, search, sought->objects[i].given, &models[i].mesh,
                                &models[i].object);
    return err;
}

static int search_all(struct search *search, const struct model *models,
                      const struct search_local *work, struct sought *sought, double *out_total_ms)
{
    *out_total_ms = 0;
    for (size_t i = 0; i < sought->n; i++) {
        struct search_answer *answer = &sought->objects[i].answer;
        int err = search_run(search, models[i].object, work->image, work->query, answer, NULL);
        if (err)
            return err;
        for (int k = 0; k < SEARCH_N_STAGES; k++)
            *out_total_ms += (double)answer->stage_ms[k];
    }
    return 0;
}

static int draw(const struct search_local *work, const struct model *models,
                const struct sought *sought)
{
    struct plot_found *found = calloc(sought->n, sizeof *found);
    if (!found)
        return -ENOMEM;
    for (size_t i = 0; i < sought->n; i++)
        found[i] = (struct plot_found){sought->objects[i].name, models[i].object,
                                       &sought->objects[i].answer};
    int err = plot_search(work->plot, work->image, found, sought->n, &posectl_log);
    free(found);
    return err;
}

static enum posectl_exit search_with(const struct posectl *ctl, struct search *search,
                                     const struct search_local *work, struct sought *sought)
{
    struct sought_report report = {.backend = search_description(search),
                                   .views = work->query->preset == SEARCH_PRESET_GERMANN};
    struct model *models = calloc(sought->n, sizeof *models);
    enum posectl_exit result = POSECTL_FAILED;
    int err = models ? open_models(search, &work->objects, sought, models) : -ENOMEM;
    if (!err)
        err = search_all(search, models, work, sought, &report.total_ms);
    if (!err) {
        result = sought_print(ctl, sought, &report);
        err = work->plot ? draw(work, models, sought) : 0;
    }
    for (size_t i = 0; i < sought->n && models; i++) {
        objects_free_mesh(&models[i].mesh);
        search_object_destroy(search, &models[i].object);
    }
    free(models);
    if (err == -ENOMEM)
        posectl_complain("out of memory");
    return err ? POSECTL_FAILED : result;
}

enum posectl_exit search_local(const struct posectl *ctl, const struct search_local *work,
                               struct sought *sought)
{
    struct search *search;
    if ((sought->all && add_all(&work->objects, sought) != 0) ||
        objects_open_search(&work->objects, &search) != 0)
        return POSECTL_FAILED;
    enum posectl_exit result = search_with(ctl, search, work, sought);
    search_close(&search);
    return result;
}
