/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's rounds: the executors, the channels to its peers, and the kernels' beginning and end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "engine_impl.h"

enum { GPU_THREADS = 512, GPU_MOVE_THREADS = 256, CHANNEL_SLOTS = 8, MAX_MOVERS = 16 };

const char *engine_why(const struct engine *e)
{
    return e->why;
}

const char *engine_name(const struct engine *e)
{
    return gw_exec_name(e->exec);
}

uint32_t engine_piece(const struct engine *e)
{
    return e->piece;
}

uint64_t engine_kept(const struct engine *e)
{
    return e->kept.size;
}

uint32_t engine_owner(const struct engine *e, uint32_t part)
{
    return e->owner[part];
}

/* ---- opening ------------------------------------------------------------------------------------------- */

/* The executor of this rank. Ranks of a host take its GPUs in turn, when there are fewer than ranks. */
static int executor_create(struct engine *e, struct gw_exec_opts *eo)
{
    uint32_t wanted = eo->device;
    int err = gw_exec_create(e->opts.exec, eo, &e->exec);

    while (err == -ENODEV && eo->device) {
        eo->device--;
        err = gw_exec_create(e->opts.exec, eo, &e->exec);
    }
    if (!err && wanted % (eo->device + 1) != eo->device) {
        (void)gw_exec_destroy(e->exec);
        eo->device = wanted % (eo->device + 1);
        err = gw_exec_create(e->opts.exec, eo, &e->exec);
    }
    return err ? engine_fail(e, err, "%s", gw_last_error()) : 0;
}

static int executors_open(struct engine *e)
{
    struct gw_exec_opts eo = {.lanes = e->opts.lanes, .blocks = e->opts.mappers, .device = e->opts.device};
    struct gw_exec_opts mo;
    uint32_t peers = e->opts.ranks - 1;
    int err = executor_create(e, &eo);

    if (err) return err;
    if (gw_exec_kind(e->exec) == GW_EXEC_GPU) {
        e->threads = GPU_THREADS;
        e->movers = 2 * peers < MAX_MOVERS ? 2 * peers : MAX_MOVERS;
        /* More than fit beside the movers may wait: mappers do not wait for each other. */
        e->mappers = e->opts.mappers ? e->opts.mappers : 2 * gw_exec_resident_blocks(e->exec);
    } else {
        e->threads = gw_exec_lanes(e->exec);
        e->movers = peers ? 1 : 0;
        e->mappers = gw_exec_resident_blocks(e->exec);
    }
    if (!peers) return 0;
    mo = eo;
    mo.blocks = e->movers;
    err = gw_exec_create(gw_exec_kind(e->exec) == GW_EXEC_GPU ? "gpu" : "cpu", &mo, &e->move_exec);
    if (!err) err = gw_device_open(NULL, e->move_exec, &e->device);
    return err ? engine_fail(e, err, "%s", gw_last_error()) : 0;
}

static int channels_open(struct engine *e)
{
    struct gw_channel_attr ca = {
        .count = e->opts.ranks - 1, .bytes = MR_CHUNK, .slots = CHANNEL_SLOTS, .keepalive_ns = 1000000000};
    int err = ca.count ? gw_channels_create(e->device, &ca, &e->channels) : 0;

    if (err) return engine_fail(e, err, "channels: %s", gw_last_error());
    if (ca.count) e->args.channel = gw_channels_handles(e->channels);
    return 0;
}

int engine_open(const struct engine_opts *opts, struct engine **out)
{
    struct engine *e = (struct engine *)calloc(1, sizeof(*e));

    *out = e;
    if (!e) return -ENOMEM;
    e->opts = *opts;
    return executors_open(e);
}

/* The mapper blocks of a GPU that sends pairs to others. The software NIC copies chunks by a kernel, and a
 * GPU full of mappers leaves it no room. Then word count of 600 MB on two GPUs takes 5.4 s; with half of the
 * blocks it takes 0.6 s. A job with one table for all blocks sends little, and has them all. */
static uint32_t prepare_mappers(const struct engine *e)
{
    bool gpu = gw_exec_kind(e->exec) == GW_EXEC_GPU;

    if (!gpu || e->opts.mappers || e->opts.ranks == 1 || e->args.flags & MR_ONE_TABLE) return e->mappers;
    return gw_exec_resident_blocks(e->exec) / 2;
}

int engine_prepare(struct engine *e, const struct engine_job *job, uint64_t input)
{
    struct mr_args_ *a = &e->args;
    int err;

    e->job = *job;
    e->input = input;
    if (gw_exec_kind(e->exec) == GW_EXEC_GPU && job->job->threads) e->threads = job->job->threads;
    a->input = job->job->input;
    a->by = job->job->by;
    a->flags = job->job->flags;
    a->combine_how = job->job->combine;
    a->record = job->record;
    a->key = job->key;
    a->value = job->value;
    a->parts = job->parts;
    a->tile_entries = ENGINE_TILE;
    e->mappers = prepare_mappers(e);
    a->mappers = e->mappers;
    err = engine_allocate(e);
    if (!err) err = channels_open(e);
    return err;
}

