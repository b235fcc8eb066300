/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A NIC's register may be mapped write-combining. A store to it does not wait for the stores before, and
 * stays in the processor until the buffer is flushed. So CPU threads flush before a ring, for the doorbell
 * record, and after it. Here the library's own code runs with loads, stores and flushes that write down what
 * they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <gpuwire/sync.h>

static char done[16]; /* d: a word of a doorbell record; f: a flush; r: a register */

static void note(char what)
{
    size_t n = strlen(done);

    if (n + 1 < sizeof(done)) done[n] = what;
}

static uint32_t record[2];

static void noted_st32(void *p, uint32_t v)
{
    if (p == &record[0] || p == &record[1]) note('d');
    gw_st_relaxed_u32(p, v);
}

static void noted_release_st32(void *p, uint32_t v)
{
    if (p == &record[0] || p == &record[1]) note('d');
    gw_st_release_u32(p, v);
}

static void noted_mmio(void *reg, uint64_t v)
{
    note('r');
    gw_mmio_st64(reg, v);
}

static void noted_flush(void)
{
    note('f');
    gw_mmio_flush();
}

#define gw_st_relaxed_u32 noted_st32
#define gw_st_release_u32 noted_release_st32
#define gw_mmio_st64      noted_mmio
#define gw_mmio_flush     noted_flush
#include "src/verbs/doorbell.c"
#include "src/verbs/native.c"
#undef gw_st_relaxed_u32
#undef gw_st_release_u32
#undef gw_mmio_st64
#undef gw_mmio_flush

static int begin(void **state)
{
    (void)state;
    memset(done, 0, sizeof(done));
    memset(record, 0, sizeof(record));
    return 0;
}

static void a_send_queue_is_rung_for(void **state)
{
    uint64_t reg = 0;
    struct gw_sq_ q = {.dbrec = record, .db = &reg, .flags = GW_DB_IO_};

    (void)state;
    gw_sq_doorbell_(&q, 5);
    assert_string_equal(done, "dfrf");
    begin(state);
    q.flags = 0; /* plain memory: a NIC in the process */
    gw_sq_doorbell_(&q, 6);
    assert_string_equal(done, "dr");
}

static void a_completion_queue_is_armed(void **state)
{
    uint64_t page[8] = {0};
    struct native_cq n = {.uar = page, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct gw_cq_handle *handle = gw_new(sizeof(*handle));
    struct gw_cq cq = {.own = &n, .handle = handle, .dbrec = record, .cqn = 3};

    (void)state;
    assert_non_null(handle);
    native_cq_arm(&cq);
    assert_string_equal(done, "dfrf");
    native_cq_arm(&cq); /* it is */
    assert_string_equal(done, "dfrf");
    free(handle);
}

static void rang(struct gw_device *dev)
{
    (void)dev;
}

/* The record was written by a kernel, before the mailbox. */
static void the_proxy_rings(void **state)
{
    static const struct gw_device_ops ops = {.rang = rang};
    uint64_t mailbox = 7, reg = 0;
    struct gw_route route = {&mailbox, &reg};
    struct gw_device dev = {.ops = &ops};
    struct gw_proxy p = {.lock = PTHREAD_MUTEX_INITIALIZER, .dev = &dev, .routes = &route, .count = 1};

    (void)state;
    pthread_mutex_lock(&p.lock);
    assert_true(gw_doorbell_round(&p));
    assert_string_equal(done, "frf");
    assert_int_equal(reg, 7);
    assert_false(gw_doorbell_round(&p));
    assert_string_equal(done, "frf");
    pthread_mutex_unlock(&p.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(a_send_queue_is_rung_for, begin),
                                       cmocka_unit_test_setup(a_completion_queue_is_armed, begin),
                                       cmocka_unit_test_setup(the_proxy_rings, begin)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
