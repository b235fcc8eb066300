/* SPDX-License-Identifier: Apache-2.0 */
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include <gpuwire/group.h>

#include "bench/modes/device.h"
#include "bench/modes/header.h"
#include "src/loop/child.h"

#define THREADS 256u
#define BLOCKS  64u /* at most */

/* The CPU thread and the kernels share this, in pinned memory. The thread fills it before it says so. */
struct job {
    const struct gw_serve_request *request; /* NULL: there is nothing to do */
    struct gw_serve_reply *reply;
    uint64_t arrived, started;
    uint32_t number; /* of the request */
    uint32_t go;     /* MODES_QUEUED: the stream waits until it is the number */
    uint32_t done;   /* the kernels: the number of the last request whose answer is there */
};

struct modes_device {
    struct modes_device_opts opts;
    cudaStream_t stream;
    cudaGraphExec_t exec;
    cudaEvent_t event[4]; /* before the copy in, after it, after the model, after the copy out */
    struct modes_times times;
    struct job *job, *job_dev;
    uint32_t *ended;         /* blocks that have copied their share of an output */
    uint32_t number, queued; /* of the last request; of the last launch in the stream */
    CUresult (*wait)(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags);
};

static int failed(cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return 0;
    cudaGetLastError(); /* it is reported here, and by no later call */
    return gw_error(error == cudaErrorMemoryAllocation ? -ENOMEM : -EIO, "modes: %s: %s", what,
                    cudaGetErrorString(error));
}

/* ---- the kernels around the model ---- */

static __global__ void take_input(const struct job *job, uint8_t *in, uint64_t bytes)
{
    const struct gw_serve_request *request = job->request;
    if (request) gw_copy_share(in, request + 1, bytes, gw_global_idx(), gridDim.x * blockDim.x);
}

static __global__ void give_output(struct job *job, const uint8_t *out, uint64_t bytes, uint32_t *ended)
{
    struct gw_serve_reply *reply = job->reply;
    if (!job->request) return;
    gw_copy_share(reply + 1, out, bytes, gw_global_idx(), gridDim.x * blockDim.x);
    if (gw_global_idx() == 0) modes_header(reply, job->request, bytes, job->arrived, job->started);
    __syncthreads();
    if (threadIdx.x) return;
    __threadfence_system(); /* this block's share is seen before its mark, and all of them before the word */
    if (atomicAdd(ended, 1) != gridDim.x - 1) return;
    *ended = 0;
    __threadfence_system();
    *(volatile uint32_t *)&job->done = job->number;
}

static uint32_t blocks_for(uint64_t bytes)
{
    uint64_t n = (bytes / 16 + THREADS - 1) / THREADS;
    return n < 1 ? 1 : n > BLOCKS ? BLOCKS : (uint32_t)n;
}

/* ---- making it ---- */

static int make_graph(struct modes_device *d, cudaGraph_t *graph)
{
    const struct modes_device_opts *o = &d->opts;
    cudaError_t error = cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal);
    if (error != cudaSuccess) return failed(error, "cannot capture");
    take_input<<<blocks_for(o->in_bytes), THREADS, 0, d->stream>>>(d->job_dev, (uint8_t *)o->in, o->in_bytes);
    int err = gw_child_put(d->stream, o->graph);
    give_output<<<blocks_for(o->out_bytes), THREADS, 0, d->stream>>>(d->job_dev, (const uint8_t *)o->out,
                                                                     o->out_bytes, d->ended);
    error = cudaStreamEndCapture(d->stream, graph);
    return err ? err : failed(error, "cannot put the model between its copies");
}

static int make_exec(struct modes_device *d)
{
    cudaGraph_t own = NULL;
    int error = d->opts.kind == MODES_COPY ? 0 : make_graph(d, &own);
    if (!error)
        error = failed(cudaGraphInstantiate(&d->exec, own ? own : (cudaGraph_t)d->opts.graph, 0),
                       "cannot instantiate the graph");
    if (own) cudaGraphDestroy(own);
    if (!error) error = failed(cudaGraphUpload(d->exec, d->stream), "cannot upload the graph");
    return error ? error : failed(cudaStreamSynchronize(d->stream), "cannot upload the graph");
}

static int make_job(struct modes_device *d)
{
    int error =
        failed(cudaHostAlloc((void **)&d->job, sizeof(*d->job), cudaHostAllocMapped), "pinned memory");
    if (!error) error = failed(cudaHostGetDevicePointer((void **)&d->job_dev, d->job, 0), "pinned memory");
    if (!error) error = failed(cudaMalloc((void **)&d->ended, sizeof(*d->ended)), "GPU memory");
    if (error) return error;
    *d->job = (struct job){0};
    return failed(cudaMemset(d->ended, 0, sizeof(*d->ended)), "GPU memory");
}

static int find_wait(struct modes_device *d)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (lib) *(void **)&d->wait = dlsym(lib, "cuStreamWaitValue32_v2");
    return d->wait ? 0 : gw_error(-ENOTSUP, "modes: this driver has no cuStreamWaitValue32");
}

