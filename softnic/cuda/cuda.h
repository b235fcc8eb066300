/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h: GPU memory as a target of the NIC's DMA, through the GPU's copy engines and, where many copies
 * follow each other, a kernel that copies (copier.h).
 *
 * A *region* is a range of GPU memory that the NIC may reach: a memory region's, or part of one. All regions
 * of a GPU context share its *device*: streams and pinned staging buffers. They are made with the first
 * region and never when a copy is due, because allocating can wait for a kernel that never ends. They are
 * kept until the process ends, because freeing can wait too.
 *
 * Writes are gathered. The payloads of successive packets that continue each other become one copy. It starts
 * when its staging buffer is full, when something overlaps it, or by a flush. Reads run ahead inside one work
 * request. Several gathers and read-aheads are open at once, so that messages which arrive interleaved
 * combine all the same.
 *
 * Any thread may call; calls for one device take turns on its lock.
 */
#ifndef SOFTNIC_CUDA_CUDA_H
#define SOFTNIC_CUDA_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/cuda/driver.h"
#include "softnic/nic/nic.h"

enum {
    SN_CUDA_STAGE = 256 * 1024, /* bytes of a staging buffer: the longest copy */
    SN_CUDA_WRITERS = 8,        /* staging buffers for writes, filling or on their way */
    SN_CUDA_READERS = 8,        /* and for reads */
};

struct sn_cuda_device;

/* Where memory comes from decides how other GPUs reach it. */
enum sn_cuda_origin {
    SN_CUDA_ALLOCATED, /* cuMemAlloc: kernels of every GPU whose context was let in */
    /* By another process's handle: the context that opened it, and engines. A kernel of another GPU faults
     * there, though its context was let in (seen on an H200). */
    SN_CUDA_OPENED,
    SN_CUDA_MAPPED, /* cuMemMap, or a pool: it says itself who reaches it, so no other GPU is taken to */
};

/* Allocations of cuMemCreate, as files that other processes import. Of one region, of all regions at most. */
enum { SN_CUDA_FILES = 64, SN_CUDA_FILES_ALL = 256 };
struct sn_cuda_files {
    unsigned n;
    int fd[SN_CUDA_FILES];
    uint64_t size[SN_CUDA_FILES]; /* of what is mapped of each, from its beginning on, one after the other */
};
struct sn_cuda_export;

struct sn_cuda_region {
    struct sn_cuda_device *dev;
    uint64_t addr, len;
    enum sn_cuda_origin origin;
    bool unordered; /* who sees a completion need not see what was written here before: the GPU says so */
    bool elsewhere; /* opened by dev's context, and another GPU's */
    int error;      /* of a copy to this region, reported by the next flush */
    uint64_t last;  /* the copy kernel's last command for it */
    bool shared;
    struct sn_gpu_share share;       /* if shared: the allocation, for other processes */
    struct sn_cuda_export *exported; /* if that is by files: them */
    bool imported;                   /* another process's, by its files */
};

/* A region as the NIC's DMA sees it; the context is the region. */
extern const struct sn_dma_ops sn_cuda_dma;

/* From now on what sn_cuda_dma writes goes nowhere, and its reads fail. For good. */
void sn_cuda_lose(void);
/* From now on no GPU promises that who sees a completion sees its data. For good. */
void sn_cuda_disorder(void);

/*
 * Is [addr, addr + len) memory of a GPU? Returns 1 and fills *region if so. Returns 0 if it is host memory
 * (pinned and mapped host memory too) or api is NULL. Otherwise it returns a negative errno, and a line in
 * why. With -EOPNOTSUPP it is managed memory. With -EFAULT the range is partly GPU memory or ends outside its
 * allocation. With -EIO a driver call failed. Also -ENOMEM. The text `why` has SN_CUDA_WHY bytes, and may be
 * NULL. May allocate: not for the data path.
 */
enum { SN_CUDA_WHY = 160 };
int sn_cuda_region_init(const struct gw_cuda_driver *api, uint64_t addr, uint64_t len,
                        struct sn_cuda_region *region, char *why);

/*
 * Finds out how other processes can open the region's memory. False, and region->shared is: they cannot. It
 * comes from a pool, or cuMemCreate made it without CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, or it lies in
 * more than SN_CUDA_FILES allocations. May wait for the GPU: not for the data path.
 */
bool sn_cuda_share(struct sn_cuda_region *region);

/* The files of memory that is shared so, copies that are the caller's. False: there is no such memory (any
 * more), or there are no descriptors left. Waits for nothing; any thread. */
bool sn_cuda_files(const struct sn_gpu_share *share, struct sn_cuda_files *files);
void sn_cuda_files_close(struct sn_cuda_files *files);

/*
 * Opens another process's allocation: *region is the whole of it, at its place here. In the context of a GPU
 * that this process uses: its own one, or one that reaches it, whichever something is registered of. May wait
 * for the GPU, as long as a kernel runs. 0, or with one line in why: -ENODEV (this process uses no such GPU),
 * -ENOSYS, -EIO. files: those of the allocation, which stay the caller's, if it is opened by them.
 * sn_cuda_close, instead of sn_cuda_region_fini, when it is no longer used.
 */
int sn_cuda_open(const struct gw_cuda_driver *api, const struct sn_gpu_share *share,
                 const struct sn_cuda_files *files, struct sn_cuda_region *region, char *why);
