/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that was made by cuMemCreate and mapped by cuMemMap, given to other processes as files. A region may
 * lie in several such allocations, one mapped after the other. The files are made when a region is
 * registered, never when a peer asks for them, since the driver may keep that waiting. Regions of the same
 * allocations share theirs.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#include "softnic/cuda/device.h"

struct sn_cuda_export {
    struct sn_cuda_export *next;
    const struct gw_cuda_driver *api;
    unsigned users;
    struct sn_gpu_share share;
    struct sn_cuda_files files;
    gw_cu_memory memory[SN_CUDA_FILES]; /* held, so that no other allocation gets one of these numbers */
};

/* The lock is held for moments, never around a call of the driver: a peer's question waits for it. */
static struct sn_cuda_export *exports;
static pthread_mutex_t exports_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned files_all;
static uint64_t last_number;

static bool has_files(const struct gw_cuda_driver *api)
{
    return api->device_get && api->device_uuid && api->mem_retain && api->mem_release &&
           api->mem_properties && api->mem_export;
}

/* ---- what a region lies in ----------------------------------------------------------------------------- */

bool sn_cuda_mapping(const struct gw_cuda_driver *api, uint64_t addr, uint64_t *base, uint64_t *size)
{
    int attributes[] = {GW_CU_ATTR_MAPPING_BASE, GW_CU_ATTR_MAPPING_SIZE};
    gw_cu_ptr start = 0;
    size_t length = 0;
    void *data[] = {&start, &length};

    if (api->pointer_get_attributes(2, attributes, data, addr)) return false;
    *base = start;
    *size = length;
    return addr >= start && addr - start < length && start <= UINT64_MAX - length;
}

/* May files be made of it, and is it memory of that GPU? */
static bool may_export(const struct gw_cuda_driver *api, gw_cu_memory memory, int gpu)
{
    struct gw_cu_memory_prop p;

    memset(&p, 0, sizeof(p));
    return !api->mem_properties(&p, memory) && p.handle_types & GW_CU_HANDLE_FILE &&
           p.location.type == GW_CU_LOCATION_DEVICE && p.location.id == gpu;
}

static bool add_mapping(struct sn_cuda_export *e, uint64_t addr, int gpu, uint64_t *end)
{
    unsigned n = e->files.n;
    uint64_t base, size;

    if (n == SN_CUDA_FILES || !sn_cuda_mapping(e->api, addr, &base, &size)) return false;
    if (n && base != addr) return false;
    if (e->api->mem_retain(&e->memory[n], (void *)(uintptr_t)addr)) return false;
    e->files.size[n] = size;
    e->files.fd[n] = -1;
    e->files.n++;
    if (!n) e->share.base = base;
    *end = base + size;
    e->share.size = *end - e->share.base;
    return may_export(e->api, e->memory[n], gpu);
}

static bool find_mappings(struct sn_cuda_export *e, const struct sn_cuda_region *region)
{
    uint64_t at = region->addr, end = region->addr + region->len;
    gw_cu_device dev;

    if (e->api->device_get(&dev, region->dev->gpu) || e->api->device_uuid(e->share.gpu, dev)) return false;
    while (at < end)
        if (!add_mapping(e, at, region->dev->gpu, &at)) return false;
    return true;
}

/* ---- files --------------------------------------------------------------------------------------------- */

static bool make_files(struct sn_cuda_export *e)
{
    for (unsigned i = 0; i < e->files.n; i++) {
        int fd = -1;

        if (e->api->mem_export(&fd, e->memory[i], GW_CU_HANDLE_FILE, 0) || fd < 0) return false;
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        e->files.fd[i] = fd;
    }
    return true;
}

void sn_cuda_files_close(struct sn_cuda_files *files)
{
    for (unsigned i = 0; i < files->n; i++)
        if (files->fd[i] >= 0) close(files->fd[i]);
    files->n = 0;
}

static void free_export(struct sn_cuda_export *e)
{
    for (unsigned i = 0; i < e->files.n; i++) e->api->mem_release(e->memory[i]);
    sn_cuda_files_close(&e->files);
    free(e);
}

/* ---- the list of them ---------------------------------------------------------------------------------- */

