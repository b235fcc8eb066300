/* SPDX-License-Identifier: Apache-2.0 */
/* Asks NVML how busy the GPUs are. */
#include "src/server/lifecycle/gpu_use.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

/* NVML's own types, as its documentation has them. */
struct rates {
    unsigned gpu, memory; /* per cent */
};
struct memory {
    unsigned long long total, free, used;
};
typedef void *device;

static struct {
    int (*init)(void);
    int (*count)(unsigned *n);
    int (*by_index)(unsigned i, device *out);
    int (*uuid)(device d, char *text, unsigned bytes);
    int (*rates)(device d, struct rates *out);
    int (*memory)(device d, struct memory *out);
    int (*power)(device d, unsigned *milliwatts);
    int usable;
} nvml;

static void *need(void *library, const char *name, int *missing)
{
    void *f = dlsym(library, name);
    *missing |= !f;
    return f;
}

/* POSIX has it that a function's address survives as an object's. */
#define LOAD(field, name)                                                                                    \
    do {                                                                                                     \
        void *f = need(library, name, &missing);                                                             \
        memcpy(&nvml.field, &f, sizeof(f));                                                                  \
    } while (0)

static void gpu_use_load(void)
{
    int missing = 0;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    LOAD(init, "nvmlInit_v2");
    LOAD(count, "nvmlDeviceGetCount_v2");
    LOAD(by_index, "nvmlDeviceGetHandleByIndex_v2");
    LOAD(uuid, "nvmlDeviceGetUUID");
    LOAD(rates, "nvmlDeviceGetUtilizationRates");
    LOAD(memory, "nvmlDeviceGetMemoryInfo");
    LOAD(power, "nvmlDeviceGetPowerUsage");
    nvml.usable = !missing && !nvml.init();
}

static int gpu_use_read_one(unsigned i, struct gw_gpu_use *out)
{
    struct rates rates = {0};
    struct memory memory = {0};
    unsigned milliwatts = 0;
    device d;
    memset(out, 0, sizeof(*out));
    if (nvml.by_index(i, &d) || nvml.uuid(d, out->uuid, sizeof(out->uuid))) return 0;
    if (!nvml.rates(d, &rates)) out->utilization = rates.gpu / 100.0;
    if (!nvml.memory(d, &memory)) {
        out->memory = memory.total;
        out->memory_used = memory.used;
    }
    if (!nvml.power(d, &milliwatts)) out->watts = milliwatts / 1000.0;
    return 1;
}

uint32_t gw_gpu_use_read(struct gw_gpu_use *out, uint32_t n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    unsigned there = 0;
    uint32_t filled = 0;
    pthread_once(&once, gpu_use_load);
    if (!nvml.usable || nvml.count(&there)) return 0;
    for (unsigned i = 0; i < there && filled < n; i++) filled += (uint32_t)gpu_use_read_one(i, &out[filled]);
    return filled;
}
