// SPDX-License-Identifier: Apache-2.0
#include "daemon/metrics.h"

#include <inttypes.h>

#include "daemon/histogram.h"
#include "proto/wire.h"

// The cameras at one moment.
struct cameras {
    posed_Status status[CONFIG_MAX_CAMERAS];
    struct shared *const *shared;
    uint32_t n;
};

static void head(FILE *file, const char *name, const char *type, const char *help)
{
    fprintf(file, "# HELP posed_%s %s\n# TYPE posed_%s %s\n", name, help, name, type);
}

static void gauge(FILE *file, const char *name, const char *help, double value)
{
    head(file, name, "gauge", help);
    fprintf(file, "posed_%s %.15g\n", name, value);
}

static void counter(FILE *file, const char *name, const char *help, uint64_t value)
{
    head(file, name, "counter", help);
    fprintf(file, "posed_%s %" PRIu64 "\n", name, value);
}

// A label's value: backslash, quote and newline are escaped.
static void print_label(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            fputc('\\', file);
        if (*text == '\n')
            fputs("\\n", file);
        else
            fputc(*text, file);
    }
}

// camera="NAME" of a camera that has a name, which is plain; else nothing. `behind` follows it.
static void label_of(const posed_Status *s, const char *behind, char out[40])
{
    out[0] = 0;
    if (s->camera[0])
        snprintf(out, 40, "camera=\"%s\"%s", s->camera, behind);
}

// The value of each camera, of a kind that a double holds.
static void of_each(FILE *file, const struct cameras *cameras, const char *name, const char *type,
                    const char *help, double (*value)(const struct cameras *cameras, uint32_t i))
{
    char label[40];
    head(file, name, type, help);
    for (uint32_t i = 0; i < cameras->n; i++) {
        label_of(&cameras->status[i], "", label);
        fprintf(file, "posed_%s%s%s%s %.15g\n", name, label[0] ? "{" : "", label,
                label[0] ? "}" : "", value(cameras, i));
    }
}

static void print_info(FILE *file, const struct cameras *cameras)
{
    char label[40];
    head(file, "info", "gauge", "What runs: always 1.");
    for (uint32_t i = 0; i < cameras->n; i++) {
        const posed_Status *s = &cameras->status[i];
        label_of(s, ",", label);
        fprintf(file, "posed_info{%sversion=\"", label);
        print_label(file, s->version);
        fputs("\",source=\"", file);
        print_label(file, s->source);
        fputs("\",backend=\"", file);
        print_label(file, s->backend);
        fputs("\"} 1\n", file);
    }
}

static void print_state(FILE *file, const struct cameras *cameras)
{
    char label[40];
    head(file, "state", "gauge", "1 for the state of the tracking.");
    for (uint32_t i = 0; i < cameras->n; i++) {
        const posed_Status *s = &cameras->status[i];
        label_of(s, ",", label);
        for (int state = posed_State_STATE_INIT; state <= posed_State_STATE_NO_INPUT; state++)
            fprintf(file, "posed_state{%sstate=\"%s\"} %d\n", label,
                    wire_state_name((posed_State)state), s->state == (posed_State)state);
    }
}

static void print_frames(FILE *file, const struct cameras *cameras)
{
    char label[40];
    head(file, "frames_total", "counter", "Frames by what became of them.");
    for (uint32_t i = 0; i < cameras->n; i++) {
        const posed_Status *s = &cameras->status[i];
        const struct {
            const char *result;
            uint64_t n;
        } results[] = {
            {"tracked", s->tracked_frames}, {"degraded", s->degraded_frames},
            {"lost", s->lost_frames},       {"dropped", s->dropped_frames},
            {"damaged", s->damaged_frames},
        };
        label_of(s, ",", label);
        for (size_t k = 0; k < sizeof results / sizeof results[0]; k++)
            fprintf(file, "posed_frames_total{%sresult=\"%s\"} %" PRIu64 "\n", label,
                    results[k].result, results[k].n);
    }
}

