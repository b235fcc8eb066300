/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire perf sock: one side, waiting or measuring. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "src/cli/options.h"
#include "src/cli/perf/perf.h"
#include "src/cli/perf/sock_kernels.h"

GW_KERNEL_DECLARE(sock_listen_kernel);
GW_KERNEL_DECLARE(sock_serve_kernel);
GW_KERNEL_DECLARE(sock_ask_kernel);

#define GPU_THREADS 256
#define BYE_NS      5000000000u

/* In host memory, where both see it. */
struct shared {
    uint32_t stop;
    int64_t result;
    struct sockaddr_storage name;
    socklen_t len;
};

struct end {
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_sockets *set;
    struct gw_mem shared, bytes, out, ns;
    uint32_t threads;
};

static struct shared *shared_of(const struct end *e)
{
    return e->shared.host;
}

/* sockets: how many the set has; bytes: of each block; samples: of latencies. */
static int end_open(struct end *e, const struct perf_opts *o, uint32_t sockets, uint64_t bytes,
                    uint64_t samples)
{
    struct gw_exec_opts opts = {.lanes = (uint32_t)o->threads,
                                .blocks = (uint32_t)(o->qps < 1024 ? o->qps : 1024),
                                .device = (uint32_t)o->gpu};
    struct gw_sockets_attr a = {
        .count = sockets, .rbuf = (uint32_t)o->buffer, .wbuf = (uint32_t)o->buffer, .busy = o->busy};
    int err;

    memset(e, 0, sizeof(*e));
    a.rdma = strcmp(o->sock, "rdma") ? GW_RDMA_OFF : GW_RDMA_ONLY;
    if (a.rdma) a.busy = 0;
    err = gw_exec_create(o->exec, &opts, &e->exec);
    if (err) return err;
    a.exec = e->exec;
    e->threads = (uint32_t)(o->threads ? o->threads : gw_exec_kind(e->exec) == GW_EXEC_GPU ? GPU_THREADS : 1);
    if (o->qps > gw_exec_resident_blocks(e->exec))
        return gw_error(-EINVAL, "%llu connections at a time: %s runs %u blocks at once",
                        (unsigned long long)o->qps, gw_exec_name(e->exec), gw_exec_resident_blocks(e->exec));
    if (o->qps * bytes > PERF_MAX_MEMORY)
        return gw_error(-ENOMEM, "messages of all connections take more than 4 GiB");
    if (a.rdma) err = gw_device_open(o->device, e->exec, &e->dev);
    if (!err) err = gw_mem_alloc(e->exec, GW_MEM_HOST, sizeof(struct shared), &e->shared);
    if (!err) err = gw_mem_alloc(e->exec, GW_MEM_DEVICE, o->qps * bytes, &e->bytes);
    if (!err) err = gw_mem_alloc(e->exec, GW_MEM_HOST, o->qps * sizeof(struct sock_out), &e->out);
    if (!err && samples) err = gw_mem_alloc(e->exec, GW_MEM_HOST, samples * sizeof(uint32_t), &e->ns);
    return err ? err : gw_sockets_create(e->dev, &a, &e->set);
}

static void sock_end_tell(const struct perf_opts *o, enum perf_stage stage)
{
    if (o->stage) gw_or_relaxed_u32(o->stage, stage);
}

/* Has a loopback's other side come so far? */
static bool has_come(const struct perf_opts *o, uint32_t stages)
{
    return o->stage && gw_ld_relaxed_u32(o->stage) & stages;
}

/* In a loopback the other side is told first. On a GPU what frees memory waits for all kernels of the
 * process, and the other side's may wait for this one. */
static void end_close(struct end *e, const struct perf_opts *o)
{
    sock_end_tell(o, PERF_OVER);
    gw_sockets_destroy(e->set);
    gw_mem_free(&e->shared);
    gw_mem_free(&e->bytes);
    gw_mem_free(&e->out);
    gw_mem_free(&e->ns);
    if (e->dev) gw_device_close(e->dev);
    gw_exec_destroy(e->exec);
}

/* Until the kernel ends, which Ctrl-C, or the end of a loopback's other side, asks it to; but not to say
 * goodbye. */
