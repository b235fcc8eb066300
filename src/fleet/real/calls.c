/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c: requests over TCP. Each takes a slot of the engine's own sessions, so the device treats it as
 * one that came by RDMA; only whose lease it is must be looked at here. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/fleet/real/impl.h"

#define CALL_RETRY_NS 1000000 /* all slots are taken: try again a millisecond later */

static void call_end(struct fleet_call *c, uint32_t status, int64_t retry_ns)
{
    int64_t now = real_now();

    c->answer = (struct fleet_answer){.id = c->request.id,
                                      .status = status,
                                      .arrived_at = c->arrived_at,
                                      .started_at = now,
                                      .done_at = now,
                                      .retry_ns = retry_ns};
    c->output = NULL;
    c->done(c);
}

static uint32_t call_status(int err)
{
    switch (err) {
    case 0: return GW_SERVE_OK;
    case -EINVAL: return GW_SERVE_BAD_REQUEST;
    case -ETIME: return GW_SERVE_LATE;
    case -EIO: /* the session broke: another worker may do better */
    case -ESHUTDOWN: return GW_SERVE_CLOSING;
    case -ECANCELED: return GW_SERVE_RECALLED;
    case -EKEYEXPIRED: return GW_SERVE_NO_LEASE;
    case -EDQUOT: return GW_SERVE_OVER_BUDGET;
    case -EAGAIN: return GW_SERVE_NOT_THERE;
    default: return GW_SERVE_FAILED;
    }
}

/* On the calls' thread. The device's clock may be another one: only its differences count. */
static void call_done(void *ctx, struct gw_call *call)
{
    struct fleet_call *c = (struct fleet_call *)ctx;
    const struct gw_serve_reply *reply = call->error ? NULL : call->reply;
    int64_t ended = (int64_t)call->ended, ran = reply ? (int64_t)(reply->done - reply->started) : 0;
    uint64_t first;

    c->answer = (struct fleet_answer){
        .id = c->request.id,
        .status = call_status(call->error),
        .batch = reply ? reply->batch : 0,
        .arrived_at = c->arrived_at,
        .started_at = ended - ran,
        .done_at = ended,
        .retry_ns = call->error ? (int64_t)gw_call_retry_ns(call) : 0,
        .bytes = reply ? reply->bytes : 0,
    };
    c->output = reply && reply->bytes ? gw_call_output(call, 0, &first) : NULL;
    c->done(c);
}

/* The lease that a request names, if it is its client's. */
static const struct real_lease *call_lease(const struct real *r, const struct fleet_call *c)
{
    const struct real_lease *l = c->request.lease < r->o.leases ? &r->lease[c->request.lease] : NULL;
    bool its = l && l->is.key && l->is.key == c->request.key && !memcmp(l->is.client, c->client, FLEET_ID);

    return its ? l : NULL;
}

static int call_start(struct real_model *m, struct fleet_call *c, struct gw_call *call)
{
    const struct fleet_request *q = &c->request;
    const struct gw_call_target target = {.in = &m->in,
                                          .out = &m->out,
                                          .rows = m->batch[m->batches - 1].rows,
                                          .lease = q->lease + 1,
                                          .key = q->key};
    const struct gw_call_ask ask = {.rows = q->rows,
                                    .priority = q->priority,
                                    .budget_ns = q->budget_ns,
                                    .flags = GW_SERVE_RECALL,
                                    .done = call_done,
                                    .ctx = c};
    uint64_t first;
    int err = gw_call_aim(call, &target);

    if (err) return err;
    memcpy(gw_call_input(call, 0, q->rows, &first), c->input, q->bytes);
    c->state = call;
    return gw_call_submit(call, &ask);
}

void real_submit(struct fleet_engine *e, struct fleet_call *c)
{
    struct real *r = real_of(e);
    const struct real_lease *l = call_lease(r, c);
    struct gw_call *call;
    char who[2 * FLEET_ID + 1];

    c->state = NULL;
    c->output = NULL;
    if (r->stopped || !l) {
        call_end(c, r->stopped ? GW_SERVE_CLOSING : GW_SERVE_NO_LEASE, 0);
        return;
    }
    struct real_model *m = r->model[l->is.model];
    const struct fleet_request *q = &c->request;
    if (!q->rows || q->rows > m->batch[m->batches - 1].rows || q->bytes != gw_layout_bytes(&m->in, q->rows)) {
        call_end(c, GW_SERVE_BAD_REQUEST, 0);
        return;
    }
    for (int i = 0; i < FLEET_ID; i++) snprintf(who + 2 * i, 3, "%02x", c->client[i]);
    int err = gw_call_take(r->calls, who, 0, &call);
    if (err) {
        call_end(c, GW_SERVE_OVER_BUDGET, CALL_RETRY_NS);
        return;
    }
    err = call_start(m, c, call);
    if (!err) return;
    c->state = NULL;
    gw_call_give(call);
    call_end(c, call_status(err), 0);
}

void real_recall(struct fleet_engine *e, struct fleet_call *c)
{
    (void)e;
    if (c->state) gw_call_cancel((struct gw_call *)c->state);
}

void real_release(struct fleet_engine *e, struct fleet_call *c)
{
    (void)e;
    gw_call_give((struct gw_call *)c->state);
    c->state = NULL;
    c->output = NULL;
}
