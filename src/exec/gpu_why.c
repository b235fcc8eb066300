/* SPDX-License-Identifier: Apache-2.0 */
/* Says why a GPU cannot be used, and what mends it. */
#include "src/exec/gpu_why.h"

#include <errno.h>
#include <stdio.h>

#include <gpuwire/error.h>

void gw_gpu_why_none(int err, const char *name, int driver, int runtime, char *why, size_t size)
{
    if (!driver)
        snprintf(
            why, size,
            "no NVIDIA driver: libcuda.so.1 was not found; install the driver, in a container pass it in");
    else if (err == GW_CUDA_OLD_DRIVER)
        snprintf(why, size, "the NVIDIA driver knows CUDA up to %d.%d, this program needs %d.%d: update it",
                 driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    else if (err == GW_CUDA_NO_DEVICE)
        snprintf(why, size,
                 "the NVIDIA driver sees no GPU (is CUDA_VISIBLE_DEVICES set, or /dev/nvidia* missing?)");
    else
        snprintf(why, size, "CUDA does not start: error %d, %s; does `nvidia-smi` work?", err, name);
}

/* Kernels are compiled for compute capability 7.5 and newer. */
void gw_gpu_why_old(int device, int major, int minor, char *why, size_t size)
{
    snprintf(why, size, "GPU %d has compute capability %d.%d; 7.5 or newer is needed", device, major, minor);
}

int gw_gpu_why_io(unsigned device)
{
    return gw_error(
        -EPERM,
        "the NVIDIA driver may not map a device's registers into GPU %u (CUDA error 800): it takes "
        "CAP_SYS_ADMIN (in a container --cap-add SYS_ADMIN; root without it is not enough), or nvidia.ko "
        "loaded "
        "with NVreg_RegistryDwords=\"PeerMappingOverride=1;\", or post through the doorbell proxy",
        device);
}
