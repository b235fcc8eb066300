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

/* The parts of the kernels' own memory, one after the other: offsets, and bytes in all. */
struct places {
    uint64_t io, work, session, arrival, item, variant, bytes;
};

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

static uint64_t in_stride_of(const struct gw_session_pool_opts *o)
{
    return session_pool_align_up(sizeof(struct gw_serve_request) + gw_layout_bytes(&o->in, rows_of(o)));
}

static uint64_t out_stride_of(const struct gw_session_pool_opts *o)
{
    return session_pool_align_up(sizeof(struct gw_serve_reply) + gw_layout_bytes(&o->out, rows_of(o)));
}

/* A batch of one row is one request, which needs no room of its own. Fixed addresses need none, either. */
static bool needs_room(const struct gw_serve_variant *v)
{
    return v->rows > 1 && !v->fixed;
}

static uint64_t batch_bytes(const struct gw_session_pool_opts *o)
{
    uint64_t need = 0;
    for (uint32_t i = 0; i < o->variants; i++) need += (uint64_t)needs_room(&o->variant[i]);
    return need ? in_stride_of(o) + out_stride_of(o) : 0;
}

uint64_t gw_session_pool_bytes(const struct gw_session_pool_opts *o)
{
    return (uint64_t)o->sessions * o->slots * (in_stride_of(o) + out_stride_of(o)) + batch_bytes(o);
}

static struct places places_of(const struct gw_session_pool_opts *o)
{
    struct places at = {0};
    at.work = session_pool_align_up(sizeof(struct gw_plan_io));
    at.session = at.work + session_pool_align_up(sizeof(struct gw_serve_work));
    at.arrival = at.session + session_pool_align_up(o->sessions * sizeof(struct gw_serve_session));
    at.item = at.arrival + session_pool_align_up(gw_serve_arrivals(o->sessions, o->slots) *
                                                 sizeof(struct gw_serve_arrival));
    at.variant = at.item + session_pool_align_up(rows_of(o) * sizeof(struct gw_serve_item));
    at.bytes = at.variant + session_pool_align_up(o->variants * sizeof(struct gw_serve_variant));
    return at;
}

static void *kernel_place(const struct gw_session_pool *p, uint64_t at)
{
    return (uint8_t *)p->kernel.dev + at;
}

static uint32_t session_pool_power_of_two(uint32_t at_least)
{
    uint32_t n = 1;
    while (n < at_least) n *= 2;
    return n;
}

/* Where each batch size puts its requests together: they share the room, since they run one at a time. */
static int session_pool_place_batches(struct gw_session_pool *p)
{
    const struct gw_session_pool_opts *o = &p->opts;
    struct gw_serve_variant v[GW_SERVE_VARIANTS];
    uint8_t *in = p->batch.dev, *out = in + p->in_stride;
    memcpy(v, o->variant, sizeof(v));
    for (uint32_t k = 0; k < o->variants; k++) {
        if (!needs_room(&v[k])) continue;
        for (uint32_t i = 0; i < o->in.tensors; i++)
            v[k].in[i] = in + gw_layout_offset(&o->in, i, rows_of(o));
        for (uint32_t i = 0; i < o->out.tensors; i++)
            v[k].out[i] = out + gw_layout_offset(&o->out, i, rows_of(o));
    }
    return gw_copy_in(o->exec, kernel_place(p, places_of(o).variant), v, o->variants * sizeof(*v));
}

static int session_pool_make_memory(struct gw_session_pool *p)
{
    const struct gw_session_pool_opts *o = &p->opts;
    uint64_t all = (uint64_t)o->sessions * o->slots;
    enum gw_mem_kind kind = o->gpu_memory ? GW_MEM_DEVICE : GW_MEM_HOST;
    int err = gw_mem_alloc(slot_exec(p), kind, all * p->in_stride, &p->in);
    if (!err) err = gw_mem_alloc(slot_exec(p), kind, all * p->out_stride, &p->out);
    if (!err)
        err = gw_mem_alloc(o->exec, GW_MEM_HOST,
                           sizeof(struct gw_serve_board) + o->sessions * sizeof(struct gw_serve_notice),
                           &p->notices);
    if (!err) err = gw_mem_alloc(o->exec, GW_MEM_DEVICE, places_of(o).bytes, &p->kernel);
    if (!err && batch_bytes(o)) err = gw_mem_alloc(o->exec, GW_MEM_DEVICE, batch_bytes(o), &p->batch);
    if (!err) err = session_pool_place_batches(p);
    if (err) return err;
    /* A loop that is stopped before its first request runs the model once more: on slot 0, whatever is in it.
     */
    struct gw_plan_io first = {0};
    for (uint32_t i = 0; i < o->in.tensors; i++)
        first.in[i] = (uint8_t *)p->in.dev + sizeof(struct gw_serve_request) + gw_layout_offset(&o->in, i, 1);
    for (uint32_t i = 0; i < o->out.tensors; i++)
        first.out[i] =
            (uint8_t *)p->out.dev + sizeof(struct gw_serve_reply) + gw_layout_offset(&o->out, i, 1);
    return gw_copy_in(o->exec, kernel_place(p, 0), &first, sizeof(first));
}

static struct gw_serve_session *kernel_sessions(const struct gw_session_pool *p)
{
    return kernel_place(p, places_of(&p->opts).session);
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

int gw_session_pool_args(struct gw_session_pool *p, struct gw_loop_ctl *ctl, int loop_fd,
                         struct gw_serve_args *args)
{
    struct places at = places_of(&p->opts);
    int err = loop_fd >= 0 ? make_wake_fd(p, loop_fd) : 0;
    if (err) return err;
    args->ctl = ctl;
    args->wake_fd = p->wake_fd;
    args->cq = gw_cq_handle(p->cq);
    args->board = p->notices.dev;
    args->notice = (struct gw_serve_notice *)((struct gw_serve_board *)p->notices.dev + 1);
    args->session = kernel_sessions(p);
    args->arrival = kernel_place(p, at.arrival);
    args->item = kernel_place(p, at.item);
    args->variant = kernel_place(p, at.variant);
    args->work = kernel_place(p, at.work);
    args->io = kernel_place(p, at.io);
    args->in = p->opts.in;
    args->out = p->opts.out;
    args->rows = rows_of(&p->opts);
    args->variants = p->opts.variants;
    args->delay_ns = p->opts.delay_ns;
    args->in_stride = p->in_stride;
    args->out_stride = p->out_stride;
    args->sessions = p->opts.sessions;
    args->slots = p->opts.slots;
    args->name = p->opts.name;
    return 0;
}
