/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_socket_peer server|client|rio-server|rio-client ADDRESS PORT SIZE ITERATIONS COUNT [block|warp|thread
 * [LANES [BUFFER]]]: a kernel that is the other end of librdmacm's rstream, or of riostream. Exit code 0: all
 * that was said has been said and heard.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/verbs.h>

#include "tests/socket/rio_kernels.h"
#include "tests/socket/socket_kernels.h"

GW_KERNEL_DECLARE(rstream_kernel);
GW_KERNEL_DECLARE(rio_kernel);

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

/* Launches a kernel that leaves its result at the beginning of mem. */
static int run(struct gw_exec *exec, const struct gw_kernel *kernel, const void *args,
               const struct gw_mem *mem)
{
    int64_t result = -1;

    if (gw_launch(exec, kernel, 1, 1024, args)) return stop("launch");
    if (gw_exec_sync(exec, gw_deadline(60000000000u))) return stop("kernel");
    if (gw_copy_out(exec, &result, mem->dev, sizeof(result))) return stop("copy");
    if (!result) return 0;
    fprintf(stderr, "test_socket_peer: %s\n", strerror((int)-result));
    return 1;
}

static int run_rstream(struct gw_exec *exec, struct gw_net *net, const struct sockaddr_in *addr, char **argv,
                       enum gw_group form)
{
    struct rstream_args a = {.net = net,
                             .addr = *addr,
                             .server = !strcmp(argv[1], "server"),
                             .size = (uint32_t)atoi(argv[4]),
                             .iterations = (uint32_t)atoi(argv[5]),
                             .count = (uint32_t)atoi(argv[6]),
                             .form = form,
                             .limit_ns = LIMIT_NS};
    struct gw_mem mem;
    int rc;

    if (gw_mem_alloc(exec, GW_MEM_DEVICE, a.size + 64, &mem)) return stop("memory");
    a.result = mem.dev;
    a.buffer = (uint8_t *)mem.dev + 64;
    rc = run(exec, &rstream_kernel, &a, &mem);
    gw_mem_free(&mem);
    return rc;
}

static int run_rio(struct gw_exec *exec, struct gw_sockets *set, const struct sockaddr_in *addr, char **argv,
                   enum gw_group form)
{
    struct rio_args a = {.net = gw_sockets_net(set),
                         .addr = *addr,
                         .server = !strcmp(argv[1], "rio-server"),
                         .size = (uint32_t)atoi(argv[4]),
                         .iterations = (uint32_t)atoi(argv[5]),
                         .count = (uint32_t)atoi(argv[6]),
                         .form = form,
                         .limit_ns = LIMIT_NS};
    struct gw_mem mem, window;
    struct gw_mr *mr;
    int rc;

    if (gw_mem_alloc(exec, GW_MEM_DEVICE, a.size + 128, &mem)) return stop("memory");
    if (gw_mem_alloc(exec, GW_MEM_HOST, a.size, &window)) return stop("memory");
    if (gw_sockets_map(set, window.host, a.size, &mr)) return stop("window");
    a.result = mem.dev;
    a.buffer = (uint8_t *)mem.dev + 64;
    a.window = window.dev;
    a.window_addr = mr->addr;
    a.rkey = mr->rkey;
    rc = run(exec, &rio_kernel, &a, &mem);
    gw_mr_free(mr);
    gw_mem_free(&window);
    gw_mem_free(&mem);
    return rc;
}

int main(int argc, char **argv)
{
    struct gw_exec_opts opts = {.lanes = argc > 8 ? (uint32_t)atoi(argv[8]) : 1};
    enum gw_group form = form_of(argc > 7 ? argv[7] : "block");
    struct gw_sockets_attr attr = {.count = 4, .rdma = GW_RDMA_ONLY};
    struct sockaddr_in addr = {.sin_family = AF_INET};
    struct gw_sockets *set;
    struct gw_device *dev;
    struct gw_exec *exec;
    int rc, rio;

    if (argc < 7) {
        fprintf(stderr,
                "usage: test_socket_peer [rio-]server|[rio-]client ADDRESS PORT SIZE ITERATIONS COUNT "
                "[block|warp|thread [LANES [BUFFER]]]\n");
        return 2;
    }
    rio = !strncmp(argv[1], "rio-", 4);
    attr.maps = rio ? 1 : 0;
    addr.sin_port = htons((uint16_t)atoi(argv[3]));
    if (inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1) return stop("no such address");
    if (argc > 9) attr.rbuf = attr.wbuf = (uint32_t)atoi(argv[9]);
    if (gw_exec_create("cpu", &opts, &exec)) return stop("executor");
    if (gw_device_open("softnic", exec, &dev)) return stop("device");
    if (gw_sockets_create(dev, &attr, &set)) return stop("sockets");
    rc = rio ? run_rio(exec, set, &addr, argv, form)
             : run_rstream(exec, gw_sockets_net(set), &addr, argv, form);
    gw_sockets_destroy(set);
    gw_device_close(dev);
    gw_exec_destroy(exec);
    return rc;
}
