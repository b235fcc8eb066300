/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The judge of the CPU+CUDA baseline. Requests and values are received into pinned memory, which the GPU
 * reads in place: no copies are ordered. A lot of jobs is one launch, a block for each, on one of the
 * thread's streams. The GPU writes the sums of terms into pinned memory, and the thread polls an event.
 */
#include <cuda_runtime.h>

#include <stdio.h>
#include <stdlib.h>

#include "apps/faceverify/baseline/baseline.h"

/* One lot is filled while the others are under way. It holds all jobs of a thread. */
enum { LOTS = 4, LOT_MAX = 512, BLOCK = 256 };

struct lot {
    uint32_t number[LOT_MAX], count;
    const uint8_t *picture[LOT_MAX]; /* as the GPU sees them */
    const struct face_value *value[LOT_MAX];
    uint32_t terms[LOT_MAX];
};

struct judge {
    uint8_t *requests;
    struct face_value *values;
    struct lot *lot; /* LOTS of them, pinned */
    uint32_t first, under_way, taken;
    uint32_t filling; /* jobs in the lot after those under way */
    cudaStream_t stream[LOTS];
    cudaEvent_t event[LOTS];
};

/* A block for each job. */
static __global__ void judge_kernel(struct lot *lot)
{
    __shared__ __align__(16) uint8_t picture[FACE_PIXELS];
    __shared__ uint32_t pairs[FACE_COUNTS / 2], sums[FACE_CELLS], all;
    __shared__ uint8_t bin[256];
    const struct face_value *v = lot->value[blockIdx.x];
    const uint4 *from = (const uint4 *)lot->picture[blockIdx.x];
    uint32_t i, terms = 0, a, b, bad;

    if (threadIdx.x == 0) face_bins(bin), all = 0;
    for (i = threadIdx.x; i < FACE_PIXELS / 16; i += BLOCK) ((uint4 *)picture)[i] = from[i];
    for (i = threadIdx.x; i < FACE_COUNTS / 2; i += BLOCK) pairs[i] = 0;
    if (threadIdx.x < FACE_CELLS) sums[threadIdx.x] = 0;
    __syncthreads();
    for (i = threadIdx.x; i < FACE_PIXELS; i += BLOCK) {
        int x = (int)(i % FACE_SIDE), y = (int)(i / FACE_SIDE);
        uint32_t at =
            (uint32_t)(y / FACE_CELL * FACE_GRID + x / FACE_CELL) * FACE_BINS + bin[face_code(picture, x, y)];

        atomicAdd(&pairs[at / 2], 1u << at % 2 * 16);
    }
    __syncthreads();
    for (i = threadIdx.x; i < FACE_COUNTS / 2; i += BLOCK) {
        a = pairs[i];
        b = ((const uint32_t *)v->histogram.count)[i];
        atomicAdd(&sums[2 * i / FACE_BINS], b & 0xffff);
        atomicAdd(&sums[(2 * i + 1) / FACE_BINS], b >> 16);
        if ((b & 0xffff) <= FACE_CELL_PIXELS) terms += face_term(a & 0xffff, b & 0xffff);
        if (b >> 16 <= FACE_CELL_PIXELS) terms += face_term(a >> 16, b >> 16);
    }
    atomicAdd(&all, terms);
    __syncthreads();
    bad = __syncthreads_or(threadIdx.x < FACE_CELLS && sums[threadIdx.x] != FACE_CELL_PIXELS);
    if (threadIdx.x == 0) lot->terms[blockIdx.x] = bad ? UINT32_MAX : all;
}

static bool failed(cudaError_t e)
{
    if (e != cudaSuccess) fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
    return e != cudaSuccess;
}

struct judge *judge_new(uint32_t jobs, uint8_t **requests, struct face_value **values)
{
    struct judge *j = (struct judge *)calloc(1, sizeof(*j));
    bool bad = !j;

    bad = bad ||
          failed(cudaHostAlloc((void **)&j->requests, (size_t)jobs * FACE_REQUEST_MAX, cudaHostAllocMapped));
    bad = bad || failed(cudaHostAlloc((void **)&j->values, jobs * sizeof(**values), cudaHostAllocMapped));
    bad = bad || failed(cudaHostAlloc((void **)&j->lot, LOTS * sizeof(*j->lot), cudaHostAllocMapped));
    for (int i = 0; i < LOTS && !bad; i++)
        bad = failed(cudaStreamCreateWithFlags(&j->stream[i], cudaStreamNonBlocking)) ||
              failed(cudaEventCreateWithFlags(&j->event[i], cudaEventDisableTiming));
    if (bad) return NULL;
    *requests = j->requests;
    *values = j->values;
    return j;
}

void judge_request(struct judge *j, struct job *job)
{
    (void)j, (void)job;
}

/* Launches what has gathered, if a stream is free. */
void judge_flush(struct judge *j)
{
    uint32_t i = (j->first + j->under_way) % LOTS;
    struct lot *lot = &j->lot[i];

    if (!j->filling || j->under_way == LOTS - 1) return;
    lot->count = j->filling;
    judge_kernel<<<lot->count, BLOCK, 0, j->stream[i]>>>(lot);
    if (failed(cudaGetLastError()) || failed(cudaEventRecord(j->event[i], j->stream[i]))) exit(1);
    j->under_way++;
    j->filling = 0;
}

void judge_value(struct judge *j, uint32_t number, struct job *job)
{
    struct lot *lot = &j->lot[(j->first + j->under_way) % LOTS];

    lot->number[j->filling] = number;
    lot->picture[j->filling] = job_picture(job);
    lot->value[j->filling++] = job->value;
}

int judge_next(struct judge *j, struct job *jobs)
{
    struct lot *lot = &j->lot[j->first];
    uint32_t number;

    if (!j->under_way || (!j->taken && cudaEventQuery(j->event[j->first]) != cudaSuccess)) return -1;
    number = lot->number[j->taken];
    jobs[number].terms = lot->terms[j->taken];
    if (++j->taken == lot->count) {
        j->taken = 0;
        j->first = (j->first + 1) % LOTS;
        j->under_way--;
    }
    return (int)number;
}

uint32_t judge_waits(const struct judge *j)
{
    return j->under_way + j->filling;
}

const char *judge_name(void)
{
    return "histograms on a GPU";
}
