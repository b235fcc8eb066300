/* SPDX-License-Identifier: Apache-2.0 */
/* Each program of the tool begins and ends here: which command is meant, and has its output arrived? */
#include "src/cli/dispatch.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/cli/beside.h"
#include "src/cli/cli.h"

int gw_cli_fail(const char *command, const char *what, int err)
{
    fprintf(stderr, "gpuwire %s: %s: %s\n", command, what, strerror(err));
    return 1;
}

static void dispatch_print_usage(FILE *f, const struct gw_command *commands)
{
    fprintf(f, "usage: gpuwire COMMAND [ARGUMENT...]\n\n");
    for (const struct gw_command *c = commands; c->name; c++)
        if (c->what) fprintf(f, "  %-10s %s\n", c->name, c->what);
    fprintf(f,
            "\n`gpuwire COMMAND --help` says more about each, `gpuwire --version` which version this is.\n");
}

/* The output has arrived, or the exit code says so: half a table must not pass for a whole one. */
static int dispatch_said(int code)
{
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout)) return code;
    int err = errno; /* 0: of an earlier write, whose error was not kept */
    struct pollfd out = {.fd = STDOUT_FILENO};
    if (err == EPIPE || (poll(&out, 1, 0) == 1 && out.revents & POLLERR))
        return 128 + SIGPIPE; /* `| head`: not worth a word */
    fprintf(stderr, "gpuwire: cannot write all of standard output%s%s\n", err ? ": " : "",
            err ? strerror(err) : "");
    return code ? code : 1;
}

int gw_become(const char *program, const char *command, char **argv)
{
    static const char *const places[] = {"../libexec/gpuwire"};
    char path[PATH_MAX];

    /* The library of verbs looks for the NIC's beside its own program, and the other one lies elsewhere. */
    gw_softnic_library(path);
    setenv("GPUWIRE_SOFTNIC_LIBRARY", path, 1);
    if (!gw_beside(places, 1, program, X_OK, path)) execv(path, argv);
    fprintf(stderr, "gpuwire %s: cannot start %s, which belongs to gpuwire: %s\n", command, path,
            strerror(errno));
    return 1;
}

static int dispatch_run(const struct gw_command *c, int argc, char **argv)
{
    if (c->run) return c->run(argc - 1, argv + 1);
    if (c->what) return gw_become(c->in, argv[1], argv);
    fprintf(stderr, "gpuwire: %s: this gpuwire was built without it; CMake's %s=ON builds it\n", c->name,
            c->in);
    return 2;
}

static int command(const struct gw_command *commands, int argc, char **argv)
{
    if (argc < 2) {
        dispatch_print_usage(stderr, commands);
        return 2;
    }
    bool help = !strcmp(argv[1], "help");
    if (!strcmp(argv[1], "--version")) {
        printf("gpuwire %s\n", GW_VERSION);
        return 0;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || (help && argc == 2)) {
        dispatch_print_usage(stdout, commands);
        return 0;
    }
    if (help) { /* `gpuwire help COMMAND` is `gpuwire COMMAND --help` */
        argv[1] = argv[2];
        argv[2] = "--help";
        argv[argc = 3] = NULL;
    }
    for (const struct gw_command *c = commands; c->name; c++)
        if (!strcmp(argv[1], c->name)) return dispatch_run(c, argc, argv);
    fprintf(stderr, "gpuwire: %s: no such command; see `gpuwire --help`\n", argv[1]);
    return 2;
}

int gw_dispatch(const struct gw_command *commands, int argc, char **argv)
{
    return dispatch_said(command(commands, argc, argv));
}
