/* SPDX-License-Identifier: Apache-2.0 */
/* The memory, the step and the graphs of the benchmarks of networks on a GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "bench/generate/gpu_rig.h"
#include "bench/generate/read_kernels.h"

#define RIG_RUNS   21
#define RIG_REPEAT 10
#define RIG_READ   ((size_t)2 << 30)   /* bytes that are read to measure the bandwidth */
#define RIG_RANDOM ((size_t)288 << 20) /* bytes of numbers for weights: more than the largest one */

static void rig_must(int ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "%s: %s; %s\n", what, gw_last_error(), cudaGetErrorString(cudaGetLastError()));
    exit(1);
}

struct gw_exec *rig_exec(void)
{
    struct gw_exec *exec;
    char why[200];

    if (!gw_exec_gpu_available(why, sizeof(why))) {
        printf("skipped: %s\n", why);
        exit(77);
    }
    rig_must(!gw_exec_create("gpu", NULL, &exec), "no executor");
    return exec;
}

/* Arrays of the step, of which each may be as large as the largest. */
static void *rig_array(const struct rig *r, uint32_t number, bool host)
{
    size_t each = (size_t)r->lanes * (r->tokens / GEN_PAGE + 1) + GEN_MAX_ROWS * sizeof(struct gen_run);

    return (host ? r->host : (char *)r->memory.dev) + 4096 + number * each * 4;
}

static void rig_step(struct rig *r)
{
    struct gen_step *s = r->step = (struct gen_step *)r->host;

    *s = (struct gen_step){.max_rows = r->max_rows,
                           .lanes = r->lanes,
                           .lane_pages = r->tokens / GEN_PAGE + 1,
                           .token = rig_array(r, 0, false),
                           .position = rig_array(r, 1, false),
                           .lane = rig_array(r, 2, false),
                           .run = rig_array(r, 3, false),
                           .out = rig_array(r, 4, false),
                           .page = rig_array(r, 5, false)};
    for (uint32_t i = 0; i < r->lanes * s->lane_pages; i++) ((uint32_t *)rig_array(r, 5, true))[i] = i;
}

/* `rows` rows: one for each lane, or, if there are more, all of them the first lane's. */
static void rig_compose(struct rig *r, uint32_t rows)
{
    bool many = rows > r->lanes;

    for (uint32_t i = 0; i < rows; i++) {
        ((uint32_t *)rig_array(r, 0, true))[i] = i;
        ((uint32_t *)rig_array(r, 1, true))[i] = many ? r->tokens - rows + i : r->tokens - 1;
        ((uint32_t *)rig_array(r, 2, true))[i] = many ? 0 : i;
        ((struct gen_run *)rig_array(r, 3, true))[i] =
            many ? (struct gen_run){0, rows, 0, r->tokens - rows} : (struct gen_run){i, 1, i, r->tokens - 1};
        if (i < r->lanes) ((uint32_t *)rig_array(r, 4, true))[i] = many ? rows - 1 : i;
    }
    r->step->rows = r->step->size = rows;
    r->step->runs = many ? 1 : rows;
    r->step->outs = many ? 1 : rows;
    rig_must(!gw_copy_in(r->exec, r->memory.dev, r->host, r->memory.size), "the step");
}

void rig_open(struct rig *r, struct gen_program *p)
{
    struct gen_gpu_options o = {.exec = r->exec, .max_rows = r->max_rows, .lanes = r->lanes};
    struct gen_net_memory m;
    uint64_t bytes;

    rig_must(!gen_program_check(p), "the program");
    rig_must(!gen_gpu_net(p, &o, &r->net), "the network");
    gen_program_free(p);
    r->net.ops->shape(r->net.own, &r->shape);
    bytes = (size_t)6 * 4 *
            ((size_t)r->lanes * (r->tokens / GEN_PAGE + 1) + GEN_MAX_ROWS * sizeof(struct gen_run));
    rig_must(!gw_mem_alloc(r->exec, GW_MEM_DEVICE, 8192 + bytes, &r->memory), "memory");
    rig_must((r->host = calloc(1, r->memory.size)) != NULL, "memory");
    rig_step(r);
    m = (struct gen_net_memory){.step = r->memory.dev, .logit_stride = (r->shape.vocab + 7) / 8 * 8};
    m.cache = (struct gen_cache){.dtype = r->shape.dtype,
                                 .layers = r->shape.layers,
                                 .pages = r->lanes * r->step->lane_pages,
                                 .heads = r->shape.heads,
                                 .width = r->shape.width};
    bytes = gen_cache_page_elements(&m.cache) * m.cache.pages * gw_dtype_bytes(r->shape.dtype);
    rig_must(!gw_mem_alloc(r->exec, GW_MEM_DEVICE, bytes, &r->cache), "the cache");
    rig_must(
        !gw_mem_alloc(r->exec, GW_MEM_DEVICE, (size_t)r->lanes * m.logit_stride * sizeof(float), &r->logits),
        "logits");
    rig_must(!gw_mem_alloc(r->exec, GW_MEM_DEVICE, RIG_READ + 4096, &r->read), "memory to read");
    m.cache.at = r->cache.dev;
    m.logits = r->logits.dev;
    rig_must(!r->net.ops->bind(r->net.own, r->exec, &m), "bind");
}

