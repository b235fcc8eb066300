/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's memory: how much of everything, and where. All of it is there before the first kernel starts. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine_impl.h"

enum {
    TABLE_BYTES = 256 << 10, /* of a mapper block's table */
    MIN_HEAP = 16 << 20,
    PIECE_CPU = 256 << 10,
    MAX_GROUPS = 16,
    PIECE_GPU = 512 << 10,
};

int engine_fail(struct engine *e, int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(e->why, sizeof(e->why), format, args);
    va_end(args);
    return err;
}

int engine_copy_in(struct engine *e, void *dev, const void *host, uint64_t bytes)
{
    int err = bytes ? gw_copy_in(e->exec, dev, host, bytes) : 0;

    return err ? engine_fail(e, err, "copying to the executor: %s", gw_last_error()) : 0;
}

int engine_copy_out(struct engine *e, void *host, const void *dev, uint64_t bytes)
{
    int err = bytes ? gw_copy_out(e->exec, host, dev, bytes) : 0;

    return err ? engine_fail(e, err, "copying from the executor: %s", gw_last_error()) : 0;
}

int engine_array(struct engine *e, enum gw_mem_kind kind, uint64_t bytes, struct gw_mem **out)
{
    struct gw_mem *mem = &e->mem[e->mems];
    int err = gw_mem_alloc(e->exec, kind, bytes, mem);

    if (err) return engine_fail(e, err, "%s", gw_last_error());
    e->mems++;
    *out = mem;
    return 0;
}

int engine_grow(struct engine *e, enum gw_mem_kind kind, uint64_t bytes, struct gw_mem *mem)
{
    int err;

    if (mem->size >= bytes) return 0;
    gw_mem_free(mem);
    err = gw_mem_alloc(e->exec, kind, bytes + bytes / 4, mem);
    return err ? engine_fail(e, err,
                             "the partition does not fit: %s (more ranks or --parts make them smaller)",
                             gw_last_error())
               : 0;
}

/* How many bytes of pairs this rank may have. */
static uint64_t heap_bytes(const struct engine *e)
{
    uint64_t need = e->opts.memory;

    if (!need) {
        uint64_t share = e->input / (e->opts.ranks ? e->opts.ranks : 1);

        /* Pairs of words are about four times their text. Partitions are not equally large. */
        need = 6 * share + (64u << 20);
        if (gw_exec_kind(e->exec) == GW_EXEC_CPU) {
            uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;

            if (need > ram) need = ram;
        } else if (need > (uint64_t)48 << 30) {
            need = (uint64_t)48 << 30;
        }
    }
    return need < MIN_HEAP ? MIN_HEAP : need;
}

/* On a CPU the heap is address space; its pages come when they are used. */
static int heap_make(struct engine *e, uint64_t bytes)
{
    struct gw_mem *mem = &e->mem[e->mems];
    int err;

    if (gw_exec_kind(e->exec) == GW_EXEC_GPU) {
        err = gw_mem_alloc(e->exec, GW_MEM_DEVICE, bytes, mem);
    } else {
        void *at =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (at == MAP_FAILED)
            return engine_fail(e, -ENOMEM, "no memory for %llu bytes of pairs", (unsigned long long)bytes);
        e->heap_map = at;
        e->heap_map_bytes = bytes;
        err = gw_mem_register(e->exec, at, bytes, 0, mem);
    }
    if (err) return engine_fail(e, err, "pairs: %s (--memory BYTES)", gw_last_error());
    if (gw_exec_kind(e->exec) == GW_EXEC_GPU) e->mems++;
    e->args.heap = (uint8_t *)mem->dev;
    if (gw_exec_kind(e->exec) == GW_EXEC_CPU) *mem = (struct gw_mem){0};
    return 0;
}

/* A power of two. A table for the whole rank has twice the places that its keys need. */
static uint32_t table_slots(const struct engine *e)
{
    uint32_t n = 64, keys = e->job.keys < 1 << 24 ? e->job.keys : 1 << 24;

    if (e->args.flags & MR_ONE_TABLE)
        while (n < 2 * keys) n *= 2;
    else
        while (n < 8192 && n * e->args.table_stride < TABLE_BYTES) n *= 2;
    return n;
}

