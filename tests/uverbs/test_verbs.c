/* SPDX-License-Identifier: Apache-2.0 */
/* The device through unmodified libibverbs and libmlx5, in this process. */
#include "tests/uverbs/rig.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_queries(void **state)
{
    (void)state;
    struct rig r;
    struct ibv_device_attr attr;
    struct ibv_device_attr_ex ex;
    struct ibv_port_attr port;
    struct mlx5dv_context dv = {0};

    rig_up(&r);
    assert_int_equal(ibv_query_device(r.ctx, &attr), 0);
    assert_int_equal(attr.phys_port_cnt, 1);
    assert_true(attr.max_qp > 1000 && attr.max_qp_wr >= 1024 && attr.max_sge >= 4);
    assert_int_equal(attr.node_guid, ibv_get_device_guid(r.ctx->device));
    assert_int_equal(ibv_query_device_ex(r.ctx, NULL, &ex), 0);
    assert_memory_equal(&ex.orig_attr.node_guid, &attr.node_guid, 8);
    assert_int_equal(ibv_query_port(r.ctx, 1, &port), 0);
    assert_int_equal(port.state, IBV_PORT_ACTIVE);
    assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    assert_int_equal(port.gid_tbl_len, 4);
    assert_int_equal(ibv_query_port(r.ctx, 2, &port), EINVAL);
    assert_int_equal(r.gid.raw[10], 0xff);
    assert_int_equal(r.gid.raw[12], 127);
    assert_int_equal(mlx5dv_query_device(r.ctx, &dv), 0);
    assert_true(dv.flags & MLX5DV_CONTEXT_FLAGS_CQE_V1);
    rig_down(&r);
}

static void test_loop_write(void **state)
{
    (void)state;
    struct rig r;

    rig_up(&r);
    struct ibv_qp *qp = rig_qp(&r, r.cq);
    rig_connect(&r, qp, qp->qp_num);
    for (int i = 0; i < 20000; i++) r.buf[i] = (unsigned char)(i * 7 + i / 256);
    for (uint64_t id = 1; id <= 200; id++) { /* several times around a queue of 16 */
        memset(r.buf + 32768, 0, 20000);
        assert_int_equal(rig_write(qp, &r, 0, 32768, 20000, id), 0);
        struct ibv_wc wc = rig_poll(r.cq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, id);
        assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
        assert_memory_equal(r.buf, r.buf + 32768, 20000);
    }
    assert_int_equal(ibv_destroy_qp(qp), 0);
    rig_down(&r);
}

