/* SPDX-License-Identifier: Apache-2.0 */
/* A client without manners. */
#include "tests/generate/worker/foe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

void foe_make(struct foe *f, struct rig *r)
{
    memset(f, 0, sizeof(*f));
    f->rig = r;
    f->stride = gen_slot_stride(RIG_CONTEXT);
    struct gw_cq_attr cq = {.cqe = 1024, .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP, .qps = 1};
    assert_int_equal(gw_pd_create(r->dev, &f->pd), 0);
    assert_int_equal(gw_cq_create(r->dev, &cq, &f->send_cq), 0);
    assert_int_equal(gw_cq_create(r->dev, &cq, &f->recv_cq), 0);
    struct gw_qp_attr qp = {
        .send_cq = f->send_cq, .recv_cq = f->recv_cq, .max_send_wr = 64, .max_recv_wr = 512};
    assert_int_equal(gw_qp_create(f->pd, &qp, &f->qp), 0);
    assert_int_equal(gw_mem_alloc(r->exec, GW_MEM_HOST, FOE_SLOTS * f->stride, &f->out), 0);
    assert_int_equal(
        gw_mem_alloc(r->exec, GW_MEM_HOST, FOE_SLOTS * FOE_RING * sizeof(struct gen_event), &f->in), 0);
    assert_int_equal(gw_mr_register(f->pd, f->out.host, f->out.size, GW_MR_LOCAL_WRITE, &f->out_mr), 0);
    assert_int_equal(gw_mr_register(f->pd, f->in.host, f->in.size, GW_MR_REMOTE_WRITE, &f->in_mr), 0);
    f->wish = (struct gen_wish){.slots = FOE_SLOTS,
                                .ring = FOE_RING,
                                .event_addr = f->in_mr->addr,
                                .event_stride = FOE_RING * sizeof(struct gen_event),
                                .event_rkey = f->in_mr->rkey};
    gw_qp_endpoint(f->qp, &f->wish.endpoint);
}

int foe_open(struct foe *f, uint32_t receives)
{
    int err = gen_pool_open(gen_worker_pool(f->rig->worker), &f->wish, &f->grant);
    if (err) return err;
    assert_int_equal(gw_qp_connect(f->qp, &f->grant.endpoint, NULL), 0);
    if (receives) assert_int_equal(gw_qp_recv_empty(f->qp, receives, 0), 0);
    return 0;
}

void foe_free(struct foe *f)
{
    gen_pool_close(gen_worker_pool(f->rig->worker), &f->grant);
    gw_qp_destroy(f->qp);
    gw_mr_free(f->out_mr);
    gw_mr_free(f->in_mr);
    gw_cq_destroy(f->send_cq);
    gw_cq_destroy(f->recv_cq);
    gw_pd_destroy(f->pd);
    gw_mem_free(&f->out);
    gw_mem_free(&f->in);
}

struct gen_request *foe_request(struct foe *f, uint32_t slot, uint32_t prompt, uint32_t most, uint32_t *bytes)
{
    struct gen_request *r = (struct gen_request *)((uint8_t *)f->out.host + slot * f->stride);
    uint32_t *token = (uint32_t *)(r + 1);
    *r = (struct gen_request){.magic = GEN_MAGIC,
                              .version = GEN_VERSION,
                              .slot = (uint16_t)slot,
                              .id = 77 + slot,
                              .prompt = prompt,
                              .max_tokens = most,
                              .top_p = 1,
                              .repetition = 1};
    for (uint32_t i = 0; i < prompt && i < RIG_CONTEXT; i++) token[i] = i;
    *bytes = (uint32_t)(sizeof(*r) + prompt * sizeof(*token));
    return r;
}

void foe_send(struct foe *f, uint32_t slot, uint32_t bytes, uint32_t imm)
{
    struct gw_op op = gw_put_imm_op(f->out_mr->addr + slot * f->stride, f->out_mr->lkey,
                                    f->grant.request_addr + slot * f->grant.request_stride,
                                    f->grant.request_rkey, bytes, imm);
    assert_int_equal(gw_post_op(gw_qp_handle(f->qp), op, GW_SIGNALED, slot), 0);
}

bool foe_event(struct foe *f, uint64_t patience_ns, uint32_t *slot)
{
    struct ibv_wc wc;
    int n = gw_wait_cq(gw_cq_handle(f->recv_cq), 1, &wc, gw_deadline(patience_ns), NULL, -1);
    if (n <= 0 || wc.status != IBV_WC_SUCCESS) return false;
    *slot = gw_wc_imm(&wc);
    assert_true(*slot < FOE_SLOTS);
    return true;
}

int foe_status(struct foe *f, uint32_t *detail)
{
    struct gen_event e;
    uint32_t slot, n[FOE_SLOTS] = {0};
    while (foe_event(f, PATIENCE, &slot)) {
        const struct gen_event *ring = (const struct gen_event *)f->in.host + slot * FOE_RING;
        e = ring[n[slot]++ % FOE_RING];
        if (e.status == GEN_GOING) continue;
        if (detail) *detail = e.detail;
        return e.status;
    }
    return -1;
}