void rig_close(struct rig *r)
{
    r->net.ops->free(r->net.own);
    gw_mem_free(&r->memory);
    free(r->host);
    gw_mem_free(&r->cache);
    gw_mem_free(&r->logits);
    gw_mem_free(&r->read);
}

static int rig_smaller(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Runs a graph; the median time of one launch, in microseconds. */
static double rig_launch(struct rig *r, cudaGraph_t graph)
{
    cudaStream_t stream = gw_exec_stream(r->exec);
    double us[RIG_RUNS];
    cudaGraphExec_t run;
    cudaEvent_t from, to;
    float ms;

    rig_must(!cudaGraphInstantiate(&run, graph, 0) && !cudaEventCreate(&from) && !cudaEventCreate(&to),
             "instantiate");
    for (int i = -2; i < RIG_RUNS; i++) { /* two to warm up */
        cudaEventRecord(from, stream);
        for (int k = 0; k < RIG_REPEAT; k++) cudaGraphLaunch(run, stream);
        cudaEventRecord(to, stream);
        rig_must(!cudaEventSynchronize(to) && !cudaEventElapsedTime(&ms, from, to), "a graph");
        if (i >= 0) us[i] = (double)ms * 1e3 / RIG_REPEAT;
    }
    cudaGraphExecDestroy(run);
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    qsort(us, RIG_RUNS, sizeof(*us), rig_smaller);
    return us[RIG_RUNS / 2];
}

double rig_time(struct rig *r, uint32_t size)
{
    cudaStream_t stream = gw_exec_stream(r->exec);
    cudaGraph_t graph;
    double us;

    rig_compose(r, size);
    rig_must(!gen_gpu_enqueue(&r->net, size, stream), "a step");
    rig_must(!gw_exec_sync(r->exec, gw_deadline(UINT64_C(60000000000))), "a step");
    rig_must(!cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    rig_must(!gen_gpu_enqueue(&r->net, size, stream), "a step");
    rig_must(!cudaStreamEndCapture(stream, &graph), "capture");
    us = rig_launch(r, graph);
    cudaGraphDestroy(graph);
    return us;
}

double rig_bandwidth(struct rig *r)
{
    cudaStream_t stream = gw_exec_stream(r->exec);
    struct read_args a = {.from = r->read.dev, .bytes = RIG_READ, .to = (char *)r->read.dev + RIG_READ};
    cudaGraph_t graph;
    double us, best = 0;

    for (uint32_t blocks = 2; blocks <= 16; blocks *= 2) { /* of each multiprocessor */
        rig_must(!cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
        rig_must(!read_kernel.gpu(blocks * gw_exec_resident_blocks(r->exec), 256, &a, stream), "read");
        rig_must(!cudaStreamEndCapture(stream, &graph), "capture");
        us = rig_launch(r, graph);
        cudaGraphDestroy(graph);
        if ((double)RIG_READ / us * 1e6 > best) best = (double)RIG_READ / us * 1e6;
    }
    return best;
}

struct gen_weight rig_weight(uint32_t n, uint32_t k)
{
    static uint16_t *numbers, *next;
    uint64_t random = 88172645463325252u;

    if (!numbers) {
        numbers = next = malloc(RIG_RANDOM + (64 << 10));
        rig_must(numbers != NULL, "memory for weights");
        for (size_t i = 0; i < (RIG_RANDOM + (64 << 10)) / 2; i++) { /* about 0.008 to 0.03, of either sign */
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            numbers[i] = (uint16_t)((random & 0x80ff) | 0x3c00);
        }
    }
    next += 8;
    return (struct gen_weight){.format = GEN_BF16, .n = n, .k = k, .data = next};
}

int32_t rig_add(struct gen_program *p, struct gen_op op, uint32_t width)
{
    op.out = gen_program_value(p, width);
    rig_must(op.out >= 0 && !gen_program_add(p, &op), "the program");
    return op.out;
}

struct gen_part rig_all(const struct gen_program *p, int32_t value)
{
    return (struct gen_part){.value = value, .width = p->width[value]};
}

uint32_t rig_option(int argc, char **argv, const char *name, uint32_t usual)
{
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], name)) return (uint32_t)strtoul(argv[i + 1], NULL, 10);
    return usual;
}