static void destroy(struct modes_device *d);

static int create(const struct modes_device_opts *opts, struct modes_device **out)
{
    struct modes_device *d = (struct modes_device *)calloc(1, sizeof(*d));
    if (!d) return -ENOMEM;
    d->opts = *opts;
    int error = failed(cudaSetDevice((int)opts->gpu), "cannot use the GPU");
    if (!error) error = failed(cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), "a stream");
    for (int i = 0; !error && i < 4; i++) error = failed(cudaEventCreate(&d->event[i]), "an event");
    if (!error) error = make_job(d);
    if (!error) error = make_exec(d);
    if (!error && opts->kind == MODES_QUEUED) error = find_wait(d);
    if (error)
        destroy(d);
    else
        *out = d;
    return error;
}

/* ---- one request ---- */

static void mark(struct modes_device *d, int i)
{
    if (d->opts.timed) cudaEventRecord(d->event[i], d->stream);
}

static uint64_t between(const struct modes_device *d, int i)
{
    float ms = 0;
    cudaEventElapsedTime(&ms, d->event[i], d->event[i + 1]);
    return (uint64_t)(ms * 1e6f);
}

static int run_copy(struct modes_device *d, const struct modes_work *work)
{
    const struct modes_device_opts *o = &d->opts;
    const struct gw_serve_request *request = (const struct gw_serve_request *)work->request;
    struct gw_serve_reply *reply = (struct gw_serve_reply *)work->reply;
    mark(d, 0);
    cudaMemcpyAsync(o->in, request + 1, o->in_bytes, cudaMemcpyHostToDevice, d->stream);
    mark(d, 1);
    cudaGraphLaunch(d->exec, d->stream);
    mark(d, 2);
    cudaMemcpyAsync(reply + 1, o->out, o->out_bytes, cudaMemcpyDeviceToHost, d->stream);
    mark(d, 3);
    int error = failed(cudaStreamSynchronize(d->stream), "the model failed");
    d->times.requests++;
    if (!o->timed || error) return error;
    d->times.in_ns += between(d, 0);
    d->times.run_ns += between(d, 1);
    d->times.out_ns += between(d, 2);
    return 0;
}

/* Puts a launch into the stream; MODES_QUEUED: after a wait for its number. */
static int launch(struct modes_device *d)
{
    d->queued++;
    if (d->opts.kind == MODES_QUEUED &&
        d->wait(d->stream, (CUdeviceptr)&d->job_dev->go, d->queued, CU_STREAM_WAIT_VALUE_GEQ) != CUDA_SUCCESS)
        return gw_error(-EIO, "modes: cannot queue a wait");
    return failed(cudaGraphLaunch(d->exec, d->stream), "cannot launch the graph");
}

static int await(struct modes_device *d)
{
    for (uint32_t round = 1; gw_ld_acquire_u32(&d->job->done) != d->number; round++) {
        gw_pause(0);
        if (round % 65536) continue;
        cudaError_t error = cudaStreamQuery(d->stream);
        if (error != cudaErrorNotReady && error != cudaSuccess) return failed(error, "the model failed");
    }
    return 0;
}

static int run_direct(struct modes_device *d, const struct modes_work *work)
{
    int error = 0;
    if (d->opts.kind == MODES_QUEUED && d->queued == d->number) error = launch(d); /* the first */
    d->job->request = (const struct gw_serve_request *)work->request;
    d->job->reply = (struct gw_serve_reply *)work->reply;
    d->job->arrived = work->arrived;
    d->job->started = work->started;
    d->job->number = ++d->number;
    gw_st_release_u32(&d->job->go, d->number); /* release: the kernels see the job */
    if (!error) error = launch(d);             /* of this request, or of the next one */
    d->times.requests++;
    return error ? error : await(d);
}

static int run(struct modes_device *d, const struct modes_work *work)
{
    return d->opts.kind == MODES_COPY ? run_copy(d, work) : run_direct(d, work);
}

static void rest(struct modes_device *d)
{
    if (!d->job || d->queued == d->number) return;
    d->job->request = NULL;
    d->number = d->queued;
    gw_st_release_u32(&d->job->go, d->number); /* release: the kernels see that there is nothing to do */
    cudaStreamSynchronize(d->stream);
}

static void times(const struct modes_device *d, struct modes_times *t)
{
    *t = d->times;
}

static void destroy(struct modes_device *d)
{
    rest(d);
    if (d->exec) cudaGraphExecDestroy(d->exec);
    for (int i = 0; i < 4; i++)
        if (d->event[i]) cudaEventDestroy(d->event[i]);
    if (d->job) cudaFreeHost(d->job);
    if (d->ended) cudaFree(d->ended);
    if (d->stream) cudaStreamDestroy(d->stream);
    cudaGetLastError();
    free(d);
}

extern "C" const struct modes_device_ops modes_on_gpu = {create, run, rest, times, destroy};
