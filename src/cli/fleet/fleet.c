/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire fleet: finds the word. */
#include <string.h>

#include "src/cli/cli.h"
#include "src/cli/fleet/fleet.h"
#include "src/cli/options.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} words[] = {
    {"demo", gw_fleet_demo}, {"drain", gw_fleet_drain},     {"emulate", gw_fleet_emulate},
    {"plan", gw_fleet_plan}, {"undrain", gw_fleet_undrain},
};
enum { WORDS = sizeof(words) / sizeof(words[0]) };

int gw_cli_fleet(int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-') return gw_fleet_show(argc, argv);
    for (int i = 0; i < WORDS; i++)
        if (!strcmp(argv[1], words[i].name)) return words[i].run(argc - 1, argv + 1);
    return gw_usage_error("fleet", "%s: no such word", argv[1]);
}
