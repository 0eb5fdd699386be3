// SPDX-License-Identifier: Apache-2.0
// A ring of frames and messages between the frame loops and the writing thread. The
// pixels stay where the source has them, kept until they are written: the push is a few words under
// a lock that nobody holds for long. It wakes nobody: while a recording is active, the thread looks
// by itself. A wake-up costs 4 us, and lets the scheduler look who should run: on a busy machine
// one push in a hundred then stood still for 0.5 to 4 ms.
#include "capture/recorder/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capture/driver.h"
#include "capture/recorder/ending.h"
#include "capture/recorder/recordings.h"
#include "capture/recorder/writer.h"
#include "capture/ros/frames.h"
#include "capture/ros/topic_name.h"
#include "proto/clock.h"
#include "proto/rig_fusion.h"

#define SLOTS_PER_FRAME 2 // itself and its pose
// The rig's messages: with one frame of a camera may come those of all that waited for it. Of
// another one's next frame is none read before as many have room again.
#define RIG_ROOM        (RIG_MAX_AHEAD + RIG_MAX_CAMERAS)
#define RIG_SLOTS       (2 * RIG_ROOM)
#define MAX_NUMBER      9999     // behind a name that is taken
#define LOOK_NS         10000000 // between two looks of the thread into an empty queue

struct slot {
    uint32_t camera;            // its place among the recorded ones
    struct capture_frame frame; // its pixels, where it has some, are kept until it is written
    size_t n_message_bytes;     // > 0: a message instead of a frame
    enum recorder_topic topic;
    unsigned char message[RECORDER_MAX_MESSAGE_BYTES];
};

// A camera that is recorded; or, of which only n_waiting counts, the rig.
struct recorded {
    char name[WRITER_NAME_BYTES], frame[WRITER_NAME_BYTES], odom_frame[WRITER_NAME_BYTES];
    struct capture_info info;
    bool has_place; // on a rig
    struct se3 T_rig_camera, T_base_optical;
    int64_t ahead_ns;
    uint32_t n_kept;    // of its frames in the queue, those that have pixels
    uint32_t n_waiting; // its frames and messages in the queue
    bool has_ended;
    bool is_begun; // one of its frames is on disk
    int64_t last_ns,
        length_ns; // of them: the newest one's capture_even_ns, and how long they are so far
};

struct recorder {
    struct recorder_settings settings;
    char *path;
    char frame_names[4][WRITER_NAME_BYTES];
    struct recorder_frames ros_frames; // of them
    int folder;                        // of the recording, as long as there is one

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t news; // for the thread
    bool quit;

    // A recording, from start to the thread's last write.
    struct recorder_status status;
    struct recorded cameras[RECORDER_MAX_CAMERAS + 1]; // and behind them the rig
    uint32_t n_cameras;
    int places[RECORDER_RIG + 1]; // of a camera's number among them, -1 = not recorded
    bool anew;                    // an `info` has changed before the first frame
    const char *stop_reason;      // a literal
    void *writer;
    struct slot *slots; // frames and messages in the order of their coming
    uint32_t n_slots;
    uint64_t n_pushed, n_written;
};

static void tell(struct recorder *recorder, enum recorder_event event, const char *name,
                 const char *detail)
{
    log_to(&recorder->settings.log,
           event == RECORDER_EVENT_FAILED ? LOG_LEVEL_ERROR : LOG_LEVEL_NOTICE, "recording %s: %s",
           name, detail);
    if (recorder->settings.event)
        recorder->settings.event(recorder->settings.event_user, event, name, detail);
}

// The oldest in the queue leaves it. Lock held.
static void drop_slot(struct recorder *recorder)
{
    struct slot *slot = &recorder->slots[recorder->n_written++ % recorder->n_slots];
    recorder->cameras[slot->camera].n_waiting--;
    if (slot->n_message_bytes || !slot->frame.image.depth)
        return;
    capture_release(&slot->frame);
    recorder->cameras[slot->camera].n_kept--;
}

