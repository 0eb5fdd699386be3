// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/channel_list.h"

#include <stdio.h>
#include <string.h>

#include "capture/mcap/format.h"

// Its place in the list, n_schemas when it is not there.
static size_t find_schema(const struct mcap_channel_list *list, uint64_t id)
{
    size_t i = 0;
    while (i < list->n_schemas && list->schemas[i].id != id)
        i++;
    return i;
}

void mcap_channel_list_schema(struct mcap_channel_list *list, const unsigned char *data, size_t n)
{
    const char *name, *encoding;
    size_t at = 2, n_name, n_encoding;
    if (n < 2 || list->n_schemas == sizeof list->schemas / sizeof list->schemas[0] ||
        find_schema(list, mcap_get(data, 2)) < list->n_schemas || // chunks may repeat it
        !mcap_take_string(data, n, &at, &name, &n_name) ||
        !mcap_take_string(data, n, &at, &encoding, &n_encoding))
        return;
    const size_t i = list->n_schemas++;
    list->schemas[i].id = (uint16_t)mcap_get(data, 2);
    snprintf(list->schemas[i].name, sizeof list->schemas[i].name, "%.*s", (int)n_name, name);
    snprintf(list->schemas[i].encoding, sizeof list->schemas[i].encoding, "%.*s", (int)n_encoding,
             encoding);
}

void mcap_channel_list_add(struct mcap_channel_list *list, const unsigned char *data, size_t n)
{
    const char *topic, *encoding, *schema, *schema_encoding = NULL;
    size_t at = 4, n_topic, n_encoding;
    const size_t room = sizeof list->text - list->n_text;
    if (room <= 1 || n < 4 || !mcap_take_string(data, n, &at, &topic, &n_topic) ||
        !mcap_take_string(data, n, &at, &encoding, &n_encoding))
        return;
    const uint64_t id = mcap_get(data + 2, 2);
    const size_t i = find_schema(list, id);
    schema = id ? "unknown schema" : "no schema";
    if (i < list->n_schemas) {
        schema = list->schemas[i].name;
        schema_encoding = list->schemas[i].encoding;
    }
    // As a rule the schema is written in what its messages are in.
    const bool is_usual = !schema_encoding || mcap_is_text(encoding, n_encoding, schema_encoding);
    const int n_more =
        snprintf(list->text + list->n_text, room, "%s%.*s (%s%s%s, %.*s)", list->n_text ? ", " : "",
                 (int)n_topic, topic, schema, is_usual ? "" : " in ",
                 is_usual ? "" : schema_encoding, (int)n_encoding, encoding);
    if ((size_t)n_more < room) {
        list->n_text += (size_t)n_more;
        return;
    }
    list->n_text = sizeof list->text - 1;
    memcpy(list->text + list->n_text - 3, "...", 4);
}
