/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the CUDA driver that the process has loaded, and fills the table of its calls. */
#include "src/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

/* The names carry the version of the ABI: without _v2 the driver gives the functions of CUDA 3. */
static const struct {
    const char *name;
    size_t offset;
    bool needed;
} symbols[] = {
#define SYM(field, name, needed)                                                                             \
    {                                                                                                        \
        name, offsetof(struct gw_cuda_driver, field), needed                                                 \
    }
    SYM(pointer_get_attributes, "cuPointerGetAttributes", true),
    SYM(primary_ctx_retain, "cuDevicePrimaryCtxRetain", true),
    SYM(ctx_push, "cuCtxPushCurrent_v2", true),
    SYM(ctx_pop, "cuCtxPopCurrent_v2", true),
    SYM(ctx_get_id, "cuCtxGetId", false),
    SYM(host_alloc, "cuMemHostAlloc", true),
    SYM(host_free, "cuMemFreeHost", true),
    SYM(stream_create, "cuStreamCreate", true),
    SYM(stream_destroy, "cuStreamDestroy_v2", true),
    SYM(event_create, "cuEventCreate", true),
    SYM(event_destroy, "cuEventDestroy_v2", true),
    SYM(event_record, "cuEventRecord", true),
    SYM(event_query, "cuEventQuery", true),
    SYM(copy_to_device, "cuMemcpyHtoDAsync_v2", true),
    SYM(copy_to_host, "cuMemcpyDtoHAsync_v2", true),
    SYM(copy, "cuMemcpyAsync", false),
    SYM(error_name, "cuGetErrorName", true),
    SYM(device_count, "cuDeviceGetCount", false),
    SYM(device_get, "cuDeviceGet", false),
    SYM(device_attribute, "cuDeviceGetAttribute", false),
    SYM(device_uuid, "cuDeviceGetUuid_v2", false),
    SYM(primary_ctx_state, "cuDevicePrimaryCtxGetState", false),
    SYM(ipc_get, "cuIpcGetMemHandle", false),
    SYM(ipc_open, "cuIpcOpenMemHandle_v2", false),
    SYM(ipc_close, "cuIpcCloseMemHandle", false),
    SYM(mem_retain, "cuMemRetainAllocationHandle", false),
    SYM(mem_release, "cuMemRelease", false),
    SYM(mem_properties, "cuMemGetAllocationPropertiesFromHandle", false),
    SYM(mem_export, "cuMemExportToShareableHandle", false),
    SYM(mem_import, "cuMemImportFromShareableHandle", false),
    SYM(mem_reserve, "cuMemAddressReserve", false),
    SYM(mem_unreserve, "cuMemAddressFree", false),
    SYM(mem_map, "cuMemMap", false),
    SYM(mem_unmap, "cuMemUnmap", false),
    SYM(mem_access, "cuMemSetAccess", false),
    SYM(mem_create, "cuMemCreate", false),
    SYM(stream_wait, "cuStreamSynchronize", false),
    SYM(can_access_peer, "cuDeviceCanAccessPeer", false),
    SYM(enable_peer, "cuCtxEnablePeerAccess", false),
    SYM(copy_peer, "cuMemcpyPeerAsync", false),
    SYM(module_load, "cuModuleLoadData", false),
    SYM(module_function, "cuModuleGetFunction", false),
    SYM(function_load, "cuFuncLoad", false),
    SYM(launch, "cuLaunchKernel", false),
#undef SYM
};

static struct gw_cuda_driver table;
static bool table_filled;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

static bool fill_table(void)
{
    /* NOLOAD: loading the driver just to hear that there is no GPU would cost every program 100 ms. */
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    if (!lib) return false;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *sym = dlsym(lib, symbols[i].name);

        if (!sym && symbols[i].needed) {
            dlclose(lib);
            return false;
        }
        memcpy((char *)&table + symbols[i].offset, &sym, sizeof(sym));
    }
    return true; /* the handle is kept: the table points into the library */
}

const struct gw_cuda_driver *gw_cuda_driver_loaded(void)
{
    bool filled;

    pthread_mutex_lock(&table_lock);
    if (!table_filled) table_filled = fill_table();
    filled = table_filled;
    pthread_mutex_unlock(&table_lock);
    return filled ? &table : NULL;
}

void gw_cuda_driver_forked(void)
{
    pthread_mutex_init(&table_lock, NULL);
}
