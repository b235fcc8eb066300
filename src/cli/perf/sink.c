/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpuwire perf post: what posting costs. There is no NIC: the queues are made by hand, in the memory where
 * they lie for a NIC, and CPU threads stand for it. They look at each doorbell record about once a
 * microsecond, read every WQE's control segment, count, and write a completion for those that are signalled.
 * With --verify they read the whole WQE as a NIC does.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/cli/options.h"
#include "src/cli/perf/perf.h"
#include "src/mlx5/wqe.h"

#define SINKS   16u
#define LOOK_NS 1000u
#define QPN(i)  (0x100u + (i))
#define PAGE    4096u
#define KEY     1u
#define REGION  (UINT64_C(1) << 40) /* where payloads are said to lie */

struct queue {
    uint8_t *sq, *cq;
    uint32_t *dbrec; /* at 64 bytes the CQ's, at 128 the register */
    uint64_t ci, pi;
};

struct bench {
    const struct perf_opts *o;
    struct gw_exec *exec;
    uint32_t qps, wqebbs, sinks, stop;
    struct gw_mem queues, handles, lists, control;
    struct queue *q;
    pthread_t thread[SINKS];
    uint32_t wrong;
    char why[120];
};

struct sink {
    struct bench *b;
    uint32_t first;
};

static void perf_sink_wrong(struct bench *b, const char *what, uint32_t qp, uint64_t at)
{
    if (gw_add_relaxed_u32(&b->wrong, 1) == 0)
        snprintf(b->why, sizeof(b->why), "queue pair %u, WQE %llu: %s", qp, (unsigned long long)at, what);
}

/* The whole entry, as a NIC would read it. */
static void perf_sink_parse(struct bench *b, uint32_t i, uint64_t at)
{
    struct gw_mlx5_wqe w;

    if (gw_mlx5_wqe_parse(&w, &(struct gw_mlx5_wqe_at){b->q[i].sq, b->wqebbs, QPN(i), (uint16_t)at, 1, 63,
                                                       GW_MLX5_FORM_CONNECTED}) != 1)
        perf_sink_wrong(b, gw_mlx5_why_text(w.why), i, at);
    else if (w.opcode != GW_MLX5_NOP && (w.length != b->o->size || (w.has_raddr && w.raddr < REGION)))
        perf_sink_wrong(b, "it is not what was posted", i, at);
}

static void perf_sink_complete(struct bench *b, uint32_t i, uint64_t at, uint32_t opcode)
{
    struct queue *q = &b->q[i];
    struct gw_mlx5_cqe *cqe = (struct gw_mlx5_cqe *)(q->cq + (size_t)GW_MLX5_CQE * (q->pi & (b->wqebbs - 1)));
    struct gw_mlx5_wc wc = {
        .opcode = GW_MLX5_CQE_REQ, .wqe_opcode = (uint8_t)opcode, .wqe_counter = (uint16_t)at, .qpn = QPN(i)};

    gw_st_release_u8(&cqe->op_own, gw_mlx5_cqe_build(cqe, &wc, (uint32_t)q->pi,
                                                     b->wqebbs)); /* the entry before its owner bit */
    q->pi++;
}

static void perf_sink_take(struct bench *b, uint32_t i)
{
    struct queue *q = &b->q[i];
    uint32_t count = gw_mlx5_dbrec_count(gw_ld_relaxed_u32(&q->dbrec[GW_MLX5_DBREC_SEND]));
    uint32_t n = (count - (uint32_t)q->ci) & 0xffff;

    if (!n) return;
    gw_fence_acquire(); /* the record before the WQEs that it counts; pairs with the fence before its store */
    if (n > b->wqebbs) {
        perf_sink_wrong(b, "the doorbell record counts more than the queue holds", i, q->ci);
        n = 0;
    }
    for (uint64_t at = q->ci; n; n--, at++) {
        const uint32_t *w = (const uint32_t *)(q->sq + (at & (b->wqebbs - 1)) * GW_MLX5_WQEBB);
        uint32_t head = gw_be32(w[0]);

        if (head >> 8 != (at & 0xffff)) perf_sink_wrong(b, "it carries another one's index", i, at);
        if (b->o->verify) perf_sink_parse(b, i, at);
        if (w[2] >> 24 & GW_MLX5_SIGNALED) perf_sink_complete(b, i, at, head & 0xff);
        gw_st_relaxed_u64(&q->ci, at + 1);
    }
}

static void *run_sink(void *arg)
{
    struct sink s = *(struct sink *)arg;
    uint64_t next = gw_clock_ns();

    free(arg);
    for (; !gw_ld_acquire_u32(&s.b->stop); next += LOOK_NS) {
        for (uint32_t round = 0; gw_clock_ns() < next; round++) gw_pause(round);
        for (uint32_t i = s.first; i < s.b->qps; i += s.b->sinks) perf_sink_take(s.b, i);
    }
    return NULL;
}

