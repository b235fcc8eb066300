/* SPDX-License-Identifier: Apache-2.0 */
/* Tells NCCL that the NIC is near the GPUs. */
#include "softnic/attach/gpus.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static bool has_gpu(void)
{
    return !access("/dev/nvidiactl", F_OK) || !access("/proc/driver/nvidia/version", F_OK);
}

/*
 * NCCL moves data straight between a NIC and a GPU's memory if both are behind one PCI switch. It looks for
 * such a switch in sysfs, and there a device has one place, near some GPUs or none. The software NIC reaches
 * the memory of all of them in the same way, wherever they are.
 */
void sn_gpus_tell_near(void)
{
    if (has_gpu()) setenv("NCCL_NET_GDR_LEVEL", "SYS", false);
}
