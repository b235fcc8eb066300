/* SPDX-License-Identifier: Apache-2.0 */
/* DMA that comes late, as a GPU's may. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/rig.h"

static int lazy_check(struct rig_lazy *z, uint64_t addr, uint64_t len)
{
    if (addr >= z->low && len <= z->high - addr) return 0;
    rig_fail(z->rig, "DMA outside of the region: %llu bytes", (unsigned long long)len);
    return -EFAULT;
}

/* In random order, but of two writes to one byte the later one stays. */
static int lazy_flush(void *ctx)
{
    struct rig_lazy *z = ctx;

    while (z->writes) {
        uint32_t i = rnd_below(&z->rig->rnd, z->writes), k;

        for (k = 0; k < i; k++)
            if (z->write[k].addr < z->write[i].addr + z->write[i].len &&
                z->write[i].addr < z->write[k].addr + z->write[k].len)
                i = k, k = UINT32_MAX;
        memcpy((void *)(uintptr_t)z->write[i].addr, z->write[i].data, z->write[i].len);
        free(z->write[i].data);
        memmove(&z->write[i], &z->write[i + 1], (--z->writes - i) * sizeof(z->write[0]));
    }
    return 0;
}

static int lazy_write(void *ctx, uint64_t addr, const void *src, uint32_t len)
{
    struct rig_lazy *z = ctx;

    if (lazy_check(z, addr, len)) return -EFAULT;
    if (z->writes == RIG_LAZY) lazy_flush(z);
    uint8_t *copy = malloc(len ? len : 1);
    if (!copy) return -ENOMEM;
    memcpy(copy, src, len);
    z->write[z->writes].addr = addr;
    z->write[z->writes].len = len;
    z->write[z->writes++].data = copy;
    return 0;
}

/* Answers from what it fetched ahead for this request, as it is allowed to. */
static int lazy_read(void *ctx, uint64_t addr, void *dst, uint32_t len, uint64_t ahead, uint64_t request)
{
    struct rig_lazy *z = ctx;

    if (ahead < len) rig_fail(z->rig, "DMA read of %u bytes with %llu ahead", len, (unsigned long long)ahead);
    if (lazy_check(z, addr, ahead)) return -EFAULT;
    if (request && request == z->ahead_request && addr >= z->ahead_addr &&
        addr + len <= z->ahead_addr + z->ahead_len) {
        memcpy(dst, z->ahead + (addr - z->ahead_addr), len);
        return 0;
    }
    lazy_flush(z);
    memcpy(dst, (const void *)(uintptr_t)addr, len);
    z->ahead_request = request;
    z->ahead_addr = addr;
    z->ahead_len = ahead < sizeof(z->ahead) ? (uint32_t)ahead : sizeof(z->ahead);
    memcpy(z->ahead, (const void *)(uintptr_t)addr, z->ahead_len);
    return 0;
}

const struct sn_dma_ops rig_lazy_dma = {.read = lazy_read, .write = lazy_write, .flush = lazy_flush};
