/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop on a GPU: the stages are captured into a graph whose last node launches the graph again. The host
 * launches it once.
 *
 * A graph that a tail launch starts takes the place of the one that launched it inside the stream. So what
 * the host puts after its own launch runs when the last of them is over. That announces the end without a
 * thread that polls.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/exec/gpu.h"
#include "src/loop/impl.h"

#define GW_LOOP_NAME 200 /* bytes of a kernel's name in a message */
#define GW_LOOP_WHY  360

/* ---- capture ------------------------------------------------------------------------------------------- */

static int enqueue_stage(struct gw_loop *l, const struct gw_loop_stage *s, cudaStream_t stream)
{
    int err;

    if (s->kernel)
        return gw_gpu_error((cudaError_t)s->kernel->gpu(s->grid, s->block, s->arg, stream),
                            "%s: stage %s: cannot capture kernel %s with %u blocks of %u threads", l->name,
                            s->name, s->kernel->name, s->grid, s->block);
    err = s->enqueue(s->ctx, stream);
    return err < 0 ? err : 0;
}

/* A stage that runs beside others, while their capture goes on. */
struct branch {
    cudaEvent_t fork, join;
    uint32_t left; /* stages that it still runs beside; 0: there is no branch */
};

/* The stream `to` waits here for all that `from` has captured. */
static int order(struct gw_loop *l, cudaEvent_t event, cudaStream_t from, cudaStream_t to)
{
    cudaError_t error = cudaEventRecord(event, from);

    if (error == cudaSuccess) error = cudaStreamWaitEvent(to, event, 0);
    return gw_gpu_error(error, "%s: cannot capture stages that run at the same time", l->name);
}

static int begin_branch(struct gw_loop *l, struct branch *b, const struct gw_loop_stage *s,
                        cudaStream_t stream)
{
    cudaStream_t side = (cudaStream_t)l->side;
    int err = order(l, b->fork, stream, side);

    b->left = s->beside;
    return err ? err : enqueue_stage(l, s, side);
}

static int end_branch(struct gw_loop *l, struct branch *b, cudaStream_t stream)
{
    b->left = 0;
    return order(l, b->join, (cudaStream_t)l->side, stream);
}

static int enqueue_in_branches(struct gw_loop *l, struct branch *b, uint32_t variant, cudaStream_t stream)
{
    uint32_t i;
    int err = 0;

    for (i = 0; !err && i < l->nstages; i++) {
        const struct gw_loop_stage *s = &l->stage[i];

        if (s->variant != variant) continue;
        if (s->beside && b->left)
            return gw_error(-EINVAL, "%s: stage %s: another one runs beside the same stages", l->name,
                            s->name);
        if (s->beside) {
            err = begin_branch(l, b, s, stream);
            continue;
        }
        err = enqueue_stage(l, s, stream);
        if (!err && b->left && --b->left == 0) err = end_branch(l, b, stream);
    }
    return !err && b->left ? end_branch(l, b, stream) : err;
}

static int enqueue_stages(struct gw_loop *l, uint32_t variant, cudaStream_t stream)
{
    struct branch b = {NULL, NULL, 0};
    cudaError_t error = cudaEventCreateWithFlags(&b.fork, cudaEventDisableTiming);
    int err;

    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&b.join, cudaEventDisableTiming);
    err = gw_gpu_error(error, "%s: cannot make an event", l->name);
    if (!err) err = enqueue_in_branches(l, &b, variant, stream);
    if (b.fork) cudaEventDestroy(b.fork);
    if (b.join) cudaEventDestroy(b.join);
    return err;
}

/* The part of a graph before its tail: one stage, or a variant and the common stages. */
struct content {
    const struct gw_loop_stage *only; /* NULL: the variant */
    uint32_t variant;
};

static int enqueue_content(struct gw_loop *l, const struct content *c, cudaStream_t stream)
{
    int err = 0;

    if (c->only) return enqueue_stage(l, c->only, stream);
    if (c->variant) err = enqueue_stages(l, c->variant, stream);
    return err ? err : enqueue_stages(l, 0, stream);
}

/* Captures the content and the tail. Thread-local mode: other threads go on using CUDA at the same time. */
static int loop_gpu_capture(struct gw_loop *l, const struct content *content, cudaGraph_t *graph)
{
    cudaStream_t stream = (cudaStream_t)l->stream;
    cudaError_t error;
    int err;

    *graph = NULL;
    error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (error != cudaSuccess) return gw_gpu_error(error, "%s: cannot capture", l->name);
    err = enqueue_content(l, content, stream);
    if (!err)
        err =
            gw_gpu_error((cudaError_t)gw_loop_tail_launch((struct gw_loop_ctl *)l->ctl_mem.dev,
                                                          (struct gw_loop_graphs *)l->graphs_mem.dev, stream),
                         "%s: cannot capture the kernel that launches the graph again", l->name);
    error = cudaStreamEndCapture(stream, graph); /* also after a failure, to leave the stream usable */
    if (!err)
        err = gw_gpu_error(error, "%s: a stage used the stream in a way that cannot be captured", l->name);
    if (err && *graph) cudaGraphDestroy(*graph);
    cudaGetLastError();
    return err;
}

