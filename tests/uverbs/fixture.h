/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h: a device opened again, r, for each test of a file: cmocka's setup and teardown. */
#ifndef TESTS_UVERBS_FIXTURE_H
#define TESTS_UVERBS_FIXTURE_H

#include "tests/uverbs/rig.h"

static struct rig r;

static inline int up(void **state)
{
    (void)state;
    rig_up(&r);
    return 0;
}

static inline int down(void **state)
{
    (void)state;
    rig_down(&r);
    return 0;
}

#endif
