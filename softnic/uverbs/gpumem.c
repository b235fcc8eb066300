/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions in GPU memory: the NIC's DMA goes through the GPU's copy engines. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "softnic/mem/cuda.h"
#include "softnic/uverbs/object.h"

static int dma_write(void *ctx, uint64_t addr, const void *src, uint32_t len)
{
    return sn_cuda_write(ctx, addr, src, len);
}

static int dma_read(void *ctx, uint64_t addr, void *dst, uint32_t len, uint64_t ahead, uint64_t request)
{
    return sn_cuda_read(ctx, addr, dst, len, ahead, request);
}

static int dma_flush(void *ctx)
{
    return sn_cuda_flush(ctx);
}

void uv_dma_end(void *ctx)
{
    if (!ctx) return;
    sn_cuda_region_fini(ctx);
    free(ctx);
}

static const struct sn_dma_ops gpu_ops = {.read = dma_read, .write = dma_write, .flush = dma_flush};

int uv_dma_target(uint64_t addr, uint64_t length, const struct sn_dma_ops **ops, void **ctx)
{
    const struct sn_cuda_api *api = sn_cuda_api_loaded();
    char why[SN_CUDA_WHY];

    if (!api || !length) return 0;
    struct sn_cuda_region *region = calloc(1, sizeof(*region));
    if (!region) return -ENOMEM;
    int rc = sn_cuda_region_init(api, addr, length, region, why);
    if (rc == 1) {
        *ops = &gpu_ops;
        *ctx = region;
        return 1;
    }
    free(region);
    if (rc) fprintf(stderr, "gpuwire: memory region at 0x%llx: %s\n", (unsigned long long)addr, why);
    return rc;
}
