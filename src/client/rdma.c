/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers over RDMA: one write each way (src/server/wire/wire.h). */
#include "src/client/rdma.h"

#include <errno.h>
#include <string.h>

#include <gpuwire/exec.h>

#include "src/server/wire/wire.h"

#define SEND_ROOM_NS 1000000000u
#define LAST_WORD_NS 50000000u
#define MAX_PIECES   (2 * GW_CLIENT_MAX_IO)

/* ---- requests ---- */

/* The pieces of a message, in order; neighbours in memory become one. */
struct pieces {
    struct ibv_sge sge[MAX_PIECES];
    uint32_t n;
};

static void client_rdma_append(struct pieces *p, uint64_t addr, uint64_t bytes, uint32_t lkey)
{
    struct ibv_sge *last = p->n ? &p->sge[p->n - 1] : NULL;
    if (!bytes) return;
    if (last && last->lkey == lkey && last->addr + last->length == addr)
        last->length += (uint32_t)bytes;
    else
        p->sge[p->n++] = (struct ibv_sge){.addr = addr, .length = (uint32_t)bytes, .lkey = lkey};
}

/* Header, tensors from where they lie, and between them what the slot has at the same place. */
static void client_rdma_gather(const struct gw_client *c, uint32_t slot, uint32_t rows,
                               const struct gw_client_from *from, struct pieces *p)
{
    const struct gw_client_session *s = c->own;
    uint64_t at = s->in_mr->addr + slot * c->in_stride, end = 0;
    p->n = 0;
    client_rdma_append(p, at, sizeof(struct gw_serve_request), s->in_mr->lkey);
    at += sizeof(struct gw_serve_request);
    for (uint32_t i = 0; i < c->model.inputs; i++) {
        uint64_t begin = gw_layout_offset(&c->in_layout, i, rows);
        uint64_t bytes = gw_layout_tensor_bytes(&c->in_layout, i, rows);
        client_rdma_append(p, at + end, begin - end, s->in_mr->lkey);
        if (from->region[i] < 0) {
            client_rdma_append(p, at + begin, bytes, s->in_mr->lkey);
        } else {
            const struct gw_client_region *r = &c->region[from->region[i]];
            const struct gw_mr *mr = r->key;
            client_rdma_append(p, mr->addr + (uint64_t)(from->at[i] - r->addr), bytes, mr->lkey);
        }
        end = begin + bytes;
    }
}

/* The send queue holds twice as many requests as there are slots, and an answer mostly comes after its
 * request's acknowledgement. So there nearly always is room. Otherwise there is when acknowledgements have
 * come. */
static int client_rdma_post(struct gw_client *c, uint32_t slot, struct pieces *p)
{
    struct gw_client_session *s = c->own;
    uint64_t end = gw_deadline(SEND_ROOM_NS);
    struct ibv_wc wc;
    struct ibv_send_wr *bad, wr = {.wr_id = slot,
                                   .sg_list = p->sge,
                                   .num_sge = (int)p->n,
                                   .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                                   .send_flags = ++s->submitted % c->slots == 0 ? IBV_SEND_SIGNALED : 0,
                                   .imm_data = htobe32(slot),
                                   .wr.rdma = {.remote_addr = s->request_addr + slot * s->request_stride,
                                               .rkey = s->request_rkey}};
    for (;;) {
        while (gw_poll_cq(gw_cq_handle(s->send_cq), 1, &wc) > 0)
            if (wc.status != IBV_WC_SUCCESS) return gw_session_broken(c, -EIO);
        int err = -gw_post_send(gw_qp_handle(s->qp), &wr, &bad);
        if (!err) return 0;
        if (err != -ENOMEM) return gw_session_broken(c, err);
        err = gw_cq_wait(s->send_cq, end, NULL, -1);
        if (err == -ETIMEDOUT)
            return gw_error(-ETIMEDOUT, "the worker's NIC has acknowledged none of the last %u requests",
                            2 * c->slots);
        if (err < 0) return gw_session_broken(c, err);
    }
}

