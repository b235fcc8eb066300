/* SPDX-License-Identifier: Apache-2.0 */
/* host_rig.h: an executor, a server of the host's, and memory that both see, for the tests of a file. */
#ifndef GW_TESTS_EXEC_HOST_RIG_H
#define GW_TESTS_EXEC_HOST_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/exec/host_kernels.h"
#include "examples/options.h"

#define SECOND UINT64_C(1000000000)
#define LIMIT  (20 * SECOND)

static struct gw_exec *exec;
static struct gw_mem mem; /* host memory: the counter, results, what threads saw, an argument */
static uint32_t lanes;

static inline void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

static inline void run(const struct gw_kernel *kernel, uint32_t grid, uint32_t block, const void *args)
{
    must(gw_launch(exec, kernel, grid, block, args), "gw_launch");
    must(gw_exec_sync(exec, gw_deadline(60 * SECOND)), "gw_exec_sync");
}

static struct {
    uint64_t counter, seen[64];
    int32_t result[8];
    struct add_args add;
} * host, *kernels; /* the same memory, as each sees it */

static inline struct gw_host_server *serve(const struct gw_host_attr *a)
{
    struct gw_host_server *s;

    must(gw_host_open(exec, a, &s), "gw_host_open");
    memset(host, 0, sizeof(*host));
    host->add = (struct add_args){.to = &kernels->counter, .add = 3, .check = ~UINT64_C(3)};
    return s;
}

static inline int open_exec(void **state)
{
    (void)state;
    exec = test_exec();
    lanes = test_block_dim(exec, 64);
    if (gw_mem_alloc(exec, GW_MEM_HOST, sizeof(*host), &mem)) return -1;
    host = mem.host;
    kernels = mem.dev;
    return 0;
}

static inline int close_exec(void **state)
{
    (void)state;
    gw_mem_free(&mem);
    return gw_exec_destroy(exec);
}

#endif
