/* SPDX-License-Identifier: Apache-2.0 */
#include "src/serve/call.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "src/serve/limit.h"
#include "src/serve/who.h"

#define SLOT_ALIGN   256u
#define SEND_ROOM_NS 100000000u
#define RESET_NS     1000000000u
#define POLL         8

enum state {
    FREE,
    TAKEN, /* the caller writes its inputs */
    SENT,  /* the worker has it */
    DONE,  /* the caller reads its outputs */
    LEFT   /* the worker has it, and nobody waits for it */
};

struct slot {
    struct gw_call call; /* what the caller sees; first, so that one is the other */
    struct gw_calls *calls;
    struct lane *lane;
    uint32_t index, rows;
    enum state state;
    uint64_t id;
    void (*done)(void *ctx, struct gw_call *call);
    void *ctx;
    pthread_cond_t ended;
    char who[GW_WHO_TEXT];
};

enum life {
    CLOSED,
    OPENING, /* a thread opens its session */
    OPEN,
    BROKEN /* the calls' thread is about to close it */
};

/* One session. */
struct lane {
    struct gw_cq *send_cq;
    struct gw_qp *qp;
    pthread_mutex_t post; /* held while something is posted: one thread at a time does */
    enum life life;
    struct gw_session_grant grant;
    uint32_t sent;
    uint64_t in_addr, out_addr; /* its slots, as the NIC names them */
    struct slot *slot;
};

struct gw_calls {
    struct gw_calls_opts opts;
    pthread_mutex_t lock; /* of states and lives; never held while anything is waited for */
    pthread_cond_t freed; /* a call was given back, or all is being closed */
    pthread_t thread;
    int started, closing, kick_fd;
    struct gw_pd *pd;
    struct gw_cq *recv_cq;
    struct gw_mem in, out;
    struct gw_mr *in_mr, *out_mr;
    uint64_t in_stride, out_stride;
    uint64_t ids;
    struct lane *lane;
    struct slot *slot; /* of all lanes */
    struct gw_say_limit said;
};

