/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/serve_world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/kernel.h>
#include <gpuwire/loop.h>

#include "src/server/device/shared.h"
#include "src/server/worker/session_pool.h"

#define TAG       0xc0000000u
#define QPN(i)    (0x100u + (i))
#define MAX_CQES  256
#define MAX_SENDS 64

/* ---- the NIC ---- */

enum state { RESET, READY, ERROR };

struct gw_qp {
    struct gw_qp_handle handle; /* first: the kernel's name for it */
    enum state state;
    uint32_t index, psn, client; /* client: 0: none */
    /* unflushed: of a queue pair that has failed; their completions come later */
    uint32_t receives, unflushed;
    uint64_t receive_id;
    uint64_t unacknowledged[MAX_SENDS];
    uint32_t sends;
    bool failed;
};

struct key {
    struct gw_mr mr; /* first */
    uint32_t earlier[1024];
    uint32_t count;
};

static struct {
    struct stream *faults;
    struct gw_exec *exec;
    struct gw_session_pool *pool;
    struct gw_serve_args args;
    struct gw_loop_ctl ctl;
    struct gw_qp qp[WORLD_SESSIONS];
    uint32_t qps;
    struct key in[WORLD_SESSIONS], out[WORLD_SESSIONS];
    uint32_t mrs, next_key;
    struct ibv_wc cqe[MAX_CQES];
    uint32_t cqes;
    struct gw_session_wish wish[WORLD_SESSIONS];
    struct gw_session_grant grant[WORLD_SESSIONS];
    uint64_t clock, model_ns;
    int model_fails;
    void (*heard)(uint32_t session, const struct gw_serve_reply *reply, uint32_t imm);
    void (*polled)(void *ctx);
    void *polled_ctx;
} w;

static struct gw_layout layout_of_world(void)
{
    struct gw_layout l = {0};
    require(!gw_layout_add(&l, WORLD_FLOATS * sizeof(float), 1, WORLD_ROWS));
    require(!gw_layout_add(&l, WORLD_MORE_FLOATS * sizeof(float), 1, WORLD_ROWS));
    return l;
}

static bool fails(void)
{
    return w.faults && take8(w.faults) == 0xff;
}

static void complete(const struct ibv_wc *wc)
{
    require(w.cqes < MAX_CQES);
    w.cqe[w.cqes++] = *wc;
}

void gw_device_query(const struct gw_device *dev, struct gw_device_info *info)
{
    (void)dev;
    *info = (struct gw_device_info){.soft = 1};
}
int gw_pd_create(struct gw_device *dev, struct gw_pd **out)
{
    (void)dev;
    *out = (struct gw_pd *)&w;
    return 0;
}
int gw_pd_destroy(struct gw_pd *pd)
{
    (void)pd;
    return 0;
}
int gw_cq_create(struct gw_device *dev, const struct gw_cq_attr *attr, struct gw_cq **out)
{
    (void)dev, (void)attr;
    *out = (struct gw_cq *)&w;
    return 0;
}
int gw_cq_destroy(struct gw_cq *cq)
{
    (void)cq;
    return 0;
}
struct gw_cq_handle *gw_cq_handle(const struct gw_cq *cq)
{
    return (struct gw_cq_handle *)cq;
}

int gw_qp_create(struct gw_pd *pd, const struct gw_qp_attr *attr, struct gw_qp **out)
{
    (void)pd, (void)attr;
    struct gw_qp *qp = &w.qp[w.qps];
    memset(qp, 0, sizeof(*qp));
    qp->index = w.qps++;
    *out = qp;
    return 0;
}
int gw_qp_destroy(struct gw_qp *qp)
{
    (void)qp;
    return 0;
}
struct gw_qp_handle *gw_qp_handle(const struct gw_qp *qp)
{
    return (struct gw_qp_handle *)&qp->handle;
}
void gw_qp_endpoint(const struct gw_qp *qp, struct gw_endpoint *ep)
{
    *ep = (struct gw_endpoint){.gid = {[15] = 99}, .qpn = QPN(qp->index), .psn = qp->psn, .mtu = 1024};
}
int gw_qp_connect(struct gw_qp *qp, const struct gw_endpoint *peer, const struct gw_connect_opts *opts)
{
    (void)opts;
    require(qp->state == RESET &&
            qp->receives == gw_serve_receives(WORLD_SLOTS)); /* a request that follows finds a receive */
    if (fails()) return gw_error(-EINVAL, "connect");
    qp->state = READY;
    qp->client = peer->psn;
    return 0;
}

