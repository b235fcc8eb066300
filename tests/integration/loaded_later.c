/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This program loads libibverbs and librdmacm at run time, from any file, and links neither. A queue pair
 * sends itself a message. Then an rdma_cm id listens.
 *     loaded_later [--install SOFTNIC] [--first LIBIBVERBS] [--apart] LIBIBVERBS [LIBRDMACM ADDRESS]
 * --install: attaches the software NIC by its own call. --first: another one lists devices before that.
 * --apart: loads into a link namespace of its own, and does no more.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

static void *load(const char *path)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (lib) return lib;
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* A function of that library, with the type that its header gives it. */
#define FROM(lib, name) ((__typeof__(&(name)))dlsym(lib, #name))

static struct ibv_context *open_first(void *lib)
{
    int n = 0;
    struct ibv_device **list = FROM(lib, ibv_get_device_list)(&n);
    if (!list || !n) {
        fprintf(stderr, "no device\n");
        exit(2);
    }
    struct ibv_context *ctx = FROM(lib, ibv_open_device)(list[0]);
    if (!ctx) fail("ibv_open_device");
    FROM(lib, ibv_free_device_list)(list);
    return ctx;
}

static void connect_to_itself(void *lib, struct ibv_context *ctx, struct ibv_qp *qp)
{
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE};
    __typeof__(&ibv_modify_qp) modify = FROM(lib, ibv_modify_qp);

    if (modify(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) fail("INIT");
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num};
    a.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
    a.ah_attr.grh.hop_limit = 64;
    if (FROM(lib, ibv_query_gid)(ctx, 1, 0, &a.ah_attr.grh.dgid)) fail("ibv_query_gid");
    if (modify(qp, &a,
               IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
        fail("RTR");
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
    if (modify(qp, &a,
               IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                   IBV_QP_MAX_QP_RD_ATOMIC))
        fail("RTS");
}

static void send_to_itself(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr, char *text)
{
    struct ibv_sge from = {(uintptr_t)text, 64, mr->lkey}, to = {(uintptr_t)text + 64, 64, mr->lkey};
    struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad_recv;
    struct ibv_send_wr send = {.sg_list = &from,
                               .num_sge = 1,
                               .opcode = IBV_WR_SEND,
                               .send_flags = IBV_SEND_SIGNALED},
                       *bad_send;
    struct ibv_wc wc;

    if (ibv_post_recv(qp, &recv, &bad_recv) || ibv_post_send(qp, &send, &bad_send)) fail("posting");
    for (int done = 0; done < 2;) {
        if (!ibv_poll_cq(cq, 1, &wc)) continue;
        if (wc.status) {
            fprintf(stderr, "a completion with status %d\n", wc.status);
            exit(1);
        }
        done++;
    }
    if (memcmp(text, text + 64, 64)) {
        fprintf(stderr, "other bytes arrived\n");
        exit(1);
    }
}

/* As the kernel would tell it, of a NIC that is open. */
static void print_counter(const char *name)
{
    char path[128], text[32] = "";
    snprintf(path, sizeof(path), "/sys/class/infiniband/mlx5_0/ports/1/counters/%s", name);
    FILE *f = fopen(path, "r");
    if (f && fgets(text, sizeof(text), f)) printf("%s %s", name, text);
    if (f) fclose(f);
}

static void use_verbs(void *lib)
{
    static char text[128] = "from a queue pair to itself";
    struct ibv_context *ctx = open_first(lib);
    struct ibv_pd *pd = FROM(lib, ibv_alloc_pd)(ctx);
    if (!pd) fail("ibv_alloc_pd");
    struct ibv_mr *mr = (FROM(lib, ibv_reg_mr))(pd, text, sizeof(text), IBV_ACCESS_LOCAL_WRITE);
    struct ibv_cq *cq = FROM(lib, ibv_create_cq)(ctx, 8, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
    init.cap = (struct ibv_qp_cap){.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
    struct ibv_qp *qp = mr && cq ? FROM(lib, ibv_create_qp)(pd, &init) : NULL;
    if (!qp) fail("ibv_create_qp");
    connect_to_itself(lib, ctx, qp);
    send_to_itself(qp, cq, mr, text);
    print_counter("port_xmit_packets");
    FROM(lib, ibv_destroy_qp)(qp);
    FROM(lib, ibv_destroy_cq)(cq);
    FROM(lib, ibv_dereg_mr)(mr);
    FROM(lib, ibv_dealloc_pd)(pd);
    if (FROM(lib, ibv_close_device)(ctx)) fail("ibv_close_device");
}

static void listen_there(void *lib, const char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    struct rdma_cm_id *id;
    struct rdma_event_channel *channel = FROM(lib, rdma_create_event_channel)();

    if (!channel) fail("rdma_create_event_channel");
    if (FROM(lib, rdma_create_id)(channel, &id, NULL, RDMA_PS_TCP)) fail("rdma_create_id");
    inet_pton(AF_INET, address, &at.sin_addr);
    if (FROM(lib, rdma_bind_addr)(id, (struct sockaddr *)&at)) fail("rdma_bind_addr");
    if (FROM(lib, rdma_listen)(id, 1)) fail("rdma_listen");
    FROM(lib, rdma_destroy_id)(id);
    FROM(lib, rdma_destroy_event_channel)(channel);
}

static void install(const char *softnic)
{
    int (*attach)(void) = (int (*)(void))dlsym(load(softnic), "softnic_install");
    if (!attach || attach()) fail("softnic_install");
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"install", required_argument, NULL, 'i'},
                                            {"first", required_argument, NULL, 'f'},
                                            {"apart", no_argument, NULL, 'a'},
                                            {NULL, 0, NULL, 0}};
    const char *softnic = NULL, *first = NULL;
    bool apart = false;

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'i': softnic = optarg; break;
        case 'f': first = optarg; break;
        case 'a': apart = true; break;
        default: return 2;
        }
    }
    if (optind == argc) return 2;
    if (apart) return dlmopen(LM_ID_NEWLM, argv[optind], RTLD_NOW) ? 0 : 1;
    if (softnic) install(softnic);
    if (first) use_verbs(load(first));
    void *verbs = load(argv[optind]);
    if (softnic) install(softnic); /* once more, for what was loaded since */
    use_verbs(verbs);
    if (argc - optind > 2) {
        void *cm = load(argv[optind + 1]);
        if (softnic) install(softnic);
        listen_there(cm, argv[optind + 2]);
    }
    printf("ok\n");
    return 0;
}