/* ---- instantiation ------------------------------------------------------------------------------------- */

static const char *loop_gpu_type_name(enum cudaGraphNodeType type)
{
    switch (type) {
    case cudaGraphNodeTypeKernel: return "a kernel";
    case cudaGraphNodeTypeMemcpy: return "a copy";
    case cudaGraphNodeTypeMemset: return "a fill";
    case cudaGraphNodeTypeHost: return "a host function";
    case cudaGraphNodeTypeGraph: return "a child graph";
    case cudaGraphNodeTypeEmpty: return "an empty node";
    case cudaGraphNodeTypeWaitEvent: return "an event wait";
    case cudaGraphNodeTypeEventRecord: return "an event record";
    case cudaGraphNodeTypeMemAlloc: return "an allocation";
    case cudaGraphNodeTypeMemFree: return "a free";
    default: return "another node";
    }
}

static const char *result_name(enum cudaGraphInstantiateResult result)
{
    switch (result) {
    case cudaGraphInstantiateInvalidStructure: return "the graph's structure is invalid";
    case cudaGraphInstantiateNodeOperationNotSupported:
        return "this kind of work cannot be launched from a GPU";
    case cudaGraphInstantiateMultipleDevicesNotSupported:
        return "its nodes are on different GPUs or contexts";
    default: return "unknown reason";
    }
}

/* " NAME" of a kernel node's kernel, as the compiler calls it; "" for other nodes. */
static const char *kernel_name(cudaGraphNode_t node, enum cudaGraphNodeType type, char text[GW_LOOP_NAME])
{
    struct cudaKernelNodeParams params;
    const char *name = NULL;

    text[0] = 0;
    if (type != cudaGraphNodeTypeKernel || cudaGraphKernelNodeGetParams(node, &params) != cudaSuccess ||
        cudaFuncGetName(&name, params.func) != cudaSuccess || !name)
        cudaGetLastError();
    else
        snprintf(text, GW_LOOP_NAME, " %s", name);
    return text;
}

static cudaError_t instantiate(cudaGraph_t graph, cudaGraphExec_t *exec, char *why, size_t size)
{
    struct cudaGraphInstantiateParams_st params;
    enum cudaGraphNodeType type;
    char name[GW_LOOP_NAME];
    cudaError_t error;

    memset(&params, 0, sizeof(params));
    params.flags = cudaGraphInstantiateFlagDeviceLaunch;
    error = cudaGraphInstantiateWithParams(exec, graph, &params);
    if (error == cudaSuccess) return error;
    cudaGetLastError();
    snprintf(why, size, "%s", result_name(params.result_out));
    if (params.errNode_out && cudaGraphNodeGetType(params.errNode_out, &type) == cudaSuccess)
        snprintf(why, size, "%s%s: %s", loop_gpu_type_name(type), kernel_name(params.errNode_out, type, name),
                 result_name(params.result_out));
    return error;
}

/* Which stage is to blame: the first that cannot be made into a loop by itself. */
static const char *culprit(struct gw_loop *l)
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    char why[GW_LOOP_WHY];
    uint32_t i;

    for (i = 0; i < l->nstages; i++) {
        cudaError_t error;

        struct content one = {&l->stage[i], 0};

        if (loop_gpu_capture(l, &one, &graph)) return l->stage[i].name;
        error = instantiate(graph, &exec, why, sizeof(why));
        cudaGraphDestroy(graph);
        if (error != cudaSuccess) return l->stage[i].name;
        cudaGraphExecDestroy(exec);
    }
    return "(all together)";
}

static int loop_gpu_build(struct gw_loop *l, uint32_t variant, cudaGraphExec_t *exec)
{
    struct content content = {NULL, variant};
    cudaError_t error;
    cudaGraph_t graph;
    char why[GW_LOOP_WHY];
    int err = loop_gpu_capture(l, &content, &graph);

    if (err) return err;
    error = instantiate(graph, exec, why, sizeof(why));
    cudaGraphDestroy(graph);
    if (error == cudaSuccess) return 0;
    return gw_error(error == cudaErrorMemoryAllocation ? -ENOMEM : -ENOTSUP,
                    "%s: stage %s cannot run in a loop on a GPU: %s (CUDA error %d, %s)", l->name, culprit(l),
                    why, (int)error, cudaGetErrorString(error));
}

/* ---- running ------------------------------------------------------------------------------------------- */

/* On a thread of CUDA's. A callback, not a host function: it is called after an error as well. No CUDA calls
 * in here. */