static void flush_receive(struct gw_qp *qp)
{
    struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV, .wr_id = qp->receive_id};
    if (!qp->unflushed) return;
    qp->unflushed--;
    complete(&wc);
}
static void fail_qp(struct gw_qp *qp)
{
    if (qp->state == READY) qp->unflushed = qp->receives;
    flush_receive(qp);
    qp->receives = qp->sends = 0;
    qp->state = ERROR;
    qp->failed = true;
}
int gw_qp_abort(struct gw_qp *qp)
{
    fail_qp(qp);
    return 0;
}
int gw_qp_reset(struct gw_qp *qp, uint32_t flags, uint64_t deadline_ns)
{
    (void)flags, (void)deadline_ns;
    uint32_t kept = 0;
    if (fails()) return -ETIMEDOUT;
    for (uint32_t i = 0; i < w.cqes; i++)
        if (gw_serve_id_session(w.cqe[i].wr_id) != qp->index) w.cqe[kept++] = w.cqe[i];
    w.cqes = kept;
    qp->state = RESET;
    qp->receives = qp->unflushed = qp->sends = qp->client = 0;
    qp->failed = false;
    qp->psn++;
    return 0;
}
int gw_qp_recv_empty(struct gw_qp *qp, uint32_t n, uint64_t wr_id)
{
    require(qp->state == RESET && !qp->receives && gw_serve_id_session(wr_id) == qp->index);
    if (fails()) return -EAGAIN;
    qp->receives = n;
    qp->receive_id = wr_id;
    return 0;
}
int gw_qp_fault(struct gw_qp *qp, struct gw_fault *fault)
{
    memset(fault, 0, sizeof(*fault));
    fault->status = IBV_WC_RETRY_EXC_ERR;
    return qp->failed;
}

/* Of each session the slots for requests come first, then those for answers. */
int gw_mr_register(struct gw_pd *pd, void *addr, size_t length, uint32_t access, struct gw_mr **out)
{
    (void)pd;
    struct key *k = access & IBV_ACCESS_REMOTE_WRITE ? &w.in[w.mrs] : &w.out[w.mrs];
    k->mr =
        (struct gw_mr){.addr = (uintptr_t)addr, .length = length, .lkey = ++w.next_key, .rkey = w.next_key};
    k->count = 0;
    if (k == &w.out[w.mrs]) w.mrs++;
    *out = &k->mr;
    return 0;
}
int gw_mr_free(struct gw_mr *mr)
{
    (void)mr;
    return 0;
}
int gw_mr_rekey(struct gw_mr *mr)
{
    struct key *k = (struct key *)mr;
    if (fails()) return -ENOMEM;
    if (k->count < 1024) k->earlier[k->count++] = mr->rkey;
    mr->lkey = mr->rkey = ++w.next_key;
    return 0;
}

/* ---- what the kernels call ---- */

/* A kernel on a CPU calls these when the other side may be asleep. Here no thread sleeps, so these are not
 * called. A compiler that does not optimise keeps the calls all the same. */
void gw_cpu_rang_(struct gw_qp *qp)
{
    (void)qp;
    abort();
}
void gw_cpu_nudge_(struct gw_cq *cq)
{
    (void)cq;
    abort();
}
int gw_cpu_sleep_(struct gw_cq *cq, uint64_t deadline_ns, const uint32_t *stop, int stop_fd)
{
    (void)cq, (void)deadline_ns, (void)stop, (void)stop_fd;
    abort();
}

static int fake_poll(struct gw_cq_handle *cq, int n, struct ibv_wc *wc)
{
    (void)cq;
    int took = (uint32_t)n < w.cqes ? n : (int)w.cqes;
    memcpy(wc, w.cqe, (size_t)took * sizeof(*wc));
    memmove(w.cqe, w.cqe + took, (w.cqes - (uint32_t)took) * sizeof(*wc));
    w.cqes -= (uint32_t)took;
    void (*polled)(void *) = took ? w.polled : NULL;
    if (!polled) return took;
    w.polled = NULL;
    polled(w.polled_ctx);
    return took;
}

static int fake_recv(struct gw_qp_handle *h, uint32_t n, uint64_t wr_id)
{
    struct gw_qp *qp = (struct gw_qp *)h;
    /* The host has not taken it back, and it is the same client's as those that the host has posted. */
    require(qp->state != RESET && wr_id == qp->receive_id);
    qp->receives += n;
    require(qp->receives <= gw_serve_receives(WORLD_SLOTS));
    return 0;
}

