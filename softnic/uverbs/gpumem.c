/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions in GPU memory: the NIC's DMA goes through the GPU's copy engines. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "softnic/cuda/cuda.h"
#include "softnic/uverbs/object.h"

void uv_dma_end(void *ctx)
{
    if (!ctx) return;
    sn_cuda_region_fini(ctx);
    free(ctx);
}

bool uv_dma_unordered(const void *ctx)
{
    return ctx && ((const struct sn_cuda_region *)ctx)->unordered;
}

int uv_dma_target(uint64_t addr, uint64_t length, const struct sn_dma_ops **ops, void **ctx)
{
    const struct gw_cuda_driver *api = gw_cuda_driver_loaded();
    char why[SN_CUDA_WHY];

    if (!api || !length) return 0;
    struct sn_cuda_region *region = calloc(1, sizeof(*region));
    if (!region) return -ENOMEM;
    int err = sn_cuda_region_init(api, addr, length, region, why);
    if (err == 1) {
        sn_cuda_share(region);
        *ops = &sn_cuda_dma;
        *ctx = region;
        return 1;
    }
    free(region);
    if (err) fprintf(stderr, "gpuwire: memory region at 0x%llx: %s\n", (unsigned long long)addr, why);
    return err;
}
