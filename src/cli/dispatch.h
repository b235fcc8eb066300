/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tool is several programs. `gpuwire` has the commands that need little. It becomes another program, in
 * libexec/gpuwire, for those that need gRPC, DPDK and the like: to load these takes 20 ms.
 */
#ifndef GW_CLI_DISPATCH_H
#define GW_CLI_DISPATCH_H

#include <stddef.h>

struct gw_command {
    const char *name;
    const char *what; /* for the list of commands */
    int (*run)(int argc, char **argv);
    const char *
        in; /* without `run`: the program that has it; without `what` either: CMake's option for it, which is off */
};

/* Runs the command that argv names, and returns the exit code. The array ends with a command without a name. */
int gw_dispatch(const struct gw_command *commands, int argc, char **argv);

#endif
