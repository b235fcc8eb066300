/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the command line of `gpuwire generate load`. */
#include "src/cli/generate/load_args.h"

#include <getopt.h>
#include <stdio.h>

#include "src/cli/options.h"
#include "src/generate/wire/wire.h"

#define COMMAND "generate load"

static const char usage[] =
    "usage: gpuwire generate load [OPTION...] URL\n"
    "\n"
    "Asks a generator for tokens by RDMA, and measures how long the first one takes, and how far the others\n"
    "lie apart. URL is http://HOST:PORT of a `gpuwire generate`.\n"
    "\n"
    "  --model NAME       which model (default: the only one)\n"
    "  --streams N        streams at the same time (default 8); with --rate: at most (default 1024)\n"
    "  --rate R           streams that begin in a second, at times drawn by chance (Poisson); without it a\n"
    "                     stream begins when another one ends\n"
    "  --prompt N         tokens of a prompt (default 64)\n"
    "  --prompt-spread N  prompts are shorter or longer by this, drawn evenly (default 0)\n"
    "  --shared N         the first tokens of all prompts that are the same (default 0)\n"
    "  --tokens N         tokens of an answer (default 64)\n"
    "  --seconds S        how long to measure (default 10)\n"
    "  --warmup S         how long to ask before that (default 1)\n"
    "  --seed N           of all that is drawn (default 1)\n"
    "  --json             prints one line of JSON\n"
    "  --token-file FILE  the server's token\n"
    "  --ca-file FILE     who may sign the server's certificate (PEM)\n"
    "  -h, --help         this text\n";

enum { MODEL = 256, STREAMS, RATE, PROMPT, SPREAD, SHARED, TOKENS, SECONDS, WARMUP, SEED, JSON, TOKEN, CA };

static const struct option options[] = {
    {"model", 1, NULL, MODEL},
    {"streams", 1, NULL, STREAMS},
    {"rate", 1, NULL, RATE},
    {"prompt", 1, NULL, PROMPT},
    {"prompt-spread", 1, NULL, SPREAD},
    {"shared", 1, NULL, SHARED},
    {"tokens", 1, NULL, TOKENS},
    {"seconds", 1, NULL, SECONDS},
    {"warmup", 1, NULL, WARMUP},
    {"seed", 1, NULL, SEED},
    {"json", 0, NULL, JSON},
    {"token-file", 1, NULL, TOKEN},
    {"ca-file", 1, NULL, CA},
    {"help", 0, NULL, 'h'},
    {0},
};

static int load_args_set(struct gw_cli_generate_load *l, int id, const char *name, const char *value)
{
    switch (id) {
    case MODEL: l->model = value; return 0;
    case STREAMS: return gw_option_u32(COMMAND, name, value, 1, 100000, &l->streams);
    case RATE: return gw_option_real(COMMAND, name, value, 0.001, 1e6, &l->rate);
    case PROMPT: return gw_option_u32(COMMAND, name, value, 1, 1u << 24, &l->prompt);
    case SPREAD: return gw_option_u32(COMMAND, name, value, 0, 1u << 24, &l->spread);
    case SHARED: return gw_option_u32(COMMAND, name, value, 0, 1u << 24, &l->shared);
    case TOKENS: return gw_option_u32(COMMAND, name, value, 1, 1u << 24, &l->tokens);
    case SECONDS: return gw_option_real(COMMAND, name, value, 0.1, 86400, &l->seconds);
    case WARMUP: return gw_option_real(COMMAND, name, value, 0, 86400, &l->warmup);
    case SEED: return gw_option_number(COMMAND, name, value, 0, UINT64_MAX, &l->seed);
    case JSON: l->json = 1; return 0;
    case TOKEN: l->token_file = value; return 0;
    default: l->ca_file = value; return 0;
    }
}

int gw_cli_generate_load_args(int argc, char **argv, struct gw_cli_generate_load *l)
{
    char name[64];
    int option, which = 0, wrong = 0;
    *l = (struct gw_cli_generate_load){.prompt = 64, .tokens = 64, .seconds = 10, .warmup = 1, .seed = 1};
    optind = 1;
    opterr = 0;
    while (!wrong && (option = getopt_long(argc, argv, ":h", options, &which)) >= 0) {
        if (option == 'h') {
            fputs(usage, stdout);
            return GW_EXIT_OK;
        }
        if (option == '?' || option == ':') return gw_option_wrong(COMMAND, argv, option);
        snprintf(name, sizeof(name), "--%s", options[which].name);
        wrong = load_args_set(l, option, name, optarg);
    }
    if (wrong) return wrong;
    if (argc - optind != 1) return gw_usage_error(COMMAND, "give one URL: http://HOST:PORT");
    l->server = argv[optind];
    if (l->spread >= l->prompt) return gw_usage_error(COMMAND, "--prompt-spread must be below --prompt");
    if (!l->streams) l->streams = l->rate > 0 ? 1024 : 8;
    return -1;
}
