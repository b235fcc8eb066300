/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the sessions that doors use, and the thread that takes their answers. */
#include "src/server/worker/calls.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/exec.h>
#include <gpuwire/detail/held.h>

#define SLOT_ALIGN 256u
#define RESET_NS   1000000000u
#define POLL       8

static uint64_t serve_calls_align_up(uint64_t v)
{
    return (v + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

/* ---- a call that has ended ---- */

/* Returns whether the caller is to be told, once the lock is free. */
static int serve_calls_settle(struct gw_slot *s, int err)
{
    GW_ASSERT_HELD(&s->calls->lock);
    int tell = s->state == CALL_SENT && s->done;
    s->call.error = err;
    s->call.ended = gw_deadline(0);
    if (s->state == CALL_LEFT) {
        s->state = CALL_FREE;
        pthread_cond_broadcast(&s->calls->freed);
    } else if (s->state == CALL_SENT) {
        s->state = CALL_DONE;
        pthread_cond_broadcast(&s->ended);
    }
    return tell;
}

static void serve_calls_end(struct gw_slot *s, int err)
{
    pthread_mutex_lock(&s->calls->lock);
    void (*done)(void *, struct gw_call *) = s->done;
    void *ctx = s->ctx;
    int tell = serve_calls_settle(s, err);
    pthread_mutex_unlock(&s->calls->lock);
    if (tell) done(ctx, &s->call);
}

/* Ends every call of the lane (NULL: of all) that the worker has. */
static void end_all(struct gw_calls *c, const struct gw_lane *l, int err)
{
    for (uint32_t i = 0; i < gw_calls_total(c); i++) {
        pthread_mutex_lock(&c->lock);
        int out = gw_calls_is_out(&c->slot[i]) && (!l || c->slot[i].lane == l);
        pthread_mutex_unlock(&c->lock);
        if (out) serve_calls_end(&c->slot[i], err);
    }
}

/* ---- sessions ---- */

static int connect_lane(struct gw_calls *c, struct gw_lane *l)
{
    struct gw_session_wish wish = {.slots = c->opts.slots,
                                   .reply_addr = l->out_addr,
                                   .reply_stride = c->out_stride,
                                   .reply_rkey = c->out_mr->rkey,
                                   .own = 1};
    gw_qp_endpoint(l->qp, &wish.endpoint);
    int err = gw_session_open(c->opts.pool, &wish, &l->grant);
    if (err) return err;
    /* The worker writes nothing before our first request, so the receives may come after the connection. */
    err = gw_qp_connect(l->qp, &l->grant.endpoint, NULL);
    if (!err) err = gw_qp_recv_empty(l->qp, c->opts.slots, (uint64_t)(l - c->lane));
    if (!err && l->grant.slots != c->opts.slots)
        err = gw_error(-EPROTO, "model %s: a session of the server's own has %u slots instead of %u",
                       c->opts.name, l->grant.slots, c->opts.slots);
    if (err) gw_session_close(c->opts.pool, l->grant.index);
    return err;
}

int gw_calls_open_lane(struct gw_calls *c, struct gw_lane *l)
{
    int err = connect_lane(c, l);
    pthread_mutex_lock(&c->lock);
    l->life = err ? LANE_CLOSED : LANE_OPEN;
    pthread_cond_broadcast(&c->freed);
    pthread_mutex_unlock(&c->lock);
    return err;
}

/* Its session is over: what it had in work is lost, and it can be opened again. */
static void mend(struct gw_calls *c, struct gw_lane *l)
{
    struct gw_fault fault;
    char why[160] = "its queue pair failed";
    if (gw_qp_fault(l->qp, &fault) > 0) gw_fault_text(&fault, why, sizeof(why));
    gw_say(&c->said, "model %s: a session of the server's own broke: %s", c->opts.name, why);
    pthread_mutex_lock(&c->lock);
    while (l->visitors) pthread_cond_wait(&c->freed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    gw_session_close(c->opts.pool, l->grant.index);
    /* No other thread polls: this thread is the answers' poller, and posting threads hold the lock. */
    pthread_mutex_lock(&l->post);
    int err = gw_qp_reset(l->qp, GW_RESET_QUIET, gw_deadline(RESET_NS));
    l->generation++;
    l->sent = 0;
    pthread_mutex_unlock(&l->post);
    end_all(c, l, -EIO);
    pthread_mutex_lock(&c->lock);
    if (!err) l->life = LANE_CLOSED;
    pthread_cond_broadcast(&c->freed);
    pthread_mutex_unlock(&c->lock);
}

static void kick(struct gw_calls *c)
{
    const uint64_t one = 1;
    if (write(c->kick_fd, &one, sizeof(one)) < 0) return; /* it is readable already */
}

void gw_calls_break_lane(struct gw_calls *c, struct gw_lane *l)
{
    pthread_mutex_lock(&c->lock);
    if (l->life == LANE_OPEN) l->life = LANE_BROKEN;
    pthread_mutex_unlock(&c->lock);
    kick(c);
}

/* ---- the thread that takes answers ---- */

static int serve_calls_status_error(uint32_t status)
{
    switch (status) {
    case GW_SERVE_OK: return 0;
    case GW_SERVE_BAD_REQUEST: return -EINVAL;
    case GW_SERVE_LATE: return -ETIME;
    case GW_SERVE_CLOSING: return -ESHUTDOWN;
    case GW_SERVE_RECALLED: return -ECANCELED;
    case GW_SERVE_NO_LEASE: return -EKEYEXPIRED;
    case GW_SERVE_OVER_BUDGET: return -EDQUOT;
    case GW_SERVE_NOT_THERE: return -EAGAIN;
    default: return -EREMOTEIO;
    }
}

static void serve_calls_take_answer(struct gw_calls *c, const struct ibv_wc *wc)
{
    struct gw_lane *l = &c->lane[wc->wr_id];
    uint32_t slot = wc->wc_flags & IBV_WC_WITH_IMM ? gw_wc_imm(wc) : UINT32_MAX;
    int bad = wc->status != IBV_WC_SUCCESS || slot >= c->opts.slots;
    if (!bad) {
        pthread_mutex_lock(&l->post);
        bad = gw_recv_empty(gw_qp_handle(l->qp), 1, wc->wr_id) != 0;
        pthread_mutex_unlock(&l->post);
    }
    const struct gw_serve_reply *r = bad ? NULL : gw_calls_reply(&l->slot[slot]);
    if (r && (r->magic != GW_SERVE_MAGIC || r->version != GW_SERVE_VERSION || r->id != l->slot[slot].id))
        bad = 1;
    if (bad)
        gw_calls_break_lane(c, l);
    else
        serve_calls_end(&l->slot[slot], serve_calls_status_error(r->status));
}

/* 1: the calls are being closed. */
static int serve_calls_tend(struct gw_calls *c)
{
    uint64_t count;
    if (read(c->kick_fd, &count, sizeof(count)) < 0) count = 0;
    for (uint32_t i = 0; i < c->opts.sessions; i++) {
        pthread_mutex_lock(&c->lock);
        int broken = c->lane[i].life == LANE_BROKEN;
        pthread_mutex_unlock(&c->lock);
        if (broken) mend(c, &c->lane[i]);
    }
    pthread_mutex_lock(&c->lock);
    int over = c->closing == 2;
    pthread_mutex_unlock(&c->lock);
    return over;
}

static void *serve_calls_take_answers(void *arg)
{
    struct gw_calls *c = arg;
    struct ibv_wc wc[POLL];
    while (!serve_calls_tend(c)) {
        int n = gw_wait_cq(gw_cq_handle(c->recv_cq), POLL, wc, GW_NEVER, NULL, c->kick_fd);
        for (int i = 0; i < n; i++) serve_calls_take_answer(c, &wc[i]);
    }
    end_all(c, NULL, -ESHUTDOWN);
    return NULL;
}

/* ---- making and freeing ---- */

static int make_lane(struct gw_calls *c, uint32_t i)
{
    struct gw_lane *l = &c->lane[i];
    uint32_t slots = c->opts.slots;
    struct gw_cq_attr cq = {.cqe = GW_SERVE_MAX_SLOTS * 2, .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP, .qps = 1};
    int err = gw_cq_create(c->opts.dev, &cq, &l->send_cq);
    struct gw_qp_attr qp = {.send_cq = l->send_cq,
                            .recv_cq = c->recv_cq,
                            .max_send_wr = 2 * slots,
                            .max_recv_wr = slots,
                            .flags = GW_QP_ONE_POSTER};
    if (!err) err = gw_qp_create(c->pd, &qp, &l->qp);
    l->in_addr = c->in_mr->addr + i * slots * c->in_stride;
    l->out_addr = c->out_mr->addr + i * slots * c->out_stride;
    l->slot = c->slot + (size_t)i * slots;
    for (uint32_t k = 0; k < slots; k++) {
        l->slot[k].calls = c;
        l->slot[k].lane = l;
        l->slot[k].index = k;
        l->slot[k].call.reply = gw_calls_reply(&l->slot[k]);
    }
    return err;
}

static int serve_calls_make_queues(struct gw_calls *c)
{
    const struct gw_calls_opts *o = &c->opts;
    struct gw_exec *exec = gw_device_exec(o->dev);
    uint32_t entries = 4; /* that a queue takes of its CQ: a power of two */
    while (entries < o->slots) entries *= 2;
    struct gw_cq_attr cq = {
        .cqe = o->sessions * entries, .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP, .qps = o->sessions};
    int err = gw_pd_create(o->dev, &c->pd);
    if (!err) err = gw_cq_create(o->dev, &cq, &c->recv_cq);
    if (!err) err = gw_mem_alloc(exec, GW_MEM_HOST, gw_calls_total(c) * c->in_stride, &c->in);
    if (!err) err = gw_mem_alloc(exec, GW_MEM_HOST, gw_calls_total(c) * c->out_stride, &c->out);
    if (!err) err = gw_mr_register(c->pd, c->in.host, c->in.size, GW_MR_LOCAL_WRITE, &c->in_mr);
    if (!err) err = gw_mr_register(c->pd, c->out.host, c->out.size, GW_MR_REMOTE_WRITE, &c->out_mr);
    for (uint32_t i = 0; !err && i < o->sessions; i++) err = make_lane(c, i);
    return err;
}

static int serve_calls_start_thread(struct gw_calls *c)
{
    c->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->kick_fd < 0) return gw_error_errno(-errno, "calls: cannot make an eventfd");
    int err = pthread_create(&c->thread, NULL, serve_calls_take_answers, c);
    c->started = !err;
    return err ? gw_error_errno(-err, "calls: cannot start a thread") : 0;
}

int gw_calls_create(const struct gw_calls_opts *o, struct gw_calls **out)
{
    struct gw_calls *c = calloc(1, sizeof(*c));
    pthread_condattr_t monotonic;
    if (!c) return -ENOMEM;
    c->opts = *o;
    c->kick_fd = -1;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&c->freed, &monotonic);
    c->in_stride = serve_calls_align_up(sizeof(struct gw_serve_request) +
                                        (o->in_bytes ? o->in_bytes : gw_layout_bytes(&o->in, o->rows)));
    c->out_stride = serve_calls_align_up(sizeof(struct gw_serve_reply) +
                                         (o->out_bytes ? o->out_bytes : gw_layout_bytes(&o->out, o->rows)));
    c->lane = calloc(o->sessions, sizeof(*c->lane));
    c->slot = calloc(gw_calls_total(c), sizeof(*c->slot));
    for (uint32_t i = 0; c->lane && i < o->sessions; i++) pthread_mutex_init(&c->lane[i].post, NULL);
    for (uint32_t i = 0; c->slot && i < gw_calls_total(c); i++)
        pthread_cond_init(&c->slot[i].ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int err = c->lane && c->slot ? serve_calls_make_queues(c) : -ENOMEM;
    if (!err) err = serve_calls_start_thread(c);
    if (err)
        gw_calls_destroy(c);
    else
        *out = c;
    return err;
}

static uint32_t serve_calls_count(struct gw_calls *c, bool (*is)(const struct gw_slot *s))
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < gw_calls_total(c); i++) n += is(&c->slot[i]);
    return n;
}

