// SPDX-License-Identifier: Apache-2.0
// The columns of the kinds that need no handler: for those who only pass requests on.
#include "daemon/handlers/kinds.h"

#include <stdio.h>

#include "proto/wire.h"

static const struct {
    uint32_t kind;
    const char *name, *text;
    bool is_button;
} kinds[] = {
#define ROW(field, queue, needs, text, button, at_once) \
    {posed_Request_##field##_tag, #field, text, button},
    HANDLERS_KINDS(ROW)
#undef ROW
};

#define N_KINDS (sizeof kinds / sizeof *kinds)

bool handlers_is_button(uint32_t kind)
{
    for (size_t i = 0; i < N_KINDS; i++)
        if (kinds[i].kind == kind)
            return kinds[i].is_button;
    return false;
}

const char *handlers_kind_name(uint32_t kind)
{
    for (size_t i = 0; i < N_KINDS; i++)
        if (kinds[i].kind == kind)
            return kinds[i].name;
    return "";
}

void handlers_text_field(uint32_t kind, char *out, size_t size_bytes)
{
    snprintf(out, size_bytes, "what");
    for (size_t i = 0; i < N_KINDS; i++)
        if (kinds[i].kind == kind && kinds[i].text)
            snprintf(out, size_bytes, "%s.%s", kinds[i].name, kinds[i].text);
}
