/* SPDX-License-Identifier: Apache-2.0 */
/* with_exec.h: the executor of a test program, as its options say. Call open_exec before the tests, and
 * close_exec after them. */
#ifndef TESTS_EXEC_WITH_EXEC_H
#define TESTS_EXEC_WITH_EXEC_H

#include "examples/options.h"

static struct gw_exec *exec;

static int open_exec(void **state)
{
    (void)state;
    exec = test_exec();
    printf("gpu: executor %s, %u blocks at once\n", gw_exec_name(exec), gw_exec_resident_blocks(exec));
    return 0;
}

static int close_exec(void **state)
{
    (void)state;
    return gw_exec_destroy(exec);
}

#endif
