/* SPDX-License-Identifier: Apache-2.0 */
/* The world of the scheduler's tests: its NIC, its clock, its network. */
#include "tests/generate/device/world.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/exec.h>

#define MAX_CQES 65536u
#define SLOT_KEY 77u

/* An event that was posted and not yet delivered: the NIC reads it when it delivers it. */
struct sent {
    struct gw_op op;
    uint64_t id;
    bool signalled;
};

enum qp_state { RESET, READY, ERROR };

struct client {
    struct gw_qp_handle qp; /* first: the kernel's name for it */
    enum qp_state state;
    uint32_t index, receives;
    uint32_t word, opened; /* the latest; the latest that opened it */
    bool stalled, left;
    uint32_t rung; /* of `sends`, the first ones */
    uint8_t *in;
    struct gen_event *out, *ring; /* the kernel's; the client's */
    struct sent *sent;
    uint32_t sends, first_sent;
    uint32_t *arrived, first_arrived, arrivals; /* slots of events that the client has not looked at */
};

static struct {
    struct world_opts o;
    struct gw_exec *exec;
    struct gen_args args;
    struct gw_loop_ctl ctl;
    struct gw_loop_shared shared;
    struct client *client;
    struct ibv_wc *cqe;
    uint32_t cqes;
    pthread_mutex_t lock; /* cqe: threads of a block post at once */
    uint64_t clock;
    uint64_t *cache; /* [pages][GEN_PAGE] */
    void *host, *dev;
    bool fails;
    double seconds[2];
} w;

void world_require(bool is, const char *what, int line)
{
    if (is) return;
    fprintf(stderr, "world: line %d: not so: %s\n", line, what);
    abort();
}

/* ---- the NIC ---- */

static void complete(struct ibv_wc wc)
{
    pthread_mutex_lock(&w.lock);
    require(w.cqes < MAX_CQES);
    w.cqe[w.cqes++] = wc;
    pthread_mutex_unlock(&w.lock);
}

static void deliver(struct client *c)
{
    while (c->rung && !c->stalled && c->state == READY) {
        struct sent *s = &c->sent[c->first_sent % w.o.shape.depth];
        uint32_t slot = gw_be32(s->op.imm);
        if (s->op.len && !c->left) {
            memcpy((void *)(uintptr_t)s->op.raddr, (const void *)(uintptr_t)s->op.laddr, s->op.len);
            require(c->arrivals < w.o.shape.slots * w.o.ring);
            c->arrived[(c->first_arrived + c->arrivals++) % (w.o.shape.slots * w.o.ring)] = slot;
        }
        if (s->signalled)
            complete((struct ibv_wc){.status = IBV_WC_SUCCESS, .opcode = IBV_WC_RDMA_WRITE, .wr_id = s->id});
        c->first_sent++;
        c->sends--;
        c->rung--;
    }
}

static int fake_poll(struct gw_cq_handle *cq, int n, struct ibv_wc *wc)
{
    (void)cq;
    int took = (uint32_t)n < w.cqes ? n : (int)w.cqes;
    memcpy(wc, w.cqe, (size_t)took * sizeof(*wc));
    memmove(w.cqe, w.cqe + took, (w.cqes - (uint32_t)took) * sizeof(*wc));
    w.cqes -= (uint32_t)took;
    return took;
}

/* Nothing can come while a kernel waits: the turn ends. */
static int fake_wait(struct gw_cq_handle *cq, int n, struct ibv_wc *wc, uint64_t deadline,
                     const uint32_t *stop, int fd)
{
    (void)stop, (void)fd;
    int took = fake_poll(cq, n, wc);
    if (took) return took;
    if (deadline > w.clock) w.clock = deadline;
    w.shared.stop = 1;
    return -ETIMEDOUT;
}

static int fake_recv(struct gw_qp_handle *h, uint32_t n, uint64_t id)
{
    struct client *c = (struct client *)h;
    require(c->state != RESET && id == gen_id(c->index, c->opened, 0));
    c->receives += n;
    require(c->receives <= gen_receives(w.o.shape.slots));
    return 0;
}

