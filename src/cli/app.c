/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire app: the applications, each a program of its own. */
#include "src/cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "src/cli/dispatch.h"
#include "src/cli/options.h"

static const struct {
    const char *name, *program, *what;
} apps[] = {
    {"matmul", "gpuwire-app-matmul", "a server of matrix products"},
    {"faceverify", "gpuwire-app-faceverify", "is this the face of that person? With memcached"},
    {"mapreduce", "gpuwire-app-mapreduce", "word count, sort, k-means and your own jobs, over many workers"},
};
enum { APPS = sizeof(apps) / sizeof(apps[0]) };

static void app_print_usage(FILE *f)
{
    fprintf(
        f,
        "usage: gpuwire app NAME [ARGUMENT...]\n\n"
        "Runs an application whose kernels use the network themselves. Without arguments it shows what it\n"
        "does, on this machine.\n\n");
    for (int i = 0; i < APPS; i++) fprintf(f, "  %-10s %s\n", apps[i].name, apps[i].what);
    fprintf(f, "\n  -h, --help            this text; after NAME, the application's\n"
               "\ndocs/apps.md shows each of them in a minute.\n");
}

int gw_cli_app(int argc, char **argv)
{
    if (argc < 2) {
        app_print_usage(stderr);
        return GW_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        app_print_usage(stdout);
        return GW_EXIT_OK;
    }
    for (int i = 0; i < APPS; i++)
        if (!strcmp(argv[1], apps[i].name)) return gw_become(apps[i].program, "app", argv + 1);
    return gw_usage_error("app", "%s: there is no such application", argv[1]);
}
