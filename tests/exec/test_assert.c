/* SPDX-License-Identifier: Apache-2.0 */
/* A statement of GW_ASSERT that does not hold ends the program, where the build has GW_ASSERTS. */
#undef GW_ASSERTS
#define GW_ASSERTS 1

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include <gpuwire/detail/held.h>

#include "tests/exec/dies.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void state_truth(void *arg)
{
    (void)arg;
    GW_ASSERT(1 + 1 == 2);
}

static void state_untruth(void *arg)
{
    (void)arg;
    GW_ASSERT(1 + 1 == 3);
}

static void state_held(void *arg)
{
    (void)arg;
    GW_ASSERT_HELD(&lock);
}

static void state_held_by_itself(void *arg)
{
    pthread_mutex_lock(&lock);
    state_held(arg);
}

static void *held_elsewhere(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)dies_of(state_held, NULL, "test_assert.c:", "this thread holds &lock");
}

static void statements(void **state)
{
    char line[256];

    (void)state;
    assert_false(dies(state_truth, NULL, line));
    assert_true(dies_of(state_untruth, NULL, "test_assert.c:", "not so: 1 + 1 == 3"));
}

static void locks(void **state)
{
    pthread_t other;
    void *died;
    char line[256];

    (void)state;
    assert_true(dies_of(state_held, NULL, "test_assert.c:", "this thread holds &lock"));
    assert_false(dies(state_held_by_itself, NULL, line)); /* a forked child has a number of its own */
    pthread_mutex_lock(&lock);
    state_held(NULL);
    assert_int_equal(pthread_create(&other, NULL, held_elsewhere, NULL), 0);
    pthread_join(other, &died);
    pthread_mutex_unlock(&lock);
    assert_true(died);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(statements), cmocka_unit_test(locks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
