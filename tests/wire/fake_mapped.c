/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/wire/fake_mapped.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/wire/fake_memory.h"

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, NOT_SUPPORTED = 801, MANY = 96 };

/* A file holds its memory and, after that, the GPU that has it. Other processes read that. */
struct label {
    uint64_t magic;
    uint8_t gpu[16];
};
#define MAGIC UINT64_C(0x5550472045434146)

static struct object {
    gw_cu_memory number;
    int fd, gpu, types;
    size_t size;
    int refs, maps;
} objects[MANY];
static struct range {
    gw_cu_ptr at;
    size_t size;
    struct object *object; /* of a mapping */
} reserved[MANY], mapped[MANY];
static gw_cu_memory last_number;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int locked(int result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static struct object *object_of(gw_cu_memory number)
{
    for (int i = 0; i < MANY; i++)
        if (objects[i].refs && objects[i].number == number) return &objects[i];
    return NULL;
}

static int add_object(int fd, size_t size, int gpu, int types, gw_cu_memory *memory)
{
    for (int i = 0; i < MANY; i++) {
        if (objects[i].refs || objects[i].maps) continue;
        objects[i] = (struct object){++last_number << 8, fd, gpu, types, size, 1, 0};
        *memory = objects[i].number;
        return 0;
    }
    return OUT_OF_MEMORY;
}

static void drop_unused(struct object *o)
{
    if (o->refs || o->maps) return;
    close(o->fd);
    memset(o, 0, sizeof(*o));
}

int fake_mem_create(gw_cu_memory *memory, size_t size, const struct gw_cu_memory_prop *prop,
                    unsigned long long flags)
{
    struct label label = {MAGIC, {0}};
    int fd;

    if (flags || !size || size % FAKE_GRAIN || prop->type != 1 || prop->handle_types & ~GW_CU_HANDLE_FILE)
        return INVALID_VALUE;
    if (prop->location.type != GW_CU_LOCATION_DEVICE) return INVALID_VALUE;
    if (prop->location.id < 0 || prop->location.id >= FAKE_GPUS) return INVALID_DEVICE;
    fd = memfd_create("fake GPU", MFD_CLOEXEC);
    fake_uuid(prop->location.id, label.gpu);
    if (fd < 0 || pwrite(fd, &label, sizeof(label), (off_t)size) != sizeof(label)) return OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    return locked(add_object(fd, size, prop->location.id, prop->handle_types, memory));
}

static struct range *around(struct range *list, gw_cu_ptr at)
{
    for (int i = 0; i < MANY; i++)
        if (list[i].size && at - list[i].at < list[i].size) return &list[i];
    return NULL;
}

int fake_mem_retain(gw_cu_memory *memory, void *mapped_at)
{
    struct range *r;

    pthread_mutex_lock(&lock);
    r = around(mapped, (uintptr_t)mapped_at);
    if (!r) return locked(INVALID_VALUE);
    r->object->refs++;
    *memory = r->object->number;
    return locked(0);
}

int fake_mem_release(gw_cu_memory memory)
{
    struct object *o;

    pthread_mutex_lock(&lock);
    o = object_of(memory);
    if (!o) return locked(INVALID_VALUE);
    o->refs--;
    drop_unused(o);
    return locked(0);
}

int fake_mem_properties(struct gw_cu_memory_prop *prop, gw_cu_memory memory)
{
    struct object *o;

    pthread_mutex_lock(&lock);
    o = object_of(memory);
    if (!o) return locked(INVALID_VALUE);
    memset(prop, 0, sizeof(*prop));
    prop->type = 1;
    prop->handle_types = o->types;
    prop->location = (struct gw_cu_location){GW_CU_LOCATION_DEVICE, o->gpu};
    return locked(0);
}

/* ---- files --------------------------------------------------------------------------------------------- */

int fake_mem_export(void *handle, gw_cu_memory memory, int type, unsigned long long flags)
{
    struct object *o;

    pthread_mutex_lock(&lock);
    o = object_of(memory);
    if (!o || flags || type != GW_CU_HANDLE_FILE || !(o->types & type)) return locked(INVALID_VALUE);
    *(int *)handle = dup(o->fd);
    return locked(*(int *)handle < 0 ? OUT_OF_MEMORY : 0);
}

/* Which of this process's GPUs it is; one that it does not see counts as the other one. */
static int gpu_of(const uint8_t uuid[16])
{
    uint8_t own[16];

    for (int i = 0; i < FAKE_GPUS; i++) {
        fake_uuid(i, own);
        if (!memcmp(own, uuid, 16)) return i;
    }
    return !fake_cuda_current();
}

int fake_mem_import(gw_cu_memory *memory, void *handle, int type)
{
    int fd = (int)(intptr_t)handle;
    struct label label;
    struct stat st;
    off_t size;

    if (type != GW_CU_HANDLE_FILE || fstat(fd, &st) || st.st_size <= (off_t)sizeof(label))
        return INVALID_VALUE;
    size = st.st_size - (off_t)sizeof(label);
    if (pread(fd, &label, sizeof(label), size) != sizeof(label) || label.magic != MAGIC) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    return locked(
        add_object(dup(fd), (size_t)size, gpu_of(label.gpu), 0, memory)); /* it gives no files itself */
}

/* ---- places -------------------------------------------------------------------------------------------- */

static int add_range(struct range *list, gw_cu_ptr at, size_t size, struct object *o)
{
    for (int i = 0; i < MANY; i++) {
        if (list[i].size) continue;
        list[i] = (struct range){at, size, o};
        return 0;
    }
    return OUT_OF_MEMORY;
}

int fake_mem_reserve(gw_cu_ptr *at, size_t size, size_t alignment, gw_cu_ptr wanted, unsigned long long flags)
{
    void *p;

    if (!size || size % FAKE_GRAIN || alignment || wanted || flags) return INVALID_VALUE;
    p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return OUT_OF_MEMORY;
    *at = (uintptr_t)p;
    pthread_mutex_lock(&lock);
    return locked(add_range(reserved, *at, size, NULL));
}

static int overlaps(gw_cu_ptr at, size_t size)
{
    for (int i = 0; i < MANY; i++)
        if (mapped[i].size && mapped[i].at < at + size && at < mapped[i].at + mapped[i].size) return 1;
    return 0;
}

int fake_mem_unreserve(gw_cu_ptr at, size_t size)
{
    struct range *r;

    pthread_mutex_lock(&lock);
    r = around(reserved, at);
    if (!r || r->at != at || r->size != size || overlaps(at, size)) return locked(INVALID_VALUE);
    munmap((void *)(uintptr_t)at, size);
    memset(r, 0, sizeof(*r));
    return locked(0);
}

int fake_mem_map(gw_cu_ptr at, size_t size, size_t offset, gw_cu_memory memory, unsigned long long flags)
{
    void *p = (void *)(uintptr_t)at;
    struct object *o;
    struct range *r;

    pthread_mutex_lock(&lock);
    o = object_of(memory);
    r = around(reserved, at);
    if (!o || !r || !size || size > o->size || size % FAKE_GRAIN || offset || flags)
        return locked(INVALID_VALUE);
    if (at - r->at > r->size - size || overlaps(at, size) || (at - r->at) % FAKE_GRAIN)
        return locked(INVALID_VALUE);
    if (mmap(p, size, PROT_NONE, MAP_SHARED | MAP_FIXED, o->fd, 0) == MAP_FAILED)
        return locked(OUT_OF_MEMORY);
    if (add_range(mapped, at, size, o) || fake_cuda_add_mapping(p, size, o->gpu, r->at, r->size))
        return locked(OUT_OF_MEMORY);
    o->maps++;
    return locked(0);
}

int fake_mem_unmap(gw_cu_ptr at, size_t size)
{
    void *p = (void *)(uintptr_t)at;
    struct object *o;
    struct range *r;

    pthread_mutex_lock(&lock);
    r = around(mapped, at);
    if (!r || r->at != at || r->size != size) return locked(INVALID_VALUE);
    o = r->object;
    memset(r, 0, sizeof(*r));
    fake_cuda_remove_memory(p);
    if (mmap(p, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
        return locked(OUT_OF_MEMORY);
    o->maps--;
    drop_unused(o);
    return locked(0);
}

/* All of it must be mapped. */
static int let_in(gw_cu_ptr at, size_t size, int gpu)
{
    for (gw_cu_ptr end = at + size; at < end;) {
        struct range *r = around(mapped, at);

        if (!r || r->at != at || r->size > end - at) return INVALID_VALUE;
        if (r->object->gpu != gpu && !fake_peers) return NOT_SUPPORTED;
        fake_cuda_let_in((void *)(uintptr_t)at, gpu);
        if (mprotect((void *)(uintptr_t)at, r->size, PROT_READ | PROT_WRITE)) return OUT_OF_MEMORY;
        at += r->size;
    }
    return 0;
}

int fake_mem_access(gw_cu_ptr at, size_t size, const struct gw_cu_access *access, size_t n)
{
    int err = 0;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n && !err; i++) {
        const struct gw_cu_access *a = &access[i];

        if (a->location.type != GW_CU_LOCATION_DEVICE || a->flags != GW_CU_ACCESS_READ_WRITE)
            err = INVALID_VALUE;
        else
            err = let_in(at, size, a->location.id);
    }
    return locked(err);
}

unsigned fake_mem_left(void)
{
    unsigned n = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < MANY; i++)
        n += (objects[i].refs || objects[i].maps) + (reserved[i].size != 0) + (mapped[i].size != 0);
    return (unsigned)locked((int)n);
}
