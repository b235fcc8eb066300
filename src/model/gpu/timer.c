/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long launches take. They are captured into a graph for launch by the device, a few times over. So
 * neither the CPU nor the way to the GPU is measured. A plan has no use for a call that makes no such graph.
 */
#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/gpu/timer.h"

#include "src/model/gpu/enqueue.h"

#define REPEATS 8 /* in one graph */
#define RUNS    5 /* of it; the median counts */

struct gwm_timer {
    cudaStream_t stream;
    cudaEvent_t start, end;
    char *pool; /* where the buffers of what is measured lie */
    size_t size, most;
    char name[256];
    const char *why; /* the last measurement failed */
};

struct gwm_timer *gwm_timer_open(struct gw_exec *exec, size_t most)
{
    struct gwm_timer *t = (struct gwm_timer *)calloc(1, sizeof(*t));
    struct cudaDeviceProp prop;
    int driver = 0, runtime = 0, device = (int)gw_exec_device(exec);

    if (!t) return NULL;
    t->stream = (cudaStream_t)gw_exec_stream(exec);
    t->most = most;
    if (cudaSetDevice(device) || cudaGetDeviceProperties(&prop, device) || cudaDriverGetVersion(&driver) ||
        cudaRuntimeGetVersion(&runtime) || cudaEventCreate(&t->start) || cudaEventCreate(&t->end)) {
        gwm_timer_close(t);
        return NULL;
    }
    snprintf(t->name, sizeof(t->name), "gpuwire plans 2; %.100s sm %d.%d; driver %d runtime %d", prop.name,
             prop.major, prop.minor, driver, runtime);
    return t;
}

void gwm_timer_close(struct gwm_timer *t)
{
    if (!t) return;
    if (t->start) cudaEventDestroy(t->start);
    if (t->end) cudaEventDestroy(t->end);
    cudaFree(t->pool);
    free(t);
}

void gwm_timer_machine(const struct gwm_timer *t, char *text, size_t size)
{
    snprintf(text, size, "%s", t->name);
}

static size_t timer_bytes(const struct gwm_gpu *p, const struct gwm_gpu_buf *b)
{
    if (b->mem == GWM_MEM_IN || b->mem == GWM_MEM_OUT)
        return p->g->info[b->mem == GWM_MEM_OUT][b->index].bytes;
    return b->bytes;
}

/* Gives each buffer that the launches name a place in the pool: at[buffer] is first its offset + 1. */
static int timer_place(struct gwm_timer *t, struct gwm_gpu *p, int first, char *at[])
{
    size_t total = 0;

    for (int i = first; i < p->nlaunch; i++) {
        for (int k = 0; k < p->launch[i].nfix; k++) {
            int b = p->launch[i].fix[k].buf;
            if (at[b]) continue;
            at[b] = (char *)(total + 1);
            total += (timer_bytes(p, &p->buf[b]) + GWM_ARENA_ALIGN) / GWM_ARENA_ALIGN * GWM_ARENA_ALIGN;
        }
    }
    if (total > t->size) {
        if (total > t->most) return -E2BIG;
        cudaFree(t->pool);
        t->pool = NULL;
        t->size = 0;
        if (cudaMalloc((void **)&t->pool, total + total / 2)) return -ENOMEM;
        t->size = total + total / 2;
        if (cudaMemset(t->pool, 0, t->size)) return -EIO;
    }
    for (int b = 0; b < p->nbuf; b++) {
        if (!at[b]) continue;
        at[b] = t->pool + ((size_t)at[b] - 1);
        if (p->buf[b].mem == GWM_MEM_CONST &&
            cudaMemcpy(at[b], p->buf[b].data, p->buf[b].bytes, cudaMemcpyHostToDevice))
            return -EIO;
    }
    return 0;
}

/* `at` NULL: of a plan that is made, where it lies. */
static int timer_enqueue(struct gwm_timer *t, struct gwm_gpu *p, int first, char *at[])
{
    if (!at) return gwm_gpu_enqueue_here(p, first, t->stream);
    return gwm_gpu_enqueue_from(p, first, &(struct gwm_where){.at = at}, t->stream);
}

static cudaGraphExec_t timer_capture(struct gwm_timer *t, struct gwm_gpu *p, int first, char *at[])
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    int err = 0;

    if (cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeRelaxed)) return NULL;
    for (int i = 0; i < REPEATS && !err; i++) err = timer_enqueue(t, p, first, at);
    cudaError_t end = cudaStreamEndCapture(t->stream, &graph);
    if (!err && !end && cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch)) exec = NULL;
    if (graph) cudaGraphDestroy(graph);
    return exec;
}

static int timer_compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static float timer_measure(struct gwm_timer *t, struct gwm_gpu *p, int first, char *at[])
{
    float us[RUNS];
    /* Once as it is: libraries load their kernels now. */
    int err = timer_enqueue(t, p, first, at) || cudaStreamSynchronize(t->stream);
    cudaGraphExec_t exec = err ? NULL : timer_capture(t, p, first, at);

    err = !exec || cudaGraphUpload(exec, t->stream) || cudaGraphLaunch(exec, t->stream);
    for (int i = 0; i < RUNS && !err; i++) {
        err = cudaEventRecord(t->start, t->stream) || cudaGraphLaunch(exec, t->stream) ||
              cudaEventRecord(t->end, t->stream) || cudaEventSynchronize(t->end) ||
              cudaEventElapsedTime(&us[i], t->start, t->end);
    }
    if (exec) cudaGraphExecDestroy(exec);
    cudaError_t error = cudaGetLastError(); /* what failed here must not be found by others */
    t->why = error ? cudaGetErrorString(error) : "a launch failed";
    if (err) return -1;
    qsort(us, RUNS, sizeof(us[0]), timer_compare);
    return us[RUNS / 2] * 1000 / REPEATS;
}

float gwm_timer_nodes(struct gwm_timer *t, struct gwm_gpu *p, int first)
{
    char **at = (char **)calloc((size_t)p->nbuf + 1, sizeof(*at));
    float us = at && !timer_place(t, p, first, at) ? timer_measure(t, p, first, at) : -1;

    free(at);
    return us;
}

float gwm_timer_plan(struct gwm_timer *t, struct gwm_gpu *p)
{
    return timer_measure(t, p, 0, NULL);
}

float gwm_timer_one(struct gwm_timer *t, struct gwm_gpu *p, int number)
{
    int all = p->nlaunch;

    p->nlaunch = number + 1; /* the last for now */
    float us = timer_measure(t, p, number, NULL);
    p->nlaunch = all;
    return us;
}

const char *gwm_timer_why(const struct gwm_timer *t)
{
    return t->why;
}
