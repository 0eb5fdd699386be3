// SPDX-License-Identifier: Apache-2.0
// The channels of an MCAP file in words, for who looks for one that is not there.
#ifndef POSED_CAPTURE_MCAP_CHANNEL_LIST_H
#define POSED_CAPTURE_MCAP_CHANNEL_LIST_H

#include <stddef.h>
#include <stdint.h>

#define MCAP_CHANNEL_LIST_BYTES 500

struct mcap_channel_list { // begins as all zero
    struct {
        uint16_t id;
        char name[64], encoding[24];
    } schemas[64]; // the first ones
    size_t n_schemas;
    // "/a (foxglove.CompressedImage, protobuf), /b (no schema, json)"; where that is too long it
    // ends in "..."
    char text[MCAP_CHANNEL_LIST_BYTES];
    size_t n_text;
};

// The contents of a schema record, and of a channel record that did not come before.
void mcap_channel_list_schema(struct mcap_channel_list *list, const unsigned char *data, size_t n);
void mcap_channel_list_add(struct mcap_channel_list *list, const unsigned char *data, size_t n);

#endif