/* ---- queues made by hand ------------------------------------------------------------------------------- */

static void *seen(const struct bench *b, const void *host)
{
    return (uint8_t *)b->queues.dev + ((const uint8_t *)host - (const uint8_t *)b->queues.host);
}

static size_t slots_at(const struct bench *b)
{
    return (size_t)b->qps * (2 * GW_HANDLE_BYTES + 64);
}

static int perf_sink_make_handle(struct bench *b, uint32_t i)
{
    uint8_t *dev = b->handles.dev, *my_cq = dev + (size_t)(b->qps + i) * GW_HANDLE_BYTES;
    uint8_t *my_table = dev + (size_t)b->qps * 2 * GW_HANDLE_BYTES + (size_t)i * 64;
    struct queue *q = &b->q[i];
    struct gw_qp_entry table[2] = {{0}};
    struct gw_qp_handle qp = {.size = sizeof(qp), .version = GW_VERBS_VERSION};
    struct gw_cq_handle cq = {.size = sizeof(cq), .version = GW_VERBS_VERSION};
    int err;

    if (perf_posters(b->o) == b->qps && !b->o->shared)
        qp.flags = GW_QP_ONE_POSTER, cq.flags = GW_CQ_ONE_POLLER;
    if (gw_exec_kind(b->exec) == GW_EXEC_CPU) qp.flags |= gw_sq_turns_(qp.flags);
    qp.sq = (struct gw_mlx5_sq){seen(b, q->sq), b->wqebbs, QPN(i)};
    qp.dbrec = seen(b, q->dbrec);
    qp.db = seen(b, q->dbrec + 32);
    qp.slot = (struct gw_sq_slot *)(dev + slots_at(b)) + (size_t)i * b->wqebbs;
    qp.interval = b->wqebbs > 2 ? b->wqebbs / 2 : 1;
    qp.send_cq = (struct gw_cq_handle *)my_cq;
    cq.cqe = seen(b, q->cq);
    cq.cqes = b->wqebbs;
    cq.table = (struct gw_qp_entry *)my_table;
    cq.table_mask = 1;
    cq.dbrec = seen(b, q->dbrec + 16);
    table[(QPN(i) * 2654435769u >> 8) & 1] =
        (struct gw_qp_entry){.qpn = QPN(i), .qp = (struct gw_qp_handle *)(dev + (size_t)i * GW_HANDLE_BYTES)};
    err = gw_copy_in(b->exec, dev + (size_t)i * GW_HANDLE_BYTES, &qp, sizeof(qp));
    if (!err) err = gw_copy_in(b->exec, my_cq, &cq, sizeof(cq));
    return err ? err : gw_copy_in(b->exec, my_table, table, sizeof(table));
}

static int perf_sink_make_queues(struct bench *b)
{
    size_t each = PAGE + 2 * (size_t)b->wqebbs * GW_MLX5_WQEBB;
    int err = gw_mem_alloc(b->exec, GW_MEM_HOST, b->qps * each, &b->queues);

    if (!err)
        err = gw_mem_alloc(b->exec, GW_MEM_DEVICE,
                           slots_at(b) + (size_t)b->qps * b->wqebbs * sizeof(struct gw_sq_slot), &b->handles);
    if (!err) err = gw_mem_alloc(b->exec, GW_MEM_HOST, PAGE, &b->control);
    if (!err)
        err = gw_mem_alloc(b->exec, GW_MEM_DEVICE, b->qps * 8 + perf_posters(b->o) * sizeof(struct perf_out),
                           &b->lists);
    b->q = calloc(b->qps, sizeof(*b->q));
    if (!err && !b->q) err = gw_error_errno(-ENOMEM, "queues");
    for (uint32_t i = 0; !err && i < b->qps; i++) {
        struct queue *q = &b->q[i];
        uint64_t handle = (uint64_t)(uintptr_t)b->handles.dev + (uint64_t)i * GW_HANDLE_BYTES;

        q->dbrec = (uint32_t *)((uint8_t *)b->queues.host + i * each);
        q->sq = (uint8_t *)q->dbrec + PAGE;
        q->cq = q->sq + (size_t)b->wqebbs * GW_MLX5_WQEBB;
        for (uint32_t k = 0; k < b->wqebbs; k++)
            q->cq[GW_MLX5_CQE * (size_t)k + GW_MLX5_CQE - 1] = GW_MLX5_CQE_INVALID << 4;
        err = perf_sink_make_handle(b, i);
        if (!err) err = gw_copy_in(b->exec, (uint8_t *)b->lists.dev + 8 * (size_t)i, &handle, sizeof(handle));
    }
    return err;
}

