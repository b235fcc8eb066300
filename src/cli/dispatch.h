/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tool is several programs. `gpuwire` has the commands that need little. It becomes another program, in
 * libexec/gpuwire, for those that need gRPC, DPDK and the like: to load these takes 20 ms.
 */
#ifndef GW_CLI_DISPATCH_H
#define GW_CLI_DISPATCH_H

#include <stddef.h>

/*
 * A command. Without `run`, `in` is the program that has it. Without `what` either, this build lacks it, and
 * `in` is the option of CMake that would build it.
 */
struct gw_command {
    const char *name;
    const char *what; /* for the list of commands */
    int (*run)(int argc, char **argv);
    const char *in;
};

/* Runs the command that argv names, and returns the exit code. The last command of the array has no name. */
int gw_dispatch(const struct gw_command *commands, int argc, char **argv);

/*
 * Goes on as another program of the tool, under the same process ID. Returns only when it cannot be started:
 * the exit code, after a line that names the command.
 */
int gw_become(const char *program, const char *command, char **argv);

#endif
