// SPDX-License-Identifier: Apache-2.0
// What the log says of clients that are refused for their keys: what to do, and once in a while.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/zmtp/refusals.h"
#include "tests/unit/scratch.h"

#define S INT64_C(1000000000)

static struct scratch said;
static struct log_sink log_sink;

static struct curve_keys keys = {.clients_file = "/etc/posed/clients"};
static const struct zmtp_rules rules = {.keys = &keys}, plain_rules = {0};

static int setup(void **state)
{
    (void)state;
    said = (struct scratch){.worst = LOG_LEVEL_DEBUG};
    log_sink = scratch_log(&said);
    memset(keys.public, 7, sizeof keys.public);
    return 0;
}

// A client whose key is so many times `letter`, refused in that state of the handshake.
static struct zmtp_session refused(const struct zmtp_rules *of, enum zmtp_state at, uint8_t letter)
{
    struct zmtp_session session = {.rules = of, .state = at};
    memset(session.curve.client, letter, sizeof session.curve.client);
    return session;
}

static void what_to_do(void **state)
{
    (void)state;
    char ours[ZMTP_KEY_CHARS + 1], theirs[ZMTP_KEY_CHARS + 1], wanted[200];
    struct refusals refusals = {0};
    struct zmtp_session session = refused(&rules, ZMTP_INITIATE, 9);
    zmtp_key_to_text(keys.public, ours);
    zmtp_key_to_text(session.curve.client, theirs);
    refusals_tell(&refusals, &session, "req", "10.0.0.7", S, &log_sink);
    snprintf(wanted, sizeof wanted,
             "req: a client at 10.0.0.7 was refused: its public key %s is not in "
             "/etc/posed/clients (endpoints.curve_clients_file)",
             theirs);
    assert_true(scratch_said(&said, wanted));
    assert_true(scratch_said(&said, "systemctl reload posed"));

    snprintf(wanted, sizeof wanted, "needs --server-key '%s'", ours);
    session = refused(&rules, ZMTP_HELLO, 0);
    refusals_tell(&refusals, &session, "req", "10.0.0.7", S, &log_sink);
    assert_true(scratch_said(&said, "another key"));
    assert_true(scratch_said(&said, wanted));

    session = refused(&rules, ZMTP_GREETING, 0);
    refusals_tell(&refusals, &session, "req", "10.0.0.7", S, &log_sink);
    assert_true(scratch_said(&said, "does not encrypt"));
    assert_true(scratch_said(&said, wanted));

    session = refused(&plain_rules, ZMTP_GREETING, 0);
    refusals_tell(&refusals, &session, "req", "10.0.0.8", S, &log_sink);
    assert_true(scratch_said(&said, "this posed has no key (endpoints.curve_secret_key_file)"));

    session = refused(&rules, ZMTP_TRAFFIC, 9);
    refusals_tell(&refusals, &session, "req", "10.0.0.7", S, &log_sink);
    snprintf(wanted, sizeof wanted, "its public key %s is no longer in /etc/posed/clients", theirs);
    assert_true(scratch_said(&said, wanted));
    assert_int_equal(said.n_lines, 5);
    assert_int_equal(said.worst, LOG_LEVEL_WARNING);
}

static void once_in_a_while(void **state)
{
    (void)state;
    struct refusals refusals = {0};
    struct zmtp_session session = refused(&rules, ZMTP_INITIATE, 1);
    for (int i = 0; i < 590; i++)
        refusals_tell(&refusals, &session, "req", "10.0.0.7", S + i * S / 10, &log_sink);
    assert_int_equal(said.n_lines, 1);
    refusals_tell(&refusals, &session, "pub", "10.0.0.7", S, &log_sink);
    refusals_tell(&refusals, &session, "req", "10.0.0.8", S, &log_sink);
    session.curve.client[3]++;
    refusals_tell(&refusals, &session, "req", "10.0.0.7", S, &log_sink);
    assert_int_equal(said.n_lines, 4);
    refusals_tell(&refusals, &session, "req", "10.0.0.7", 61 * S, &log_sink);
    assert_int_equal(said.n_lines, 5);
}

// Whoever comes with a new key each time does not fill the log.
static void so_many_and_no_more(void **state)
{
    (void)state;
    struct refusals refusals = {0};
    for (int i = 0; i < 200; i++) {
        const struct zmtp_session session = refused(&rules, ZMTP_INITIATE, (uint8_t)i);
        refusals_tell(&refusals, &session, "req", "10.0.0.7", S + i, &log_sink);
    }
    assert_int_equal(said.n_lines, REFUSALS_KEPT);
    const struct zmtp_session session = refused(&rules, ZMTP_INITIATE, 255);
    refusals_tell(&refusals, &session, "req", "10.0.0.7", 62 * S, &log_sink);
    assert_int_equal(said.n_lines, REFUSALS_KEPT + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_to_do, setup),
        cmocka_unit_test_setup(once_in_a_while, setup),
        cmocka_unit_test_setup(so_many_and_no_more, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
