/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire-fleet, which `gpuwire` becomes for the commands of a fleet. */
#include "src/cli/cli.h"
#include "src/cli/dispatch.h"

static const struct gw_command commands[] = {
    {"controller", .run = gw_cli_controller}, {"fleet", .run = gw_cli_fleet}, {.name = NULL}};

int main(int argc, char **argv)
{
    return gw_dispatch(commands, argc, argv);
}
