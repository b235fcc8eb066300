/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greedy FOLDER COUNT: reads prompts from standard input, each a line of token ids, and writes for each a
 * line with the COUNT most likely tokens that follow, or fewer, up to one that ends an answer. The network
 * runs on CPU threads.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/generate/cpu/cpu.h"
#include "src/generate/import/folder.h"

#define GREEDY_ROWS 256u

struct greedy {
    struct gen_program *program;
    struct gen_model_info info;
    struct gen_net net;
    struct gen_step step;
    struct gen_net_memory memory;
    uint32_t *token; /* of the sequence */
    uint32_t n, most;
    uint32_t position[GREEDY_ROWS], lane[GREEDY_ROWS], out[1];
    struct gen_run run[GREEDY_ROWS];
};

static void *greedy_alloc(size_t n, size_t size)
{
    void *p = calloc(n, size);

    if (!p) abort();
    return p;
}

static int greedy_open(struct greedy *g, const char *folder, uint32_t most)
{
    struct gen_cpu_opts opts = {.max_rows = GREEDY_ROWS};
    struct gen_cache *c = &g->memory.cache;
    struct gen_net_shape shape;
    int err = gen_model_open(folder, &g->program, &g->info);

    if (!err) err = gen_cpu_net(g->program, &opts, &g->net);
    if (err) return err;
    g->net.ops->shape(g->net.own, &shape);
    g->most = most < shape.max_position ? most : shape.max_position;
    g->token = greedy_alloc(g->most, sizeof(*g->token));
    g->step = (struct gen_step){.max_rows = GREEDY_ROWS,
                                .size = GREEDY_ROWS,
                                .lanes = 1,
                                .position = g->position,
                                .lane = g->lane,
                                .run = g->run,
                                .out = g->out};
    g->step.lane_pages = (g->most + GEN_PAGE - 1) / GEN_PAGE;
    g->step.page = greedy_alloc(g->step.lane_pages, sizeof(*g->step.page));
    for (uint32_t i = 0; i < g->step.lane_pages; i++) g->step.page[i] = i;
    *c = (struct gen_cache){.dtype = shape.dtype,
                            .layers = shape.layers,
                            .pages = g->step.lane_pages,
                            .heads = shape.heads,
                            .width = shape.width};
    c->at = greedy_alloc(gen_cache_page_elements(c) * c->pages, gw_dtype_bytes(c->dtype));
    g->memory.step = &g->step;
    g->memory.logits = greedy_alloc(shape.vocab, sizeof(float));
    g->memory.logit_stride = shape.vocab;
    return g->net.ops->bind(g->net.own, NULL, &g->memory);
}

/* Runs the tokens from `first` on; the most likely next one. */
static uint32_t greedy_next(struct greedy *g, uint32_t first)
{
    const float *logits = g->memory.logits;
    uint32_t best = 0;

    for (uint32_t at = first; at < g->n; at += g->step.rows) {
        g->step.rows = g->n - at < GREEDY_ROWS ? g->n - at : GREEDY_ROWS;
        g->step.token = g->token + at;
        g->step.runs = g->step.outs = 1;
        g->run[0] = (struct gen_run){.rows = g->step.rows, .position = at};
        for (uint32_t i = 0; i < g->step.rows; i++) g->position[i] = at + i;
        g->out[0] = g->step.rows - 1;
        if (gen_cpu_step(&g->net)) abort();
    }
    for (uint32_t i = 1; i < g->program->vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static bool greedy_ends(const struct greedy *g, uint32_t token)
{
    for (uint32_t i = 0; i < g->info.eoss; i++)
        if (g->info.eos[i] == token) return true;
    return false;
}

/* The answer to a line. */
static void greedy_answer(struct greedy *g, const char *line, uint32_t count)
{
    uint32_t first = 0;
    char *end;

    g->n = 0;
    for (unsigned long t; t = strtoul(line, &end, 10), end != line && g->n + count < g->most; line = end)
        g->token[g->n++] = (uint32_t)(t < g->program->vocab ? t : 0);
    for (uint32_t i = 0; i < count && g->n; i++) {
        uint32_t token = greedy_next(g, first);
        printf("%s%u", i ? " " : "", token);
        if (greedy_ends(g, token)) break;
        first = g->n;
        g->token[g->n++] = token;
    }
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct greedy g = {0};
    char *line = NULL;
    size_t room = 0;

    if (argc != 3 || greedy_open(&g, argv[1], 2048)) {
        fprintf(stderr, "greedy: %s\n", argc == 3 ? gw_last_error() : "usage: greedy FOLDER COUNT");
        return 1;
    }
    while (getline(&line, &room, stdin) > 0) greedy_answer(&g, line, (uint32_t)atoi(argv[2]));
    free(line);
    g.net.ops->free(g.net.own);
    gen_program_free(g.program);
    free(g.memory.cache.at);
    free(g.memory.logits);
    free(g.step.page);
    free(g.token);
    return 0;
}
