/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of sessions: its memory, the queue pair and the regions of each, and what the kernels get to know of
 * them. */
#include "src/server/worker/session_pool.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SLOT_ALIGN 256u

static uint64_t session_pool_align_up(uint64_t v)
{
    return (v + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

int gw_session_post_receives(const struct gw_session_pool *p, uint32_t i)
{
    const struct session *s = &p->session[i];
    return gw_qp_recv_empty(s->qp, gw_serve_receives(p->opts.slots),
                            gw_serve_id(i, next_word(s, GW_SESSION_OPEN), 0));
}

/* ---- sizes ---- */

static uint64_t in_stride_of(const struct gw_session_pool_opts *o)
{
    uint64_t bytes = o->tables.models ? o->tables.in_bytes : gw_layout_bytes(&o->in, rows_of(o));
    return session_pool_align_up(sizeof(struct gw_serve_request) + bytes);
}

static uint64_t out_stride_of(const struct gw_session_pool_opts *o)
{
    uint64_t bytes = o->tables.models ? o->tables.out_bytes : gw_layout_bytes(&o->out, rows_of(o));
    return session_pool_align_up(sizeof(struct gw_serve_reply) + bytes);
}

static uint32_t models_of(const struct gw_session_pool_opts *o)
{
    return o->tables.models ? o->tables.models : 1;
}

static uint32_t variants_of(const struct gw_session_pool_opts *o)
{
    return o->tables.models ? o->tables.variants : o->variants;
}

/* A batch of one row is one request, which needs no room of its own. Fixed addresses need none, either. */
static bool needs_room(const struct gw_serve_variant *v)
{
    return v->rows > 1 && !v->fixed;
}

static uint64_t batch_bytes(const struct gw_session_pool_opts *o)
{
    uint64_t need = o->tables.models > 0;
    for (uint32_t i = 0; i < o->variants; i++) need += (uint64_t)needs_room(&o->variant[i]);
    return need ? in_stride_of(o) + out_stride_of(o) : 0;
}

uint64_t gw_session_pool_bytes(const struct gw_session_pool_opts *o)
{
    return (uint64_t)o->sessions * o->slots * (in_stride_of(o) + out_stride_of(o)) + batch_bytes(o);
}

/* Takes place for n things of `each` bytes. */
static uint64_t session_pool_place(uint64_t *end, uint64_t n, uint64_t each)
{
    uint64_t at = *end;
    *end += session_pool_align_up(n * each);
    return at;
}

static struct gw_session_places places_of(const struct gw_session_pool_opts *o)
{
    struct gw_session_places at = {0};
    uint64_t requests = gw_serve_arrivals(o->sessions, o->slots);
    at.io = session_pool_place(&at.bytes, 1, sizeof(struct gw_plan_io));
    at.work = session_pool_place(&at.bytes, 1, sizeof(struct gw_serve_work));
    at.session = session_pool_place(&at.bytes, o->sessions, sizeof(struct gw_serve_session));
    at.arrival = session_pool_place(&at.bytes, requests, sizeof(struct gw_serve_arrival));
    at.heap = session_pool_place(&at.bytes, 2 * requests, sizeof(struct gw_serve_key));
    at.item = session_pool_place(&at.bytes, rows_of(o), sizeof(struct gw_serve_item));
    at.variant = session_pool_place(&at.bytes, variants_of(o), sizeof(struct gw_serve_variant));
    at.shape = session_pool_place(&at.bytes, models_of(o), sizeof(struct gw_serve_shape));
    at.model = session_pool_place(&at.bytes, models_of(o), sizeof(struct gw_serve_model));
    at.ahead = session_pool_place(&at.bytes, o->tables.models > 0, sizeof(struct gw_serve_ahead));
    at.lease = session_pool_place(&at.bytes, o->tables.leases, sizeof(struct gw_serve_lease));
    return at;
}

static uint32_t session_pool_power_of_two(uint32_t at_least)
{
    uint32_t n = 1;
    while (n < at_least) n *= 2;
    return n;
}

/* All leases and models can have an order each before the loop looks. */
static struct gw_session_boards boards_of(const struct gw_session_pool_opts *o)
{
    struct gw_session_boards at = {0};
    uint32_t models = o->tables.models;
    at.orders = models ? session_pool_power_of_two(models + o->tables.leases + 64) : 0;
    at.board = session_pool_place(&at.bytes, 1, sizeof(struct gw_serve_board));
    at.notice = session_pool_place(&at.bytes, o->sessions, sizeof(struct gw_serve_notice));
    at.variant = session_pool_place(&at.bytes, variants_of(o), sizeof(struct gw_serve_variant_counters));
    at.model = session_pool_place(&at.bytes, models, sizeof(struct gw_serve_model_board));
    at.order = session_pool_place(&at.bytes, at.orders, sizeof(struct gw_serve_order));
    return at;
}

/* ---- memory ---- */

void gw_session_place_batch(const struct gw_session_pool *p, const struct gw_layout *in,
                            const struct gw_layout *out, struct gw_serve_variant *v)
{
    uint8_t *at_in = p->batch.dev, *at_out = at_in + p->in_stride;
    for (uint32_t i = 0; i < in->tensors; i++) v->in[i] = at_in + gw_layout_offset(in, i, v->rows);
    for (uint32_t i = 0; i < out->tensors; i++) v->out[i] = at_out + gw_layout_offset(out, i, v->rows);
}

/* The one model of a pool without tables is always there. */
static int session_pool_put_model(struct gw_session_pool *p)
{
    const struct gw_session_pool_opts *o = &p->opts;
    struct gw_serve_variant v[GW_SERVE_VARIANTS];
    struct gw_serve_shape shape = {.in = o->in,
                                   .out = o->out,
                                   .delay_ns = o->delay_ns,
                                   .rows = rows_of(o),
                                   .variants = o->variants,
                                   .name = o->name};
    const struct gw_serve_model model = {.state = GW_MODEL_PRESENT};
    memcpy(v, o->variant, sizeof(v));
    for (uint32_t k = 0; k < o->variants; k++)
        if (needs_room(&v[k])) gw_session_place_batch(p, &o->in, &o->out, &v[k]);
    int err = gw_copy_in(o->exec, kernel_place(p, p->at.variant), v, o->variants * sizeof(*v));
    if (!err) err = gw_copy_in(o->exec, kernel_place(p, p->at.shape), &shape, sizeof(shape));
    return err ? err : gw_copy_in(o->exec, kernel_place(p, p->at.model), &model, sizeof(model));
}

static int session_pool_make_memory(struct gw_session_pool *p)
{
    const struct gw_session_pool_opts *o = &p->opts;
    uint64_t all = (uint64_t)o->sessions * o->slots;
    enum gw_mem_kind kind = o->gpu_memory ? GW_MEM_DEVICE : GW_MEM_HOST;
    int err = gw_mem_alloc(slot_exec(p), kind, all * p->in_stride, &p->in);
    if (!err) err = gw_mem_alloc(slot_exec(p), kind, all * p->out_stride, &p->out);
    if (!err) err = gw_mem_alloc(o->exec, GW_MEM_HOST, p->boards.bytes, &p->notices);
    if (!err) err = gw_mem_alloc(o->exec, GW_MEM_DEVICE, p->at.bytes, &p->kernel);
    if (!err && batch_bytes(o)) err = gw_mem_alloc(o->exec, GW_MEM_DEVICE, batch_bytes(o), &p->batch);
    if (err || o->tables.models) return err;
    err = session_pool_put_model(p);
    if (err) return err;
    /* A loop that is stopped before its first request runs the model once more: on slot 0, whatever is in it.
     */
    struct gw_plan_io first = {0};
    for (uint32_t i = 0; i < o->in.tensors; i++)
        first.in[i] = (uint8_t *)p->in.dev + sizeof(struct gw_serve_request) + gw_layout_offset(&o->in, i, 1);
    for (uint32_t i = 0; i < o->out.tensors; i++)
        first.out[i] =
            (uint8_t *)p->out.dev + sizeof(struct gw_serve_reply) + gw_layout_offset(&o->out, i, 1);
    return gw_copy_in(o->exec, kernel_place(p, p->at.io), &first, sizeof(first));
}

static struct gw_serve_session *kernel_sessions(const struct gw_session_pool *p)
{
    return kernel_place(p, p->at.session);
}

static int session_pool_make_session(struct gw_session_pool *p, uint32_t i)
{
    struct session *s = &p->session[i];
    uint64_t in_bytes = p->opts.slots * p->in_stride, out_bytes = p->opts.slots * p->out_stride;
    struct gw_qp_attr attr = {.send_cq = p->cq,
                              .recv_cq = p->cq,
                              .max_send_wr = p->opts.slots,
                              .max_recv_wr = gw_serve_receives(p->opts.slots),
                              .flags = GW_QP_ONE_POSTER};
    int err = gw_pd_create(p->opts.dev, &s->pd);
    if (!err) err = gw_qp_create(s->pd, &attr, &s->qp);
    if (!err)
        err =
            gw_mr_register(s->pd, (uint8_t *)p->in.dev + i * in_bytes, in_bytes, GW_MR_REMOTE_WRITE, &s->in);
    if (!err)
        err = gw_mr_register(s->pd, (uint8_t *)p->out.dev + i * out_bytes, out_bytes, GW_MR_LOCAL_WRITE,
                             &s->out);
    if (!err) err = gw_session_post_receives(p, i);
    if (err) return err;

    struct gw_serve_session k = {
        .qp = gw_qp_handle(s->qp),
        .in = (const uint8_t *)p->in.dev + i * in_bytes,
        .out = (uint8_t *)p->out.dev + i * out_bytes,
        .out_addr = s->out->addr,
        .out_lkey = s->out->lkey,
    };
    return gw_copy_in(p->opts.exec, kernel_sessions(p) + i, &k, sizeof(k));
}

/* A queue takes a power of two of the CQ's entries, four at least. */
static uint32_t entries_of(uint32_t requests)
{
    uint32_t entries = session_pool_power_of_two(requests);
    return entries < 4 ? 4 : entries;
}

int gw_session_pool_create(const struct gw_session_pool_opts *opts, struct gw_session_pool **out)
{
    if (opts->sessions > GW_SERVE_MAX_SESSIONS)
        return gw_error(-EINVAL, "a model has %u sessions at most, and not %u", GW_SERVE_MAX_SESSIONS,
                        opts->sessions);
    struct gw_session_pool *p = calloc(1, sizeof(*p));
    if (!p) return -ENOMEM;
    p->opts = *opts;
    p->news_fd = p->wake_fd = -1;
    pthread_mutex_init(&p->lock, NULL);
    p->in_stride = in_stride_of(opts);
    p->out_stride = out_stride_of(opts);
    p->at = places_of(opts);
    p->boards = boards_of(opts);
    p->session = calloc(opts->sessions, sizeof(*p->session));
    int err = p->session ? session_pool_make_memory(p) : -ENOMEM;
    if (!err) {
        struct gw_cq_attr attr = {
            .cqe = opts->sessions * (entries_of(opts->slots) + entries_of(gw_serve_receives(opts->slots))),
            .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP,
            .qps = opts->sessions};
        if (gw_exec_kind(opts->exec) == GW_EXEC_GPU) attr.flags = GW_CQ_ONE_POLLER;
        err = gw_cq_create(opts->dev, &attr, &p->cq);
    }
    for (uint32_t i = 0; !err && i < opts->sessions; i++) err = session_pool_make_session(p, i);
    if (err)
        gw_session_pool_destroy(p);
    else
        *out = p;
    return err;
}

int gw_session_pool_destroy(struct gw_session_pool *p)
{
    if (!p) return 0;
    for (uint32_t i = 0; p->session && i < p->opts.sessions; i++) {
        struct session *s = &p->session[i];
        gw_qp_destroy(s->qp);
        gw_mr_free(s->in);
        gw_mr_free(s->out);
        if (s->pd) gw_pd_destroy(s->pd);
    }
    if (p->cq) gw_cq_destroy(p->cq);
    gw_mem_free(&p->in);
    gw_mem_free(&p->out);
    gw_mem_free(&p->notices);
    gw_mem_free(&p->kernel);
    gw_mem_free(&p->batch);
    if (p->news_fd >= 0) close(p->news_fd);
    if (p->wake_fd >= 0) close(p->wake_fd);
    pthread_mutex_destroy(&p->lock);
    free(p->session);
    free(p);
    return 0;
}

/* A sleeping loop is woken by one descriptor, and has two reasons. */
static int make_wake_fd(struct gw_session_pool *p, int loop_fd)
{
    struct epoll_event in = {.events = EPOLLIN};
    p->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->wake_fd = epoll_create1(EPOLL_CLOEXEC);
    if (p->news_fd < 0 || p->wake_fd < 0 || epoll_ctl(p->wake_fd, EPOLL_CTL_ADD, p->news_fd, &in) ||
        epoll_ctl(p->wake_fd, EPOLL_CTL_ADD, loop_fd, &in))
        return gw_error_errno(-errno, "sessions: cannot make a descriptor to wake the loop by");
    return 0;
}

static void session_pool_table_args(const struct gw_session_pool *p, struct gw_serve_args *args)
{
    const struct gw_session_pool_tables *t = &p->opts.tables;
    uint8_t *shared = p->notices.dev;
    args->shape = kernel_place(p, p->at.shape);
    args->model = kernel_place(p, p->at.model);
    args->models = models_of(&p->opts);
    args->picks = t->models || p->opts.variants > 1;
    args->variant_board = (struct gw_serve_variant_counters *)(shared + p->boards.variant);
    if (!t->models) return;
    args->model_board = (struct gw_serve_model_board *)(shared + p->boards.model);
    args->order = (struct gw_serve_order *)(shared + p->boards.order);
    args->orders = p->boards.orders;
    args->ahead = kernel_place(p, p->at.ahead);
    args->lease = kernel_place(p, p->at.lease);
    args->leases = t->leases;
}

int gw_session_pool_args(struct gw_session_pool *p, struct gw_loop_ctl *ctl, int loop_fd,
                         struct gw_serve_args *args)
{
    int err = loop_fd >= 0 ? make_wake_fd(p, loop_fd) : 0;
    if (err) return err;
    args->ctl = ctl;
    args->wake_fd = p->wake_fd;
    args->cq = gw_cq_handle(p->cq);
    args->board = p->notices.dev;
    args->notice = (struct gw_serve_notice *)((uint8_t *)p->notices.dev + p->boards.notice);
    args->session = kernel_sessions(p);
    args->arrival = kernel_place(p, p->at.arrival);
    args->heap = kernel_place(p, p->at.heap);
    args->item = kernel_place(p, p->at.item);
    args->variant = kernel_place(p, p->at.variant);
    args->work = kernel_place(p, p->at.work);
    args->io = kernel_place(p, p->at.io);
    args->in_stride = p->in_stride;
    args->out_stride = p->out_stride;
    args->sessions = p->opts.sessions;
    args->slots = p->opts.slots;
    session_pool_table_args(p, args);
    return 0;
}
