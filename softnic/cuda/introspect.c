/* SPDX-License-Identifier: Apache-2.0 */
/* What is said about the GPUs: who copies, and how they reach each other. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "softnic/cuda/device.h"

#define LOCK_NS 500000000

/* The remedy for an error of the driver's, as far as that can be told. */
static const char *remedy(gw_cu_result error)
{
    switch (error) {
    case GW_CU_OUT_OF_MEMORY: return "leave the GPU more free memory";
    case 209: /* NO_BINARY_FOR_GPU */
    case 218: /* INVALID_PTX */
    case 222: /* UNSUPPORTED_PTX_VERSION */
        return "it takes a GPU of compute capability 7.0 or newer, and a driver for CUDA 10.1 or newer";
    case 221: /* JIT_COMPILER_NOT_FOUND */
        return "install the driver's libnvidia-ptxjitcompiler.so.1 (in a container, with all of its "
               "libraries)";
    case 223: /* JIT_COMPILATION_DISABLED */ return "unset CUDA_DISABLE_JIT and CUDA_DISABLE_PTX_JIT";
    case 701: /* LAUNCH_OUT_OF_RESOURCES */
        return "the program, or a tool that watches it, leaves kernels of 256 threads too little";
    default: return "does it go away when the program runs by itself, without tools that watch it?";
    }
}

static void introspect_say_error(const struct sn_cuda_device *dev, char text[SN_CUDA_WHY])
{
    const struct sn_copier *c = &dev->copier;
    const char *name = NULL;

    if (dev->api->error_name(c->error, &name) != GW_CU_SUCCESS || !name) name = "unknown error";
    snprintf(text, SN_CUDA_WHY, "%s: %s (%d)", c->failed, name, c->error);
}

static void say_copies(const struct sn_cuda_device *dev, char text[SN_CUDA_SAY])
{
    const struct sn_copier *c = &dev->copier;
    bool paused = sn_now_ns() < c->not_before;
    char error[SN_CUDA_WHY] = "";

    if (c->failed) introspect_say_error(dev, error);
    if (dev->broken)
        snprintf(text, SN_CUDA_SAY,
                 "none: the driver failed, or a copy did not end; memory of it has to be registered by a new "
                 "process");
    else if (!sn_copier_allowed())
        snprintf(text, SN_CUDA_SAY, "copy engines alone, as GPUWIRE_NIC says (gpucopy=engine)");
    else if (!c->function && c->failed)
        snprintf(text, SN_CUDA_SAY, "copy engines alone, short copies take longer: no copy kernel, %s: %s",
                 error, remedy(c->error));
    else if (!c->function)
        snprintf(
            text, SN_CUDA_SAY,
            "copy engines alone, short copies take longer: this driver has no calls for kernels: update it");
    else if (c->failed)
        snprintf(text, SN_CUDA_SAY,
                 "copy engines%s, short copies take longer: the copy kernel was refused (%llu times), %s: %s",
                 paused ? " for now" : "", (unsigned long long)c->refused, error, remedy(c->error));
    else if (paused)
        snprintf(text, SN_CUDA_SAY,
                 "copy engines for now, short copies take longer: the copy kernel was slow (%llu times), as "
                 "when other "
                 "processes use the GPU: `nvidia-smi` lists them",
                 (unsigned long long)c->slow);
    else
        snprintf(text, SN_CUDA_SAY, "a kernel where they follow each other closely, else copy engines");
}

/* ---- its peers ----------------------------------------------------------------------------------------- */

static const char *no_way(const struct sn_cuda_device *dev)
{
    if (!dev->api->enable_peer || !dev->api->copy_peer) return "this driver has no calls for it: update it";
    if (__atomic_load_n(&dev->peer_error, __ATOMIC_RELAXED))
        return "cuCtxEnablePeerAccess failed, as when too many GPUs are let in: at most 8 without NVSwitch";
    return "no peer access between them (`nvidia-smi topo -p2p r` says why; in a virtual machine the host "
           "decides)";
}

/* Numbers of the GPUs in the set, as in "1, 2". */
static void introspect_numbers(uint64_t set, char text[SN_CUDA_WHY])
{
    size_t at = 0;

    text[0] = 0;
    for (int i = 0; i < 64 && at + 8 < SN_CUDA_WHY; i++)
        if (set >> i & 1) at += (size_t)snprintf(text + at, SN_CUDA_WHY - at, "%s%d", at ? ", " : "", i);
}

static void say_peers(const struct sn_cuda_device *dev, char text[SN_CUDA_SAY])
{
    const struct gw_cuda_driver *api = dev->api;
    uint64_t direct = 0, staged = 0;
    char list[SN_CUDA_WHY];
    gw_cu_device own, other;
    int n = 0, can, at = 0;

    text[0] = 0;
    if (!api->device_count || !api->device_get || !api->can_access_peer || api->device_count(&n)) return;
    if (api->device_get(&own, dev->gpu)) return;
    for (int i = 0; i < n && i < 64; i++) {
        if (i == dev->gpu || api->device_get(&other, i)) continue;
        can = 0;
        if (api->can_access_peer(&can, own, other)) can = 0;
        *(can && !__atomic_load_n(&dev->peer_error, __ATOMIC_RELAXED) ? &direct : &staged) |= UINT64_C(1)
                                                                                              << i;
    }
    introspect_numbers(direct, list);
    if (direct) at = snprintf(text, SN_CUDA_SAY, "straight from GPU %s", list);
    introspect_numbers(staged, list);
    if (staged)
        snprintf(text + at, SN_CUDA_SAY - (size_t)at,
                 "%sthrough the host's memory, which is slower, from GPU %s: %s", direct ? "; " : "", list,
                 no_way(dev));
}

/* A thread may be waiting for a copy inside. */
static bool introspect_lock_soon(struct sn_cuda_device *dev)
{
    const struct timespec nap = {.tv_nsec = 100000};
    uint64_t until = sn_now_ns() + LOCK_NS;

    while (pthread_mutex_trylock(&dev->lock)) {
        if (sn_now_ns() > until) return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

bool sn_cuda_introspect(unsigned i, struct sn_cuda_view *view)
{
    struct sn_cuda_device *dev = sn_cuda_device(i);

    if (!dev) return false;
    *view = (struct sn_cuda_view){.gpu = dev->gpu};
    say_peers(dev, view->peers);
    if (!introspect_lock_soon(dev)) {
        snprintf(view->copies, sizeof(view->copies), "not known: a copy has not ended for half a second");
        return true;
    }
    say_copies(dev, view->copies);
    view->stats = dev->stats;
    view->stats.slow = dev->copier.slow;
    view->stats.refused = dev->copier.refused;
    view->stats.unshared = __atomic_load_n(&dev->unshared, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&dev->lock);
    return true;
}
