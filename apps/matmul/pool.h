/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h: buffers for matrices. A connection has its buffer until its answer is sent, or until a limit of
 * connection.h ends it. */
#ifndef MATMUL_POOL_H
#define MATMUL_POOL_H

#include "server.h"

/* The class of the smallest buffers that fit. */
GW_FN uint32_t mm_class_of(uint32_t n)
{
    uint32_t class_ = 0;

    while (64u << class_ < n) class_++;
    return class_;
}

/* Bytes of a buffer: both factors as fp32, the answer's header, and C. */
GW_FN uint64_t mm_class_bytes(uint32_t class_)
{
    uint64_t n = 64u << class_;

    return 3 * 4 * n * n + 64;
}

/* A buffer for n × n, or MM_NONE. One thread calls it. Small matrices may use the next larger class, no more:
 * else they would take the few large ones. */
GW_DEV uint32_t mm_job_take(const struct mm_server_args *a, uint32_t n)
{
    uint32_t own = mm_class_of(n);

    for (uint32_t c = own; c < own + 2 && c < MM_CLASSES; c++) {
        const struct mm_class *k = &a->classes[c];

        for (uint32_t i = 0; i < k->count; i++) {
            uint32_t job = k->first + (i + gw_block_idx() * (k->count / gw_grid_dim() + 1)) % k->count;

            if (gw_ld_relaxed_u32_gpu(&a->jobs[job].taken)) continue;
            /* Acquire: the last owner's use of the buffer comes before ours. */
            if (gw_cas_acquire_u32_gpu(&a->jobs[job].taken, 0, 1) == 0) return job;
        }
    }
    return MM_NONE;
}

/* One thread calls it, after a barrier of the block. */
GW_DEV void mm_job_give(const struct mm_server_args *a, uint32_t job)
{
    gw_st_release_u32_gpu(&a->jobs[job].taken, 0); /* release: all use of the buffer comes before */
}

/* Says what the buffer is for. One thread calls it. */
GW_DEV void mm_job_begin(const struct mm_server_args *a, uint32_t job, const struct mm_request *r)
{
    const struct mm_class *k = a->classes;
    struct mm_product *p = &a->jobs[job].product;
    uint64_t in = mm_in_bytes(r->type, r->n);
    uint8_t *buffer;

    while (job >= k->first + k->count) k++;
    buffer = k->base + (job - k->first) * k->bytes;
    p->a = buffer;
    p->b = buffer + in / 2;
    p->c = (float *)(buffer + in + 64); /* n is a multiple of 16: both halves are aligned to 64 bytes */
    p->n = r->n;
    p->type = r->type;
}

#endif
