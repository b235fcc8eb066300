/* SPDX-License-Identifier: Apache-2.0 */
/* Memory windows: what is bound can be reached, nothing else can, and it can be taken back by either side. */
#include "tests/softnic/rig.h"

enum {
    ALL = GW_MLX5_MKEY_REMOTE_READ | GW_MLX5_MKEY_REMOTE_WRITE | GW_MLX5_MKEY_ATOMIC,
    AT = 8192,
    LEN = 4096
};

/* b opens parts of its memory to a. */
struct bed {
    struct rig r;
    struct sn_mr *base, *mw;
    uint32_t lkey, key; /* of base, and of the window as it was given or last bound */
    uint8_t type2;
};

static void bed_up(struct bed *b, enum ibv_mw_type type, const struct world_options *o)
{
    struct sn_mr_init mr = {.length = RIG_MEM, .access = (uint32_t)rig_access | IBV_ACCESS_MW_BIND};

    memset(b, 0, sizeof(*b));
    rig_up(&b->r, o);
    rig_connect(&b->r);
    mr.addr = mr.iova = (uintptr_t)b->r.b.mem;
    assert_int_equal(sn_mr_create(b->r.b.pd, &mr, &b->base), 0);
    assert_int_equal(sn_mw_create(b->r.b.pd, type, &b->mw), 0);
    b->lkey = sn_mr_key(b->base);
    b->key = sn_mr_key(b->mw);
    b->type2 = type == IBV_MW_TYPE_2;
}

static void bed_down(struct bed *b)
{
    if (b->base) assert_int_equal(sn_mr_destroy(b->base), 0);
    assert_int_equal(sn_mr_destroy(b->mw), 0);
    rig_down(&b->r);
}

static struct gw_mlx5_bind part(const struct bed *b, uint32_t at, uint32_t len)
{
    uint64_t va = (uintptr_t)b->r.b.mem + at;
    struct gw_mlx5_bind bind = {.mkey = b->key,
                                .tag = (uint8_t)(b->key + 1),
                                .type2 = b->type2,
                                .access = ALL,
                                .length = len,
                                .lkey = b->lkey,
                                .addr = va,
                                .start = va};
    return bind;
}

static void post_bind(struct bed *b, const struct gw_mlx5_bind *bind)
{
    struct app_qp *q = &b->r.b.qp;

    q->sq_pi += gw_mlx5_put_bind(&q->sq, q->sq_pi, bind, GW_MLX5_SIGNALED);
    app_publish(q);
    app_ring(q, 1);
}

static void bind_ok(struct bed *b, const struct gw_mlx5_bind *bind)
{
    post_bind(b, bind);
    world_settle(&b->r.w, MS);
    assert_int_equal(expect(&b->r.b, GW_MLX5_CQE_REQ).wqe_opcode, GW_MLX5_UMR);
    b->key = (b->key & ~0xffu) | bind->tag;
    if (bind->length) assert_int_equal(sn_mr_key(b->mw), b->key);
}

/* As bed_up, and the window is bound to LEN bytes at AT. */
static void bed_bound(struct bed *b, enum ibv_mw_type type)
{
    struct gw_mlx5_bind bind;

    bed_up(b, type, NULL);
    bind = part(b, AT, LEN);
    bind_ok(b, &bind);
}

static void bind_fails(struct bed *b, const struct gw_mlx5_bind *bind, const char *why)
{
    post_bind(b, bind);
    world_settle(&b->r.w, MS);
    expect_error(&b->r.b, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_BIND);
    expect_report(&b->r, why);
    assert_int_equal(app_state(&b->r.b.qp), IBV_QPS_ERR);
}

