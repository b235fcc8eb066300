/* SPDX-License-Identifier: Apache-2.0 */
/* Gathering writes, and copies within a GPU. Everything static here runs with the device's lock held and its
 * context current. */
#include "softnic/cuda/device.h"

#include <errno.h>
#include <string.h>

#include <gpuwire/detail/held.h>

/* ---- kernel or engines --------------------------------------------------------------------------------- */

/* Has every engine's write come to its end? */
static bool engines_idle(struct sn_cuda_device *dev)
{
    for (int i = 0; i < SN_CUDA_WRITERS; i++) {
        struct sn_cuda_writer *w = &dev->writers[i];

        if (w->state != SN_STAGE_COPYING || w->number) continue;
        if (dev->api->event_query(w->done) != GW_CU_SUCCESS)
            return false; /* an error shows when it is waited for */
        w->state = SN_STAGE_FREE;
    }
    return true;
}

bool sn_cuda_kernel_ready(struct sn_cuda_device *dev)
{
    return sn_copier_ready(dev) && engines_idle(dev);
}

int sn_cuda_engines(struct sn_cuda_device *dev)
{
    GW_ASSERT_HELD(&dev->lock);
    return sn_copier_wait(dev, dev->copier.issued);
}

/* ---- a buffer's way ------------------------------------------------------------------------------------ */

static int start_kernel(struct sn_cuda_device *dev, struct sn_cuda_writer *w)
{
    bool here = w->len <= SN_KERNEL_BYTES;
    int err =
        sn_copier_copy(dev, w->addr, (uintptr_t)w->data, w->len, here ? SN_KERNEL_HERE : SN_KERNEL_FROM_HOST);

    GW_ASSERT_HELD(&dev->lock);
    w->number = w->region->last = dev->copier.issued;
    w->state = here ? SN_STAGE_FREE : SN_STAGE_COPYING;
    return err;
}

int sn_cuda_started(struct sn_cuda_device *dev, struct sn_cuda_writer *w)
{
    GW_ASSERT_HELD(&dev->lock);
    w->number = 0;
    /* Otherwise the copy runs and its end cannot be seen. */
    if (dev->api->event_record(w->done, dev->in)) dev->broken = true;
    w->state = SN_STAGE_COPYING;
    return dev->broken ? -EIO : 0;
}

static int start_engine(struct sn_cuda_device *dev, struct sn_cuda_writer *w)
{
    if (sn_cuda_engines(dev) || dev->api->copy_to_device(w->addr, w->data, w->len, dev->in)) return -EIO;
    return sn_cuda_started(dev, w);
}

/* Starts the copy of a filling buffer. The kernel, and the stream, keep copies in order, so that later ones
 * win where they overlap. */
static void cuda_write_submit(struct sn_cuda_device *dev, struct sn_cuda_writer *w)
{
    int err = -EIO;

    GW_ASSERT_HELD(&dev->lock);
    GW_ASSERT(w->state == SN_STAGE_FILLING && w->len <= SN_CUDA_STAGE);
    if (!dev->broken) {
        bool kernel = w->len <= SN_CUDA_BY_KERNEL && sn_cuda_kernel_ready(dev);

        err = kernel ? start_kernel(dev, w) : start_engine(dev, w);
    }
    if (err) {
        w->region->error = -EIO;
        w->state = SN_STAGE_FREE;
        return;
    }
    dev->stats.copies_in++;
    dev->stats.bytes_in += w->len;
}

/* Waits until a buffer is free again. */
static void cuda_write_finish(struct sn_cuda_device *dev, struct sn_cuda_writer *w)
{
    int err = 0;

    GW_ASSERT_HELD(&dev->lock);
    if (w->state == SN_STAGE_FILLING) cuda_write_submit(dev, w);
    if (w->state == SN_STAGE_COPYING) {
        if (dev->broken)
            err = -EIO;
        else
            err = w->number ? sn_copier_wait(dev, w->number) : sn_cuda_wait_event(dev, w->done);
    }
    if (err) w->region->error = -EIO;
    w->state = SN_STAGE_FREE;
}

/* Without waiting for what is on its way. */
static struct sn_cuda_writer *free_writer(struct sn_cuda_device *dev)
{
    struct sn_cuda_writer *oldest = NULL;

    for (int i = 0; i < SN_CUDA_WRITERS; i++) {
        struct sn_cuda_writer *w = &dev->writers[i];

        if (w->state == SN_STAGE_FREE) return w;
        if (!oldest || w->age < oldest->age) oldest = w;
    }
    cuda_write_finish(dev, oldest);
    return oldest;
}

