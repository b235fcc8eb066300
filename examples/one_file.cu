/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel and its host program in one file, compiled by nvcc alone. The kernel writes through a queue pair
 * that is connected to itself. It runs on a GPU; a kernel that is to run on CPU threads as well takes a C
 * file, too (put_get.c).
 */
#include <stdio.h>
#include <stdlib.h>

#include <gpuwire/verbs.h>

#define LIMIT 10000000000u /* nanoseconds */

struct copy_args {
    struct gw_qp_handle *qp;
    struct gw_cq_handle *cq;
    uint64_t addr;
    uint32_t lkey, rkey;
    int *result;
};

GW_KERNEL(copy_word, struct copy_args, a)
{
    struct ibv_wc wc;
    int err;

    if (gw_global_idx()) return;
    err = gw_post_op(a->qp, gw_put_op(a->addr, a->lkey, a->addr + 8, a->rkey, 8), GW_SIGNALED, 1);
    if (!err) err = gw_wait_cq(a->cq, 1, &wc, gw_clock_ns() + LIMIT, NULL, -1);
    *a->result = err == 1 && wc.status == IBV_WC_SUCCESS ? 0 : err < 0 ? err : -EIO;
}

static void must(int ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "%s: %s\n", what, gw_last_error());
    exit(1);
}

int main(int argc, char **argv)
{
    const char *where = argc > 1 ? argv[1] : "gpu";
    char why[256];
    struct gw_cq_attr ca = {};
    struct gw_qp_attr qa = {};
    struct gw_endpoint ep;
    struct gw_device *dev;
    struct gw_exec *exec;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_mem mem;
    struct gw_mr *mr;

    if (where[0] == 'g' && !gw_exec_gpu_available(why, sizeof(why))) {
        printf("skipped: %s\n", why);
        return 77;
    }
    must(!gw_exec_create(where, NULL, &exec), "executor");
    must(!gw_device_open(NULL, exec, &dev) && !gw_pd_create(dev, &pd), "network device");
    ca.cqe = 64;
    must(!gw_cq_create(dev, &ca, &cq), "completion queue");
    qa.max_send_wr = qa.max_recv_wr = 16;
    qa.send_cq = qa.recv_cq = cq;
    must(!gw_qp_create(pd, &qa, &qp), "queue pair");
    gw_qp_endpoint(qp, &ep);
    must(!gw_qp_connect(qp, &ep, NULL), "connecting");
    must(!gw_mem_alloc(exec, GW_MEM_HOST, 4096, &mem) && !gw_mr_register(pd, mem.host, 4096, 0, &mr),
         "memory");

    uint64_t *word = (uint64_t *)mem.host;
    struct copy_args args = {gw_qp_handle(qp), gw_cq_handle(cq), mr->addr,
                             mr->lkey,         mr->rkey,         (int *)mem.dev + 4};
    word[0] = 42;
    must(!gw_launch(exec, &copy_word, 1, 1, &args), "launch");
    must(!gw_exec_sync(exec, gw_deadline(2 * (uint64_t)LIMIT)), "kernel");
    printf("the kernel ended with %d and wrote %llu\n", ((int *)mem.host)[4], (unsigned long long)word[1]);
    int ok = !((int *)mem.host)[4] && word[1] == 42;

    must(!gw_qp_destroy(qp) && !gw_cq_destroy(cq) && !gw_mr_free(mr) && !gw_pd_destroy(pd), "the end");
    gw_device_close(dev);
    gw_mem_free(&mem);
    return gw_exec_destroy(exec) || !ok;
}
