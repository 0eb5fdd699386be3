// SPDX-License-Identifier: Apache-2.0
// What of a daemon's settings concerns the machine it is on (doctor.h): those of the one that runs,
// or those with which one would start, as `posed --dump-config` prints them.
#ifndef POSED_TOOLS_POSECTL_DAEMON_SETTINGS_H
#define POSED_TOOLS_POSECTL_DAEMON_SETTINGS_H

#include "tools/posectl/posectl.h"

#define DAEMON_SETTINGS_TEXT 256

struct daemon_settings {
    char pub[DAEMON_SETTINGS_TEXT], latest[DAEMON_SETTINGS_TEXT]; // addresses, as endpoints.*
    char img[DAEMON_SETTINGS_TEXT], req[DAEMON_SETTINGS_TEXT];
    char http_port[DAEMON_SETTINGS_TEXT], recorder_folder[DAEMON_SETTINGS_TEXT];
};

// Asks the running one. Returns POSECTL_OK, or the exit code with the reason on stderr.
__attribute__((warn_unused_result)) enum posectl_exit
daemon_settings_ask(const struct posectl *ctl, struct daemon_settings *out);

// Runs `posed --check-config -c FILE` (the program as below). Returns false where it refuses the
// file, with the first line of what it says that is no warning; true also where there is no posed.
__attribute__((warn_unused_result)) bool daemon_settings_check(const char *config,
                                                               char out_why[DAEMON_SETTINGS_TEXT]);

// Runs the `posed` beside this program, else the one on PATH; with its -c FILE unless that is NULL.
// Returns whether it printed its settings; else what it said instead, "" where there is none.
__attribute__((warn_unused_result)) bool daemon_settings_read(const char *config,
                                                              struct daemon_settings *out,
                                                              char out_why[DAEMON_SETTINGS_TEXT]);

#endif
