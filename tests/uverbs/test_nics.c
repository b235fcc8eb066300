/* SPDX-License-Identifier: Apache-2.0 */
/* Several NICs in one process: each a device of its own, and they reach each other. */
#include "tests/uverbs/rig.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NICS = 3, BYTES = 20000 };

static const char *const names[NICS] = {"mlx5_0", "mlx5_1", "mlx5_2"};

/* One open device with a buffer and a queue pair. */
struct side {
    struct rig r;
    struct ibv_qp *qp;
};

static struct ibv_context *open_named(const char *name)
{
    int n = 0;
    assert_int_equal(softnic_install(), 0);
    struct ibv_device **list = ibv_get_device_list(&n);
    struct ibv_context *ctx = NULL;
    assert_int_equal(n, NICS);
    for (int i = 0; i < n; i++)
        if (!strcmp(ibv_get_device_name(list[i]), name)) ctx = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    assert_non_null(ctx);
    return ctx;
}

static void side_up(struct side *s, const char *name)
{
    struct rig *r = &s->r;

    memset(s, 0, sizeof(*s));
    r->ctx = open_named(name);
    r->pd = ibv_alloc_pd(r->ctx);
    r->cq = ibv_create_cq(r->ctx, 64, NULL, NULL, 0);
    assert_true(r->pd && r->cq);
    r->buf = calloc(1, RIG_BUFFER);
    r->mr = ibv_reg_mr(r->pd, r->buf, RIG_BUFFER, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(r->mr);
    assert_int_equal(ibv_query_gid(r->ctx, 1, 0, &r->gid), 0);
    s->qp = rig_qp(r, r->cq);
}

static void side_down(struct side *s)
{
    assert_int_equal(ibv_destroy_qp(s->qp), 0);
    rig_down(&s->r);
}

static void connect_sides(struct side *a, struct side *b)
{
    union ibv_gid own = a->r.gid; /* rig_connect connects to r->gid */

    a->r.gid = b->r.gid;
    rig_connect(&a->r, a->qp, b->qp->qp_num);
    b->r.gid = own;
    rig_connect(&b->r, b->qp, a->qp->qp_num);
    b->r.gid = a->r.gid;
    a->r.gid = own;
}

/* b's NIC is not polled in that time: its own thread answers. */
static void write_over(struct side *a, struct side *b, unsigned char with)
{
    struct ibv_sge sge = {.addr = (uintptr_t)a->r.buf, .length = BYTES, .lkey = a->r.mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .wr.rdma = {.remote_addr = (uintptr_t)b->r.buf + 32768, .rkey = b->r.mr->rkey}},
                       *bad;
    memset(a->r.buf, with, BYTES);
    assert_int_equal(ibv_post_send(a->qp, &wr, &bad), 0);
    assert_int_equal(rig_poll(a->r.cq).status, IBV_WC_SUCCESS);
    assert_memory_equal(b->r.buf + 32768, a->r.buf, BYTES);
}

static void test_devices(void **state)
{
    (void)state;
    struct side s[NICS];
    struct ibv_device_attr attr;
    struct ibv_port_attr port;

    for (int i = 0; i < NICS; i++) side_up(&s[i], names[i]);
    for (int i = 0; i < NICS; i++) {
        assert_int_equal(ibv_query_device(s[i].r.ctx, &attr), 0);
        assert_int_equal(attr.node_guid, ibv_get_device_guid(s[i].r.ctx->device));
        assert_int_equal(ibv_query_port(s[i].r.ctx, 1, &port), 0);
        assert_int_equal(port.active_mtu, i == 1 ? IBV_MTU_1024 : IBV_MTU_4096);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(ibv_get_device_guid(s[i].r.ctx->device),
                                 ibv_get_device_guid(s[k].r.ctx->device));
    }
    /* The first two have addresses of their own; the third shares the first's. */
    assert_memory_not_equal(&s[0].r.gid, &s[1].r.gid, 16);
    assert_memory_equal(&s[0].r.gid, &s[2].r.gid, 16);
    for (int i = 0; i < NICS; i++) side_down(&s[i]);
}

static void check_pair(const char *one, const char *other)
{
    struct side a, b;

    side_up(&a, one);
    side_up(&b, other);
    connect_sides(&a, &b);
    for (int i = 1; i <= 10; i++) {
        write_over(&a, &b, (unsigned char)i);
        write_over(&b, &a, (unsigned char)(100 + i));
    }
    side_down(&a);
    side_down(&b);
}

static void test_pairs(void **state)
{
    (void)state;
    check_pair(names[0], names[1]);
    check_pair(names[2], names[1]);
    check_pair(names[0], names[2]); /* at one address */
    check_pair(names[1], names[1]); /* the device opened twice */
}

/* A key of the one means nothing to the other; what the one destroys does not disturb the other. */
static void test_apart(void **state)
{
    (void)state;
    struct side a, b, c;

    side_up(&a, names[0]);
    side_up(&b, names[1]);
    side_up(&c, names[2]);
    connect_sides(&a, &b);
    struct ibv_mr *own = b.r.mr;
    struct ibv_mr foreign = *c.r.mr;
    b.r.mr = &foreign;
    struct ibv_sge sge = {.addr = (uintptr_t)a.r.buf, .length = 8, .lkey = a.r.mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .wr.rdma = {.remote_addr = (uintptr_t)c.r.buf, .rkey = foreign.rkey}},
                       *bad;
    assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
    assert_int_equal(rig_poll(a.r.cq).status, IBV_WC_REM_ACCESS_ERR);
    b.r.mr = own;
    side_down(&c);
    side_down(&a);
    side_up(&a, names[0]);
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    assert_int_equal(ibv_modify_qp(b.qp, &reset, IBV_QP_STATE), 0);
    connect_sides(&a, &b);
    write_over(&a, &b, 77);
    write_over(&b, &a, 78);
    side_down(&a);
    side_down(&b);
}

static enum ibv_wc_status write_at(struct side *a, struct side *b, const struct ibv_mr *mr, const void *to)
{
    struct ibv_sge sge = {.addr = (uintptr_t)a->r.buf, .length = 4096, .lkey = a->r.mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .wr.rdma = {.remote_addr = (uintptr_t)to, .rkey = mr->rkey}},
                       *bad;
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

    assert_int_equal(ibv_post_send(a->qp, &wr, &bad), 0);
    enum ibv_wc_status status = rig_poll(a->r.cq).status;
    if (status == IBV_WC_SUCCESS) return status;
    assert_int_equal(ibv_modify_qp(a->qp, &reset, IBV_QP_STATE), 0);
    assert_int_equal(ibv_modify_qp(b->qp, &reset, IBV_QP_STATE), 0);
    connect_sides(a, b);
    return status;
}

/* Whichever way it reaches the memory, the other side is told of a region's change. */
static void test_changed_region(void **state)
{
    (void)state;
    enum { ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
    struct side a, b;

    side_up(&a, names[0]);
    side_up(&b, names[1]);
    connect_sides(&a, &b);
    unsigned char *old = b.r.buf, *new = b.r.buf + 8192;
    struct ibv_mr *mr = ibv_reg_mr(b.r.pd, old, 4096, ACCESS);
    for (int i = 1; i <= 5; i++) {
        memset(a.r.buf, i, 4096);
        assert_int_equal(write_at(&a, &b, mr, old), IBV_WC_SUCCESS);
        assert_memory_equal(old, a.r.buf, 4096);
        assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, new, 4096, 0), 0);
        memset(a.r.buf, 100 + i, 4096);
        assert_int_equal(write_at(&a, &b, mr, new), IBV_WC_SUCCESS);
        assert_memory_equal(new, a.r.buf, 4096);
        assert_int_equal(write_at(&a, &b, mr, old), IBV_WC_REM_ACCESS_ERR);
        assert_int_equal(old[0], i);
        assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ),
                         0);
        assert_int_equal(write_at(&a, &b, mr, new), IBV_WC_REM_ACCESS_ERR);
        assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
                                      old, 4096, ACCESS),
                         0);
    }
    assert_int_equal(ibv_dereg_mr(mr), 0);
    side_down(&a);
    side_down(&b);
}

static void test_child(void **state)
{
    (void)state;
    struct side a, b;
    int status;

    side_up(&a, names[0]);
    side_up(&b, names[1]);
    connect_sides(&a, &b);
    pid_t child = fork();
    if (!child) {
        struct ibv_wc wc;
        _exit(ibv_poll_cq(a.r.cq, 1, &wc) < 0 && ibv_poll_cq(b.r.cq, 1, &wc) < 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    write_over(&b, &a, 5);
    side_down(&b);
    side_down(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices), cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_apart), cmocka_unit_test(test_changed_region),
                                       cmocka_unit_test(test_child)};
    /* Here, since what builds and runs tests takes semicolons for its own. */
    /* Addresses of its own. At a shared one, another test's process gets some of the packets, to pass them
     * on, and it may not run for a while. */
    setenv("GPUWIRE_NIC", "addr=127.0.80.1,seed=5;addr=127.0.80.2,mtu=1024;addr=127.0.80.1,hostile=1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
