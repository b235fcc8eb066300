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
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "src/exec/gpu.h"
#include "src/loop/impl.h"

#define GW_LOOP_NAME 200 /* bytes of a kernel's name in a message */
#define GW_LOOP_WHY  360
/* How long an instantiation may take beside a running loop; it takes 0.5 ms at most. */
#define GW_LOOP_PATIENCE_NS 1000000

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

/* The stream `to` waits here for all that `from` has captured. */
static int order(struct gw_loop *l, void *event, cudaStream_t from, cudaStream_t to)
{
    cudaError_t error = cudaEventRecord((cudaEvent_t)event, from);

    if (error == cudaSuccess) error = cudaStreamWaitEvent(to, (cudaEvent_t)event, 0);
    return gw_gpu_error(error, "%s: cannot capture stages that run at the same time", l->name);
}

/* A stage begins to run beside the next ones: *left of them. */
static int begin_branch(struct gw_loop *l, uint32_t *left, const struct gw_loop_stage *s, cudaStream_t stream)
{
    cudaStream_t side = (cudaStream_t)l->side;
    int err = order(l, l->fork, stream, side);

    *left = s->beside;
    return err ? err : enqueue_stage(l, s, side);
}

static int end_branch(struct gw_loop *l, uint32_t *left, cudaStream_t stream)
{
    *left = 0;
    return order(l, l->join, (cudaStream_t)l->side, stream);
}

