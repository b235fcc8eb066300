/* SPDX-License-Identifier: Apache-2.0 */
#include "src/serve/session.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/serve/wire.h"

#define SLOT_ALIGN 256u
#define PAGE       4096u
#define COPY       (64u << 10) /* bytes of a GPU's memory cleared at once */
#define RESET_NS   2000000u    /* the housekeeper has other sessions to see to, and comes again */

enum life {
    FREE,    /* empty, with new keys and its receives posted */
    OPENING, /* a thread is connecting it */
    OPEN,
    CLOSING /* cut off; the loop may still be at work for it */
};

struct session {
    struct gw_pd *pd;
    struct gw_qp *qp;
    struct gw_mr *in, *out;
    enum life life; /* under the pool's lock; CLOSING to FREE is the housekeeper's step */
    uint32_t own;   /* of the server's own; until it is free again */
    uint32_t generation;
};

/* What the kernel has reported, as far as the host has acted on it. */
struct heard {
    uint32_t broken;
    uint64_t failed;
};

/* What lies in the kernels' own memory, one behind the other: offsets, and bytes in all. */
struct places {
    uint64_t io, work, session, arrival, item, variant, bytes;
};

struct gw_session_pool {
    struct gw_session_pool_opts opts;
    pthread_mutex_t lock; /* held for a few instructions, never while anything is waited for */
    uint64_t in_stride, out_stride;
    struct gw_cq *cq;
    struct gw_mem in, out; /* slots of all sessions */
    struct gw_mem notices; /* gw_serve_board, then a gw_serve_notice per session */
    struct gw_mem kernel;  /* as `places` says */
    struct gw_mem batch;   /* where requests are put together: the inputs, then the outputs */
    struct session *session;
    struct heard heard;
    int news_fd; /* an eventfd: readable while the loop has a session to let go of. CPU only, else -1 */
    int wake_fd; /* an epoll: readable when the loop's wake_fd or news_fd is */
};