/* a, through a key of b. Returns what its completion says: 0 or the syndrome. */
static uint8_t access_by(struct bed *b, uint8_t opcode, uint64_t va, uint32_t len, uint32_t rkey)
{
    struct gw_mlx5_sge s = sge_of(&b->r.a, 0, len);
    struct gw_mlx5_wr wr = {.opcode = opcode, .flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &s};
    struct gw_mlx5_wc wc;

    wr.raddr = va;
    wr.rkey = rkey;
    wr.swap_or_add = 1;
    app_post(&b->r.a.qp, &wr);
    world_settle(&b->r.w, 20 * MS);
    assert_int_equal(app_poll(&b->r.a.cq, &wc, NULL), 1);
    return gw_mlx5_wc_is_error(&wc) ? wc.syndrome : 0;
}

static uint8_t reach(struct bed *b, uint32_t at, uint32_t len)
{
    return access_by(b, GW_MLX5_WRITE, (uintptr_t)b->r.b.mem + at, len, b->key);
}

/* ---- binding ------------------------------------------------------------------------------------------- */

static void grants_its_part(void **state)
{
    (void)state;
    for (int type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
        static struct bed b;

        bed_bound(&b, (enum ibv_mw_type)type);
        memset(b.r.a.mem, 7, LEN);
        assert_int_equal(reach(&b, AT, LEN), 0);
        assert_memory_equal(b.r.b.mem + AT, b.r.a.mem, LEN);
        assert_int_equal(access_by(&b, GW_MLX5_READ, (uintptr_t)b.r.b.mem + AT + 8, 100, b.key), 0);
        assert_int_equal(access_by(&b, GW_MLX5_ATOMIC_FA, (uintptr_t)b.r.b.mem + AT, 8, b.key), 0);
        assert_int_equal(b.r.b.mem[AT], 8);
        bed_down(&b);
    }
}

static void refused(struct bed *b, uint8_t syndrome)
{
    assert_int_equal(syndrome, GW_MLX5_SYND_REM_ACCESS);
    bed_down(b);
}

static void grants_nothing_else(void **state)
{
    static struct bed b;
    struct gw_mlx5_bind bind;

    (void)state;
    bed_up(&b, IBV_MW_TYPE_1, NULL); /* before it is bound */
    refused(&b, reach(&b, AT, 1));
    bed_bound(&b, IBV_MW_TYPE_1); /* one byte in front */
    refused(&b, reach(&b, AT - 1, 2));
    bed_bound(&b, IBV_MW_TYPE_2); /* one past the end */
    refused(&b, reach(&b, AT + 1, LEN));
    bed_up(&b, IBV_MW_TYPE_2, NULL); /* a right that it lacks */
    bind = part(&b, AT, LEN);
    bind.access = GW_MLX5_MKEY_REMOTE_READ;
    bind_ok(&b, &bind);
    refused(&b, reach(&b, AT, 1));
    bed_bound(&b, IBV_MW_TYPE_1); /* the key from before it was bound again */
    uint32_t old = b.key;
    bind = part(&b, AT, LEN);
    bind_ok(&b, &bind);
    assert_int_equal(reach(&b, AT, 1), 0);
    refused(&b, access_by(&b, GW_MLX5_WRITE, (uintptr_t)b.r.b.mem + AT, 1, old));
}

/* Peers know a zero-based window's memory by addresses from 0 on. */
static void zero_based(void **state)
{
    static struct bed b;
    struct gw_mlx5_bind bind;

    (void)state;
    bed_up(&b, IBV_MW_TYPE_2, NULL);
    bind = part(&b, AT, LEN);
    bind.start = 0;
    bind_ok(&b, &bind);
    b.r.a.mem[0] = 55;
    assert_int_equal(access_by(&b, GW_MLX5_WRITE, 10, 1, b.key), 0);
    assert_int_equal(b.r.b.mem[AT + 10], 55);
    refused(&b, access_by(&b, GW_MLX5_WRITE, LEN, 1, b.key));
}

