/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire-serving, which `gpuwire` becomes for commands that serve models or ask a server. */
#include "src/cli/cli.h"
#include "src/cli/dispatch.h"

static const struct gw_command commands[] = {
    {"demo", .run = gw_cli_demo},
    {"serve", .run = gw_cli_serve},
#ifdef GW_HAVE_GENERATE
    {"generate", .run = gw_cli_generate},
#endif
    {"infer", .run = gw_cli_infer},
    {"load", .run = gw_cli_load},
    {"chat", .run = gw_cli_chat},
    {"check", .run = gw_cli_check},
#ifdef GW_HAVE_ROUTER
    {"router", .run = gw_cli_router},
#endif
    {.name = NULL},
};

int main(int argc, char **argv)
{
    return gw_dispatch(commands, argc, argv);
}
