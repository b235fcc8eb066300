/* SPDX-License-Identifier: Apache-2.0 */
/* A statement of GW_ASSERT that does not hold ends the program, where the build has GW_ASSERTS. */
#undef GW_ASSERTS
#define GW_ASSERTS 1

#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include <gpuwire/detail/held.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void state_truth(void)
{
    GW_ASSERT(1 + 1 == 2);
}

static void state_untruth(void)
{
    GW_ASSERT(1 + 1 == 3);
}

static void state_held(void)
{
    GW_ASSERT_HELD(&lock);
}

/* How a child ends that runs it: the signal, or 0. */
static int end_of(void (*what)(void))
{
    pid_t child = fork();
    int status;

    if (!child) {
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        what();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void *held_elsewhere(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)end_of(state_held);
}

static void statements(void **state)
{
    (void)state;
    assert_int_equal(end_of(state_truth), 0);
    assert_int_equal(end_of(state_untruth), SIGABRT);
}

static void locks(void **state)
{
    pthread_t other;
    void *signal_of;

    (void)state;
    assert_int_equal(end_of(state_held), SIGABRT);
    pthread_mutex_lock(&lock);
    state_held(); /* in this thread: a forked child has another number */
    assert_int_equal(pthread_create(&other, NULL, held_elsewhere, NULL), 0);
    pthread_join(other, &signal_of);
    pthread_mutex_unlock(&lock);
    assert_int_equal((intptr_t)signal_of, SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(statements), cmocka_unit_test(locks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
