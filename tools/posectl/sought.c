// SPDX-License-Identifier: Apache-2.0
#include "tools/posectl/sought.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/file_suffix.h"
#include "proto/se3.h"
#include "tools/posectl/objects.h"

static struct sought_object *add(struct sought *sought)
{
    struct sought_object *more =
        realloc(sought->objects, (sought->n + 1) * sizeof *sought->objects);
    if (!more)
        return NULL;
    sought->objects = more;
    memset(&more[sought->n], 0, sizeof *more);
    return &more[sought->n++];
}

int sought_add(struct sought *sought, const char *given)
{
    const char *slash = strrchr(given, '/'), *name = slash ? slash + 1 : given;
    struct sought_object *object = add(sought);
    if (!object)
        return -ENOMEM;
    object->given = given;
    wire_copy_text(object->name, sizeof object->name, name);
    if (file_suffix_is(object->name, ".ply"))
        object->name[strlen(object->name) - strlen(".ply")] = 0;
    sought->files = sought->files || !objects_is_name(given);
    return 0;
}

void sought_free(struct sought *sought)
{
    free(sought->objects);
    memset(sought, 0, sizeof *sought);
}

struct sought_object *sought_find(struct sought *sought, const char *name)
{
    for (size_t i = 0; i < sought->n; i++)
        if (strcmp(sought->objects[i].name, name) == 0)
            return &sought->objects[i];
    struct sought_object *object = sought->all ? add(sought) : NULL;
    if (object)
        wire_copy_text(object->name, sizeof object->name, name);
    return object;
}

const struct sought_object *sought_twice(const struct sought *sought,
                                         const struct sought_object **out_other)
{
    for (size_t i = 0; i < sought->n; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(sought->objects[i].name, sought->objects[k].name) == 0) {
                *out_other = &sought->objects[i];
                return &sought->objects[k];
            }
    return NULL;
}

static json_t *json_pose(const char *object, const struct search_pose *pose, bool view)
{
    double q[4];
    const double *t = pose->T_camera_model.t_m, *r = pose->T_camera_model.r;
    se3_to_quaternion(&pose->T_camera_model, q);
    json_t *json =
        json_pack("{s:s, s:{s:[f,f,f], s:[f,f,f,f]}, s:[[f,f,f,f],[f,f,f,f],[f,f,f,f],[f,f,f,f]], "
                  "s:f, s:b, s:f, s:f, s:f, s:i}",
                  "object", object, "T_camera_model", "position_m", t[0], t[1], t[2],
                  "orientation_xyzw", q[0], q[1], q[2], q[3], "matrix", r[0], r[1], r[2], t[0],
                  r[3], r[4], r[5], t[1], r[6], r[7], r[8], t[2], 0.0, 0.0, 0.0, 1.0, "confidence",
                  (double)pose->confidence, "accepted", (int)pose->accepted, "visible",
                  (double)pose->visible, "contradicted", (double)pose->contradicted,
                  "residual_rms_m", (double)pose->residual_rms_m, "pixels", (int)pose->n_pixels);
    if (view) {
        t = pose->T_camera_view.t_m;
        se3_to_quaternion(&pose->T_camera_view, q);
        json_object_update_new(
            json, json_pack("{s:i, s:f, s:{s:[f,f,f], s:[f,f,f,f]}}", "view", (int)pose->view,
                            "view_error_px", (double)pose->error_px, "T_camera_view", "position_m",
                            t[0], t[1], t[2], "orientation_xyzw", q[0], q[1], q[2], q[3]));
    }
    return json;
}

static void print_json(const struct sought *sought, const struct sought_report *report)
{
    json_t *poses = json_array();
    for (size_t i = 0; i < sought->n; i++)
        for (uint32_t k = 0; k < sought->objects[i].answer.n_poses; k++)
            json_array_append_new(poses,
                                  json_pose(sought->objects[i].name,
                                            &sought->objects[i].answer.poses[k], report->views));
    // Of one the word that asked for it, which may be a path, and that anything.
    char given[4096] = "";
    if (sought->n == 1 && sought->objects[0].given)
        wire_copy_text(given, sizeof given, sought->objects[0].given);
    posectl_print_json(stdout,
                       json_pack("{s:o, s:s*, s:f, s:s}", "poses", poses, "object",
                                 given[0] ? given : NULL, "time_ms", report->total_ms, "backend",
                                 report->backend),
                       false);
}

static void print_lines(const struct sought_object *object)
{
    for (uint32_t i = 0; i < object->answer.n_poses; i++) {
        const struct search_pose *pose = &object->answer.poses[i];
        const double *t = pose->T_camera_model.t_m;
        double q[4];
        se3_to_quaternion(&pose->T_camera_model, q);
        printf("%s %u: %s, confidence %.3f; position %.4f %.4f %.4f m, quaternion x y z w %.5f "
               "%.5f %.5f %.5f; %.0f %% seen, residual %.2f mm over %u pixels\n",
               object->name, i + 1, pose->accepted ? "found" : "doubtful", (double)pose->confidence,
               t[0], t[1], t[2], q[0], q[1], q[2], q[3], 100 * (double)pose->visible,
               1e3 * (double)pose->residual_rms_m, pose->n_pixels);
    }
}

static bool is_accepted(const struct sought_object *object)
{
    for (uint32_t i = 0; i < object->answer.n_poses; i++)
        if (object->answer.poses[i].accepted)
            return true;
    return false;
}

// As the exit code has it; what is missing is said on stderr.
static enum posectl_exit judge(const struct sought *sought)
{
    size_t n_accepted = 0;
    for (size_t i = 0; i < sought->n; i++)
        n_accepted += is_accepted(&sought->objects[i]);
    if (sought->all ? n_accepted > 0 : n_accepted == sought->n)
        return POSECTL_OK;
    if (sought->all) {
        posectl_complain("search: no object was found beyond doubt");
        return POSECTL_DOUBTFUL;
    }
    for (size_t i = 0; i < sought->n; i++)
        if (!is_accepted(&sought->objects[i]))
            posectl_complain("search: %s: %s", sought->objects[i].name,
                             sought->objects[i].answer.n_poses ? "doubtful" : "not found");
    return POSECTL_DOUBTFUL;
}

enum posectl_exit sought_print(const struct posectl *ctl, const struct sought *sought,
                               const struct sought_report *report)
{
    size_t n_poses = 0;
    if (ctl->json) {
        print_json(sought, report);
        return judge(sought);
    }
    for (size_t i = 0; i < sought->n; i++) {
        n_poses += sought->objects[i].answer.n_poses;
        if (sought->objects[i].answer.n_poses == 0 && !sought->all)
            printf("%s: nothing there resembles it\n", sought->objects[i].name);
        print_lines(&sought->objects[i]);
    }
    if (sought->all && n_poses == 0)
        printf("nothing there resembles an object that is known\n");
    printf("%.0f ms on %s\n", report->total_ms, report->backend);
    return judge(sought);
}
