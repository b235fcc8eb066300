/* SPDX-License-Identifier: Apache-2.0 */
/* One side of a measurement: executor, device, queue pairs with CQs of their own, and the memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/cli/options.h"
#include "src/cli/perf/perf.h"

/* Threads that post together. */
static uint64_t width(const struct perf_opts *o)
{
    return o->by == PERF_BY_THREAD ? 1 : o->by == PERF_BY_WARP ? 32 : o->threads;
}

uint64_t perf_posters(const struct perf_opts *o)
{
    return o->blocks * (o->by == PERF_BY_THREAD ? o->threads
                        : o->by == PERF_BY_WARP ? (o->threads + 31) / 32
                                                : 1);
}

int perf_shape_of(const struct perf_opts *o, struct perf_shape *shape)
{
    const char *wrong;

    *shape = (struct perf_shape){
        .test = o->test,
        .op = o->op,
        .qps = (uint32_t)o->qps,
        .depth = (uint32_t)o->depth,
        .posters = (uint32_t)(perf_posters(o) / o->qps * width(o)),
        .verify = o->verify,
        .both = o->both,
        .events = o->events,
        .inl = (uint32_t)o->inl,
        .batch = (uint32_t)o->batch,
        .mtu = (uint32_t)o->mtu,
        .timeout = (uint32_t)o->timeout,
        .size = o->size + perf_extra(o->op),
    };
    wrong = perf_shape_wrong(shape);
    return wrong ? gw_error(-E2BIG, "%s", wrong) : 0;
}

struct perf_place perf_side_place(const struct perf_side *s, uint64_t size)
{
    struct perf_place at = perf_place_of(s->span, size);

    at.base = s->mr->addr;
    at.key = s->mr->lkey;
    return at;
}

struct perf_lists perf_side_lists(const struct perf_side *s)
{
    uint64_t n = s->shape.qps;
    uint8_t *at = s->lists.dev;
    struct perf_lists l;

    l.qp = (struct gw_qp_handle **)at;
    l.recv_cq = (struct gw_cq_handle **)(at += 8 * n);
    l.posted = (uint64_t *)(at += 8 * n);
    l.got = (uint64_t *)(at += 8 * n);
    l.sends = (uint32_t *)(at += 8 * n);
    l.done = (uint32_t *)(at += 4 * n);
    l.err = (int32_t *)(at += 4 * n);
    l.out = (struct perf_out *)(at += 64);
    l.ns = (uint32_t *)(at + n * s->shape.posters * sizeof(struct perf_out));
    return l;
}

static int make_exec(struct perf_side *s, const struct perf_opts *o)
{
    struct gw_exec_opts e = {
        .lanes = (uint32_t)o->threads, .blocks = (uint32_t)o->blocks, .device = (uint32_t)o->gpu};
    int err = gw_exec_create(o->exec, &e, &s->exec);

    if (!err) err = gw_device_open(o->device, s->exec, &s->dev);
    if (err) return err;
    gw_device_query(s->dev, &s->info);
    if (o->gid && o->gid - 1 != s->info.gid_index)
        return gw_error(-EOPNOTSUPP,
                        "-x %llu: %s is used with GID index %u, its RoCE v2 address, and no other",
                        (unsigned long long)o->gid - 1, s->info.name, s->info.gid_index);
    if (o->ib_port && o->ib_port != s->info.port)
        return gw_error(-EOPNOTSUPP, "-i %llu: %s is used with port %u, and no other",
                        (unsigned long long)o->ib_port, s->info.name, s->info.port);
    return gw_pd_create(s->dev, &s->pd);
}

/* By default: in GPU memory if the NIC reaches it, otherwise where both see it. */
static enum perf_buffers perf_side_choose(const struct perf_side *s, enum perf_buffers asked)
{
    if (asked != PERF_BUFFERS_AUTO) return asked;
    if (gw_exec_kind(s->exec) == GW_EXEC_CPU) return PERF_BUFFERS_HOST;
    return s->info.gpu_reach == GW_REACH_NONE ? PERF_BUFFERS_MAPPED : PERF_BUFFERS_GPU;
}