static uint64_t align_up(uint64_t v)
{
    return (v + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

static uint32_t total(const struct gw_calls *c)
{
    return c->opts.sessions * c->opts.slots;
}

static struct slot *slot_of(const struct gw_call *call)
{
    return (struct slot *)call;
}

static struct gw_serve_request *request_of(const struct slot *s)
{
    uint64_t at = (uint64_t)(s - s->calls->slot) * s->calls->in_stride;
    return (struct gw_serve_request *)((uint8_t *)s->calls->in.host + at);
}

static const struct gw_serve_reply *reply_of(const struct slot *s)
{
    uint64_t at = (uint64_t)(s - s->calls->slot) * s->calls->out_stride;
    return (const struct gw_serve_reply *)((const uint8_t *)s->calls->out.host + at);
}

/* ---- a call that has ended ---- */

/* With the lock held. Returns what is to be told when it is released. */
static int settle(struct slot *s, int error)
{
    int tell = s->state == SENT && s->done;
    s->call.error = error;
    s->call.ended = gw_deadline(0);
    if (s->state == LEFT) {
        s->state = FREE;
        pthread_cond_broadcast(&s->calls->freed);
    } else if (s->state == SENT) {
        s->state = DONE;
        pthread_cond_broadcast(&s->ended);
    }
    return tell;
}

static void end(struct slot *s, int error)
{
    pthread_mutex_lock(&s->calls->lock);
    void (*done)(void *, struct gw_call *) = s->done;
    void *ctx = s->ctx;
    int tell = settle(s, error);
    pthread_mutex_unlock(&s->calls->lock);
    if (tell) done(ctx, &s->call);
}

static int is_out(const struct slot *s)
{
    return s->state == SENT || s->state == LEFT;
}

/* Ends every call of the lane (NULL: of all) that the worker has. */
static void end_all(struct gw_calls *c, const struct lane *l, int error)
{
    for (uint32_t i = 0; i < total(c); i++) {
        pthread_mutex_lock(&c->lock);
        int out = is_out(&c->slot[i]) && (!l || c->slot[i].lane == l);
        pthread_mutex_unlock(&c->lock);
        if (out) end(&c->slot[i], error);
    }
}

/* ---- sessions ---- */

static int connect_lane(struct gw_calls *c, struct lane *l)
{
    struct gw_session_wish wish = {.slots = c->opts.slots,
                                   .reply_addr = l->out_addr,
                                   .reply_stride = c->out_stride,
                                   .reply_rkey = c->out_mr->rkey,
                                   .own = 1};
    gw_qp_endpoint(l->qp, &wish.endpoint);
    int error = gw_session_open(c->opts.pool, &wish, &l->grant);
    if (error) return error;
    /* The worker writes nothing before our first request, so the receives may come after the connection. */
    error = gw_qp_connect(l->qp, &l->grant.endpoint, NULL);
    if (!error) error = gw_qp_recv_empty(l->qp, c->opts.slots, (uint64_t)(l - c->lane));
    if (!error && l->grant.slots != c->opts.slots)
        error = gw_error(-EPROTO, "model %s: a session of the server's own has %u slots instead of %u",
                         c->opts.name, l->grant.slots, c->opts.slots);
    if (error) gw_session_close(c->opts.pool, l->grant.index);
    return error;
}

/* The lane is OPENING and nobody else touches it. */
static int open_lane(struct gw_calls *c, struct lane *l)
{
    int error = connect_lane(c, l);
    pthread_mutex_lock(&c->lock);
    l->life = error ? CLOSED : OPEN;
    l->sent = 0;
    pthread_cond_broadcast(&c->freed);
    pthread_mutex_unlock(&c->lock);
    return error;
}

/* Its session is over: what it had in work is lost, and it can be opened anew. */
static void mend(struct gw_calls *c, struct lane *l)
{
    struct gw_fault fault;
    char why[160] = "its queue pair failed";
    if (gw_qp_fault(l->qp, &fault) > 0) gw_fault_text(&fault, why, sizeof(why));
    gw_say(&c->said, "model %s: a session of the server's own broke: %s", c->opts.name, why);
    gw_session_close(c->opts.pool, l->grant.index);
    /* Nobody polls meanwhile: this thread is the answers' poller, and who posts holds the lock. */
    pthread_mutex_lock(&l->post);
    int error = gw_qp_reset(l->qp, GW_RESET_QUIET, gw_deadline(RESET_NS));
    pthread_mutex_unlock(&l->post);
    end_all(c, l, -EIO);
    pthread_mutex_lock(&c->lock);
    if (!error) l->life = CLOSED;
    pthread_cond_broadcast(&c->freed);
    pthread_mutex_unlock(&c->lock);
}

static void kick(struct gw_calls *c)
{
    const uint64_t one = 1;
    if (write(c->kick_fd, &one, sizeof(one)) < 0) return; /* it is readable already */
}

static void set_broken(struct gw_calls *c, struct lane *l)
{
    pthread_mutex_lock(&c->lock);
    if (l->life == OPEN) l->life = BROKEN;
    pthread_mutex_unlock(&c->lock);
}

/* ---- the thread that takes answers ---- */

static int status_error(uint32_t status)
{
    switch (status) {
    case GW_SERVE_OK: return 0;
    case GW_SERVE_BAD_REQUEST: return -EINVAL;
    case GW_SERVE_LATE: return -ETIME;
    case GW_SERVE_CLOSING: return -ESHUTDOWN;
    default: return -EREMOTEIO;
    }
}

static void take_answer(struct gw_calls *c, const struct ibv_wc *wc)
{
    struct lane *l = &c->lane[wc->wr_id];
    uint32_t slot = wc->wc_flags & IBV_WC_WITH_IMM ? gw_wc_imm(wc) : UINT32_MAX;
    int bad = wc->status != IBV_WC_SUCCESS || slot >= c->opts.slots;
    if (!bad) {
        pthread_mutex_lock(&l->post);
        bad = gw_recv_empty(gw_qp_handle(l->qp), 1, wc->wr_id) != 0;
        pthread_mutex_unlock(&l->post);
    }
    const struct gw_serve_reply *r = bad ? NULL : reply_of(&l->slot[slot]);
    if (r && (r->magic != GW_SERVE_MAGIC || r->version != GW_SERVE_VERSION || r->id != l->slot[slot].id))
        bad = 1;
    if (bad)
        set_broken(c, l);
    else
        end(&l->slot[slot], status_error(r->status));
}

/* 1: the calls are being closed. */
static int tend(struct gw_calls *c)
{
    uint64_t count;
    if (read(c->kick_fd, &count, sizeof(count)) < 0) count = 0;
    for (uint32_t i = 0; i < c->opts.sessions; i++) {
        pthread_mutex_lock(&c->lock);
        int broken = c->lane[i].life == BROKEN;
        pthread_mutex_unlock(&c->lock);
        if (broken) mend(c, &c->lane[i]);
    }
    pthread_mutex_lock(&c->lock);
    int over = c->closing == 2;
    pthread_mutex_unlock(&c->lock);
    return over;
}

static void *take_answers(void *arg)
{
    struct gw_calls *c = arg;
    struct ibv_wc wc[POLL];
    while (!tend(c)) {
        int n = gw_wait_cq(gw_cq_handle(c->recv_cq), POLL, wc, GW_NEVER, NULL, c->kick_fd);
        for (int i = 0; i < n; i++) take_answer(c, &wc[i]);
    }
    end_all(c, NULL, -ESHUTDOWN);
    return NULL;
}

/* ---- making and freeing ---- */

static int make_lane(struct gw_calls *c, uint32_t i)
{
    struct lane *l = &c->lane[i];
    uint32_t slots = c->opts.slots;
    struct gw_cq_attr cq = {.cqe = GW_SERVE_MAX_SLOTS * 2, .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP, .qps = 1};
    int error = gw_cq_create(c->opts.dev, &cq, &l->send_cq);
    struct gw_qp_attr qp = {.send_cq = l->send_cq,
                            .recv_cq = c->recv_cq,
                            .max_send_wr = 2 * slots,
                            .max_recv_wr = slots,
                            .flags = GW_QP_ONE_POSTER};
    if (!error) error = gw_qp_create(c->pd, &qp, &l->qp);
    l->in_addr = c->in_mr->addr + i * slots * c->in_stride;
    l->out_addr = c->out_mr->addr + i * slots * c->out_stride;
    l->slot = c->slot + (size_t)i * slots;
    for (uint32_t k = 0; k < slots; k++) {
        l->slot[k].calls = c;
        l->slot[k].lane = l;
        l->slot[k].index = k;
        l->slot[k].call.reply = reply_of(&l->slot[k]);
    }
    return error;
}

static int make_queues(struct gw_calls *c)
{
    const struct gw_calls_opts *o = &c->opts;
    struct gw_exec *exec = gw_device_exec(o->dev);
    uint32_t entries = 4; /* that a queue takes of its CQ: a power of two */
    while (entries < o->slots) entries *= 2;
    struct gw_cq_attr cq = {
        .cqe = o->sessions * entries, .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP, .qps = o->sessions};
    int error = gw_pd_create(o->dev, &c->pd);
    if (!error) error = gw_cq_create(o->dev, &cq, &c->recv_cq);
    if (!error) error = gw_mem_alloc(exec, GW_MEM_HOST, total(c) * c->in_stride, &c->in);
    if (!error) error = gw_mem_alloc(exec, GW_MEM_HOST, total(c) * c->out_stride, &c->out);
    if (!error) error = gw_mr_register(c->pd, c->in.host, c->in.size, GW_MR_LOCAL_WRITE, &c->in_mr);
    if (!error) error = gw_mr_register(c->pd, c->out.host, c->out.size, GW_MR_REMOTE_WRITE, &c->out_mr);
    for (uint32_t i = 0; !error && i < o->sessions; i++) error = make_lane(c, i);
    return error;
}

static int start_thread(struct gw_calls *c)
{
    c->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->kick_fd < 0) return gw_error_errno(-errno, "calls: cannot make an eventfd");
    int error = pthread_create(&c->thread, NULL, take_answers, c);
    c->started = !error;
    return error ? gw_error_errno(-error, "calls: cannot start a thread") : 0;
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
    c->in_stride = align_up(sizeof(struct gw_serve_request) + gw_layout_bytes(&o->in, o->rows));
    c->out_stride = align_up(sizeof(struct gw_serve_reply) + gw_layout_bytes(&o->out, o->rows));
    c->lane = calloc(o->sessions, sizeof(*c->lane));
    c->slot = calloc(total(c), sizeof(*c->slot));
    for (uint32_t i = 0; c->lane && i < o->sessions; i++) pthread_mutex_init(&c->lane[i].post, NULL);
    for (uint32_t i = 0; c->slot && i < total(c); i++) pthread_cond_init(&c->slot[i].ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int error = c->lane && c->slot ? make_queues(c) : -ENOMEM;
    if (!error) error = start_thread(c);
    if (error)
        gw_calls_destroy(c);
    else
        *out = c;
    return error;
}

static uint32_t count(struct gw_calls *c, int (*is)(const struct slot *s))
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < total(c); i++) n += is(&c->slot[i]) != 0;
    return n;
}