void engine_close(struct engine *e)
{
    struct gw_mem *grown[] = {&e->state, &e->entries[0],  &e->entries[1],  &e->lengths, &e->tiles,
                              &e->out,   &e->part_chunks, &e->part_firsts, &e->kept};

    if (!e) return;
    (void)engine_stop(e);
    if (e->channels) (void)gw_channels_destroy(e->channels);
    if (e->device) (void)gw_device_close(e->device);
    for (uint32_t i = 0; i < e->mems; i++) gw_mem_free(&e->mem[i]);
    for (size_t i = 0; i < sizeof(grown) / sizeof(grown[0]); i++) gw_mem_free(grown[i]);
    if (e->heap_map) munmap(e->heap_map, e->heap_map_bytes);
    (void)gw_exec_destroy(e->move_exec);
    (void)gw_exec_destroy(e->exec);
    free(e->owner);
    free(e->stored);
    free(e);
}

/* ---- epochs -------------------------------------------------------------------------------------------- */

/* Partition p is number p modulo alive's. */
static int owners_set(struct engine *e)
{
    uint32_t *place = (uint32_t *)calloc(e->args.parts, sizeof(*place));
    int err;

    if (!place) return engine_fail(e, -ENOMEM, "no memory");
    for (uint32_t p = 0; p < e->args.parts; p++) {
        uint32_t o = e->owner[p] = p % e->alive;

        place[p] = o == e->me ? 0 : o < e->me ? 1 + o : o; /* peers are the others, in order */
    }
    err = engine_copy_in(e, (void *)(uintptr_t)e->args.owner, place, (uint64_t)e->args.parts * 4);
    free(place);
    return err;
}

int engine_epoch(struct engine *e, uint32_t n, uint32_t me, char (*ends)[GW_CHANNEL_END_TEXT])
{
    struct gw_channel_end end;
    int err = engine_stop(e);

    e->alive = n;
    e->me = e->args.rank = me;
    e->args.peers = n - 1;
    for (uint32_t i = 0; i < n - 1 && !err; i++) {
        err = gw_channel_reset(e->channels, i);
        if (!err) err = gw_channel_end(e->channels, i, &end);
        if (err) return engine_fail(e, err, "channels: %s", gw_last_error());
        gw_channel_end_format(&end, ends[i]);
    }
    return err ? err : owners_set(e);
}

int engine_connect(struct engine *e, const char (*ends)[GW_CHANNEL_END_TEXT])
{
    struct gw_channel_end end;

    for (uint32_t i = 0; i < e->args.peers; i++) {
        int err = gw_channel_end_parse(ends[i], &end);

        if (!err) err = gw_channel_connect(e->channels, i, &end);
        if (err) return engine_fail(e, err, "connecting to a rank: %s", gw_last_error());
    }
    return 0;
}

/* ---- a round ------------------------------------------------------------------------------------------- */

static int round_reset(struct engine *e)
{
    int err = gw_launch(e->exec, &mr_reset_kernel, e->mappers, e->threads, &e->args);

    if (!err) err = gw_exec_sync(e->exec, GW_NEVER); /* the movers' kernel runs elsewhere */
    return err ? engine_fail(e, err, "beginning a round: %s", gw_last_error()) : 0;
}

static int state_set(struct engine *e, const void *state, uint64_t bytes)
{
    int err = bytes ? engine_grow(e, GW_MEM_DEVICE, bytes, &e->state) : 0;

    if (!err) err = engine_copy_in(e, e->state.dev, state, bytes);
    e->args.state = e->state.dev;
    e->args.state_bytes = bytes;
    return err;
}

/* Starts the mappers. A GPU takes smaller blocks of a kernel that needs many registers. */
static int map_launch(struct engine *e, const struct mr_args_ *a)
{
    int err = gw_launch(e->exec, e->job.job->map_kernel, e->mappers, e->threads, a);

    while (err && gw_exec_kind(e->exec) == GW_EXEC_GPU && e->threads > 64) {
        e->threads /= 2;
        err = gw_launch(e->exec, e->job.job->map_kernel, e->mappers, e->threads, a);
    }
    return err;
}

