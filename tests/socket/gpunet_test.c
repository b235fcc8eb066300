/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUnet's calls. By itself: kernels that are each other's peers, and every call. With `client ADDRESS PORT`
 * or `server ADDRESS PORT` first: a kernel whose peer is another program. With `tcp` before all that, over
 * TCP; else over RDMA.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include <gpuwire/verbs.h>

#include "examples/options.h"
#include "tests/socket/gpunet_kernels.h"
#include "tests/socket/gpunet_run.h"
#include "tests/socket/own_nic.h"

GW_KERNEL_DECLARE(gpunet_kernel);
GW_KERNEL_DECLARE(gpunet_mark);

#define SECOND UINT64_C(1000000000)
#define BLOCKS 3

static const struct gw_kernel *const table[] = {&gpunet_mark};
static struct gw_exec *exec;
static struct gw_device *dev;
static struct gw_sockets *set;
static struct gw_host_server *host;
static struct gw_mem gpunet, mem; /* mem: results, then an address */
static uint32_t lanes;
static char address[16];
static char printed[4096];
static bool tcp;

static void must(int rc, const char *what)
{
    if (!rc) return;
    fprintf(stderr, "%s: %d, %s\n", what, rc, gw_last_error());
    exit(1);
}

static void print(void *ctx, const char *text, size_t n)
{
    (void)ctx;
    strncat(printed, text,
            n < sizeof(printed) - 1 - strlen(printed) ? n : sizeof(printed) - 1 - strlen(printed));
}

static void make_all(void)
{
    struct gw_sockets_attr sa = {.count = 16, .rdma = tcp ? GW_RDMA_OFF : GW_RDMA_ONLY};
    struct gw_host_attr ha = {.kernels = table, .count = 1, .print = print};

    exec = test_exec();
    lanes = test_block_dim(exec, 64);
    must(gw_device_open("softnic", exec, &dev), "gw_device_open");
    must(gw_sockets_create(dev, &sa, &set), "gw_sockets_create");
    must(gw_host_open(exec, &ha, &host), "gw_host_open");
    must(gpunet_open(exec, gw_sockets_net(set), gw_host_handle(host), 16, 20 * SECOND, &gpunet),
         "gpunet_open");
    must(gw_mem_alloc(exec, GW_MEM_HOST, 4096, &mem), "gw_mem_alloc");
}

static void free_all(void)
{
    gw_mem_free(&mem);
    gw_mem_free(&gpunet);
    must(gw_host_close(host), "gw_host_close");
    must(gw_sockets_destroy(set), "gw_sockets_destroy");
    must(gw_device_close(dev), "gw_device_close");
    must(gw_exec_destroy(exec), "gw_exec_destroy");
}

static struct sockaddr_in at(const char *where, uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

    inet_pton(AF_INET, where, &a.sin_addr);
    return a;
}

static const int32_t *launch(enum gpunet_role role, uint32_t blocks, struct sockaddr_in addr)
{
    struct gpunet_args a = {
        .gpunet = gpunet.dev, .addr = addr, .role = role, .connections = 1, .result = mem.dev};

    a.n = 1 + snprintf(a.name + 1, sizeof(a.name) - 1, "test_gpunet-%d", (int)getpid()); /* an abstract one */
    if (role == GN_BOTH) a.connections = blocks - 1;
    memset(mem.host, 0xff, mem.size);
    must(gw_launch(exec, &gpunet_kernel, blocks, lanes, &a), "gw_launch");
    return mem.host;
}

static void end(void)
{
    must(gw_exec_sync(exec, gw_deadline(60 * SECOND)), "gw_exec_sync");
}

static void test_echo(void **state)
{
    const int32_t *result = launch(GN_BOTH, BLOCKS, at(address, 7000));

    (void)state;
    end();
    for (int i = 0; i < BLOCKS; i++) assert_int_equal(result[GN_RESULTS * i], 0);
    assert_int_equal(gw_sockets_open(set), 0);
}

static void test_calls(void **state)
{
    static const int32_t want[] = {
        0,  -EAGAIN, -EAGAIN, -EAFNOSUPPORT, 0, 0, 1, 0, -EAGAIN, -EAGAIN, 0, 40, 40,      1,      10,
        10, 20,      's',     -EINVAL,       0, 0, 0, 0, 0,       -EBADF,  0, 77, -ENOENT, -EINVAL};
    const int32_t *got = launch(GN_CALLS, 1, at(address, 7001));

    (void)state;
    end();
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        if (i == 0 || i == 4 || i == 5)
            assert_in_range(got[i], 0, 15); /* a socket */
        else if (got[i] != (i == 3 && tcp ? 0 : want[i]))
            fail_msg("call %zu: %d, not %d", i, got[i], want[i]);
    }
    if (tcp) { /* with UNIX sockets */
        assert_int_equal(got[29], 7);
        assert_int_equal(got[30], 7);
    }
    must(gw_host_flush(host, gw_deadline(10 * SECOND)), "gw_host_flush");
    assert_string_equal(printed, "written\n1 2 1 -4\n");
}

static void test_words(void **state)
{
    struct sockaddr_in *addr = (struct sockaddr_in *)((char *)mem.host + 2048), a = at(address, 7002);
    const int32_t *result;
    int *said = (int *)((char *)mem.host + 3072);
    ptrdiff_t shift = (char *)mem.dev - (char *)mem.host;
    bool gpu = gw_exec_kind(exec) == GW_EXEC_GPU;

    (void)state;
#ifdef GW_HAVE_CUDA
    if (gpu) must(words_gpu_start(gpunet.dev), "gpunet_start");
#endif
    if (!gpu) must(words_cpu_start(gpunet.dev), "gpunet_start");
    result = launch(GN_SERVER, 1, a);
    *addr = a;
#ifdef GW_HAVE_CUDA
    if (gpu)
        must(words_gpu_run((struct sockaddr_in *)((char *)addr + shift), (int *)((char *)said + shift), 30),
             "words");
#endif
    if (!gpu) must(words_cpu_run(addr, said, 30), "words");
    (void)shift;
    end();
    assert_int_equal(*said, 30);
    assert_int_equal(*result, 0);
}

static int alone(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_words),
    };
    struct sockaddr_in own = own_addr(1, 0);
    int rc;

    inet_ntop(AF_INET, &own.sin_addr, address, sizeof(address));
    own_nic(&own, ",hostile=1");
    make_all();
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    free_all();
    return rc;
}

static int with_peer(bool client, const char *where, uint16_t port)
{
    int32_t result;

    make_all();
    result = *launch(client ? GN_CLIENT : GN_SERVER, 1, at(where, port));
    end();
    result = *(int32_t *)mem.host;
    if (result) fprintf(stderr, "test_gpunet: %s\n", strerror(-result));
    free_all();
    return result != 0;
}

int main(int argc, char **argv)
{
    bool peer;

    tcp = argc > 1 && !strcmp(argv[1], "tcp");
    argc -= tcp;
    argv += tcp;
    peer = argc > 3 && (!strcmp(argv[1], "client") || !strcmp(argv[1], "server"));

    test_options(peer ? argc - 3 : argc, peer ? argv + 3 : argv);
    return peer ? with_peer(!strcmp(argv[1], "client"), argv[2], (uint16_t)atoi(argv[3])) : alone();
}
