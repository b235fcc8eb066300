/* SPDX-License-Identifier: Apache-2.0 */
/* Which pieces a rank keeps: those of rounds whose maps have ended, as far as there is room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../keep.h"

static void rounds(void **state)
{
    struct keep k = {.size = 1000};
    uint64_t at;

    (void)state;
    keep_begin(&k);
    assert_false(keep_find(&k, 0, 0, &at));
    assert_true(keep_add(&k, 0, 0, 100, &at) && at == 0);
    assert_true(keep_add(&k, 0, 100, 100, &at) && at == 128);
    assert_false(keep_find(&k, 0, 0, &at)); /* its copy may not have been made yet */
    keep_begin(&k);                         /* that round failed */
    assert_false(keep_find(&k, 0, 0, &at));
    assert_true(keep_add(&k, 1, 0, 500, &at) && at == 0);
    assert_true(keep_add(&k, 0, 100, 100, &at) && at == 512);
    assert_false(keep_add(&k, 0, 200, 400, &at)); /* 640 to 1040 */
    assert_true(keep_add(&k, 0, 300, 360, &at) && at == 640);
    assert_false(keep_add(&k, 0, 700, 1, &at));
    keep_end(&k);
    for (int i = 0; i < 3; i++) { /* in any order, and again */
        keep_begin(&k);
        assert_true(keep_find(&k, 0, 100, &at) && at == 512);
        assert_true(keep_find(&k, 1, 0, &at) && at == 0);
        assert_false(keep_find(&k, 1, 100, &at));
        assert_true(keep_find(&k, 0, 300, &at) && at == 640);
        keep_end(&k);
    }
    keep_free(&k);
}

static void none(void **state)
{
    struct keep k = {0};
    uint64_t at;

    (void)state;
    keep_begin(&k);
    assert_false(keep_add(&k, 0, 0, 1, &at));
    assert_false(keep_find(&k, 0, 0, &at));
    keep_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rounds), cmocka_unit_test(none)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
