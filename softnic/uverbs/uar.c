/* SPDX-License-Identifier: Apache-2.0 */
/* Doorbell pages and the registers on them. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include <gpuwire/detail/held.h>

#include "softnic/uverbs/attrs.h"
#include "softnic/uverbs/object.h"
#include "softnic/uverbs/uverbs.h"

#define PAGE            SN_UAR_SIZE
#define COMMAND_SHIFT   8
#define MMAP_OBJECT     9u /* the first command that libmlx5 does not know: the offset is ours to choose */
#define REGISTERS_REPLY 4  /* libmlx5 numbers four registers per page and uses the first two */

static void give_page(struct sn_uar **slot)
{
    if (*slot) sn_uar_destroy(*slot);
    *slot = NULL;
}

int uv_uars_init(struct uv_file *f, uint32_t registers, uint32_t low_latency)
{
    struct uv_uars *u = &f->uars;

    memset(u, 0, sizeof(*u));
    u->static_pages = registers / UV_BFREGS_PER_PAGE;
    u->low_latency = low_latency;
    for (uint32_t i = 0; i < u->static_pages; i++) {
        int err = sn_uar_create(f->nic, &u->pages[i]);
        if (err) return err; /* the caller ends what there is */
    }
    return 0;
}

void uv_uars_end(struct uv_file *f)
{
    for (uint32_t i = 0; i < UV_MAX_STATIC_PAGES; i++) give_page(&f->uars.pages[i]);
    for (uint32_t i = 0; i < UV_MAX_DYNAMIC_PAGES; i++) give_page(&f->uars.dynamic[i]);
    f->uars.static_pages = 0;
}

/*
 * libmlx5 takes the rules of the kernel's driver for granted. The last `low_latency` registers serve one QP
 * each, so it rings them without a lock. The others are shared and locked. Register 0 is for doorbells
 * without BlueFlame.
 */
int uv_bfreg_take(struct uv_file *f, int *index)
{
    struct uv_uars *u = &f->uars;
    uint32_t total = u->static_pages * UV_BFREGS_PER_PAGE, shared = total - u->low_latency, best = 0;

    GW_ASSERT_HELD(&f->lock);
    for (uint32_t i = shared; i < total; i++) {
        if (i == 0 || u->users[i]) continue;
        best = i;
        goto taken;
    }
    for (uint32_t i = 1; i < shared; i++)
        if (!best || u->users[i] < u->users[best]) best = i;
taken:
    if (u->users[best] == UINT16_MAX) return -ENOMEM;
    u->users[best]++;
    *index = (int)best;
    return 0;
}

void uv_bfreg_give(struct uv_file *f, int index)
{
    GW_ASSERT_HELD(&f->lock);
    GW_ASSERT(index < 0 || f->uars.users[index] > 0);
    if (index >= 0) f->uars.users[index]--;
}

uint32_t uv_bfreg_reply(int index)
{
    uint32_t i = (uint32_t)index;
    return i / UV_BFREGS_PER_PAGE * REGISTERS_REPLY + i % UV_BFREGS_PER_PAGE;
}

struct sn_uar *uv_uar_static(struct uv_file *f, int index)
{
    return f->uars.pages[index / UV_BFREGS_PER_PAGE];
}

struct sn_uar *uv_uar_dynamic(struct uv_file *f, uint32_t bfreg_index)
{
    uint32_t page = bfreg_index / UV_BFREGS_PER_PAGE;
    return page < UV_MAX_DYNAMIC_PAGES ? f->uars.dynamic[page] : NULL;
}

/* ---- pages that are objects ---- */

struct uv_uar *uv_uar_numbered(struct uv_file *f, uint32_t page_id)
{
    return uv_find_at(f, UV_UAR, page_id);
}

/* Queue pairs of such a page name the page and not the register, so it has one sweep for all of them. */
int uv_alloc_uar(struct uv_file *f, const struct uv_request *r)
{
    uint64_t type = 0;
    int err = uv_attr_in(r, MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, &type, sizeof(type));
    if (err || type > MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC) return -EINVAL;
    struct uv_uar *uar = uv_new(f, UV_UAR, sizeof(*uar));
    if (!uar) return -ENOMEM;
    err = sn_uar_create(f->nic, &uar->page);
    if (err) {
        uv_free(f, &uar->obj);
        return err;
    }
    sn_uar_merge(uar->page);
    const uint32_t page_id = uv_index_of(&uar->obj), length = PAGE;
    const uint64_t offset =
        (uint64_t)((page_id & 0xff) | (page_id >> 8) << 16 | MMAP_OBJECT << COMMAND_SHIFT) * PAGE;
    err = uv_attr_out(r, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &offset, sizeof(offset));
    if (!err) err = uv_attr_out(r, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &length, sizeof(length));
    if (!err) err = uv_attr_out(r, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &page_id, sizeof(page_id));
    if (!err) err = uv_attr_handle(r, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, uar->obj.handle);
    if (err) uv_destroy(f, &uar->obj);
    return err;
}

