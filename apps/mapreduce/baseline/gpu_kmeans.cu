/* SPDX-License-Identifier: Apache-2.0 */
/*
 * k-means on one GPU with cuBLAS: the products of points and centres are a matrix product, tile by tile so
 * that the products stay in the cache. One warp finds a point's nearest centre and adds the point to its
 * sum. cuBLAS sums in an order of its own, so a point that lies in the middle may get another centre than
 * elsewhere.
 */
#include <cublas_v2.h>
#include <dlfcn.h>

#include "../centres.h"
#include "../formats.h"
#include "gpu.h"

#define TEXT_(x)     #x
#define TEXT(x)      TEXT_(x)
#define FUNCTIONS(f) f(cublasCreate_v2) f(cublasSgemm_v2) f(cublasDestroy_v2)

enum { TILE = 16384 }; /* points */

struct blas {
#define MEMBER(name) __typeof__(::name) *f_##name;
    FUNCTIONS(MEMBER)
#undef MEMBER
    cublasHandle_t handle;
};

struct points {
    const float *x;
    float *centre, *half, *product; /* [k][dims]; [k]; [TILE][k] */
    unsigned long long *sum;        /* [k][dims + 1] */
    uint64_t n, dims;
    uint32_t k;
    double scale;
};

static void blas_open(struct blas *b)
{
    void *lib = dlopen("libcublas.so." TEXT(CUBLAS_VER_MAJOR), RTLD_NOW);

    if (!lib) {
        fprintf(stderr, "gpuwire-mapreduce-gpu: %s\n", dlerror());
        exit(77);
    }
#define FIND(name) b->f_##name = (__typeof__(b->f_##name))dlsym(lib, #name);
    FUNCTIONS(FIND)
#undef FIND
    if (!b->f_cublasCreate_v2 || !b->f_cublasSgemm_v2 || !b->f_cublasDestroy_v2 ||
        b->f_cublasCreate_v2(&b->handle)) {
        fprintf(stderr, "gpuwire-mapreduce-gpu: cuBLAS cannot be used\n");
        exit(77);
    }
}

/* Half squares of the centres, a thread for each; the sums become zero. */
static __global__ void begin_round(struct points p)
{
    uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;

    for (uint64_t j = i; j < p.k * (p.dims + 1); j += (uint64_t)gridDim.x * blockDim.x) p.sum[j] = 0;
    if (i < p.k) {
        float sum = 0;

        for (uint64_t d = 0; d < p.dims; d++)
            sum = fmaf(p.centre[i * p.dims + d], p.centre[i * p.dims + d], sum);
        p.half[i] = sum / 2;
    }
}

/* A warp for each point of a tile, whose products are known. */
static __global__ void assign(struct points p, uint64_t first, uint32_t n)
{
    uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;

    for (uint32_t i = warp; i < n; i += gridDim.x * blockDim.x / 32) {
        const float *product = p.product + (uint64_t)i * p.k, *x = p.x + (first + i) * p.dims;
        float best = INFINITY;
        uint32_t which = 0;

        for (uint32_t k = lane; k < p.k; k += 32) {
            float score = p.half[k] - product[k];

            if (score < best) {
                best = score;
                which = k;
            }
        }
        for (int step = 16; step; step /= 2) {
            float other = __shfl_xor_sync(0xffffffff, best, step);
            uint32_t k = __shfl_xor_sync(0xffffffff, which, step);

            if (other < best || (other == best && k < which)) {
                best = other;
                which = k;
            }
        }
        for (uint64_t d = lane; d < p.dims; d += 32)
            atomicAdd(&p.sum[which * (p.dims + 1) + d], (unsigned long long)centres_fixed(x[d], p.scale));
        if (lane == 0) atomicAdd(&p.sum[which * (p.dims + 1) + p.dims], 1ull);
    }
}

static __global__ void find_largest(struct points p, int *largest)
{
    float most = 0;

    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < p.n * p.dims;
         i += (uint64_t)gridDim.x * blockDim.x)
        most = fmaxf(most, fabsf(p.x[i]));
    atomicMax(largest, __float_as_int(most)); /* of floats that are not negative, the bits are in order */
}

static __global__ void move_centres(struct points p)
{
    uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x, k = i / p.dims, d = i % p.dims;
    unsigned long long count;

    if (k >= p.k || !(count = p.sum[k * (p.dims + 1) + p.dims])) return;
    p.centre[i] = (float)((double)(long long)p.sum[k * (p.dims + 1) + d] / (double)count / p.scale);
}