static void free_slots(struct recorder *recorder)
{
    while (recorder->n_written < recorder->n_pushed)
        drop_slot(recorder); // given up
    free(recorder->slots);
    recorder->slots = NULL;
    recorder->n_pushed = recorder->n_written = 0;
}

// Closes the recording and tells why it ended (an error, or 0 and `event`), and how much of it is
// in its files. After an error one without a frame is taken back. The lock is not held.
static void finish(struct recorder *recorder, enum recorder_event event, int error)
{
    struct recorder_status *status = &recorder->status;
    const struct writer_format *format = recordings_format(status->format);
    uint64_t n_bytes = status->n_bytes;
    int err = recorder->writer && format->flush ? format->flush(recorder->writer, &n_bytes) : 0;
    uint64_t n_held = recorder->writer && format->held ? format->held(recorder->writer) : 0;
    int close_err = recorder->writer ? format->close(recorder->writer) : 0;
    err = err ? err : close_err;
    // What was removed is gone, whatever came first.
    error = error && !ending_is_removal(err) ? error : err;
    char name[RECORDER_NAME_BYTES], file[RECORDER_NAME_BYTES + 16], detail[sizeof status->ended];
    snprintf(file, sizeof file, "%s%s", status->name, format->suffix);
    if (error) // not what was about to be written
        n_bytes = recordings_bytes(recorder->folder, file);
    pthread_mutex_lock(&recorder->lock);
    recorder->writer = NULL;
    free_slots(recorder);
    status->active = false;
    const bool is_removed = ending_is_removal(error);
    const uint64_t n_removed_frames = status->n_frames, n_removed_bytes = status->n_bytes;
    status->n_bytes = n_bytes;
    if (close_err)
        status->n_frames -= n_held < status->n_frames ? n_held : status->n_frames;
    if (is_removed)
        status->n_frames = 0;
    const bool is_empty = error && status->n_frames == 0;
    if (is_empty)
        status->n_bytes = 0;
    memcpy(name, status->name, sizeof name);
    const struct ending ending = {.error = error,
                                  .reason = event == RECORDER_EVENT_LIMIT ? "stopped at its limit"
                                                                          : recorder->stop_reason,
                                  .is_torn = close_err != 0,
                                  .is_folder = !format->suffix[0],
                                  .file = file,
                                  .n_frames = is_removed ? n_removed_frames : status->n_frames,
                                  .n_bytes = is_removed ? n_removed_bytes : status->n_bytes,
                                  .n_dropped = status->n_dropped};
    ending_describe(&ending, detail);
    status->failed = error != 0;
    status->ended_unix_ns = clock_wall_ns();
    memcpy(status->ended, detail, sizeof detail);
    pthread_mutex_unlock(&recorder->lock);
    if (is_empty && !is_removed)
        recordings_delete(recorder->folder, name, status->format);
    close(recorder->folder);
    tell(recorder, error ? RECORDER_EVENT_FAILED : event, name, detail);
    // Last, so that whoever sees it idle has been told.
    pthread_mutex_lock(&recorder->lock);
    status->busy = false;
    pthread_mutex_unlock(&recorder->lock);
}

// How long the recording of a camera is with a frame: the step of a clock that was set is no time.
static int64_t length_with(const struct recorded *camera, const struct capture_frame *frame)
{
    const bool follows = camera->is_begun && !(frame->flags & CAPTURE_NEW_CLOCK);
    return camera->length_ns + (follows ? capture_even_ns(frame) - camera->last_ns : 0);
}

static bool exceeds_bytes(const struct recorder *recorder)
{
    const struct recorder_status *status = &recorder->status;
    uint64_t max_bytes = recorder->settings.max_bytes;
    return max_bytes && status->n_frames > 0 &&
           status->n_bytes + status->n_bytes / status->n_frames > max_bytes;
}

