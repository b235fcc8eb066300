/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_socket_serve WHAT PORT|PATH [N [BLOCKS]]: a kernel that serves programs of the host until standard
 * input ends, or asks one N times. It says how many requests were answered.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <gpuwire/verbs.h>

#include "tests/socket/serve_kernels.h"

GW_KERNEL_DECLARE(serve_kernel);

#define LIMIT_NS 60000000000u
#define BLOCKS   16

static int stop(const char *what)
{
    fprintf(stderr, "test_socket_serve: %s: %s\n", what, gw_last_error());
    return 1;
}

#define WHATS "echo|http|redis|memcached|ask-memcached|ask-redis|ask-http|ask-echo"

static int what_of(const char *name)
{
    static const char *const names[SERVE_WHATS] = {
        [SERVE_ECHO] = "echo",
        [SERVE_HTTP] = "http",
        [SERVE_REDIS] = "redis",
        [SERVE_MEMCACHED] = "memcached",
        [ASK_MEMCACHED] = "ask-memcached",
        [ASK_REDIS] = "ask-redis",
        [ASK_HTTP] = "ask-http",
        [ASK_ECHO] = "ask-echo",
    };

    for (int i = 0; i < SERVE_WHATS; i++)
        if (!strcmp(name, names[i])) return i;
    return -1;
}

static void address(const char *at, struct serve_args *a)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};

    if (*at == '/') {
        snprintf(un.sun_path, sizeof(un.sun_path), "%s", at);
        memcpy(&a->addr, &un, a->len = sizeof(un));
    } else {
        in.sin_port = htons((uint16_t)atoi(at));
        memcpy(&a->addr, &in, a->len = sizeof(in));
    }
}

static void until_input_ends(void)
{
    char c;

    while (read(0, &c, 1) > 0) continue;
}

static int run(struct gw_exec *exec, struct serve_args *a, uint32_t blocks)
{
    int64_t result[BLOCKS] = {0}, sum = 0;
    struct gw_mem mem, work;
    int32_t none = -1;

    if (gw_mem_alloc(exec, GW_MEM_HOST, 4096, &mem)) return stop("memory");
    if (gw_mem_alloc(exec, GW_MEM_DEVICE, blocks * sizeof(struct serve_block), &work)) return stop("memory");
    a->stop = mem.dev;
    a->listener = (int32_t *)mem.dev + 1;
    a->result = (int64_t *)mem.dev + 1;
    a->block = work.dev;
    memcpy((int32_t *)mem.host + 1, &none, sizeof(none));
    if (gw_launch(exec, &serve_kernel, blocks, 32, a)) return stop("launch");
    if (a->what < ASK_MEMCACHED) until_input_ends();
    gw_st_release_u32(mem.host, 1);
    if (gw_exec_sync(exec, gw_deadline(LIMIT_NS))) return stop("kernel");
    memcpy(result, (int64_t *)mem.host + 1, blocks * sizeof(int64_t));
    gw_mem_free(&mem);
    gw_mem_free(&work);
    for (uint32_t i = 0; i < blocks; i++) {
        if (result[i] < 0) fprintf(stderr, "test_socket_serve: block %u: %s\n", i, strerror((int)-result[i]));
        if (result[i] < 0) return 1;
        sum += result[i];
    }
    printf("%lld requests\n", (long long)sum);
    return 0;
}

int main(int argc, char **argv)
{
    int what = argc > 2 ? what_of(argv[1]) : -1, rc;
    uint32_t blocks = argc > 4 ? (uint32_t)atoi(argv[4]) : 1;
    struct gw_sockets_attr attr = {.count = 256, .rbuf = 32768, .wbuf = 32768};
    struct serve_args a = {.limit_ns = LIMIT_NS, .n = argc > 3 ? (uint32_t)atoi(argv[3]) : 1};
    struct gw_exec_opts opts = {.blocks = BLOCKS};
    struct gw_sockets *set;

    if (what < 0 || !blocks || blocks > BLOCKS) {
        fprintf(stderr, "usage: test_socket_serve " WHATS " PORT|PATH [N [BLOCKS]]\n");
        return 2;
    }
    a.what = (uint32_t)what;
    address(argv[2], &a);
    if (gw_exec_create("cpu", &opts, &attr.exec)) return stop("executor");
    if (gw_sockets_create(NULL, &attr, &set)) return stop("sockets");
    a.net = gw_sockets_net(set);
    rc = run(attr.exec, &a, blocks);
    gw_sockets_destroy(set);
    gw_exec_destroy(attr.exec);
    return rc;
}
