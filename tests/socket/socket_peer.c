/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_socket_peer server|client ADDRESS PORT SIZE ITERATIONS COUNT [block|warp|thread [LANES [BUFFER]]]: a kernel that
 * is the other end of librdmacm's rstream. Exit code 0: all that was said has been said and heard.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/socket/socket_kernels.h"

GW_KERNEL_DECLARE(rstream_kernel);

#define LIMIT_NS 60000000000u

static int stop(const char *what)
{
    fprintf(stderr, "test_socket_peer: %s: %s\n", what, gw_last_error());
    return 1;
}

static enum gw_group form_of(const char *name)
{
    return !strcmp(name, "warp") ? GW_WARP : !strcmp(name, "thread") ? GW_THREAD : GW_BLOCK;
}

static int run(struct gw_exec *exec, struct gw_net *net, int argc, char **argv)
{
    struct rstream_args a = {.net = net,
                             .server = !strcmp(argv[1], "server"),
                             .size = (uint32_t)atoi(argv[4]),
                             .iterations = (uint32_t)atoi(argv[5]),
                             .count = (uint32_t)atoi(argv[6]),
                             .form = form_of(argc > 7 ? argv[7] : "block"),
                             .limit_ns = LIMIT_NS};
    struct gw_mem mem;
    int64_t result = -1;

    a.addr.sin_family = AF_INET;
    a.addr.sin_port = htons((uint16_t)atoi(argv[3]));
    if (inet_pton(AF_INET, argv[2], &a.addr.sin_addr) != 1) return stop("no such address");
    if (gw_mem_alloc(exec, GW_MEM_DEVICE, a.size + 64, &mem)) return stop("memory");
    a.result = mem.dev;
    a.buffer = (uint8_t *)mem.dev + 64;
    if (gw_launch(exec, &rstream_kernel, 1, 1024, &a)) return stop("launch");
    if (gw_exec_sync(exec, gw_deadline(240000000000u))) return stop("kernel");
    if (gw_copy_out(exec, &result, mem.dev, sizeof(result))) return stop("copy");
    gw_mem_free(&mem);
    if (!result) return 0;
    fprintf(stderr, "test_socket_peer: %s\n", strerror((int)-result));
    return 1;
}

int main(int argc, char **argv)
{
    struct gw_exec_opts opts = {.lanes = argc > 8 ? (uint32_t)atoi(argv[8]) : 1};
    struct gw_sockets_attr attr = {.count = 4, .rdma = GW_RDMA_ONLY};
    struct gw_sockets *set;
    struct gw_device *dev;
    struct gw_exec *exec;
    int rc;

    if (argc < 7) {
        fprintf(stderr, "usage: test_socket_peer server|client ADDRESS PORT SIZE ITERATIONS COUNT "
                        "[block|warp|thread [LANES [BUFFER]]]\n");
        return 2;
    }
    if (argc > 9) attr.rbuf = attr.wbuf = (uint32_t)atoi(argv[9]);
    if (gw_exec_create("cpu", &opts, &exec)) return stop("executor");
    if (gw_device_open("softnic", exec, &dev)) return stop("device");
    if (gw_sockets_create(dev, &attr, &set)) return stop("sockets");
    rc = run(exec, gw_sockets_net(set), argc, argv);
    gw_sockets_destroy(set);
    gw_device_close(dev);
    gw_exec_destroy(exec);
    return rc;
}
