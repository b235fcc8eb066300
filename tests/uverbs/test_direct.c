/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that drive the queues themselves: thread domains, their own queue memory, mlx5dv_init_obj.
 */
#include "tests/uverbs/rig.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define ARENA (1u << 20)

struct arena {
    unsigned char *base;
    size_t used;
    int live, types; /* buffers out, and a bit for each type that was asked for */
};

static void *arena_alloc(struct ibv_pd *pd, void *context, size_t size, size_t align, uint64_t type)
{
    struct arena *a = context;
    (void)pd;

    size_t at = (a->used + align - 1) / align * align;
    if (at + size > ARENA) return NULL;
    a->used = at + size;
    a->live++;
    a->types |= 1 << (type & 31);
    return a->base + at;
}

static void arena_free(struct ibv_pd *pd, void *context, void *p, uint64_t type)
{
    struct arena *a = context;
    (void)pd;
    (void)p;
    (void)type;
    a->live--;
}

static int inside(const struct arena *a, const void *p)
{
    return (const unsigned char *)p >= a->base && (const unsigned char *)p < a->base + ARENA;
}

/* A thread domain, a domain whose queues lie in the arena, and a queue pair there. */
struct own {
    struct ibv_td *td;
    struct ibv_pd *pd;
    struct ibv_qp *qp;
};

static void own_domain_up(struct rig *r, struct arena *arena, struct own *own)
{
    struct ibv_parent_domain_init_attr pda = {.pd = r->pd,
                                              .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                                                           IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
                                              .alloc = arena_alloc,
                                              .free = arena_free,
                                              .pd_context = arena};
    struct ibv_td_init_attr tda = {0};
    own->td = pda.td = ibv_alloc_td(r->ctx, &tda);
    assert_non_null(own->td);
    own->pd = ibv_alloc_parent_domain(r->ctx, &pda);
    assert_non_null(own->pd);
}

static void own_qp_up(struct rig *r, struct own *own, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr_ex qa = {
        .qp_type = IBV_QPT_RC,
        .send_cq = cq,
        .recv_cq = cq,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = own->pd,
        .cap = {.max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 1, .max_recv_sge = 1}};
    struct mlx5dv_qp_init_attr dva = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
                                      .create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE};
    own->qp = mlx5dv_create_qp(r->ctx, &qa, &dva);
    assert_non_null(own->qp);
}

static struct ibv_cq *own_cq(struct rig *r, struct ibv_pd *pd)
{
    struct ibv_cq_init_attr_ex ca = {.cqe = 63,
                                     .wc_flags = IBV_WC_STANDARD_FLAGS,
                                     .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD | IBV_CQ_INIT_ATTR_MASK_FLAGS,
                                     .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
                                     .parent_domain = pd};
    struct ibv_cq_ex *cqx = ibv_create_cq_ex(r->ctx, &ca);
    assert_non_null(cqx);
    return ibv_cq_ex_to_cq(cqx);
}

/* Everything that libmlx5 shows of the queues lies in the arena. */
static void check_places(const struct arena *arena, struct ibv_qp *qp, struct ibv_cq *cq,
                         struct mlx5dv_qp *dq, struct mlx5dv_cq *dc)
{
    struct mlx5dv_obj obj = {.qp = {.in = qp, .out = dq}, .cq = {.in = cq, .out = dc}};
    assert_int_equal(arena->types, 1 << (MLX5DV_RES_TYPE_QP & 31) | 1 << (MLX5DV_RES_TYPE_DBR & 31) |
                                       1 << (MLX5DV_RES_TYPE_CQ & 31));
    assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), 0);
    assert_true(inside(arena, dq->sq.buf) && inside(arena, dq->rq.buf) && inside(arena, dq->dbrec));
    assert_true(inside(arena, dc->buf) && inside(arena, dc->dbrec));
    assert_int_equal(dq->sq.stride, 64);
    assert_int_equal(dc->cqe_size, 64);
    assert_non_null(dq->bf.reg);
    assert_non_null(dc->cq_uar);
}

/* By libmlx5's own posting; the completion is looked at in the buffer. */
static void check_write(struct rig *r, struct ibv_qp *qp, const struct mlx5dv_cq *dc)
{
    unsigned char *byte = (unsigned char *)dc->buf + 63, owner = 0xf0;
    rig_connect(r, qp, qp->qp_num);
    memset(r->buf, 0x42, 100);
    assert_int_equal(rig_write(qp, r, 0, 8192, 100, 1), 0);
    /* Acquire: the payload is looked at only after the completion that vouches for it. */
    for (double end = rig_seconds() + RIG_WAIT_S; rig_seconds() < end;)
        if ((owner = __atomic_load_n(byte, __ATOMIC_ACQUIRE)) >> 4 != 15) break;
    assert_int_equal(owner, 0); /* opcode REQ, owner of the first lap */
    assert_memory_equal(r->buf, r->buf + 8192, 100);
}

