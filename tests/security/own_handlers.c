/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_handlers HOW [LIBRARY]: a program sets handlers of its own after it has opened the device. A peer
 * (another queue pair of it) reaches memory that has gone since. That fails as a request, and is no
 * signal. A fault of the program's own reaches its own handler. HOW: sigaction, signal, sysv_signal, sigset,
 * chain (as run-time systems do), ignore (a sent SIGSEGV is ignored). LIBRARY: loads the software NIC at run
 * time; otherwise it is preloaded.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <infiniband/verbs.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum { LENGTH = 4096 };

static sigjmp_buf back;
static volatile int handled;
static struct sigaction chain;
static void *forbidden;

static void must(int ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

/* ---- handlers ------------------------------------------------------------------------------------------ */

static void handler(int sig)
{
    (void)sig;
    handled++;
    siglongjmp(back, 1);
}

/* Knows the faults of one place. All others go to the handler that was there before. */
static void chaining(int sig, siginfo_t *info, void *ctx)
{
    if (info->si_addr == forbidden) handler(sig);
    if (chain.sa_flags & SA_SIGINFO) chain.sa_sigaction(sig, info, ctx);
    if (!(chain.sa_flags & SA_SIGINFO) && chain.sa_handler == SIG_DFL) signal(sig, SIG_DFL);
}

static void set_handlers(const char *how)
{
    struct sigaction a = {.sa_handler = handler}, old;

    sigemptyset(&a.sa_mask);
    if (!strcmp(how, "sigaction")) {
        must(!sigaction(SIGSEGV, &a, &old) && old.sa_handler == SIG_DFL,
             "sigaction tells the program's own handler");
    } else if (!strcmp(how, "signal")) {
        must(signal(SIGSEGV, handler) == SIG_DFL, "signal");
        must(signal(SIGSEGV, handler) == handler, "signal tells the program's own handler");
    } else if (!strcmp(how, "sysv_signal")) {
        must(sysv_signal(SIGSEGV, handler) == SIG_DFL, "sysv_signal");
    } else if (!strcmp(how, "sigset")) {
        must(sigset(SIGSEGV, handler) == SIG_DFL, "sigset");
    } else if (!strcmp(how, "chain")) {
        a.sa_sigaction = chaining;
        a.sa_flags = SA_SIGINFO;
        must(!sigaction(SIGSEGV, &a, &chain), "sigaction");
    } else {
        must(!strcmp(how, "ignore") && !sigignore(SIGSEGV), "sigignore");
    }
}

/* ---- one queue pair, connected to itself --------------------------------------------------------------- */

static struct ibv_qp *connected_qp(struct ibv_context *ctx, struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .cap = {4, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);

    must(qp != NULL, "ibv_create_qp");
    must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "INIT");
    memset(&attr, 0, sizeof(attr));
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = qp->qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    must(!ibv_query_gid(ctx, 1, 0, &attr.ah_attr.grh.dgid), "ibv_query_gid");
    must(!ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    must(!ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                            IBV_QP_MAX_QP_RD_ATOMIC),
         "RTS");
    return qp;
}

static enum ibv_wc_status write_to(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *from,
                                   struct ibv_mr *to)
{
    struct ibv_sge sge = {(uintptr_t)from->addr, LENGTH, from->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {(uintptr_t)to->addr, to->rkey}},
                       *bad;
    struct ibv_wc wc;
    int n;

    must(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
    do n = ibv_poll_cq(cq, 1, &wc);
    while (n == 0);
    must(n == 1, "ibv_poll_cq");
    return wc.status;
}

static void *page(void)
{
    void *at = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    must(at != MAP_FAILED, "mmap");
    return at;
}

static void install(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
    int (*softnic_install)(void) = handle ? (int (*)(void))dlsym(handle, "softnic_install") : NULL;

    must(softnic_install && !softnic_install(), "the library can be loaded");
}

static struct ibv_context *open_device(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *ctx;

    must(list && list[0], "there is a device");
    ctx = ibv_open_device(list[0]);
    must(ctx != NULL, "ibv_open_device");
    ibv_free_device_list(list);
    return ctx;
}

int main(int argc, char **argv)
{
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, ignores;
    struct ibv_context *ctx;
    struct ibv_mr *from, *to;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;

    must(argc > 1, "it is told how");
    ignores = !strcmp(argv[1], "ignore");
    signal(SIGSEGV, SIG_DFL); /* a sanitizer has one */
    if (argc > 2) install(argv[2]);
    ctx = open_device();
    forbidden = page();
    mprotect(forbidden, LENGTH, PROT_NONE);
    pd = ibv_alloc_pd(ctx);
    cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
    must(pd && cq, "there are a protection domain and a completion queue");
    from = ibv_reg_mr(pd, page(), LENGTH, access);
    to = ibv_reg_mr(pd, page(), LENGTH, access);
    must(from && to, "memory can be registered");
    qp = connected_qp(ctx, pd, cq);
    set_handlers(argv[1]); /* after all objects were made */
    must(write_to(qp, cq, from, to) == IBV_WC_SUCCESS, "a write to memory succeeds");
    mprotect(to->addr, LENGTH, PROT_NONE);
    must(write_to(qp, cq, from, to) != IBV_WC_SUCCESS, "a write to memory that is gone fails");
    must(!handled, "the program's handler does not see it");
    if (ignores) raise(SIGSEGV);
    if (!ignores && !sigsetjmp(back, 1)) *(volatile char *)forbidden = 1;
    must(ignores || handled == 1, "the program's handler sees the program's faults");
    printf("%s: ok\n", argv[1]);
    return 0;
}