static struct timespec time_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

void gw_calls_close(struct gw_calls *c, uint64_t deadline_ns)
{
    if (!c || !c->started) return;
    struct timespec end = time_of(deadline_ns);
    pthread_mutex_lock(&c->lock);
    if (!c->closing) c->closing = 1;
    pthread_cond_broadcast(&c->freed);
    for (uint32_t i = 0; i < total(c); i++) {
        struct slot *s = &c->slot[i];
        while (s->state == SENT && !pthread_cond_timedwait(&s->ended, &c->lock, &end)) continue;
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
        if (c->lane[i].life == OPEN) gw_session_close(c->opts.pool, c->lane[i].grant.index);
        gw_qp_destroy(c->lane[i].qp);
        if (c->lane[i].send_cq) gw_cq_destroy(c->lane[i].send_cq);
        pthread_mutex_destroy(&c->lane[i].post);
    }
    for (uint32_t i = 0; c->slot && i < total(c); i++) pthread_cond_destroy(&c->slot[i].ended);
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
    return total(c);
}
uint32_t gw_calls_rows(const struct gw_calls *c)
{
    return c->opts.rows;
}

static int is_taken(const struct slot *s)
{
    return s->state != FREE;
}

uint32_t gw_calls_taken(struct gw_calls *c)
{
    pthread_mutex_lock(&c->lock);
    uint32_t n = count(c, is_taken);
    pthread_mutex_unlock(&c->lock);
    return n;
}

