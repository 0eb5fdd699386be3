// SPDX-License-Identifier: Apache-2.0
#include "daemon/zmtp/zmtp.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define FLAG_MORE    1
#define FLAG_LONG    2
#define FLAG_COMMAND 4

#define AT_VERSION   10
#define AT_MECHANISM 12
#define N_MECHANISM  20
#define AT_AS_SERVER 32

static const char *const mechanism_names[] = {"NULL", "CURVE"};

void zmtp_put_greeting(enum zmtp_mechanism mechanism, uint8_t out[ZMTP_GREETING_BYTES])
{
    memset(out, 0, ZMTP_GREETING_BYTES);
    out[0] = 0xff;
    out[8] = 1; // as libzmq has it: the length of an anonymous identity, for peers of ZMTP 1.0
    out[9] = 0x7f;
    out[AT_VERSION] = 3;
    out[AT_VERSION + 1] = 1;
    memcpy(out + AT_MECHANISM, mechanism_names[mechanism], strlen(mechanism_names[mechanism]));
    out[AT_AS_SERVER] = mechanism == ZMTP_CURVE;
}

bool zmtp_may_be_greeting(const uint8_t *bytes, size_t n_bytes)
{
    return (n_bytes <= 0 || bytes[0] == 0xff) && (n_bytes <= 9 || bytes[9] & 1) &&
           (n_bytes <= AT_VERSION || bytes[AT_VERSION] >= 3);
}

int zmtp_read_greeting(const uint8_t bytes[ZMTP_GREETING_BYTES], enum zmtp_mechanism *out)
{
    if (!zmtp_may_be_greeting(bytes, ZMTP_GREETING_BYTES))
        return -EPROTO;
    for (int i = 0; i < 2; i++) {
        char name[N_MECHANISM] = {0};
        memcpy(name, mechanism_names[i], strlen(mechanism_names[i]));
        if (memcmp(bytes + AT_MECHANISM, name, N_MECHANISM) == 0) {
            *out = (enum zmtp_mechanism)i;
            return 0;
        }
    }
    return -EPROTO;
}

static uint64_t big(const uint8_t *bytes, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++)
        value = value << 8 | bytes[i];
    return value;
}

int zmtp_read_header(const uint8_t *bytes, size_t n_bytes, struct zmtp_frame *out)
{
    if (n_bytes == 0)
        return 0;
    unsigned flags = bytes[0];
    if (flags & ~(unsigned)(FLAG_MORE | FLAG_LONG | FLAG_COMMAND) ||
        (flags & FLAG_MORE && flags & FLAG_COMMAND))
        return -EPROTO;
    size_t n_length = flags & FLAG_LONG ? 8 : 1;
    if (n_bytes < 1 + n_length)
        return 0;
    *out = (struct zmtp_frame){flags & FLAG_MORE, flags & FLAG_COMMAND, big(bytes + 1, n_length)};
    return (int)(1 + n_length);
}

size_t zmtp_put_header(const struct zmtp_frame *frame, uint8_t out[ZMTP_HEADER_MAX_BYTES])
{
    bool is_long = frame->n_body > 255;
    out[0] = (uint8_t)((frame->more ? FLAG_MORE : 0) | (is_long ? FLAG_LONG : 0) |
                       (frame->command ? FLAG_COMMAND : 0));
    if (!is_long) {
        out[1] = (uint8_t)frame->n_body;
        return 2;
    }
    for (int i = 0; i < 8; i++)
        out[1 + i] = (uint8_t)(frame->n_body >> (56 - 8 * i));
    return 9;
}

bool zmtp_is_command(const uint8_t *bytes, size_t n_bytes, const char *name, const uint8_t **rest,
                     size_t *n_rest)
{
    size_t n_name = strlen(name);
    if (n_bytes < 1 + n_name || bytes[0] != n_name || memcmp(bytes + 1, name, n_name) != 0)
        return false;
    *rest = bytes + 1 + n_name;
    *n_rest = n_bytes - 1 - n_name;
    return true;
}

size_t zmtp_put_command(const char *name, const uint8_t *rest, size_t n_rest,
                        uint8_t out[ZMTP_COMMAND_MAX])
{
    size_t n_name = strlen(name), n_body = 1 + n_name + n_rest;
    const struct zmtp_frame frame = {.command = true, .n_body = n_body};
    if (n_body > 255 || n_body + 2 > ZMTP_COMMAND_MAX)
        return 0;
    size_t n = zmtp_put_header(&frame, out);
    out[n++] = (uint8_t)n_name;
    memcpy(out + n, name, n_name);
    if (n_rest)
        memcpy(out + n + n_name, rest, n_rest);
    return n + n_name + n_rest;
}

size_t zmtp_put_metadata(const char *socket_type, uint8_t out[ZMTP_COMMAND_MAX])
{
    static const char name[] = "Socket-Type";
    size_t n = 0, n_type = strlen(socket_type);
    out[n++] = sizeof name - 1;
    memcpy(out + n, name, sizeof name - 1);
    n += sizeof name - 1;
    memset(out + n, 0, 3);
    out[n + 3] = (uint8_t)n_type;
    memcpy(out + n + 4, socket_type, n_type);
    return n + 4 + n_type;
}

int zmtp_find_property(const uint8_t *bytes, size_t n_bytes, const char *name, const uint8_t **out,
                       size_t *out_n)
{
    int result = -ENOENT;
    while (n_bytes) {
        size_t n_name = bytes[0];
        if (n_name == 0 || n_bytes < 1 + n_name + 4)
            return -EPROTO;
        uint64_t n_value = big(bytes + 1 + n_name, 4);
        if (n_value > n_bytes - 1 - n_name - 4)
            return -EPROTO;
        if (n_name == strlen(name) && strncasecmp((const char *)bytes + 1, name, n_name) == 0) {
            *out = bytes + 1 + n_name + 4;
            *out_n = (size_t)n_value;
            result = 0;
        }
        bytes += 1 + n_name + 4 + n_value;
        n_bytes -= 1 + n_name + 4 + (size_t)n_value;
    }
    return result;
}

static const char z85_letters[] =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

bool zmtp_key_from_text(const char *text, uint8_t out[ZMTP_KEY_BYTES])
{
    if (strlen(text) != ZMTP_KEY_CHARS)
        return false;
    for (size_t i = 0; i < ZMTP_KEY_CHARS / 5; i++) {
        uint64_t value = 0;
        for (size_t k = 0; k < 5; k++) {
            const char *letter = strchr(z85_letters, text[5 * i + k]);
            if (!letter)
                return false;
            value = value * 85 + (uint64_t)(letter - z85_letters);
        }
        if (value > UINT32_MAX)
            return false;
        for (size_t k = 0; k < 4; k++)
            out[4 * i + k] = (uint8_t)(value >> (24 - 8 * k));
    }
    return true;
}

void zmtp_key_to_text(const uint8_t key[ZMTP_KEY_BYTES], char out[ZMTP_KEY_CHARS + 1])
{
    for (size_t i = 0; i < ZMTP_KEY_BYTES / 4; i++) {
        uint64_t value = big(key + 4 * i, 4);
        for (size_t k = 5; k-- > 0; value /= 85)
            out[5 * i + k] = z85_letters[value % 85];
    }
    out[ZMTP_KEY_CHARS] = 0;
}
