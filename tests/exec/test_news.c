/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How threads sleep on a count of news: no thread sleeps through news, and where none sleeps there is no
 * call. The futex calls of the library come here first (--wrap=syscall), so that races are made on purpose.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/exec/cpu.h"
#include "src/exec/helper.h"

#define SECOND 1000000000ull
#define LONG   (600 * SECOND) /* a wait that lasts ten minutes is lost */

static uint32_t news, sleepers;
static uint32_t waits, wakes, slept_through; /* calls; waits that ended by time although there were news */
static struct timespec last;                 /* how long the last wait was to be */
static void (*before_wait)(void), (*before_wake)(void);

long __real_syscall(long number, ...);
long __wrap_syscall(long number, uint32_t *word, int op, uint32_t value, const struct timespec *t,
                    void *word2, uint32_t value3);
long __wrap_syscall(long number, uint32_t *word, int op, uint32_t value, const struct timespec *t,
                    void *word2, uint32_t value3)
{
    long result;

    if (number != SYS_futex) return __real_syscall(number, word, op, value, t, word2, value3);
    if (op == FUTEX_WAKE_PRIVATE) {
        __atomic_add_fetch(&wakes, 1, __ATOMIC_SEQ_CST);
        if (before_wake) before_wake();
        return __real_syscall(number, word, op, value, t, word2, value3);
    }
    __atomic_add_fetch(&waits, 1, __ATOMIC_SEQ_CST);
    if (t) last = *t;
    if (before_wait) before_wait();
    result = __real_syscall(number, word, op, value, t, word2, value3);
    if (result < 0 && errno == ETIMEDOUT && gw_ld_acquire_u32(word) != value)
        __atomic_add_fetch(&slept_through, 1, __ATOMIC_SEQ_CST);
    return result;
}

static int start(void **state)
{
    (void)state;
    news = sleepers = waits = wakes = slept_through = 0;
    before_wait = before_wake = NULL;
    return 0;
}

static void tell(void)
{
    gw_news_tell(&news, &sleepers);
}

/* ---- one thread ---------------------------------------------------------------------------------------- */

static void without_sleepers_there_is_no_call(void **state)
{
    (void)state;
    tell();
    tell();
    assert_int_equal(news, 2);
    assert_int_equal(wakes, 0);
}

static void a_sleeper_is_counted(void)
{
    assert_int_equal(sleepers, 1);
}

static void sleepers_are_counted_before_they_sleep(void **state)
{
    (void)state;
    before_wait = a_sleeper_is_counted;
    gw_news_wait(&news, &sleepers, 0, gw_deadline(1000000));
    assert_int_equal(waits, 1);
    assert_int_equal(sleepers, 0);
}

/* The news come when the thread has looked and is about to sleep: it does not. */
static void news_at_the_last_moment(void **state)
{
    (void)state;
    before_wait = tell;
    for (uint32_t seen = 0; seen < 100; seen++) gw_news_wait(&news, &sleepers, seen, gw_deadline(LONG));
    assert_int_equal(news, 100);
    assert_int_equal(wakes, 100); /* the sleeper was seen */
    assert_int_equal(slept_through, 0);
}

/* And where they came before the look. */
static void news_before(void **state)
{
    (void)state;
    tell();
    gw_news_wait(&news, &sleepers, 0, gw_deadline(LONG));
    assert_int_equal(slept_through, 0);
}

static void sleeps_have_an_end(void **state)
{
    (void)state;
    before_wait = tell;
    gw_news_wait(&news, &sleepers, 0, gw_deadline(LONG));
    assert_int_equal(last.tv_sec, 1); /* it looks again now and then */
    assert_int_equal(last.tv_nsec, 0);
    gw_news_wait(&news, &sleepers, 1, gw_deadline(SECOND / 4));
    assert_int_equal(last.tv_sec, 0);
    assert_true(last.tv_nsec > 0 && last.tv_nsec <= (long)SECOND / 4);
    gw_news_wait(&news, &sleepers, 2, gw_clock_ns() - 1);
    assert_int_equal(last.tv_sec + last.tv_nsec, 0);
    assert_int_equal(sleepers, 0);
}

