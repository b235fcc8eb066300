/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model's network on CPU threads, without a scheduler: how many tokens it reads and makes in a second, and
 * in a second of a processor.
 *
 *     generate_cpu_bench FOLDER [--threads N] [--prompt N] [--tokens N] [--lanes N] [--kernels NAME]
 *
 * Each lane has a prompt of its own of random tokens, which goes in steps of 256 rows at most. Then all lanes
 * make tokens together, always the most likely one. cpu.py runs it beside other programs.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"
#include "src/generate/cpu/cpu.h"
#include "src/generate/import/folder.h"

#define MAX_ROWS 256u

struct bench {
    struct gen_program *program;
    struct gen_net net;
    struct gen_net_shape shape;
    struct gen_step step;
    struct gen_net_memory memory;
    uint32_t lanes, prompt, tokens;
    uint32_t *next, *at; /* of each lane: its next token, and tokens that it has had */
};

static void bench_fail(void)
{
    fprintf(stderr, "generate_cpu_bench: %s\n", gw_last_error());
    exit(1);
}

static void *bench_alloc(size_t n, size_t size)
{
    void *p = calloc(n, size);

    if (p) return p;
    gw_error(-1, "no memory");
    bench_fail();
    return NULL;
}

static void bench_memory(struct bench *b)
{
    struct gen_step *s = &b->step;
    struct gen_cache *c = &b->memory.cache;

    s->max_rows = MAX_ROWS;
    s->lanes = b->lanes;
    s->lane_pages = (b->prompt + b->tokens) / GEN_PAGE + 1;
    s->token = bench_alloc(MAX_ROWS, 4);
    s->position = bench_alloc(MAX_ROWS, 4);
    s->lane = bench_alloc(MAX_ROWS, 4);
    s->run = bench_alloc(MAX_ROWS, sizeof(*s->run));
    s->out = bench_alloc(b->lanes, 4);
    s->page = bench_alloc((size_t)b->lanes * s->lane_pages, 4);
    for (uint32_t i = 0; i < b->lanes * s->lane_pages; i++) s->page[i] = i;
    *c = (struct gen_cache){.dtype = b->shape.dtype, .layers = b->shape.layers, .heads = b->shape.heads};
    c->width = b->shape.width;
    c->pages = b->lanes * s->lane_pages;
    c->at = bench_alloc(gen_cache_page_elements(c) * c->pages, gw_dtype_bytes(c->dtype));
    b->memory.step = s;
    b->memory.logit_stride = b->shape.vocab;
    b->memory.logits = bench_alloc((size_t)b->lanes * b->shape.vocab, sizeof(float));
    b->next = bench_alloc(b->lanes, 4);
    b->at = bench_alloc(b->lanes, 4);
    if (b->net.ops->bind(b->net.own, NULL, &b->memory)) bench_fail();
}

/* The lane's next rows; a prompt's tokens are made up. */
static void bench_take(struct bench *b, uint32_t lane, uint32_t rows, bool prompt)
{
    struct gen_step *s = &b->step;

    s->run[s->runs++] = (struct gen_run){.row = s->rows, .rows = rows, .lane = lane, .position = b->at[lane]};
    for (uint32_t i = 0; i < rows; i++, s->rows++) {
        s->token[s->rows] = prompt ? (uint32_t)rand() % b->shape.vocab : b->next[lane];
        s->position[s->rows] = b->at[lane]++;
        s->lane[s->rows] = lane;
    }
    s->out[s->outs++] = s->rows - 1;
}

/* Runs the step, and finds each lane's most likely token. */
static void bench_step(struct bench *b)
{
    struct gen_step *s = &b->step;

    s->size = s->rows;
    gen_cpu_step(&b->net);
    for (uint32_t i = 0; i < s->outs; i++) {
        const float *logits = b->memory.logits + (size_t)i * b->shape.vocab;
        uint32_t best = 0;

        for (uint32_t k = 1; k < b->shape.vocab; k++)
            if (logits[k] > logits[best]) best = k;
        b->next[s->lane[s->out[i]]] = best;
    }
    s->rows = s->runs = s->outs = 0;
}

/* Seconds, and seconds of processors that this process has used. */
struct bench_time {
    double real, cpu;
};

static struct bench_time bench_now(void)
{
    return (struct bench_time){bench_seconds(), bench_clock(CLOCK_PROCESS_CPUTIME_ID)};
}

static void bench_run(struct bench *b)
{
    uint32_t read = b->lanes * b->prompt, made = b->lanes * b->tokens;
    struct bench_time start = bench_now(), middle, end;

    for (uint32_t lane = 0; lane < b->lanes; lane++)
        while (b->at[lane] < b->prompt) {
            uint32_t left = b->prompt - b->at[lane];

            bench_take(b, lane, left < MAX_ROWS ? left : MAX_ROWS, true);
            bench_step(b);
        }
    middle = bench_now();
    for (uint32_t i = 0; i < b->tokens; i++) {
        for (uint32_t lane = 0; lane < b->lanes; lane++) bench_take(b, lane, 1, false);
        bench_step(b);
    }
    end = bench_now();
    printf("kernels,lanes,prompt,tokens,read_per_s,made_per_s,read_per_cpu_s,made_per_cpu_s\n");
    printf("\"%s\",%u,%u,%u,%.1f,%.1f,%.1f,%.1f\n", gen_cpu_name(&b->net), b->lanes, b->prompt, b->tokens,
           read / (middle.real - start.real), made / (end.real - middle.real),
           read / (middle.cpu - start.cpu), made / (end.cpu - middle.cpu));
}

int main(int argc, char **argv)
{
    struct bench b = {.lanes = 1, .prompt = 128, .tokens = 64};
    struct gen_cpu_opts o = {.max_rows = MAX_ROWS};
    const char *folder = NULL;

    for (int i = 1; i < argc; i++) {
        uint32_t *number = NULL;

        if (!strcmp(argv[i], "--threads")) number = &o.threads;
        if (!strcmp(argv[i], "--prompt")) number = &b.prompt;
        if (!strcmp(argv[i], "--tokens")) number = &b.tokens;
        if (!strcmp(argv[i], "--lanes")) number = &b.lanes;
        if (number && i + 1 < argc)
            *number = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--kernels") && i + 1 < argc)
            o.kernels = argv[++i];
        else
            folder = argv[i];
    }
    if (!folder || !b.lanes || b.lanes > MAX_ROWS || !b.prompt) {
        fprintf(stderr,
                "usage: generate_cpu_bench FOLDER [--threads N] [--prompt N] [--tokens N] [--lanes N] "
                "[--kernels NAME]\n");
        return 2;
    }
    if (gen_model_open(folder, &b.program, NULL) || gen_cpu_net(b.program, &o, &b.net)) bench_fail();
    b.net.ops->shape(b.net.own, &b.shape);
    bench_memory(&b);
    bench_run(&b);
    b.net.ops->free(b.net.own);
    gen_program_free(b.program);
    return 0;
}
