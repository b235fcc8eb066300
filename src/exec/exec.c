/* SPDX-License-Identifier: Apache-2.0 */
/* The executor's public calls: they check their arguments and hand them to the CPU's or the GPU's side. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/detail/assert.h>

#include "src/exec/impl.h"

static int exec_check_opts(const struct gw_exec_opts *opts)
{
    if (opts->lanes > 1024) return gw_error(-EINVAL, "%u lanes: a block has 1 to 1024 threads", opts->lanes);
    if (opts->blocks > 1024) return gw_error(-EINVAL, "%u blocks at once: 1024 at most", opts->blocks);
    return 0;
}

int gw_exec_create(const char *which, const struct gw_exec_opts *opts, struct gw_exec **exec)
{
    struct gw_exec_opts o = {0};
    int err;

    *exec = NULL;
    if (opts) o = *opts;
    err = exec_check_opts(&o);
    if (err) return err;
    if (!which || !strcmp(which, "auto"))
        return gw_gpu_available(NULL, 0) ? gw_gpu_exec_create(&o, exec) : gw_cpu_exec_create(&o, exec);
    if (!strcmp(which, "gpu")) return gw_gpu_exec_create(&o, exec);
    if (!strcmp(which, "cpu")) return gw_cpu_exec_create(&o, exec);
    return gw_error(-EINVAL, "no executor named '%s': there are gpu, cpu and auto", which);
}

int gw_exec_destroy(struct gw_exec *exec)
{
    uint32_t users;

    if (!exec) return 0;
    users = gw_ld_acquire_u32(&exec->users);
    if (users)
        return gw_error(-EBUSY, "executor %s: %u loops or pieces of memory still need it", exec->name, users);
    return exec->ops->destroy(exec);
}

enum gw_exec_kind gw_exec_kind(const struct gw_exec *exec)
{
    return exec->kind;
}

const char *gw_exec_name(const struct gw_exec *exec)
{
    return exec->name;
}

uint32_t gw_exec_device(const struct gw_exec *exec)
{
    return exec->device;
}

uint32_t gw_exec_lanes(const struct gw_exec *exec)
{
    return exec->lanes;
}

uint32_t gw_exec_resident_blocks(const struct gw_exec *exec)
{
    return exec->blocks;
}

void *gw_exec_stream(struct gw_exec *exec)
{
    return exec->stream;
}

int gw_exec_gpu_available(char *why, size_t size)
{
    return gw_gpu_available(why, size);
}

int gw_mem_alloc(struct gw_exec *exec, enum gw_mem_kind kind, size_t size, struct gw_mem *mem)
{
    int err;

    memset(mem, 0, sizeof(*mem));
    if (kind != GW_MEM_HOST && kind != GW_MEM_DEVICE)
        return gw_error(-EINVAL, "memory of kind %d: there are GW_MEM_HOST and GW_MEM_DEVICE", (int)kind);
    if (!size) return gw_error(-EINVAL, "memory of 0 bytes");
    if (size > GW_MEM_MAX) return gw_error(-ENOMEM, "no memory: %zu bytes were asked for", size);
    mem->kind = kind;
    mem->size = (size + gw_page() - 1) & ~(size_t)(gw_page() - 1);
    mem->exec = exec;
    err = exec->ops->mem_alloc(exec, mem);
    if (err)
        memset(mem, 0, sizeof(*mem));
    else
        gw_add_relaxed_u32(&exec->users, 1);
    return err;
}

void gw_mem_free(struct gw_mem *mem)
{
    struct gw_exec *exec = mem->exec;

    if (!exec) return;
    exec->ops->mem_free(mem);
    memset(mem, 0, sizeof(*mem));
    GW_ASSERT(gw_ld_relaxed_u32(&exec->users) > 0);
    gw_add_release_u32(&exec->users, UINT32_MAX); /* after the last use of exec: gw_exec_destroy may follow */
}

int gw_mem_register(struct gw_exec *exec, void *start, size_t size, uint32_t flags, struct gw_mem *mem)
{
    int err;

    memset(mem, 0, sizeof(*mem));
    if (flags & ~GW_MEM_IO) return gw_error(-EINVAL, "gw_mem_register: unknown flags %#x", flags);
    if (!start || !size || (uintptr_t)start > UINTPTR_MAX - size - gw_page())
        return gw_error(-EINVAL, "gw_mem_register: %zu bytes at %p", size, start);
    mem->host = start;
    mem->size = size;
    mem->kind = GW_MEM_HOST;
    mem->exec = exec;
    err = exec->ops->mem_register(exec, mem, flags);
    if (err)
        memset(mem, 0, sizeof(*mem));
    else
        gw_add_relaxed_u32(&exec->users, 1);
    return err;
}

void gw_mem_unregister(struct gw_mem *mem)
{
    struct gw_exec *exec = mem->exec;

    if (!exec) return;
    exec->ops->mem_unregister(mem);
    memset(mem, 0, sizeof(*mem));
    GW_ASSERT(gw_ld_relaxed_u32(&exec->users) > 0);
    gw_add_release_u32(&exec->users, UINT32_MAX); /* as in gw_mem_free */
}

int gw_copy_in(struct gw_exec *exec, void *dev, const void *host, size_t size)
{
    return size ? exec->ops->copy_in(exec, dev, host, size) : 0;
}

int gw_copy_out(struct gw_exec *exec, void *host, const void *dev, size_t size)
{
    return size ? exec->ops->copy_out(exec, host, dev, size) : 0;
}

int gw_launch(struct gw_exec *exec, const struct gw_kernel *kernel, uint32_t grid, uint32_t block,
              const void *arg)
{
    if (!grid || grid > INT32_MAX || !block || block > 1024)
        return gw_error(-EINVAL, "kernel %s: %u blocks of %u threads (a block has 1 to 1024)", kernel->name,
                        grid, block);
    if (exec->kind == GW_EXEC_CPU && !kernel->cpu)
        return gw_error(-ENOSYS, "kernel %s has no CPU version: compile it as C, too", kernel->name);
    return exec->ops->launch(exec, kernel, grid, block, arg);
}

int gw_exec_sync(struct gw_exec *exec, uint64_t deadline_ns)
{
    return exec->ops->sync(exec, deadline_ns);
}