void gw_calls_close(struct gw_calls *c, uint64_t deadline_ns)
{
    if (!c || !c->started) return;
    struct timespec end = gw_calls_time(deadline_ns);
    pthread_mutex_lock(&c->lock);
    if (!c->closing) c->closing = 1;
    pthread_cond_broadcast(&c->freed);
    for (uint32_t i = 0; i < gw_calls_total(c); i++) {
        struct gw_slot *s = &c->slot[i];
        while (s->state == CALL_SENT && !pthread_cond_timedwait(&s->ended, &c->lock, &end)) continue;
    }
    c->closing = 2;
    pthread_mutex_unlock(&c->lock);
    kick(c);
    pthread_join(c->thread, NULL);
    c->started = 0;
}

void gw_calls_destroy(struct gw_calls *c)
{
    if (!c) return;
    gw_calls_close(c, 0);
    for (uint32_t i = 0; c->lane && i < c->opts.sessions; i++) {
        if (c->lane[i].life == LANE_OPEN) gw_session_close(c->opts.pool, c->lane[i].grant.index);
        gw_qp_destroy(c->lane[i].qp);
        if (c->lane[i].send_cq) gw_cq_destroy(c->lane[i].send_cq);
        pthread_mutex_destroy(&c->lane[i].post);
    }
    for (uint32_t i = 0; c->slot && i < gw_calls_total(c); i++) pthread_cond_destroy(&c->slot[i].ended);
    gw_mr_free(c->in_mr);
    gw_mr_free(c->out_mr);
    if (c->recv_cq) gw_cq_destroy(c->recv_cq);
    if (c->pd) gw_pd_destroy(c->pd);
    gw_mem_free(&c->in);
    gw_mem_free(&c->out);
    if (c->kick_fd >= 0) close(c->kick_fd);
    pthread_cond_destroy(&c->freed);
    pthread_mutex_destroy(&c->lock);
    free(c->slot);
    free(c->lane);
    free(c);
}

uint32_t gw_calls_size(const struct gw_calls *c)
{
    return gw_calls_total(c);
}
uint32_t gw_calls_rows(const struct gw_calls *c)
{
    return c->opts.rows;
}

static bool is_taken(const struct gw_slot *s)
{
    return s->state != CALL_FREE;
}

uint32_t gw_calls_taken(struct gw_calls *c)
{
    pthread_mutex_lock(&c->lock);
    uint32_t n = serve_calls_count(c, is_taken);
    pthread_mutex_unlock(&c->lock);
    return n;
}

uint32_t gw_calls_held(struct gw_calls *c)
{
    pthread_mutex_lock(&c->lock);
    uint32_t n = c->held;
    pthread_mutex_unlock(&c->lock);
    return n;
}

void gw_calls_hold(struct gw_calls *c)
{
    pthread_mutex_lock(&c->lock);
    c->held++;
    pthread_mutex_unlock(&c->lock);
}

void gw_calls_release(struct gw_calls *c)
{
    pthread_mutex_lock(&c->lock);
    GW_ASSERT(c->held > 0);
    c->held--;
    pthread_mutex_unlock(&c->lock);
}
