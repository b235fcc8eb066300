/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gw_qp_set_create, gw_qp_set_handle, gw_qp_to: queue pairs by the rank of the peer. Four ranks, which as
 * programs would be one each and exchange their records; here they are blocks of one kernel.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ranks.h"
#include "options.h"

#include <gpuwire/verbs.h>

#define EACH 2

static struct gw_device *dev;
static struct gw_pd *pd;
static struct gw_cq *cq[RANKS];
static struct gw_qp *qp[RANKS][RANKS][EACH]; /* of a rank, to a rank */

static void must(int err, const char *what)
{
    if (!err) return;
    fprintf(stderr, "%s: %s\n", what, gw_last_error());
    exit(1);
}

static void make_queue_pairs(void)
{
    struct gw_cq_attr ca = {.cqe = 512};
    struct gw_qp_attr qa = {.max_send_wr = 16, .max_recv_wr = 1};

    for (int r = 0; r < RANKS; r++) {
        must(gw_cq_create(dev, &ca, &cq[r]), "completion queue");
        qa.send_cq = qa.recv_cq = cq[r];
        for (int to = 0; to < RANKS; to++)
            for (int i = 0; i < EACH && to != r; i++)
                must(gw_qp_create(pd, &qa, &qp[r][to][i]), "queue pair");
    }
    for (int r = 0; r < RANKS; r++)
        for (int to = 0; to < RANKS; to++)
            for (int i = 0; i < EACH && to != r; i++) {
                struct gw_endpoint ep;

                gw_qp_endpoint(qp[to][r][i], &ep);
                must(gw_qp_connect(qp[r][to][i], &ep, NULL), "connecting");
            }
}

int main(int argc, char **argv)
{
    struct gw_qp_set *set[RANKS];
    struct gw_mem mem[RANKS], result;
    struct gw_mr *mr[RANKS];
    struct gw_exec *exec;
    struct ranks args;
    int wrong = 0;

    test_options(argc, argv);
    exec = test_exec();
    must(gw_device_open(NULL, exec, &dev) || gw_pd_create(dev, &pd), "network device");
    make_queue_pairs();
    must(gw_mem_alloc(exec, GW_MEM_HOST, RANKS * sizeof(int), &result), "memory");
    args.result = (int *)result.dev;
    for (int r = 0; r < RANKS; r++) {
        must(gw_qp_set_create(dev, &qp[r][0][0], RANKS, EACH, &set[r]), "set");
        must(gw_mem_alloc(exec, GW_MEM_HOST, BYTES, &mem[r]) ||
                 gw_mr_register(pd, mem[r].host, BYTES, 0, &mr[r]),
             "memory");
        args.rank[r].set = gw_qp_set_handle(set[r]);
        args.rank[r].word = (uint64_t *)mem[r].dev;
        args.rank[r].addr = mr[r]->addr;
        args.rank[r].lkey = mr[r]->lkey;
        ((int *)result.host)[r] = -ECANCELED; /* until the kernel has said otherwise */
    }
    for (int r = 0; r < RANKS; r++)
        for (int to = 0; to < RANKS; to++) {
            args.rank[r].there[to] = mr[to]->addr;
            args.rank[r].rkey[to] = mr[to]->rkey;
        }
    must(gw_launch(exec, &ranks, RANKS, 1, &args) || gw_exec_sync(exec, gw_deadline(6 * LIMIT)), "kernel");
    for (int r = 0; r < RANKS; r++) {
        wrong |= ((int *)result.host)[r];
        for (uint64_t from = 0; from < RANKS; from++)
            wrong |= ((uint64_t *)mem[r].host)[from] != ((int)from == r ? 0 : 100 + from);
    }
    printf("on %s: %d ranks, %s\n", gw_exec_name(exec), RANKS, wrong ? "WRONG" : "as it must be");

    for (int r = 0; r < RANKS; r++) {
        must(gw_qp_set_destroy(set[r]), "set");
        for (int to = 0; to < RANKS; to++)
            for (int i = 0; i < EACH; i++) must(gw_qp_destroy(qp[r][to][i]), "queue pair");
        must(gw_cq_destroy(cq[r]) || gw_mr_free(mr[r]), "memory");
        gw_mem_free(&mem[r]);
    }
    gw_mem_free(&result);
    must(gw_pd_destroy(pd) || gw_device_close(dev) || gw_exec_destroy(exec), "the end");
    return wrong != 0;
}