void sn_cuda_close(struct sn_cuda_region *region);
/*
 * May it be closed now? The driver closes memory only when no kernel runs, and until then lets no other call
 * through. Beside a kernel that waits for the network the NIC's own copies would stop for good. While the
 * process has memory of its own registered there, such a kernel may run.
 */
bool sn_cuda_may_close(const struct sn_cuda_region *region);

/* Before a region's memory is freed or the struct goes: waits for its copies. Blocks no longer than a flush.
 */
void sn_cuda_region_fini(struct sn_cuda_region *region);

/* In a forked child, while it has one thread: forgets the parent's GPUs, which CUDA does not let it use. */
void sn_cuda_forked(void);

/*
 * Takes len bytes at src for addr. Returns 0, -EFAULT (outside the region) or -EIO (the copy engine does not
 * take more). The bytes are in GPU memory after the next successful flush of the region. They may be there
 * earlier, in any order, save that of two writes to the same byte the later one stays.
 */
int sn_cuda_write(struct sn_cuda_region *region, uint64_t addr, const void *src, uint32_t len);
/* The same of what `fill` puts into the staging buffers; also what it returned. It runs with the device's
 * lock held. */
int sn_cuda_write_by(struct sn_cuda_region *region, uint64_t addr, uint32_t len, sn_dma_fill fill,
                     void *with);

/* What is written to GPU memory after this call becomes visible to the GPU's kernels no earlier than what was
 * written before. Waits for nothing. */
void sn_cuda_order(struct sn_cuda_region *region);

/* Waits until all writes to the region have been placed. 0, or -EIO if one of them since the last flush was
 * not. */
int sn_cuda_flush(struct sn_cuda_region *region);

/* The same without waiting: what was written, and moved, to the region so far is on its way, and *mark names
 * it. False: only sn_cuda_flush can tell when it is there, as an engine copies some of it, or some was not
 * taken. */
bool sn_cuda_start(struct sn_cuda_region *region, uint64_t *mark);
/* Would sn_cuda_await not wait for the copy kernel? Takes no lock. */
bool sn_cuda_ended(const struct sn_cuda_region *region, uint64_t mark);
/* Waits until what was started is in its place. 0, or -EIO: it is not. */
int sn_cuda_await(struct sn_cuda_region *region, uint64_t mark);

/*
 * Reads len bytes at addr into dst, all earlier writes included. With request not 0, up to `ahead` bytes from
 * addr on (at least len, cut to the region and to a staging buffer) are fetched at once. Later reads with the
 * same number may be answered from them. So the number must name one work request and none that existed
 * before it. Returns 0, -EFAULT or -EIO.
 */
int sn_cuda_read(struct sn_cuda_region *region, uint64_t addr, void *dst, uint32_t len, uint64_t ahead,
                 uint64_t request);
/* Reads len bytes at addr, all earlier writes included, which `drain` takes out of the staging buffers.
 * Returns as above, or what `drain` returned. It runs with the device's lock held. */
int sn_cuda_read_by(struct sn_cuda_region *region, uint64_t addr, uint32_t len, sn_dma_drain drain,
                    void *with);

/*
 * As a write to `to` of len bytes at src of `from`, all earlier writes to these included; from may not be
 * written until it ends. By the copy kernel at once. Where there is none, by two copy engine calls through
 * staging. A copy inside a GPU that is left to the driver may be a kernel's. That would wait forever beside a
 * resident one that fills the GPU. Between two GPUs that reach each other it is one copy. The kernel of the
 * destination GPU makes short ones, its engine the others. -EXDEV: they belong to two GPU contexts, and
 * neither way is there.
 */
int sn_cuda_move(struct sn_cuda_region *to, uint64_t addr, const struct sn_cuda_region *from, uint64_t src,
                 uint32_t len);

/* Counts of the devices since the process began, for tests and statistics. */
struct sn_cuda_stats {
    uint64_t copies_in, bytes_in;         /* to the GPU */
    uint64_t copies_out, bytes_out;       /* from the GPU */
    uint64_t read_hits;                   /* reads answered from what was fetched ahead */
    uint64_t kernel_copies, kernel_bytes; /* by the copy kernel, in any direction */
    uint64_t launches, slow;              /* of that kernel, and times that it kept a thread waiting */
    uint64_t refused;                     /* times that the driver did not launch it */
    /* from another GPU, or to one, in any way but through the host's memory */
    uint64_t peer_copies, peer_bytes;
    uint64_t unshared; /* regions so far whose memory other processes cannot open */
};
void sn_cuda_region_stats(const struct sn_cuda_region *region, struct sn_cuda_stats *stats);

/* A GPU that the process registered memory of, for `gpuwire nic` and `gpuwire info`. */
enum { SN_CUDA_SAY = 400 };
struct sn_cuda_view {
    int gpu;                  /* its number */
    char copies[SN_CUDA_SAY]; /* who copies; why not the kernel, and what would mend that */
    char peers[SN_CUDA_SAY];  /* how memory comes from each other GPU; "": there is none */
    struct sn_cuda_stats stats;
};
/* The i'th of them, from 0 on. False: there are fewer. Waits half a second at most; any thread. */
bool sn_cuda_introspect(unsigned i, struct sn_cuda_view *view);

#endif
