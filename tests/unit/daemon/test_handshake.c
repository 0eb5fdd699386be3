// SPDX-License-Identifier: Apache-2.0
// The opening handshake: the RFC's own example and others by openssl, protocols, and which hosts
// and origins are this machine's.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/web/handshake.h"

// openssl dgst -sha1 -binary of the key and the GUID, base64.
static void keys(void **state)
{
    (void)state;
    static const char *const good[][2] = {
        {"dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="}, // RFC 6455, 1.3
        {"AAAAAAAAAAAAAAAAAAAAAA==", "ICX+Yqv66kxgM0FcWaLWlFLwTAI="},
        {"/////////////////////w==", "XXpj4jYzLM2yUE0C7TIgMwTQh2g="},
    };
    static const char *const bad[] = {"",
                                      "dGhlIHNhbXBsZSBub25jZQ=",
                                      "dGhlIHNhbXBsZSBub25jZQ===",
                                      "dGhlIHNhbXBsZSBub25jZQ=a",
                                      "dGhlIHNhbXBsZSBub25jZQa=",
                                      "dGhlIHNhbXBsZSBub25jZQaa",
                                      "dGhlIHNhbXBsZSBub25jZ===",
                                      "dGhlIHNhbXBs SBub25jZQ=="};
    char out[HANDSHAKE_ACCEPT_BYTES];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(handshake_accept(good[i][0], out));
        assert_string_equal(out, good[i][1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(handshake_accept(bad[i], out));
    assert_false(handshake_accept(NULL, out));
}

static void protocols(void **state)
{
    (void)state;
    assert_int_equal(handshake_choose("posed.view.v1"), HANDSHAKE_VIEW);
    assert_int_equal(handshake_choose("a, foxglove.websocket.v1 ,foxglove.sdk.v1"),
                     HANDSHAKE_FOXGLOVE_SDK); // the first of ours, not of theirs
    assert_int_equal(handshake_choose("foxglove.sdk.v11"), HANDSHAKE_N_PROTOCOLS);
    assert_int_equal(handshake_choose("foxglove.sdk.v"), HANDSHAKE_N_PROTOCOLS);
    assert_int_equal(handshake_choose(""), HANDSHAKE_N_PROTOCOLS);
    assert_int_equal(handshake_choose(NULL), HANDSHAKE_N_PROTOCOLS);
    assert_string_equal(handshake_name(HANDSHAKE_FOXGLOVE), "foxglove.websocket.v1");
}

static void hosts(void **state)
{
    (void)state;
    static const char *const ours[] = {"localhost", "LOCALHOST",    "localhost:8080",
                                       "127.0.0.1", "127.0.0.1:80", "[::1]:5577",
                                       "[::1]",     "localhost:"};
    static const char *const others[] = {"",           "localhost.evil.org", "localhost5",
                                         "127.0.0.12", "localhost:80.org",   "xlocalhost",
                                         "[::1]x",     "127.0.0.1:80@evil",  "localhos"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        assert_true(handshake_host_is_local(ours[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(handshake_host_is_local(others[i]));
    assert_false(handshake_host_is_local(NULL));
}

static void origins(void **state)
{
    (void)state;
    const char *allowed = "https://app.example.org, http://robot:9000";
    static const char *const may[] = {"file://", "http://localhost:8080", "https://127.0.0.1",
                                      "https://app.example.org", "HTTP://robot:9000"};
    static const char *const may_not[] = {"https://app.example.or",
                                          "https://app.example.org.evil",
                                          "http://robot:90001",
                                          "http://robot:900",
                                          "http://localhost.evil",
                                          "ftp://localhost",
                                          "null",
                                          "",
                                          "file:///x"};
    assert_true(handshake_origin_may(NULL, ""));
    for (size_t i = 0; i < sizeof may / sizeof *may; i++)
        assert_true(handshake_origin_may(may[i], allowed));
    for (size_t i = 0; i < sizeof may_not / sizeof *may_not; i++)
        assert_false(handshake_origin_may(may_not[i], allowed));
    assert_false(handshake_origin_may("https://app.example.org", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys), cmocka_unit_test(protocols),
                                       cmocka_unit_test(hosts), cmocka_unit_test(origins)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