/* ---- taking and giving ---- */

/* With the lock held: may this client have one more? */
static int has_share(const struct gw_calls *c, const char *who)
{
    uint32_t most = total(c) - total(c) / 4, has = 0;
    for (uint32_t i = 0; i < total(c); i++)
        has += c->slot[i].state != FREE && !strncmp(c->slot[i].who, who, sizeof(c->slot[i].who) - 1);
    return has < most;
}

/* With the lock held: a free call of an open session. */
static struct slot *find_free(struct gw_calls *c)
{
    for (uint32_t i = 0; i < total(c); i++)
        if (c->slot[i].state == FREE && c->slot[i].lane->life == OPEN) return &c->slot[i];
    return NULL;
}

/* With the lock held: a session to be opened, when no other thread is at it. */
static struct lane *find_closed(struct gw_calls *c)
{
    struct lane *closed = NULL;
    for (uint32_t i = 0; i < c->opts.sessions; i++) {
        if (c->lane[i].life == OPENING) return NULL;
        if (c->lane[i].life == CLOSED && !closed) closed = &c->lane[i];
    }
    if (closed) closed->life = OPENING;
    return closed;
}

/* One step towards a call, with the lock held: 1 when *out is one, 0 when the caller shall look again, or a
 * negative errno. */
static int step(struct gw_calls *c, const char *who, uint64_t deadline_ns, struct slot **out)
{
    struct timespec until = time_of(deadline_ns);
    struct lane *closed = NULL;
    if (c->closing) return gw_error(-ESHUTDOWN, "model %s is being stopped", c->opts.name);
    int may = has_share(c, who);
    if (may && (*out = find_free(c))) return 1;
    if (may && (closed = find_closed(c))) {
        pthread_mutex_unlock(&c->lock);
        int error = open_lane(c, closed);
        pthread_mutex_lock(&c->lock);
        return error == -EAGAIN ? 0 : error;
    }
    if (!deadline_ns) return gw_error(-EAGAIN, "model %s: every place for a request is taken", c->opts.name);
    if (pthread_cond_timedwait(&c->freed, &c->lock, &until) == ETIMEDOUT)
        return gw_error(-ETIMEDOUT, "model %s: every place for a request stayed taken", c->opts.name);
    return 0;
}

int gw_call_take(struct gw_calls *c, const char *who, uint64_t deadline_ns, struct gw_call **out)
{
    struct slot *s = NULL;
    int got;
    pthread_mutex_lock(&c->lock);
    while (!(got = step(c, who, deadline_ns, &s))) continue;
    if (got > 0) {
        s->state = TAKEN;
        s->done = NULL;
        s->call.error = 0;
        strncpy(s->who, who, sizeof(s->who) - 1);
        *out = &s->call;
    }
    pthread_mutex_unlock(&c->lock);
    return got > 0 ? 0 : got;
}

void gw_call_give(struct gw_call *call)
{
    if (!call) return;
    struct slot *s = slot_of(call);
    pthread_mutex_lock(&s->calls->lock);
    s->state = is_out(s) ? LEFT : FREE;
    if (s->state == FREE) pthread_cond_broadcast(&s->calls->freed);
    pthread_mutex_unlock(&s->calls->lock);
}

