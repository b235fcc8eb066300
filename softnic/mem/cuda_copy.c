/* SPDX-License-Identifier: Apache-2.0 */
/* Gathering writes and reading ahead. Everything static here runs with the device's lock held and its context
 * current. */
#include "softnic/mem/cuda_device.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* A copy of 256 KiB takes 20 µs. One that has not ended after this never will: the GPU is lost. */
#define COPY_DEADLINE_NS 10000000000ull

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* cuEventSynchronize would spin or sleep as the application's context flags say, and without a deadline. */
static int wait_event(struct sn_cuda_device *dev, sn_cu_event event)
{
    uint64_t deadline = 0;

    for (unsigned round = 0;; round++) {
        sn_cu_result r = dev->api->event_query(event);

        if (r == SN_CU_SUCCESS) return 0;
        if (r == SN_CU_NOT_READY) {
            if (round < 64) continue;
            sched_yield();
            if (!deadline) deadline = now_ns() + COPY_DEADLINE_NS;
            if (now_ns() < deadline) continue;
        }
        dev->broken = true;
        return -EIO;
    }
}

static bool overlap(uint64_t a, uint64_t alen, uint64_t b, uint64_t blen)
{
    return a < b + blen && b < a + alen;
}

/* Starts the copy of a filling buffer. The stream keeps copies in order, so that later ones win where they
 * overlap. */
static void submit(struct sn_cuda_device *dev, struct sn_cuda_writer *w)
{
    sn_cu_result r = SN_CU_SUCCESS;

    if (!dev->broken) r = dev->api->copy_to_device(w->addr, w->data, w->len, dev->in);
    if (!dev->broken && !r) {
        r = dev->api->event_record(w->done, dev->in);
        if (r) dev->broken = true; /* the copy runs and nobody can tell when it ends */
    }
    if (dev->broken || r) {
        w->region->error = -EIO;
        w->state = SN_STAGE_FREE;
        return;
    }
    w->state = SN_STAGE_COPYING;
    dev->stats.copies_in++;
    dev->stats.bytes_in += w->len;
}

/* Waits until a buffer is free again. */
static void finish(struct sn_cuda_device *dev, struct sn_cuda_writer *w)
{
    if (w->state == SN_STAGE_FILLING) submit(dev, w);
    if (w->state == SN_STAGE_COPYING && (dev->broken || wait_event(dev, w->done))) w->region->error = -EIO;
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
    finish(dev, oldest);
    return oldest;
}

/* The buffer that addr continues. One that addr's bytes overlap is sent on its way first: two writes to a
 * byte must reach the stream in their order. */
static struct sn_cuda_writer *writer_for(struct sn_cuda_region *region, uint64_t addr, uint32_t len)
{
    struct sn_cuda_device *dev = region->dev;
    struct sn_cuda_writer *found = NULL;

    for (int i = 0; i < SN_CUDA_WRITERS; i++) {
        struct sn_cuda_writer *w = &dev->writers[i];

        if (w->state != SN_STAGE_FILLING) continue;
        if (overlap(addr, len, w->addr, w->len)) {
            submit(dev, w);
        } else if (w->region == region && w->addr + w->len == addr && w->len < SN_CUDA_STAGE) {
            found = w;
        }
    }
    if (found) return found;
    found = free_writer(dev);
    found->state = SN_STAGE_FILLING;
    found->region = region;
    found->addr = addr;
    found->len = 0;
    found->age = ++dev->clock;
    return found;
}

/* What was fetched ahead and is now about to be written is not to be answered from. */
static void forget_reads(struct sn_cuda_device *dev, uint64_t addr, uint32_t len)
{
    for (int i = 0; i < SN_CUDA_READERS; i++) {
        struct sn_cuda_reader *r = &dev->readers[i];

        if (r->request && overlap(addr, len, r->addr, r->len)) r->request = 0;
    }
}