static void gpu_kmeans_round(const struct blas *b, const struct points *p)
{
    const float one = 1, none = 0;

    begin_round<<<256, 256>>>(*p);
    for (uint64_t first = 0; first < p->n; first += TILE) {
        uint32_t n = p->n - first < TILE ? (uint32_t)(p->n - first) : TILE;

        /* By columns, as cuBLAS reads it: product[k, n] = centre[dims, k]^T x[dims, n]. */
        if (b->f_cublasSgemm_v2(b->handle, CUBLAS_OP_T, CUBLAS_OP_N, (int)p->k, (int)n, (int)p->dims, &one,
                                p->centre, (int)p->dims, p->x + first * p->dims, (int)p->dims, &none,
                                p->product, (int)p->k)) {
            fprintf(stderr, "gpuwire-mapreduce-gpu: cublasSgemm failed\n");
            exit(1);
        }
        assign<<<1056, 256>>>(*p, first, n);
    }
    move_centres<<<(uint32_t)((p->k * p->dims + 255) / 256), 256>>>(*p);
}

static void gpu_kmeans_begin(struct points *p)
{
    int *largest, bits;
    float most;

    MUST(cudaMalloc((void **)&p->centre, p->k * p->dims * sizeof(float)));
    MUST(cudaMalloc((void **)&p->half, p->k * sizeof(float)));
    MUST(cudaMalloc((void **)&p->product, (size_t)TILE * p->k * sizeof(float)));
    MUST(cudaMalloc((void **)&p->sum, p->k * (p->dims + 1) * sizeof(*p->sum)));
    MUST(cudaMalloc((void **)&largest, sizeof(*largest)));
    MUST(cudaMemset(largest, 0, sizeof(*largest)));
    find_largest<<<1056, 256>>>(*p, largest);
    for (uint32_t k = 0; k < p->k; k++)
        MUST(cudaMemcpyAsync(p->centre + k * p->dims, p->x + centres_first(k, p->k, p->n) * p->dims,
                             p->dims * sizeof(float), cudaMemcpyDeviceToDevice));
    MUST(cudaMemcpy(&bits, largest, sizeof(bits), cudaMemcpyDeviceToHost));
    memcpy(&most, &bits, sizeof(most));
    p->scale = centres_scale(centres_exponent(most), p->n);
}

void gpu_kmeans(const char *in, const char *out, uint32_t k, uint32_t rounds)
{
    static uint8_t head[MR_NPY_HEADER];
    char header[MR_NPY_WRITTEN];
    struct points p = {};
    struct mr_npy npy;
    struct blas b;
    double start, read, ended;
    uint64_t size;
    uint8_t *bytes;
    FILE *f;

    blas_open(&b);
    start = gpu_seconds();
    bytes = gpu_read(in, &size, head);
    if (mr_npy_parse(head, size < MR_NPY_HEADER ? size : MR_NPY_HEADER, size, in, &npy) || npy.type != 'f' ||
        npy.item != 4 || npy.rows < k) {
        fprintf(stderr, "gpuwire-mapreduce-gpu: %s: must hold at least %u points of float32\n", in, k);
        exit(1);
    }
    p.x = (const float *)(bytes + npy.start);
    p.n = npy.rows;
    p.dims = npy.columns;
    p.k = k;
    MUST(cudaDeviceSynchronize());
    read = gpu_seconds();
    gpu_kmeans_begin(&p);
    for (uint32_t r = 0; r < rounds; r++) gpu_kmeans_round(&b, &p);
    MUST(cudaDeviceSynchronize());
    ended = gpu_seconds();
    f = fopen(out, "wb");
    if (!f || fwrite(header, 1, mr_npy_header(header, k, p.dims), f) != MR_NPY_WRITTEN || fclose(f)) {
        fprintf(stderr, "gpuwire-mapreduce-gpu: %s: cannot write it\n", out);
        exit(1);
    }
    gpu_write(out, MR_NPY_WRITTEN, (const uint8_t *)p.centre, k * p.dims * sizeof(float));
    printf("read %.4f device %.4f write %.4f seconds: %.4f\n", read - start, ended - read,
           gpu_seconds() - ended, gpu_seconds() - start);
    b.f_cublasDestroy_v2(b.handle);
}
