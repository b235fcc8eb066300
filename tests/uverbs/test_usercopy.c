/* SPDX-License-Identifier: Apache-2.0 */
/* Pointers that lead nowhere are errors, not signals. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "softnic/mem/usercopy.h"
#include "tests/apart.h"

#define PAGE 4096

/* Four pages: writable, hole, read-only, without permission. */
static unsigned char *layout(void)
{
    unsigned char *p = map_apart(4 * PAGE);
    assert_non_null(p);
    assert_int_equal(munmap(p + PAGE, PAGE), 0);
    assert_int_equal(mprotect(p + 2 * PAGE, PAGE, PROT_READ), 0);
    assert_int_equal(mprotect(p + 3 * PAGE, PAGE, PROT_NONE), 0);
    return p;
}

static void test_copies(void **state)
{
    (void)state;
    unsigned char *p = layout(), buf[64];
    uint64_t at = (uintptr_t)p;

    memset(p, 7, 64);
    assert_int_equal(uv_copy_in(buf, at, 64), 0);
    assert_int_equal(buf[63], 7);
    assert_int_equal(uv_copy_in(buf, at + PAGE - 32, 64), -EFAULT);
    assert_int_equal(uv_copy_in(buf, at + PAGE, 1), -EFAULT);
    assert_int_equal(uv_copy_in(buf, at + 2 * PAGE, 64), 0);
    assert_int_equal(uv_copy_in(buf, at + 3 * PAGE, 1), -EFAULT);
    assert_int_equal(uv_copy_in(buf, 0, 1), -EFAULT);
    assert_int_equal(uv_copy_in(buf, UINT64_MAX - 3, 8), -EFAULT);
    assert_int_equal(uv_copy_in(buf, 0, 0), 0);
    memset(buf, 9, 64);
    assert_int_equal(uv_copy_out(at + 8, buf, 8), 0);
    assert_int_equal(p[7], 7);
    assert_int_equal(p[8], 9);
    assert_int_equal(uv_copy_out(at + 2 * PAGE, buf, 8), -EFAULT);
    munmap(p, 4 * PAGE);
}

static void test_ranges(void **state)
{
    (void)state;
    unsigned char *p = layout();
    uint64_t at = (uintptr_t)p;

    assert_int_equal(uv_range_ok(at, PAGE, 1), 0);
    assert_int_equal(uv_range_ok(at + 100, 1, 1), 0);
    assert_int_equal(uv_range_ok(at, PAGE + 1, 0), -EFAULT);
    assert_int_equal(uv_range_ok(at + 2 * PAGE, PAGE, 0), 0);
    assert_int_equal(uv_range_ok(at + 2 * PAGE, PAGE, 1), -EFAULT);
    assert_int_equal(uv_range_ok(at + 3 * PAGE, 1, 0), -EFAULT);
    assert_int_equal(uv_range_ok(at + 2 * PAGE, 2 * PAGE, 0), -EFAULT);
    assert_int_equal(uv_range_ok(0, 1, 0), -EFAULT);
    assert_int_equal(uv_range_ok(at, UINT64_MAX, 0), -EFAULT);
    assert_int_equal(uv_range_ok(UINT64_MAX - 100, 50, 0), -EFAULT);
    assert_int_equal(uv_range_ok(0, 0, 1), 0);
    munmap(p, 4 * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copies), cmocka_unit_test(test_ranges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