int engine_begin(struct engine *e, const void *state, uint64_t state_bytes, const uint8_t *splits,
                 bool sample)
{
    struct mr_args_ a;
    uint8_t *at = (uint8_t *)(uintptr_t)e->args.splits;
    int err = round_reset(e);

    if (!err) err = state_set(e, state, state_bytes);
    if (!err && splits) err = engine_copy_in(e, at, splits, (uint64_t)(e->args.parts - 1) * MR_SAMPLE);
    if (err) return err;
    memset(e->ctl, 0, sizeof(*e->ctl));
    memset(e->slot, 0, e->args.slots * sizeof(*e->slot));
    memset(&e->took, 0, sizeof(e->took));
    e->tickets = 0;
    e->n_stored = 0;
    a = e->args;
    if (!splits) a.splits = NULL;
    if (!sample) a.sample = NULL;
    /* The movers first: mappers may fill the rest of a GPU, and wait for them. */
    if (a.peers && !sample) {
        uint32_t grid = 2 * a.peers < e->movers ? 2 * a.peers : e->movers;

        err = gw_launch(e->move_exec, &mr_move_kernel, grid, GPU_MOVE_THREADS, &a);
        e->moving = !err;
    }
    if (!err) err = map_launch(e, &a);
    e->running = !err;
    if (err) {
        engine_fail(e, err, "starting the maps: %s", gw_last_error());
        (void)engine_stop(e);
    }
    return err;
}

uint32_t engine_room(const struct engine *e)
{
    return e->args.buffer - MR_LEAD;
}

struct mr_slot *engine_slot(struct engine *e, uint8_t **bytes)
{
    struct mr_slot *s = &e->slot[e->tickets % e->args.slots];

    /* acquire: the mappers have read the slot's last piece. Its ticket was one round of slots ago */
    if (e->tickets >= e->args.slots && gw_ld_acquire_u64(&s->taken) != e->tickets - e->args.slots + 1)
        return NULL;
    *bytes = e->buffers + (uint64_t)(s - e->slot) * e->args.buffer;
    s->ready = 0;
    s->taken = e->tickets++; /* engine_ready reads it */
    return s;
}

void engine_ready(struct engine *e, struct mr_slot *s)
{
    (void)e;
    /* release: the piece and what describes it come first */
    gw_st_release_u64(&s->ready, s->taken + 1);
}

void engine_no_more(struct engine *e)
{
    gw_st_relaxed_u64(&e->ctl->tickets, e->tickets);
    gw_st_release_u32(&e->ctl->no_more, 1); /* after `tickets` */
}

/* After the kernels' end: what is in the store. */
static int store_read(struct engine *e)
{
    struct mr_dev d;
    int err = engine_copy_out(e, &d, e->args.dev, sizeof(d));

    if (!err && d.stored > e->args.store_max) err = engine_fail(e, -ENOMEM, "the store overflowed");
    if (!err) err = engine_copy_out(e, e->stored, e->args.store, (uint64_t)d.stored * sizeof(*e->stored));
    if (!err) e->n_stored = d.stored;
    return err;
}

int engine_poll(struct engine *e, uint32_t *wrong, uint64_t *detail)
{
    int err;

    *wrong = gw_ld_acquire_u32(&e->ctl->wrong); /* acquire: its detail was written before */
    *detail = gw_ld_relaxed_u64(&e->ctl->detail);
    if (*wrong) {
        (void)engine_stop(e);
        return -EIO;
    }
    err = e->running ? gw_exec_sync(e->exec, 0) : 0;
    if (err == -ETIMEDOUT) return 0;
    if (!err) e->running = false;
    if (!err && e->moving) {
        err = gw_exec_sync(e->move_exec, 0);
        if (err == -ETIMEDOUT) return 0;
        if (!err) e->moving = false;
    }
    if (err) return engine_fail(e, err, "%s", gw_last_error());
    *wrong = gw_ld_acquire_u32(&e->ctl->wrong);
    *detail = gw_ld_relaxed_u64(&e->ctl->detail);
    if (*wrong) return -EIO;
    err = store_read(e);
    return err ? err : 1;
}

int engine_stop(struct engine *e)
{
    int err = 0, err2 = 0;

    if (e->ctl) gw_st_release_u32(&e->ctl->stop, 1);
    if (e->running) err = gw_exec_sync(e->exec, GW_NEVER);
    if (e->moving) err2 = gw_exec_sync(e->move_exec, GW_NEVER);
    e->running = e->moving = false;
    return err || err2 ? engine_fail(e, err ? err : err2, "%s", gw_last_error()) : 0;
}

int64_t engine_samples(struct engine *e, uint8_t *to, uint32_t max)
{
    struct mr_dev d;
    int err = engine_copy_out(e, &d, e->args.dev, sizeof(d));
    uint32_t n = d.samples < ENGINE_SAMPLES ? d.samples : ENGINE_SAMPLES;

    if (n > max) n = max;
    if (!err) err = engine_copy_out(e, to, e->args.sample, (uint64_t)n * MR_SAMPLE);
    return err ? err : (int64_t)n;
}

void engine_counts(struct engine *e, struct engine_counts *c)
{
    struct mr_dev d;

    *c = e->took;
    if (engine_copy_out(e, &d, e->args.dev, sizeof(d))) return;
    c->pairs = d.pairs_in;
    c->chunks = d.stored;
}