static int sock_end_wait_for(struct end *e, const struct perf_opts *o, bool goodbye)
{
    int err;

    while ((err = gw_exec_sync(e->exec, gw_deadline(20000000))) == -ETIMEDOUT)
        if ((gw_interrupted() && !goodbye) || has_come(o, PERF_OVER))
            gw_st_relaxed_u32(&shared_of(e)->stop, 1);
    return err;
}

/* ---- the side that waits ------------------------------------------------------------------------------- */

static int start_listening(struct end *e, const struct perf_opts *o)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o->port)};
    struct shared *there = e->shared.dev;
    struct sock_listen_args a = {.net = gw_sockets_net(e->set),
                                 .len = sizeof(any),
                                 .backlog = (int32_t)o->qps,
                                 .result = &there->result,
                                 .name = (struct sockaddr *)&there->name,
                                 .name_len = &there->len};
    int err;

    memcpy(&a.addr, &any, sizeof(any));
    shared_of(e)->len = sizeof(struct sockaddr_storage);
    err = gw_launch(e->exec, &sock_listen_kernel, 1, e->threads, &a);
    if (!err) err = sock_end_wait_for(e, o, false);
    if (err) return err;
    if (shared_of(e)->result < 0)
        return gw_error_errno((int)shared_of(e)->result, "listening on port %llu",
                              (unsigned long long)o->port);
    return 0;
}

/* In a loopback, until the other side has made its objects. On a GPU that may wait for a kernel, and the
 * serving kernel ends only when it is asked to. */
static void wait_for_other(const struct perf_opts *o)
{
    int fd = gw_interrupt_fd();

    while (o->stage && !has_come(o, PERF_OPEN | PERF_OVER) && !gw_interrupted())
        (void)gw_wait_fds(&fd, 1, gw_deadline(1000000));
}

int perf_sock_serve(const struct perf_opts *o, perf_told *told, void *arg)
{
    struct sock_serve_args a = {.patience_ns = PERF_PATIENCE_NS};
    struct shared *there;
    struct end e;
    int err = end_open(&e, o, (uint32_t)(2 * o->qps + 2), SOCK_SPAN, 0);

    if (!err) err = start_listening(&e, o);
    if (!err) {
        there = e.shared.dev;
        told(arg, ntohs(((struct sockaddr_in *)&shared_of(&e)->name)->sin_port), NULL);
        wait_for_other(o);
        a.net = gw_sockets_net(e.set);
        a.listener = (int32_t)shared_of(&e)->result;
        a.stop = &there->stop;
        a.bytes = e.bytes.dev;
        err = gw_launch(e.exec, &sock_serve_kernel, (uint32_t)o->qps, e.threads, &a);
        if (!err) err = sock_end_wait_for(&e, o, false);
    } else {
        told(arg, 0, NULL);
    }
    end_close(&e, o);
    return err;
}

/* ---- the side that measures ---------------------------------------------------------------------------- */

/* From the first block's begin to the last one's end. */
static int sock_end_sum(const struct end *e, uint64_t blocks, struct perf_row *row)
{
    const struct sock_out *out = e->out.host;
    uint64_t from = UINT64_MAX, to = 0;
    int64_t err = 0;

    for (uint64_t i = 0; i < blocks; i++) {
        if (out[i].start < from) from = out[i].start;
        if (out[i].stop > to) to = out[i].stop;
        row->ops += out[i].ops;
        row->checked += out[i].checked;
        row->wrong += out[i].wrong;
        if (!err || err == -ECANCELED) err = out[i].err;
    }
    row->ns = to > from ? to - from : 0;
    return (int)err;
}

static int sock_end_run(struct end *e, const struct perf_opts *o, struct sock_ask_args *a, uint64_t blocks,
                        struct perf_row *row)
{
    int err = gw_launch(e->exec, &sock_ask_kernel, (uint32_t)blocks, e->threads, a);

    if (!err) err = sock_end_wait_for(e, o, a->head.mode == SOCK_BYE);
    if (err) return err; /* and it has been said why */
    err = sock_end_sum(e, blocks, row);
    row->cut_short = err == -ECANCELED;
    return err && err != -ECANCELED
               ? gw_error_errno(err, "%s port %llu", o->host, (unsigned long long)o->port)
               : err;
}

