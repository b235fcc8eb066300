/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of another process, by the files that it handed over, mapped here one after the other. */
#include "softnic/cuda/device.h"

static bool has_imports(const struct gw_cuda_driver *api)
{
    return api->mem_import && api->mem_release && api->mem_reserve && api->mem_unreserve && api->mem_map &&
           api->mem_unmap && api->mem_access;
}

/* The mapping keeps the memory, so the handle need not be kept. */
static bool map_one(const struct gw_cuda_driver *api, uint64_t at, int fd, uint64_t size)
{
    gw_cu_memory memory;
    bool ok;

    if (api->mem_import(&memory, (void *)(intptr_t)fd, GW_CU_HANDLE_FILE)) return false;
    ok = !api->mem_map(at, size, 0, memory, 0);
    api->mem_release(memory);
    return ok;
}

/* How many bytes are mapped now. */
static uint64_t map_all(const struct gw_cuda_driver *api, uint64_t at, const struct sn_cuda_files *files)
{
    uint64_t mapped = 0;

    for (unsigned i = 0; i < files->n; i++) {
        if (!map_one(api, at + mapped, files->fd[i], files->size[i])) break;
        mapped += files->size[i];
    }
    return mapped;
}

/* Each mapping by itself, as they were made. */
static void unmap_all(const struct gw_cuda_driver *api, uint64_t at, uint64_t size)
{
    uint64_t end = at + size, base;

    for (; at < end && sn_cuda_mapping(api, at, &base, &size) && base == at; at += size)
        if (api->mem_unmap(at, size)) return;
}

static bool is_whole(const struct sn_gpu_share *share, const struct sn_cuda_files *files)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < files->n; i++)
        if (!files->size[i] || __builtin_add_overflow(sum, files->size[i], &sum)) return false;
    return files->n && files->n == share->files && sum == share->size;
}

int sn_cuda_import(const struct gw_cuda_driver *api, int gpu, const struct sn_gpu_share *share,
                   const struct sn_cuda_files *files, uint64_t *at)
{
    struct gw_cu_access access = {{GW_CU_LOCATION_DEVICE, gpu}, GW_CU_ACCESS_READ_WRITE};
    uint64_t mapped;
    gw_cu_ptr p = 0;

    if (!has_imports(api) || !files || !is_whole(share, files)) return -1;
    if (api->mem_reserve(&p, share->size, 0, 0, 0)) return -1;
    mapped = map_all(api, p, files);
    if (mapped == share->size && !api->mem_access(p, share->size, &access, 1)) {
        *at = p;
        return 0;
    }
    unmap_all(api, p, mapped);
    api->mem_unreserve(p, share->size);
    return -1;
}

void sn_cuda_unimport(const struct gw_cuda_driver *api, uint64_t at, uint64_t size)
{
    unmap_all(api, at, size);
    api->mem_unreserve(at, size);
}