static int fake_post(struct gw_qp_handle *h, struct gw_op op, uint32_t flags, uint64_t id)
{
    struct client *c = (struct client *)h;
    uint64_t at = (uintptr_t)c->out, bytes = w.o.shape.depth * sizeof(struct gen_event);
    require(c->state != RESET && gen_id_is(id, c->opened) && op.lkey == SLOT_KEY + c->index);
    if (c->state == ERROR) return -EIO;
    require(c->sends < w.o.shape.depth);
    require(op.laddr >= at && op.laddr + op.len <= at + bytes && op.len <= sizeof(struct gen_event));
    at = (uintptr_t)c->ring;
    bytes = (uint64_t)w.o.shape.slots * w.o.ring * sizeof(struct gen_event);
    require(op.raddr >= at && op.raddr + op.len <= at + bytes && op.rkey == c->index);
    c->sent[(c->first_sent + c->sends++) % w.o.shape.depth] =
        (struct sent){.op = op, .id = id, .signalled = flags & GW_SIGNALED};
    if (!(flags & GW_DEFER)) c->rung = c->sends;
    return 0;
}

static void fake_ring(struct gw_qp_handle *h)
{
    struct client *c = (struct client *)h;
    c->rung = c->sends;
}

static uint64_t fake_clock(void)
{
    return __atomic_add_fetch(&w.clock, 10, __ATOMIC_RELAXED);
}

#define gw_clock_ns   fake_clock
#define gw_poll_cq    fake_poll
#define gw_wait_cq    fake_wait
#define gw_recv_empty fake_recv
#define gw_post_op    fake_post
#define gw_ring       fake_ring
#include "src/generate/device/turn_kernel.h"

/* ---- sessions ---- */

static void reset(struct client *c)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w.cqes; i++)
        if (gen_id_session(w.cqe[i].wr_id) != c->index) w.cqe[kept++] = w.cqe[i];
    w.cqes = kept;
    c->state = RESET;
    c->receives = c->sends = c->rung = c->arrivals = 0;
    c->stalled = c->left = false;
}

/* Gives the session its next word. */
static void tell(struct client *c, enum gen_session_state state)
{
    c->word = (c->word & ~3u) + 4 + state;
    gw_st_release_u32(&w.args.notice[c->index].word, c->word); /* release: the notice comes before it */
    require(
        gen_device_tell(w.args.board, (uint32_t *)(uintptr_t)w.args.change, w.args.change_mask, c->index));
}

bool world_open(uint32_t session)
{
    struct client *c = &w.client[session];
    struct gen_notice *n = &w.args.notice[session];
    if (n->seen != n->word || (n->word & 3) == GEN_SESSION_OPEN) return false;
    reset(c);
    n->slots = w.o.shape.slots;
    n->ring = w.o.ring;
    n->event_rkey = session;
    n->event_addr = (uintptr_t)c->ring;
    n->event_stride = w.o.ring * sizeof(struct gen_event);
    memset(c->ring, 0xee, w.o.shape.slots * n->event_stride);
    memset(c->in, 0, w.o.shape.slots * w.args.in_stride);
    c->state = READY;
    c->receives = gen_receives(w.o.shape.slots);
    tell(c, GEN_SESSION_OPEN);
    c->opened = c->word;
    return true;
}

bool world_close(uint32_t session)
{
    const struct gen_notice *n = &w.args.notice[session];
    if (n->seen != n->word || (n->word & 3) != GEN_SESSION_OPEN) return false;
    w.client[session].left = true;
    w.client[session].arrivals = 0;
    tell(&w.client[session], GEN_SESSION_CLOSING);
    return true;
}

bool world_is_open(uint32_t session)
{
    return (w.args.notice[session].word & 3) == GEN_SESSION_OPEN && w.client[session].state == READY;
}

void world_die(uint32_t session)
{
    struct client *c = &w.client[session];
    if (c->state != READY) return;
    c->state = ERROR;
    for (; c->receives; c->receives--)
        complete((struct ibv_wc){
            .status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV, .wr_id = gen_id(session, c->opened, 0)});
    c->sends = c->rung = c->arrivals = 0;
}

void world_stall(uint32_t session, bool on)
{
    w.client[session].stalled = on;
}

/* ---- requests ---- */

struct gen_request world_request(uint64_t id, uint32_t prompt, uint32_t max_tokens)
{
    return (struct gen_request){.magic = GEN_MAGIC,
                                .version = GEN_VERSION,
                                .id = id,
                                .prompt = prompt,
                                .max_tokens = max_tokens,
                                .top_p = 1,
                                .repetition = 1};
}

bool world_ask_raw(uint32_t session, uint32_t slot, uint32_t imm, const void *bytes, uint32_t n)
{
    struct client *c = &w.client[session];
    if (c->state != READY || !c->receives) return false;
    memcpy(c->in + slot * w.args.in_stride, bytes, n);
    c->receives--;
    complete((struct ibv_wc){.status = IBV_WC_SUCCESS,
                             .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                             .wr_id = gen_id(session, c->opened, 0),
                             .byte_len = n,
                             .wc_flags = IBV_WC_WITH_IMM,
                             .imm_data = gw_be32(imm)});
    return true;
}