static int sent(struct gw_qp *qp, uint32_t flags, uint64_t wr_id)
{
    if (qp->state != READY) return 0; /* flushed */
    require((uint32_t)wr_id == (uint32_t)qp->receive_id && qp->sends < MAX_SENDS);
    if (flags & GW_SIGNALED) qp->unacknowledged[qp->sends++] = wr_id;
    return 0;
}

/* An answer must be the session's own, go where its client said, and hold no word of another client's. */
static void check_answer(const struct gw_qp *qp, const struct gw_op *op)
{
    const struct gw_session_wish *wish = &w.wish[qp->index];
    const struct gw_mr *out = &w.out[qp->index].mr;
    const uint32_t *word = (const uint32_t *)(uintptr_t)(op->laddr + sizeof(struct gw_serve_reply));
    uint32_t imm = gw_be32(op->imm);
    require(op->lkey == out->lkey && op->len >= sizeof(struct gw_serve_reply));
    require(op->laddr >= out->addr && op->laddr + op->len <= out->addr + out->length);
    if (qp->state != READY) return;
    require(imm < w.grant[qp->index].slots && op->rkey == wish->reply_rkey);
    require(op->raddr == wish->reply_addr + imm * wish->reply_stride && op->len <= wish->reply_stride);
    for (uint32_t i = 0; i < (op->len - sizeof(struct gw_serve_reply)) / 4; i++)
        require((word[i] & 0xff000000u) != TAG || (word[i] & 0xffff) == qp->client);
    if (w.heard) w.heard(qp->index, (const struct gw_serve_reply *)(uintptr_t)op->laddr, imm);
}

static int fake_post_op(struct gw_qp_handle *h, struct gw_op op, uint32_t flags, uint64_t wr_id)
{
    struct gw_qp *qp = (struct gw_qp *)h;
    require(qp->state != RESET);
    if (op.opcode == GW_MLX5_WRITE_IMM)
        check_answer(qp, &op);
    else
        require(!op.len); /* a question whether the peer is there */
    return sent(qp, flags, wr_id);
}

static uint64_t fake_clock(void)
{
    return w.clock += 10;
}

#define gw_clock_ns           fake_clock
#define gw_poll_cq            fake_poll
#define gw_recv_empty         fake_recv
#define gw_post_op            fake_post_op
#define gw_loop_stopping(ctl) ((void)(ctl), 1) /* the loop never sleeps here */
#include "src/server/device/serve_kernel.h"

/* ---- the world ---- */

struct gw_session_pool *world_begin(struct stream *faults)
{
    memset(&w, 0, sizeof(w));
    w.clock = 1000000000;
    require(!gw_exec_create("cpu", NULL, &w.exec));
    struct gw_session_pool_opts opts = {.exec = w.exec,
                                        .sessions = WORLD_SESSIONS,
                                        .slots = WORLD_SLOTS,
                                        .in = layout_of_world(),
                                        .out = layout_of_world(),
                                        .variant = {{.rows = 1}, {.rows = 2}, {.rows = WORLD_ROWS}},
                                        .variants = 3};
    require(!gw_session_pool_create(&opts, &w.pool));
    require(!gw_session_pool_args(w.pool, &w.ctl, -1, &w.args));
    w.faults = faults;
    return w.pool;
}

struct gw_session_pool *world_begin_tables(struct stream *faults, uint32_t leases)
{
    memset(&w, 0, sizeof(w));
    w.clock = 1000000000;
    require(!gw_exec_create("cpu", NULL, &w.exec));
    struct gw_session_pool_opts opts = {.exec = w.exec,
                                        .sessions = WORLD_SESSIONS,
                                        .slots = WORLD_SLOTS,
                                        .tables = {.models = WORLD_MODELS,
                                                   .variants = WORLD_MODELS * 3,
                                                   .leases = leases,
                                                   .rows = WORLD_ROWS,
                                                   .in_bytes = world_bytes(WORLD_ROWS),
                                                   .out_bytes = world_bytes(WORLD_ROWS)}};
    require(!gw_session_pool_create(&opts, &w.pool));
    require(!gw_session_pool_args(w.pool, &w.ctl, -1, &w.args));
    for (uint32_t m = 0; m < WORLD_MODELS; m++) {
        ((struct gw_serve_shape *)w.args.shape)[m] = (struct gw_serve_shape){.in = layout_of_world(),
                                                                             .out = layout_of_world(),
                                                                             .rows = WORLD_ROWS,
                                                                             .first = 3 * m,
                                                                             .variants = 3};
        for (uint32_t i = 0; i < 3; i++) {
            struct gw_serve_variant *v = &w.args.variant[3 * m + i];
            v->rows = 1u << i;
            gw_session_place_batch(w.pool, &w.args.shape[m].in, &w.args.shape[m].out, v);
        }
    }
    w.faults = faults;
    return w.pool;
}

