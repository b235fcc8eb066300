/* SPDX-License-Identifier: Apache-2.0 */
/* gw_host_open, gw_host_launch, gw_host_start, gw_host_wait, gw_printf, gw_time: what kernels ask of the
 * host. */
#include <stdlib.h>

#include "launch.h"
#include "options.h"

static void must(int err, const char *what)
{
    if (!err) return;
    fprintf(stderr, "%s: %s\n", what, gw_last_error());
    exit(1);
}

int main(int argc, char **argv)
{
    static const struct gw_kernel *const kernels[] = {&add_up}; /* that may be launched */
    struct gw_host_attr attr = {.kernels = kernels, .count = 1};
    struct gw_host_server *server;
    struct gw_exec *exec;
    struct gw_mem mem;

    test_options(argc, argv);
    exec = test_exec();
    must(gw_host_open(exec, &attr, &server), "host's server");
    must(gw_mem_alloc(exec, GW_MEM_HOST, 4096, &mem), "memory");
    struct launch_args args = {gw_host_handle(server), (uint64_t *)mem.dev, (int *)mem.dev + 2};

    must(gw_launch(exec, &launch, 1, 64, &args), "kernel");
    must(gw_exec_sync(exec, gw_deadline(3 * (uint64_t)LIMIT)), "kernel");
    must(gw_host_close(server), "launches"); /* waits for the last */
    int result = *((int *)mem.host + 2), ok = !result && *(uint64_t *)mem.host == 3 * 499500;

    if (!ok)
        fprintf(stderr, "the sum is %llu, the kernel ended with %d\n",
                (unsigned long long)*(uint64_t *)mem.host, result);
    gw_mem_free(&mem);
    return gw_exec_destroy(exec) || !ok;
}
