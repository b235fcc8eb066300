/* SPDX-License-Identifier: Apache-2.0 */
/* cublas.h: the few calls of cuBLAS that the baseline makes. The library is opened when the program runs. */
#ifndef MATMUL_CUBLAS_H
#define MATMUL_CUBLAS_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* As cuBLAS numbers them. */
enum { CUBLAS_R_32F = 0, CUBLAS_R_16F = 2, CUBLAS_32F = 68, CUBLAS_FAST_TF32 = 77, CUBLAS_DEFAULT = -1 };

struct cublas {
    int (*create)(void **handle);
    int (*stream)(void *handle, void *stream);
    int (*gemm)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int,
                const void *, void *, int, int, int, int);
    int (*batched)(void *, int, int, int, int, int, const void *, const void *const *, int, int,
                   const void *const *, int, int, const void *, void *const *, int, int, int, int, int);
};

/* z = x y, column by column. count: 0: one product, of matrices; else as many, of arrays of matrices. */
struct cublas_product {
    int n, type, compute, count;
    const void *x, *y;
    void *z;
};

static inline bool cublas_open(struct cublas *b)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so",
                                        "/usr/local/cuda/lib64/libcublas.so"};
    void *lib = NULL;

    for (uint32_t i = 0; !lib && i < sizeof(names) / sizeof(names[0]); i++) lib = dlopen(names[i], RTLD_NOW);
    if (lib) {
        *(void **)&b->create = dlsym(lib, "cublasCreate_v2");
        *(void **)&b->stream = dlsym(lib, "cublasSetStream_v2");
        *(void **)&b->gemm = dlsym(lib, "cublasGemmEx");
        *(void **)&b->batched = dlsym(lib, "cublasGemmBatchedEx");
    }
    if (lib && b->create && b->stream && b->gemm && b->batched) return true;
    fprintf(stderr, "matmul-cuda: cuBLAS is not here: %s\n", dlerror());
    return false;
}

static inline void *cublas_handle(const struct cublas *b)
{
    void *handle = NULL;

    return b->create(&handle) ? NULL : handle;
}

static inline bool cublas_multiply(const struct cublas *b, void *handle, void *stream,
                                   const struct cublas_product *p)
{
    const float one = 1, zero = 0;

    if (b->stream(handle, stream)) return false;
    if (!p->count)
        return !b->gemm(handle, 0, 0, p->n, p->n, p->n, &one, p->x, p->type, p->n, p->y, p->type, p->n, &zero,
                        p->z, CUBLAS_R_32F, p->n, p->compute, CUBLAS_DEFAULT);
    return !b->batched(handle, 0, 0, p->n, p->n, p->n, &one, (const void *const *)p->x, p->type, p->n,
                       (const void *const *)p->y, p->type, p->n, &zero, (void *const *)p->z, CUBLAS_R_32F,
                       p->n, p->count, p->compute, CUBLAS_DEFAULT);
}

#endif
