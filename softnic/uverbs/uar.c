/* SPDX-License-Identifier: Apache-2.0 */
/* Doorbell pages and the registers on them. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/mlx5-abi.h>

#include "softnic/uverbs/object.h"
#include "softnic/uverbs/uverbs.h"

#define PAGE            SN_UAR_SIZE
#define COMMAND_SHIFT   8
#define REGISTERS_REPLY 4 /* libmlx5 numbers four registers per page and uses the first two */

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
 * libmlx5 takes the rules of the kernel's driver for granted: the last `low_latency` registers serve one QP
 * each, so it rings them without a lock; the others are shared and locked; register 0 is for doorbells
 * without BlueFlame.
 */
int uv_bfreg_take(struct uv_file *f, int *index)
{
    struct uv_uars *u = &f->uars;
    uint32_t total = u->static_pages * UV_BFREGS_PER_PAGE, shared = total - u->low_latency, best = 0;

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

/* The page that an mmap offset names; a dynamic one is made by being mapped. */
static int find_page(struct uv_file *f, uint64_t pgoff, struct sn_uar **page)
{
    struct uv_uars *u = &f->uars;
    uint32_t command = pgoff >> COMMAND_SHIFT & 0xff;
    uint64_t index = (pgoff & 0xff) | pgoff >> 16 << 8;

    switch (command) {
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
    }
    return -EINVAL; /* no core clock, no clock info, no device memory: the context said so */
}

/*
 * The program unmaps its doorbell pages when it likes, and the NIC goes on looking at them: so it gets a
 * mapping of its own of the same page. mremap of length 0 makes one of a shared mapping.
 */
static int map_again(void *page, void *hint, int flags, void **at)
{
    if (flags & MAP_FIXED)
        *at = mremap(page, 0, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, hint);
    else
        *at = mremap(page, 0, PAGE, MREMAP_MAYMOVE);
    return *at == MAP_FAILED ? -errno : 0;
}

int uv_mmap(int fd, void *hint, size_t length, int prot, int flags, uint64_t offset, void **at)
{
    struct sn_uar *page = NULL;
    struct uv_file *f;
    int err = uv_enter(fd, &f);

    if (err) return err;
    if (!f->nic || length != PAGE || offset % PAGE || !(flags & MAP_SHARED) || (prot & PROT_EXEC))
        err = -EINVAL;
    else
        err = find_page(f, offset / PAGE, &page);
    if (!err) err = map_again(sn_uar_page(page), hint, flags, at);
    uv_leave(f);
    return err;
}
