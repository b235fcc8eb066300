/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of launch.c: one asks the host to launch the other, three times. */
#include <gpuwire/host.h>

#define LIMIT 10000000000u /* nanoseconds that one call may take */

struct add_up_args {
    uint64_t *sum;
    uint64_t n;
};

/* Adds 0, 1, … n - 1 to *sum, by all threads of the grid, however many there are. */
GW_KERNEL(add_up, struct add_up_args, a)
{
    uint64_t i;

    for (i = gw_global_idx(); i < a->n; i += gw_global_dim()) gw_add_relaxed_u64(a->sum, i);
}

struct launch_args {
    struct gw_host *host;
    uint64_t *sum;
    int *result;
};

GW_KERNEL(launch, struct launch_args, a)
{
    struct add_up_args args = {a->sum, 1000};
    int add = gw_host_find(a->host, "add_up"), err = add;
    uint64_t ticket;

    /* Every thread of the block makes the calls. The first waits for the kernel's end; the second does not,
     * and is waited for by its ticket. Their writes are visible then. */
    if (err >= 0) err = gw_host_launch(a->host, (uint32_t)add, 4, 32, &args, gw_clock_ns() + LIMIT);
    if (!err && gw_thread_idx() == 0)
        gw_printf(a->host, "%lu at %lu ns\n", gw_ld_relaxed_u64(a->sum), gw_time(a->host));
    gw_syncthreads();
    if (!err) err = gw_host_start(a->host, (uint32_t)add, 4, 32, &args, &ticket, gw_clock_ns() + LIMIT);
    if (!err) err = gw_host_wait(a->host, ticket, gw_clock_ns() + LIMIT);
    if (!err && gw_thread_idx() == 0)
        gw_printf(a->host, "%lu at %lu ns\n", gw_ld_relaxed_u64(a->sum), gw_time(a->host));
    if (!err && gw_ld_relaxed_u64(a->sum) != 2 * 499500) err = -EBADMSG;
    gw_syncthreads(); /* all have looked before the third adds to it; gw_host_close alone waits for its end */
    if (!err) err = gw_host_start(a->host, (uint32_t)add, 4, 32, &args, NULL, gw_clock_ns() + LIMIT);
    if (gw_thread_idx() == 0) *a->result = err;
}