static void test_send_receive_imm(void **state)
{
    (void)state;
    struct rig r;

    rig_up(&r);
    struct ibv_qp *a = rig_qp(&r, r.cq), *b = rig_qp(&r, r.cq);
    rig_connect(&r, a, b->qp_num);
    rig_connect(&r, b, a->qp_num);
    struct ibv_sge to = {.addr = (uintptr_t)r.buf + 4096, .length = 4096, .lkey = r.mr->lkey};
    struct ibv_sge from = {.addr = (uintptr_t)r.buf, .length = 3000, .lkey = r.mr->lkey};
    struct ibv_recv_wr rwr = {.wr_id = 5, .sg_list = &to, .num_sge = 1}, *bad_r;
    struct ibv_send_wr swr = {.wr_id = 6,
                              .opcode = IBV_WR_SEND_WITH_IMM,
                              .send_flags = IBV_SEND_SIGNALED,
                              .imm_data = htobe32(0x12345678),
                              .sg_list = &from,
                              .num_sge = 1},
                       *bad_s;
    memset(r.buf, 0x5a, 3000);
    assert_int_equal(ibv_post_recv(b, &rwr, &bad_r), 0);
    assert_int_equal(ibv_post_send(a, &swr, &bad_s), 0);
    for (int i = 0; i < 2; i++) {
        struct ibv_wc wc = rig_poll(r.cq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        if (wc.wr_id == 6) continue;
        assert_int_equal(wc.wr_id, 5);
        assert_int_equal(wc.byte_len, 3000);
        assert_int_equal(be32toh(wc.imm_data), 0x12345678);
        assert_int_equal(wc.qp_num, b->qp_num);
    }
    assert_memory_equal(r.buf, r.buf + 4096, 3000);
    assert_int_equal(ibv_destroy_qp(a), 0);
    assert_int_equal(ibv_destroy_qp(b), 0);
    rig_down(&r);
}

static void test_read_and_atomics(void **state)
{
    (void)state;
    struct rig r;
    struct ibv_device_attr dev;

    rig_up(&r);
    assert_int_equal(ibv_query_device(r.ctx, &dev), 0);
    assert_int_equal(dev.atomic_cap, IBV_ATOMIC_HCA);
    struct ibv_qp *qp = rig_qp(&r, r.cq);
    rig_connect(&r, qp, qp->qp_num);
    uint64_t *remote = (uint64_t *)r.buf, *local = (uint64_t *)(r.buf + 4096);
    struct ibv_sge sge = {.addr = (uintptr_t)local, .length = 8, .lkey = r.mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .wr.atomic = {.remote_addr = (uintptr_t)remote,
                                           .rkey = r.mr->rkey,
                                           .compare_add = 5}},
                       *bad;
    *remote = 0x1122334455667788;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    struct ibv_wc wc = rig_poll(r.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_FETCH_ADD);
    assert_true(*local == 0x1122334455667788 && *remote == 0x112233445566778d); /* host byte order, both */
    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.wr.atomic.compare_add = 0x112233445566778d;
    wr.wr.atomic.swap = 42;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    assert_int_equal(rig_poll(r.cq).status, IBV_WC_SUCCESS);
    assert_true(*local == 0x112233445566778d && *remote == 42);
    memset(r.buf + 8192, 0x77, 20000);
    sge = (struct ibv_sge){.addr = (uintptr_t)r.buf + 32768, .length = 20000, .lkey = r.mr->lkey};
    wr.opcode = IBV_WR_RDMA_READ;
    wr.wr.rdma.remote_addr = (uintptr_t)r.buf + 8192;
    wr.wr.rdma.rkey = r.mr->rkey;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    wc = rig_poll(r.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
    assert_memory_equal(r.buf + 8192, r.buf + 32768, 20000);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    rig_down(&r);
}

/* A wrong key: the work request fails, the queue pair with it, a completion says so, and nothing was
 * written. */
static void test_wrong_key(void **state)
{
    (void)state;
    struct rig r;

    rig_up(&r);
    struct ibv_qp *qp = rig_qp(&r, r.cq);
    rig_connect(&r, qp, qp->qp_num);
    struct ibv_sge sge = {.addr = (uintptr_t)r.buf, .length = 64, .lkey = r.mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 3,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .wr.rdma = {.remote_addr = (uintptr_t)r.buf + 4096, .rkey = r.mr->rkey ^ 0x100}},
                       *bad;
    memset(r.buf, 0x99, 64);
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    struct ibv_wc wc = rig_poll(r.cq);
    assert_int_equal(wc.wr_id, 3);
    assert_int_not_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(r.buf[4096], 0);
    /* The responder's side, the same queue pair here, tells of the access too: an event that is not read is
     * no reason for destroy to wait. */
    assert_int_equal(ibv_destroy_qp(qp), 0);
    rig_down(&r);
}

static void test_events(void **state)
{
    (void)state;
    struct rig r;
    struct ibv_cq *got;
    void *context;

    rig_up(&r);
    struct ibv_comp_channel *ch = ibv_create_comp_channel(r.ctx);
    assert_non_null(ch);
    struct ibv_cq *cq = ibv_create_cq(r.ctx, 16, &r, ch, 0), *other = ibv_create_cq(r.ctx, 16, NULL, ch, 0);
    assert_non_null(cq);
    assert_non_null(other);
    struct ibv_qp *qp = rig_qp(&r, cq), *qp2 = rig_qp(&r, other);
    rig_connect(&r, qp, qp->qp_num);
    rig_connect(&r, qp2, qp2->qp_num);
    struct pollfd p = {.fd = ch->fd, .events = POLLIN};
    for (uint64_t id = 0; id < 20; id++) {
        assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
        assert_int_equal(poll(&p, 1, 0), 0); /* armed, and nothing has happened */
        assert_int_equal(rig_write(qp, &r, 0, 4096, 64, id), 0);
        assert_int_equal(poll(&p, 1, 1000 * RIG_WAIT_S), 1);
        assert_int_equal(ibv_get_cq_event(ch, &got, &context), 0);
        assert_ptr_equal(got, cq);
        assert_ptr_equal(context, &r);
        ibv_ack_cq_events(cq, 1);
        assert_int_equal(rig_poll(cq).wr_id, id);
        /* Not armed now: no event. */
        assert_int_equal(rig_write(qp, &r, 0, 4096, 64, id), 0);
        assert_int_equal(rig_poll(cq).wr_id, id);
        assert_int_equal(poll(&p, 1, 0), 0);
    }
    /* Unread events of both: destroying one must not wait for them, nor take the other's away. */
    assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
    assert_int_equal(ibv_req_notify_cq(other, 0), 0);
    assert_int_equal(rig_write(qp, &r, 0, 4096, 64, 1), 0);
    assert_int_equal(rig_poll(cq).wr_id, 1);
    assert_int_equal(rig_write(qp2, &r, 0, 4096, 64, 2), 0);
    assert_int_equal(rig_poll(other).wr_id, 2);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(poll(&p, 1, 1000 * RIG_WAIT_S), 1);
    assert_int_equal(ibv_get_cq_event(ch, &got, &context), 0);
    assert_ptr_equal(got, other);
    ibv_ack_cq_events(other, 1);
    assert_int_equal(poll(&p, 1, 0), 0);
    assert_int_equal(ibv_destroy_qp(qp2), 0);
    assert_int_equal(ibv_destroy_cq(other), 0);
    assert_int_equal(ibv_destroy_comp_channel(ch), 0);
    rig_down(&r);
}

static void test_refusals(void **state)
{
    (void)state;
    struct rig r;

    rig_up(&r);
    struct ibv_qp *qp = rig_qp(&r, r.cq);
    assert_int_equal(ibv_dealloc_pd(r.pd), EBUSY);
    assert_int_equal(ibv_destroy_cq(r.cq), EBUSY);
    errno = 0;
    assert_null(ibv_reg_mr(r.pd, (void *)4096, 4096, 0));
    assert_int_equal(errno, EFAULT);
    void *ro = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_null(ibv_reg_mr(r.pd, ro, 4096, IBV_ACCESS_LOCAL_WRITE));
    struct ibv_mr *mr = ibv_reg_mr(r.pd, ro, 4096, 0);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(ro, 4096);
    /* Remote write implies local write, says the specification. */
    assert_null(ibv_reg_mr(r.pd, r.buf, 64, IBV_ACCESS_REMOTE_WRITE));
    struct ibv_qp_init_attr a = {
        .send_cq = r.cq, .recv_cq = r.cq, .qp_type = IBV_QPT_RAW_PACKET, .cap = {4, 4, 1, 1, 0}};
    assert_null(ibv_create_qp(r.pd, &a));
    assert_int_equal(errno, EOPNOTSUPP);
    /* Out of turn: RESET to RTS. */
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_RTS};
    assert_int_equal(ibv_modify_qp(qp, &to, IBV_QP_STATE), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    rig_down(&r);
}

static void test_query_qp(void **state)
{
    (void)state;
    struct rig r;
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr init;

    rig_up(&r);
    struct ibv_qp *qp = rig_qp(&r, r.cq);
    assert_int_equal(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), 0);
    assert_int_equal(a.qp_state, IBV_QPS_RESET);
    rig_connect(&r, qp, 0x123456);
    assert_int_equal(ibv_query_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV, &init), 0);
    assert_int_equal(a.qp_state, IBV_QPS_RTS);
    assert_int_equal(a.path_mtu, IBV_MTU_1024);
    assert_int_equal(a.dest_qp_num, 0x123456);
    assert_int_equal(a.rq_psn, 77);
    assert_int_equal(a.timeout, 14);
    assert_int_equal(a.retry_cnt, 7);
    assert_int_equal(a.min_rnr_timer, 12);
    assert_memory_equal(&a.ah_attr.grh.dgid, &r.gid, 16);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    rig_down(&r);
}