static bool inside(const struct sn_cuda_region *region, uint64_t addr, uint64_t len)
{
    return addr >= region->addr && len <= region->len && addr - region->addr <= region->len - len;
}

static int enter(struct sn_cuda_region *region, uint64_t addr, uint64_t len)
{
    struct sn_cuda_device *dev = region->dev;

    if (!inside(region, addr, len)) return -EFAULT;
    pthread_mutex_lock(&dev->lock);
    if (!dev->broken && dev->api->ctx_push(dev->ctx) != SN_CU_SUCCESS) dev->broken = true;
    if (!dev->broken) return 0;
    pthread_mutex_unlock(&dev->lock);
    return -EIO;
}

static void leave(struct sn_cuda_device *dev)
{
    sn_cu_ctx ctx;

    dev->api->ctx_pop(&ctx);
    pthread_mutex_unlock(&dev->lock);
}

int sn_cuda_write(struct sn_cuda_region *region, uint64_t addr, const void *src, uint32_t len)
{
    struct sn_cuda_device *dev = region->dev;
    const uint8_t *from = src;
    int err = enter(region, addr, len);

    if (err) return err;
    if (len) forget_reads(dev, addr, len);
    while (len && !dev->broken) {
        struct sn_cuda_writer *w = writer_for(region, addr, len);
        uint32_t n = SN_CUDA_STAGE - w->len < len ? SN_CUDA_STAGE - w->len : len;

        memcpy(w->data + w->len, from, n);
        w->len += n;
        addr += n;
        from += n;
        len -= n;
        if (w->len == SN_CUDA_STAGE) submit(dev, w);
    }
    err = dev->broken ? -EIO : 0;
    leave(dev);
    return err;
}

/* What is gathered for the range comes before what is put into the stream next. */
static void submit_overlapping(struct sn_cuda_device *dev, uint64_t addr, uint64_t len)
{
    for (int i = 0; i < SN_CUDA_WRITERS; i++) {
        struct sn_cuda_writer *w = &dev->writers[i];

        if (w->state == SN_STAGE_FILLING && overlap(addr, len, w->addr, w->len)) submit(dev, w);
    }
}

/* A buffer full: out of the GPU and into it again, in one stream, that nobody waits for before the flush. */
static int pass(struct sn_cuda_region *to, uint64_t addr, uint64_t src, uint32_t len)
{
    struct sn_cuda_device *dev = to->dev;
    struct sn_cuda_writer *w = free_writer(dev);

    if (dev->broken || dev->api->copy_to_host(w->data, src, len, dev->in)) return -EIO;
    w->region = to;
    w->addr = addr;
    w->len = len;
    w->age = ++dev->clock;
    submit(dev, w);
    /* A copy into the buffer is under way, and nobody can tell when it ends. */
    if (w->state != SN_STAGE_COPYING) dev->broken = true;
    return dev->broken ? -EIO : 0;
}

int sn_cuda_move(struct sn_cuda_region *to, uint64_t addr, const struct sn_cuda_region *from, uint64_t src,
                 uint32_t len)
{
    struct sn_cuda_device *dev = to->dev;
    int err = inside(from, src, len) ? 0 : -EFAULT;

    if (from->dev != dev) return -EXDEV;
    if (!err) err = enter(to, addr, len);
    if (err) return err;
    if (len) forget_reads(dev, addr, len);
    submit_overlapping(dev, src, len);
    submit_overlapping(dev, addr, len);
    while (len && !err) {
        uint32_t n = len < SN_CUDA_STAGE ? len : SN_CUDA_STAGE;

        err = pass(to, addr, src, n);
        addr += n;
        src += n;
        len -= n;
    }
    leave(dev);
    return err;
}