static uint64_t align_up(uint64_t v)
{
    return (v + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

/* The word that a session's notice gets next. */
static uint32_t next_word(const struct session *s, enum gw_serve_state state)
{
    return (s->generation + 1) << 2 | state;
}

/* For the client who opens the session next. */
static int post_receives(const struct gw_session_pool *p, uint32_t i)
{
    const struct session *s = &p->session[i];
    return gw_qp_recv_empty(s->qp, p->opts.slots, gw_serve_id(i, next_word(s, GW_SESSION_OPEN), 0));
}

/* That a request has at most. */
static uint32_t rows_of(const struct gw_session_pool_opts *o)
{
    return o->variant[o->variants - 1].rows;
}

static uint64_t in_stride_of(const struct gw_session_pool_opts *o)
{
    return align_up(sizeof(struct gw_serve_request) + gw_layout_bytes(&o->in, rows_of(o)));
}

static uint64_t out_stride_of(const struct gw_session_pool_opts *o)
{
    return align_up(sizeof(struct gw_serve_reply) + gw_layout_bytes(&o->out, rows_of(o)));
}

/* A batch of one row is one request, which needs no room of its own; nor do fixed addresses. */
static int needs_room(const struct gw_serve_variant *v)
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
    at.work = align_up(sizeof(struct gw_plan_io));
    at.session = at.work + align_up(sizeof(struct gw_serve_work));
    at.arrival = at.session + align_up(o->sessions * sizeof(struct gw_serve_session));
    at.item = at.arrival + align_up((uint64_t)o->sessions * o->slots * sizeof(struct gw_serve_arrival));
    at.variant = at.item + align_up(rows_of(o) * sizeof(struct gw_serve_item));
    at.bytes = at.variant + align_up(o->variants * sizeof(struct gw_serve_variant));
    return at;
}

static void *kernel_place(const struct gw_session_pool *p, uint64_t at)
{
    return (uint8_t *)p->kernel.dev + at;
}

/* Whose memory the slots are. */
static struct gw_exec *slot_exec(const struct gw_session_pool *p)
{
    return p->opts.memory ? p->opts.memory : p->opts.exec;
}

static uint32_t power_of_two(uint32_t at_least)
{
    uint32_t n = 1;
    while (n < at_least) n *= 2;
    return n;
}

static struct gw_serve_board *board(const struct gw_session_pool *p)
{
    return p->notices.host;
}
static struct gw_serve_notice *notice(const struct gw_session_pool *p, uint32_t i)
{
    return (struct gw_serve_notice *)(board(p) + 1) + i;
}

/* ---- making the pool ---- */

/* Where each batch size puts its requests together: they share the room, since they run one at a time. */
static int place_batches(struct gw_session_pool *p)
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

static int make_memory(struct gw_session_pool *p)
{
    const struct gw_session_pool_opts *o = &p->opts;
    uint64_t all = (uint64_t)o->sessions * o->slots;
    enum gw_mem_kind kind = o->gpu_memory ? GW_MEM_DEVICE : GW_MEM_HOST;
    int error = gw_mem_alloc(slot_exec(p), kind, all * p->in_stride, &p->in);
    if (!error) error = gw_mem_alloc(slot_exec(p), kind, all * p->out_stride, &p->out);
    if (!error)
        error = gw_mem_alloc(o->exec, GW_MEM_HOST,
                             sizeof(struct gw_serve_board) + o->sessions * sizeof(struct gw_serve_notice),
                             &p->notices);
    if (!error) error = gw_mem_alloc(o->exec, GW_MEM_DEVICE, places_of(o).bytes, &p->kernel);
    if (!error && batch_bytes(o)) error = gw_mem_alloc(o->exec, GW_MEM_DEVICE, batch_bytes(o), &p->batch);
    if (!error) error = place_batches(p);
    if (error) return error;
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

static int make_session(struct gw_session_pool *p, uint32_t i)
{
    struct session *s = &p->session[i];
    uint64_t in_bytes = p->opts.slots * p->in_stride, out_bytes = p->opts.slots * p->out_stride;
    struct gw_qp_attr attr = {.send_cq = p->cq,
                              .recv_cq = p->cq,
                              .max_send_wr = p->opts.slots,
                              .max_recv_wr = p->opts.slots,
                              .flags = GW_QP_ONE_POSTER};
    int error = gw_pd_create(p->opts.dev, &s->pd);
    if (!error) error = gw_qp_create(s->pd, &attr, &s->qp);
    if (!error)
        error =
            gw_mr_register(s->pd, (uint8_t *)p->in.dev + i * in_bytes, in_bytes, GW_MR_REMOTE_WRITE, &s->in);
    if (!error)
        error = gw_mr_register(s->pd, (uint8_t *)p->out.dev + i * out_bytes, out_bytes, GW_MR_LOCAL_WRITE,
                               &s->out);
    if (!error) error = post_receives(p, i);
    if (error) return error;

    struct gw_serve_session k = {
        .qp = gw_qp_handle(s->qp),
        .in = (const uint8_t *)p->in.dev + i * in_bytes,
        .out = (uint8_t *)p->out.dev + i * out_bytes,
        .out_addr = s->out->addr,
        .out_lkey = s->out->lkey,
    };
    return gw_copy_in(p->opts.exec, kernel_sessions(p) + i, &k, sizeof(k));
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
    int error = p->session ? make_memory(p) : -ENOMEM;
    if (!error) {
        /* Each session has two queues, and a queue takes a power of two of the CQ's entries, four at
         * least. */
        uint32_t entries = power_of_two(opts->slots);
        struct gw_cq_attr attr = {.cqe = opts->sessions * (entries < 4 ? 4 : entries) * 2,
                                  .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP,
                                  .qps = opts->sessions};
        if (gw_exec_kind(opts->exec) == GW_EXEC_GPU) attr.flags = GW_CQ_ONE_POLLER;
        error = gw_cq_create(opts->dev, &attr, &p->cq);
    }
    for (uint32_t i = 0; !error && i < opts->sessions; i++) error = make_session(p, i);
    if (error)
        gw_session_pool_destroy(p);
    else
        *out = p;
    return error;
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
    int error = loop_fd >= 0 ? make_wake_fd(p, loop_fd) : 0;
    if (error) return error;
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
    return 0;
}

/* ---- opening and closing ---- */

static void tell(struct gw_session_pool *p, uint32_t i, enum gw_serve_state state)
{
    /* Release: the kernel that sees the word sees the fields; and the count after the word, so that a kernel
     * which sees the new count finds the new word. */
    gw_st_release_u32(&notice(p, i)->word, next_word(&p->session[i], state));
    p->session[i].generation++;
    gw_add_release_u32(&board(p)->changes, 1);
}

/* Acquire: what the kernel did before it answered is over. */
static int taken_up(const struct gw_session_pool *p, uint32_t i)
{
    return gw_ld_acquire_u32(&notice(p, i)->seen) == gw_ld_relaxed_u32(&notice(p, i)->word);
}

static enum life life_of(struct gw_session_pool *p, uint32_t i)
{
    pthread_mutex_lock(&p->lock);
    enum life life = p->session[i].life;
    pthread_mutex_unlock(&p->lock);
    return life;
}

static void set_life(struct gw_session_pool *p, uint32_t i, enum life life)
{
    pthread_mutex_lock(&p->lock);
    p->session[i].life = life;
    pthread_mutex_unlock(&p->lock);
}

static uint32_t slots_for(const struct gw_session_pool *p, const struct gw_session_wish *w)
{
    return w->slots && w->slots < p->opts.slots ? w->slots : p->opts.slots;
}

static int check_wish(const struct gw_session_pool *p, const struct gw_session_wish *w)
{
    uint64_t need = sizeof(struct gw_serve_reply) + gw_layout_bytes(&p->opts.out, rows_of(&p->opts)), all;
    if (w->reply_stride < need)
        return gw_error(-EINVAL, "reply_stride is %llu, an answer takes %llu bytes",
                        (unsigned long long)w->reply_stride, (unsigned long long)need);
    if (__builtin_mul_overflow(w->reply_stride, (uint64_t)slots_for(p, w), &all) ||
        w->reply_addr > UINT64_MAX - all)
        return gw_error(-EINVAL, "reply_addr and reply_stride go beyond the address space");
    return 0;
}

/* With the lock held: how many of the same kind there are, and whether one of them is about to be free. */
static uint32_t count_kind(const struct gw_session_pool *p, uint32_t own, int *closing)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->opts.sessions; i++) {
        const struct session *s = &p->session[i];
        if (s->life == FREE || s->own != own) continue;
        n++;
        *closing |= s->life == CLOSING;
    }
    return n;
}

