// SPDX-License-Identifier: Apache-2.0
// posectl record start NAME | stop | list | repair FILE
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "capture/recorder/repair.h"
#include "proto/file_suffix.h"
#include "tools/posectl/posectl.h"

#define STOP_TIMEOUT_MS 60000

static posed_Reply reply;
static const char *action, *recording_name, *recording_format;

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'f':
        recording_format = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            action = arg;
        else if (state->arg_num == 1)
            recording_name = arg;
        else
            argp_error(state, "\"%s\" is one word too many", arg);
        return 0;
    case ARGP_KEY_END:
        if (!action || (strcmp(action, "start") && strcmp(action, "stop") &&
                        strcmp(action, "list") && strcmp(action, "repair")))
            argp_error(state, "start NAME, stop, list or repair FILE is wanted (posectl status "
                              "tells what is being recorded, and how the last one ended)");
        if ((strcmp(action, "start") == 0 || strcmp(action, "repair") == 0) !=
            (recording_name != NULL))
            argp_error(state, "%s %s %s", action, recording_name ? "takes no" : "needs a",
                       strcmp(action, "repair") ? "name" : "file");
        return 0;
    }
    return posectl_option(key, arg, state);
}

// Frames are known of what is being written, or just was; the date of what lies in the folder.
static json_t *json_recording(const posed_Recording *r, bool counted)
{
    json_t *out = json_pack("{s:s, s:s, s:I, s:b}", "name", r->name, "format", r->format, "bytes",
                            (json_int_t)r->bytes, "active", r->active);
    if (out && r->has_modified)
        json_object_set_new(out, "modified_s", json_real(wire_seconds(&r->modified)));
    if (out && counted) {
        json_object_set_new(out, "frames", json_integer((json_int_t)r->frames));
        json_object_set_new(out, "dropped_frames", json_integer((json_int_t)r->dropped_frames));
    }
    return out;
}

static void print_recording(const posed_Recording *r)
{
    char when[32] = "";
    time_t seconds = (time_t)r->modified.seconds;
    struct tm local;
    if (r->has_modified && localtime_r(&seconds, &local))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    printf("%-32s %-9s %10.1f MB  %s", r->name, r->format, (double)r->bytes * 1e-6, when);
    if (r->active)
        printf("  being written, %" PRIu64 " frames", r->frames);
    printf("\n");
}

static enum posectl_exit list(struct posectl *ctl, posed_Request *request)
{
    json_t *all = ctl->json ? json_array() : NULL;
    uint32_t n = 0;
    enum posectl_exit result;
    request->which_what = posed_Request_list_recordings_tag;
    do {
        request->what.list_recordings.skip = n;
        result = posectl_request(ctl, request, &reply);
        if (result)
            break;
        const posed_Recordings *page = &reply.what.list_recordings;
        for (pb_size_t i = 0; i < page->recordings_count; i++) {
            if (all)
                json_array_append_new(
                    all, json_recording(&page->recordings[i], page->recordings[i].active));
            else
                print_recording(&page->recordings[i]);
        }
        n += page->recordings_count;
    } while (reply.what.list_recordings.recordings_count && n < reply.what.list_recordings.total);
    if (all && !result)
        posectl_print_json(stdout, json_pack("{s:o}", "recordings", all), false);
    else if (all)
        json_decref(all);
    return result;
}

// The name in front of what says the format: `posectl record list` goes by that, too.
static size_t stem_bytes(const char *name)
{
    static const char ros2[] = ".ros2.mcap";
    const char *slash = strrchr(name, '/'), *point = strrchr(slash ? slash : name, '.');
    if (file_suffix_is(name, ros2))
        return strlen(name) - strlen(ros2);
    return point ? (size_t)(point - name) : strlen(name);
}