static void print_latency(FILE *file, const struct cameras *cameras)
{
    char label[40];
    head(file, "latency_seconds", "histogram",
         "From a frame's arrival to its pose on the sockets.");
    for (uint32_t i = 0; i < cameras->n; i++) {
        label_of(&cameras->status[i], "", label);
        histogram_print(shared_latency(cameras->shared[i]), "posed_latency_seconds", label, file);
    }
}

#define VALUE(name, expression)                                   \
    static double name(const struct cameras *cameras, uint32_t i) \
    {                                                             \
        const posed_Status *s = &cameras->status[i];              \
        return (double)(expression);                              \
    }
VALUE(rate_hz, s->rate_hz)
VALUE(paused, s->paused)
VALUE(recording, s->recording[0] != 0)
VALUE(failed_recordings, s->failed_recordings)
VALUE(has_failed, s->has_last_recording && s->last_recording.failed)
VALUE(ended_s, s->has_last_recording ? (double)s->last_recording.timestamp.seconds : 0)
VALUE(map_epoch, s->map_epoch)
VALUE(captured, s->captured_frames)
VALUE(duplicates, s->duplicate_frames)
VALUE(reduced, s->reduced_frames)
VALUE(unsent, s->unsent_messages)

static double lost_packets(const struct cameras *cameras, uint32_t i)
{
    return (double)shared_counter(cameras->shared[i], SHARED_LOST_PACKETS);
}

void metrics_print(struct shared *const *shared, uint32_t n_cameras, FILE *file)
{
    struct cameras cameras = {.shared = shared, .n = n_cameras};
    const posed_Status *s = &cameras.status[0];
    for (uint32_t i = 0; i < n_cameras; i++)
        shared_status(shared[i], &cameras.status[i]);
    print_info(file, &cameras);
    print_state(file, &cameras);
    gauge(file, "uptime_seconds", "Since the start.", s->uptime_s);
    of_each(file, &cameras, "frame_rate_hertz", "gauge", "Frames in the last second.", rate_hz);
    of_each(file, &cameras, "paused", "gauge", "1 while the recording is paused.", paused);
    of_each(file, &cameras, "recording", "gauge", "1 while a recording is written.", recording);
    of_each(file, &cameras, "last_recording_failed", "gauge",
            "1 when an error ended the last recording; posectl status says which.", has_failed);
    of_each(file, &cameras, "last_recording_end_timestamp_seconds", "gauge",
            "When the last recording ended, Unix time; 0: none has.", ended_s);
    of_each(file, &cameras, "failed_recordings_total", "counter", "Recordings that an error ended.",
            failed_recordings);
    of_each(file, &cameras, "map_epoch", "gauge",
            "Grows when a pose is not connected to the one before.", map_epoch);
    gauge(file, "resident_memory_bytes", "Resident memory.", (double)s->resident_bytes);
    of_each(file, &cameras, "captured_frames_total", "counter",
            "Frames, each of them one pose message.", captured);
    print_frames(file, &cameras);
    of_each(file, &cameras, "duplicate_frames_total", "counter", "Frames equal to the one before.",
            duplicates);
    of_each(file, &cameras, "reduced_frames_total", "counter",
            "Frames tracked with less work (tracker.adapt).", reduced);
    counter(file, "requests_total", "Requests answered.", s->requests);
    counter(file, "bad_requests_total", "Malformed requests, not answered.", s->bad_requests);
    counter(file, "rejected_requests_total", "Requests refused because the queue was full.",
            s->rejected_requests);
    of_each(file, &cameras, "unsent_messages_total", "counter",
            "Messages that a subscriber was too slow for.", unsent);
    of_each(file, &cameras, "lost_packets_total", "counter",
            "USB packets that the camera's frames lack.", lost_packets);
    print_latency(file, &cameras);
}
