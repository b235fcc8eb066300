/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `gpuwire generate load`. */
#ifndef GW_CLI_GENERATE_LOAD_ARGS_H
#define GW_CLI_GENERATE_LOAD_ARGS_H

#include <stdint.h>

struct gw_cli_generate_load {
    const char *server, *model, *token_file, *ca_file;
    uint32_t streams;        /* at a time; with a rate: at most */
    double rate;             /* requests a second, by chance; 0: a stream begins when another one ends */
    uint32_t prompt, spread; /* tokens of a prompt: its mean, and how far it goes up and down */
    uint32_t tokens;         /* of an answer */
    uint32_t shared;         /* first tokens of each prompt that are the same */
    double seconds, warmup;
    uint64_t seed;
    uint32_t json; /* 1: one line of JSON */
};

/* -1: go on; else the exit code. */
int gw_cli_generate_load_args(int argc, char **argv, struct gw_cli_generate_load *l);

#endif
