/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of `gpuwire`. Each takes its own argv (argv[0] is its name) and returns the exit code. */
#ifndef GW_CLI_H
#define GW_CLI_H

/* Prints "gpuwire COMMAND: WHAT: reason" and returns the exit code of a failure. */
int gw_cli_fail(const char *command, const char *what, int err);

int gw_cli_app(int argc, char **argv);
int gw_cli_balance(int argc, char **argv);
int gw_cli_cat(int argc, char **argv);
int gw_cli_chat(int argc, char **argv);
int gw_cli_check(int argc, char **argv);
int gw_cli_controller(int argc, char **argv);
int gw_cli_demo(int argc, char **argv);
int gw_cli_fleet(int argc, char **argv);
int gw_cli_generate(int argc, char **argv);
int gw_cli_hwcheck(int argc, char **argv);
int gw_cli_info(int argc, char **argv);
int gw_cli_infer(int argc, char **argv);
int gw_cli_load(int argc, char **argv);
int gw_cli_nic(int argc, char **argv);
int gw_cli_perf(int argc, char **argv);
int gw_cli_router(int argc, char **argv);
int gw_cli_run(int argc, char **argv);
int gw_cli_serve(int argc, char **argv);

#endif
