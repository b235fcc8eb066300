/* SPDX-License-Identifier: Apache-2.0 */
/* The page never reads half of one request and half of another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "apps/faceverify/recent.h"

enum { WRITES = 400000 };

static struct face_recent recent;
static bool done;

static void fill(struct face_recent_one *one, uint64_t n)
{
    memset(one, 0, sizeof(*one));
    for (int i = 0; i < FACE_POINTS; i++) one->ns[i] = n;
    one->server = (uint32_t)n;
    one->name_len = FACE_NAME_MAX;
    memset(one->name, (int)(n & 0x7f), FACE_NAME_MAX);
}

static void *write_all(void *arg)
{
    struct face_recent_pen pen = {0};
    struct face_recent_one one;
    for (uint64_t n = 0; n < WRITES; n++) {
        fill(&one, n);
        face_recent_write(&recent, &pen, &one, n * FACE_RECENT_NS);
    }
    __atomic_store_n(&done, true, __ATOMIC_RELEASE);
    return arg;
}

static void no_request_is_torn(void **state)
{
    (void)state;
    pthread_t writer;
    uint64_t read = 0;
    assert_int_equal(pthread_create(&writer, NULL, write_all, NULL), 0);
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
        for (uint32_t i = 0; i < FACE_RECENT; i++) {
            struct face_recent_one one, must;
            if (!face_recent_read(&recent, i, &one)) continue;
            fill(&must, one.turn / 2 - 1);
            must.turn = one.turn;
            assert_memory_equal(&one, &must, sizeof(one));
            assert_int_equal((one.turn / 2 - 1) % FACE_RECENT, i);
            read++;
        }
    pthread_join(writer, NULL);
    print_message("%llu read\n", (unsigned long long)read);
    assert_true(read > 0);
}

static void a_block_writes_rarely(void **state)
{
    (void)state;
    struct face_recent_pen pen = {0};
    struct face_recent_one one;
    memset(&recent, 0, sizeof(recent));
    fill(&one, 1);
    for (int i = 0; i < 100; i++) face_recent_write(&recent, &pen, &one, 1000);
    assert_int_equal(pen.count, FACE_RECENT_BURST + 1);
    assert_int_equal(face_recent_read(&recent, FACE_RECENT_BURST, &one), 1);
    assert_int_equal(face_recent_read(&recent, FACE_RECENT_BURST + 1, &one), 0);
    for (uint64_t i = 1; i <= 10; i++) face_recent_write(&recent, &pen, &one, 1000 + i * FACE_RECENT_NS / 2);
    assert_int_equal(pen.count, FACE_RECENT_BURST + 1 + 5);
}

static void a_hostile_entry_is_not_taken(void **state)
{
    (void)state;
    struct face_recent_pen pen = {0};
    struct face_recent_one one;
    memset(&recent, 0, sizeof(recent));
    fill(&one, 1);
    one.name_len = FACE_NAME_MAX + 1;
    face_recent_write(&recent, &pen, &one, 1);
    assert_int_equal(face_recent_read(&recent, 0, &one), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_request_is_torn),
        cmocka_unit_test(a_block_writes_rarely),
        cmocka_unit_test(a_hostile_entry_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