// Writes a frame, without the lock around the disk. Returns 0, 1 at a limit, or a negative errno.
static int write_frame(struct recorder *recorder, const struct slot *slot)
{
    const struct capture_frame *frame = &slot->frame;
    struct recorder_status *status = &recorder->status;
    const struct writer_format *format = recordings_format(status->format);
    uint64_t n_bytes = status->n_bytes;
    int err = 0;
    struct recorded *camera = &recorder->cameras[slot->camera];
    const int64_t length_ns = length_with(camera, frame);
    if (recorder->settings.max_duration_s > 0 &&
        (double)length_ns * 1e-9 > recorder->settings.max_duration_s)
        return 1;
    if (exceeds_bytes(recorder) && format->flush) {
        pthread_mutex_unlock(&recorder->lock);
        err = format->flush(recorder->writer, &n_bytes);
        pthread_mutex_lock(&recorder->lock);
        status->n_bytes = n_bytes;
    }
    if (err || exceeds_bytes(recorder))
        return err ? err : 1;
    pthread_mutex_unlock(&recorder->lock);
    err = format->write(recorder->writer, slot->camera, frame, &n_bytes);
    pthread_mutex_lock(&recorder->lock);
    status->n_bytes = n_bytes;
    if (err)
        return err;
    if (status->n_frames == 0)
        status->first_time_ns = frame->image.time_ns;
    status->last_time_ns = frame->image.time_ns;
    status->n_frames++;
    camera->is_begun = true;
    camera->last_ns = capture_even_ns(frame);
    camera->length_ns = length_ns;
    return 0;
}

// Writes what is oldest in the queue. The lock is held on entry and on return. Returns as above.
static int write_one(struct recorder *recorder)
{
    struct slot *slot = &recorder->slots[recorder->n_written % recorder->n_slots];
    int result;
    if (slot->n_message_bytes) {
        const struct writer_format *format = recordings_format(recorder->status.format);
        pthread_mutex_unlock(&recorder->lock);
        result = format->message(recorder->writer, slot->camera, slot->topic,
                                 slot->frame.image.time_ns, slot->message, slot->n_message_bytes);
        pthread_mutex_lock(&recorder->lock);
    } else {
        result = write_frame(recorder, slot);
    }
    if (result)
        return result;
    drop_slot(recorder);
    return 0;
}

static void list_cameras(const struct recorder *recorder, const struct recorded *cameras,
                         uint32_t n_cameras, struct writer_camera out[RECORDER_MAX_CAMERAS])
{
    for (uint32_t i = 0; i < n_cameras; i++)
        out[i] = (struct writer_camera){cameras[i].name,
                                        &cameras[i].info,
                                        cameras[i].has_place ? &cameras[i].T_rig_camera : NULL,
                                        cameras[i].frame,
                                        cameras[i].odom_frame,
                                        &recorder->ros_frames,
                                        cameras[i].T_base_optical,
                                        cameras[i].ahead_ns};
}

static int open_writer(struct recorder *recorder, const char *name, enum recorder_format format,
                       const struct recorded *cameras, uint32_t n_cameras, void **out)
{
    struct writer_camera list[RECORDER_MAX_CAMERAS];
    list_cameras(recorder, cameras, n_cameras, list);
    return recordings_format(format)->open(out, recorder->folder, name, list, n_cameras);
}

// The files that were made for one device, for another one. The lock is held on entry and on
// return. Returns 0 or a negative errno; there is no recording then.
static int begin_anew(struct recorder *recorder)
{
    const struct writer_format *format = recordings_format(recorder->status.format);
    struct recorded cameras[RECORDER_MAX_CAMERAS + 1];
    void *writer = NULL;
    memcpy(cameras, recorder->cameras, sizeof cameras);
    recorder->anew = false;
    pthread_mutex_unlock(&recorder->lock);
    int err = format->close(recorder->writer);
    recordings_delete(recorder->folder, recorder->status.name, recorder->status.format);
    if (!err)
        err = open_writer(recorder, recorder->status.name, recorder->status.format, cameras,
                          recorder->n_cameras, &writer);
    pthread_mutex_lock(&recorder->lock);
    recorder->writer = writer;
    return err;
}

// Ends the recording. The lock is held on entry and on return, but not in between.
static void end_recording(struct recorder *recorder, enum recorder_event event, int error)
{
    recorder->status.active = false; // pushes stop here; what is in the queue is given up
    recorder->status.busy = true;
    pthread_mutex_unlock(&recorder->lock);
    finish(recorder, event, error);
    pthread_mutex_lock(&recorder->lock);
}

