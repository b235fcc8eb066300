/* SPDX-License-Identifier: Apache-2.0 */
/* In place of run_dpdk.c where there is no DPDK. */
#include <errno.h>
#include <stdio.h>

#include "src/balance/run.h"

bool gw_balance_has_dpdk(void)
{
    return false;
}

int gw_balance_run(struct bal *bal, const struct bal_run *how, char *error, size_t size)
{
    (void)bal, (void)how;
    snprintf(error, size, "gpuwire was built without DPDK: install libdpdk-dev and build it again");
    return -ENOTSUP;
}
