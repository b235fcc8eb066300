/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/rnd.h"

GW_KERNEL_DECLARE(script_kernel);

#define LIMIT_NS 60000000000u

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

static uint32_t or (uint32_t a, uint32_t b)
{
    return a ? a : b;
}

uint32_t pair_local_key_status(const struct gw_device *dev, int fetches)
{
    struct gw_device_info info;

    gw_device_query(dev, &info);
    return fetches || strncmp(info.name, "rxe", 3) ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_QP_OP_ERR;
}

void pair_connect(struct pair *p, const struct gw_connect_opts *o)
{
    struct gw_endpoint ep[2];

    for (int i = 0; i < 2; i++) gw_qp_endpoint(p->qp[i], &ep[i]);
    if (p->type == GW_QP_UD) {
        for (int i = 0; i < 2; i++) must(gw_qp_activate(p->qp[i], PAIR_QKEY), "gw_qp_activate");
        return;
    }
    for (int i = 0; i < 2; i++) must(gw_qp_connect(p->qp[i], &ep[!i], o), "gw_qp_connect");
}

void pair_make(struct pair *p, struct gw_device *dev, const struct pair_opts *o)
{
    struct gw_exec *exec = gw_device_exec(dev);

    memset(p, 0, sizeof(*p));
    p->dev = dev;
    p->type = o->type;
    p->half = o->half ? o->half : 65536;
    must(gw_pd_create(dev, &p->pd), "gw_pd_create");
    for (int i = 0; i < 2; i++) {
        struct gw_cq_attr ca = {.cqe = 2048, .flags = o->cq_flags};

        must(gw_cq_create(dev, &ca, &p->cq[i]), "gw_cq_create");
    }
    for (int i = 0; i < 2; i++) {
        struct gw_qp_attr qa = {.send_cq = p->cq[i],
                                .recv_cq = p->cq[i],
                                .max_send_wr = or (o->send_wr, 64),
                                .max_recv_wr = or (o->recv_wr, 64),
                                .max_send_sge = or (o->sge, 4),
                                .max_recv_sge = or (o->sge, 4),
                                .max_inline = o->max_inline,
                                .flags = o->qp_flags,
                                .post_mode = o->post_mode,
                                .type = o->type};

        must(gw_qp_create(p->pd, &qa, &p->qp[i]), "gw_qp_create");
    }
    if (p->type == GW_QP_UD) {
        struct gw_endpoint self;

        gw_qp_endpoint(p->qp[0], &self);
        must(gw_ah_create(p->pd, &self, NULL, &p->ah), "gw_ah_create");
    }
    must(gw_mem_alloc(exec, o->mem ? (enum gw_mem_kind)o->mem : GW_MEM_HOST, 2 * p->half, &p->mem),
         "gw_mem_alloc");
    p->base = (uint64_t)(uintptr_t)(p->mem.host ? p->mem.host : p->mem.dev);
    must(gw_mr_register(p->pd, (void *)(uintptr_t)p->base, 2 * p->half, 0, &p->mr), "gw_mr_register");
    if (!o->unconnected) pair_connect(p, &o->connect);
}

void pair_free(struct pair *p)
{
    for (int i = 0; i < 2; i++) must(gw_qp_destroy(p->qp[i]), "gw_qp_destroy");
    for (int i = 0; i < 2; i++) must(gw_cq_destroy(p->cq[i]), "gw_cq_destroy");
    must(gw_mr_free(p->mr), "gw_mr_free");
    must(gw_ah_destroy(p->ah), "gw_ah_destroy");
    must(gw_pd_destroy(p->pd), "gw_pd_destroy");
    gw_mem_free(&p->mem);
}

void pair_write(struct pair *p, int side, size_t off, const void *from, size_t n)
{
    must(gw_copy_in(gw_device_exec(p->dev), (uint8_t *)p->mem.dev + (size_t)side * p->half + off, from, n),
         "gw_copy_in");
}