/* ---- several ------------------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 1000 };
static uint32_t answers[THREADS], answer_news, answer_sleepers;

/* Answers each of the news. */
static void *answer(void *arg)
{
    uint32_t *mine = arg;

    for (uint32_t seen = 0; seen < ROUNDS;) {
        uint32_t now = gw_ld_acquire_u32(&news);

        if (now == seen) {
            gw_news_wait(&news, &sleepers, seen, gw_deadline(LONG));
            continue;
        }
        seen = now;
        gw_st_release_u32(mine, seen);
        gw_news_tell(&answer_news, &answer_sleepers);
    }
    return NULL;
}

static bool all_answered(uint32_t round)
{
    for (int i = 0; i < THREADS; i++)
        if (gw_ld_acquire_u32(&answers[i]) != round) return false;
    return true;
}

static void no_thread_sleeps_through_news(void **state)
{
    pthread_t thread[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, answer, &answers[i]), 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        tell();
        for (;;) {
            uint32_t seen = gw_ld_acquire_u32(&answer_news);

            if (all_answered(round)) break;
            gw_news_wait(&answer_news, &answer_sleepers, seen, gw_deadline(LONG));
        }
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    assert_int_equal(slept_through, 0);
    assert_int_equal(sleepers + answer_sleepers, 0);
}

/* ---- a helper's ---------------------------------------------------------------------------------------- */

static bool helper_look(void *arg)
{
    (void)arg;
    return false;
}

static struct gw_helper helper;

static int helper_make(void **state)
{
    struct gw_exec_opts opts = {.lanes = 1, .blocks = 1};
    struct gw_exec *exec;

    start(state);
    if (gw_exec_create("cpu", &opts, &exec) || gw_helper_init(&helper, exec, helper_look, NULL)) return -1;
    gw_exec_destroy(exec);
    return 0;
}

static int helper_end(void **state)
{
    (void)state;
    gw_helper_stop(&helper);
    return 0;
}

static void helper_tell_now(void)
{
    gw_helper_tell(&helper);
}

static void a_helper_tells_those_who_wait(void **state)
{
    (void)state;
    before_wait = helper_tell_now;
    gw_helper_wait(&helper, gw_helper_news(&helper), gw_deadline(LONG));
    assert_int_equal(waits, 1);
    assert_int_equal(gw_helper_news(&helper), 1);
    assert_int_equal(slept_through, 0);
}

/* News that came before a thread waits for descriptors, too: it looks again, and does not wait. */
static void polling_threads_see_earlier_news(void **state)
{
    struct pollfd fds[2] = {{0}, {.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN}};
    uint32_t seen = gw_helper_news(&helper);

    (void)state;
    gw_helper_tell(&helper);
    fds[1].revents = 0;
    gw_helper_poll(&helper, seen, fds, 2, gw_deadline(LONG));
    assert_int_equal(fds[1].revents, 0);
    assert_int_equal(helper.pollers, 0);
    assert_int_equal(eventfd_write(fds[1].fd, 1), 0);
    gw_helper_poll(&helper, gw_helper_news(&helper), fds, 2, gw_deadline(LONG));
    assert_int_equal(fds[1].revents, POLLIN);
    close(fds[1].fd);
}

static uint32_t polled; /* threads that have returned */

static void *poll_once(void *arg)
{
    struct pollfd fds[1];

    (void)arg;
    while (!gw_helper_news(&helper)) gw_helper_poll(&helper, 0, fds, 1, gw_deadline(LONG));
    __atomic_add_fetch(&polled, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void all_polling_threads_are_told(void **state)
{
    pthread_t thread[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, poll_once, NULL), 0);
    while (gw_ld_acquire_u32(&helper.pollers) < THREADS) usleep(1000);
    gw_helper_tell(&helper);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    assert_int_equal(polled, THREADS);
    assert_int_equal(helper.pollers, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_sleepers_there_is_no_call, start),
        cmocka_unit_test_setup(sleepers_are_counted_before_they_sleep, start),
        cmocka_unit_test_setup(news_at_the_last_moment, start),
        cmocka_unit_test_setup(news_before, start),
        cmocka_unit_test_setup(sleeps_have_an_end, start),
        cmocka_unit_test_setup(no_thread_sleeps_through_news, start),
        cmocka_unit_test_setup_teardown(a_helper_tells_those_who_wait, helper_make, helper_end),
        cmocka_unit_test_setup_teardown(polling_threads_see_earlier_news, helper_make, helper_end),
        cmocka_unit_test_setup_teardown(all_polling_threads_are_told, helper_make, helper_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