/* A free one is OPENING from now on. -EBUSY: there is none. -EAGAIN: some will be free soon. */
static int64_t take_free(struct gw_session_pool *p, uint32_t own)
{
    int closing = 0;
    int64_t found = -EBUSY;
    pthread_mutex_lock(&p->lock);
    uint32_t most = own ? p->opts.kept : p->opts.sessions - p->opts.kept;
    int room = count_kind(p, own, &closing) < most;
    for (uint32_t i = 0; room && found < 0 && i < p->opts.sessions; i++)
        if (p->session[i].life == FREE) found = i;
    if (found >= 0) {
        p->session[found].life = OPENING;
        p->session[found].own = own;
    }
    pthread_mutex_unlock(&p->lock);
    return found < 0 && closing ? -EAGAIN : found;
}

/* The loop has something to look at. Should the call fail: it wakes by itself now and then. */
static void wake(struct gw_session_pool *p)
{
    const uint64_t one = 1;
    if (p->news_fd >= 0 && write(p->news_fd, &one, sizeof(one)) < 0) return;
}

static void cut_off(struct gw_session_pool *p, uint32_t i)
{
    gw_qp_abort(p->session[i].qp);
    tell(p, i, GW_SESSION_CLOSING);
    set_life(p, i, CLOSING);
    wake(p);
}