static int enqueue_stages(struct gw_loop *l, uint32_t variant, cudaStream_t stream)
{
    const struct gw_loop_step *s;
    uint32_t left = 0;
    int err = 0;

    for (s = l->variant[variant].first; !err && s; s = s->next) {
        if (s->stage.beside && left)
            return gw_error(-EINVAL, "%s: stage %s: another one runs beside the same stages", l->name,
                            s->stage.name);
        if (s->stage.beside) {
            err = begin_branch(l, &left, &s->stage, stream);
            continue;
        }
        err = enqueue_stage(l, &s->stage, stream);
        if (!err && left && --left == 0) err = end_branch(l, &left, stream);
    }
    return !err && left ? end_branch(l, &left, stream) : err;
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
    cudaStream_t stream = (cudaStream_t)l->main;
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

/* The first of a variant's stages that cannot be made into a loop by itself; NULL: each can. */
static const char *loop_gpu_blame(struct gw_loop *l, uint32_t variant)
{
    const struct gw_loop_step *s;
    char why[GW_LOOP_WHY];

    for (s = l->variant[variant].first; s; s = s->next) {
        struct content one = {&s->stage, 0};
        cudaGraphExec_t exec;
        cudaGraph_t graph;
        cudaError_t error;

        if (loop_gpu_capture(l, &one, &graph)) return s->stage.name;
        error = instantiate(graph, &exec, why, sizeof(why));
        cudaGraphDestroy(graph);
        if (error != cudaSuccess) return s->stage.name;
        cudaGraphExecDestroy(exec);
    }
    return NULL;
}

/* Which stage is to blame. While the loop runs nothing is tried: giving back what works would wait for its
 * end. */
static const char *culprit(struct gw_loop *l, uint32_t variant)
{
    const char *name = NULL;

    if (!l->started) name = loop_gpu_blame(l, variant);
    if (!l->started && !name) name = loop_gpu_blame(l, 0);
    return name ? name : "(all together)";
}

/* An instantiation on a thread of its own. */
struct instance {
    struct gw_loop *loop;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaError_t error;
    char why[GW_LOOP_WHY];
};

static void *loop_gpu_instance(void *arg)
{
    struct instance *i = (struct instance *)arg;

    i->error = cudaErrorUnknown;
    if (!gw_gpu_use(i->loop->exec)) i->error = instantiate(i->graph, &i->exec, i->why, sizeof(i->why));
    return NULL;
}

/* Now and then CUDA needs more memory for graphs. Then it waits until no kernel runs, and lets none begin. So
 * a loop that serves is stopped for that moment, between two iterations. */
static cudaError_t loop_gpu_instantiate(struct instance *i)
{
    struct gw_loop *l = i->loop;
    struct timespec limit;
    pthread_t thread;

    if (!l->started || pthread_create(&thread, NULL, loop_gpu_instance, i)) {
        loop_gpu_instance(i);
        return i->error;
    }
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_nsec += GW_LOOP_PATIENCE_NS;
    limit.tv_sec += limit.tv_nsec / 1000000000;
    limit.tv_nsec %= 1000000000;
    if (!pthread_timedjoin_np(thread, NULL, &limit)) return i->error;
    gw_loop_pause(l);
    pthread_join(thread, NULL);
    if (gw_loop_resume(l)) i->error = cudaErrorLaunchFailure;
    return i->error;
}

static int loop_gpu_make_graph(struct gw_loop *l, uint32_t variant, cudaGraphExec_t *exec)
{
    struct content content = {NULL, variant};
    struct instance i = {l, NULL, NULL, cudaSuccess, ""};
    int err = loop_gpu_capture(l, &content, &i.graph);

    if (err) return err;
    cudaError_t error = loop_gpu_instantiate(&i);
    cudaGraphDestroy(i.graph);
    *exec = i.exec;
    if (error == cudaSuccess) return 0;
    return gw_error(error == cudaErrorMemoryAllocation ? -ENOMEM : -ENOTSUP,
                    "%s: stage %s cannot run in a loop on a GPU: %s (CUDA error %d, %s)", l->name,
                    culprit(l, variant), i.why, (int)error, cudaGetErrorString(error));
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

    for (i = 0; i <= l->variants; i++) {
        if (l->variant[i].exec) cudaGraphExecDestroy((cudaGraphExec_t)l->variant[i].exec);
        l->variant[i].exec = NULL;
    }
    if (l->stream) cudaStreamDestroy((cudaStream_t)l->stream);
    if (l->main) cudaStreamDestroy((cudaStream_t)l->main);
    if (l->side) cudaStreamDestroy((cudaStream_t)l->side);
    if (l->fork) cudaEventDestroy((cudaEvent_t)l->fork);
    if (l->join) cudaEventDestroy((cudaEvent_t)l->join);
    l->stream = l->main = l->side = l->fork = l->join = NULL;
    gw_mem_free(&l->graphs_mem);
    cudaGetLastError();
}

/* Makes a variant's graph, and puts it where kernels find it. */
static int loop_gpu_build(struct gw_loop *l, uint32_t variant)
{
    struct gw_loop_graphs *graphs = (struct gw_loop_graphs *)l->graphs_mem.dev;
    cudaStream_t stream = (cudaStream_t)l->main;
    cudaGraphExec_t exec;
    int err = gw_gpu_use(l->exec);

    if (!err) err = loop_gpu_make_graph(l, variant, &exec);
    if (err) return err;
    l->variant[variant].exec = exec;
    cudaError_t error = cudaGraphUpload(exec, stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    err = gw_gpu_error(error, "%s: cannot upload the graph to GPU %u", l->name, l->exec->device);
    return err ? err : gw_copy_in(l->exec, &graphs->exec[variant], &exec, sizeof(exec));
}

static int loop_gpu_make_stream(struct gw_loop *l, void **to)
{
    cudaStream_t stream = NULL;
    int err = gw_gpu_error(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                           "%s: cannot make a stream on GPU %u", l->name, l->exec->device);

    *to = stream;
    return err;
}

static int loop_gpu_make_event(struct gw_loop *l, void **to)
{
    cudaEvent_t event = NULL;
    int err = gw_gpu_error(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                           "%s: cannot make an event", l->name);

    *to = event;
    return err;
}

static int loop_gpu_prepare(struct gw_loop *l)
{
    uint64_t variants = l->variants;
    int err = gw_gpu_use(l->exec);

    if (err) return err;
    err = loop_gpu_make_stream(l, &l->stream);
    if (!err) err = loop_gpu_make_stream(l, &l->main);
    if (!err) err = loop_gpu_make_stream(l, &l->side);
    if (!err) err = loop_gpu_make_event(l, &l->fork);
    if (!err) err = loop_gpu_make_event(l, &l->join);
    if (!err)
        err = gw_mem_alloc(l->exec, GW_MEM_DEVICE,
                           sizeof(struct gw_loop_graphs) + (variants + 1) * sizeof(void *), &l->graphs_mem);
    if (!err) err = gw_copy_in(l->exec, l->graphs_mem.dev, &variants, sizeof(variants));
    if (err) loop_gpu_release(l);
    return err;
}

static int loop_gpu_start(struct gw_loop *l)
{
    cudaStream_t stream = (cudaStream_t)l->stream;
    int err = gw_gpu_use(l->exec);

    if (!err)
        err = gw_gpu_error(cudaGraphLaunch((cudaGraphExec_t)l->variant[0].exec, stream),
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

const struct gw_loop_ops gw_loop_gpu_ops = {loop_gpu_prepare, loop_gpu_build, loop_gpu_start,
                                            loop_gpu_join,    loop_gpu_ended, loop_gpu_destroy};