static void CUDART_CB loop_gpu_announce(cudaStream_t stream, cudaError_t status, void *arg)
{
    struct gw_loop *l = (struct gw_loop *)arg;

    (void)stream;
    (void)status;
    gw_loop_note_end(l);
    gw_st_release_u32(&l->announced, 1); /* the last access to l from here */
}

static void loop_gpu_release(struct gw_loop *l)
{
    uint32_t i;

    for (i = 0; i <= l->variants; i++)
        if (l->graphs.exec[i]) cudaGraphExecDestroy((cudaGraphExec_t)l->graphs.exec[i]);
    memset(&l->graphs, 0, sizeof(l->graphs));
    if (l->stream) cudaStreamDestroy((cudaStream_t)l->stream);
    if (l->side) cudaStreamDestroy((cudaStream_t)l->side);
    l->stream = l->side = NULL;
    gw_mem_free(&l->graphs_mem);
    cudaGetLastError();
}

static int upload(struct gw_loop *l, uint32_t variant)
{
    cudaStream_t stream = (cudaStream_t)l->stream;
    cudaError_t error = cudaGraphUpload((cudaGraphExec_t)l->graphs.exec[variant], stream);

    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    return gw_gpu_error(error, "%s: cannot upload the graph to GPU %u", l->name, l->exec->device);
}

static int has_stages(const struct gw_loop *l, uint32_t variant)
{
    uint32_t i;

    for (i = 0; i < l->nstages; i++)
        if (l->stage[i].variant == variant) return 1;
    return 0;
}

/* A graph for each variant that there is, and one for the common stages. */
static int build_all(struct gw_loop *l)
{
    cudaGraphExec_t exec;
    uint32_t v;
    int err = 0;

    for (v = 0; !err && v <= l->variants; v++) {
        if (v && !has_stages(l, v)) continue;
        err = loop_gpu_build(l, v, &exec);
        if (err) break;
        l->graphs.exec[v] = exec;
        err = upload(l, v);
    }
    return err ? err : gw_copy_in(l->exec, l->graphs_mem.dev, &l->graphs, sizeof(l->graphs));
}

static int loop_gpu_make_stream(struct gw_loop *l, void **to)
{
    cudaStream_t stream = NULL;
    int err = gw_gpu_error(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                           "%s: cannot make a stream on GPU %u", l->name, l->exec->device);

    *to = stream;
    return err;
}

static int loop_gpu_prepare(struct gw_loop *l)
{
    int err = gw_gpu_use(l->exec);

    if (err) return err;
    err = loop_gpu_make_stream(l, &l->stream);
    if (!err) err = loop_gpu_make_stream(l, &l->side);
    if (!err) err = gw_mem_alloc(l->exec, GW_MEM_DEVICE, sizeof(l->graphs), &l->graphs_mem);
    if (!err) err = build_all(l);
    if (err) loop_gpu_release(l);
    return err;
}

static int loop_gpu_start(struct gw_loop *l)
{
    cudaStream_t stream = (cudaStream_t)l->stream;
    int err = gw_gpu_use(l->exec);

    if (!err)
        err = gw_gpu_error(cudaGraphLaunch((cudaGraphExec_t)l->graphs.exec[0], stream),
                           "%s: cannot launch the graph on GPU %u", l->name, l->exec->device);
    if (err) return err;
    /* Without it the owner still finds the end, by looking twice a second. */
    if (cudaStreamAddCallback(stream, loop_gpu_announce, l, 0) != cudaSuccess) {
        cudaGetLastError();
        gw_st_relaxed_u32(&l->announced, 1);
    }
    return 0;
}

static int loop_gpu_ended(struct gw_loop *l)
{
    cudaError_t error;
    int err = gw_gpu_use(l->exec);

    if (err) return err;
    error = cudaStreamQuery((cudaStream_t)l->stream);
    /* Acquire: error and iterations are read after it. */
    if (error == cudaSuccess) return gw_ld_acquire_u32(&l->shared->ended) != 0;
    if (error == cudaErrorNotReady) {
        cudaGetLastError();
        return 0;
    }
    return gw_gpu_error(error, "%s: a kernel of the loop failed on GPU %u", l->name, l->exec->device);
}

static void loop_gpu_join(struct gw_loop *l)
{
    uint64_t give_up = gw_deadline(1000000000u);
    uint32_t round;

    gw_gpu_use(l->exec);
    cudaStreamSynchronize((cudaStream_t)l->stream);
    /* After a failure the callback may come late, or never; the struct it is given must outlive it. */
    for (round = 0; !gw_ld_acquire_u32(&l->announced) && gw_clock_ns() < give_up; round++) gw_pause(round);
    l->announced = 0;
}

static void loop_gpu_destroy(struct gw_loop *l)
{
    gw_gpu_use(l->exec);
    if (l->started) loop_gpu_join(l);
    loop_gpu_release(l);
}

const struct gw_loop_ops gw_loop_gpu_ops = {loop_gpu_prepare, loop_gpu_start, loop_gpu_join, loop_gpu_ended,
                                            loop_gpu_destroy};
