/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gw_record_of, gw_record_format, gw_record_parse, gw_qp_connect: two programs meet by a line of text each.
 * Prints its own line, reads the other's, connects, and writes a word into the other's memory. It does so
 * with the functions that kernels call: on a CPU thread they work outside kernels, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/connect.h>

#define LIMIT 10000000000u /* nanoseconds */

static void must(int ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "%s: %s\n", what, gw_last_error());
    exit(1);
}

/* Tells the other program our record and reads its. */
static void exchange(const struct gw_record *mine, struct gw_record *theirs)
{
    char text[GW_RECORD_TEXT + 1] = "";

    gw_record_format(mine, text);
    puts(text);
    fflush(stdout);
    must(fgets(text, sizeof(text), stdin) != NULL, "no line on the standard input");
    text[strcspn(text, "\n")] = 0;
    must(!gw_record_parse(text, theirs) && theirs->region.length >= 8, "the other's record");
}

int main(void)
{
    _Alignas(4096) static uint64_t word[512]; /* [0]: the other's, [1]: ours */
    struct gw_cq_attr ca = {.cqe = 64, .flags = GW_CQ_SLEEP};
    struct gw_qp_attr qa = {.max_send_wr = 16, .max_recv_wr = 16};
    struct gw_record mine, theirs;
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_mr *mr;
    struct ibv_wc wc;

    must(!gw_device_open(NULL, NULL, &dev), "network device");
    must(!gw_pd_create(dev, &pd) && !gw_cq_create(dev, &ca, &cq), "completion queue");
    qa.send_cq = qa.recv_cq = cq;
    must(!gw_qp_create(pd, &qa, &qp) && !gw_mr_register(pd, word, sizeof(word), 0, &mr), "queue pair");
    must(!gw_qp_recv_empty(qp, 1, 7), "receive"); /* before the other can connect and write */

    gw_record_of(qp, mr, &mine);
    exchange(&mine, &theirs);
    must(!gw_qp_connect(qp, &theirs.ep, NULL), "connecting");

    word[1] = 42;
    must(!gw_post_op(gw_qp_handle(qp),
                     gw_put_imm_op(mr->addr + 8, mr->lkey, theirs.region.addr, theirs.region.rkey, 8, 0),
                     GW_SIGNALED, 1),
         "write");
    for (int seen = 0; seen < 2; seen++) { /* ours is done; the other's is here */
        must(gw_wait_cq(gw_cq_handle(cq), 1, &wc, gw_deadline(LIMIT), NULL, -1) == 1,
             "nothing in ten seconds");
        must(wc.status == IBV_WC_SUCCESS && (wc.wr_id == 1 || wc.wr_id == 7), "a request failed");
    }
    fprintf(stderr, "the other wrote %llu\n", (unsigned long long)word[0]);
    int ok = word[0] == 42;

    must(!gw_qp_destroy(qp) && !gw_cq_destroy(cq) && !gw_mr_free(mr) && !gw_pd_destroy(pd), "the end");
    return gw_device_close(dev) || !ok;
}
