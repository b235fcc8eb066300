/* SPDX-License-Identifier: Apache-2.0 */
/* The words of `gpuwire fleet`. Each takes its own argv (argv[0] is the word) and returns the exit code. */
#ifndef GW_CLI_FLEET_H
#define GW_CLI_FLEET_H

int gw_fleet_demo(int argc, char **argv);
int gw_fleet_drain(int argc, char **argv);
int gw_fleet_emulate(int argc, char **argv);
int gw_fleet_plan(int argc, char **argv);
int gw_fleet_undrain(int argc, char **argv);
/* Without a word: the table. */
int gw_fleet_show(int argc, char **argv);

#endif