// Frames come without a word, everything else with a signal. The lock is held on entry and return.
static void wait_for_news(struct recorder *recorder)
{
    if (!recorder->writer) {
        pthread_cond_wait(&recorder->news, &recorder->lock);
        return;
    }
    const struct timespec until = clock_until(LOOK_NS);
    pthread_cond_clockwait(&recorder->news, &recorder->lock, CLOCK_MONOTONIC, &until);
}

static void *write_frames(void *argument)
{
    struct recorder *recorder = argument;
    pthread_setname_np(pthread_self(), "posed-record");
    // When it wakes, it must not take the place of the thread that tracks.
    sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
    struct recorder_status *status = &recorder->status;
    pthread_mutex_lock(&recorder->lock);
    for (;;) {
        bool waiting = recorder->n_written < recorder->n_pushed;
        if (recorder->writer && recorder->anew) {
            int err = begin_anew(recorder);
            if (err)
                end_recording(recorder, RECORDER_EVENT_FAILED, err);
        } else if (recorder->writer && waiting) {
            int result = write_one(recorder);
            if (result > 0)
                end_recording(recorder, RECORDER_EVENT_LIMIT, 0);
            else if (result)
                end_recording(recorder, RECORDER_EVENT_FAILED, result);
        } else if (recorder->writer && (!status->active || recorder->quit)) {
            end_recording(recorder, RECORDER_EVENT_STOPPED, 0);
        } else if (recorder->quit) {
            break;
        } else {
            wait_for_news(recorder);
        }
    }
    pthread_mutex_unlock(&recorder->lock);
    return NULL;
}

static const char *bad_setting(const struct recorder_settings *settings)
{
    if (!settings->folder || !*settings->folder)
        return "no folder for recordings";
    if (settings->queue_frames &&
        (settings->queue_frames < 2 || settings->queue_frames > CAPTURE_MAX_KEPT))
        return "queue_frames must be 2..1600"; // CAPTURE_MAX_KEPT
    if (!(settings->max_duration_s >= 0) || !(settings->keep_age_s >= 0))
        return "limits must not be negative";
    return NULL;
}

// Whether recordings can be made in the folder now, for those who would learn it at the first one.
// It may yet be mounted, so that only a file in its place is an error.
static int look_at_folder(const struct recorder *recorder)
{
    const struct log_sink *log = &recorder->settings.log;
    const int folder = recordings_open(recorder->path, log);
    const int err = folder < 0 ? folder : faccessat(folder, ".", W_OK | X_OK, 0) ? -errno : 0;
    if (folder >= 0)
        close(folder);
    if (err == -ENOTDIR)
        log_to(log, LOG_LEVEL_ERROR, "recorder.folder %s cannot hold recordings: %s",
               recorder->path, strerror(-err));
    else if (err)
        log_to(log, LOG_LEVEL_WARNING,
               "recorder.folder %s: %s: nothing can be recorded before it is there and may be "
               "written to (mkdir, mount, chown); each start of a recording looks again",
               recorder->path, strerror(-err));
    return err == -ENOTDIR ? err : 0;
}

static void set_frames(struct recorder *recorder, const struct recorder_frames *from)
{
    static const struct recorder_frames usual = {"map", "odom", "base_link",
                                                 "camera_depth_optical_frame"};
    const struct recorder_frames *frames = from ? from : &usual;
    const char *const names[] = {frames->map, frames->odom, frames->base, frames->optical};
    for (int i = 0; i < 4; i++)
        snprintf(recorder->frame_names[i], WRITER_NAME_BYTES, "%s", names[i]);
    recorder->ros_frames =
        (struct recorder_frames){recorder->frame_names[0], recorder->frame_names[1],
                                 recorder->frame_names[2], recorder->frame_names[3]};
    recorder->settings.ros_frames = &recorder->ros_frames;
}

