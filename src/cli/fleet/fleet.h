/* SPDX-License-Identifier: Apache-2.0 */
/* The words of `gpuwire fleet`. Each takes its own argv (argv[0] is the word) and returns the exit code. */
#ifndef GW_CLI_FLEET_H
#define GW_CLI_FLEET_H

int gw_fleet_emulate(int argc, char **argv);

#endif
