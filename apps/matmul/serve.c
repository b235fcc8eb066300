/* SPDX-License-Identifier: Apache-2.0 */
/* The server's host side: it makes the sets of sockets and all memory, starts the kernel, and ends it. In
 * between it has nothing to do. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <gpuwire/verbs.h>

#include "pool.h"
#include "serve.h"

#define THREADS    256u /* of a block, on a GPU */
#define SPARE      6u   /* of a GPU's blocks: for the NIC's copies and for other programs */
#define SECOND_NS  1000000000ull
#define TIMEOUT_NS (20 * SECOND_NS)

/* Words that host and kernels share. */
struct mm_shared {
    uint32_t stop;
    int32_t result;
    int32_t listener[MM_NETS_MAX];
    uint16_t port;
};

struct mm_server {
    struct mm_server_opts opts;
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_sockets *set[MM_NETS_MAX];
    struct mm_server_args args;
    struct gw_mem shared, tables, jobs, matrices, fds; /* tables: connections, counts, the queue */
    bool running;
    char name[128];
};

/* ---- options ------------------------------------------------------------------------------------------ */

static void serve_default(uint32_t *field, uint32_t value)
{
    if (!*field) *field = value;
}

/* Before there is an executor. */
static uint32_t serve_cpu_blocks(const struct mm_server_opts *o)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t least = o->daemon ? 4 : 2;

    if (o->blocks) return o->blocks;
    return cpus > (long)least ? (uint32_t)cpus : least;
}

/* On a GPU proxies look for work all the time, so they get a quarter of the processors. */
static uint32_t serve_proxies(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    return cpus < 8 ? 1 : cpus > 32 ? 8 : (uint32_t)cpus / 4;
}

static int serve_options(struct mm_server *s)
{
    struct mm_server_opts *o = &s->opts;
    bool gpu = gw_exec_kind(s->exec) == GW_EXEC_GPU;
    uint32_t resident = gw_exec_resident_blocks(s->exec);

    serve_default(&o->blocks, gpu ? (resident > 2 * SPARE ? resident - SPARE : resident) : resident);
    serve_default(&o->io_blocks, o->daemon ? (o->blocks + 3) / 4 : o->blocks);
    serve_default(&o->connections, 1024);
    serve_default(&o->largest, MM_N_MAX);
    serve_default(&o->proxies, gpu && o->rdma == GW_RDMA_OFF ? serve_proxies() : 1);
    if (o->proxies > o->io_blocks) o->proxies = o->io_blocks;
    serve_default(&o->memory_mb, gpu ? 4096 : 256);
    serve_default(&o->buffer_kb, o->connections <= 64 ? 1024 : gpu ? 256 : 64);
    serve_default(&o->body_s, 10);
    serve_default(&o->idle_s, 300);
    serve_default(&o->room_s, 2);
    if (o->blocks > resident)
        return gw_error(-EINVAL, "%u blocks: %u run at the same time here", o->blocks, resident);
    if (o->daemon && (o->blocks < 2 || o->io_blocks >= o->blocks))
        return gw_error(-EINVAL, "the daemon needs blocks that serve and blocks that compute: %u of %u serve",
                        o->io_blocks, o->blocks);
    if (o->proxies > 1 && o->rdma != GW_RDMA_OFF)
        return gw_error(-EINVAL, "several proxies share a port over TCP alone");
    return 0;
}

/* ---- memory ------------------------------------------------------------------------------------------- */

/* How many buffers each class has: an equal part of the memory, at least one, at most one for each
 * connection. */
static void serve_classes(struct mm_server *s, uint64_t *bytes, uint32_t *jobs)
{
    uint32_t top = mm_class_of(s->opts.largest);
    uint64_t each = ((uint64_t)s->opts.memory_mb << 20) / (top + 1);
    struct mm_class *k = s->args.classes;

    for (uint32_t c = 0; c < MM_CLASSES; c++) {
        k[c].bytes = mm_class_bytes(c);
        k[c].first = *jobs;
        k[c].count = c <= top ? 1 : 0;
        if (c <= top && each > k[c].bytes) k[c].count = (uint32_t)(each / k[c].bytes);
        if (k[c].count > s->opts.connections) k[c].count = s->opts.connections;
        *jobs += k[c].count;
        *bytes += k[c].count * k[c].bytes;
    }
}

