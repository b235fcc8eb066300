/* SPDX-License-Identifier: Apache-2.0 */
/* Reducing a partition: index, sort, measure, and write its output in windows. */
#include <errno.h>
#include <stdlib.h>

#include "engine_impl.h"

enum { OUT_BYTES = 16 << 20, COPY_BYTES = 4 << 20 };

/* The grid for n threads' work. */
static uint32_t reduce_grid(const struct engine *e, uint64_t n)
{
    uint64_t blocks = (n + e->threads - 1) / e->threads;
    uint64_t most = gw_exec_kind(e->exec) == GW_EXEC_GPU ? 16 * (uint64_t)e->mappers : e->mappers;

    return (uint32_t)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

/* Runs a kernel on n threads' work and waits. Peers may have sent what is no pair. */
static int reduce_run(struct engine *e, const struct gw_kernel *k, uint64_t n)
{
    uint32_t threads = gw_exec_kind(e->exec) == GW_EXEC_GPU ? 256 : e->threads;
    int err = gw_launch(e->exec, k, reduce_grid(e, n), threads, &e->args);

    if (!err) err = gw_exec_sync(e->exec, GW_NEVER);
    if (err) return engine_fail(e, err, "reduce: %s", gw_last_error());
    if (e->ctl->wrong) return engine_fail(e, -EPROTO, "a rank has sent what is no pair");
    return 0;
}

/* The chunks of a partition and the number of each one's first entry, for the kernels. */
static int reduce_chunks(struct engine *e, uint32_t part)
{
    struct mr_stored *s = (struct mr_stored *)malloc(((uint64_t)e->n_stored + 1) * sizeof(*s));
    uint64_t *first = (uint64_t *)malloc(((uint64_t)e->n_stored + 1) * sizeof(*first)), n = 0;
    uint32_t chunks = 0;
    int err = s && first ? 0 : engine_fail(e, -ENOMEM, "no memory");

    for (uint32_t i = 0; i < e->n_stored && !err; i++) {
        if (e->stored[i].part != part) continue;
        s[chunks] = e->stored[i];
        first[chunks++] = n;
        n += e->stored[i].pairs;
    }
    e->args.entries = n;
    e->args.part_chunks = chunks;
    if (!err && n) {
        err = engine_grow(e, GW_MEM_DEVICE, chunks * sizeof(*s), &e->part_chunks);
        if (!err) err = engine_grow(e, GW_MEM_DEVICE, chunks * sizeof(*first), &e->part_firsts);
        if (!err) err = engine_copy_in(e, e->part_chunks.dev, s, chunks * sizeof(*s));
        if (!err) err = engine_copy_in(e, e->part_firsts.dev, first, chunks * sizeof(*first));
    }
    free(s);
    free(first);
    e->args.part_chunk = (const struct mr_stored *)e->part_chunks.dev;
    e->args.part_first = (const uint64_t *)e->part_firsts.dev;
    return err;
}

/* The index, sorted, in args.entry. */
static int reduce_sort(struct engine *e)
{
    struct mr_args_ *a = &e->args;
    uint64_t bytes = a->entries * sizeof(struct mr_entry);
    int err = engine_grow(e, GW_MEM_DEVICE, bytes, &e->entries[0]);

    if (!err) err = engine_grow(e, GW_MEM_DEVICE, bytes, &e->entries[1]);
    if (err) return err;
    a->entry = (struct mr_entry *)e->entries[0].dev;
    a->spare = (struct mr_entry *)e->entries[1].dev;
    err = reduce_run(e, &mr_index_kernel, a->part_chunks);
    if (!err) err = reduce_run(e, &mr_runs_kernel, (a->entries + 7) / 8);
    for (a->run = 8; a->run < a->entries && !err; a->run *= 2) {
        struct mr_entry *t = a->spare;

        err = reduce_run(e, &mr_merge_kernel, (a->entries + 15) / 16);
        a->spare = a->entry;
        a->entry = t;
    }
    return err;
}

/* Runs all reduces to measure. tile: where each tile's output begins; one more than tiles. */
static int reduce_measure(struct engine *e, uint64_t tiles, uint64_t *tile)
{
    struct mr_args_ *a = &e->args;
    uint64_t sum = 0;
    int err = engine_grow(e, GW_MEM_DEVICE, a->entries * 8, &e->lengths);

    if (!err) err = engine_grow(e, GW_MEM_DEVICE, tiles * 8, &e->tiles);
    if (err) return err;
    a->length = (uint64_t *)e->lengths.dev;
    a->tile = (uint64_t *)e->tiles.dev;
    a->first_tile = 0;
    a->last_tile = tiles;
    a->out = NULL;
    err = reduce_run(e, e->job.job->reduce_kernel, a->entries);
    if (!err) err = reduce_run(e, &mr_tiles_kernel, tiles);
    if (!err) err = engine_copy_out(e, tile, a->tile, tiles * 8);
    for (uint64_t t = 0; t < tiles && !err; t++) {
        uint64_t n = tile[t];

        tile[t] = sum;
        sum += n;
    }
    tile[tiles] = sum;
    return err ? err : engine_copy_in(e, a->tile, tile, tiles * 8);
}

static int reduce_sink(struct engine *e, uint64_t bytes, uint8_t *copy,
                       int (*sink)(void *arg, const void *from, size_t bytes), void *arg)
{
    uint64_t began;
    int err = 0;

    for (uint64_t at = 0; at < bytes && !err; at += COPY_BYTES) {
        uint64_t n = bytes - at < COPY_BYTES ? bytes - at : COPY_BYTES;

        err = engine_copy_out(e, copy, (uint8_t *)e->out.dev + at, n);
        began = gw_clock_ns();
        if (!err) err = sink(arg, copy, n);
        e->took.sink_ns += gw_clock_ns() - began;
    }
    return err;
}

/* Writes the output, as many tiles at a time as the buffer holds. */
static int reduce_write(struct engine *e, uint64_t tiles, const uint64_t *tile,
                        int (*sink)(void *arg, const void *from, size_t bytes), void *arg)
{
    struct mr_args_ *a = &e->args;
    uint64_t room = OUT_BYTES, t, next;
    uint8_t *copy = (uint8_t *)malloc(COPY_BYTES);
    int err = copy ? 0 : engine_fail(e, -ENOMEM, "no memory");

    for (t = 0; t < tiles; t++)
        if (tile[t + 1] - tile[t] > room) room = tile[t + 1] - tile[t];
    if (!err) err = engine_grow(e, GW_MEM_DEVICE, room, &e->out);
    a->out = (uint8_t *)e->out.dev;
    for (t = 0; t < tiles && !err; t = next) {
        for (next = t + 1; next < tiles && tile[next + 1] - tile[t] <= room;) next++;
        a->first_tile = t;
        a->last_tile = next;
        a->base = tile[t];
        err = reduce_run(e, e->job.job->reduce_kernel, (next - t) * ENGINE_TILE);
        if (!err) err = reduce_sink(e, tile[next] - tile[t], copy, sink, arg);
    }
    free(copy);
    return err;
}

int engine_reduce(struct engine *e, uint32_t part, int (*sink)(void *arg, const void *from, size_t bytes),
                  void *arg)
{
    uint64_t tiles, *tile, began = gw_clock_ns(), sorted, measured;
    int err = reduce_chunks(e, part);

    if (err || !e->args.entries) return err;
    tiles = (e->args.entries + ENGINE_TILE - 1) / ENGINE_TILE;
    tile = (uint64_t *)malloc((tiles + 1) * sizeof(*tile));
    err = tile ? reduce_sort(e) : engine_fail(e, -ENOMEM, "no memory");
    sorted = gw_clock_ns();
    if (!err) err = reduce_measure(e, tiles, tile);
    measured = gw_clock_ns();
    if (!err) err = reduce_write(e, tiles, tile, sink, arg);
    e->took.sort_ns += sorted - began;
    e->took.measure_ns += measured - sorted;
    e->took.write_ns += gw_clock_ns() - measured;
    free(tile);
    return err;
}
