/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TeraSort's records on one GPU with CUB: a radix sort of the keys' first eight bytes with the records'
 * numbers. Then each run of equal ones is put in order by the rest of the records; with random keys there
 * is none. Last the records are gathered.
 */
#include <cub/cub.cuh>

#include "../formats.h"
#include "gpu.h"

struct sorted {
    const uint8_t *record;
    uint64_t *key;
    uint32_t *number;
    uint64_t n;
    uint8_t *out;
};

static __global__ void take_keys(struct sorted s)
{
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < s.n;
         i += (uint64_t)gridDim.x * blockDim.x) {
        const uint32_t *r = (const uint32_t *)(s.record + i * MR_RECORD);

        s.key[i] = (uint64_t)__byte_perm(r[0], 0, 0x0123) << 32 | __byte_perm(r[1], 0, 0x0123);
        s.number[i] = (uint32_t)i;
    }
}

static __device__ bool rest_less(const struct sorted *s, uint32_t a, uint32_t b)
{
    const uint8_t *x = s->record + (uint64_t)a * MR_RECORD, *y = s->record + (uint64_t)b * MR_RECORD;

    for (int i = 8; i < MR_RECORD; i++)
        if (x[i] != y[i]) return x[i] < y[i];
    return false;
}

/* The thread at a run's begin sorts it. */
static __global__ void order_runs(struct sorted s)
{
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i + 1 < s.n;
         i += (uint64_t)gridDim.x * blockDim.x) {
        if (s.key[i] != s.key[i + 1] || (i && s.key[i - 1] == s.key[i])) continue;
        for (uint64_t k = i + 1; k < s.n && s.key[k] == s.key[i]; k++) {
            uint32_t x = s.number[k];
            uint64_t j = k;

            for (; j > i && rest_less(&s, x, s.number[j - 1]); j--) s.number[j] = s.number[j - 1];
            s.number[j] = x;
        }
    }
}

/* 25 words each; neighbouring threads write neighbouring words. */
static __global__ void gather(struct sorted s)
{
    uint64_t words = s.n * (MR_RECORD / 4);

    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < words;
         i += (uint64_t)gridDim.x * blockDim.x)
        ((uint32_t *)s.out)[i] =
            ((const uint32_t *)
                 s.record)[s.number[i / (MR_RECORD / 4)] * (uint64_t)(MR_RECORD / 4) + i % (MR_RECORD / 4)];
}

void gpu_sort(const char *in, const char *out)
{
    static uint8_t head[MR_NPY_HEADER];
    double start = gpu_seconds(), read, sorted;
    struct sorted s, to;
    uint64_t size;
    size_t bytes = 0;
    void *room;

    s.record = gpu_read(in, &size, head);
    s.n = size / MR_RECORD;
    MUST(cudaMalloc((void **)&s.key, (s.n + 1) * sizeof(*s.key)));
    MUST(cudaMalloc((void **)&s.number, (s.n + 1) * sizeof(*s.number)));
    MUST(cudaMalloc((void **)&s.out, (s.n + 1) * MR_RECORD));
    to = s;
    MUST(cudaMalloc((void **)&to.key, (s.n + 1) * sizeof(*s.key)));
    MUST(cudaMalloc((void **)&to.number, (s.n + 1) * sizeof(*s.number)));
    MUST(cub::DeviceRadixSort::SortPairs(NULL, bytes, s.key, to.key, s.number, to.number, s.n));
    MUST(cudaMalloc(&room, bytes));
    MUST(cudaDeviceSynchronize());
    read = gpu_seconds();
    take_keys<<<1024, 256>>>(s);
    MUST(cub::DeviceRadixSort::SortPairs(room, bytes, s.key, to.key, s.number, to.number, s.n));
    order_runs<<<1024, 256>>>(to);
    gather<<<2048, 256>>>(to);
    MUST(cudaDeviceSynchronize());
    sorted = gpu_seconds();
    gpu_write(out, 0, to.out, s.n * MR_RECORD);
    printf("read %.4f device %.4f write %.4f seconds: %.4f\n", read - start, sorted - read,
           gpu_seconds() - sorted, gpu_seconds() - start);
}