/* Connections of a block: their fair part, and as many again, since clients do not come and go evenly. */
static uint32_t serve_per_block(const struct mm_server_opts *o)
{
    return 2 * ((o->connections + o->io_blocks - 1) / o->io_blocks) + 2;
}

static int serve_memory(struct mm_server *s)
{
    struct mm_server_args *a = &s->args;
    uint64_t conns, bytes = 0;
    uint32_t jobs = 0;
    uint8_t *at;
    int err;

    a->per_block = serve_per_block(&s->opts);
    conns = (uint64_t)a->per_block * s->opts.io_blocks;
    serve_classes(s, &bytes, &jobs);
    err = gw_mem_alloc(s->exec, GW_MEM_HOST, sizeof(struct mm_shared), &s->shared);
    if (!err)
        err = gw_mem_alloc(s->exec, GW_MEM_DEVICE,
                           conns * sizeof(*a->conns) + sizeof(*a->counts) + (jobs + 1) * sizeof(uint64_t) +
                               sizeof(uint32_t) * MM_NETS_MAX,
                           &s->tables);
    if (!err)
        err = gw_mem_alloc(s->exec, GW_MEM_DEVICE, (conns + s->opts.io_blocks) * sizeof(*a->fds), &s->fds);
    if (!err) err = gw_mem_alloc(s->exec, GW_MEM_DEVICE, jobs * sizeof(*a->jobs), &s->jobs);
    if (!err) err = gw_mem_alloc(s->exec, GW_MEM_DEVICE, bytes, &s->matrices);
    if (err) return err;
    at = (uint8_t *)s->tables.dev;
    a->conns = (struct mm_conn *)at;
    at += conns * sizeof(*a->conns);
    a->counts = (struct mm_counts *)at;
    at += sizeof(*a->counts);
    a->queue = (uint64_t *)at;
    a->queue_size = jobs;
    a->queued = a->queue + jobs;
    a->active = (uint32_t *)(a->queued + 1);
    a->fds = (struct pollfd *)s->fds.dev;
    a->jobs = (struct mm_job *)s->jobs.dev;
    at = (uint8_t *)s->matrices.dev;
    for (uint32_t c = 0; c < MM_CLASSES; c++) {
        a->classes[c].base = at;
        at += a->classes[c].count * a->classes[c].bytes;
    }
    return 0;
}

/* ---- starting ----------------------------------------------------------------------------------------- */

static int serve_sockets(struct mm_server *s)
{
    const struct mm_server_opts *o = &s->opts;
    struct gw_sockets_attr attr = {.rdma = o->rdma, .exec = s->exec};
    int err = 0;

    attr.rbuf = attr.wbuf = o->buffer_kb << 10;
    attr.busy = gw_exec_kind(s->exec) == GW_EXEC_GPU && o->rdma != GW_RDMA_ONLY;
    if (o->rdma != GW_RDMA_OFF) err = gw_device_open(NULL, s->exec, &s->dev);
    /* Connections spread unevenly over sets that share a port, so each has room for twice its part.
     * Connections that wait to be accepted over RDMA have sockets, too. */
    attr.count = 2 * o->connections / o->proxies;
    if (attr.count < 64 || o->proxies == 1) attr.count = o->connections;
    attr.count += 1 + (o->rdma != GW_RDMA_OFF ? 64 : 0);
    for (uint32_t i = 0; i < o->proxies && !err; i++) {
        err = gw_sockets_create(s->dev, &attr, &s->set[i]);
        if (!err) s->args.net[i] = gw_sockets_net(s->set[i]);
    }
    s->args.nets = o->proxies;
    return err;
}

