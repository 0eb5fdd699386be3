// SPDX-License-Identifier: Apache-2.0
#include "daemon/metrics.h"

#include <inttypes.h>

#include "daemon/histogram.h"
#include "proto/wire.h"

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

static void print_info(const posed_Status *s, FILE *file)
{
    head(file, "info", "gauge", "What runs: always 1.");
    fputs("posed_info{version=\"", file);
    print_label(file, s->version);
    fputs("\",source=\"", file);
    print_label(file, s->source);
    fputs("\",backend=\"", file);
    print_label(file, s->backend);
    fputs("\"} 1\n", file);
}

static void print_state(const posed_Status *s, FILE *file)
{
    head(file, "state", "gauge", "1 for the state of the tracking.");
    for (int state = posed_State_STATE_INIT; state <= posed_State_STATE_NO_INPUT; state++)
        fprintf(file, "posed_state{state=\"%s\"} %d\n", wire_state_name((posed_State)state),
                s->state == (posed_State)state);
}

static void print_frames(const posed_Status *s, FILE *file)
{
    const struct {
        const char *result;
        uint64_t n;
    } results[] = {
        {"tracked", s->tracked_frames}, {"degraded", s->degraded_frames}, {"lost", s->lost_frames},
        {"dropped", s->dropped_frames}, {"damaged", s->damaged_frames},
    };
    head(file, "frames_total", "counter", "Frames by what became of them.");
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        fprintf(file, "posed_frames_total{result=\"%s\"} %" PRIu64 "\n", results[i].result,
                results[i].n);
}

void metrics_print(struct shared *shared, FILE *file)
{
    posed_Status status;
    const posed_Status *s = &status;
    shared_status(shared, &status);
    print_info(s, file);
    print_state(s, file);
    gauge(file, "uptime_seconds", "Since the start.", s->uptime_s);
    gauge(file, "frame_rate_hertz", "Frames in the last second.", s->rate_hz);
    gauge(file, "paused", "1 while the recording is paused.", s->paused);
    gauge(file, "recording", "1 while a recording is written.", s->recording[0] != 0);
    gauge(file, "map_epoch", "Grows when a pose is not connected to the one before.", s->map_epoch);
    gauge(file, "resident_memory_bytes", "Resident memory.", (double)s->resident_bytes);
    counter(file, "captured_frames_total", "Frames, each of them one pose message.",
            s->captured_frames);
    print_frames(s, file);
    counter(file, "duplicate_frames_total", "Frames equal to the one before.", s->duplicate_frames);
    counter(file, "requests_total", "Requests answered.", s->requests);
    counter(file, "bad_requests_total", "Malformed requests, not answered.", s->bad_requests);
    counter(file, "rejected_requests_total", "Requests refused because the queue was full.",
            s->rejected_requests);
    counter(file, "unsent_messages_total", "Messages that a subscriber was too slow for.",
            s->unsent_messages);
    counter(file, "lost_packets_total", "USB packets that the camera's frames lack.",
            shared_counter(shared, SHARED_LOST_PACKETS));
    histogram_print(shared_latency(shared), "posed_latency_seconds",
                    "From a frame's arrival to its pose on the sockets.", file);
}
