/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_ops.h: what differs between NICs. The rest of the library asks no device what it is; it calls these.
 *
 * device_hardware.c: NICs that work by themselves. device_softnic.c: the software NIC, which is code in this
 * process and needs its threads.
 */
#ifndef GW_VERBS_DEVICE_OPS_H
#define GW_VERBS_DEVICE_OPS_H

#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

#include <gpuwire/verbs.h>

struct gw_device_ops {
    bool soft; /* for gw_device_info alone */

    /* When the device has been opened and queried: makes what the others need. 0, or a negative errno with a
     * line. */
    int (*open)(struct gw_device *dev);
    /* Frees that, or what there is of it. */
    void (*close)(struct gw_device *dev);

    /* ---- progress and arming ---- */

    /* Gives the NIC the calling thread for a moment. Any thread; never blocks. */
    void (*progress)(struct gw_device *dev);
    /* Any thread, when it has written doorbells of several queue pairs: the NIC takes notice of them. */
    void (*rang)(struct gw_device *dev);
    /* A CPU thread has armed its queues and will sleep now: the NIC goes on without it. Any thread. */
    void (*leave)(struct gw_device *dev);
    /*
     * When a CPU thread has written qp's doorbell, an empty ibv_post_send tells the NIC of the ring. It goes
     * to the queue pair that this returns. NULL: the doorbell is I/O memory and tells the NIC by itself.
     * alone: one thread at a time posts to qp.
     */
    struct ibv_qp *(*ring_through)(const struct gw_qp *qp, bool alone);

    /* ---- ways to reach GPU memory ---- */

    enum gw_reach ways[2]; /* DMABUF and DIRECT, in the order in which they are tried */
    /* May its data become visible in GPU memory later than the completion in host memory, where the GPU does
     * not promise otherwise? */
    bool (*data_may_be_late)(const struct gw_device *dev);
    /* Why memory of a GPU could not be registered by its address (err: errno), for people. */
    void (*address_refused)(int err, char *why, size_t size);
};

/* Devices see a GPU's memory through a window, which is small on some GPUs. */
#define GW_NO_BAR1                                                                                           \
    "no memory: the GPU's window for devices is used up or small (BAR1: `nvidia-smi -q -d MEMORY`; large "   \
    "where \"Above 4G Decoding\" and Resizable BAR are on)"

extern const struct gw_device_ops gw_hardware_ops, gw_softnic_ops;

#endif
