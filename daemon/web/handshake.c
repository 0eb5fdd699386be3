// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/handshake.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

static const char *const protocol_names[HANDSHAKE_N_PROTOCOLS] = {
    "foxglove.sdk.v1", "foxglove.websocket.v1", "posed.view.v1"};

static uint32_t rotate(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static void sha1_block(uint32_t h[5], const uint8_t block[64])
{
    static const uint32_t k[4] = {0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6};
    uint32_t w[80], s[5];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? (s[1] & s[2]) | (~s[1] & s[3])
                     : i < 40 ? s[1] ^ s[2] ^ s[3]
                     : i < 60 ? (s[1] & s[2]) | (s[1] & s[3]) | (s[2] & s[3])
                              : s[1] ^ s[2] ^ s[3];
        uint32_t t = rotate(s[0], 5) + f + s[4] + k[i / 20] + w[i];
        s[4] = s[3];
        s[3] = s[2];
        s[2] = rotate(s[1], 30);
        s[1] = s[0];
        s[0] = t;
    }
    for (int i = 0; i < 5; i++)
        h[i] += s[i];
}

// FIPS 180-4, for texts of 56 to 119 bytes: they take two blocks. The handshake's has 60.
static void sha1(const char *text, size_t n, uint8_t out[20])
{
    uint32_t h[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
    uint8_t blocks[128] = {0};
    memcpy(blocks, text, n);
    blocks[n] = 0x80;
    blocks[126] = (uint8_t)(8 * n >> 8);
    blocks[127] = (uint8_t)(8 * n);
    sha1_block(h, blocks);
    sha1_block(h, blocks + 64);
    for (int i = 0; i < 20; i++)
        out[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

bool handshake_accept(const char *key, char out[HANDSHAKE_ACCEPT_BYTES])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[24 + sizeof GUID];
    uint8_t hash[21] = {0};
    if (!key || strlen(key) != 24 || strspn(key, digits) != 22 || strcmp(key + 22, "==") != 0)
        return false;
    memcpy(text, key, 24);
    memcpy(text + 24, GUID, sizeof GUID);
    sha1(text, strlen(text), hash);
    for (int i = 0; i < 7; i++) {
        uint32_t bits =
            (uint32_t)hash[3 * i] << 16 | (uint32_t)hash[3 * i + 1] << 8 | hash[3 * i + 2];
        for (int j = 0; j < 4; j++)
            out[4 * i + j] = digits[bits >> (18 - 6 * j) & 63];
    }
    out[27] = '=';
    out[28] = 0;
    return true;
}

enum handshake_protocol handshake_choose(const char *offered)
{
    for (int i = 0; offered && i < HANDSHAKE_N_PROTOCOLS; i++)
        for (const char *s = offered; *(s += strspn(s, " ,\t"));) {
            size_t n = strcspn(s, " ,\t");
            if (n == strlen(protocol_names[i]) && memcmp(s, protocol_names[i], n) == 0)
                return (enum handshake_protocol)i;
            s += n;
        }
    return HANDSHAKE_N_PROTOCOLS;
}

const char *handshake_name(enum handshake_protocol protocol)
{
    return protocol_names[protocol];
}

bool handshake_host_is_local(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; host && i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(names[i]);
        if (strncasecmp(host, names[i], n) == 0 &&
            (host[n] == 0 ||
             (host[n] == ':' && strspn(host + n + 1, "0123456789") == strlen(host + n + 1))))
            return true;
    }
    return false;
}

bool handshake_origin_may(const char *origin, const char *allowed)
{
    if (!origin || strcmp(origin, "file://") == 0)
        return true;
    for (const char *scheme = "http://"; scheme; scheme = scheme[4] == 's' ? NULL : "https://")
        if (strncasecmp(origin, scheme, strlen(scheme)) == 0 &&
            handshake_host_is_local(origin + strlen(scheme)))
            return true;
    for (const char *s = allowed; *(s += strspn(s, " ,"));) {
        size_t n = strcspn(s, " ,");
        if (n == strlen(origin) && strncasecmp(s, origin, n) == 0)
            return true;
        s += n;
    }
    return false;
}
