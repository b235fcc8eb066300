/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages on a GPU, by the driver's virtual memory: each page is an allocation of its own, made at the start
 * and mapped where a model's weights belong. The copies have streams of their own. None of these calls waits
 * for a resident kernel.
 *
 * A GPU copies in the order in which it is told to, whatever the stream. A request's few bytes would wait
 * until all weights before them are there. So weights are copied in pieces, of which two are under way at a
 * time: while one is copied the next one stands ready, and others' copies get in between.
 */
#include "src/fleet/pages/place.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "src/cuda/driver.h"

struct place_gpu {
    struct fleet_place_memory memory;
    const struct gw_cuda_driver *cu;
    struct gw_cu_location where;
    gw_cu_ctx context;
    gw_cu_stream stream[2]; /* take turns: a piece each */
    unsigned turn;
    size_t piece;
    gw_cu_memory *of; /* the pages */
    uint32_t pages, cap;
    size_t page;
};

static int place_error(const struct place_gpu *p, gw_cu_result got, const char *what)
{
    const char *name = NULL;

    if (!got) return 0;
    p->cu->error_name(got, &name);
    return gw_error(got == GW_CU_OUT_OF_MEMORY ? -ENOMEM : -EIO, "GPU %d: %s: %s", p->where.id, what,
                    name ? name : "an unknown error");
}

static bool can_map(const struct gw_cuda_driver *cu)
{
    return cu && cu->mem_create && cu->mem_release && cu->mem_reserve && cu->mem_unreserve && cu->mem_map &&
           cu->mem_unmap && cu->mem_access && cu->stream_wait;
}

/* The calling thread works in the GPU's context from now on. */
static int place_enter(struct place_gpu *p)
{
    return place_error(p, p->cu->ctx_push(p->context), "cannot enter its context");
}

static void place_leave(struct place_gpu *p)
{
    gw_cu_ctx context;

    p->cu->ctx_pop(&context);
}

static int page_more(struct place_gpu *p)
{
    const struct gw_cu_memory_prop prop = {.type = GW_CU_PINNED, .location = p->where};

    if (p->pages == p->cap) return gw_error(-ENOMEM, "there are %u pages already", p->cap);
    int err = place_error(p, p->cu->mem_create(&p->of[p->pages], p->page, &prop, 0), "no memory for a page");
    if (!err) p->pages++;
    return err;
}

static void place_gpu_close(struct fleet_place_memory *m)
{
    struct place_gpu *p = (struct place_gpu *)m;
    bool in = p->context && !place_enter(p);

    for (int i = 0; i < 2; i++)
        if (p->stream[i]) p->cu->stream_destroy(p->stream[i]);
    while (p->pages) p->cu->mem_release(p->of[--p->pages]);
    if (in) place_leave(p);
    free(p->of);
    free(p);
}

static int place_gpu_make(struct place_gpu *p, const struct fleet_place_opts *opts)
{
    int err = place_error(p, p->cu->primary_ctx_retain(&p->context, p->where.id), "cannot use it");

    if (err || (err = place_enter(p))) return err;
    for (int i = 0; i < 2 && !err; i++)
        err = place_error(p, p->cu->stream_create(&p->stream[i], GW_CU_STREAM_NON_BLOCKING),
                          "cannot make a stream");
    for (uint32_t i = 0; i < opts->pages && !err; i++) err = page_more(p);
    place_leave(p);
    return err;
}

static int place_gpu_open(const struct fleet_place_opts *opts, struct fleet_place_memory **out)
{
    const struct gw_cuda_driver *cu = gw_cuda_driver_loaded();
    struct place_gpu *p = (struct place_gpu *)calloc(1, sizeof(*p));

    if (!p) return -ENOMEM;
    /* Room for as many more: other threads read the list while it grows. */
    *p = (struct place_gpu){.memory = {&fleet_place_gpu},
                            .of = (gw_cu_memory *)calloc(opts->pages, 2 * sizeof(gw_cu_memory)),
                            .cap = 2 * opts->pages,
                            .cu = cu,
                            .where = {GW_CU_LOCATION_DEVICE, (int)gw_exec_device(opts->exec)},
                            .page = opts->page,
                            .piece = opts->piece};
    int err = can_map(cu) ? place_gpu_make(p, opts)
                          : gw_error(-ENOTSUP, "the CUDA driver is too old to map memory");
    if (err)
        place_gpu_close(&p->memory);
    else
        *out = &p->memory;
    return err;
}