enum { THREADS = 6, THREAD_ROUNDS = 12, THREAD_BYTES = 3000 };

struct worker {
    struct rig *rig;
    uint32_t place; /* of its part of the buffer */
    int failed;     /* cmocka's assertions work in the main thread only */
};

/* Makes a queue pair and a completion queue of its own, uses them, destroys them, again and again. */
static void *work(void *arg)
{
    struct worker *w = arg;
    unsigned char *from = w->rig->buf + w->place, *to = from + THREAD_BYTES;

    for (int round = 0; round < THREAD_ROUNDS && !w->failed; round++) {
        struct ibv_cq *cq = ibv_create_cq(w->rig->ctx, 16, NULL, NULL, 0);
        struct ibv_qp *qp = rig_qp(w->rig, cq);
        rig_connect(w->rig, qp, qp->qp_num);
        for (int i = 0; i < 8; i++) {
            struct ibv_wc wc;
            memset(from, round * 8 + i + 1, THREAD_BYTES);
            w->failed |= rig_write(qp, w->rig, w->place, w->place + THREAD_BYTES, THREAD_BYTES, 1) != 0;
            double end = rig_seconds() + RIG_WAIT_S;
            int n;
            while (!(n = ibv_poll_cq(cq, 1, &wc)) && rig_seconds() < end)
                ;
            w->failed |= n != 1 || wc.status != IBV_WC_SUCCESS || memcmp(from, to, THREAD_BYTES) != 0;
        }
        w->failed |= ibv_destroy_qp(qp) != 0;
        w->failed |= ibv_destroy_cq(cq) != 0;
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct rig r;
    struct worker w[THREADS];
    pthread_t id[THREADS];

    rig_up(&r);
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.rig = &r, .place = (uint32_t)i * 2 * THREAD_BYTES};
        assert_int_equal(pthread_create(&id[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(id[i], NULL), 0);
        assert_int_equal(w[i].failed, 0);
    }
    rig_down(&r);
}

/* Contexts don't see each other's objects, and closing one frees what it forgot. */
static void test_two_contexts(void **state)
{
    (void)state;
    struct rig r;

    rig_up(&r);
    struct ibv_context *second = rig_open();
    rig_forget_begin();
    struct ibv_pd *pd = ibv_alloc_pd(second);
    assert_non_null(pd);
    uint32_t own = pd->handle;
    pd->handle = r.pd->handle; /* another context's */
    errno = 0;
    assert_null(ibv_reg_mr(pd, r.buf, 64, 0));
    assert_int_equal(errno, EINVAL);
    pd->handle = own;
    assert_non_null(ibv_reg_mr(pd, r.buf, 64, 0));
    assert_non_null(ibv_create_cq(second, 8, NULL, NULL, 0));
    rig_forget_end();
    assert_int_equal(ibv_close_device(second), 0);
    assert_int_equal(softnic_uninstall(), -EBUSY);
    rig_down(&r);
    assert_int_equal(softnic_uninstall(), 0);
}

static void test_fork(void **state)
{
    (void)state;
    struct rig r;
    int status;

    rig_up(&r);
    struct ibv_qp *qp = rig_qp(&r, r.cq);
    rig_connect(&r, qp, qp->qp_num);
    pid_t pid = fork();
    if (!pid) {
        struct ibv_wc wc;
        alarm(RIG_WAIT_S);
        int bad = 0;
        bad |= ibv_alloc_pd(r.ctx) != NULL || errno != EIO;
        bad |= (rig_write(qp, &r, 0, 64, 64, 1) != EIO) << 1;
        bad |= (ibv_poll_cq(r.cq, 1, &wc) >= 0) << 2;
        ibv_close_device(r.ctx);
        _exit(bad);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(rig_write(qp, &r, 0, 4096, 64, 9), 0);
    assert_int_equal(rig_poll(r.cq).wr_id, 9);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    rig_down(&r);
}

/* A child that opens the device itself has a NIC of its own, which reaches the parent's. */
static int own_nic(int fd, const struct rig *parents, uint32_t peer)
{
    struct rig r;

    rig_up(&r);
    struct ibv_qp *qp = rig_qp(&r, r.cq);
    rig_connect(&r, qp, peer);
    if (write(fd, &qp->qp_num, sizeof(qp->qp_num)) != sizeof(qp->qp_num)) return 1;
    if (read(fd, r.buf, 1) != 1) return 2; /* the parent is connected, too */
    memset(r.buf, 0x3c, 64);
    struct ibv_sge sge = {.addr = (uintptr_t)r.buf, .length = 64, .lkey = r.mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .wr.rdma = {(uintptr_t)parents->buf, parents->mr->rkey}},
                       *bad;
    if (ibv_post_send(qp, &wr, &bad) || rig_poll(r.cq).status != IBV_WC_SUCCESS) return 3;
    if (ibv_destroy_qp(qp)) return 4;
    rig_down(&r);
    return 0;
}

static void test_fork_opens(void **state)
{
    (void)state;
    struct rig r;
    int status, pair[2];
    uint32_t number;

    rig_up(&r);
    struct ibv_qp *qp = rig_qp(&r, r.cq);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t pid = fork();
    if (!pid) {
        close(pair[0]);
        alarm(2 * RIG_WAIT_S);
        _exit(own_nic(pair[1], &r, qp->qp_num));
    }
    close(pair[1]);
    assert_int_equal(read(pair[0], &number, sizeof(number)), sizeof(number));
    rig_connect(&r, qp, number);
    assert_int_equal(write(pair[0], "", 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    for (int i = 0; i < 64; i++) assert_int_equal(r.buf[i], 0x3c);
    close(pair[0]);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    rig_down(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queries),          cmocka_unit_test(test_loop_write),
        cmocka_unit_test(test_send_receive_imm), cmocka_unit_test(test_events),
        cmocka_unit_test(test_refusals),         cmocka_unit_test(test_query_qp),
        cmocka_unit_test(test_two_contexts),     cmocka_unit_test(test_fork),
        cmocka_unit_test(test_fork_opens),       cmocka_unit_test(test_read_and_atomics),
        cmocka_unit_test(test_wrong_key),        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
