/* SPDX-License-Identifier: Apache-2.0 */
/* device.h: what the files of cuda.h's functions share: the state per GPU context. */
#ifndef SOFTNIC_CUDA_DEVICE_H
#define SOFTNIC_CUDA_DEVICE_H

#include <pthread.h>

#include "softnic/base/clock.h"
#include "softnic/cuda/copier.h"
#include "softnic/cuda/cuda.h"

/* A copy of 256 KiB takes 20 µs. One that has not ended after this never will: the GPU is lost. */
#define SN_CUDA_DEADLINE_NS 10000000000ull

/* The kernel makes copies from or to the host's memory up to this length, if there is one; engines carry
 * longer ones faster. */
enum { SN_CUDA_BY_KERNEL = 32768 };
/* The same of a copy from another GPU's, or to one. */
enum { SN_CUDA_PEER_BY_KERNEL = 131072 };

/* Staging has room for data at the same place in its 16 bytes as it has on the GPU, so that it is copied in
 * units of 16. */
enum { SN_CUDA_SKEW = 64 };

enum sn_stage_state { SN_STAGE_FREE, SN_STAGE_FILLING, SN_STAGE_COPYING };

/* A staging buffer for writes. */
struct sn_cuda_writer {
    enum sn_stage_state state;
    struct sn_cuda_region *region;
    uint64_t addr;
    uint32_t len;
    uint64_t age;    /* order of first use */
    uint8_t *buffer; /* SN_CUDA_STAGE + SN_CUDA_SKEW bytes */
    uint8_t *data;   /* in it */
    uint64_t number; /* the kernel's command, when COPYING; 0: an engine copies, until the event */
    gw_cu_event done;
};

/* A staging buffer for reads; request 0: holds nothing. */
struct sn_cuda_reader {
    uint64_t request;
    uint64_t addr;
    uint32_t len;
    uint64_t age;
    uint8_t *buffer, *data;
};

struct sn_cuda_device {
    const struct gw_cuda_driver *api;
    gw_cu_ctx ctx;
    unsigned long long ctx_id; /* 0: not known */
    int gpu;                   /* its number */
    unsigned index;            /* among the devices */
    unsigned regions;          /* atomic: how many there are */
    unsigned opened;           /* atomic: those among them that are other processes' memory */
    unsigned unshared;         /* atomic: regions so far whose memory other processes cannot open */
    uint64_t met;            /* devices, by index: those that it was to reach; with the lock of all of them */
    uint64_t reaches;        /* atomic: those whose memory its kernel and its engines reach */
    gw_cu_result peer_error; /* atomic: why one could not be let in */
    pthread_mutex_t lock;
    bool broken; /* the driver reported an error that it cannot recover from, or a copy never ended */
    uint64_t clock;
    gw_cu_stream in, out;
    gw_cu_event read_done;
    struct sn_cuda_writer writers[SN_CUDA_WRITERS];
    struct sn_cuda_reader readers[SN_CUDA_READERS];
    struct sn_copier copier;
    struct sn_cuda_stats stats;
};

/* The process's devices, in order; NULL after the last one. Any thread. */
struct sn_cuda_device *sn_cuda_device(unsigned index);

/* A region of memory that the context has, the GPU's or another one's; its addr and len are set. 0, or a
 * negative errno and why. */
int sn_cuda_region_in(const struct gw_cuda_driver *api, gw_cu_ctx ctx, int gpu, struct sn_cuda_region *region,
                      char *why);

/* export.c. Makes files of what the region lies in, and tells how it is shared. NULL: no files can be had of
 * it. The caller unexports it when the region goes. */
struct sn_cuda_export *sn_cuda_export(const struct sn_cuda_region *region, struct sn_gpu_share *share);
void sn_cuda_unexport(struct sn_cuda_export *e);
void sn_cuda_export_forked(void);
/* Finds what one call of cuMemMap mapped around addr. */
bool sn_cuda_mapping(const struct gw_cuda_driver *api, uint64_t addr, uint64_t *base, uint64_t *size);
/* import.c. Maps what is shared by files, for that GPU. Not 0: that cannot be done. Both may wait for the
 * GPU. */
int sn_cuda_import(const struct gw_cuda_driver *api, int gpu, const struct sn_gpu_share *share,
                   const struct sn_cuda_files *files, uint64_t *at);
void sn_cuda_unimport(const struct gw_cuda_driver *api, uint64_t at, uint64_t size);

/* peer.c. Lets the two reach each other, if they can. With the lock of all devices. */
void sn_cuda_meet(struct sn_cuda_device *a, struct sn_cuda_device *b);
/* Is there a way from one region to the other but through the host's memory? Also within a device. */
bool sn_cuda_reaches(const struct sn_cuda_region *to, const struct sn_cuda_region *from);
/* Of another device: waits for what was written to the range. Takes from's lock. 0, -EFAULT or -EIO. */
int sn_cuda_settle(const struct sn_cuda_region *from, uint64_t src, uint32_t len);

static inline bool sn_cuda_overlap(uint64_t a, uint64_t alen, uint64_t b, uint64_t blen)
{
    return a < b + blen && b < a + alen;
}

bool sn_cuda_inside(const struct sn_cuda_region *region, uint64_t addr, uint64_t len);
/* Takes the lock and makes the context current. 0, -EFAULT (not inside) or -EIO; only after 0 comes leave. */
int sn_cuda_enter(struct sn_cuda_region *region, uint64_t addr, uint64_t len);
void sn_cuda_leave(struct sn_cuda_device *dev);

/* All below: between enter and leave. */

/* 0 or -EIO: the device is broken. */
int sn_cuda_wait_event(struct sn_cuda_device *dev, gw_cu_event event);

/*
 * Kernel and engines take turns: what one of them copies is not ordered with what the other does. May the
 * kernel copy now? Otherwise engines are to, after sn_cuda_engines.
 */
bool sn_cuda_kernel_ready(struct sn_cuda_device *dev);
/* Waits for the kernel's copies. 0 or -EIO. */
int sn_cuda_engines(struct sn_cuda_device *dev);

/* A staging buffer that nothing uses, as for a copy of len bytes to addr; and starts, or has started, its
 * engine's. */
struct sn_cuda_writer *sn_cuda_begin(struct sn_cuda_region *region, uint64_t addr, uint32_t len);
int sn_cuda_started(struct sn_cuda_device *dev, struct sn_cuda_writer *w);

/* peer.c: what sn_cuda_reaches says is possible. 0 or -EIO. */
int sn_cuda_copy_peer(struct sn_cuda_region *to, uint64_t addr, const struct sn_cuda_region *from,
                      uint64_t src, uint32_t len);

/* What is gathered, of one region or of all (NULL), is put on its way in the order in which it came. */
void sn_cuda_submit_all(struct sn_cuda_device *dev, const struct sn_cuda_region *region);
/* What is gathered for the range is put on its way; and is waited for. */
void sn_cuda_submit_overlapping(struct sn_cuda_device *dev, uint64_t addr, uint64_t len);
void sn_cuda_finish_overlapping(struct sn_cuda_device *dev, uint64_t addr, uint64_t len);

/* Bytes of the range that were fetched ahead answer no more reads. */
void sn_cuda_forget_reads(struct sn_cuda_device *dev, uint64_t addr, uint64_t len);

#endif