int recorder_create(struct recorder **out, const struct recorder_settings *settings)
{
    *out = NULL;
    const char *reason = bad_setting(settings);
    if (reason) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "recorder: %s", reason);
        return -EINVAL;
    }
    struct recorder *recorder = calloc(1, sizeof *recorder);
    if (!recorder)
        return -ENOMEM;
    recorder->settings = *settings;
    recorder->settings.queue_frames = settings->queue_frames ? settings->queue_frames : 30;
    set_frames(recorder, settings->ros_frames);
    pthread_mutex_init(&recorder->lock, NULL);
    pthread_cond_init(&recorder->news, NULL);
    recorder->path = strdup(settings->folder);
    recorder->settings.folder = recorder->path;
    int err = recorder->path ? look_at_folder(recorder) : -ENOMEM;
    if (!err)
        err = -pthread_create(&recorder->thread, NULL, write_frames, recorder);
    if (err)
        goto fail;
    *out = recorder;
    return 0;
fail:
    pthread_cond_destroy(&recorder->news);
    pthread_mutex_destroy(&recorder->lock);
    free(recorder->path);
    free(recorder);
    return err;
}

void recorder_destroy(struct recorder **recorder_in)
{
    struct recorder *recorder = *recorder_in;
    if (!recorder)
        return;
    pthread_mutex_lock(&recorder->lock);
    recorder->quit = true;
    pthread_cond_signal(&recorder->news);
    pthread_mutex_unlock(&recorder->lock);
    pthread_join(recorder->thread, NULL);
    pthread_cond_destroy(&recorder->news);
    pthread_mutex_destroy(&recorder->lock);
    free(recorder->path);
    free(recorder);
    *recorder_in = NULL;
}

static int take_slots(struct recorder *recorder)
{
    recorder->n_slots = SLOTS_PER_FRAME * recorder->settings.queue_frames * recorder->n_cameras +
                        (recorder->places[RECORDER_RIG] < 0 ? 0 : RIG_SLOTS);
    size_t n_bytes = recorder->n_slots * sizeof *recorder->slots;
    recorder->slots = malloc(n_bytes);
    if (!recorder->slots)
        return -ENOMEM;
    memset(recorder->slots, 0, n_bytes); // page faults now, not in the frame loop
    return 0;
}

// Reserves the recorder for this recording, so that no second start can come between; *previous is
// what is told again if it cannot begin.
static int reserve(struct recorder *recorder, const char *name, enum recorder_format format,
                   struct recorder_status *previous)
{
    struct recorder_status *status = &recorder->status;
    pthread_mutex_lock(&recorder->lock);
    bool taken = recorder->writer || status->busy || recorder->quit;
    if (!taken) {
        *previous = *status;
        *status = (struct recorder_status){.busy = true, .format = format};
        snprintf(status->name, sizeof status->name, "%s", name);
    }
    pthread_mutex_unlock(&recorder->lock);
    return taken ? -EBUSY : 0;
}

bool recorder_format_holds_several(enum recorder_format format)
{
    return recordings_format(format)->holds_several;
}

// What is wrong with what was asked for, maybe in `out`; NULL: nothing.
static const char *bad_start(const char *name, enum recorder_format format,
                             const struct recorder_camera *cameras, uint32_t n_cameras,
                             char out[ROS_NAMES_FAULT_BYTES])
{
    const char *names[RECORDER_MAX_CAMERAS];
    if (!recorder_name_is_plain(name))
        return "names are 1..64 letters, digits, '.', '_' and '-'";
    if (format >= RECORDER_N_FORMATS)
        return "unknown format";
    if (n_cameras < 1 || n_cameras > RECORDER_MAX_CAMERAS)
        return "1 to 16 cameras can be recorded";
    if (n_cameras > 1 && !recorder_format_holds_several(format))
        return "this format holds one camera; mcap and ros2mcap hold several";
    for (uint32_t i = 0; i < n_cameras; i++) {
        uint32_t w = cameras[i].info->camera.width_px, h = cameras[i].info->camera.height_px;
        names[i] = cameras[i].name;
        if (!w || !h || w > CAPTURE_MAX_SIDE_PX || h > CAPTURE_MAX_SIDE_PX)
            return "image size out of range";
    }
    return format == RECORDER_FORMAT_ROS2MCAP ? ros_names_fault(names, n_cameras, out) : NULL;
}