static int perf_side_make_memory(struct perf_side *s, const struct perf_opts *o)
{
    uint64_t all = s->span * s->shape.qps;
    bool gpu = gw_exec_kind(s->exec) == GW_EXEC_GPU;
    int err = 0;

    s->buffers = perf_side_choose(s, o->buffers);
    if (s->buffers == PERF_BUFFERS_GPU && !gpu)
        return gw_error(-EINVAL, "--buffers gpu: kernels run on the CPU here; use --exec gpu");
    if (s->buffers == PERF_BUFFERS_HOST && gpu && s->shape.test == PERF_TEST_LAT && s->shape.op == PERF_PUT)
        return gw_error(-EINVAL, "--buffers host: the GPU has to see what arrives; use mapped or gpu");
    if (s->buffers == PERF_BUFFERS_HOST && gpu && s->shape.inl)
        return gw_error(-EINVAL,
                        "--buffers host: the GPU has to read what it sends inline; use mapped or gpu");
    s->plain = s->buffers == PERF_BUFFERS_HOST;
    if (s->plain) {
        s->mem.size = (all + 4095) & ~UINT64_C(4095);
        s->mem.host = s->mem.dev = aligned_alloc(4096, s->mem.size);
        if (!s->mem.host) return gw_error_errno(-ENOMEM, "%llu bytes of buffers", (unsigned long long)all);
        memset(s->mem.host, 0, s->mem.size);
    } else {
        err =
            gw_mem_alloc(s->exec, s->buffers == PERF_BUFFERS_GPU ? GW_MEM_DEVICE : GW_MEM_HOST, all, &s->mem);
    }
    if (!err)
        err = gw_mr_register(s->pd, s->buffers == PERF_BUFFERS_GPU ? s->mem.dev : s->mem.host, s->mem.size, 0,
                             &s->mr);
    if (!err) err = gw_mem_alloc(s->exec, GW_MEM_HOST, 4096, &s->control);
    if (!err)
        err = gw_mem_alloc(s->exec, GW_MEM_DEVICE,
                           (40 + s->shape.posters * sizeof(struct perf_out)) * s->shape.qps + 64 +
                               PERF_SAMPLES * sizeof(uint32_t),
                           &s->lists);
    return err;
}

static int perf_side_make_qp(struct perf_side *s, const struct perf_opts *o, uint32_t i)
{
    bool one = perf_posters(o) == s->shape.qps && !o->shared;
    bool ud = s->shape.op == PERF_DATAGRAM;
    uint32_t recvs = ud || s->shape.op == PERF_SEND || s->shape.op == PERF_PUT_IMM ? 256 : 0, cqe = 4;
    uint32_t bbs = s->shape.inl || ud || s->shape.op >= PERF_SIGNAL ? 2 + s->shape.inl / 64 : 1; /* of the
                                                                                         longest request */
    struct gw_cq_attr ca = {.flags = one ? GW_CQ_ONE_POLLER : 0, .qps = 1, .placement = o->queues};
    struct gw_qp_attr qa = {.type = ud ? GW_QP_UD : GW_QP_RC,
                            .max_send_wr = (uint32_t)o->depth,
                            .max_recv_wr = recvs,
                            .max_inline = s->shape.inl,
                            .flags = one ? GW_QP_ONE_POSTER : 0,
                            .placement = o->queues};
    int err;

    while (cqe < 2 * bbs * o->depth) cqe *= 2; /* WQEs are rounded up */
    ca.cqe = cqe;
    err = gw_cq_create(s->dev, &ca, &s->send_cq[i]);
    ca.cqe = 512;
    ca.flags = GW_CQ_ONE_POLLER | (s->shape.events ? GW_CQ_SLEEP : 0);
    if (!err) err = gw_cq_create(s->dev, &ca, &s->recv_cq[i]);
    qa.send_cq = s->send_cq[i];
    qa.recv_cq = s->recv_cq[i];
    return err ? err : gw_qp_create(s->pd, &qa, &s->qp[i]);
}

static int make_qps(struct perf_side *s, const struct perf_opts *o)
{
    uint32_t n = s->shape.qps;
    struct perf_lists l = perf_side_lists(s);
    struct gw_qp_handle **qp = calloc(n, sizeof(*qp));
    struct gw_cq_handle **cq = calloc(n, sizeof(*cq));
    int err;

    s->send_cq = calloc(n, sizeof(*s->send_cq));
    s->recv_cq = calloc(n, sizeof(*s->recv_cq));
    s->qp = calloc(n, sizeof(*s->qp));
    s->link = calloc(n, sizeof(*s->link));
    err = qp && cq && s->send_cq && s->recv_cq && s->qp && s->link
              ? 0
              : gw_error_errno(-ENOMEM, "%u queue pairs", n);
    for (uint32_t i = 0; !err && i < n; i++) {
        err = perf_side_make_qp(s, o, i);
        if (!err) qp[i] = gw_qp_handle(s->qp[i]), cq[i] = gw_cq_handle(s->recv_cq[i]);
    }
    if (!err) err = gw_copy_in(s->exec, l.qp, qp, n * sizeof(*qp));
    if (!err) err = gw_copy_in(s->exec, l.recv_cq, cq, n * sizeof(*cq));
    free(qp);
    free(cq);
    return err;
}

