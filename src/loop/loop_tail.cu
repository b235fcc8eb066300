/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of an iteration on a GPU: a kernel that launches its own graph again. It is the only code of the
 * project that calls CUDA from the device, and so the only file that needs relocatable device code. Its
 * library is linked for the device by itself (CUDA_RESOLVE_DEVICE_SYMBOLS), so a program that links the
 * library needs nothing special.
 */
#include <errno.h>

#include "src/loop/impl.h"

/* A look at the stop word is a read over PCIe, which takes about 1 µs: iterations shorter than this share
 * one. */
#define LOOK_NS 20000u

static __device__ bool to_stop(struct gw_loop_ctl *ctl, uint64_t now)
{
    if (ctl->failed) return true; /* the stages' writes are visible: they are earlier nodes of the graph */
    if (now - ctl->looked_ns < LOOK_NS) return false;
    ctl->looked_ns = now;
    return gw_ld_relaxed_u32(&ctl->shared->stop) != 0;
}

static __device__ void loop_tail_end(struct gw_loop_ctl *ctl)
{
    gw_st_relaxed_u32(&ctl->shared->error, (uint32_t)ctl->error);
    gw_st_release_u32(&ctl->shared->ended, 1); /* after error and iterations, for the host */
}

/* The graph of the variant that was picked, or that of the common stages; NULL: there is no such variant. */
static __device__ cudaGraphExec_t next_graph(struct gw_loop_ctl *ctl, const struct gw_loop_graphs *graphs)
{
    uint32_t variant = ctl->picked;

    ctl->picked = 0;
    return variant <= graphs->variants ? (cudaGraphExec_t)graphs->exec[variant] : NULL;
}

static __global__ void tail_kernel(struct gw_loop_ctl *ctl, const struct gw_loop_graphs *graphs)
{
    cudaGraphExec_t next;
    int stop;

    ctl->iterations++;
    gw_st_relaxed_u64(&ctl->shared->iterations, ctl->iterations);
    stop = to_stop(ctl, gw_clock_ns());
    if (ctl->ending || (stop && !ctl->picked)) {
        loop_tail_end(ctl);
        return;
    }
    /* The picked variant still runs; after it, in its graph, are the common stages, which pick nothing more.
     */
    ctl->ending = (uint32_t)stop;
    next = next_graph(ctl, graphs);
    if (!next) gw_loop_fail(ctl, -EINVAL);
    /* Starts when this graph, and so this kernel, is over; the next iteration sees all of this one's writes.
     */
    else if (cudaGraphLaunch(next, cudaStreamGraphTailLaunch) != cudaSuccess)
        gw_loop_fail(ctl, -EIO);
    else
        return;
    loop_tail_end(ctl);
}

int gw_loop_tail_launch(struct gw_loop_ctl *ctl, const struct gw_loop_graphs *graphs, void *stream)
{
    tail_kernel<<<1, 1, 0, (cudaStream_t)stream>>>(ctl, graphs);
    return (int)cudaGetLastError();
}
