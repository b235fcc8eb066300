/* SPDX-License-Identifier: Apache-2.0 */
/* gw_send_to_op, gw_with_imm and the others of verbs_ud.h; gw_qp_activate, gw_ah_create, gw_ah_destroy:
 * datagrams, which need no connection. */
#include <stdio.h>
#include <stdlib.h>

#include "datagram.h"
#include "options.h"

#include <gpuwire/verbs.h>

#define QKEY 0x4711u

/* A queue pair with its CQs and memory. */
struct side {
    struct gw_cq *send_cq, *recv_cq;
    struct gw_qp *qp;
    struct gw_mem mem;
    struct gw_mr *mr;
};

static struct gw_exec *exec;
static struct gw_device *dev;
static struct gw_pd *pd;

static void must(int err, const char *what)
{
    if (!err) return;
    fprintf(stderr, "%s: %s\n", what, gw_last_error());
    exit(1);
}

static struct end make_side(struct side *s)
{
    struct gw_cq_attr ca = {.cqe = 256, .flags = GW_CQ_SLEEP};
    struct gw_qp_attr qa = {.max_send_wr = 32, .max_recv_wr = 16, .type = GW_QP_UD};

    must(gw_cq_create(dev, &ca, &s->send_cq), "completion queue");
    must(gw_cq_create(dev, &ca, &s->recv_cq), "completion queue");
    qa.send_cq = s->send_cq;
    qa.recv_cq = s->recv_cq;
    must(gw_qp_create(pd, &qa, &s->qp), "queue pair");
    must(gw_qp_activate(s->qp, QKEY), "queue pair");
    must(gw_mem_alloc(exec, GW_MEM_HOST, BYTES, &s->mem), "memory");
    must(gw_mr_register(pd, s->mem.host, BYTES, 0, &s->mr), "memory region");
    return (struct end){gw_qp_handle(s->qp), gw_cq_handle(s->send_cq), gw_cq_handle(s->recv_cq),
                        s->mr->addr,         (uint64_t *)s->mem.dev,   s->mr->lkey,
                        s->mr->rkey};
}

static void free_side(struct side *s)
{
    must(gw_qp_destroy(s->qp), "queue pair");
    must(gw_cq_destroy(s->send_cq) || gw_cq_destroy(s->recv_cq), "completion queue");
    must(gw_mr_free(s->mr), "memory region");
    gw_mem_free(&s->mem);
}

/* All three are on this host, so that there is one way; a server with peers elsewhere has one to each. */
static struct gw_ah *make_route(const struct side *s, struct route *route)
{
    struct gw_endpoint self;
    struct gw_ah *ah;

    gw_qp_endpoint(s->qp, &self);
    must(gw_ah_create(pd, &self, NULL, &ah), "address handle");
    memcpy(route->gid, self.gid, sizeof(route->gid));
    route->ah = ah->handle;
    return ah;
}

static int run(const struct gw_kernel *kernel, uint32_t threads, const struct datagrams *d,
               const struct gw_mem *result)
{
    int err;

    *(int *)result->host = -ECANCELED; /* until the kernel has said otherwise */
    must(gw_launch(exec, kernel, 1, threads, d), "kernel");
    must(gw_exec_sync(exec, gw_deadline(6 * LIMIT)), "kernel");
    err = *(int *)result->host;
    printf("%s on %s: result %d, %s\n", kernel->name, gw_exec_name(exec), err,
           err ? "WRONG" : "as it must be");
    return err;
}

int main(int argc, char **argv)
{
    struct datagrams d = {.qkey = QKEY};
    struct gw_mem result;
    struct side side[3];
    struct gw_ah *ah;
    int err;

    test_options(argc, argv);
    exec = test_exec();
    must(gw_device_open(NULL, exec, &dev), "network device");
    must(gw_pd_create(dev, &pd), "protection domain");
    for (int i = 0; i < 3; i++) {
        d.end[i] = make_side(&side[i]);
        d.qpn[i] = gw_qp_num(side[i].qp);
    }
    ah = make_route(&side[0], &d.route);
    must(gw_mem_alloc(exec, GW_MEM_HOST, sizeof(int), &result), "memory");
    d.result = (int *)result.dev;
    err = run(&datagram, 1, &d, &result);
    if (!err) err = run(&datagram_warp, 32, &d, &result);
    gw_mem_free(&result);
    must(gw_ah_destroy(ah), "address handle");
    for (int i = 0; i < 3; i++) free_side(&side[i]);
    must(gw_pd_destroy(pd), "protection domain");
    must(gw_device_close(dev), "network device");
    must(gw_exec_destroy(exec), "executor");
    return err != 0;
}