// While the recorder is reserved nobody pushes.
static void set_cameras(struct recorder *recorder, const struct recorder_camera *cameras,
                        uint32_t n_cameras)
{
    struct writer_camera list[RECORDER_MAX_CAMERAS];
    pthread_mutex_lock(&recorder->lock);
    recorder->n_cameras = n_cameras;
    for (uint32_t i = 0; i <= RECORDER_RIG; i++)
        recorder->places[i] = -1;
    for (uint32_t i = 0; i < n_cameras; i++) {
        const struct se3 *place = cameras[i].T_rig_camera, *base = cameras[i].T_base_optical;
        recorder->cameras[i] =
            (struct recorded){.info = *cameras[i].info,
                              .has_place = place != NULL,
                              .T_rig_camera = place ? *place : se3_identity(),
                              .T_base_optical = base ? *base : ros_optical_in_base(),
                              .ahead_ns = cameras[i].ahead_ns};
        snprintf(recorder->cameras[i].name, WRITER_NAME_BYTES, "%s", cameras[i].name);
        snprintf(recorder->cameras[i].frame, WRITER_NAME_BYTES, "%s",
                 cameras[i].frame ? cameras[i].frame : "camera");
        snprintf(recorder->cameras[i].odom_frame, WRITER_NAME_BYTES, "%s",
                 cameras[i].odom_frame ? cameras[i].odom_frame : "odom");
        recorder->places[cameras[i].number] = (int)i;
        recorder->status.cameras |= UINT32_C(1) << cameras[i].number;
    }
    list_cameras(recorder, recorder->cameras, n_cameras, list);
    recorder->cameras[n_cameras] = (struct recorded){0};
    if (writer_has_rig(list, n_cameras))
        recorder->places[RECORDER_RIG] = (int)n_cameras;
    pthread_mutex_unlock(&recorder->lock);
}

static void number_name(const char *name, unsigned number, char out[RECORDER_NAME_BYTES])
{
    char suffix[16];
    const int n = snprintf(suffix, sizeof suffix, "-%u", number);
    snprintf(out, RECORDER_NAME_BYTES, "%.*s%s", RECORDER_NAME_BYTES - 1 - n, name, suffix);
}

// The folder anew, as another one may stand in its place now, and the recording's files in it:
// files that are there already are found out by making them, as other programs may write there.
static int open_files(struct recorder *recorder, const char *name, bool numbered,
                      enum recorder_format format, uint32_t n_cameras,
                      char out_name[RECORDER_NAME_BYTES], void **out_writer)
{
    const struct recorder_settings *settings = &recorder->settings;
    const int folder = recordings_open(recorder->path, &settings->log);
    if (folder < 0)
        return folder;
    recordings_keep_limits(folder, settings->keep_bytes, settings->keep_age_s, &settings->log);
    recorder->folder = folder;
    snprintf(out_name, RECORDER_NAME_BYTES, "%s", name);
    int err = open_writer(recorder, name, format, recorder->cameras, n_cameras, out_writer);
    for (unsigned i = 2; numbered && err == -EEXIST && i <= MAX_NUMBER; i++) {
        number_name(name, i, out_name);
        err = open_writer(recorder, out_name, format, recorder->cameras, n_cameras, out_writer);
    }
    if (err)
        close(folder);
    return err;
}

static void tell_start(struct recorder *recorder, const char *name, enum recorder_format format)
{
    char detail[512];
    snprintf(detail, sizeof detail, "started as %s in %s", recordings_format(format)->name,
             recorder->path);
    tell(recorder, RECORDER_EVENT_STARTED, name, detail);
}