void *gw_call_input(struct gw_call *call, uint32_t i, uint32_t rows, uint64_t *bytes)
{
    const struct gw_layout *in = &slot_of(call)->calls->opts.in;
    *bytes = gw_layout_tensor_bytes(in, i, rows);
    return (uint8_t *)(request_of(slot_of(call)) + 1) + gw_layout_offset(in, i, rows);
}

const void *gw_call_output(const struct gw_call *call, uint32_t i, uint64_t *bytes)
{
    const struct gw_layout *out = &slot_of(call)->calls->opts.out;
    uint32_t rows = slot_of(call)->rows;
    *bytes = gw_layout_tensor_bytes(out, i, rows);
    return (const uint8_t *)(call->reply + 1) + gw_layout_offset(out, i, rows);
}

/* ---- asking ---- */

/* The send queue holds twice as many requests as there are slots: so there is nearly always room, and else
 * there is when acknowledgements have come. With the lane's posting lock held. */
static int post(struct gw_calls *c, const struct slot *s, uint64_t bytes)
{
    struct lane *l = s->lane;
    uint32_t flags = ++l->sent % c->opts.slots == 0 ? GW_SIGNALED : 0;
    uint64_t end = gw_deadline(SEND_ROOM_NS);
    struct ibv_wc wc;
    for (;;) {
        while (gw_poll_cq(gw_cq_handle(l->send_cq), 1, &wc) > 0)
            if (wc.status != IBV_WC_SUCCESS) return -EIO;
        int error = gw_post_op(gw_qp_handle(l->qp),
                               gw_put_imm_op(l->in_addr + s->index * c->in_stride, c->in_mr->lkey,
                                             l->grant.request_addr + s->index * l->grant.request_stride,
                                             l->grant.request_rkey, (uint32_t)bytes, s->index),
                               flags, s->index);
        if (error != -EAGAIN) return error;
        if (gw_cq_wait(l->send_cq, end, NULL, -1) <= 0) return -EIO;
    }
}

/* The request is the worker's from now on, unless it cannot be sent. */
static int begin(struct slot *s, const struct gw_call_ask *ask)
{
    struct gw_calls *c = s->calls;
    int error = 0;
    pthread_mutex_lock(&c->lock);
    if (c->closing)
        error = gw_error(-ESHUTDOWN, "model %s is being stopped", c->opts.name);
    else if (s->lane->life != OPEN)
        error = gw_error(-EIO, "model %s: the session of the server's own broke", c->opts.name);
    if (!error) {
        s->state = SENT;
        s->id = ++c->ids;
        s->rows = ask->rows;
        s->done = ask->done;
        s->ctx = ask->ctx;
    }
    pthread_mutex_unlock(&c->lock);
    return error;
}

int gw_call_submit(struct gw_call *call, const struct gw_call_ask *ask)
{
    struct slot *s = slot_of(call);
    struct gw_calls *c = s->calls;
    if (ask->rows < 1 || ask->rows > c->opts.rows)
        return gw_error(-EINVAL, "model %s takes 1 to %u samples at once, not %u", c->opts.name, c->opts.rows,
                        ask->rows);
    uint64_t bytes = gw_layout_bytes(&c->opts.in, ask->rows);
    int error = begin(s, ask);
    if (error) return error;
    *request_of(s) = (struct gw_serve_request){.magic = GW_SERVE_MAGIC,
                                               .version = GW_SERVE_VERSION,
                                               .slot = (uint16_t)s->index,
                                               .id = s->id,
                                               .bytes = bytes,
                                               .rows = ask->rows,
                                               .priority = ask->priority,
                                               .budget_ns = ask->budget_ns};
    call->submitted = gw_deadline(0);
    pthread_mutex_lock(&s->lane->post);
    error = post(c, s, sizeof(struct gw_serve_request) + bytes);
    pthread_mutex_unlock(&s->lane->post);
    if (!error) return 0;
    set_broken(c, s->lane);
    kick(c); /* the thread ends this call with the session's others */
    return 0;
}

int gw_call_wait(struct gw_call *call, uint64_t deadline_ns)
{
    struct slot *s = slot_of(call);
    struct timespec until = time_of(deadline_ns);
    int late = 0;
    pthread_mutex_lock(&s->calls->lock);
    while (s->state == SENT && !late)
        late = pthread_cond_timedwait(&s->ended, &s->calls->lock, &until) == ETIMEDOUT && s->state == SENT;
    pthread_mutex_unlock(&s->calls->lock);
    return late ? gw_error(-ETIMEDOUT, "model %s has not answered in time", s->calls->opts.name) : 0;
}
