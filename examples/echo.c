/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An echo whose sides are kernels. Where docs/sockets.md's tutorial ends.
 *
 *     echo cpu|gpu tcp|rdma PORT [HOST]     with HOST: says something there; without: answers
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include <gpuwire/verbs.h>

#include "echo.h"

static void must(int ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "%s: %s\n", what, gw_last_error());
    exit(1);
}

int main(int argc, char **argv)
{
    struct gw_exec_opts opts = {.lanes = 4}; /* threads of a block, on CPU threads */
    struct gw_sockets_attr attr = {.count = 4};
    struct echo_args args = {.addr.sin_family = AF_INET};
    struct gw_host_server *server;
    struct gw_sockets *set;
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_mem mem;

    if (argc != 4 && argc != 5)
        return fprintf(stderr, "usage: %s cpu|gpu tcp|rdma PORT [HOST]\n", argv[0]), 2;
    attr.rdma = strcmp(argv[2], "rdma") ? GW_RDMA_OFF : GW_RDMA_ONLY;
    args.addr.sin_port = htons((uint16_t)atoi(argv[3]));
    if (argc == 5 && inet_pton(AF_INET, argv[4], &args.addr.sin_addr) != 1)
        return fprintf(stderr, "%s: no address\n", argv[4]), 2;
    must(!gw_exec_create(argv[1], &opts, &exec), "executor");
    must(!gw_device_open(NULL, exec, &dev), "network device");
    must(!gw_sockets_create(dev, &attr, &set), "sockets");
    must(!gw_host_open(exec, NULL, &server), "host's server");
    must(!gw_mem_alloc(exec, GW_MEM_HOST, sizeof(int), &mem), "memory");
    args.net = gw_sockets_net(set);
    args.host = gw_host_handle(server);
    args.result = (int *)mem.dev;

    must(!gw_launch(exec, argc == 5 ? &echo_client : &echo_server, 1, 64, &args), "kernel");
    must(!gw_exec_sync(exec, gw_deadline(20 * (uint64_t)LIMIT)), "kernel");
    int result = *(int *)mem.host;
    if (result) fprintf(stderr, "the kernel ended with: %s\n", strerror(-result));

    must(!gw_host_close(server) && !gw_sockets_destroy(set) && !gw_device_close(dev), "the end");
    gw_mem_free(&mem);
    return gw_exec_destroy(exec) || result;
}
