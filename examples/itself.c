/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gw_endpoint_format, gw_endpoint_parse, gw_mr_rekey, gw_cq_wait, gw_device_progress, gw_qp_abort: A CPU
 * thread alone, without a kernel, gives its memory new keys. It writes through a queue pair that is connected
 * to itself. It sleeps until there is a completion, and takes the queue pair down.
 */
#include <stdio.h>
#include <stdlib.h>

#include <gpuwire/verbs.h>

#define LIMIT 10000000000u /* nanoseconds */

static void must(int ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "%s: %s\n", what, gw_last_error());
    exit(1);
}

/* As a peer would get to know where it is. */
static void connect_to_itself(struct gw_qp *qp)
{
    char text[GW_ENDPOINT_TEXT];
    struct gw_endpoint ep;

    gw_qp_endpoint(qp, &ep);
    gw_endpoint_format(&ep, text);
    printf("%s\n", text);
    must(!gw_endpoint_parse(text, &ep) && ep.qpn == gw_qp_num(qp), "endpoint");
    must(!gw_qp_connect(qp, &ep, NULL), "connecting");
}

int main(void)
{
    _Alignas(4096) static uint64_t word[512];
    struct gw_cq_attr ca = {.cqe = 64, .flags = GW_CQ_SLEEP};
    struct gw_qp_attr qa = {.max_send_wr = 16, .max_recv_wr = 16};
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_mr *mr;
    struct ibv_wc wc;
    uint32_t old;
    int n;

    must(!gw_device_open(NULL, NULL, &dev), "network device");
    must(!gw_pd_create(dev, &pd) && !gw_cq_create(dev, &ca, &cq), "completion queue");
    qa.send_cq = qa.recv_cq = cq;
    must(!gw_qp_create(pd, &qa, &qp) && !gw_mr_register(pd, word, sizeof(word), 0, &mr), "queue pair");
    connect_to_itself(qp);

    /* As between two peers: a late request with the old key writes nothing. */
    old = mr->rkey;
    must(!gw_mr_rekey(mr) && mr->rkey != old, "new keys");

    word[0] = 42;
    must(!gw_post_op(gw_qp_handle(qp), gw_put_op(mr->addr, mr->lkey, mr->addr + 8, mr->rkey, 8), GW_SIGNALED,
                     1),
         "write");
    gw_device_progress(dev); /* a software NIC may use this thread; a real one needs no thread */
    must(gw_cq_wait(cq, gw_deadline(LIMIT), NULL, -1) == 1, "nothing in ten seconds");
    must(gw_poll_cq(gw_cq_handle(cq), 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS && word[1] == 42,
         "what was written");

    /* Taken down: what was posted comes back flushed. */
    must(!gw_recv_empty(gw_qp_handle(qp), 1, 7) && !gw_qp_abort(qp), "taking it down");
    n = gw_wait_cq(gw_cq_handle(cq), 1, &wc, gw_deadline(LIMIT), NULL, -1);
    must(n == 1 && wc.wr_id == 7 && wc.status == IBV_WC_WR_FLUSH_ERR, "the receive");
    printf("wrote %llu to itself\n", (unsigned long long)word[1]);

    must(!gw_qp_destroy(qp) && !gw_cq_destroy(cq) && !gw_mr_free(mr) && !gw_pd_destroy(pd), "the end");
    return gw_device_close(dev);
}
