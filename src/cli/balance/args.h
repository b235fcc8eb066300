/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `gpuwire balance`. */
#ifndef GW_CLI_BALANCE_ARGS_H
#define GW_CLI_BALANCE_ARGS_H

#include <stdint.h>

#define GW_BALANCE_API "http://127.0.0.1:9091"

struct gw_balance_args {
    const char *verb; /* NULL: run */
    const char *word[2];
    unsigned words;
    const char *config, *api, *token_file, *ca_file, *name, *scheduler, *forward;
    uint64_t weight, interval_ms, limit_s;
    int has_weight, has_limit, keep, now, json, once;
};

/* -1: go on; else the exit code. */
int gw_balance_args(int argc, char **argv, struct gw_balance_args *a);

/* The verbs; each returns the exit code. */
int gw_balance_run_here(const struct gw_balance_args *a);
int gw_balance_plane(const struct gw_balance_args *a);
int gw_balance_check(const struct gw_balance_args *a);
int gw_balance_list(const struct gw_balance_args *a);
int gw_balance_add(const struct gw_balance_args *a);
int gw_balance_weight(const struct gw_balance_args *a);
int gw_balance_drain(const struct gw_balance_args *a);
int gw_balance_up(const struct gw_balance_args *a);
int gw_balance_remove(const struct gw_balance_args *a);
int gw_balance_save(const struct gw_balance_args *a);
int gw_balance_reload(const struct gw_balance_args *a);
int gw_balance_top(const struct gw_balance_args *a);
int gw_balance_demo(const struct gw_balance_args *a);

#endif
