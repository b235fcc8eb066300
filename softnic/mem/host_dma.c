/* SPDX-License-Identifier: Apache-2.0 */
/* DMA to and from the memory of this process. */
#include "softnic/mem/guard.h"
#include "softnic/nic/nic.h"

static int host_read(void *ctx, uint64_t addr, void *dst, uint32_t len, uint64_t ahead, uint64_t request)
{
    (void)ctx;
    (void)ahead;
    (void)request;
    return sn_guard_copy(dst, (const void *)(uintptr_t)addr, len);
}

static int host_write(void *ctx, uint64_t addr, const void *src, uint32_t len)
{
    (void)ctx;
    return sn_guard_copy((void *)(uintptr_t)addr, src, len);
}

const struct sn_dma_ops sn_host_dma = {.read = host_read, .write = host_write};
