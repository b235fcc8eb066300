/* SPDX-License-Identifier: Apache-2.0 */
/* Reading, and reading ahead. Everything static here runs with the device's lock held and its context
 * current. */
#include "softnic/cuda/device.h"

#include <errno.h>
#include <string.h>

#include <gpuwire/detail/held.h>

void sn_cuda_forget_reads(struct sn_cuda_device *dev, uint64_t addr, uint64_t len)
{
    GW_ASSERT_HELD(&dev->lock);
    for (int i = 0; i < SN_CUDA_READERS; i++) {
        struct sn_cuda_reader *r = &dev->readers[i];

        if (r->request && sn_cuda_overlap(addr, len, r->addr, r->len)) r->request = 0;
    }
}

static struct sn_cuda_reader *reader_with(struct sn_cuda_device *dev, uint64_t request, uint64_t addr,
                                          uint32_t len)
{
    GW_ASSERT_HELD(&dev->lock);
    for (int i = 0; request && i < SN_CUDA_READERS; i++) {
        struct sn_cuda_reader *r = &dev->readers[i];

        if (r->request == request && addr >= r->addr && addr + len <= r->addr + r->len) return r;
    }
    return NULL;
}

static struct sn_cuda_reader *oldest_reader(struct sn_cuda_device *dev)
{
    struct sn_cuda_reader *oldest = &dev->readers[0];

    GW_ASSERT_HELD(&dev->lock);
    for (int i = 0; i < SN_CUDA_READERS; i++) {
        if (!dev->readers[i].request) return &dev->readers[i];
        if (dev->readers[i].age < oldest->age) oldest = &dev->readers[i];
    }
    return oldest;
}

/* After what was written to the range, in the kernel's order. */
static int fetch_kernel(struct sn_cuda_device *dev, uint64_t addr, uint8_t *to, uint32_t len)
{
    int err = sn_copier_copy(dev, (uintptr_t)to, addr, len, SN_KERNEL_TO_HOST);

    return err ? err : sn_copier_wait(dev, dev->copier.issued);
}

/* The read must see writes that are still on their way to the range; they run in another stream. */
static int fetch_engine(struct sn_cuda_device *dev, uint64_t addr, uint8_t *to, uint32_t len)
{
    sn_cuda_finish_overlapping(dev, addr, len);
    if (sn_cuda_engines(dev) || dev->api->copy_to_host(to, addr, len, dev->out)) return -EIO;
    if (dev->api->event_record(dev->read_done, dev->out)) dev->broken = true;
    return dev->broken ? -EIO : sn_cuda_wait_event(dev, dev->read_done);
}

static struct sn_cuda_reader *cuda_read_fetch(struct sn_cuda_device *dev, uint64_t addr, uint32_t len,
                                              uint64_t request)
{
    struct sn_cuda_reader *r = oldest_reader(dev);
    bool kernel;

    GW_ASSERT_HELD(&dev->lock);
    r->request = 0;
    r->data = r->buffer + (addr & 15);
    sn_cuda_submit_overlapping(dev, addr, len);
    kernel = len <= SN_CUDA_BY_KERNEL && sn_cuda_kernel_ready(dev);
    if (dev->broken ||
        (kernel ? fetch_kernel(dev, addr, r->data, len) : fetch_engine(dev, addr, r->data, len)))
        return NULL;
    dev->stats.copies_out++;
    dev->stats.bytes_out += len;
    r->request = request;
    r->addr = addr;
    r->len = len;
    return r;
}

/* One piece that fits a staging buffer. */
static int read_piece(struct sn_cuda_region *region, uint64_t addr, void *dst, uint32_t len, uint64_t ahead,
                      uint64_t request)
{
    struct sn_cuda_device *dev = region->dev;
    struct sn_cuda_reader *r = reader_with(dev, request, addr, len);

    if (r) {
        dev->stats.read_hits++;
    } else {
        uint64_t room = region->addr + region->len - addr, want = request && ahead > len ? ahead : len;

        if (want > room) want = room;
        if (want > SN_CUDA_STAGE) want = SN_CUDA_STAGE;
        r = cuda_read_fetch(dev, addr, (uint32_t)want, request);
        if (!r) return -EIO;
    }
    r->age = ++dev->clock;
    memcpy(dst, r->data + (addr - r->addr), len);
    return 0;
}

int sn_cuda_read(struct sn_cuda_region *region, uint64_t addr, void *dst, uint32_t len, uint64_t ahead,
                 uint64_t request)
{
    uint8_t *to = dst;
    int err = sn_cuda_enter(region, addr, len);

    if (err) return err;
    while (len && !err) {
        uint32_t n = len < SN_CUDA_STAGE ? len : SN_CUDA_STAGE;

        err = read_piece(region, addr, to, n, ahead, request);
        addr += n;
        to += n;
        len -= n;
        ahead = ahead > n ? ahead - n : 0;
    }
    sn_cuda_leave(region->dev);
    return err;
}

int sn_cuda_read_by(struct sn_cuda_region *region, uint64_t addr, uint32_t len, sn_dma_drain drain,
                    void *with)
{
    struct sn_cuda_device *dev = region->dev;
    uint64_t done = 0;
    int err = sn_cuda_enter(region, addr, len);

    if (err) return err;
    while (!err && done < len) {
        uint32_t left = len - (uint32_t)done, n = left < SN_CUDA_STAGE ? left : SN_CUDA_STAGE;
        struct sn_cuda_reader *r = cuda_read_fetch(dev, addr + done, n, 0);

        err = r ? drain(with, done, r->data, n) : -EIO;
        done += n;
    }
    sn_cuda_leave(dev);
    return err;
}
