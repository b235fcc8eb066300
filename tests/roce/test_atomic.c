/* SPDX-License-Identifier: Apache-2.0 */
/* Masked atomics against a model that goes bit by bit, as the hardware's description does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "src/roce/atomic.h"
#include "tests/rnd.h"

/* A chain of one-bit adders whose carry is cut above each boundary. */
static uint64_t add_by_bits(uint64_t value, uint64_t add, uint64_t boundary)
{
    uint64_t sum = 0;
    unsigned carry = 0;

    for (int i = 0; i < 64; i++) {
        unsigned three = (unsigned)(value >> i & 1) + (unsigned)(add >> i & 1) + carry;

        sum |= (uint64_t)(three & 1) << i;
        carry = boundary >> i & 1 ? 0 : three >> 1;
    }
    return sum;
}

static uint64_t swap_by_bits(uint64_t value, uint64_t swap, uint64_t compare, uint64_t swap_mask,
                             uint64_t compare_mask)
{
    uint64_t out = 0;

    for (int i = 0; i < 64; i++)
        if (compare_mask >> i & 1 && (value >> i & 1) != (compare >> i & 1)) return value;
    for (int i = 0; i < 64; i++) out |= ((swap_mask >> i & 1 ? swap : value) >> i & 1) << i;
    return out;
}

/* Dense, sparse, and long runs of ones, where carries go far. */
static uint64_t draw(struct rnd *r)
{
    uint64_t v = rnd64(r);

    switch (rnd_below(r, 5)) {
    case 0: return v;
    case 1: return v & rnd64(r) & rnd64(r) & rnd64(r);
    case 2: return v | rnd64(r) | rnd64(r) | rnd64(r);
    case 3: return UINT64_MAX << rnd_below(r, 64);
    default: return rnd_below(r, 2) ? 0 : UINT64_MAX;
    }
}

static void adds_by_fields(void **state)
{
    struct rnd r = {1};

    (void)state;
    for (int i = 0; i < 200000; i++) {
        uint64_t value = draw(&r), add = draw(&r), boundary = draw(&r);

        assert_true(roce_masked_add(value, add, boundary) == add_by_bits(value, add, boundary));
        assert_true(roce_masked_add(value, add, 0) == value + add);
        assert_true(roce_masked_add(value, add, 1ull << 63) == value + add);
        assert_true(roce_masked_add(value, add, UINT64_MAX) == (value ^ add));
    }
    /* Two fields of 32 bits: neither affects the other. */
    assert_true(roce_masked_add(0x00000001ffffffff, 0x0000000200000001, 0x80000000) == 0x0000000300000000);
}

static void swaps_under_masks(void **state)
{
    struct rnd r = {2};
    uint32_t swapped = 0;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        uint64_t value = draw(&r), swap = draw(&r), swap_mask = draw(&r), compare_mask = draw(&r), got;
        uint64_t compare = rnd_below(&r, 2) ? draw(&r) : value ^ (draw(&r) & ~compare_mask);

        got = roce_masked_swap(value, swap, compare, swap_mask, compare_mask);
        assert_true(got == swap_by_bits(value, swap, compare, swap_mask, compare_mask));
        swapped += got != value;
    }
    assert_in_range(swapped, 20000, 180000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adds_by_fields),
        cmocka_unit_test(swaps_under_masks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