// Here, without a daemon: FILE.mcap becomes FILE.repaired.mcap, or what -o says. Prints the name of
// the file that is whole.
static enum posectl_exit repair(const struct posectl *ctl)
{
    char out[4096];
    const size_t n_stem = stem_bytes(recording_name);
    int n;
    if (ctl->file)
        n = snprintf(out, sizeof out, "%s", ctl->file);
    else
        n = snprintf(out, sizeof out, "%.*s.repaired%s", (int)n_stem, recording_name,
                     recording_name + n_stem);
    if (n < 0 || n >= (int)sizeof out) {
        posectl_complain("the name is too long");
        return POSECTL_USAGE;
    }
    int rc = recorder_repair(recording_name, out, ctl->file != NULL, &posectl_log);
    if (rc < 0)
        return POSECTL_FAILED;
    printf("%s\n", rc ? recording_name : out);
    return posectl_close(&(struct posectl){0}, stdout);
}

// What is queued may take its time to be written; that no daemon is there is known sooner.
static enum posectl_exit wait_long(struct posectl *ctl)
{
    posed_Request ping = posed_Request_init_zero;
    ping.which_what = posed_Request_ping_tag;
    ping.deadline_ms = ctl->timeout_ms;
    enum posectl_exit result = posectl_request(ctl, &ping, &reply);
    posectl_wait_at_least(ctl, STOP_TIMEOUT_MS);
    return result;
}

int posectl_record(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"format", 'f', "tum|klg|fakenect|mcap|ros2mcap", 0,
         "Format; left out: recorder.format of the daemon", 0},
        {0}};
    static const struct argp argp = {.options = options,
                                     .parser = on_option,
                                     .args_doc = "start NAME\nstop\nlist\nrepair FILE",
                                     .children = posectl_common,
                                     .doc = "Records the frames of the running posed into its "
                                            "recorder.folder. `stop` ends when the files are "
                                            "complete, or fails; how the last one ended says "
                                            "posectl status. `repair` completes a .mcap or "
                                            ".klg whose recorder was killed, without a daemon: "
                                            "a whole copy, NAME.repaired.mcap or the -o FILE; "
                                            "of one that is complete only with -o. It prints "
                                            "the name of the file that is whole."};
    posed_Request request = posed_Request_init_zero;
    ctl->takes_file = true;
    posectl_parse(ctl, &argp, argc, argv);
    if (strcmp(action, "repair") == 0)
        return (int)repair(ctl);
    if (ctl->file) {
        posectl_complain("record %s writes no file", action);
        return POSECTL_USAGE;
    }
    if (strcmp(action, "list") == 0) {
        enum posectl_exit listed = list(ctl, &request);
        return (int)(listed ? listed : posectl_close(ctl, stdout));
    }
    enum posectl_exit result;
    bool start = strcmp(action, "start") == 0;
    posed_StartRecording *wanted = &request.what.start_recording;
    request.which_what =
        start ? posed_Request_start_recording_tag : posed_Request_stop_recording_tag;
    if (start && (strlen(recording_name) >= sizeof wanted->name ||
                  (recording_format && strlen(recording_format) >= sizeof wanted->format))) {
        posectl_complain("the name or the format is too long");
        return POSECTL_USAGE;
    }
    if (start) {
        strcpy(wanted->name, recording_name);
        strcpy(wanted->format, recording_format ? recording_format : "");
    }
    if (!start && (result = wait_long(ctl)))
        return (int)result;
    request.deadline_ms = ctl->timeout_ms;
    result = posectl_request(ctl, &request, &reply);
    if (result)
        return (int)result;
    const posed_Recording *r = start ? &reply.what.start_recording : &reply.what.stop_recording;
    if (ctl->json)
        posectl_print_json(stdout, json_recording(r, true), false);
    else if (start)
        printf("recording %s (%s)\n", r->name, r->format);
    else
        printf("stopped %s after %" PRIu64 " frames, %" PRIu64 " of them not recorded\n", r->name,
               r->frames + r->dropped_frames, r->dropped_frames);
    return (int)posectl_close(ctl, stdout);
}