void uv_uar_end(struct uv_file *f, struct uv_uar *uar)
{
    (void)f;
    sn_uar_destroy(uar->page);
}

int uv_free_uar(struct uv_file *f, const struct uv_request *r)
{
    uint32_t handle;
    int err = uv_attr_object(r, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, &handle);
    if (err) return err;
    struct uv_uar *uar = uv_find(f, UV_UAR, handle);
    return uar ? uv_destroy(f, &uar->obj) : -EINVAL;
}

/* ---- mapping ---- */

static unsigned command_of(uint64_t pgoff)
{
    return pgoff >> COMMAND_SHIFT & 0xff;
}

static uint64_t index_of(uint64_t pgoff)
{
    return (pgoff & 0xff) | pgoff >> 16 << 8;
}

/* The page that an mmap offset names; a dynamic one is made by being mapped. */
static int find_page(struct uv_file *f, uint64_t pgoff, struct sn_uar **page)
{
    const uint64_t index = index_of(pgoff);
    struct uv_uars *u = &f->uars;
    struct uv_uar *object;

    GW_ASSERT_HELD(&f->lock);
    switch (command_of(pgoff)) {
    case MLX5_IB_MMAP_REGULAR_PAGE:
    case MLX5_IB_MMAP_WC_PAGE:
    case MLX5_IB_MMAP_NC_PAGE:
        if (index >= u->static_pages) return -EINVAL;
        *page = u->pages[index];
        return 0;
    case MLX5_IB_MMAP_ALLOC_WC:
        if (index >= UV_MAX_DYNAMIC_PAGES) return -EINVAL;
        if (!u->dynamic[index]) {
            int err = sn_uar_create(f->nic, &u->dynamic[index]);
            if (err) return err;
        }
        *page = u->dynamic[index];
        return 0;
    case MMAP_OBJECT:
        object = index > UINT32_MAX ? NULL : uv_uar_numbered(f, (uint32_t)index);
        if (!object) return -EINVAL;
        *page = object->page;
        return 0;
    }
    return -EINVAL;
}

/* mremap of length 0 makes a second mapping of a shared one. */
int uv_map_again(void *memory, size_t length, void *hint, int flags, void **at)
{
    if (flags & MAP_FIXED)
        *at = mremap(memory, 0, length, MREMAP_MAYMOVE | MREMAP_FIXED, hint);
    else
        *at = mremap(memory, 0, length, MREMAP_MAYMOVE);
    return *at == MAP_FAILED ? -errno : 0;
}

static int map_page(struct uv_file *f, uint64_t pgoff, void *hint, int flags, void **at)
{
    struct sn_uar *page = NULL;
    int err = find_page(f, pgoff, &page);

    return err ? err : uv_map_again(sn_uar_page(page), PAGE, hint, flags, at);
}

int uv_mmap(int fd, void *hint, size_t length, int prot, int flags, uint64_t offset, void **at)
{
    const uint64_t pgoff = offset / PAGE;
    struct uv_file *f;
    int err = uv_enter(fd, &f);

    if (err) return err;
    if (f->child && command_of(pgoff) != MLX5_IB_MMAP_DEVICE_MEM)
        err = uv_refuse_child();
    else if (offset % PAGE || !(flags & MAP_SHARED) || (prot & PROT_EXEC))
        err = -EINVAL;
    else if (command_of(pgoff) == MLX5_IB_MMAP_DEVICE_MEM)
        err = uv_dm_map(f, index_of(pgoff), length, hint, flags, at);
    else if (!f->nic || length != PAGE)
        err = -EINVAL;
    else if (command_of(pgoff) == MLX5_IB_MMAP_CLOCK_INFO)
        err = uv_clock_map(hint, prot, flags, at);
    else
        err = map_page(f, pgoff, hint, flags, at);
    uv_leave(f);
    return err;
}
