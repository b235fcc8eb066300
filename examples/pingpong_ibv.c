/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ping-pong with libibverbs and librdmacm alone: where docs/tutorial.md begins.
 *
 *     pingpong_ibv PORT          waits for the other
 *     pingpong_ibv PORT HOST     sends it numbers, which come back one larger
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <rdma/rdma_cma.h>

#define ROUNDS 1000

static uint64_t word[2]; /* [0] arrives, [1] leaves */

static void must(int ok, const char *what)
{
    if (ok) return;
    perror(what);
    exit(1);
}

static void post_recv(struct ibv_qp *qp, struct ibv_mr *mr)
{
    struct ibv_sge sge = {(uintptr_t)&word[0], 8, mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

    must(!ibv_post_recv(qp, &wr, &bad), "receive");
}

static void post_send(struct ibv_qp *qp, struct ibv_mr *mr)
{
    struct ibv_sge sge = {(uintptr_t)&word[1], 8, mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;

    must(!ibv_post_send(qp, &wr, &bad), "send");
}

static void wait_one(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    int n;

    while (!(n = ibv_poll_cq(cq, 1, &wc)))
        ;
    must(n == 1 && wc.status == IBV_WC_SUCCESS, "completion");
}

static void pingpong(struct rdma_cm_id *id, struct ibv_mr *mr, int client)
{
    for (uint64_t i = 0; i < ROUNDS; i++) {
        if (client) {
            word[1] = i;
            post_send(id->qp, mr);
            wait_one(id->send_cq);
        }
        wait_one(id->recv_cq);
        must(!client || word[0] == i + 1, "what came back");
        word[1] = word[0] + 1;
        post_recv(id->qp, mr); /* for the next, before the other can send it */
        if (client) continue;
        post_send(id->qp, mr);
        wait_one(id->send_cq);
    }
}

int main(int argc, char **argv)
{
    int client = argc == 3;
    struct rdma_addrinfo hints = {.ai_flags = client ? 0 : RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *where;
    struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    struct rdma_conn_param param = {
        .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
    struct rdma_cm_id *id, *listener = NULL;
    struct ibv_mr *mr;

    if (argc != 2 && argc != 3) return fprintf(stderr, "usage: %s PORT [HOST]\n", argv[0]), 2;
    if (strtol(argv[1], NULL, 10) < 1 || strtol(argv[1], NULL, 10) > 65535)
        return fprintf(stderr, "port %s: must be a number from 1 to 65535\n", argv[1]), 2;
    if (rdma_getaddrinfo(client ? argv[2] : NULL, argv[1], &hints, &where))
        return fprintf(stderr, "%s, port %s: no such address\n", client ? argv[2] : "any", argv[1]), 1;
    must(!rdma_create_ep(&id, where, NULL, &attr), "endpoint");
    if (!client) {
        listener = id;
        must(!rdma_listen(listener, 1) && !rdma_get_request(listener, &id), "listening");
    }
    must((mr = ibv_reg_mr(id->pd, word, sizeof(word), IBV_ACCESS_LOCAL_WRITE)) != NULL, "memory region");
    post_recv(id->qp, mr);
    must(!(client ? rdma_connect(id, &param) : rdma_accept(id, &param)), "connecting");
    pingpong(id, mr, client);
    printf("%d round trips\n", ROUNDS);

    rdma_disconnect(id);
    ibv_dereg_mr(mr);
    rdma_destroy_ep(id);
    if (listener) rdma_destroy_ep(listener);
    rdma_freeaddrinfo(where);
    return 0;
}
