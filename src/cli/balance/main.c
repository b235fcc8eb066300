/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire-balance, which `gpuwire` becomes for `gpuwire balance`. */
#include "src/cli/cli.h"
#include "src/cli/dispatch.h"

static const struct gw_command commands[] = {{"balance", .run = gw_cli_balance}, {.name = NULL}};

int main(int argc, char **argv)
{
    return gw_dispatch(commands, argc, argv);
}
