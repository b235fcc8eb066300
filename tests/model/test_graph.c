/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan captured into a CUDA graph has only kernels and settings of memory, so that the device can launch
 * it. Every launch serves the addresses that stand in the block just then. Exit code 77 without a GPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime_api.h>

#include <gpuwire/exec.h>
#include <gpuwire/model.h>

#include "src/model/import/npy.h"
#include "tests/model/pack.h"

#define SIDE      224
#define OUT_SIDE  672
#define SLOTS     3
#define MAX_NODES 64
#define LAUNCHES  200

struct graph {
    struct gw_exec *exec;
    struct gw_model *model;
    struct gw_plan *plan;
    struct gw_mem io, in[SLOTS], out[SLOTS];
    cudaGraph_t graph;
    cudaGraphExec_t launch;
};

static void check(int ok, const char *what)
{
    if (ok) return;
    printf("FAILED %s: %s; %s\n", what, gw_last_error(), cudaGetErrorString(cudaGetLastError()));
    exit(1);
}

static void make_plan(struct graph *t, uint32_t flags)
{
    char path[1024], err[GW_MODEL_ERR] = "";

    pack_path(path, sizeof(path), 1, "superresolution/1/model.onnx");
    if (gw_model_open(path, &t->model, err, sizeof(err))) check(0, err);
    struct gw_plan_options o = {.place = GW_PLACE_GPU, .exec = t->exec, .flags = flags};
    if (gw_plan_create(t->model, &o, &t->plan, err, sizeof(err))) check(0, err);
}

static void capture(struct graph *t)
{
    cudaStream_t s = (cudaStream_t)gw_exec_stream(t->exec);
    cudaGraphNode_t node[MAX_NODES];
    size_t n = MAX_NODES;

    check(!cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "begin capture");
    check(!gw_plan_enqueue_indirect(t->plan, s, (struct gw_plan_io *)t->io.dev), "enqueue");
    check(!cudaStreamEndCapture(s, &t->graph), "end capture");
    check(!cudaGraphGetNodes(t->graph, node, &n), "nodes");
    for (size_t i = 0; i < n; i++) {
        enum cudaGraphNodeType type;
        check(!cudaGraphNodeGetType(node[i], &type) &&
                  (type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemset),
              "a node that is no kernel");
    }
    check(!cudaGraphInstantiate(&t->launch, t->graph, cudaGraphInstantiateFlagDeviceLaunch),
          "instantiate for the device");
    check(!cudaGraphUpload(t->launch, s), "upload");
    printf("measured: %zu kernels in the graph\n", n);
}

/* Serves one slot, and compares. */
static void serve(struct graph *t, int slot, const struct gw_npy *want, float *y)
{
    struct gw_plan_io *io = (struct gw_plan_io *)t->io.host;
    float known[168];

    io->in[0] = t->in[slot].dev;
    io->out[0] = t->out[slot].dev;
    check(!cudaGraphLaunch(t->launch, (cudaStream_t)gw_exec_stream(t->exec)), "launch");
    check(!gw_exec_sync(t->exec, gw_deadline(60000000000u)), "wait");
    check(!gw_copy_out(t->exec, y, t->out[slot].dev, OUT_SIDE * OUT_SIDE * 4), "copy out");
    for (int row = 0; row < 168; row++) {
        struct gw_tensor_diff d;
        for (int i = 0; i < 168; i++) known[i] = y[row * 4 * OUT_SIDE + i * 4];
        gw_tensor_compare(known, (const float *)want->data + row * 168, 168, 1e-4, &d);
        if (d.wrong) printf("FAILED slot %d: row %d differs by %.2g\n", slot, row, d.worst);
        if (d.wrong) exit(1);
    }
}

static void measure(struct graph *t, const char *what)
{
    cudaStream_t s = (cudaStream_t)gw_exec_stream(t->exec);
    struct timespec a, b;

    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < LAUNCHES; i++) check(!cudaGraphLaunch(t->launch, s), "launch");
    check(!gw_exec_sync(t->exec, gw_deadline(60000000000u)), "wait");
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("measured: superresolution as a graph, tensors in %s: %.1f us\n", what,
           ((double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3) / LAUNCHES);
}

static void run(struct graph *t, enum gw_mem_kind kind, const struct gw_npy *x, const struct gw_npy *want)
{
    float *y = (float *)malloc(OUT_SIDE * OUT_SIDE * 4);

    make_plan(t, kind == GW_MEM_DEVICE ? GW_PLAN_GPU_IO : 0);
    check(y && !gw_mem_alloc(t->exec, GW_MEM_HOST, sizeof(struct gw_plan_io), &t->io), "memory");
    for (int i = 0; i < SLOTS; i++) {
        check(!gw_mem_alloc(t->exec, kind, SIDE * SIDE * 4, &t->in[i]), "memory");
        check(!gw_mem_alloc(t->exec, kind, OUT_SIDE * OUT_SIDE * 4, &t->out[i]), "memory");
        check(!gw_copy_in(t->exec, t->in[i].dev, x->data, SIDE * SIDE * 4), "copy in");
    }
    capture(t);
    for (int i = 0; i < SLOTS; i++) serve(t, i, want, y);
    measure(t, kind == GW_MEM_DEVICE ? "GPU memory" : "host memory");
    cudaGraphExecDestroy(t->launch);
    cudaGraphDestroy(t->graph);
    for (int i = 0; i < SLOTS; i++) {
        gw_mem_free(&t->in[i]);
        gw_mem_free(&t->out[i]);
    }
    gw_mem_free(&t->io);
    gw_plan_free(t->plan);
    gw_model_close(t->model);
    free(y);
}

int main(void)
{
    struct graph t = {0};
    struct gw_npy x, want;
    char path[1024], why[256], err[GW_MODEL_ERR] = "";

    setenv("GPUWIRE_PLAN_CACHE", "off", 0); /* a test leaves no files */
    if (!gw_exec_gpu_available(why, sizeof(why))) {
        printf("skipped: %s\n", why);
        return 77;
    }
    pack_path(path, sizeof(path), 1, "superresolution/golden_input.npy");
    if (gw_npy_read(path, &x, err, sizeof(err))) check(0, err);
    pack_path(path, sizeof(path), 1, "superresolution/golden_output.npy");
    if (gw_npy_read(path, &want, err, sizeof(err))) check(0, err);
    check(x.count == SIDE * SIDE && want.count == 168 * 168, "golden files of another size");
    check(!gw_exec_create("gpu", NULL, &t.exec), "executor");
    run(&t, GW_MEM_DEVICE, &x, &want);
    run(&t, GW_MEM_HOST, &x, &want);
    gw_exec_destroy(t.exec);
    gw_npy_free(&x);
    gw_npy_free(&want);
    return 0;
}
