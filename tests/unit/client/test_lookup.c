// SPDX-License-Identifier: Apache-2.0
// A host's name is looked up within the time that is given, also where no name server answers: here
// getaddrinfo is this test's.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <netdb.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>

#include "proto/clock.h"
#include "tools/client/lookup.h"

static sem_t release, is_through;

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **out);
int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **out);

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **out)
{
    if (strcmp(host, "unknown") == 0)
        return EAI_NONAME;
    const bool is_slow = strcmp(host, "slow") == 0;
    if (is_slow)
        sem_wait(&release);
    int error = __real_getaddrinfo("127.0.0.1", port, hints, out);
    if (is_slow)
        sem_post(&is_through);
    return error;
}

static void names(void **state)
{
    (void)state;
    struct sockaddr_storage found;
    socklen_t n = 0;
    assert_int_equal(lookup_host("here", "5573", AF_INET, 60000, &found, &n), 0);
    assert_int_equal(n, sizeof(struct sockaddr_in));
    const struct sockaddr_in *address = (const void *)&found;
    assert_int_equal(ntohs(address->sin_port), 5573);
    assert_int_equal(ntohl(address->sin_addr.s_addr), INADDR_LOOPBACK);
    assert_int_equal(lookup_host("unknown", "5573", AF_INET, 60000, &found, &n), ENOENT);
}

static void no_name_server(void **state)
{
    (void)state;
    struct sockaddr_storage found;
    socklen_t n = 0;
    const int64_t start_ns = clock_monotonic_ns();
    assert_int_equal(lookup_host("slow", "5573", AF_INET, 20, &found, &n), ETIMEDOUT);
    assert_true(clock_monotonic_ns() - start_ns >= 20000000);
    assert_int_equal(n, 0);
    sem_post(&release); // what comes late is nobody's, and is freed by the one who has it
    sem_wait(&is_through);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(no_name_server)};
    sem_init(&release, 0, 0);
    sem_init(&is_through, 0, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
