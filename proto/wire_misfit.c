// SPDX-License-Identifier: Apache-2.0
#include "proto/wire_misfit.h"

#include <stdio.h>
#include <string.h>

#include <pb_common.h>

#include "proto/wire.h"
#include "proto/wire_walk.h"

// Names of the fields of requests that hold texts, and of their entries'.
static const struct {
    const pb_msgdesc_t *message;
    uint32_t tag;
    const char *name;
} names[] = {
#define ROW(message, allocation, rule, type, name, tag) {message##_fields, tag, #name},
    // clang-format off
    // cppcheck-suppress unknownMacro; the generated header has it
    posed_GetParams_FIELDLIST(ROW, posed_GetParams)
    posed_SetParams_FIELDLIST(ROW, posed_SetParams)
    posed_SetParams_Assignment_FIELDLIST(ROW, posed_SetParams_Assignment)
    posed_StartRecording_FIELDLIST(ROW, posed_StartRecording)
    posed_AddObject_FIELDLIST(ROW, posed_AddObject)
    posed_RemoveObject_FIELDLIST(ROW, posed_RemoveObject)
    posed_SearchPose_FIELDLIST(ROW, posed_SearchPose)
    posed_SaveMap_FIELDLIST(ROW, posed_SaveMap)
    posed_LoadMap_FIELDLIST(ROW, posed_LoadMap)
    {posed_Request_fields, posed_Request_camera_tag, "camera"},
// clang-format on
#undef ROW
};

// Adds a field's name to the path, with its place in a list.
static void put_name(const pb_field_iter_t *field, size_t n_entries, struct wire_misfit *out)
{
    const size_t n = strlen(out->field), size = sizeof out->field - n;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].message == field->descriptor && names[i].tag == field->tag) {
            const char *dot = n ? "." : "";
            if (PB_HTYPE(field->type) == PB_HTYPE_REPEATED && !out->is_list)
                snprintf(out->field + n, size, "%s%s[%zu]", dot, names[i].name, n_entries - 1);
            else
                snprintf(out->field + n, size, "%s%s", dot, names[i].name);
        }
}

// `message` is a decoded one, for its description alone.
static bool find(const pb_msgdesc_t *fields, void *message, const uint8_t *bytes, size_t n_bytes,
                 struct wire_misfit *out)
{
    struct walk walk = walk_begin(bytes, n_bytes);
    size_t n_entries = 0; // of the list that is being read: encoders write it in one piece
    for (uint32_t before = 0; walk_next(&walk); before = walk.field) {
        pb_field_iter_t field;
        n_entries = walk.field == before ? n_entries + 1 : 1;
        if (walk.type != PB_WT_STRING || !pb_field_iter_begin(&field, fields, message) ||
            !pb_field_iter_find(&field, walk.field))
            continue;
        const bool is_request = fields == posed_Request_fields,
                   is_text = PB_LTYPE(field.type) == PB_LTYPE_STRING;
        const size_t n_before = strlen(out->field);
        out->kind = is_request && PB_LTYPE_IS_SUBMSG(field.type) ? walk.field : out->kind;
        out->is_list = PB_HTYPE(field.type) == PB_HTYPE_REPEATED && n_entries > field.array_size;
        out->limit = out->is_list ? field.array_size : field.data_size - 1u;
        put_name(&field, n_entries, out);
        if (out->is_list || (is_text && walk.n_bytes > out->limit))
            return true;
        if (PB_LTYPE_IS_SUBMSG(field.type) &&
            find(field.submsg_desc, field.pData, walk.bytes, walk.n_bytes, out))
            return true;
        out->field[n_before] = 0;
        out->kind = is_request ? 0 : out->kind;
    }
    return false;
}

bool wire_find_misfit(const uint8_t *bytes, size_t n_bytes, struct wire_misfit *out)
{
    posed_Request message = posed_Request_init_zero;
    *out = (struct wire_misfit){0};
    return n_bytes >= WIRE_MAGIC_BYTES &&
           find(posed_Request_fields, &message, bytes + WIRE_MAGIC_BYTES,
                n_bytes - WIRE_MAGIC_BYTES, out);
}