static int client_rdma_submit(struct gw_client *c, uint32_t slot, const struct gw_client_request *r,
                              const struct gw_client_from *from)
{
    struct gw_client_session *s = c->own;
    struct pieces p;
    int err = gw_session_keep(c);
    if (err) return err;
    client_rdma_gather(c, slot, r->rows, from, &p);
    if (p.n > s->pieces)
        return gw_error(-ENOTSUP, "a request of %u pieces, and at most %u can be sent: use the slot's inputs",
                        p.n, s->pieces);
    *(struct gw_serve_request *)gw_client_slot_at(c, slot) =
        (struct gw_serve_request){.magic = GW_SERVE_MAGIC,
                                  .version = GW_SERVE_VERSION,
                                  .slot = (uint16_t)slot,
                                  .id = r->id,
                                  .bytes = gw_layout_bytes(&c->in_layout, r->rows),
                                  .rows = r->rows,
                                  .priority = r->priority,
                                  .budget_ns = r->budget_ns};
    c->slot[slot].sent = s->used = gw_deadline(0); /* keeping the session may have taken long */
    s->has_requested = 1;
    if (!c->in_flight) s->heard = s->used;
    return client_rdma_post(c, slot, &p);
}

/* ---- answers ---- */

/* From a to b. A server may write any numbers; sums of a few of these do not overflow. */
static int64_t client_rdma_between(uint64_t a, uint64_t b)
{
    const int64_t most = INT64_MAX / 16;
    int64_t d = (int64_t)(b - a);
    return d > most ? most : d < -most ? -most : d;
}

/* Splits the time between submit and answer. Every difference of two stamps of one clock is exact. The
 * network lies between the two clocks, and the clocks' offset tells its two directions apart. */
static void client_rdma_split(struct gw_client_session *s, const struct gw_serve_reply *r, uint64_t sent,
                              uint64_t seen, struct gw_client_times *t)
{
    int64_t inside = client_rdma_between(r->arrived, r->posted),
            network = client_rdma_between(sent, seen) - inside;
    int64_t first = client_rdma_between(sent, r->arrived), last = client_rdma_between(r->posted, seen);
    if (!s->same_clock && network < s->least_network) {
        s->least_network = network;
        s->clock_offset = (first - last) / 2;
    }
    /* The time that posting took is known of the answer before. It cannot have been longer than the time that
     * is left here. */
    int64_t out = last + s->clock_offset, post = client_rdma_between(0, r->last_post_ns);
    if (post > out) post = out > 0 ? out : 0;
    t->total = (int64_t)(seen - sent);
    t->net_in = first - s->clock_offset;
    t->wait = client_rdma_between(r->arrived, r->started);
    t->model = client_rdma_between(r->started, r->done);
    t->post = client_rdma_between(r->done, r->posted) + post;
    t->net_out = out - post;
}

static int client_rdma_error_of(uint32_t status, const char **why)
{
    *why = "";
    switch (status) {
    case GW_SERVE_OK: return 0;
    case GW_SERVE_BAD_REQUEST:
        *why = "the server refused the request: it is not what the session agreed on";
        return -EINVAL;
    case GW_SERVE_LATE: *why = "refused: the answer would have come after its deadline"; return -ETIME;
    case GW_SERVE_RECALLED: *why = "it was taken back"; return -ECANCELED;
    case GW_SERVE_CLOSING: *why = "the model is being stopped or replaced"; return -ESHUTDOWN;
    case GW_SERVE_NO_LEASE:
        *why = "refused: its lease has ended, or is another client's";
        return -EKEYEXPIRED;
    case GW_SERVE_OVER_BUDGET: *why = "refused: it is more than its lease allows"; return -EDQUOT;
    case GW_SERVE_NOT_THERE: *why = "refused: the model is not on that GPU now"; return -EAGAIN;
    default: *why = "the model failed; the server's log says why"; return -EREMOTEIO;
    }
}

static void client_rdma_take_outputs(const struct gw_client *c, uint32_t rows, const uint8_t *data,
                                     struct gw_client_reply *reply)
{
    const struct gw_client_session *s = c->own;
    reply->outputs = c->model.outputs;
    for (uint32_t i = 0; i < reply->outputs; i++)
        gw_client_output_fill(&c->model.output[i], rows, data + gw_layout_offset(&s->out_layout, i, rows),
                              &reply->out[i]);
}