bool world_ask(uint32_t session, uint32_t slot, struct gen_request *q, const uint32_t *prompt,
               const uint32_t *stop, const struct gen_top *bias)
{
    uint32_t n = sizeof(*q) + 4 * (q->prompt + q->stops) + 8 * q->biases;
    uint8_t *bytes = malloc(n);
    q->slot = (uint16_t)slot;
    memcpy(bytes, q, sizeof(*q));
    memcpy(bytes + sizeof(*q), prompt, 4 * q->prompt);
    if (q->stops) memcpy(bytes + sizeof(*q) + 4 * q->prompt, stop, 4 * q->stops);
    if (q->biases) memcpy(bytes + sizeof(*q) + 4 * (q->prompt + q->stops), bias, 8 * q->biases);
    bool went = world_ask_raw(session, slot, slot, bytes, n);
    free(bytes);
    return went;
}

void world_cancel(uint32_t session, uint32_t slot, uint64_t id)
{
    uint8_t *at = w.client[session].in + slot * w.args.in_stride;
    memcpy(at + offsetof(struct gen_request, taken), &id, sizeof(id));
}

bool world_event(uint32_t session, uint32_t *slot, const struct gen_event **ring)
{
    struct client *c = &w.client[session];
    if (!c->arrivals) return false;
    *slot = c->arrived[c->first_arrived % (w.o.shape.slots * w.o.ring)];
    c->first_arrived = (c->first_arrived + 1) % (w.o.shape.slots * w.o.ring);
    c->arrivals--;
    *ring = c->ring + *slot * w.o.ring;
    return true;
}

/* ---- the network ---- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 31;
}

static uint64_t entry(uint32_t token, uint32_t position)
{
    return mix(token + 1, position + 1);
}

static void logits_of(uint64_t h, float *logit)
{
    for (uint32_t t = 0; t < w.o.shape.vocab; t++) logit[t] = (float)(mix(h, t) >> 44) / (1 << 18);
    logit[mix(h, 7) % w.o.shape.vocab] += 6;
}

void world_logits(const uint32_t *token, uint32_t n, float *logit)
{
    uint64_t h = 0;
    for (uint32_t i = 0; i < n; i++) h = mix(h, entry(token[i], i));
    logits_of(h, logit);
}

uint32_t world_next(const uint32_t *token, uint32_t n)
{
    float *logit = malloc(w.o.shape.vocab * sizeof(*logit));
    uint32_t best = 0;
    world_logits(token, n, logit);
    for (uint32_t t = 1; t < w.o.shape.vocab; t++)
        if (logit[t] > logit[best]) best = t;
    free(logit);
    return best;
}

static uint64_t *cache_at(uint32_t lane, uint32_t position)
{
    const struct gen_step *s = w.args.step;
    uint32_t page = s->page[(uint64_t)lane * s->lane_pages + position / GEN_PAGE];
    require(lane < s->lanes && position / GEN_PAGE < s->lane_pages && page < w.o.shape.pages);
    return &w.cache[page * GEN_PAGE + position % GEN_PAGE];
}

/* The rows are those of the runs, and the size is no larger than need be. */
static void check_step(void)
{
    const struct gen_step *s = w.args.step;
    uint32_t rows = 0, size = 0;
    for (uint32_t i = 0; i < s->runs; i++) {
        const struct gen_run *run = &s->run[i];
        require(run->row == rows && run->rows);
        for (uint32_t k = 0; k < run->rows; k++, rows++)
            require(s->lane[rows] == run->lane && s->position[rows] == run->position + k);
    }
    require(rows == s->rows && s->rows <= s->size && s->size <= s->max_rows && s->outs <= s->lanes);
    while (w.args.size[size] != s->size) require(w.args.size[size++] < rows);
    require(w.ctl.picked == (w.args.picks ? size + 1 : 0));
    for (; rows < s->size; rows++) require(s->lane[rows] == GEN_NO_LANE);
    for (uint32_t i = 0; i < s->outs; i++) require(s->out[i] < s->rows && (!i || s->out[i] > s->out[i - 1]));
}

