/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of CUDA that captured models need. */
#include <cuda_runtime.h>
#include <errno.h>

#include "src/loop/child.h"

static int child_failed(cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return 0;
    cudaGetLastError(); /* it is reported here, and by no later call */
    return gw_error(error == cudaErrorMemoryAllocation ? -ENOMEM : -EIO, "%s: %s", what,
                    cudaGetErrorString(error));
}

extern "C" int gw_child_clone(void *graph, void **copy)
{
    cudaGraph_t out = NULL;
    int err = child_failed(cudaGraphClone(&out, (cudaGraph_t)graph), "cannot copy a captured graph");

    *copy = out;
    return err;
}

extern "C" void gw_child_drop(void *graph)
{
    cudaGraphDestroy((cudaGraph_t)graph);
}

/* The node after all that the stream has captured so far. */
static cudaError_t child_put(cudaStream_t stream, cudaGraph_t child)
{
    enum cudaStreamCaptureStatus status;
    const cudaGraphNode_t *before = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphNode_t node;
    size_t n = 0;
#if CUDART_VERSION >= 13000
    const cudaGraphEdgeData *edges = NULL;
    cudaError_t error = cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, &before, &edges, &n);
#else
    cudaError_t error = cudaStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, &before, &n);
#endif

    if (error != cudaSuccess) return error;
    if (status != cudaStreamCaptureStatusActive) return cudaErrorIllegalState;
    error = cudaGraphAddChildGraphNode(&node, graph, before, n, child);
    if (error != cudaSuccess) return error;
#if CUDART_VERSION >= 13000
    return cudaStreamUpdateCaptureDependencies(stream, &node, NULL, 1, cudaStreamSetCaptureDependencies);
#else
    return cudaStreamUpdateCaptureDependencies(stream, &node, 1, cudaStreamSetCaptureDependencies);
#endif
}

extern "C" int gw_child_put(void *stream, void *graph)
{
    return child_failed(child_put((cudaStream_t)stream, (cudaGraph_t)graph),
                        "cannot put a captured graph into the loop's");
}

extern "C" int gw_child_launch(void *stream, void *graph)
{
    cudaGraphExec_t exec = NULL;
    cudaError_t error = cudaGraphInstantiate(&exec, (cudaGraph_t)graph, 0);

    if (error == cudaSuccess) error = cudaGraphLaunch(exec, (cudaStream_t)stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize((cudaStream_t)stream);
    if (exec) cudaGraphExecDestroy(exec);
    return child_failed(error, "cannot run a captured graph");
}
