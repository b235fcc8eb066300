/* SPDX-License-Identifier: Apache-2.0 */
/* Doorbell pages: each is made visible to the executor once, and queue pairs share them as libmlx5 gave them
 * out. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/verbs/impl.h"

/* The bytes that libmlx5 maps at once. Where pages are larger than the NIC's, several of its doorbell pages
 * lie in one. */
static size_t page_bytes(void)
{
    long bytes = sysconf(_SC_PAGESIZE);

    return bytes > GW_MLX5_UAR_PAGE ? (size_t)bytes : GW_MLX5_UAR_PAGE;
}

static struct gw_uar *uar_find(struct gw_device *dev, uint8_t *page)
{
    struct gw_uar *u;

    for (uint32_t i = 0; i < dev->uars; i++)
        if (dev->uar[i].page == page) return &dev->uar[i];
    if (dev->uars == GW_UAR_PAGES) return NULL;
    u = &dev->uar[dev->uars++];
    u->page = page;
    /* As I/O memory first: a NIC's register page. The executor takes it as ordinary memory when that is what
     * it is. */
    u->error = gw_mem_register(dev->exec, page, page_bytes(), GW_MEM_IO, &u->mem);
    if (u->error) snprintf(u->why, sizeof(u->why), "%s", gw_last_error());
    return u;
}

void *gw_uar_map(struct gw_device *dev, void *reg, const char **why)
{
    uintptr_t at = (uintptr_t)reg, page = at & ~(uintptr_t)(page_bytes() - 1);
    struct gw_uar *u = uar_find(dev, (uint8_t *)page);

    GW_ASSERT_HELD(&dev->lock);
    *why = u ? u->why : "too many doorbell pages";
    return u && !u->error ? (uint8_t *)u->mem.dev + (at - page) : NULL;
}

void gw_uar_unmap_all(struct gw_device *dev)
{
    for (uint32_t i = 0; i < dev->uars; i++)
        if (!dev->uar[i].error) gw_mem_unregister(&dev->uar[i].mem);
    dev->uars = 0;
}
