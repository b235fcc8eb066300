/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ping-pong of pingpong_ibv.c, played by a kernel; the two programs meet by address and port
 * (gw_cm_listen, gw_cm_next, gw_cm_accept, gw_cm_connect, gw_cm_close). Where docs/tutorial.md ends.
 *
 *     pingpong_kernel cpu|gpu PORT [HOST]
 */
#include <stdio.h>
#include <stdlib.h>

#include "pingpong_kernel.h"

#include <gpuwire/connect.h>

static void must(int ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "%s: %s\n", what, gw_last_error());
    exit(1);
}

/* 1 … 65535, or the end of the program. */
static uint16_t port_of(const char *said)
{
    char *end;
    unsigned long port = strtoul(said, &end, 10);

    if (*said >= '0' && *said <= '9' && !*end && port >= 1 && port <= 65535) return (uint16_t)port;
    fprintf(stderr, "port %s: must be a number from 1 to 65535\n", said);
    exit(2);
}

static struct gw_link *meet(struct gw_device *dev, struct gw_qp *qp, uint16_t port, const char *host)
{
    struct gw_listener *listener;
    struct gw_request *request;
    struct gw_link *link;

    if (host) {
        must(!gw_cm_connect(qp, host, port, NULL, NULL, -1, gw_deadline(LIMIT), NULL, &link), "connecting");
        return link;
    }
    must(!gw_cm_listen(dev, NULL, port, &listener), "listening");
    must(!gw_cm_next(listener, -1, gw_deadline(6 * LIMIT), &request), "waiting for the other");
    must(!gw_cm_accept(request, qp, NULL, NULL, -1, gw_deadline(LIMIT), &link), "accepting");
    gw_cm_unlisten(listener);
    return link;
}

int main(int argc, char **argv)
{
    struct gw_cq_attr ca = {.cqe = 64, .flags = GW_CQ_SLEEP};
    struct gw_qp_attr qa = {.max_send_wr = 4, .max_recv_wr = 4};
    struct pingpong_args args = {.client = argc == 4};
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_qp *qp;
    struct gw_mem mem;
    struct gw_mr *mr;
    struct gw_link *link;
    uint16_t port;

    if (argc != 3 && argc != 4) return fprintf(stderr, "usage: %s cpu|gpu PORT [HOST]\n", argv[0]), 2;
    port = port_of(argv[2]);
    must(!gw_exec_create(argv[1], NULL, &exec), "executor");
    must(!gw_device_open(NULL, exec, &dev) && !gw_pd_create(dev, &pd), "network device");
    must(!gw_cq_create(dev, &ca, &qa.send_cq) && !gw_cq_create(dev, &ca, &qa.recv_cq), "completion queue");
    must(!gw_qp_create(pd, &qa, &qp), "queue pair");
    must(!gw_mem_alloc(exec, GW_MEM_HOST, 4096, &mem), "memory"); /* word, and the result after it */
    must(!gw_mr_register(pd, mem.host, 4096, GW_MR_LOCAL_WRITE, &mr), "memory region");

    args.qp = gw_qp_handle(qp);
    args.send_cq = gw_cq_handle(qa.send_cq);
    args.recv_cq = gw_cq_handle(qa.recv_cq);
    args.word = (uint64_t *)mem.dev;
    args.addr = mr->addr;
    args.lkey = mr->lkey;
    args.result = (int *)&args.word[2];
    link = meet(dev, qp, port, argc == 4 ? argv[3] : NULL);

    must(!gw_launch(exec, &pingpong, 1, 1, &args), "kernel");
    must(!gw_exec_sync(exec, gw_deadline(6 * LIMIT)), "kernel");
    int result = *(int *)((uint64_t *)mem.host + 2);
    if (!result) printf("%d round trips on %s\n", ROUNDS, gw_exec_name(exec));
    if (result) fprintf(stderr, "the kernel ended with %s\n", strerror(-result));

    gw_cm_close(link);
    must(!gw_qp_destroy(qp) && !gw_cq_destroy(qa.send_cq) && !gw_cq_destroy(qa.recv_cq), "queue pair");
    must(!gw_mr_free(mr) && !gw_pd_destroy(pd) && !gw_device_close(dev), "network device");
    gw_mem_free(&mem);
    return gw_exec_destroy(exec) || result;
}
