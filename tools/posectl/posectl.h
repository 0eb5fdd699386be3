// SPDX-License-Identifier: Apache-2.0
// What the commands of posectl share: options, the request socket, output. A command is one
// function that parses its own arguments and returns an exit code; posectl.c holds their table,
// client.c the way to the daemon.
//
// `-o` has two meanings that everybody expects: a format and a file. The words `json` and `text`
// are formats, anything else is a file, for the commands that write one; both may be given. A file
// of the name json is written as `-o ./json`.
//
// What can be asked for again (get, calibration, trajectory, register) replaces a file of that name
// and says so; what was made once (calibrate, rig, record repair, map export, keygen) wants a name
// that is free.
#ifndef POSED_TOOLS_POSECTL_POSECTL_H
#define POSED_TOOLS_POSECTL_POSECTL_H

#include <stdbool.h>
#include <stdio.h>

#include "proto/log.h"
#include "proto/wire_json.h"
#include "tools/argument.h"

#define POSECTL_KEY_CHARS   40 // Z85 of 32 bytes
#define POSECTL_TOPIC_BYTES 32

enum posectl_exit {
    POSECTL_OK,
    POSECTL_FAILED,       // the daemon said no, or a file could not be written
    POSECTL_USAGE,        // the command line
    POSECTL_NO_ANSWER,    // no daemon there, or none that answers in time
    POSECTL_DOUBTFUL = 6, // an answer was written, but it is not to be trusted
};

struct posectl {
    const char *endpoint; // as given, NULL = found
    const char *server_key, *key_file;
    const char *camera;           // of several, "" = the first
    unsigned timeout_ms, wait_ms; // for an answer; before, for a daemon to be there
    bool has_timeout;             // --timeout was given
    bool json;
    const char *file; // -o FILE, NULL = none
    bool replaces;    // a file of that name was there
    bool takes_file;  // set by a command before it parses: -o FILE is allowed
};

// Options that every command takes: its argp has these children, and hands the keys that it does
// not know to posectl_option.
extern const struct argp_child posectl_common[];
// Of a command that asks no daemon, and has a --camera of its own.
extern const struct argp_child posectl_no_daemon[];
error_t posectl_option(int key, char *arg, struct argp_state *state);

// Parses a command's arguments (argv[0] is its name) with options of its own; `argp` gets
// posectl_common as children. Wrong usage exits POSECTL_USAGE.
void posectl_parse(struct posectl *ctl, const struct argp *argp, int argc, char **argv);

// For what takes long: so many ms at the least, unless --timeout says how many.
void posectl_wait_at_least(struct posectl *ctl, unsigned timeout_ms);

extern const char *const posectl_backends[]; // in the order of enum gpu_backend

// Sends a request and waits for its answer. Returns POSECTL_OK, or says on stderr what is wrong
// (no daemon, no answer in time, a refusal with its field) and returns the exit code.
__attribute__((warn_unused_result)) enum posectl_exit
posectl_request(const struct posectl *ctl, const posed_Request *request, posed_Reply *out);

// The same for an answer with bytes that nanopb leaves alone: its encoded Reply, to be searched
// with wire_find_bytes and freed (NULL unless POSECTL_OK).
__attribute__((warn_unused_result)) enum posectl_exit
posectl_request_large(const struct posectl *ctl, const posed_Request *request, posed_Reply *out,
                      uint8_t **out_bytes, size_t *out_n);

// The same with a request that is encoded and framed already.
__attribute__((warn_unused_result)) enum posectl_exit posectl_exchange(const struct posectl *ctl,
                                                                       const uint8_t *request,
                                                                       size_t n_bytes,
                                                                       posed_Reply *out);

// The id of this run's requests: events of their progress carry it.
uint64_t posectl_request_id(void);

// A subscription to `pub`, and to `img` for its topics (of --camera, else of all cameras), to be
// closed with posectl_unsubscribe whatever came of it.
// Returns POSECTL_OK, or the exit code with the reason on stderr.
struct posectl_subscription; // opaque
__attribute__((warn_unused_result)) enum posectl_exit
posectl_subscribe(struct posectl_subscription **out, const struct posectl *ctl,
                  const char *const *topics, size_t n_topics);
void posectl_unsubscribe(struct posectl_subscription **subscription);

// Waits for the next message; its bytes are valid until the next call. Returns false when none came
// for as long as --timeout says, when the first cannot come, or when the daemon no longer knows
// this client's key.
__attribute__((warn_unused_result)) bool posectl_receive(struct posectl_subscription *subscription,
                                                         char out_topic[POSECTL_TOPIC_BYTES],
                                                         const uint8_t **out_bytes, size_t *out_n);

// Its address; whether somebody is connected there, or does not know this client's key; and, on
// stderr, why nothing at all comes.
const char *posectl_subscribed_to(const struct posectl_subscription *subscription);
bool posectl_is_connected(const struct posectl_subscription *subscription);
bool posectl_is_refused(const struct posectl_subscription *subscription);
void posectl_explain_silence(const struct posectl_subscription *subscription);

// Opens what -o FILE names, or stdout. NULL: the reason is on stderr. Close with posectl_close,
// which reports a failed write, and that a file was replaced.
FILE *posectl_open(const struct posectl *ctl);
__attribute__((warn_unused_result)) enum posectl_exit posectl_close(const struct posectl *ctl,
                                                                    FILE *file);

// Prints a JSON value with its newline and frees it.
void posectl_print_json(FILE *file, json_t *value, bool one_line);

// "posectl: ..." on stderr.
__attribute__((format(printf, 1, 2))) void posectl_complain(const char *format, ...);

// What libraries have to say: notices and worse, with posectl_complain.
extern const struct log_sink posectl_log;

// Commands that have a file of their own, <name>.c (status: watch.c).
int posectl_calibration(struct posectl *ctl, int argc, char **argv);
int posectl_get(struct posectl *ctl, int argc, char **argv);
int posectl_map(struct posectl *ctl, int argc, char **argv);
int posectl_params(struct posectl *ctl, int argc, char **argv);
int posectl_record(struct posectl *ctl, int argc, char **argv);
int posectl_replay(struct posectl *ctl, int argc, char **argv);
int posectl_set(struct posectl *ctl, int argc, char **argv);
int posectl_status(struct posectl *ctl, int argc, char **argv);
int posectl_watch(struct posectl *ctl, int argc, char **argv);
int posectl_view(struct posectl *ctl, int argc, char **argv);

#endif