static void wrong_binds(void **state)
{
    static struct bed b;
    struct gw_mlx5_bind bind;

    (void)state;
    bed_bound(&b, IBV_MW_TYPE_2);
    bind = part(&b, AT, LEN);
    bind_fails(&b, &bind, "bound already");
    bed_down(&b);
    bed_up(&b, IBV_MW_TYPE_1, NULL);
    bind = part(&b, AT, LEN);
    bind.type2 = 1;
    bind_fails(&b, &bind, "other type");
    bed_down(&b);
    bed_up(&b, IBV_MW_TYPE_1, NULL);
    bind = part(&b, RIG_MEM - 10, 11);
    bind_fails(&b, &bind, "reaches so far");
    bed_down(&b);
    bed_up(&b, IBV_MW_TYPE_1, NULL);
    bind = part(&b, AT, LEN);
    bind.lkey = b.r.b.key; /* a region without the right to be bound */
    bind_fails(&b, &bind, "not registered for windows");
    bed_down(&b);
    bed_up(&b, IBV_MW_TYPE_1, NULL);
    bind = part(&b, AT, LEN);
    bind.mkey = b.lkey; /* no window */
    bind_fails(&b, &bind, "no window");
    bed_down(&b);
}

/* A window is no key for one's own requests. */
static void no_local_key(void **state)
{
    static struct bed b;
    struct gw_mlx5_wc wc;

    (void)state;
    bed_bound(&b, IBV_MW_TYPE_1);
    struct gw_mlx5_sge s = {(uintptr_t)b.r.b.mem + AT, 10, b.key};
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_SEND, .flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &s};
    app_post(&b.r.b.qp, &wr);
    world_settle(&b.r.w, MS);
    assert_int_equal(app_poll(&b.r.b.cq, &wc, NULL), 1);
    assert_int_equal(wc.syndrome, GW_MLX5_SYND_LOCAL_PROT);
    bed_down(&b);
}

/* ---- its end ------------------------------------------------------------------------------------------- */

static struct gw_mlx5_bind invalidation(const struct bed *b)
{
    struct gw_mlx5_bind bind = {.mkey = b->key, .type2 = b->type2};
    return bind;
}

static void invalidated_here(void **state)
{
    (void)state;
    for (int type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
        static struct bed b;

        bed_up(&b, (enum ibv_mw_type)type, NULL);
        struct gw_mlx5_bind bind = part(&b, AT, LEN), inv;
        bind_ok(&b, &bind);
        inv = invalidation(&b);
        post_bind(&b, &inv);
        world_settle(&b.r.w, MS);
        assert_int_equal(expect(&b.r.b, GW_MLX5_CQE_REQ).wqe_opcode, GW_MLX5_UMR);
        refused(&b, reach(&b, AT, 1));
    }
    static struct bed b;
    bed_up(&b, IBV_MW_TYPE_2, NULL); /* not bound */
    struct gw_mlx5_bind inv = invalidation(&b);
    bind_fails(&b, &inv, "not bound");
    bed_down(&b);
}

/* After a READ whose answer is what it waits for: it is made all the same, and before what follows it. */
static void a_fenced_bind_is_made(void **state)
{
    static struct bed b;
    struct app_qp *q = &b.r.b.qp;
    struct gw_mlx5_sge s;
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_READ, .flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &s};
    struct gw_mlx5_bind bind;

    (void)state;
    bed_up(&b, IBV_MW_TYPE_2, NULL);
    s = sge_of(&b.r.b, 0, 5000);
    wr.raddr = (uintptr_t)b.r.a.mem;
    wr.rkey = b.r.a.key;
    app_put(q, &wr);
    bind = part(&b, AT, LEN);
    q->sq_pi += gw_mlx5_put_bind(&q->sq, q->sq_pi, &bind, GW_MLX5_SIGNALED | GW_MLX5_FENCE);
    app_publish(q);
    app_ring(q, 1);
    world_settle(&b.r.w, MS);
    assert_int_equal(expect(&b.r.b, GW_MLX5_CQE_REQ).wqe_opcode, GW_MLX5_READ);
    assert_int_equal(expect(&b.r.b, GW_MLX5_CQE_REQ).wqe_opcode, GW_MLX5_UMR);
    b.key = (b.key & ~0xffu) | bind.tag;
    assert_int_equal(sn_mr_key(b.mw), b.key);
    assert_int_equal(reach(&b, AT, LEN), 0);
    bed_down(&b);
}

