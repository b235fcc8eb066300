/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h: GPU memory as a target of the NIC's DMA, through the GPU's copy engines.
 *
 * A *region* is a range of GPU memory that the NIC may reach: a memory region's, or part of one. All regions
 * of a GPU context share its *device*: streams and pinned staging buffers, made when the first region is made
 * and never while a copy is wanted, because allocating can wait behind a kernel that never ends; and kept
 * until the process ends, because freeing can too.
 *
 * Writes are gathered: the payloads of successive packets that continue each other become one copy, which is
 * started when its staging buffer is full, when something overlaps it, or by a flush. Reads run ahead inside
 * one work request. Several gathers and read-aheads are open at once, so that messages which arrive
 * interleaved combine all the same.
 *
 * Any thread may call; calls for one device take turns on its lock.
 */
#ifndef SN_MEM_CUDA_H
#define SN_MEM_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softnic/mem/cuda_api.h"

enum {
    SN_CUDA_STAGE = 256 * 1024, /* bytes of a staging buffer: the longest copy */
    SN_CUDA_WRITERS = 8,        /* staging buffers for writes, filling or on their way */
    SN_CUDA_READERS = 8,        /* and for reads */
};

struct sn_cuda_device;

struct sn_cuda_region {
    struct sn_cuda_device *dev;
    uint64_t addr, len;
    int error; /* of a copy to this region, reported by the next flush */
};

/*
 * Is [addr, addr + len) memory of a GPU? Returns 1 and fills *region if so; 0 if it is host memory (pinned
 * and mapped host memory too) or api is NULL; a negative errno with *why saying what the matter is:
 * -EOPNOTSUPP managed memory, -EFAULT a range that is partly GPU memory or ends outside its allocation,
 * -ENOMEM, -EIO (a driver call failed). why, SN_CUDA_WHY bytes, may be NULL. May allocate: not for the data
 * path.
 */
enum { SN_CUDA_WHY = 160 };
int sn_cuda_region_init(const struct sn_cuda_api *api, uint64_t addr, uint64_t len,
                        struct sn_cuda_region *region, char *why);

/* Before a region's memory is freed or the struct goes: waits for its copies. Blocks no longer than a flush.
 */
void sn_cuda_region_fini(struct sn_cuda_region *region);

/*
 * Takes len bytes at src for addr. Returns 0, -EFAULT (outside the region) or -EIO (the copy engine does not
 * take more). The bytes are in GPU memory after the next successful flush of the region. They may be there
 * earlier, in any order, save that of two writes to the same byte the later one stays.
 */
int sn_cuda_write(struct sn_cuda_region *region, uint64_t addr, const void *src, uint32_t len);

/* Waits until all writes to the region have been placed. 0, or -EIO if one of them since the last flush was
 * not. */
int sn_cuda_flush(struct sn_cuda_region *region);

/*
 * Reads len bytes at addr into dst, all earlier writes included. With request not 0, up to `ahead` bytes from
 * addr on (at least len, cut to the region and to a staging buffer) are fetched at once, and later reads with
 * the same number may be answered from them; so the number must name one work request and none that existed
 * before it. Returns 0, -EFAULT or -EIO.
 */
int sn_cuda_read(struct sn_cuda_region *region, uint64_t addr, void *dst, uint32_t len, uint64_t ahead,
                 uint64_t request);

/* What the devices did since the process began, for tests and statistics. */
struct sn_cuda_stats {
    uint64_t copies_in, bytes_in;   /* to the GPU */
    uint64_t copies_out, bytes_out; /* from the GPU */
    uint64_t read_hits;             /* reads answered from what was fetched ahead */
};
void sn_cuda_region_stats(const struct sn_cuda_region *region, struct sn_cuda_stats *stats);

#endif