void world_order(const struct gw_serve_order *o)
{
    struct gw_serve_board *b = w.args.board;
    if (b->orders - b->taken == w.args.orders) return; /* the host tries again later */
    ((struct gw_serve_order *)w.args.order)[b->orders & (w.args.orders - 1)] = *o;
    b->orders++;
}

uint32_t world_seen(uint32_t model)
{
    return w.args.model_board[model].seen;
}

uint32_t world_in_flight(uint32_t lease)
{
    return w.args.lease[lease].in_flight;
}

void world_beside(void)
{
    gw_serve_drain(&w.args);
    gw_serve_refuse_early(&w.args);
}

uint64_t world_clock(void)
{
    return w.clock;
}

void world_end(void)
{
    gw_session_pool_destroy(w.pool);
    gw_exec_destroy(w.exec);
}

void world_endpoint(uint32_t client, struct gw_endpoint *ep)
{
    *ep = (struct gw_endpoint){.gid = {[15] = 1}, .qpn = 2, .psn = client, .mtu = 1024};
}

static bool is_zero(const struct gw_mr *mr)
{
    const uint8_t *p = (const uint8_t *)(uintptr_t)mr->addr;
    for (uint64_t i = 0; i < mr->length; i++)
        if (p[i]) return false;
    return true;
}

void world_granted(uint32_t client, const struct gw_session_wish *wish, const struct gw_session_grant *grant)
{
    uint32_t i = grant->index;
    require(i < WORLD_SESSIONS && w.qp[i].state == READY && w.qp[i].client == client);
    require(grant->slots && grant->slots <= WORLD_SLOTS && (!wish->slots || grant->slots <= wish->slots));
    require(grant->request_rkey == w.in[i].mr.rkey && is_zero(&w.in[i].mr) && is_zero(&w.out[i].mr));
    for (uint32_t k = 0; k < w.in[i].count; k++) require(grant->request_rkey != w.in[i].earlier[k]);
    w.wish[i] = *wish;
    w.grant[i] = *grant;
}

uint64_t world_address(uint32_t session)
{
    return w.in[session].mr.addr;
}
uint32_t world_key(uint32_t session)
{
    return w.in[session].mr.rkey;
}

static void write_message(uint32_t client, const struct world_message *m)
{
    uint8_t bytes[4096];
    const uint32_t tag = TAG | (uint32_t)m->seed << 16 | client;
    for (uint32_t i = 0; i + 4 <= sizeof(bytes); i += 4) memcpy(bytes + i, &tag, 4);
    memcpy(bytes, &m->header, sizeof(m->header));
    memcpy((void *)(uintptr_t)m->addr, bytes, m->bytes);
}

void world_send(uint32_t client, uint32_t session, const struct world_message *m)
{
    struct gw_qp *qp = &w.qp[session];
    const struct gw_mr *in = &w.in[session].mr;
    if (qp->state != READY || qp->client != client) return; /* it is not read there */
    bool fits = m->rkey == in->rkey && m->addr >= in->addr && m->addr <= in->addr + in->length &&
                m->bytes <= in->addr + in->length - m->addr && m->bytes <= 4096;
    if (m->bytes && !fits) {
        fail_qp(qp);
        return;
    }
    if (m->with_imm && !qp->receives) return; /* it waits, or gives up */
    if (m->bytes) write_message(client, m);
    if (!m->with_imm) return;
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS,
                        .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                        .wr_id = qp->receive_id,
                        .byte_len = m->bytes,
                        .wc_flags = IBV_WC_WITH_IMM,
                        .imm_data = gw_be32(m->imm)};
    qp->receives--;
    complete(&wc);
}

void world_flush(uint32_t session)
{
    flush_receive(&w.qp[session]);
}
void world_after_poll(void (*then)(void *ctx), void *ctx)
{
    w.polled = then;
    w.polled_ctx = ctx;
}