int gw_session_open(struct gw_session_pool *p, const struct gw_session_wish *wish,
                    struct gw_session_grant *grant)
{
    int error = check_wish(p, wish);
    if (error) return error;
    int64_t found = take_free(p, wish->own);
    if (found < 0)
        return gw_error((int)found, "all %u sessions are taken; start the worker with more --sessions",
                        p->opts.sessions - p->opts.kept);

    uint32_t i = (uint32_t)found;
    struct session *s = &p->session[i];
    struct gw_serve_notice *n = notice(p, i);
    n->slots = slots_for(p, wish);
    n->reply_addr = wish->reply_addr;
    n->reply_stride = wish->reply_stride;
    n->reply_rkey = wish->reply_rkey;
    n->activity = 0;
    /* Before the connection: a request that it brings finds the session open. The loop need not have
     * looked. */
    tell(p, i, GW_SESSION_OPEN);
    gw_qp_endpoint(s->qp, &grant->endpoint);
    struct gw_device_info nic;
    gw_device_query(p->opts.dev, &nic);
    const struct gw_connect_opts with = {.timeout = nic.soft ? GW_SERVE_SOFT_TIMEOUT : 0};
    error = gw_qp_connect(s->qp, &wish->endpoint, &with);
    if (error) {
        cut_off(p, i);
        return error;
    }
    grant->index = i;
    grant->slots = n->slots;
    grant->request_addr = s->in->addr;
    grant->request_stride = p->in_stride;
    grant->request_rkey = s->in->rkey;
    set_life(p, i, OPEN);
    return 0;
}

void gw_session_slot(const struct gw_session_pool *p, uint32_t i, uint32_t slot, uint8_t **in, uint8_t **out)
{
    uint64_t at = (uint64_t)i * p->opts.slots + slot;
    *in = (uint8_t *)p->in.dev + at * p->in_stride + sizeof(struct gw_serve_request);
    *out = (uint8_t *)p->out.dev + at * p->out_stride + sizeof(struct gw_serve_reply);
}

void gw_session_close(struct gw_session_pool *p, uint32_t i)
{
    if (life_of(p, i) == OPEN) cut_off(p, i);
}

/* ---- between two clients ---- */

static uint8_t zeros[COPY]; /* never written */

/* Memory that nobody has written is only read, so that it stays as small as it is. */
static void clear_host(uint8_t *at, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes; done += PAGE) {
        size_t n = bytes - done < PAGE ? bytes - done : PAGE;
        if (memcmp(at + done, zeros, n)) memset(at + done, 0, n);
    }
}

static int clear(struct gw_session_pool *p, const struct gw_mem *m, uint64_t from, uint64_t bytes)
{
    if (m->host) {
        clear_host((uint8_t *)m->host + from, bytes);
        return 0;
    }
    int error = 0;
    for (uint64_t done = 0; !error && done < bytes; done += COPY) {
        size_t n = bytes - done < COPY ? bytes - done : COPY;
        error = gw_copy_in(slot_exec(p), (uint8_t *)m->dev + from + done, zeros, n);
    }
    return error;
}

/* Nothing of the last client is left for the next one: no connection, no key, no byte. The loop has let
 * go of it. */
static int make_anew(struct gw_session_pool *p, uint32_t i)
{
    struct session *s = &p->session[i];
    uint64_t in_bytes = p->opts.slots * p->in_stride, out_bytes = p->opts.slots * p->out_stride;
    int error = gw_qp_reset(s->qp, 0, gw_deadline(RESET_NS));
    if (!error) error = gw_mr_rekey(s->in); /* before the clearing: nobody writes there behind it */
    if (!error) error = clear(p, &p->in, i * in_bytes, in_bytes);
    if (!error) error = clear(p, &p->out, i * out_bytes, out_bytes);
    return error ? error : post_receives(p, i);
}

uint32_t gw_session_pool_tend(struct gw_session_pool *p)
{
    uint32_t left = 0, waiting = 0;
    uint64_t count;
    for (uint32_t i = 0; i < p->opts.sessions; i++) {
        if (life_of(p, i) != CLOSING) continue;
        if (!taken_up(p, i))
            waiting++;
        else if (!make_anew(p, i))
            set_life(p, i, FREE);
        else
            left++;
    }
    /* The loop may sleep again. A session that was cut off since then wakes it a little later. */
    if (!waiting && p->news_fd >= 0 && read(p->news_fd, &count, sizeof(count)) < 0) count = 0;
    return left + waiting;
}