void pair_read(struct pair *p, int side, size_t off, void *to, size_t n)
{
    must(gw_copy_out(gw_device_exec(p->dev), to, (uint8_t *)p->mem.dev + (size_t)side * p->half + off, n),
         "gw_copy_out");
}

void pair_fill(struct pair *p, int side, uint64_t seed)
{
    struct rnd r = {seed * 2 + 1};
    uint8_t *bytes = malloc(p->half);

    rnd_bytes(&r, bytes, p->half);
    pair_write(p, side, 0, bytes, p->half);
    free(bytes);
}

struct step *pair_step(struct pair *p, uint32_t call, uint32_t qp, size_t loff, size_t len, size_t roff,
                       uint64_t wr_id)
{
    struct step *s = &p->step[p->steps++];

    assert_true(p->steps <= SCRIPT_STEPS);
    memset(s, 0, sizeof(*s));
    s->call = call;
    s->qp = qp;
    s->flags = call == STEP_IBV_SEND ? IBV_SEND_SIGNALED : GW_SIGNALED;
    s->num_sge = len ? 1 : 0;
    s->sge[0].addr = p->base + qp * p->half + loff;
    s->sge[0].length = (uint32_t)len;
    s->sge[0].lkey = p->mr->lkey;
    s->raddr = p->base + !qp * p->half + roff;
    s->rkey = p->mr->rkey;
    s->wr_id = wr_id;
    if (p->type != GW_QP_UD) return s;
    s->ud = 1;
    s->dqpn = gw_qp_num(p->qp[!qp]);
    s->qkey = PAIR_QKEY;
    s->ah = p->ah->handle;
    return s;
}

struct step *pair_wait(struct pair *p, uint32_t qp, uint32_t n)
{
    return pair_step(p, STEP_WAIT, qp, 0, 0, 0, n);
}

void pair_run(struct pair *p)
{
    struct gw_exec *exec = gw_device_exec(p->dev);
    struct script_args args;
    struct gw_mem mem;

    must(gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(p->step) + sizeof(p->out), &mem), "gw_mem_alloc");
    must(gw_copy_in(exec, mem.dev, p->step, sizeof(p->step)), "gw_copy_in");
    for (int i = 0; i < 2; i++) {
        args.qp[i] = gw_qp_handle(p->qp[i]);
        args.cq[i] = gw_cq_handle(p->cq[i]);
    }
    args.step = mem.dev;
    args.steps = p->steps;
    args.limit_ns = LIMIT_NS;
    args.out = (struct script_out *)((uint8_t *)mem.dev + sizeof(p->step));
    must(gw_launch(exec, &script_kernel, 1, 1, &args), "gw_launch");
    must(gw_exec_sync(exec, gw_deadline(4 * (uint64_t)LIMIT_NS)), "gw_exec_sync");
    must(gw_copy_out(exec, &p->out, args.out, sizeof(p->out)), "gw_copy_out");
    gw_mem_free(&mem);
    p->steps = 0;
}

void pair_run_ok(struct pair *p)
{
    uint32_t n = p->steps;
    struct gw_fault fault;
    char text[256];

    pair_run(p);
    for (uint32_t i = 0; i < n; i++) {
        if (!p->out.ret[i]) continue;
        text[0] = 0;
        for (int k = 0; k < 2; k++)
            if (gw_qp_fault(p->qp[k], &fault) == 1) gw_fault_text(&fault, text, sizeof(text));
        fail_msg("step %u (call %u) returned %d; %u completions so far; %s", i, p->step[i].call,
                 p->out.ret[i], p->out.wcs, text);
    }
    for (uint32_t i = 0; i < p->out.wcs; i++)
        if (p->out.wc[i].status)
            fail_msg("completion %u (wr_id %llu): %s", i, (unsigned long long)p->out.wc[i].wr_id,
                     ibv_wc_status_str(p->out.wc[i].status));
}