void world_acknowledge(uint32_t session)
{
    struct gw_qp *qp = &w.qp[session];
    for (uint32_t i = 0; i < qp->sends; i++) {
        struct ibv_wc wc = {
            .status = IBV_WC_SUCCESS, .opcode = IBV_WC_RDMA_WRITE, .wr_id = qp->unacknowledged[i]};
        complete(&wc);
    }
    qp->sends = 0;
}

/* Does the address lie in the slot of the request? */
static bool in_slot(const struct gw_mr *mr, uint64_t stride, const struct gw_serve_item *item, const void *p)
{
    uint64_t at = (uintptr_t)p - mr->addr;
    return at / stride == item->slot && at % stride >= sizeof(struct gw_serve_request);
}

/* The model copies its inputs. It must be given the slot of the only request, or none. */
static void run_model(void)
{
    const struct gw_serve_work *work = w.args.work;
    const struct gw_serve_item *item = w.args.item;
    uint32_t rows = w.args.variant[work->variant].rows;
    require(work->items && work->items <= work->rows && work->rows <= rows && rows <= WORLD_ROWS);
    require(!work->direct || work->items == 1);
    for (uint32_t i = 0; i < 2; i++) {
        const void *in = w.args.io->in[i];
        void *out = w.args.io->out[i];
        require(work->direct == in_slot(&w.in[item->session].mr, w.args.in_stride, item, in));
        require(work->direct == in_slot(&w.out[item->session].mr, w.args.out_stride, item, out));
        memcpy(out, in, gw_layout_tensor_bytes(&w.args.shape->in, i, rows));
    }
    w.clock += w.model_ns;
    w.args.work->failed = w.model_fails;
}

/* The batch's requests lie one after the other, and the batch size is no larger than need be. */
static void check_batch(void)
{
    const struct gw_serve_work *work = w.args.work;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < work->items; i++) {
        const struct gw_serve_item *item = &w.args.item[i];
        require(item->session < WORLD_SESSIONS && item->slot < WORLD_SLOTS && item->rows && item->at == rows);
        rows += item->rows;
    }
    require(rows == work->rows && w.ctl.picked == work->variant + 1);
    require(work->variant == w.args.shape[work->model].first ||
            w.args.variant[work->variant - 1].rows < rows);
}

void world_turn(void (*meanwhile)(void *ctx), void *ctx)
{
    w.ctl.picked = 0;
    gw_serve_wait.cpu(&w.args);
    require(w.args.work->waiting + w.args.work->parked <= WORLD_SESSIONS * gw_serve_receives(WORLD_SLOTS));
    require((w.ctl.picked != 0) == (w.args.work->items != 0));
    if (!w.ctl.picked) return;
    check_batch();
    gw_serve_gather.cpu(&w.args);
    run_model();
    if (meanwhile) meanwhile(ctx);
    gw_serve_scatter.cpu(&w.args);
    gw_serve_send.cpu(&w.args);
}

/* ---- what tests and fuzzers turn ---- */

uint64_t world_bytes(uint32_t rows)
{
    struct gw_layout l = layout_of_world();
    return gw_layout_bytes(&l, rows);
}
uint64_t world_stride(void)
{
    return w.args.in_stride;
}
void world_pass(uint64_t ns)
{
    w.clock += ns;
}
void world_model(uint64_t delay_ns, uint64_t takes_ns, int fails)
{
    ((struct gw_serve_shape *)w.args.shape)->delay_ns = delay_ns;
    w.model_ns = takes_ns;
    w.model_fails = fails;
}
void world_listen(void (*heard)(uint32_t session, const struct gw_serve_reply *reply, uint32_t imm))
{
    w.heard = heard;
}

bool world_is_echo(const struct gw_serve_reply *reply, uint32_t rows, uint32_t client, uint8_t seed)
{
    struct gw_layout l = layout_of_world();
    const uint32_t tag = TAG | (uint32_t)seed << 16 | client;
    if (reply->bytes != gw_layout_bytes(&l, rows)) return false;
    for (uint32_t i = 0; i < l.tensors; i++) {
        const uint8_t *p = (const uint8_t *)(reply + 1) + gw_layout_offset(&l, i, rows);
        for (uint64_t k = 0; k < gw_layout_tensor_bytes(&l, i, rows); k += 4)
            if (memcmp(p + k, &tag, 4)) return false;
    }
    return true;
}
