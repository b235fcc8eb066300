/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC's DMA to and from GPU memory. */
#include <errno.h>

#include "softnic/cuda/cuda.h"

static bool lost; /* set before there are regions */

void sn_cuda_lose(void)
{
    lost = true;
}

static int dma_write(void *ctx, uint64_t addr, const void *src, uint32_t len)
{
    if (lost) return 0;
    return sn_cuda_write(ctx, addr, src, len);
}

static int dma_read(void *ctx, uint64_t addr, void *dst, uint32_t len, uint64_t ahead, uint64_t request)
{
    if (lost) return -EIO;
    return sn_cuda_read(ctx, addr, dst, len, ahead, request);
}

static int dma_write_by(void *ctx, uint64_t addr, uint32_t len, sn_dma_fill fill, void *with)
{
    if (lost) return 0;
    return sn_cuda_write_by(ctx, addr, len, fill, with);
}

static int dma_read_by(void *ctx, uint64_t addr, uint32_t len, sn_dma_drain drain, void *with)
{
    if (lost) return -EIO;
    return sn_cuda_read_by(ctx, addr, len, drain, with);
}

static void dma_order(void *ctx)
{
    sn_cuda_order(ctx);
}

static int dma_flush(void *ctx)
{
    return sn_cuda_flush(ctx);
}

static bool dma_start(void *ctx, uint64_t *mark)
{
    return sn_cuda_start(ctx, mark);
}

static bool dma_ended(void *ctx, uint64_t mark)
{
    return sn_cuda_ended(ctx, mark);
}

static int dma_await(void *ctx, uint64_t mark)
{
    return sn_cuda_await(ctx, mark);
}

/* One kernel for each device, which keeps the order. */
static const void *dma_line(void *ctx)
{
    return ((const struct sn_cuda_region *)ctx)->dev;
}

static int dma_move(void *ctx, uint64_t addr, void *from_ctx, uint64_t from, uint32_t len)
{
    if (lost) return 0;
    return sn_cuda_move(ctx, addr, from_ctx, from, len);
}

static const struct sn_gpu_share *dma_share(void *ctx)
{
    const struct sn_cuda_region *region = ctx;

    return region->shared ? &region->share : NULL;
}

const struct sn_dma_ops sn_cuda_dma = {
    .read = dma_read,
    .write = dma_write,
    .write_by = dma_write_by,
    .read_by = dma_read_by,
    .order = dma_order,
    .flush = dma_flush,
    .start = dma_start,
    .ended = dma_ended,
    .await = dma_await,
    .line = dma_line,
    .move = dma_move,
    .share = dma_share,
};
