/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a generator (`gpuwire generate`) for tokens by RDMA, and prints their ids as they come. A tokenizer of
 * the model makes ids of text, and text of ids.
 *
 *     generate URL ID...     say: generate http://127.0.0.1:8000 1 15 27
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <gpuwire/generate.h>

#define MAX_PROMPT 1024
#define SECOND     1000000000u

static void must(int err)
{
    if (!err) return;
    fprintf(stderr, "%s\n", gw_last_error());
    exit(1);
}

static uint64_t in_seconds(unsigned n)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return ((uint64_t)now.tv_sec + n) * SECOND + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
    uint32_t prompt[MAX_PROMPT];
    struct gw_generate *g;
    struct gw_generate_model model;
    struct gw_generate_event e;
    uint64_t stream;

    if (argc < 3 || argc > 2 + MAX_PROMPT) return fprintf(stderr, "usage: generate URL ID...\n"), 2;
    const struct gw_generate_opts opts = {.server = argv[1]};
    must(gw_generate_open(&opts, &g));
    gw_generate_describe(g, &model);
    printf("%s: %u tokens, %u of them in a request\n", model.name, model.vocab, model.context);

    struct gw_generate_request r = {.prompt = prompt, .max_tokens = 16};
    for (int i = 2; i < argc; i++) prompt[r.prompt_tokens++] = (uint32_t)strtoul(argv[i], NULL, 10);
    must(gw_generate_submit(g, &r, in_seconds(1), &stream));
    do {
        must(gw_generate_next(g, in_seconds(60), &e));
        if (e.token != GW_GENERATE_NO_TOKEN) printf("%u ", e.token), fflush(stdout);
    } while (e.status == GW_GENERATE_GOING);
    printf("\n");
    gw_generate_close(g);
    return e.status != GW_GENERATE_LENGTH;
}
