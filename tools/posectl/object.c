// SPDX-License-Identifier: Apache-2.0
// posectl object: adds, lists and removes known objects. A running posed does the work or, with
// --local, this program, with the objects of a folder.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/posectl/objects.h"
#include "tools/posectl/search.h"
#include "tools/posectl/search_daemon.h"

#define BUILD_TIMEOUT_MS 180000

static struct {
    bool local;
    const char *only_local; // an option that the daemon has settings of its own for
    struct objects objects;
    const char *words[3]; // action, name, file
    int n_words;
} options;

static posed_Reply reply;

enum { OPTION_LOCAL = 700, OPTION_OBJECTS, OPTION_VIEWS, OPTION_BACKEND, OPTION_GREEDY };

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case OPTION_LOCAL:
        options.local = true;
        return 0;
    case OPTION_OBJECTS:
        options.objects.folder = arg;
        options.only_local = "--objects";
        return 0;
    case OPTION_VIEWS:
        options.objects.n_views =
            (uint32_t)argument_count(state, "views", arg, 64, SEARCH_VIEWS_MAX);
        return 0;
    case OPTION_GREEDY:
        options.objects.choice = SEARCH_CHOICE_GREEDY;
        return 0;
    case OPTION_BACKEND:
        options.objects.backend =
            (enum gpu_backend)argument_choose(state, "backend", arg, posectl_backends);
        options.only_local = "--backend";
        return 0;
    case ARGP_KEY_ARG:
        if (options.n_words == 3)
            argp_error(state, "too many words: %s", arg);
        options.words[options.n_words++] = arg;
        return 0;
    }
    return posectl_option(key, arg, state);
}

static const char *symmetry_name(const struct search_object_info *info)
{
    static char text[32];
    switch (info->symmetry) {
    case SEARCH_SYMMETRY_FOLD:
        snprintf(text, sizeof text, "%u-fold", info->fold);
        return text;
    case SEARCH_SYMMETRY_REVOLUTION:
        return "revolution";
    case SEARCH_SYMMETRY_SPHERE:
        return "sphere";
    case SEARCH_SYMMETRY_NONE:
        break;
    }
    return "none";
}

static json_t *json_object_info(const char *name, const struct search_object_info *info)
{
    return json_pack("{s:s, s:i, s:i, s:f, s:s, s:[f,f,f]}", "name", name, "views",
                     (int)info->n_views, "triangles", (int)info->n_triangles, "radius_m",
                     (double)info->radius_m, "symmetry", symmetry_name(info), "axis", info->axis[0],
                     info->axis[1], info->axis[2]);
}

static void print_info(const struct posectl *ctl, const char *name,
                       const struct search_object_info *info)
{
    if (ctl->json)
        posectl_print_json(stdout, json_object_info(name, info), true);
    else
        printf("%-24s %6u views, %7u triangles, radius %.4f m, symmetry %s\n", name, info->n_views,
               info->n_triangles, (double)info->radius_m, symmetry_name(info));
}

// What the daemon says of an object, as the local commands know it.
static struct search_object_info read_reply_object(const posed_Object *object)
{
    return (struct search_object_info){
        .n_views = object->views,
        .n_triangles = object->triangles,
        .radius_m = (float)object->radius_m,
        .symmetry = (enum search_symmetry)object->symmetry,
        .fold = object->fold,
        .axis = {object->axis.x, object->axis.y, object->axis.z},
    };
}

// A list of objects: lines, or a JSON array that print_list prints and frees.
struct list {
    const struct posectl *ctl;
    json_t *all; // NULL: lines
};

static void add_to_list(void *user, const char *name, const struct search_object_info *info)
{
    struct list *list = user;
    if (list->all)
        json_array_append_new(list->all, json_object_info(name, info));
    else
        print_info(list->ctl, name, info);
}

static void print_list(struct list *list)
{
    if (list->all)
        posectl_print_json(stdout, json_pack("{s:o}", "objects", list->all), false);
}

static enum posectl_exit ask_to_add(struct posectl *ctl)
{
    struct search_mesh mesh;
    struct search_object_settings settings;
    search_object_settings_default(&settings);
    settings.n_views = options.objects.n_views;
    settings.choice = options.objects.choice;
    posectl_wait_at_least(ctl, BUILD_TIMEOUT_MS); // drawing takes seconds
    enum posectl_exit result = POSECTL_FAILED;
    if (objects_read_mesh(options.words[2], &mesh) == 0)
        result = posectl_send_object(ctl, options.words[1], &mesh, &settings, &reply);
    objects_free_mesh(&mesh);
    if (result == POSECTL_OK) {
        struct search_object_info info = read_reply_object(&reply.what.add_object);
        print_info(ctl, reply.what.add_object.name, &info);
        if (info.radius_m > SEARCH_RADIUS_ODD_M) // the daemon's warning is in its log only
            posectl_complain("%s: %.4g m across; are these millimetres?", options.words[2],
                             2 * (double)info.radius_m);
    } else if (reply.code == posed_Code_INVALID_ARGUMENT) {
        posectl_complain("%s: no object can be made of it", options.words[2]);
    }
    return result;
}

