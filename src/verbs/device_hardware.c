/* SPDX-License-Identifier: Apache-2.0 */
/* Real NICs: they make progress by themselves, and a store to their registers rings them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/verbs/device_ops.h"

static int open_nothing(struct gw_device *dev)
{
    (void)dev;
    return 0;
}

static void device_hardware_nothing(struct gw_device *dev)
{
    (void)dev;
}

static struct ibv_qp *ring_through_nothing(const struct gw_qp *qp, bool alone)
{
    (void)qp, (void)alone;
    return NULL;
}

/* Data goes to the GPU, the completion to the host's memory. */
static bool device_hardware_data_may_be_late(const struct gw_device *dev)
{
    (void)dev;
    return true;
}

/* Without peer memory the kernel takes a GPU's address for one of the process, where there is nothing. The
 * module for it loads only beside OFED's ib_core, and refuses to if it was built without OFED's symbols. */
static void device_hardware_address_refused(int err, char *why, size_t size)
{
    bool loaded = !access("/sys/module/nvidia_peermem", F_OK);

    if ((err == EFAULT || err == EINVAL) && loaded)
        snprintf(why, size, "nvidia_peermem is loaded and does not know this memory; see `dmesg`");
    else if (err == EFAULT || err == EINVAL)
        snprintf(why, size,
                 "the kernel has no peer memory for GPUs: it takes MLNX_OFED or DOCA-OFED, then `modprobe "
                 "nvidia_peermem`; does that say \"Invalid argument\", the GPU driver was built before OFED: "
                 "install it again");
    else
        snprintf(why, size, "%s", err == ENOMEM ? GW_NO_BAR1 : strerror(err));
}

const struct gw_device_ops gw_hardware_ops = {
    .open = open_nothing,
    .close = device_hardware_nothing,
    .progress = device_hardware_nothing,
    .rang = device_hardware_nothing,
    .leave = device_hardware_nothing,
    .ring_through = ring_through_nothing,
    .ways = {GW_REACH_DMABUF, GW_REACH_DIRECT},
    .data_may_be_late = device_hardware_data_may_be_late,
    .address_refused = device_hardware_address_refused,
};
