/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cli/balance/args.h"
#include "src/cli/options.h"

int gw_balance_demo(const struct gw_balance_args *a)
{
    (void)a;
    return GW_EXIT_FAILURE;
}
