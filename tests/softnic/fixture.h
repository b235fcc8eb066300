/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h: two connected queue pairs, r.a and r.b, made again for each test of a file: cmocka's setup and
 * teardown. */
#ifndef TESTS_SOFTNIC_FIXTURE_H
#define TESTS_SOFTNIC_FIXTURE_H

#include "tests/softnic/rig.h"

static struct rig r;

static inline int up_as(enum ibv_qp_type type)
{
    rig_up_as(&r, NULL, type);
    rig_connect(&r);
    return 0;
}

static inline int up(void **state)
{
    (void)state;
    return up_as(IBV_QPT_RC);
}

static inline int down(void **state)
{
    (void)state;
    rig_down(&r);
    return 0;
}

#endif
