/* SPDX-License-Identifier: Apache-2.0 */
/* The host's part of gpunet_client and gpunet_server: it makes the sockets, launches the kernel and looks at
 * how its blocks ended. In GPUnet's programs this is gpunet_init, <<<…>>> and gpunet_loop. */
#include "gpunet.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include <gpuwire/verbs.h>

#define SECOND  UINT64_C(1000000000)
#define SOCKETS (NR_TB + 1)

static void must(int err, const char *what)
{
    if (!err) return;
    fprintf(stderr, "%s: %s\n", what, gw_last_error());
    exit(1);
}

/* How many blocks failed. It prints the first error. */
static int failed(const int *ended, int blocks)
{
    int i, n = 0;

    for (i = 0; i < blocks; i++)
        if (ended[i] && !n++) fprintf(stderr, "block %d ended with: %s\n", i, strerror(-ended[i]));
    return n;
}

static int run(struct gw_exec *exec, const struct sockaddr_in *addr, int blocks, uint32_t rdma,
               const struct gw_kernel *kernel)
{
    struct gw_sockets_attr attr = {.count = SOCKETS, .rdma = rdma};
    struct gpunet_example_args args = {.nr_tb = blocks};
    struct gw_mem gpunet, at, table;
    struct gw_sockets *set;
    struct gw_device *dev;
    int *ended, i, n;

    must(gw_device_open(NULL, exec, &dev), "network device");
    must(gw_sockets_create(dev, &attr, &set), "sockets");
    must(gpunet_open(exec, gw_sockets_net(set), NULL, SOCKETS, 20 * SECOND, &gpunet), "GPUnet's calls");
    must(gw_mem_alloc(exec, GW_MEM_HOST, sizeof(*addr), &at), "memory");
    must(gw_mem_alloc(exec, GW_MEM_HOST, (NR_TB + 1) * sizeof(int), &table), "memory");
    memcpy(at.host, addr, sizeof(*addr));
    ended = (int *)table.host;
    for (i = 0; i <= NR_TB; i++) ended[i] = NOT_YET;
    args.gpunet = (struct gpunet *)gpunet.dev;
    args.addr = (struct sockaddr_in *)at.dev;
    args.tb_alloc_tbl = (int *)table.dev;

    must(gw_launch(exec, kernel, (uint32_t)blocks, 256, &args), "kernel");
    must(gw_exec_sync(exec, gw_deadline(100 * SECOND)), "kernel");
    n = failed(ended, blocks);

    gw_mem_free(&table);
    gw_mem_free(&at);
    gw_mem_free(&gpunet);
    must(gw_sockets_destroy(set), "sockets");
    must(gw_device_close(dev), "network device");
    return n;
}

int gpunet_example(int argc, char **argv, const struct gw_kernel *kernel)
{
    struct gw_exec_opts opts = {.lanes = 1}; /* __shared__ in C is a thread's own: blocks have one thread */
    struct sockaddr_in addr = {.sin_family = AF_INET};
    struct gw_exec *exec;
    int blocks = argc > 3 ? atoi(argv[3]) : 0, n;

    if ((argc != 5 && argc != 6) || blocks < 1 || blocks > NR_TB)
        return fprintf(stderr, "usage: %s cpu|gpu tcp|rdma BLOCKS PORT [HOST]\n", argv[0]), 2;
    addr.sin_port = htons((uint16_t)atoi(argv[4]));
    if (argc == 6 && inet_pton(AF_INET, argv[5], &addr.sin_addr) != 1)
        return fprintf(stderr, "%s: no address\n", argv[5]), 2;
    must(gw_exec_create(argv[1], &opts, &exec), "executor");
    n = run(exec, &addr, blocks, strcmp(argv[2], "rdma") ? GW_RDMA_OFF : GW_RDMA_ONLY, kernel);
    must(gw_exec_destroy(exec), "executor");
    if (!n) printf("%d blocks: all went well\n", blocks);
    return n != 0;
}