static void cuda_write_begin(struct sn_cuda_writer *w, struct sn_cuda_region *region, uint64_t addr)
{
    w->state = SN_STAGE_FILLING;
    w->region = region;
    w->addr = addr;
    w->len = 0;
    w->age = ++region->dev->clock;
    w->data = w->buffer + (addr & 15);
}

struct sn_cuda_writer *sn_cuda_begin(struct sn_cuda_region *region, uint64_t addr, uint32_t len)
{
    struct sn_cuda_writer *w = free_writer(region->dev);

    cuda_write_begin(w, region, addr);
    w->len = len;
    return w;
}

/* The buffer that addr continues. One that addr's bytes overlap is sent on its way first: two writes to a
 * byte must be started in their order. */
static struct sn_cuda_writer *writer_for(struct sn_cuda_region *region, uint64_t addr, uint32_t len)
{
    struct sn_cuda_device *dev = region->dev;
    struct sn_cuda_writer *found = NULL;

    GW_ASSERT_HELD(&dev->lock);
    for (int i = 0; i < SN_CUDA_WRITERS; i++) {
        struct sn_cuda_writer *w = &dev->writers[i];

        if (w->state != SN_STAGE_FILLING) continue;
        if (sn_cuda_overlap(addr, len, w->addr, w->len)) {
            cuda_write_submit(dev, w);
        } else if (w->region == region && w->addr + w->len == addr && w->len < SN_CUDA_STAGE) {
            found = w;
        }
    }
    if (found) return found;
    found = free_writer(dev);
    cuda_write_begin(found, region, addr);
    return found;
}

void sn_cuda_submit_all(struct sn_cuda_device *dev, const struct sn_cuda_region *region)
{
    GW_ASSERT_HELD(&dev->lock);
    for (;;) {
        struct sn_cuda_writer *first = NULL;

        for (int i = 0; i < SN_CUDA_WRITERS; i++) {
            struct sn_cuda_writer *w = &dev->writers[i];

            if (w->state != SN_STAGE_FILLING || (region && w->region != region)) continue;
            if (!first || w->age < first->age) first = w;
        }
        if (!first) return;
        cuda_write_submit(dev, first);
    }
}

void sn_cuda_submit_overlapping(struct sn_cuda_device *dev, uint64_t addr, uint64_t len)
{
    GW_ASSERT_HELD(&dev->lock);
    for (int i = 0; i < SN_CUDA_WRITERS; i++) {
        struct sn_cuda_writer *w = &dev->writers[i];

        if (w->state == SN_STAGE_FILLING && sn_cuda_overlap(addr, len, w->addr, w->len))
            cuda_write_submit(dev, w);
    }
}

void sn_cuda_finish_overlapping(struct sn_cuda_device *dev, uint64_t addr, uint64_t len)
{
    GW_ASSERT_HELD(&dev->lock);
    for (int i = 0; i < SN_CUDA_WRITERS; i++) {
        struct sn_cuda_writer *w = &dev->writers[i];

        if (w->state != SN_STAGE_FREE && sn_cuda_overlap(addr, len, w->addr, w->len))
            cuda_write_finish(dev, w);
    }
}

/* ---- writes -------------------------------------------------------------------------------------------- */

int sn_cuda_write_by(struct sn_cuda_region *region, uint64_t addr, uint32_t len, sn_dma_fill fill, void *with)
{
    struct sn_cuda_device *dev = region->dev;
    uint64_t done = 0;
    int err = sn_cuda_enter(region, addr, len);

    if (err) return err;
    if (len) sn_cuda_forget_reads(dev, addr, len);
    while (!err && done < len && !dev->broken) {
        struct sn_cuda_writer *w = writer_for(region, addr + done, len - (uint32_t)done);
        uint32_t room = SN_CUDA_STAGE - w->len, n = len - (uint32_t)done;

        if (n > room) n = room;
        err = fill(with, done, w->data + w->len, n);
        if (err) break;
        w->len += n;
        done += n;
        if (w->len == SN_CUDA_STAGE) cuda_write_submit(dev, w);
    }
    if (!err && dev->broken) err = -EIO;
    sn_cuda_leave(dev);
    return err;
}

static int fill_from_memory(void *with, uint64_t offset, void *to, uint32_t n)
{
    memcpy(to, (const uint8_t *)with + offset, n);
    return 0;
}

int sn_cuda_write(struct sn_cuda_region *region, uint64_t addr, const void *src, uint32_t len)
{
    return sn_cuda_write_by(region, addr, len, fill_from_memory, (void *)src); /* which it only reads */
}

