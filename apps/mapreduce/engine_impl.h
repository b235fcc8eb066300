/* SPDX-License-Identifier: Apache-2.0 */
/* engine_impl.h: what engine.c, engine_memory.c and engine_reduce.c share. */
#ifndef GW_MAPREDUCE_ENGINE_IMPL_H
#define GW_MAPREDUCE_ENGINE_IMPL_H

#include "engine.h"

enum { ENGINE_ARRAYS = 20, ENGINE_SAMPLES = 64 << 10, ENGINE_TILE = 256 };

struct engine {
    struct engine_opts opts;
    struct engine_job job;
    uint64_t input;                   /* bytes of all files */
    struct gw_exec *exec, *move_exec; /* the movers run beside the mappers */
    struct gw_device *device;
    struct gw_channels *channels;
    uint32_t threads, mappers, movers, piece, overlap;
    uint32_t alive, me;
    uint32_t *owner; /* number of the owner among those alive, of each partition */
    bool running, moving;
    uint64_t tickets;
    struct mr_args_ args;
    struct mr_ctl *ctl;
    struct mr_slot *slot;
    uint8_t *buffers;
    struct gw_mem mem[ENGINE_ARRAYS]; /* for as long as the engine lives */
    uint32_t mems;
    struct gw_mem state, entries[2], lengths, tiles, out, part_chunks, part_firsts;
    struct gw_mem kept; /* MR_KEEP */
    void *heap_map;     /* CPU: the heap's pages come as they are used */
    size_t heap_map_bytes;
    struct mr_stored *stored; /* a copy of the store, after the maps */
    uint32_t n_stored;
    struct engine_counts took; /* its times */
    char why[256];
};

GW_KERNEL_DECLARE(mr_reset_kernel);
GW_KERNEL_DECLARE(mr_move_kernel);
GW_KERNEL_DECLARE(mr_index_kernel);
GW_KERNEL_DECLARE(mr_runs_kernel);
GW_KERNEL_DECLARE(mr_merge_kernel);
GW_KERNEL_DECLARE(mr_tiles_kernel);

int engine_fail(struct engine *e, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Memory that lives as long as the engine. */
int engine_array(struct engine *e, enum gw_mem_kind kind, uint64_t bytes, struct gw_mem **out);
/* Memory that grows: at least `bytes`, contents lost when it grows. */
int engine_grow(struct engine *e, enum gw_mem_kind kind, uint64_t bytes, struct gw_mem *mem);
/* All memory of a round, once. */
int engine_allocate(struct engine *e);
int engine_copy_in(struct engine *e, void *dev, const void *host, uint64_t bytes);
int engine_copy_out(struct engine *e, void *host, const void *dev, uint64_t bytes);

#endif