static int start(struct recorder *recorder, const char *name, bool numbered,
                 enum recorder_format format, const struct recorder_camera *cameras,
                 uint32_t n_cameras)
{
    char taken_name[RECORDER_NAME_BYTES], text[ROS_NAMES_FAULT_BYTES];
    const char *reason = bad_start(name, format, cameras, n_cameras, text), *in = "", *where = "";
    struct recorder_status previous;
    void *writer = NULL;
    int err = -EINVAL;
    if (!reason && (err = reserve(recorder, name, format, &previous)))
        reason = "another recording is running";
    if (!reason) {
        set_cameras(recorder, cameras, n_cameras);
        err = take_slots(recorder);
        if (!err) {
            err = open_files(recorder, name, numbered, format, n_cameras, taken_name, &writer);
            in = " in recorder.folder ";
            where = recorder->path;
        }
        pthread_mutex_lock(&recorder->lock);
        if (!err)
            memcpy(recorder->status.name, taken_name, sizeof taken_name);
        pthread_mutex_unlock(&recorder->lock);
        if (!err) // before it can end
            tell_start(recorder, taken_name, format);
        pthread_mutex_lock(&recorder->lock);
        if (err) {
            free_slots(recorder);
            recorder->status = previous;
        }
        recorder->writer = writer;
        recorder->anew = false;
        recorder->stop_reason = "stopped";
        recorder->n_pushed = recorder->n_written = 0;
        recorder->status.busy = false;
        recorder->status.active = !err;
        pthread_cond_signal(&recorder->news);
        pthread_mutex_unlock(&recorder->lock);
        reason = err == -EEXIST ? "one of that name is there already: take another"
                 : err          ? strerror(-err)
                                : NULL;
    }
    if (reason)
        log_to(&recorder->settings.log, LOG_LEVEL_ERROR, "recording '%.80s' not started%s%s: %s",
               name, in, where, reason);
    return err;
}

int recorder_start(struct recorder *recorder, const char *name, enum recorder_format format,
                   const struct recorder_camera *cameras, uint32_t n_cameras)
{
    return start(recorder, name, false, format, cameras, n_cameras);
}

int recorder_start_numbered(struct recorder *recorder, const char *name,
                            enum recorder_format format, const struct recorder_camera *cameras,
                            uint32_t n_cameras)
{
    return start(recorder, name, true, format, cameras, n_cameras);
}

int recorder_start_one(struct recorder *recorder, const char *name, enum recorder_format format,
                       const struct capture_info *info)
{
    return recorder_start(recorder, name, format,
                          &(struct recorder_camera){.name = "", .info = info}, 1);
}

// Lock held.
static void stop_taking(struct recorder *recorder)
{
    recorder->status.active = false;
    recorder->status.busy = true;
    pthread_cond_signal(&recorder->news);
}

int recorder_stop(struct recorder *recorder)
{
    pthread_mutex_lock(&recorder->lock);
    bool active = recorder->status.active;
    if (active)
        stop_taking(recorder);
    pthread_mutex_unlock(&recorder->lock);
    return active ? 0 : -ENOENT;
}

// Its place among the recorded ones while a recording is active, NULL when it is not. Lock held.
static struct recorded *find_camera(struct recorder *recorder, uint32_t camera)
{
    const int place = recorder->status.active ? recorder->places[camera] : -1;
    return place < 0 ? NULL : &recorder->cameras[place];
}

void recorder_end_camera(struct recorder *recorder, uint32_t camera)
{
    pthread_mutex_lock(&recorder->lock);
    struct recorded *recorded = find_camera(recorder, camera);
    bool all = recorded != NULL;
    if (recorded)
        recorded->has_ended = true;
    for (uint32_t i = 0; all && i < recorder->n_cameras; i++)
        all = recorder->cameras[i].has_ended;
    if (all)
        stop_taking(recorder);
    pthread_mutex_unlock(&recorder->lock);
}

void recorder_recalibrate(struct recorder *recorder, uint32_t camera,
                          const struct capture_info *info)
{
    pthread_mutex_lock(&recorder->lock);
    struct recorded *recorded = find_camera(recorder, camera);
    if (recorded && !capture_info_is_same_camera(&recorded->info, info)) {
        recorded->info = *info;
        if (recorder->n_pushed == 0) {
            recorder->anew = true;
            pthread_cond_signal(&recorder->news);
        } else {
            recorder->stop_reason = "stopped: the frames are of another camera";
            stop_taking(recorder);
        }
    }
    pthread_mutex_unlock(&recorder->lock);
}

