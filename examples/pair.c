/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "pair.h"
#include "options.h"

#include <gpuwire/verbs.h>

struct pair {
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *send_cq[2], *recv_cq[2];
    struct gw_qp *qp[2];
    struct gw_mem mem[2], result;
    struct gw_mr *mr[2];
};

/* Ends the program if err is not 0. */
static void must(int err, const char *what)
{
    if (!err) return;
    fprintf(stderr, "%s: %s\n", what, gw_last_error());
    exit(1);
}

static void make_side(struct pair *p, int i)
{
    struct gw_cq_attr ca = {.cqe = 256, .flags = GW_CQ_SLEEP};
    struct gw_qp_attr qa = {.max_send_wr = 128, .max_recv_wr = 16};

    must(gw_cq_create(p->dev, &ca, &p->send_cq[i]), "completion queue");
    must(gw_cq_create(p->dev, &ca, &p->recv_cq[i]), "completion queue");
    qa.send_cq = p->send_cq[i];
    qa.recv_cq = p->recv_cq[i];
    must(gw_qp_create(p->pd, &qa, &p->qp[i]), "queue pair");
    must(gw_mem_alloc(p->exec, GW_MEM_HOST, BYTES, &p->mem[i]), "memory");
    must(gw_mr_register(p->pd, p->mem[i].host, BYTES, 0, &p->mr[i]), "memory region");
}

struct pair *pair_open(int argc, char **argv)
{
    struct pair *p = (struct pair *)calloc(1, sizeof(*p));
    struct gw_endpoint ep[2];

    if (!p) exit(1);
    test_options(argc, argv);
    p->exec = test_exec();
    must(gw_device_open(NULL, p->exec, &p->dev), "network device");
    must(gw_pd_create(p->dev, &p->pd), "protection domain");
    for (int i = 0; i < 2; i++) make_side(p, i);
    must(gw_mem_alloc(p->exec, GW_MEM_HOST, sizeof(int), &p->result), "memory");
    for (int i = 0; i < 2; i++) gw_qp_endpoint(p->qp[i], &ep[i]);
    for (int i = 0; i < 2; i++) must(gw_qp_connect(p->qp[i], &ep[!i], NULL), "connecting");
    return p;
}

uint64_t *pair_memory(struct pair *p, int side)
{
    return (uint64_t *)p->mem[side].host;
}

struct gw_qp *pair_qp(struct pair *p, int side)
{
    return p->qp[side];
}

static struct end end_of(const struct pair *p, int i)
{
    return (struct end){gw_qp_handle(p->qp[i]), gw_cq_handle(p->send_cq[i]), gw_cq_handle(p->recv_cq[i]),
                        p->mr[i]->addr,         (uint64_t *)p->mem[i].dev,   p->mr[i]->lkey,
                        p->mr[i]->rkey};
}

int pair_run(struct pair *p, const struct gw_kernel *kernel, uint32_t threads)
{
    struct ends args = {end_of(p, 0), end_of(p, 1), (int *)p->result.dev};
    int *result = (int *)p->result.host;

    *result = -ECANCELED; /* until the kernel has said otherwise */
    must(gw_launch(p->exec, kernel, 1, threads, &args), "kernel");
    must(gw_exec_sync(p->exec, gw_deadline(2 * LIMIT)), "kernel");
    return *result;
}

int pair_close(struct pair *p, int ok)
{
    printf("on %s: result %d, %s\n", gw_exec_name(p->exec), *(int *)p->result.host,
           ok ? "as it must be" : "WRONG");
    for (int i = 0; i < 2; i++) {
        must(gw_qp_destroy(p->qp[i]), "queue pair");
        must(gw_cq_destroy(p->send_cq[i]) || gw_cq_destroy(p->recv_cq[i]), "completion queue");
        must(gw_mr_free(p->mr[i]), "memory region");
        gw_mem_free(&p->mem[i]);
    }
    gw_mem_free(&p->result);
    must(gw_pd_destroy(p->pd), "protection domain");
    must(gw_device_close(p->dev), "network device");
    must(gw_exec_destroy(p->exec), "executor");
    free(p);
    return !ok;
}
