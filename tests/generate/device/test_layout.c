/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler's records: each lies in memory of its own, and numbers out of bounds are named. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "src/generate/device/device.h"

static const struct gen_device_shape usual = {.sessions = 5,
                                              .slots = 3,
                                              .depth = 8,
                                              .requests = 40,
                                              .lanes = 7,
                                              .pages = 33,
                                              .context = 100,
                                              .vocab = 1001,
                                              .size = {1, 8, 64},
                                              .sizes = 3};

/* Fills n bytes, which must be zeros: no other record has them. */
static void fill(void *at, uint64_t n, const uint8_t *from, uint64_t size)
{
    uint8_t *p = at;
    assert_true(p >= from && p + n <= from + size);
    for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(p[i], 0);
        p[i] = 1;
    }
}

static void records_do_not_overlap(void **state)
{
    (void)state;
    struct gen_device_bytes b;
    struct gen_args a;
    struct gen_step s;
    assert_int_equal(gen_device_bytes(&usual, &b), 0);
    uint8_t *host = calloc(1, b.host), *dev = calloc(1, b.dev);
    gen_device_place(&usual, host, dev, &a, &s);
    fill(a.board, sizeof(*a.board), host, b.host);
    fill(a.notice, 5 * sizeof(*a.notice), host, b.host);
    fill((void *)(uintptr_t)a.change, (a.change_mask + 1) * 4, host, b.host);
    fill(a.session, 5 * sizeof(*a.session), dev, b.dev);
    fill(a.work, sizeof(*a.work), dev, b.dev);
    fill(a.job, 40 * sizeof(*a.job), dev, b.dev);
    fill(a.heap, 40 * sizeof(*a.heap), dev, b.dev);
    fill(a.token, 40 * 100 * 4, dev, b.dev);
    fill(a.bias, 40 * GEN_MAX_BIAS * sizeof(*a.bias), dev, b.dev);
    fill(a.slot, 5 * 3 * 4, dev, b.dev);
    fill(a.lane, 7 * sizeof(*a.lane), dev, b.dev);
    fill(a.page, 33 * sizeof(*a.page), dev, b.dev);
    fill(a.bucket, (a.bucket_mask + 1) * 4, dev, b.dev);
    fill(a.count, 7 * 1001 * 4, dev, b.dev);
    fill(a.sample, 7 * sizeof(*a.sample), dev, b.dev);
    fill(a.step, sizeof(*a.step), dev, b.dev);
    fill(s.token, 64 * 4, dev, b.dev);
    fill(s.position, 64 * 4, dev, b.dev);
    fill(s.lane, 64 * 4, dev, b.dev);
    fill(s.run, 64 * sizeof(*s.run), dev, b.dev);
    fill(s.out, 7 * 4, dev, b.dev);
    fill(s.page, 7 * 7 * 4, dev, b.dev);
    assert_int_equal(s.lane_pages, 7); /* 100 tokens of 16 each */
    assert_true(a.bucket_mask + 1 >= 33 && a.change_mask + 1 >= 10);
    free(host);
    free(dev);
}

static void bounds_are_named(void **state)
{
    (void)state;
    struct gen_device_bytes b;
    struct gen_device_shape s = usual;
    s.lanes = GEN_MAX_LANES + 1;
    assert_int_equal(gen_device_bytes(&s, &b), -EINVAL);
    assert_non_null(strstr(gw_last_error(), "lanes"));
    s = usual;
    s.size[1] = 64; /* not ascending */
    assert_int_equal(gen_device_bytes(&s, &b), -EINVAL);
    s = usual;
    s.fixed = true; /* 33 pages are not 7 lanes of 7 */
    assert_int_equal(gen_device_bytes(&s, &b), -EINVAL);
    s.pages = 49;
    assert_int_equal(gen_device_bytes(&s, &b), 0);
}

/* The list of changes takes no entry before the kernel has read the one in its place. */
static void changes_wait_for_the_kernel(void **state)
{
    (void)state;
    struct gen_board board = {.changes = UINT32_MAX - 1, .taken = UINT32_MAX - 1};
    uint32_t change[4] = {0};
    for (uint32_t i = 0; i < 4; i++) assert_true(gen_device_tell(&board, change, 3, 10 + i));
    assert_false(gen_device_tell(&board, change, 3, 20));
    assert_int_equal(change[(UINT32_MAX - 1) & 3], 10);
    board.taken++;
    assert_true(gen_device_tell(&board, change, 3, 20));
    assert_int_equal(change[(UINT32_MAX - 1) & 3], 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_do_not_overlap),
        cmocka_unit_test(bounds_are_named),
        cmocka_unit_test(changes_wait_for_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
