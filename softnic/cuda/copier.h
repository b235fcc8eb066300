/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copier.h: copies made by a kernel that stays on the GPU while there are some. A copy engine's copy takes 6
 * µs to start and to be seen to end, and several calls of the driver. One by this kernel takes 3 µs, and no
 * call.
 *
 * The kernel takes a place on one of the GPU's processors, so it is launched only when copies follow each
 * other closely. It ends when there were none for a moment, and in any case after a few milliseconds. A
 * kernel of the program that waits for the place gets it then. Nothing waits for it to begin, since beside
 * kernels that fill the GPU that may be never. Until it has said that it runs, copy engines do the work.
 * Where it answers slowly, because another process has the GPU in between, or the driver refuses to launch
 * it, it is not used for a while.
 *
 * All of it with the device's lock held and its context current, save sn_copier_done and sn_copier_ended.
 */
#ifndef SOFTNIC_CUDA_COPIER_H
#define SOFTNIC_CUDA_COPIER_H

#include <stdbool.h>
#include <stdint.h>

#include "src/cuda/driver.h"
#include "softnic/cuda/kernel.h"

struct sn_cuda_device;

enum sn_copier_state {
    SN_COPIER_NONE, /* no kernel */
    SN_COPIER_STARTING,
    SN_COPIER_RUNNING,
    SN_COPIER_LEAVING, /* it was told to end */
};

struct sn_copier {
    gw_cu_function function; /* NULL: the driver has no kernels for us, and copy engines do it all */
    const char *failed;      /* the driver's call that failed last, NULL: none did; and what it said */
    gw_cu_result error;
    gw_cu_stream stream;
    gw_cu_event ended, redone;
    struct sn_kernel_ring *ring;
    uint8_t *bounce; /* SN_CUDA_STAGE bytes */
    enum sn_copier_state state;
    uint64_t launch;       /* atomic: number of the last launch */
    uint64_t issued, done; /* numbers of commands; those between are under way. done: atomic */
    uint64_t wanted_at;    /* when it was last asked for, and how often in a row */
    unsigned wanted;
    /* It was slow, or refused: not to be used until then; for how long the next time. How often it was. */
    uint64_t not_before, pause_ns;
    uint64_t slow, refused;
};

/* Without one where the driver cannot: that is no error. */
void sn_copier_make(struct sn_cuda_device *dev);

/* Is there a kernel that takes commands? Launches one if it was asked for often. Never waits. */
bool sn_copier_ready(struct sn_cuda_device *dev);

/*
 * After it was ready. Copies len bytes, after all that was issued before; what both ends reach. how:
 * SN_KERNEL_FROM_HOST or SN_KERNEL_TO_HOST if one of them is pinned memory, or SN_KERNEL_HERE: src is any
 * memory, at most SN_KERNEL_BYTES, and no longer needed. Returns 0, or -EIO: the device is broken. Waits only
 * while SN_KERNEL_SLOTS commands are under way.
 */
int sn_copier_copy(struct sn_cuda_device *dev, uint64_t dst, uint64_t src, uint32_t len, uint32_t how);

/* The same, from src of another GPU, whose memory this one's kernels reach, and its context. */
int sn_copier_copy_peer(struct sn_cuda_device *dev, uint64_t dst, uint64_t src, gw_cu_ctx ctx, uint32_t len);

/* Waits until command `number`, as of copier.issued, and all before it are done and visible. 0 or -EIO. */
int sn_copier_wait(struct sn_cuda_device *dev, uint64_t number);

/* Without the lock, and without waiting: are they done and visible? And would sn_copier_wait return at once,
 * or have engines do what a kernel left? */
bool sn_copier_done(const struct sn_copier *c, uint64_t number);
bool sn_copier_ended(const struct sn_copier *c, uint64_t number);

/* For all copiers of the process: none is launched any more (GPUWIRE_NIC=gpucopy=engine), or they are
 * again. */
void sn_copier_allow(bool allow);
bool sn_copier_allowed(void);

#endif