static void list_reply(const struct posectl *ctl, const posed_Objects *objects)
{
    struct list list = {ctl, ctl->json ? json_array() : NULL};
    for (pb_size_t i = 0; i < objects->objects_count; i++) {
        struct search_object_info info = read_reply_object(&objects->objects[i]);
        add_to_list(&list, objects->objects[i].name, &info);
    }
    print_list(&list);
    if (!ctl->json && objects->objects_count == 0)
        posectl_complain("the daemon knows no object (without --local it has its own)");
}

static enum posectl_exit ask_object(struct posectl *ctl, bool add, bool drop)
{
    if (add)
        return ask_to_add(ctl);
    posed_Request request = posed_Request_init_zero;
    request.which_what = posed_Request_list_objects_tag;
    if (drop) {
        request.which_what = posed_Request_remove_object_tag;
        wire_copy_text(request.what.remove_object.name, sizeof request.what.remove_object.name,
                       options.words[1]);
    }
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    if (!result && !drop)
        list_reply(ctl, &reply.what.list_objects);
    return result ? result : posectl_close(ctl, stdout);
}

static int work_here(const struct posectl *ctl, bool add, bool drop)
{
    const char *name = options.words[1];
    struct search *search;
    struct search_object_info info;
    if (drop)
        return objects_remove(&options.objects, name);
    int err = objects_open_search(&options.objects, &search);
    if (err)
        return err;
    if (!add) {
        struct list list = {ctl, ctl->json ? json_array() : NULL};
        err = objects_list(&options.objects, search, add_to_list, &list);
        if (err)
            json_decref(list.all);
        else
            print_list(&list);
    } else if ((err = objects_add(&options.objects, search, name, options.words[2], &info)) == 0) {
        print_info(ctl, name, &info);
    }
    search_close(&search);
    return err;
}

int posectl_object(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp_option table[] = {
        {"local", OPTION_LOCAL, NULL, 0, "Work here, without a daemon", 0},
        {"objects", OPTION_OBJECTS, "DIR", 0,
         "Folder of the objects, with --local (POSED_OBJECTS; default "
         "~/.local/share/posed/objects)",
         0},
        {"views", OPTION_VIEWS, "N", 0, "Reference views (default 8192)", 0},
        {"greedy", OPTION_GREEDY, NULL, 0, "Choose the views by their error, as the paper does", 0},
        {"backend", OPTION_BACKEND, "auto|cpu|cuda", 0,
         "What computes (default auto); with --local", 0},
        {0}};
    static const struct argp argp = {.options = table,
                                     .parser = on_option,
                                     .args_doc = "add NAME MODEL.ply\nlist\nremove NAME",
                                     .children = posectl_common,
                                     .doc = "Known objects: a mesh (metres) and its reference "
                                            "views."};
    options.objects = (struct objects){.n_views = SEARCH_VIEWS_DEFAULT};
    posectl_parse(ctl, &argp, argc, argv);
    const char *action = options.words[0] ? options.words[0] : "";
    bool add = strcmp(action, "add") == 0 && options.n_words == 3;
    bool list = strcmp(action, "list") == 0 && options.n_words == 1;
    bool drop = strcmp(action, "remove") == 0 && options.n_words == 2;
    if (!add && !list && !drop) {
        posectl_complain("object: add NAME MODEL.ply, list or remove NAME is wanted");
        return POSECTL_USAGE;
    }
    if (!list && !objects_is_name(options.words[1])) {
        posectl_complain("\"%s\" is no name: letters, digits, _ and -, at most 64",
                         options.words[1]);
        return POSECTL_USAGE;
    }
    if (!options.local && options.only_local) {
        posectl_complain("%s is for --local; the daemon has search.folder and gpu.backend",
                         options.only_local);
        return POSECTL_USAGE;
    }
    if (!options.local)
        return (int)ask_object(ctl, add, drop);
    return work_here(ctl, add, drop) ? POSECTL_FAILED : (int)posectl_close(ctl, stdout);
}