static void test_own_memory(void **state)
{
    (void)state;
    struct rig r;
    struct arena arena = {.base = aligned_alloc(4096, ARENA)};
    struct own one, two;

    rig_up(&r);
    own_domain_up(&r, &arena, &one);
    struct ibv_cq *cq = own_cq(&r, one.pd);
    own_qp_up(&r, &one, cq);
    struct mlx5dv_qp dq = {.comp_mask = MLX5DV_QP_MASK_UAR_MMAP_OFFSET}, dq2 = {0};
    struct mlx5dv_cq dc = {0};
    check_places(&arena, one.qp, cq, &dq, &dc);

    /* Two thread domains ring two registers. */
    own_domain_up(&r, &arena, &two);
    own_qp_up(&r, &two, cq);
    struct mlx5dv_obj obj = {.qp = {.in = two.qp, .out = &dq2}};
    assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
    assert_ptr_not_equal(dq2.bf.reg, dq.bf.reg);

    check_write(&r, one.qp, &dc);

    assert_int_equal(ibv_destroy_qp(one.qp), 0);
    assert_int_equal(ibv_destroy_qp(two.qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dealloc_pd(one.pd), 0);
    assert_int_equal(ibv_dealloc_pd(two.pd), 0);
    assert_int_equal(ibv_dealloc_td(one.td), 0);
    assert_int_equal(ibv_dealloc_td(two.td), 0);
    assert_int_equal(arena.live, 0);
    rig_down(&r);
    free(arena.base);
}

/* More queue pairs than doorbell registers: the exclusive registers go to one each, the rest share. */
static void test_registers(void **state)
{
    (void)state;
    struct rig r;
    enum { COUNT = 40 };
    struct ibv_qp *qp[COUNT];
    void *reg[COUNT];

    rig_up(&r);
    for (int i = 0; i < COUNT; i++) {
        struct mlx5dv_qp dq = {0};
        qp[i] = rig_qp(&r, r.cq);
        struct mlx5dv_obj obj = {.qp = {.in = qp[i], .out = &dq}};
        assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
        reg[i] = dq.bf.reg;
        assert_true(dq.bf.size > 0);
    }
    for (int i = 0; i < 4; i++) /* libmlx5's default of low-latency registers */
        for (int j = 0; j < COUNT; j++) assert_true(i == j || reg[i] != reg[j]);
    for (int i = 0; i < COUNT; i++) {
        rig_connect(&r, qp[i], qp[i]->qp_num);
        assert_int_equal(rig_write(qp[i], &r, 0, 4096, 8, (uint64_t)i), 0);
        assert_int_equal(rig_poll(r.cq).wr_id, i);
    }
    for (int i = 0; i < COUNT; i++) assert_int_equal(ibv_destroy_qp(qp[i]), 0);
    rig_down(&r);
}

/* A device opened and closed many times leaves nothing, not even what the program forgot. */
static void test_no_leaks(void **state)
{
    (void)state;
    int before = -1;

    for (int i = 0; i < 40; i++) {
        struct rig r;
        if (i % 2 == 0) rig_forget_begin();
        rig_up(&r);
        struct ibv_comp_channel *ch = ibv_create_comp_channel(r.ctx);
        assert_non_null(ch);
        struct ibv_qp *qp = rig_qp(&r, r.cq);
        rig_connect(&r, qp, qp->qp_num);
        assert_int_equal(rig_write(qp, &r, 0, 4096, 64, 1), 0);
        assert_int_equal(ibv_destroy_comp_channel(ch), 0);
        if (i % 2) {
            ibv_destroy_qp(qp);
            rig_down(&r);
        } else {
            assert_int_equal(ibv_close_device(r.ctx), 0); /* all of it still there */
            free(r.buf);
            rig_forget_end();
        }
        int fd = dup(0); /* the lowest free number grows with every fd that leaks */
        if (i == 5) before = fd;
        if (i > 5) assert_int_equal(fd, before);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_memory),
        cmocka_unit_test(test_registers),
        cmocka_unit_test(test_no_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