/* ---- what is known of them ---- */

int gw_session_pool_has(const struct gw_session_pool *p, const struct gw_endpoint *ep)
{
    struct gw_endpoint own;
    for (uint32_t i = 0; i < p->opts.sessions; i++) {
        gw_qp_endpoint(p->session[i].qp, &own);
        if (own.qpn == ep->qpn && !memcmp(own.gid, ep->gid, sizeof(own.gid))) return 1;
    }
    return 0;
}

void gw_session_ask(struct gw_session_pool *p, uint32_t i)
{
    gw_add_release_u32(&notice(p, i)->ask, 1);
    gw_add_release_u32(&board(p)->changes, 1); /* after the question: a kernel that sees the count finds it */
}

int gw_session_heard(struct gw_session_pool *p, uint32_t i, uint32_t *activity)
{
    /* Acquire: the activity is read after it. */
    int heard = gw_ld_acquire_u32(&notice(p, i)->heard) == gw_ld_relaxed_u32(&notice(p, i)->ask);
    *activity = gw_ld_relaxed_u32(&notice(p, i)->activity);
    return heard;
}

uint32_t gw_session_pool_open_count(struct gw_session_pool *p)
{
    uint32_t n = 0;
    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < p->opts.sessions; i++) n += p->session[i].life == OPEN && !p->session[i].own;
    pthread_mutex_unlock(&p->lock);
    return n;
}

int gw_session_pool_broken(struct gw_session_pool *p)
{
    /* Acquire: the faults of those that are counted are seen. */
    uint32_t broken = gw_ld_acquire_u32(&board(p)->broken);
    int news = broken != p->heard.broken;
    p->heard.broken = broken;
    return news;
}

uint64_t gw_session_pool_failures(struct gw_session_pool *p)
{
    uint64_t failed = gw_ld_relaxed_u64(&board(p)->total.failures), news = failed - p->heard.failed;
    p->heard.failed = failed;
    return news;
}

int gw_session_failed(struct gw_session_pool *p, uint32_t i, struct gw_fault *fault)
{
    return life_of(p, i) == OPEN && gw_qp_fault(p->session[i].qp, fault) > 0;
}

uint32_t gw_session_pool_size(const struct gw_session_pool *p)
{
    return p->opts.sessions - p->opts.kept;
}

void gw_session_pool_totals(const struct gw_session_pool *p, uint64_t *answered, uint64_t *refused)
{
    const struct gw_serve_counters *t = &board(p)->total;
    *answered = gw_ld_relaxed_u64(&t->successes) + gw_ld_relaxed_u64(&t->failures);
    *refused = gw_ld_relaxed_u64(&t->refused);
}

/* Words that the loop stores whole. */
static void read_words(void *to, const void *from, size_t bytes)
{
    uint64_t *out = to;
    const uint64_t *in = from;
    for (size_t i = 0; i < bytes / sizeof(*in); i++) out[i] = gw_ld_relaxed_u64(&in[i]);
}

void gw_session_pool_counters(const struct gw_session_pool *p, struct gw_serve_counters *total,
                              struct gw_serve_variant_counters variant[GW_SERVE_VARIANTS])
{
    read_words(total, &board(p)->total, sizeof(*total));
    read_words(variant, board(p)->variant, sizeof(board(p)->variant));
}

void gw_session_pool_latency(const struct gw_session_pool *p, uint64_t bucket[GW_SERVE_BUCKETS])
{
    for (uint32_t i = 0; i < GW_SERVE_BUCKETS; i++) bucket[i] = gw_ld_relaxed_u64(&board(p)->latency[i]);
}

void gw_session_pool_closing(struct gw_session_pool *p)
{
    gw_st_relaxed_u32(&board(p)->closing, 1);
    gw_add_release_u32(&board(p)->changes, 1); /* after it: a kernel that sees the count finds it */
    wake(p);
}