static int client_rdma_take_answer(struct gw_client *c, const struct ibv_wc *wc,
                                   struct gw_client_reply *reply)
{
    struct gw_client_session *s = c->own;
    uint64_t seen = gw_deadline(0);
    uint32_t slot = gw_wc_imm(wc);
    if (!(wc->wc_flags & IBV_WC_WITH_IMM) || slot >= c->slots || !c->slot[slot].sent)
        return gw_error(-EPROTO, "the worker answered in slot %u, where nothing was asked", slot);
    const uint8_t *at = (const uint8_t *)s->out.host + slot * s->out_stride;
    const struct gw_serve_reply *r = (const struct gw_serve_reply *)at;
    uint32_t rows = c->slot[slot].rows;
    uint64_t bytes = gw_layout_bytes(&s->out_layout, rows);
    if (gw_recv_empty(gw_qp_handle(s->qp), 1, 0)) return gw_session_broken(c, -EIO);
    if (r->magic != GW_SERVE_MAGIC || r->version != GW_SERVE_VERSION || r->id != c->slot[slot].id)
        return gw_error(-EPROTO, "the worker's answer in slot %u is not one that gpuwire gives", slot);
    memset(reply, 0, sizeof(*reply));
    reply->slot = slot;
    reply->id = r->id;
    reply->rows = rows;
    reply->batch = r->batch;
    reply->error = client_rdma_error_of(r->status, &reply->why);
    if (!reply->error && (r->bytes != bytes || wc->byte_len != sizeof(*r) + bytes))
        return gw_error(-EPROTO, "the worker's answer in slot %u has the wrong length", slot);
    if (!reply->error) client_rdma_take_outputs(c, rows, at + sizeof(*r), reply);
    client_rdma_split(s, r, c->slot[slot].sent, seen, &reply->times);
    s->used = s->heard = seen;
    return 0;
}

/* A process that dies answers nothing more, and its NIC does not report that. But its connections end. What
 * it has sent before may still be on the way. 0: nothing until the deadline. */
static int wait_once(struct gw_client *c, uint64_t deadline_ns, struct ibv_wc *wc)
{
    struct gw_client_session *s = c->own;
    struct gw_cq_handle *cq = gw_cq_handle(s->recv_cq);
    int n = gw_wait_cq(cq, 1, wc, deadline_ns, NULL, s->deaf ? -1 : gw_http_socket(c->http));
    if (n == -ETIMEDOUT || n == -EAGAIN) return 0;
    if (n != -ECANCELED) return n < 0 ? gw_session_broken(c, n) : n;
    if (gw_http_hung_up(c->http) <= 0) {
        s->deaf = 1;
        return 0;
    }
    n = gw_wait_cq(cq, 1, wc, gw_deadline(LAST_WORD_NS), NULL, -1);
    return n > 0 ? n : gw_session_hung_up(c);
}

static int client_rdma_wait_answer(struct gw_client *c, uint64_t deadline_ns, struct gw_client_reply *reply)
{
    struct gw_client_session *s = c->own;
    struct ibv_wc wc;
    int over = 0;
    for (;;) {
        uint64_t ask_at = gw_session_confirm_at(c), until = deadline_ns < ask_at ? deadline_ns : ask_at;
        int n = over ? gw_poll_cq(gw_cq_handle(s->recv_cq), 1, &wc) : wait_once(c, until, &wc);
        if (n < 0) return over ? over : n;
        if (n == 0 && over) return over;
        if (n == 0 && gw_deadline(0) >= ask_at)
            over = gw_session_confirm(c); /* an answer may come during this call */
        if (n == 0 && !over && gw_deadline(0) >= deadline_ns)
            return gw_error(-ETIMEDOUT, "the worker has not answered in time");
        if (n == 0) continue;
        if (over && wc.status != IBV_WC_SUCCESS) return over;
        if (wc.status != IBV_WC_SUCCESS) return gw_session_broken(c, -EIO);
        return client_rdma_take_answer(c, &wc, reply);
    }
}

/* ---- memory that tensors are sent from ---- */

static int add_region(struct gw_client *c, struct gw_client_region *r)
{
    struct gw_client_session *s = c->own;
    struct gw_mr *mr;
    int err = gw_mr_register(s->pd, (void *)r->addr, r->bytes, GW_MR_LOCAL_WRITE, &mr);
    if (!err) r->key = mr;
    return err;
}

static void drop_region(struct gw_client *c, struct gw_client_region *r)
{
    (void)c;
    gw_mr_free(r->key);
}

const struct gw_client_door gw_client_rdma = {
    .name = "rdma",
    .ask = gw_client_ask_http,
    .open = gw_session_begin,
    .close = gw_session_end,
    .submit = client_rdma_submit,
    .wait = client_rdma_wait_answer,
    .add_region = add_region,
    .drop_region = drop_region,
};