static int start_sinks(struct bench *b)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t most = processors < 3 ? 1 : (uint32_t)processors - 1;

    most = most < SINKS ? most : SINKS;
    for (uint32_t n = b->qps < most ? b->qps : most, i = 0; i < n; i++) {
        struct sink *s = malloc(sizeof(*s));

        if (s) *s = (struct sink){b, i};
        b->sinks = n; /* before the first one looks */
        if (!s || pthread_create(&b->thread[i], NULL, run_sink, s)) {
            b->sinks = i;
            free(s);
            return gw_error(-EAGAIN, "cannot start a thread that stands for the NIC");
        }
    }
    return 0;
}

/* ---- the measurement ----------------------------------------------------------------------------------- */

/* Every WQE was taken once: what the records counted is what was posted, beside NOPs that carry a signal. */
static int perf_sink_account(struct bench *b, const struct perf_row *row)
{
    uint64_t taken = 0;

    for (uint32_t round = 0; round < 5000;
         round++) { /* the last of them may be unsignalled: those were not waited for */
        taken = 0;
        for (uint32_t i = 0; i < b->qps; i++) taken += gw_ld_relaxed_u64(&b->q[i].ci);
        if (taken >= row->ops) break;
        usleep(1000);
    }
    if (taken < row->ops)
        return gw_error(-EIO, "%llu were posted, and %llu reached the queues", (unsigned long long)row->ops,
                        (unsigned long long)taken);
    return b->wrong ? gw_error(-EIO, "%u wrong WQEs; %s", b->wrong, b->why) : 0;
}

static int perf_sink_measure(struct bench *b, struct perf_row *row)
{
    const struct perf_opts *o = b->o;
    uint64_t posters = perf_posters(o) / o->qps;
    struct perf_place at = {
        .base = REGION, .span = REGION >> 12, .stride = (uint32_t)o->size, .slots = 64, .key = KEY};
    struct perf_post_args a = {.qp = b->lists.dev,
                               .qps = b->qps,
                               .size = (uint32_t)o->size,
                               .post_only = 1,
                               .count = o->iters ? (o->iters + posters - 1) / posters : 0,
                               .here = at,
                               .there = at,
                               .stop = b->control.dev,
                               .out = (struct perf_out *)((uint8_t *)b->lists.dev + 8 * (size_t)b->qps)};
    int err = perf_run(b->exec, o, &a, b->control.host, row);

    if (err) return gw_error_errno(err, "the posting kernel");
    row->cut_short = gw_interrupted();
    if (o->verify) row->checked = row->ops * GW_MLX5_WQEBB;
    return perf_sink_account(b, row);
}

static int open_bench(struct bench *b)
{
    struct gw_exec_opts e = {
        .lanes = (uint32_t)b->o->threads, .blocks = (uint32_t)b->o->blocks, .device = (uint32_t)b->o->gpu};
    int err = gw_exec_create(b->o->exec, &e, &b->exec);

    b->qps = (uint32_t)b->o->qps;
    for (b->wqebbs = 4; b->wqebbs < b->o->depth; b->wqebbs *= 2) continue;
    if (!err) err = perf_sink_make_queues(b);
    return err ? err : start_sinks(b);
}

static void close_bench(struct bench *b)
{
    gw_st_release_u32(&b->stop, 1);
    for (uint32_t i = 0; i < b->sinks; i++) pthread_join(b->thread[i], NULL);
    gw_mem_free(&b->lists);
    gw_mem_free(&b->control);
    gw_mem_free(&b->handles);
    gw_mem_free(&b->queues);
    gw_exec_destroy(b->exec);
    free(b->q);
}

int perf_sink_run(const struct perf_opts *o)
{
    struct perf_about about = {
        .device = "none", .peer = "threads that stand for the NIC", .buffers = "no payload", .board = ""};
    struct perf_printer *p = NULL;
    int err = 0;

    for (uint64_t size = o->all ? 2 : o->size; !err && size <= o->size && !gw_interrupted(); size *= 2) {
        struct perf_opts one = *o;
        struct bench b = {.o = &one};
        struct perf_row row = {.size = size};

        one.size = size;
        err = open_bench(&b);
        about.exec = err ? "" : gw_exec_name(b.exec);
        if (!err && !p) err = perf_print_open(o, &about, &p);
        if (!err) err = perf_sink_measure(&b, &row);
        if (!err && row.ops) perf_print_row(p, &row);
        close_bench(&b);
    }
    if (p) perf_print_close(p);
    return err;
}