int perf_side_open(struct perf_side *s, const struct perf_opts *o, const struct perf_shape *shape)
{
    int err;

    memset(s, 0, sizeof(*s));
    s->shape = *shape;
    s->span = perf_span(shape);
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    err = s->stop_fd < 0 ? gw_error_errno(-errno, "eventfd") : make_exec(s, o);
    if (!err) err = perf_side_make_memory(s, o);
    if (!err) err = make_qps(s, o);
    if (err) {
        char why[300];

        snprintf(why, sizeof(why), "%s", gw_last_error());
        perf_side_close(s);
        return gw_error(err, "%s", why);
    }
    return 0;
}

int perf_side_aim(struct perf_side *s, const struct gw_endpoint *peer)
{
    int err = gw_qp_activate(s->qp[0], PERF_QKEY);

    return err ? err : gw_ah_create(s->pd, peer, NULL, &s->ah);
}

struct perf_lat_args perf_side_lat(struct perf_side *s, uint64_t size, uint32_t peer_qpn)
{
    struct perf_lists l = perf_side_lists(s);
    struct perf_place at = perf_side_place(s, s->shape.size);
    struct perf_lat_args a = {.qp = gw_qp_handle(s->qp[0]),
                              .recv_cq = gw_cq_handle(s->recv_cq[0]),
                              .op = s->shape.op,
                              .size = (uint32_t)size,
                              .capacity = PERF_SAMPLES,
                              .patience_ns = PERF_PATIENCE_NS,
                              .outbox = at.base,
                              .inbox = at.base + at.stride,
                              .lkey = at.key,
                              .room = at.stride,
                              .inl = s->shape.inl && size <= s->shape.inl,
                              .verify = s->shape.verify,
                              .signal = at.base + 2 * (uint64_t)at.stride - sizeof(uint64_t),
                              .peer_qpn = peer_qpn,
                              .stop_fd = s->stop_fd,
                              .stop = s->control.dev,
                              .ns = l.ns,
                              .out = l.out};

    if (s->ah) a.ah = s->ah->handle;
    return a;
}

void perf_side_close(struct perf_side *s)
{
    gw_ah_destroy(s->ah);
    for (uint32_t i = 0; s->qp && i < s->shape.qps; i++) {
        if (s->link) gw_cm_close(s->link[i]);
        gw_qp_destroy(s->qp[i]);
        gw_cq_destroy(s->send_cq[i]);
        gw_cq_destroy(s->recv_cq[i]);
    }
    gw_mr_free(s->mr);
    gw_mem_free(&s->lists);
    gw_mem_free(&s->control);
    if (s->plain)
        free(s->mem.host);
    else
        gw_mem_free(&s->mem);
    gw_pd_destroy(s->pd);
    gw_device_close(s->dev);
    gw_exec_destroy(s->exec);
    free(s->send_cq);
    free(s->recv_cq);
    free(s->qp);
    free(s->link);
    if (s->stop_fd > 0) close(s->stop_fd);
    memset(s, 0, sizeof(*s));
}

void perf_tell_stop(struct perf_side *s, uint32_t stop)
{
    uint64_t count = 1;

    gw_st_release_u32(s->control.host, stop);
    /* Full or empty: it is as it is to be. */
    if (stop ? write(s->stop_fd, &count, sizeof(count)) < 0 : read(s->stop_fd, &count, sizeof(count)) < 0)
        return;
}

int perf_side_sync(struct perf_side *s, uint64_t limit_ns)
{
    uint64_t end = limit_ns ? gw_deadline(limit_ns) : GW_NEVER;
    int err;

    while ((err = gw_exec_sync(s->exec, gw_deadline(20000000))) == -ETIMEDOUT) {
        if (gw_interrupted()) perf_tell_stop(s, 1);
        if (gw_clock_ns() > end) return err;
    }
    return err;
}

int perf_side_fault(struct perf_side *s, int err)
{
    struct gw_fault fault;
    char text[200];

    for (uint32_t i = 0; i < s->shape.qps; i++) {
        if (gw_qp_fault(s->qp[i], &fault) != 1) continue;
        gw_fault_text(&fault, text, sizeof(text));
        return gw_error(-EIO, "queue pair %06x: %s", gw_qp_num(s->qp[i]), text);
    }
    if (err == -ETIMEDOUT) return gw_error(err, "nothing completed for 20 s: is the other side still there?");
    return gw_error_errno(err, "the posting kernel");
}

int perf_copy_in(struct perf_side *s, uint64_t offset, const void *from, uint64_t n)
{
    if (!s->mem.host) return gw_copy_in(s->exec, (uint8_t *)s->mem.dev + offset, from, n);
    memcpy((uint8_t *)s->mem.host + offset, from, n);
    return 0;
}

int perf_copy_out(struct perf_side *s, void *to, uint64_t offset, uint64_t n)
{
    if (!s->mem.host) return gw_copy_out(s->exec, to, (uint8_t *)s->mem.dev + offset, n);
    memcpy(to, (uint8_t *)s->mem.host + offset, n);
    return 0;
}