static int serve_listen(struct mm_server *s)
{
    struct mm_shared *shared = s->shared.host, *theirs = s->shared.dev;
    struct mm_server_args *a = &s->args;
    int err;

    a->stop = &theirs->stop;
    a->listener = theirs->listener;
    a->result = &theirs->result;
    a->port = &theirs->port;
    a->io_blocks = s->opts.io_blocks;
    a->largest = s->opts.largest;
    a->rdma = s->opts.rdma;
    a->addr = s->opts.addr;
    a->addr_len = s->opts.addr_len;
    a->body_ns = s->opts.body_s * SECOND_NS;
    a->idle_ns = s->opts.idle_s * SECOND_NS;
    a->room_ns = s->opts.room_s * SECOND_NS;
    err = gw_launch(s->exec, &mm_listen, 1, THREADS, a);
    if (!err) err = gw_exec_sync(s->exec, gw_deadline(TIMEOUT_NS));
    if (!err && shared->result) err = gw_error_errno(shared->result, "cannot listen there");
    return err;
}

static int serve_start(struct mm_server *s)
{
    int err = serve_options(s);

    if (!err) err = serve_memory(s);
    if (!err) err = serve_sockets(s);
    if (!err) err = serve_listen(s);
    if (!err) err = gw_launch(s->exec, &mm_serve, s->opts.blocks, THREADS, &s->args);
    if (err) return err;
    s->running = true;
    if (s->opts.daemon)
        snprintf(s->name, sizeof(s->name), "daemon, %u blocks serve and %u compute, on %s", s->opts.io_blocks,
                 s->opts.blocks - s->opts.io_blocks, gw_exec_name(s->exec));
    else
        snprintf(s->name, sizeof(s->name), "independent, %u blocks, on %s", s->opts.blocks,
                 gw_exec_name(s->exec));
    return 0;
}

int mm_server_open(const struct mm_server_opts *opts, struct mm_server **out)
{
    struct gw_exec_opts exec = {.lanes = opts->lanes, .device = opts->gpu, .blocks = serve_cpu_blocks(opts)};
    struct mm_server *s = calloc(1, sizeof(*s));
    int err;

    if (!s) return gw_error_errno(-ENOMEM, "server");
    s->opts = *opts;
    err = gw_exec_create(opts->exec, &exec, &s->exec);
    if (!err) err = serve_start(s);
    if (err) {
        mm_server_close(s);
        return err;
    }
    *out = s;
    return 0;
}

/* ---- while it runs, and its end ------------------------------------------------------------------------ */

uint16_t mm_server_port(const struct mm_server *s)
{
    return ((const struct mm_shared *)s->shared.host)->port;
}

const char *mm_server_name(const struct mm_server *s)
{
    return s->name;
}

int mm_server_check(struct mm_server *s)
{
    int err = gw_exec_sync(s->exec, 0);

    if (err == -ETIMEDOUT) return 0;
    return err ? err : gw_error(-EIO, "the server's kernel has ended by itself");
}

int mm_server_query(struct mm_server *s, struct mm_counts *counts)
{
    return gw_copy_out(s->exec, counts, s->args.counts, sizeof(*counts));
}

int mm_server_stop(struct mm_server *s)
{
    int err;

    if (!s->running) return 0;
    gw_st_release_u32(&((struct mm_shared *)s->shared.host)->stop, 1);
    err = gw_exec_sync(s->exec, gw_deadline(TIMEOUT_NS));
    if (err != -ETIMEDOUT) s->running = false;
    return err;
}

int mm_server_close(struct mm_server *s)
{
    int err = s ? mm_server_stop(s) : 0;

    if (!s || err == -ETIMEDOUT) return err; /* it still uses all this */
    for (uint32_t i = 0; i < MM_NETS_MAX; i++) gw_sockets_destroy(s->set[i]);
    if (s->dev) gw_device_close(s->dev);
    gw_mem_free(&s->matrices);
    gw_mem_free(&s->jobs);
    gw_mem_free(&s->fds);
    gw_mem_free(&s->tables);
    gw_mem_free(&s->shared);
    gw_exec_destroy(s->exec);
    free(s);
    return err;
}
