/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hammer ROUNDS: a region goes while a peer process writes to it as fast as it can. Once ibv_dereg_mr has
 * returned nothing may be written there any more, and the writer's queue pair must fail with a remote access
 * error. In every second round the region stays until something was written.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum { LENGTH = 256 << 10, DEPTH = 64 };

static void must(int ok, const char *what)
{
    if (ok) return;
    perror(what);
    exit(1);
}

struct side {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    union ibv_gid gid;
    uint8_t *mem;
    int socket;
};

struct address {
    union ibv_gid gid;
    uint32_t qpn, rkey;
    uint64_t addr;
};

static void open_side(struct side *s)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    must(list && list[0], "no device");
    s->ctx = ibv_open_device(list[0]);
    must(s->ctx != NULL, "ibv_open_device");
    ibv_free_device_list(list);
    s->pd = ibv_alloc_pd(s->ctx);
    s->cq = ibv_create_cq(s->ctx, 2 * DEPTH, NULL, NULL, 0);
    s->mem = aligned_alloc(4096, LENGTH);
    must(s->pd && s->cq && s->mem && !ibv_query_gid(s->ctx, 1, 0, &s->gid), "cannot set up");
}

static void new_qp(struct side *s)
{
    struct ibv_qp_init_attr init = {
        .send_cq = s->cq, .recv_cq = s->cq, .cap = {DEPTH, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE};

    s->qp = ibv_create_qp(s->pd, &init);
    must(s->qp != NULL, "ibv_create_qp");
    must(!ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "INIT");
}

static void connect_qp(struct side *s, const struct address *to)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = to->qpn,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = 12,
                               .ah_attr = {.is_global = 1, .port_num = 1}};

    attr.ah_attr.grh.dgid = to->gid;
    attr.ah_attr.grh.hop_limit = 1;
    must(!ibv_modify_qp(s->qp, &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    must(!ibv_modify_qp(s->qp, &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                            IBV_QP_MAX_QP_RD_ATOMIC),
         "RTS");
}

static struct address exchange(struct side *s, const struct ibv_mr *mr)
{
    struct address mine = {s->gid, s->qp->qp_num, mr->rkey, (uintptr_t)s->mem}, other;

    must(write(s->socket, &mine, sizeof(mine)) == sizeof(mine), "write");
    must(read(s->socket, &other, sizeof(other)) == sizeof(other), "read");
    return other;
}

static void barrier(struct side *s)
{
    char byte = 0;

    must(write(s->socket, &byte, 1) == 1 && read(s->socket, &byte, 1) == 1, "the other side is gone");
}

/* Writes until it fails; returns how. */
static enum ibv_wc_status write_on(struct side *s, const struct ibv_mr *mr, const struct address *to,
                                   uint64_t *done)
{
    unsigned out = 0, n = 0;

    for (;;) {
        uint32_t len = n % 3 ? LENGTH : 64;
        struct ibv_sge sge = {(uintptr_t)s->mem, len, mr->lkey};
        struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
        struct ibv_wc wc;

        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = to->addr + (len == 64 ? n % 1000 * 64 : 0);
        wr.wr.rdma.rkey = to->rkey;
        if (out < DEPTH && !ibv_post_send(s->qp, &wr, &bad)) out++, n++;
        while (ibv_poll_cq(s->cq, 1, &wc) == 1) {
            if (wc.status != IBV_WC_SUCCESS) return wc.status;
            out--;
            ++*done;
        }
    }
}

static void writer(struct side *s, int rounds)
{
    struct ibv_mr *mr = ibv_reg_mr(s->pd, s->mem, LENGTH, IBV_ACCESS_LOCAL_WRITE);
    uint64_t done = 0;

    must(mr != NULL, "ibv_reg_mr");
    memset(s->mem, 0xee, LENGTH);
    for (int i = 0; i < rounds; i++) {
        struct ibv_wc wc;

        new_qp(s);
        struct address to = exchange(s, mr);
        connect_qp(s, &to);
        barrier(s);
        enum ibv_wc_status status = write_on(s, mr, &to, &done);
        if (status != IBV_WC_REM_ACCESS_ERR) {
            printf("round %d: failed with %s\n", i, ibv_wc_status_str(status));
            exit(1);
        }
        ibv_destroy_qp(s->qp);
        while (ibv_poll_cq(s->cq, 1, &wc) == 1) {
        }
        barrier(s);
    }
    printf("%d rounds, %llu writes before regions went\n", rounds, (unsigned long long)done);
    exit(done >= (uint64_t)rounds / 2 ? 0 : 1);
}

static void sleep_us(long us)
{
    struct timespec ts = {0, us * 1000};

    nanosleep(&ts, NULL);
}

/* The writer begins with the first bytes. */
static void wait_for_a_write(const struct side *s)
{
    while (*(volatile uint8_t *)s->mem != 0xee) sleep_us(100);
}

static void owner(struct side *s, int rounds)
{
    memset(s->mem, 0x11, LENGTH);
    for (int i = 0; i < rounds; i++) {
        struct ibv_mr *mr =
            ibv_reg_mr(s->pd, s->mem, LENGTH, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

        must(mr != NULL, "ibv_reg_mr");
        new_qp(s);
        struct address to = exchange(s, mr);
        connect_qp(s, &to);
        barrier(s);
        if (i % 2) wait_for_a_write(s);
        sleep_us(500 + rand() % 20000);
        must(!ibv_dereg_mr(mr), "ibv_dereg_mr");
        memset(s->mem, 0x11, LENGTH); /* ours again */
        sleep_us(rand() % 2000);
        for (uint32_t k = 0; k < LENGTH; k++) {
            if (s->mem[k] == 0x11) continue;
            printf("round %d: byte %u was written after the region was gone\n", i, k);
            exit(1);
        }
        barrier(s);
        ibv_destroy_qp(s->qp);
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100, pair[2], status;
    struct side s = {.socket = -1};

    must(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), "socketpair");
    pid_t child = fork();
    s.socket = pair[child == 0];
    close(pair[child != 0]);
    open_side(&s);
    if (child == 0) writer(&s, rounds);
    owner(&s, rounds);
    must(waitpid(child, &status, 0) == child, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