/* All of them are started before the first is waited for. */
static void flush_region(struct sn_cuda_device *dev, struct sn_cuda_region *region)
{
    for (int i = 0; i < SN_CUDA_WRITERS; i++) {
        struct sn_cuda_writer *w = &dev->writers[i];

        if (w->state == SN_STAGE_FILLING && w->region == region) submit(dev, w);
    }
    for (int i = 0; i < SN_CUDA_WRITERS; i++) {
        struct sn_cuda_writer *w = &dev->writers[i];

        if (w->state != SN_STAGE_FREE && w->region == region) finish(dev, w);
    }
}

int sn_cuda_flush(struct sn_cuda_region *region)
{
    struct sn_cuda_device *dev = region->dev;
    int err = enter(region, region->addr, 0);

    if (err) return err;
    flush_region(dev, region);
    err = region->error;
    region->error = 0;
    leave(dev);
    return err;
}

void sn_cuda_region_fini(struct sn_cuda_region *region)
{
    struct sn_cuda_device *dev = region->dev;

    if (!dev) return;
    sn_cuda_flush(region);
    pthread_mutex_lock(&dev->lock);
    for (int i = 0; i < SN_CUDA_WRITERS; i++) { /* a broken device's buffers still name the region */
        if (dev->writers[i].region == region)
            dev->writers[i] =
                (struct sn_cuda_writer){.data = dev->writers[i].data, .done = dev->writers[i].done};
    }
    for (int i = 0; i < SN_CUDA_READERS; i++) {
        if (overlap(region->addr, region->len, dev->readers[i].addr, dev->readers[i].len))
            dev->readers[i].request = 0;
    }
    pthread_mutex_unlock(&dev->lock);
    region->dev = NULL;
}

/* ---- reads --------------------------------------------------------------------------------------------- */

static struct sn_cuda_reader *reader_with(struct sn_cuda_device *dev, uint64_t request, uint64_t addr,
                                          uint32_t len)
{
    for (int i = 0; request && i < SN_CUDA_READERS; i++) {
        struct sn_cuda_reader *r = &dev->readers[i];

        if (r->request == request && addr >= r->addr && addr + len <= r->addr + r->len) return r;
    }
    return NULL;
}

static struct sn_cuda_reader *oldest_reader(struct sn_cuda_device *dev)
{
    struct sn_cuda_reader *oldest = &dev->readers[0];

    for (int i = 0; i < SN_CUDA_READERS; i++) {
        if (!dev->readers[i].request) return &dev->readers[i];
        if (dev->readers[i].age < oldest->age) oldest = &dev->readers[i];
    }
    return oldest;
}

/* The read must see writes that are still on their way to the range; they run in another stream. */
static void finish_overlapping(struct sn_cuda_device *dev, uint64_t addr, uint64_t len)
{
    for (int i = 0; i < SN_CUDA_WRITERS; i++) {
        struct sn_cuda_writer *w = &dev->writers[i];

        if (w->state != SN_STAGE_FREE && overlap(addr, len, w->addr, w->len)) finish(dev, w);
    }
}

static struct sn_cuda_reader *fetch(struct sn_cuda_device *dev, uint64_t addr, uint32_t len, uint64_t request)
{
    struct sn_cuda_reader *r = oldest_reader(dev);

    finish_overlapping(dev, addr, len);
    r->request = 0;
    if (dev->broken || dev->api->copy_to_host(r->data, addr, len, dev->out)) return NULL;
    if (dev->api->event_record(dev->read_done, dev->out)) {
        dev->broken = true;
        return NULL;
    }
    if (wait_event(dev, dev->read_done)) return NULL;
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
        r = fetch(dev, addr, (uint32_t)want, request);
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
    int err = enter(region, addr, len);

    if (err) return err;
    while (len && !err) {
        uint32_t n = len < SN_CUDA_STAGE ? len : SN_CUDA_STAGE;

        err = read_piece(region, addr, to, n, ahead, request);
        addr += n;
        to += n;
        len -= n;
        ahead = ahead > n ? ahead - n : 0;
    }
    leave(region->dev);
    return err;
}
