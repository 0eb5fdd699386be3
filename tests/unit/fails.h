// SPDX-License-Identifier: Apache-2.0
// The n-th call of a library function fails, in a test of the option FAILS (tests/tests.cmake):
// what our objects call is wrapped, what libraries call themselves is not.
#ifndef POSED_TESTS_UNIT_FAILS_H
#define POSED_TESTS_UNIT_FAILS_H

// From now on the n-th call of `name` (fails.c lists them; "memory": whatever allocates) fails with
// errno `error`, the others do what they do. n = 0: none fails, they are counted. One thread.
void fails_at(const char *name, long n, int error);

// How many there were since; none is counted afterwards.
long fails_end(void);

#endif
