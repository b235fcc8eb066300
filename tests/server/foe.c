/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/server/foe.h"
#include "tests/server/ask.h"

json_t *foe_wish(struct foe *f)
{
    struct gw_endpoint mine;
    char endpoint[GW_ENDPOINT_TEXT], addr[32];
    gw_qp_endpoint(f->qp, &mine);
    gw_endpoint_format(&mine, endpoint);
    snprintf(addr, sizeof(addr), "0x%llx", (unsigned long long)(f->mr->addr + HALF));
    return json_pack("{s:s, s:i, s:s, s:s, s:i, s:I}", "model", "echo", "slots", SLOTS, "endpoint", endpoint,
                     "reply_addr", addr, "reply_stride", REPLY_STRIDE, "reply_rkey", (json_int_t)f->mr->rkey);
}

void foe_open(struct foe *f, const char *server, uint32_t receives)
{
    struct gw_endpoint peer;
    json_t *reply, *body;
    memset(f, 0, sizeof(*f));
    assert_int_equal(gw_exec_create("cpu", NULL, &f->exec), 0);
    assert_int_equal(gw_device_open(NULL, f->exec, &f->dev), 0);
    assert_int_equal(gw_pd_create(f->dev, &f->pd), 0);
    struct gw_cq_attr cq = {.cqe = 1024, .flags = GW_CQ_SLEEP, .qps = 1};
    assert_int_equal(gw_cq_create(f->dev, &cq, &f->cq), 0);
    struct gw_qp_attr qp = {.send_cq = f->cq, .recv_cq = f->cq, .max_send_wr = 128, .max_recv_wr = 128};
    assert_int_equal(gw_qp_create(f->pd, &qp, &f->qp), 0);
    f->memory = aligned_alloc(4096, 2 * HALF);
    memset(f->memory, 0, 2 * HALF);
    assert_int_equal(gw_mr_register(f->pd, f->memory, 2 * HALF, 0, &f->mr), 0);

    assert_int_equal(ask_open(server, &f->http), 0);
    body = foe_wish(f);
    assert_int_equal(gw_http_call(f->http, "POST", "v2/rdma/sessions", body, &reply), 0);
    json_decref(body);
    snprintf(f->id, sizeof(f->id), "%s", json_string_value(json_object_get(reply, "id")));
    f->request_addr = strtoull(json_string_value(json_object_get(reply, "request_addr")), NULL, 16);
    f->stride = (uint64_t)json_integer_value(json_object_get(reply, "request_stride"));
    f->rkey = (uint32_t)json_integer_value(json_object_get(reply, "request_rkey"));
    assert_int_equal(gw_endpoint_parse(json_string_value(json_object_get(reply, "endpoint")), &peer), 0);
    json_decref(reply);
    assert_int_equal(gw_qp_connect(f->qp, &peer, NULL), 0);
    if (receives) assert_int_equal(gw_recv_empty(gw_qp_handle(f->qp), receives, 0), 0);
}

void foe_close(struct foe *f)
{
    gw_http_close(f->http);
    gw_qp_destroy(f->qp);
    gw_mr_free(f->mr);
    gw_cq_destroy(f->cq);
    gw_pd_destroy(f->pd);
    gw_device_close(f->dev);
    gw_exec_destroy(f->exec);
    free(f->memory);
}

struct gw_serve_request *foe_request(struct foe *f, uint32_t slot)
{
    struct gw_serve_request *q = (struct gw_serve_request *)(f->memory + slot * 1024);
    *q = (struct gw_serve_request){.magic = GW_SERVE_MAGIC,
                                   .version = GW_SERVE_VERSION,
                                   .slot = (uint16_t)slot,
                                   .id = 77,
                                   .bytes = FLOATS * sizeof(float),
                                   .rows = 1};
    return q;
}

const struct gw_serve_reply *foe_reply(const struct foe *f, uint32_t slot)
{
    return (const struct gw_serve_reply *)(f->memory + HALF + slot * REPLY_STRIDE);
}

int foe_put(struct foe *f, uint32_t slot, uint64_t to, uint32_t rkey, uint32_t bytes, uint32_t imm)
{
    return gw_post_op(gw_qp_handle(f->qp),
                      gw_put_imm_op(f->mr->addr + slot * 1024, f->mr->lkey, to, rkey, bytes, imm),
                      GW_SIGNALED, 1);
}

enum ibv_wc_status foe_completion(struct foe *f, int receive)
{
    struct ibv_wc wc;
    for (uint64_t end = gw_deadline(WAIT_NS); gw_deadline(0) < end;) {
        if (gw_wait_cq(gw_cq_handle(f->cq), 1, &wc, end, NULL, -1) < 1) continue;
        if (wc.status != IBV_WC_SUCCESS) return wc.status;
        if (!(wc.opcode & IBV_WC_RECV) == !receive) return IBV_WC_SUCCESS;
    }
    fail_msg("no completion");
    return IBV_WC_GENERAL_ERR;
}
