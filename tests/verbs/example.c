/* SPDX-License-Identifier: Apache-2.0 */
/* The program of docs/verbs.md: a kernel writes "hello" to a peer by RDMA. Here the peer is the same program.
 */
#include <stdio.h>
#include <string.h>

#include "tests/exec/options.h"
#include "tests/verbs/example.h"

#include <gpuwire/verbs.h>

GW_KERNEL_DECLARE(hello_kernel);

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, gw_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    struct gw_cq_attr ca = {.cqe = 64, .flags = GW_CQ_SLEEP};
    struct gw_qp_attr qa = {.max_send_wr = 16, .max_recv_wr = 16};
    struct gw_endpoint ep[2];
    struct hello_args args;
    struct gw_device *dev;
    struct gw_mem mem, out;
    struct gw_cq *cq[2];
    struct gw_qp *qp[2];
    struct gw_mr *mr;
    struct gw_pd *pd;
    char text[GW_ENDPOINT_TEXT];
    int result = -1;

    test_options(argc, argv);
    struct gw_exec *exec = test_exec();

    /* Everything is made before a kernel runs. */
    if (gw_device_open(NULL, exec, &dev)) return fail("no network device");
    if (gw_pd_create(dev, &pd)) return fail("protection domain");
    for (int i = 0; i < 2; i++) {
        if (gw_cq_create(dev, &ca, &cq[i])) return fail("completion queue");
        qa.send_cq = qa.recv_cq = cq[i];
        if (gw_qp_create(pd, &qa, &qp[i])) return fail("queue pair");
        gw_qp_endpoint(qp[i], &ep[i]);
    }
    if (gw_mem_alloc(exec, GW_MEM_HOST, 4096, &mem)) return fail("memory");
    if (gw_mr_register(pd, mem.host, 4096, 0, &mr)) return fail("memory region");
    if (gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(result), &out)) return fail("memory");

    /* Endpoints travel as text, by whatever means there are: HTTP, a file, a telephone. */
    for (int i = 0; i < 2; i++) {
        gw_endpoint_format(&ep[i], text);
        if (gw_endpoint_parse(text, &ep[i]) || gw_qp_connect(qp[!i], &ep[i], NULL)) return fail("connecting");
    }

    strcpy(mem.host, "hello");
    args = (struct hello_args){gw_qp_handle(qp[0]),
                               gw_qp_handle(qp[1]),
                               gw_cq_handle(cq[0]),
                               gw_cq_handle(cq[1]),
                               mr->addr,
                               mr->addr + 2048,
                               mr->lkey,
                               mr->rkey,
                               6,
                               out.dev};
    if (gw_launch(exec, &hello_kernel, 1, 1, &args)) return fail("kernel");
    if (gw_exec_sync(exec, gw_deadline(10000000000u))) return fail("kernel");
    gw_copy_out(exec, &result, out.dev, sizeof(result));
    printf("on %s, from %s: %s (%d)\n", gw_exec_name(exec), text, (char *)mem.host + 2048, result);

    for (int i = 0; i < 2; i++) gw_qp_destroy(qp[i]);
    for (int i = 0; i < 2; i++) gw_cq_destroy(cq[i]);
    gw_mr_free(mr);
    gw_pd_destroy(pd);
    gw_device_close(dev);
    int same = !strcmp((char *)mem.host + 2048, "hello");
    gw_mem_free(&mem);
    gw_mem_free(&out);
    return gw_exec_destroy(exec) || result || !same;
}