static void send_inval(struct bed *b, uint32_t rkey)
{
    struct gw_mlx5_sge s = sge_of(&b->r.a, 0, 3000);
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_SEND_INVAL, .flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &s};

    wr.imm_be = gw_be32(rkey);
    app_post(&b->r.a.qp, &wr);
}

static void invalidated_by_the_peer(void **state)
{
    static struct bed b;
    struct gw_mlx5_bind bind;

    (void)state;
    bed_bound(&b, IBV_MW_TYPE_2);
    post_recv(&b.r.b, 0, 4096);
    send_inval(&b, b.key);
    world_settle(&b.r.w, MS);
    expect(&b.r.a, GW_MLX5_CQE_REQ);
    assert_int_equal(gw_be32(expect(&b.r.b, GW_MLX5_CQE_RESP_SEND_INV).imm_be), b.key);
    bind = part(&b, AT, LEN); /* free: it can be bound again */
    bind_ok(&b, &bind);
    assert_int_equal(reach(&b, AT, LEN), 0);
    bed_down(&b);
}

/* What is not the peer's to take: a region, a window of type 1, one that is not bound. */
static void not_the_peers(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        static struct bed b;

        bed_up(&b, k == 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2, NULL);
        if (k == 1) {
            struct gw_mlx5_bind bind = part(&b, AT, LEN);
            bind_ok(&b, &bind);
        }
        post_recv(&b.r.b, 0, 4096);
        send_inval(&b, k == 0 ? b.lkey : b.key);
        world_settle(&b.r.w, 20 * MS);
        expect_error(&b.r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_OP);
        expect_error(&b.r.b, GW_MLX5_CQE_RESP_ERR, GW_MLX5_SYND_REM_INV_REQ);
        bed_down(&b);
    }
}

/* Type 2 is for the peer of the queue pair that bound it. */
static void another_queue_pair(void **state)
{
    static struct bed b;
    struct app_qp_options o = {.uidx = 77};
    struct app_qp from, to;
    struct gw_mlx5_bind bind;
    struct gw_mlx5_wc wc;

    (void)state;
    bed_up(&b, IBV_MW_TYPE_2, NULL);
    app_qp_up(&from, &b.r.w.nics[0], b.r.a.pd, b.r.a.uar, &b.r.a.cq, &b.r.a.cq, &o);
    app_qp_up(&to, &b.r.w.nics[1], b.r.b.pd, b.r.b.uar, &b.r.b.cq, &b.r.b.cq, &o);
    app_connect(&from, &to, &app_connect_default);
    bind = part(&b, AT, LEN);
    bind_ok(&b, &bind);
    struct gw_mlx5_sge s = sge_of(&b.r.a, 0, 8);
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_WRITE, .flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &s};
    wr.raddr = (uintptr_t)b.r.b.mem + AT;
    wr.rkey = b.key;
    app_post(&from, &wr);
    world_settle(&b.r.w, 20 * MS);
    assert_int_equal(app_poll(&b.r.a.cq, &wc, NULL), 1);
    assert_int_equal(wc.syndrome, GW_MLX5_SYND_REM_ACCESS);
    assert_int_equal(reach(&b, AT, 8), 0);
    app_qp_down(&from);
    app_qp_down(&to);
    bed_down(&b);
}

static void region_goes(void **state)
{
    static struct bed b;

    (void)state;
    bed_bound(&b, IBV_MW_TYPE_1);
    assert_int_equal(sn_mr_destroy(b.base), 0);
    b.base = NULL;
    refused(&b, reach(&b, AT, 8));
}

/* Bind, write through it, take it back by a SEND, again and again, all posted at once where that is possible.
 */
