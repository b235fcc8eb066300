/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of sessions: its memory, the queue pair and the keys of each, and what the kernels know of them. */
#include "src/generate/worker/pool_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/error.h>

static uint64_t pool_in_bytes(const struct gen_pool_opts *o)
{
    return o->slots * gen_slot_stride(o->context);
}

static uint64_t pool_out_bytes(const struct gen_pool_opts *o)
{
    return (uint64_t)o->depth * sizeof(struct gen_event);
}

uint64_t gen_pool_bytes(const struct gen_pool_opts *o)
{
    return o->sessions * (pool_in_bytes(o) + pool_out_bytes(o));
}

/* ---- making ---- */

int gen_pooled_receive(struct gen_pool *p, uint32_t i)
{
    const struct gen_pooled *s = &p->session[i];
    return gw_qp_recv_empty(s->qp, gen_receives(p->opts.slots),
                            gen_id(i, gen_pooled_word(s, GEN_SESSION_OPEN), 0));
}

/* A queue takes a power of two of the CQ's entries, four at least. */
static uint32_t pool_entries(uint32_t requests)
{
    uint32_t n = 4;
    while (n < requests) n *= 2;
    return n;
}

static int pool_make_memory(struct gen_pool *p)
{
    const struct gen_pool_opts *o = &p->opts;
    enum gw_mem_kind kind = o->gpu_memory ? GW_MEM_DEVICE : GW_MEM_HOST;
    struct gw_cq_attr cq = {.cqe =
                                o->sessions * (pool_entries(o->depth) + pool_entries(gen_receives(o->slots))),
                            .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP,
                            .qps = o->sessions};
    if (gw_exec_kind(o->exec) == GW_EXEC_GPU) cq.flags = GW_CQ_ONE_POLLER;
    int err = gw_mem_alloc(o->exec, kind, o->sessions * pool_in_bytes(o), &p->in);
    if (!err) err = gw_mem_alloc(o->exec, kind, o->sessions * pool_out_bytes(o), &p->out);
    return err ? err : gw_cq_create(o->dev, &cq, &p->cq);
}

static int pool_make_session(struct gen_pool *p, uint32_t i)
{
    const struct gen_pool_opts *o = &p->opts;
    struct gen_pooled *s = &p->session[i];
    uint64_t in = pool_in_bytes(o), out = pool_out_bytes(o);
    struct gw_qp_attr attr = {.send_cq = p->cq,
                              .recv_cq = p->cq,
                              .max_send_wr = o->depth,
                              .max_recv_wr = gen_receives(o->slots),
                              .flags = GW_QP_ONE_POSTER};
    int err = gw_pd_create(o->dev, &s->pd);
    if (!err) err = gw_qp_create(s->pd, &attr, &s->qp);
    if (!err) gw_qp_endpoint(s->qp, &s->at);
    if (!err) err = gw_mr_register(s->pd, (uint8_t *)p->in.dev + i * in, in, GW_MR_REMOTE_WRITE, &s->in);
    if (!err) err = gw_mr_register(s->pd, (uint8_t *)p->out.dev + i * out, out, GW_MR_LOCAL_WRITE, &s->out);
    return err ? err : gen_pooled_receive(p, i);
}

/* The first sessions are the server's own. */
static void pool_list_free(struct gen_pool *p)
{
    p->free[0] = p->free[1] = -1;
    for (uint32_t i = p->opts.sessions; i--;) {
        uint32_t own = i < p->opts.kept;
        p->session[i].next = p->free[own];
        p->free[own] = (int32_t)i;
    }
}

int gen_pool_create(const struct gen_pool_opts *opts, struct gen_pool **out)
{
    struct gen_pool *p = calloc(1, sizeof(*p));
    if (!p) return gw_error_errno(-ENOMEM, "generate");
    p->opts = *opts;
    p->news_fd = p->look_fd = p->wake_fd = -1;
    p->in_stride = gen_slot_stride(opts->context);
    pthread_mutex_init(&p->lock, NULL);
    p->session = calloc(opts->sessions, sizeof(*p->session));
    int err = p->session ? 0 : gw_error_errno(-ENOMEM, "generate");
    if (!err) {
        pool_list_free(p);
        p->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (p->news_fd < 0) err = gw_error_errno(-errno, "generate: cannot make an eventfd");
    }
    if (!err) err = pool_make_memory(p);
    for (uint32_t i = 0; !err && i < opts->sessions; i++) err = pool_make_session(p, i);
    if (err)
        gen_pool_destroy(p);
    else
        *out = p;
    return err;
}

void gen_pool_destroy(struct gen_pool *p)
{
    if (!p) return;
    for (uint32_t i = 0; p->session && i < p->opts.sessions; i++) {
        struct gen_pooled *s = &p->session[i];
        gw_qp_destroy(s->qp);
        gw_mr_free(s->in);
        gw_mr_free(s->out);
        if (s->pd) gw_pd_destroy(s->pd);
    }
    if (p->cq) gw_cq_destroy(p->cq);
    gw_mem_free(&p->in);
    gw_mem_free(&p->out);
    if (p->news_fd >= 0) close(p->news_fd);
    if (p->look_fd >= 0) close(p->look_fd);
    if (p->wake_fd >= 0) close(p->wake_fd);
    pthread_mutex_destroy(&p->lock);
    free(p->session);
    free(p);
}

/* ---- the kernels' part ---- */

/* A sleeping loop is woken by one descriptor, and has two reasons. */
static int pool_make_wake(struct gen_pool *p, int loop_fd)
{
    struct epoll_event in = {.events = EPOLLIN};
    p->look_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->wake_fd = epoll_create1(EPOLL_CLOEXEC);
    if (p->look_fd < 0 || p->wake_fd < 0 || epoll_ctl(p->wake_fd, EPOLL_CTL_ADD, p->look_fd, &in) ||
        epoll_ctl(p->wake_fd, EPOLL_CTL_ADD, loop_fd, &in))
        return gw_error_errno(-errno, "generate: cannot make a descriptor to wake the loop by");
    return 0;
}

int gen_pool_attach(struct gen_pool *p, struct gen_args *args, struct gen_board *board, int loop_fd)
{
    const struct gen_pool_opts *o = &p->opts;
    /* The same distances hold in the host's view. */
    const uint8_t *from = (const uint8_t *)args->board;
    p->board = board;
    p->notice = (struct gen_notice *)((uint8_t *)board + ((const uint8_t *)args->notice - from));
    p->change = (uint32_t *)((uint8_t *)board + ((const uint8_t *)args->change - from));
    p->change_mask = args->change_mask;
    args->cq = gw_cq_handle(p->cq);
    int err = loop_fd >= 0 ? pool_make_wake(p, loop_fd) : 0;
    args->wake_fd = p->wake_fd;
    for (uint32_t i = 0; !err && i < o->sessions; i++) {
        const struct gen_pooled *s = &p->session[i];
        struct gen_session k = {.qp = gw_qp_handle(s->qp),
                                .in = (const uint8_t *)p->in.dev + i * pool_in_bytes(o),
                                .out = (struct gen_event *)((uint8_t *)p->out.dev + i * pool_out_bytes(o)),
                                .out_addr = s->out->addr,
                                .out_lkey = s->out->lkey};
        err = gw_copy_in(o->exec, args->session + i, &k, sizeof(k));
    }
    return err;
}