static void compute(void)
{
    struct gen_step *s = w.args.step;
    check_step();
    s->failed = w.fails ? EIO : 0;
    w.fails = false;
    for (uint32_t r = 0; r < s->rows; r++) {
        require(s->token[r] < w.o.shape.vocab);
        *cache_at(s->lane[r], s->position[r]) = entry(s->token[r], s->position[r]);
    }
    for (uint32_t i = 0; i < s->outs; i++) {
        uint32_t r = s->out[i];
        uint64_t h = 0;
        for (uint32_t p = 0; p <= s->position[r]; p++) h = mix(h, *cache_at(s->lane[r], p));
        logits_of(h, w.args.logits + (uint64_t)i * w.args.logit_stride);
    }
}

/* ---- the world ---- */

static void launch(const struct gw_kernel *kernel, uint32_t grid)
{
    struct timespec from, to;
    if (!w.o.block) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        kernel->cpu(&w.args);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
        w.seconds[kernel == &gen_sampling] +=
            (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
        return;
    }
    require(!gw_launch(w.exec, kernel, grid, w.o.block, &w.args) && !gw_exec_sync(w.exec, GW_NEVER));
}

uint32_t world_turn_unchecked(void)
{
    for (uint32_t i = 0; i < w.o.shape.sessions; i++) deliver(&w.client[i]);
    w.ctl.picked = 0;
    w.shared.stop = 0;
    launch(&gen_turn, 1);
    uint32_t rows = w.args.step->rows;
    if (!rows) return 0;
    compute();
    w.clock += 1000 + 100 * rows;
    launch(&gen_sampling, w.o.shape.lanes);
    return rows;
}

uint32_t world_turn(void)
{
    uint32_t rows = world_turn_unchecked();
    const char *what = gen_sound(&w.args);
    if (what) fprintf(stderr, "world: %s\n", what);
    require(!what);
    return rows;
}

static void begin_client(uint32_t i)
{
    struct client *c = &w.client[i];
    const struct gen_device_shape *s = &w.o.shape;
    c->index = i;
    c->in = calloc(s->slots, w.args.in_stride);
    c->out = calloc(s->depth, sizeof(struct gen_event));
    c->ring = calloc(s->slots * w.o.ring, sizeof(struct gen_event));
    c->sent = calloc(s->depth, sizeof(struct sent));
    c->arrived = calloc(s->slots * w.o.ring, sizeof(uint32_t));
    struct gen_session *own = &w.args.session[i];
    own->qp = &c->qp;
    own->in = c->in;
    own->out = c->out;
    own->out_addr = (uintptr_t)c->out;
    own->out_lkey = SLOT_KEY + i;
}

void world_begin(const struct world_opts *o)
{
    struct gen_device_bytes bytes;
    struct gen_step step;
    struct gw_exec_opts opts = {.lanes = o->block, .blocks = 2};
    memset(&w, 0, sizeof(w));
    w.o = *o;
    w.clock = 1000000000;
    pthread_mutex_init(&w.lock, NULL);
    require(!gw_exec_create("cpu", &opts, &w.exec) && !gen_device_bytes(&o->shape, &bytes));
    w.host = aligned_alloc(64, bytes.host);
    w.dev = aligned_alloc(64, bytes.dev);
    memset(w.host, 0, bytes.host);
    memset(w.dev, 0, bytes.dev);
    gen_device_place(&o->shape, w.host, w.dev, &w.args, &step);
    *w.args.step = step;
    w.args.ctl = &w.ctl;
    w.ctl.shared = &w.shared;
    w.args.wake_fd = 0; /* it is only compared */
    w.args.logits = calloc(o->shape.lanes, o->shape.vocab * sizeof(float));
    w.cache = calloc(o->shape.pages, GEN_PAGE * sizeof(*w.cache));
    w.cqe = calloc(MAX_CQES, sizeof(*w.cqe));
    w.client = aligned_alloc(GW_HANDLE_BYTES, o->shape.sessions * sizeof(*w.client));
    memset(w.client, 0, o->shape.sessions * sizeof(*w.client));
    for (uint32_t i = 0; i < o->shape.sessions; i++) begin_client(i);
}

void world_end(void)
{
    for (uint32_t i = 0; i < w.o.shape.sessions; i++) {
        struct client *c = &w.client[i];
        free(c->in);
        free(c->out);
        free(c->ring);
        free(c->sent);
        free(c->arrived);
    }
    free(w.client);
    free(w.cqe);
    free(w.cache);
    free(w.args.logits);
    free(w.host);
    free(w.dev);
    gw_exec_destroy(w.exec);
}

struct gen_args *world_args(void)
{
    return &w.args;
}
void world_pass(uint64_t ns)
{
    w.clock += ns;
}
void world_times(double seconds[2])
{
    memcpy(seconds, w.seconds, sizeof(w.seconds));
}
void world_fail(void)
{
    w.fails = true;
}