static bool same_memory(const struct sn_cuda_export *a, const struct sn_cuda_export *b)
{
    return a->api == b->api && a->files.n == b->files.n && a->share.base == b->share.base &&
           a->share.size == b->share.size && !memcmp(a->memory, b->memory, a->files.n * sizeof(a->memory[0]));
}

static struct sn_cuda_export *use_known(const struct sn_cuda_export *like)
{
    GW_ASSERT_HELD(&exports_lock);
    for (struct sn_cuda_export *e = exports; e; e = e->next) {
        if (!same_memory(e, like)) continue;
        e->users++;
        return e;
    }
    return NULL;
}

static void cuda_export_enlist(struct sn_cuda_export *e)
{
    GW_ASSERT_HELD(&exports_lock);
    last_number++;
    memcpy(e->share.handle, &last_number, sizeof(last_number));
    e->share.way = SN_GPU_BY_FILES;
    e->share.files = e->files.n;
    e->users = 1;
    e->next = exports;
    exports = e;
}

static void unlist(struct sn_cuda_export *e)
{
    struct sn_cuda_export **at = &exports;

    GW_ASSERT_HELD(&exports_lock);
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    files_all -= e->files.n;
}

/* ---- for others ---------------------------------------------------------------------------------------- */

/* Room for N files more. */
static bool cuda_export_reserve(unsigned n)
{
    bool ok;

    pthread_mutex_lock(&exports_lock);
    ok = files_all + n <= SN_CUDA_FILES_ALL;
    if (ok) files_all += n;
    pthread_mutex_unlock(&exports_lock);
    return ok;
}

static struct sn_cuda_export *find_known(const struct sn_cuda_export *like)
{
    struct sn_cuda_export *e;

    pthread_mutex_lock(&exports_lock);
    e = use_known(like);
    pthread_mutex_unlock(&exports_lock);
    return e;
}

struct sn_cuda_export *sn_cuda_export(const struct sn_cuda_region *region, struct sn_gpu_share *share)
{
    struct sn_cuda_export *e = has_files(region->dev->api) ? calloc(1, sizeof(*e)) : NULL, *known;

    if (!e) return NULL;
    e->api = region->dev->api;
    if (!find_mappings(e, region)) {
        free_export(e);
        return NULL;
    }
    known = find_known(e);
    if (!known && cuda_export_reserve(e->files.n)) {
        if (make_files(e)) {
            pthread_mutex_lock(&exports_lock);
            cuda_export_enlist(e);
            pthread_mutex_unlock(&exports_lock);
            *share = e->share;
            return e;
        }
        pthread_mutex_lock(&exports_lock);
        files_all -= e->files.n;
        pthread_mutex_unlock(&exports_lock);
    }
    free_export(e);
    if (known) *share = known->share;
    return known;
}

void sn_cuda_unexport(struct sn_cuda_export *e)
{
    bool last;

    pthread_mutex_lock(&exports_lock);
    GW_ASSERT(e->users > 0 && files_all >= e->files.n);
    last = !--e->users;
    if (last) unlist(e);
    pthread_mutex_unlock(&exports_lock);
    if (last) free_export(e);
}

static bool copy_files(struct sn_cuda_files *to, const struct sn_cuda_files *from)
{
    to->n = 0;
    for (unsigned i = 0; i < from->n; i++) {
        int fd = fcntl(from->fd[i], F_DUPFD_CLOEXEC, 0);

        if (fd < 0) {
            sn_cuda_files_close(to);
            return false;
        }
        to->fd[i] = fd;
        to->size[i] = from->size[i];
        to->n++;
    }
    return true;
}

bool sn_cuda_files(const struct sn_gpu_share *share, struct sn_cuda_files *files)
{
    bool found = false;

    pthread_mutex_lock(&exports_lock);
    for (const struct sn_cuda_export *e = exports; e && !found; e = e->next)
        if (!memcmp(&e->share, share, sizeof(*share))) found = copy_files(files, &e->files);
    pthread_mutex_unlock(&exports_lock);
    return found;
}

/* The parent's files would keep its memory. */
void sn_cuda_export_forked(void)
{
    pthread_mutex_init(&exports_lock, NULL);
    for (struct sn_cuda_export *e = exports; e; e = e->next) sn_cuda_files_close(&e->files);
    exports = NULL;
    files_all = 0;
}