// How many slots the camera, or the rig, may yet take: each has its share, whatever the others do.
// Lock held.
static uint32_t free_slots_of(const struct recorder *recorder, const struct recorded *recorded)
{
    const bool is_rig = recorded == &recorder->cameras[recorder->n_cameras];
    return (is_rig ? RIG_SLOTS : SLOTS_PER_FRAME * recorder->settings.queue_frames) -
           recorded->n_waiting;
}

// The next free slot, for this camera; NULL when its part of the queue is full. Lock held.
static struct slot *next_slot(struct recorder *recorder, const struct recorded *recorded)
{
    if (free_slots_of(recorder, recorded) == 0)
        return NULL;
    struct slot *slot = &recorder->slots[recorder->n_pushed % recorder->n_slots];
    slot->camera = (uint32_t)(recorded - recorder->cameras);
    return slot;
}

void recorder_push(struct recorder *recorder, uint32_t camera, const struct capture_frame *frame)
{
    if (!frame->image.depth && !(frame->flags & CAPTURE_DAMAGED))
        return;
    pthread_mutex_lock(&recorder->lock);
    struct recorded *recorded = find_camera(recorder, camera);
    if (recorded && frame->image.width_px == recorded->info.camera.width_px &&
        frame->image.height_px == recorded->info.camera.height_px) {
        struct slot *slot = next_slot(recorder, recorded);
        bool room = slot && recorded->n_kept < recorder->settings.queue_frames;
        if (room && (!frame->image.depth || capture_keep(frame))) {
            slot->n_message_bytes = 0;
            slot->frame = *frame;
            recorded->n_kept += frame->image.depth != NULL;
            recorded->n_waiting++;
            recorder->n_pushed++;
        } else {
            recorder->status.n_dropped++;
        }
    }
    pthread_mutex_unlock(&recorder->lock);
}

void recorder_push_message(struct recorder *recorder, uint32_t camera, enum recorder_topic topic,
                           int64_t time_ns, const void *message, size_t n_bytes)
{
    if (n_bytes == 0 || n_bytes > RECORDER_MAX_MESSAGE_BYTES)
        return;
    pthread_mutex_lock(&recorder->lock);
    struct recorded *recorded = find_camera(recorder, camera);
    struct slot *slot = recorded ? next_slot(recorder, recorded) : NULL;
    if (slot && recordings_format(recorder->status.format)->message) {
        slot->n_message_bytes = n_bytes;
        slot->topic = topic;
        slot->frame.image.time_ns = time_ns;
        memcpy(slot->message, message, n_bytes);
        recorded->n_waiting++;
        recorder->n_pushed++;
    }
    pthread_mutex_unlock(&recorder->lock);
}

bool recorder_has_room(struct recorder *recorder, uint32_t camera)
{
    pthread_mutex_lock(&recorder->lock);
    const struct recorded *recorded = find_camera(recorder, camera);
    const struct recorded *rig = find_camera(recorder, RECORDER_RIG);
    const bool has_room = !recorded || (recorded->n_kept < recorder->settings.queue_frames &&
                                        free_slots_of(recorder, recorded) >= SLOTS_PER_FRAME &&
                                        (!rig || free_slots_of(recorder, rig) >= RIG_ROOM));
    pthread_mutex_unlock(&recorder->lock);
    return has_room;
}

bool recorder_wants_messages(struct recorder *recorder, uint32_t camera)
{
    pthread_mutex_lock(&recorder->lock);
    bool wants =
        find_camera(recorder, camera) && recordings_format(recorder->status.format)->message;
    pthread_mutex_unlock(&recorder->lock);
    return wants;
}

void recorder_status(struct recorder *recorder, struct recorder_status *out)
{
    pthread_mutex_lock(&recorder->lock);
    *out = recorder->status;
    pthread_mutex_unlock(&recorder->lock);
}

long recorder_list(struct recorder *recorder, struct recorder_entry **out)
{
    *out = NULL;
    const int folder = open(recorder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const long n = folder < 0 ? -errno : recordings_list(folder, out);
    if (folder >= 0)
        close(folder);
    return n;
}
