/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of channels and of sockets: blocks of a kernel that follow scripts, on one device. */
#ifndef GW_TESTS_SOCKET_LAUNCH_H
#define GW_TESTS_SOCKET_LAUNCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/verbs/device.h"

#define SECOND 1000000000u
#define LIMIT  (60u * (uint64_t)SECOND)
#define BLOCKS 4

static uint32_t lanes; /* threads of a block */

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

static int open_dev(void **state)
{
    int err = open_all(state);

    if (!err) lanes = test_block_dim(exec, 64);
    return err;
}

#endif