static int place_gpu_more(struct fleet_place_memory *m)
{
    struct place_gpu *p = (struct place_gpu *)m;
    int err = place_enter(p);

    if (err) return err;
    err = page_more(p);
    place_leave(p);
    return err;
}

static int place_gpu_reserve(struct fleet_place_memory *m, size_t bytes, char **at)
{
    struct place_gpu *p = (struct place_gpu *)m;
    gw_cu_ptr got = 0;
    int err = place_enter(p);

    if (err) return err;
    err = place_error(p, p->cu->mem_reserve(&got, bytes, p->page, 0, 0), "no addresses are free");
    place_leave(p);
    *at = (char *)(uintptr_t)got;
    return err;
}

static void place_gpu_unreserve(struct fleet_place_memory *m, char *at, size_t bytes)
{
    struct place_gpu *p = (struct place_gpu *)m;

    if (place_enter(p)) return;
    p->cu->mem_unreserve((uintptr_t)at, bytes);
    place_leave(p);
}

static int page_map(struct place_gpu *p, gw_cu_ptr at, uint32_t page)
{
    const struct gw_cu_access access = {p->where, GW_CU_ACCESS_READ_WRITE};
    int err = place_error(p, p->cu->mem_map(at, p->page, 0, p->of[page], 0), "cannot map a page");

    if (err) return err;
    err = place_error(p, p->cu->mem_access(at, p->page, &access, 1), "cannot open a page");
    if (err) p->cu->mem_unmap(at, p->page);
    return err;
}

static int place_gpu_map(struct fleet_place_memory *m, char *at, uint32_t page)
{
    struct place_gpu *p = (struct place_gpu *)m;
    int err = place_enter(p);

    if (err) return err;
    err = page_map(p, (uintptr_t)at, page);
    place_leave(p);
    return err;
}

/* Page by page, as they were mapped. */
static int place_gpu_unmap(struct fleet_place_memory *m, char *at, size_t bytes)
{
    struct place_gpu *p = (struct place_gpu *)m;
    int err = place_enter(p);

    if (err) return err;
    for (size_t i = 0; i < bytes; i += p->page) {
        int failed = place_error(p, p->cu->mem_unmap((uintptr_t)at + i, p->page), "cannot unmap a page");
        if (failed) err = failed;
    }
    place_leave(p);
    return err;
}

/* One piece, when the last but one is done. */
static int piece_copy(struct place_gpu *p, gw_cu_ptr at, const char *from, size_t bytes)
{
    gw_cu_stream stream = p->stream[p->turn++ % 2];
    int err = place_error(p, p->cu->stream_wait(stream), "a copy failed");

    return err ? err : place_error(p, p->cu->copy_to_device(at, from, bytes, stream), "cannot copy a page");
}

static int place_gpu_copy(struct fleet_place_memory *m, char *at, const void *from, size_t bytes)
{
    struct place_gpu *p = (struct place_gpu *)m;
    int err = place_enter(p);

    if (err) return err;
    for (size_t i = 0; i < bytes && !err; i += p->piece) {
        size_t part = bytes - i < p->piece ? bytes - i : p->piece;
        err = piece_copy(p, (uintptr_t)at + i, (const char *)from + i, part);
    }
    place_leave(p);
    return err;
}

static int place_gpu_wait(struct fleet_place_memory *m)
{
    struct place_gpu *p = (struct place_gpu *)m;
    int err = place_enter(p);

    if (err) return err;
    for (int i = 0; i < 2; i++) {
        int failed = place_error(p, p->cu->stream_wait(p->stream[i]), "a copy failed");
        if (failed) err = failed;
    }
    place_leave(p);
    return err;
}

const struct fleet_place_ops fleet_place_gpu = {.open = place_gpu_open,
                                                .close = place_gpu_close,
                                                .reserve = place_gpu_reserve,
                                                .unreserve = place_gpu_unreserve,
                                                .more = place_gpu_more,
                                                .map = place_gpu_map,
                                                .unmap = place_gpu_unmap,
                                                .copy = place_gpu_copy,
                                                .wait = place_gpu_wait};
