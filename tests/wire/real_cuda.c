/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/wire/real_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct real_cuda cu;
int failures;

static const struct {
    const char *name;
    void *at;
} symbols[] = {
    {"cuInit", &cu.init},
    {"cuDeviceGet", &cu.device_get},
    {"cuDeviceGetCount", &cu.device_count},
    {"cuDeviceCanAccessPeer", &cu.can_access_peer},
    {"cuDeviceGetName", &cu.device_name},
    {"cuDeviceGetAttribute", &cu.device_attribute},
    {"cuDevicePrimaryCtxRetain", &cu.ctx_retain},
    {"cuCtxSetCurrent", &cu.ctx_set},
    {"cuMemAlloc_v2", &cu.mem_alloc},
    {"cuMemAllocManaged", &cu.mem_alloc_managed},
    {"cuMemFree_v2", &cu.mem_free},
    {"cuMemsetD8_v2", &cu.memset8},
    {"cuMemcpyHtoD_v2", &cu.copy_in},
    {"cuMemcpyDtoH_v2", &cu.copy_out},
    {"cuModuleLoadData", &cu.module_load},
    {"cuModuleGetFunction", &cu.module_function},
    {"cuLaunchKernel", &cu.launch},
    {"cuCtxSynchronize", &cu.sync},
};

int real_cuda_find(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    char name[100] = "?";
    gw_cu_ctx ctx;
    int dev;

    for (size_t i = 0; lib && i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *sym = dlsym(lib, symbols[i].name);

        if (!sym) return 0;
        memcpy(symbols[i].at, &sym, sizeof(sym));
    }
    if (!lib || cu.init(0) || cu.device_get(&dev, 0) || cu.ctx_retain(&ctx, dev) || cu.ctx_set(ctx)) return 0;
    cu.device_name(name, sizeof(name), dev);
    printf("gpu: %s\n", name);
    return 1;
}

void *real_cuda_kernel(const char *ptx, const char *name)
{
    void *module, *kernel;

    if (!cu.module_load(&module, ptx) && !cu.module_function(&kernel, module, name)) return kernel;
    printf("FAILED: kernel %s cannot be loaded\n", name);
    failures++;
    return NULL;
}

static const char fill[] =
    ".version 6.4\n.target sm_70\n.address_size 64\n"
    ".visible .entry fill(.param .u64 pflag, .param .u64 pbegun)\n{\n"
    " .reg .pred %p<3>;\n .reg .b32 %r<4>;\n .reg .b64 %rd<3>;\n"
    " ld.param.u64 %rd1, [pflag];\n ld.param.u64 %rd2, [pbegun];\n mov.u32 %r1, %tid.x;\n"
    " setp.ne.u32 %p1, %r1, 0;\n @%p1 bra MEET;\n atom.add.relaxed.sys.u32 %r3, [%rd2], 1;\n"
    "LOOP:\n ld.relaxed.sys.u32 %r2, [%rd1];\n nanosleep.u32 500000;\n setp.eq.u32 %p2, %r2, 0;\n @%p2 bra "
    "LOOP;\n"
    "MEET:\n bar.sync 0;\n ret;\n}\n";

int real_cuda_fill(int gpu, uint32_t *page)
{
    void *kernel = real_cuda_kernel(fill, "fill"), *begun = page + 1, *args[2] = {&page, &begun};
    int processors, dev;

    page[0] = page[1] = 0;
    if (!kernel || cu.device_get(&dev, gpu) || cu.device_attribute(&processors, 16, dev)) return 0;
    /* Two blocks of 1024 threads are all that fits a processor. */
    return cu.launch(kernel, 2 * (unsigned)processors, 1, 1, 1024, 1, 1, 0, NULL, args, NULL)
               ? 0
               : 2 * processors;
}

void check(int ok, const char *what)
{
    printf("%s: %s\n", ok ? "ok" : "FAILED", what);
    failures += !ok;
}

uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

void print_median(const char *what, double *us, double bytes)
{
    qsort(us, TIMES, sizeof(*us), by_value);
    printf("measured: %-44s median %8.1f us, p90 %8.1f us", what, us[TIMES / 2], us[TIMES * 9 / 10]);
    if (bytes >= 4096) printf(", %.1f GB/s", bytes / us[TIMES / 2] / 1e3);
    printf("\n");
}