void sn_cuda_order(struct sn_cuda_region *region)
{
    if (sn_cuda_enter(region, region->addr, 0)) return;
    sn_cuda_submit_all(region->dev, NULL);
    sn_cuda_leave(region->dev);
}

/* ---- copies within a GPU ------------------------------------------------------------------------------- */

/* A buffer full: out of the GPU and into it again, in one stream, which is not waited for before the flush.
 */
static int cuda_write_pass(struct sn_cuda_region *to, uint64_t addr, uint64_t src, uint32_t len)
{
    struct sn_cuda_device *dev = to->dev;
    struct sn_cuda_writer *w = sn_cuda_begin(to, addr, len);

    if (dev->broken || sn_cuda_engines(dev) || dev->api->copy_to_host(w->data, src, len, dev->in)) {
        w->state = SN_STAGE_FREE;
        return -EIO;
    }
    /* A copy into the buffer is under way, and its end cannot be seen if no other follows it. */
    if (start_engine(dev, w)) {
        dev->broken = true;
        return -EIO;
    }
    dev->stats.copies_in++;
    dev->stats.bytes_in += len;
    return 0;
}

static int move_part(struct sn_cuda_region *to, uint64_t addr, uint64_t src, uint32_t len)
{
    struct sn_cuda_device *dev = to->dev;
    int err;

    /* Byte by byte the kernel is slow. */
    if ((len > SN_CUDA_BY_KERNEL && (addr ^ src) & 3) || !sn_cuda_kernel_ready(dev))
        return cuda_write_pass(to, addr, src, len);
    err = sn_copier_copy(dev, addr, src, len, 0);
    to->last = dev->copier.issued;
    return err;
}

int sn_cuda_move(struct sn_cuda_region *to, uint64_t addr, const struct sn_cuda_region *from, uint64_t src,
                 uint32_t len)
{
    struct sn_cuda_device *dev = to->dev;
    bool far = from->dev != dev || to->elsewhere || from->elsewhere;
    int err = sn_cuda_inside(from, src, len) ? 0 : -EFAULT;

    if (far && !sn_cuda_reaches(to, from)) return -EXDEV;
    if (!err && from->dev != dev) err = sn_cuda_settle(from, src, len);
    if (!err) err = sn_cuda_enter(to, addr, len);
    if (err) return err;
    if (len) sn_cuda_forget_reads(dev, addr, len);
    if (from->dev == dev) sn_cuda_submit_overlapping(dev, src, len);
    sn_cuda_submit_overlapping(dev, addr, len);
    if (far && len) err = sn_cuda_copy_peer(to, addr, from, src, len);
    while (!far && len && !err) {
        uint32_t n = len < SN_CUDA_STAGE ? len : SN_CUDA_STAGE;

        err = move_part(to, addr, src, n);
        addr += n;
        src += n;
        len -= n;
    }
    sn_cuda_leave(dev);
    return err;
}

/* ---- the end of it ------------------------------------------------------------------------------------- */

/* All of them are started before the first is waited for. */
static void flush_region(struct sn_cuda_device *dev, struct sn_cuda_region *region)
{
    GW_ASSERT_HELD(&dev->lock);
    sn_cuda_submit_all(dev, region);
    if (sn_copier_wait(dev, region->last)) region->error = -EIO;
    for (int i = 0; i < SN_CUDA_WRITERS; i++) {
        struct sn_cuda_writer *w = &dev->writers[i];

        if (w->state != SN_STAGE_FREE && w->region == region) cuda_write_finish(dev, w);
    }
}

int sn_cuda_flush(struct sn_cuda_region *region)
{
    struct sn_cuda_device *dev = region->dev;
    int err = sn_cuda_enter(region, region->addr, 0);

    if (err) return err;
    flush_region(dev, region);
    err = region->error;
    region->error = 0;
    sn_cuda_leave(dev);
    return err;
}

void sn_cuda_region_fini(struct sn_cuda_region *region)
{
    struct sn_cuda_device *dev = region->dev;

    if (!dev) return;
    sn_cuda_flush(region);
    pthread_mutex_lock(&dev->lock);
    for (int i = 0; i < SN_CUDA_WRITERS; i++) { /* a broken device's buffers still name the region */
        struct sn_cuda_writer *w = &dev->writers[i];

        if (w->region == region) *w = (struct sn_cuda_writer){.buffer = w->buffer, .done = w->done};
    }
    sn_cuda_forget_reads(dev, region->addr, region->len);
    pthread_mutex_unlock(&dev->lock);
    __atomic_fetch_sub(&dev->regions, 1, __ATOMIC_RELAXED);
    if (region->exported) sn_cuda_unexport(region->exported);
    region->exported = NULL;
    region->dev = NULL;
}
