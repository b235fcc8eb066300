/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire fleet: finds the word. */
#include <stdio.h>
#include <string.h>

#include "src/cli/cli.h"
#include "src/cli/fleet/fleet.h"
#include "src/cli/options.h"

static const struct {
    const char *name, *what;
    int (*run)(int argc, char **argv);
} words[] = {
    {"emulate", "workers that compute nothing, and take the time that a model would", gw_fleet_emulate},
};
enum { WORDS = sizeof(words) / sizeof(words[0]) };

static void fleet_usage(FILE *f)
{
    fprintf(f, "usage: gpuwire fleet WORD [OPTION...]\n\n");
    for (int i = 0; i < WORDS; i++) fprintf(f, "  %-10s %s\n", words[i].name, words[i].what);
    fprintf(f, "\n  -h, --help this text; `gpuwire fleet WORD --help` says more about a word\n");
}

int gw_cli_fleet(int argc, char **argv)
{
    if (argc < 2) {
        fleet_usage(stderr);
        return GW_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help")) {
        fleet_usage(stdout);
        return GW_EXIT_OK;
    }
    for (int i = 0; i < WORDS; i++)
        if (!strcmp(argv[1], words[i].name)) return words[i].run(argc - 1, argv + 1);
    return gw_usage_error("fleet", "%s: no such word", argv[1]);
}