/* *met: a peer is there. */
static int sock_end_measure(struct end *e, const struct perf_opts *o, struct sock_ask_args *a, uint64_t size,
                            struct perf_printer *p, bool *met)
{
    struct perf_row row = {.size = o->connects ? 0 : size, .sample = e->ns.host};
    int err;

    a->head.mode = o->connects ? SOCK_CONNECT : o->test == PERF_TEST_LAT ? SOCK_LAT : SOCK_BW;
    a->head.size = o->connects ? 0 : size;
    a->head.count = o->connects ? 0 : o->iters;
    a->times = o->connects ? o->iters : 1;
    err = sock_end_run(e, o, a, o->qps, &row);
    *met |= row.ops > 0;
    if (err && (err != -ECANCELED || !row.ops)) return err;
    row.samples = o->test == PERF_TEST_LAT && !o->connects ? row.ops / o->qps : 0;
    if (row.samples > a->samples) row.samples = a->samples;
    perf_print_row(p, &row);
    return !err && row.wrong ? gw_error(-EBADMSG, "%llu bytes are wrong", (unsigned long long)row.wrong)
                             : err;
}

/* The server ends when it has heard of it; one that does not answer is not waited for as long as usual. */
static int say_bye(struct end *e, const struct perf_opts *o, struct sock_ask_args *a)
{
    struct perf_row row = {0};

    a->head = (struct sock_head){.magic = SOCK_MAGIC, .mode = SOCK_BYE};
    a->times = 1;
    a->patience_ns = BYE_NS;
    gw_st_relaxed_u32(&shared_of(e)->stop, 0);
    return sock_end_run(e, o, a, 1, &row);
}

static int sock_end_resolve(const struct perf_opts *o, struct sock_ask_args *a)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET}, *all = NULL;
    char port[8];
    int err;

    snprintf(port, sizeof(port), "%u", (unsigned)o->port);
    err = getaddrinfo(o->host, port, &hints, &all);
    if (err) return gw_error(-EADDRNOTAVAIL, "%s: %s", o->host, gai_strerror(err));
    memcpy(&a->addr, all->ai_addr, all->ai_addrlen);
    a->len = all->ai_addrlen;
    freeaddrinfo(all);
    return 0;
}

static int measure_all(struct end *e, struct perf_opts *o, struct sock_ask_args *a)
{
    struct perf_about about = {.exec = gw_exec_name(e->exec), .peer = o->host};
    struct perf_printer *p;
    bool met = false;
    int err, bye;

    o->threads = e->threads; /* as printed */
    err = perf_print_open(o, &about, &p);
    if (err) return err;
    for (uint64_t size = o->all ? 2 : o->size; !err && size <= o->size; size *= 2)
        err = sock_end_measure(e, o, a, size, p, &met);
    perf_print_close(p);
    if (!met || (err && err != -ECANCELED && err != -EBADMSG) || has_come(o, PERF_OVER))
        return err; /* the peer may have gone */
    bye = say_bye(e, o, a);
    if (err == -EBADMSG) return gw_error(err, "bytes are wrong");
    return err ? err : bye;
}

int perf_sock_client(const struct perf_opts *opts)
{
    struct perf_opts copy = *opts, *o = &copy;
    struct sock_ask_args a = {.patience_ns = PERF_PATIENCE_NS, .samples = PERF_SAMPLES, .span = o->size};
    struct end e;
    int err = end_open(&e, o, (uint32_t)o->qps + 1, o->size, o->test == PERF_TEST_LAT ? PERF_SAMPLES : 0);

    a.head = (struct sock_head){.magic = SOCK_MAGIC, .verify = o->verify};
    if (!err) err = sock_end_resolve(o, &a);
    if (!err) {
        sock_end_tell(o, PERF_OPEN);
        a.net = gw_sockets_net(e.set);
        a.stop = &((struct shared *)e.shared.dev)->stop;
        a.bytes = e.bytes.dev;
        a.out = e.out.dev;
        a.ns = e.ns.dev;
        err = measure_all(&e, o, &a);
    }
    end_close(&e, o);
    return err;
}