static int pairs_make(struct engine *e)
{
    struct mr_args_ *a = &e->args;
    uint32_t flight;
    struct gw_mem *m = NULL;
    uint64_t peers = e->opts.ranks - 1;
    int err;

    a->groups = gw_exec_kind(e->exec) == GW_EXEC_CPU || a->parts > MAX_GROUPS ? 1 : MAX_GROUPS / a->parts;
    flight = e->mappers * a->groups * a->parts + (e->mappers < 16 ? 64 : 4 * e->mappers);
    a->chunks = (uint32_t)(heap_bytes(e) / MR_CHUNK);
    if (a->chunks < 2 * flight) a->chunks = 2 * flight;
    a->store_max = a->chunks - flight;
    err = heap_make(e, (uint64_t)a->chunks * MR_CHUNK);
    if (err) return err;
#define ARRAY(field, kind, bytes)                                                                            \
    if ((err = engine_array(e, kind, (bytes) + 8, &m))) return err;                                          \
    a->field = m->dev
    ARRAY(next, GW_MEM_DEVICE, (uint64_t)a->chunks * 4);
    ARRAY(store, GW_MEM_DEVICE, (uint64_t)a->store_max * sizeof(struct mr_stored));
    ARRAY(owner, GW_MEM_DEVICE, (uint64_t)a->parts * 4);
    ARRAY(queue, GW_MEM_DEVICE, peers * sizeof(struct mr_queue));
    ARRAY(ring, GW_MEM_DEVICE, peers * a->chunks * 4);
    ARRAY(bucket, GW_MEM_DEVICE, (uint64_t)e->mappers * a->groups * a->parts * sizeof(struct mr_bucket));
    ARRAY(dev, GW_MEM_DEVICE, sizeof(struct mr_dev));
    ARRAY(splits, GW_MEM_DEVICE, (uint64_t)a->parts * MR_SAMPLE);
    ARRAY(sample, GW_MEM_DEVICE, (uint64_t)ENGINE_SAMPLES * MR_SAMPLE);
    a->sample_max = ENGINE_SAMPLES;
    if (a->combine_how) {
        a->table_key = a->key < MR_INLINE_KEY ? a->key : MR_INLINE_KEY;
        a->table_stride = (uint32_t)sizeof(struct mr_place) + mr_up8_(a->value) + mr_up8_(a->table_key);
        a->table_slots = table_slots(e);
    }
    a->table_bytes = (uint64_t)a->table_slots * a->table_stride * (a->flags & MR_ONE_TABLE ? 1 : e->mappers);
    ARRAY(table, GW_MEM_DEVICE, a->table_bytes);
    return 0;
}

static int input_make(struct engine *e)
{
    struct mr_args_ *a = &e->args;
    bool gpu = gw_exec_kind(e->exec) == GW_EXEC_GPU;
    struct gw_mem *m = NULL;
    int err;

    e->piece = gpu ? PIECE_GPU : PIECE_CPU;
    if (a->record) e->piece = a->record > e->piece ? a->record : e->piece / a->record * a->record;
    a->overlap = a->input == MR_LINES ? MR_MAX_LINE : a->input == MR_WORDS ? MR_MAX_WORD : 0;
    a->buffer = (MR_LEAD + e->piece + a->overlap + 64) & ~63u;
    a->slots = gpu ? 2 * e->mappers : 2 * e->mappers + 2;
    ARRAY(slot, GW_MEM_HOST, (uint64_t)a->slots * sizeof(struct mr_slot));
    e->slot = (struct mr_slot *)m->host;
    ARRAY(buffers, GW_MEM_HOST, (uint64_t)a->slots * a->buffer);
    e->buffers = (uint8_t *)m->host;
    ARRAY(ctl, GW_MEM_HOST, sizeof(struct mr_ctl));
    e->ctl = (struct mr_ctl *)m->host;
    if (gpu) {
        ARRAY(own, GW_MEM_DEVICE, (uint64_t)e->mappers * a->buffer);
    }
    ARRAY(names, GW_MEM_DEVICE, e->job.names_bytes);
#undef ARRAY
    return engine_copy_in(e, m->dev, e->job.names, e->job.names_bytes);
}

/* Room for this rank's share of the input, or for what may be had of it. Without it the job reads more. */
static void kept_make(struct engine *e)
{
    uint64_t share = e->input / (e->opts.ranks ? e->opts.ranks : 1), most = (uint64_t)64 << 30;
    uint64_t pieces = share / e->piece + 64;

    share += pieces * (MR_LEAD + 64);
    if (gw_exec_kind(e->exec) == GW_EXEC_CPU)
        most = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 4 /
               (e->opts.ranks ? e->opts.ranks : 1);
    if (!gw_mem_alloc(e->exec, GW_MEM_DEVICE, share < most ? share : most, &e->kept))
        e->args.kept = (uint8_t *)e->kept.dev;
}

int engine_allocate(struct engine *e)
{
    int err = input_make(e);

    if (!err) err = pairs_make(e);
    if (!err && e->args.flags & MR_KEEP) kept_make(e);
    e->owner = (uint32_t *)calloc(e->args.parts, sizeof(*e->owner));
    e->stored = (struct mr_stored *)calloc(e->args.store_max ? e->args.store_max : 1, sizeof(*e->stored));
    if (!err && (!e->owner || !e->stored)) err = engine_fail(e, -ENOMEM, "no memory");
    return err;
}
