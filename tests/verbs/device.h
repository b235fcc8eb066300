/* SPDX-License-Identifier: Apache-2.0 */
/* The executor and the device that a program's tests share: cmocka's set-up and tear-down of a group. */
#ifndef GW_TESTS_VERBS_DEVICE_H
#define GW_TESTS_VERBS_DEVICE_H

#include <stdio.h>
#include <stdlib.h>

#include <gpuwire/verbs.h>

#include "examples/options.h"

static struct gw_exec *exec;
static struct gw_device *dev;

/* The software NIC, unless the environment names a device. *state: the device, for tests in other files. */
static int open_all(void **state)
{
    exec = test_exec();
    if (!gw_device_open(getenv("GPUWIRE_DEVICE") ? NULL : "softnic", exec, &dev)) {
        *state = dev;
        return 0;
    }
    fprintf(stderr, "%s\n", gw_last_error());
    return -1;
}

static int close_all(void **state)
{
    (void)state;
    return gw_device_close(dev) || gw_exec_destroy(exec);
}

#endif
