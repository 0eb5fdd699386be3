// SPDX-License-Identifier: Apache-2.0
// The kinds of requests, a row each; whatever tells kinds apart looks it up here. Adding a request
// takes its messages (proto/requests.proto), a row, and handlers_<field> in a file of its
// capability; and a row in proto/wire.c where it or its answer is larger than nanopb's structs.
#ifndef POSED_DAEMON_HANDLERS_KINDS_H
#define POSED_DAEMON_HANDLERS_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// field     its name in Request
// queue     where it runs (enum handlers_queue)
// needs     called first; false: the reply says what is missing. NULL: nothing
// text      the field of it that holds texts; NULL: none
// button    whether the page sends it (http.control)
// at_once   true: it runs NOW instead of in its queue. NULL: never
//
// clang-format off
#define HANDLERS_KINDS(KIND) \
    KIND(ping,            NOW,     NULL,                  NULL,      true,  NULL) \
    KIND(get_version,     NOW,     NULL,                  NULL,      false, NULL) \
    KIND(get_status,      NOW,     NULL,                  NULL,      false, NULL) \
    KIND(get_calibration, NOW,     NULL,                  NULL,      false, NULL) \
    KIND(get_pose,        NOW,     NULL,                  NULL,      false, NULL) \
    KIND(get_trajectory,  NOW,     NULL,                  NULL,      false, NULL) \
    KIND(get_params,      NOW,     NULL,                  "prefix",  false, NULL) \
    KIND(set_params,      NOW,     NULL,                  "params",  false, NULL) \
    KIND(reset,           COMMAND, NULL,                  NULL,      true,  NULL) \
    KIND(set_pose,        COMMAND, NULL,                  NULL,      false, NULL) \
    KIND(set_keyframe,    COMMAND, NULL,                  NULL,      true,  NULL) \
    KIND(replay,          COMMAND, NULL,                  NULL,      true,  NULL) \
    KIND(get_depth,       COMMAND, NULL,                  NULL,      false, NULL) \
    KIND(get_cloud,       COMMAND, NULL,                  NULL,      false, NULL) \
    KIND(start_recording, COMMAND, handlers_records,      "name",    true,  NULL) \
    KIND(stop_recording,  COMMAND, handlers_records,      NULL,      true,  NULL) \
    KIND(list_recordings, COMMAND, handlers_records,      NULL,      false, NULL) \
    KIND(register_sets,   COMPUTE, NULL,                  NULL,      false, NULL) \
    KIND(add_object,      COMPUTE, handlers_objects_open, "name",    false, NULL) \
    KIND(remove_object,   COMPUTE, handlers_objects_open, "name",    false, NULL) \
    KIND(list_objects,    COMPUTE, NULL,                  NULL,      true, \
         handlers_objects_can_list) \
    KIND(search_pose,     COMPUTE, handlers_objects_open, "objects", true,  NULL) \
    KIND(stop_tracking,   COMPUTE, handlers_objects_open, NULL,      true,  NULL) \
    KIND(save_map,        COMPUTE, handlers_keeps_maps,   "name",    false, NULL) \
    KIND(load_map,        COMPUTE, handlers_keeps_maps,   "name",    false, NULL) \
    KIND(list_maps,       COMMAND, handlers_keeps_maps,   NULL,      false, NULL) \
    KIND(get_keyframes,   COMMAND, NULL,                  NULL,      false, NULL) \
    KIND(get_map_cloud,   COMPUTE, NULL,                  NULL,      false, NULL) \
    KIND(optimise_map,    COMPUTE, NULL,                  NULL,      false, NULL)
// clang-format on

// Whether the page's buttons send requests of this kind; all others the page may not.
bool handlers_is_button(uint32_t kind);

// Its name in Request, "add_object"; "" of a kind that has no row.
const char *handlers_kind_name(uint32_t kind);

// The path of the texts in a request of this kind, "add_object.name"; "what" where it has none or
// is not known.
void handlers_text_field(uint32_t kind, char *out, size_t size_bytes);

#endif
