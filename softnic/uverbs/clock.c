/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page by which libmlx5 turns time stamps into the time of day. Time stamps are nanoseconds of
 * CLOCK_MONOTONIC, so the two clocks differ by a number. It is taken when the page is mapped, with the
 * device: as with hardware, setting the host's clock later does not move the NIC's.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#include <rdma/mlx5-abi.h>

#include "softnic/base/clock.h"
#include "softnic/uverbs/object.h"

#define PAGE   4096u
#define SECOND UINT64_C(1000000000)

/* Between two looks at the one clock the other is read: of some tries the shortest is the best. */
static void uv_clock_look(struct mlx5_ib_clock_info *info)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < 4; i++) {
        uint64_t before = sn_clock_ns(CLOCK_MONOTONIC), day = sn_clock_ns(CLOCK_REALTIME),
                 after = sn_clock_ns(CLOCK_MONOTONIC);

        if (after - before >= best) continue;
        best = after - before;
        info->cycles = before + best / 2;
        info->nsec = day;
    }
    info->mult = 1; /* a cycle is a nanosecond */
    info->mask = UINT64_MAX;
    info->overflow_period = INT64_MAX; /* it never has to be read again */
}

int uv_clock_map(void *hint, int prot, int flags, void **at)
{
    int fixed = flags & MAP_FIXED;

    if (prot & PROT_WRITE) return -EPERM;
    *at = mmap(hint, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    if (*at == MAP_FAILED) return -errno;
    uv_clock_look(*at);
    return mprotect(*at, PAGE, prot) ? -errno : 0;
}