/* When its queue pair goes, a window of type 2 is unbound: the next queue pair of that number does not have
 * it, and others may bind it. */
static void its_queue_pair_goes(void **state)
{
    static struct bed b;
    struct app_qp_options o = {.uidx = 5};
    struct gw_mlx5_bind bind;
    struct gw_mlx5_wc wc;
    struct app_qp q;

    (void)state;
    bed_up(&b, IBV_MW_TYPE_2, NULL);
    app_qp_up(&q, &b.r.w.nics[1], b.r.b.pd, b.r.b.uar, &b.r.b.cq, &b.r.b.cq, &o);
    app_connect(&q, &q, &app_connect_default);
    bind = part(&b, AT, LEN);
    q.sq_pi += gw_mlx5_put_bind(&q.sq, q.sq_pi, &bind, GW_MLX5_SIGNALED);
    app_publish(&q);
    app_ring(&q, 1);
    world_settle(&b.r.w, MS);
    assert_int_equal(app_poll(&b.r.b.cq, &wc, NULL), 1);
    assert_int_equal(wc.opcode, GW_MLX5_CQE_REQ);
    b.key = (b.key & ~0xffu) | bind.tag;
    app_qp_down(&q);
    bind = part(&b, AT, LEN);
    bind_ok(&b, &bind);
    assert_int_equal(reach(&b, AT, LEN), 0);
    bed_down(&b);
}

static void lossy(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        static struct bed b;
        struct world_options o = {.seed = seed, .hostile = seed & 1};
        struct gw_mlx5_wc wc;

        bed_up(&b, IBV_MW_TYPE_2, &o);
        b.r.w.faults = (struct world_faults){.loss = 400,
                                             .dup = 400,
                                             .reorder = 400,
                                             .delay_ns = 1000,
                                             .jitter_ns = 2000,
                                             .reorder_ns = 20000};
        for (int round = 0; round < 20; round++) {
            struct gw_mlx5_bind bind = part(&b, AT, LEN);
            unsigned sent = 0, received = 0;

            bind_ok(&b, &bind);
            memset(b.r.a.mem, round + 1, LEN);
            post_recv(&b.r.b, 0, 4096);
            struct gw_mlx5_sge s = sge_of(&b.r.a, 0, LEN);
            struct gw_mlx5_wr wr = {.opcode = GW_MLX5_WRITE, .num_sge = 1, .sge = &s, .rkey = b.key};
            wr.flags = GW_MLX5_SIGNALED;
            wr.raddr = (uintptr_t)b.r.b.mem + AT;
            app_post(&b.r.a.qp, &wr);
            send_inval(&b, b.key);
            for (int turn = 0; sent + received < 3 && turn < 1000; turn++) {
                world_settle(&b.r.w, 200000);
                while (app_poll(&b.r.a.cq, &wc, NULL)) {
                    assert_int_equal(wc.opcode, GW_MLX5_CQE_REQ);
                    sent++;
                }
                while (app_poll(&b.r.b.cq, &wc, NULL)) {
                    assert_int_equal(wc.opcode, GW_MLX5_CQE_RESP_SEND_INV);
                    received++;
                }
            }
            assert_int_equal(sent, 2);
            assert_int_equal(received, 1);
            assert_memory_equal(b.r.b.mem + AT, b.r.a.mem, LEN);
        }
        bed_down(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grants_its_part),
        cmocka_unit_test(grants_nothing_else),
        cmocka_unit_test(zero_based),
        cmocka_unit_test(wrong_binds),
        cmocka_unit_test(no_local_key),
        cmocka_unit_test(invalidated_here),
        cmocka_unit_test(a_fenced_bind_is_made),
        cmocka_unit_test(invalidated_by_the_peer),
        cmocka_unit_test(not_the_peers),
        cmocka_unit_test(another_queue_pair),
        cmocka_unit_test(region_goes),
        cmocka_unit_test(its_queue_pair_goes),
        cmocka_unit_test(lossy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
