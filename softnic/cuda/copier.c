/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the kernel that copies, hands it copies, and falls back to the copy engine. */
#include "softnic/cuda/copier.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/cuda/device.h"

/* After this number of copies, none a millisecond after the one before, a kernel is worth it. */
#define WANTED_NS 1000000u
enum { WANTED = 4 };
/* How long a kernel stays with nothing to do, and at all. */
#define IDLE_NS 500000u
#define LIFE_NS 10000000u
/* An answer takes 3 µs and 25 for a megabyte; if it takes this long, some other process had the GPU. */
#define SLOW_NS      1000000u
#define YIELD_NS     50000u
#define PAUSE_MIN_NS 1000000000u
#define PAUSE_MAX_NS 64000000000u
/* Looks between two at the clock, and clock times between two at the driver. */
enum { LOOKS = 64 };
enum { SHORT = 4096 };
#define ASK_NS 1000000u

static bool allowed = true;

void sn_copier_allow(bool allow)
{
    __atomic_store_n(&allowed, allow, __ATOMIC_RELAXED);
}

bool sn_copier_allowed(void)
{
    return __atomic_load_n(&allowed, __ATOMIC_RELAXED);
}

/* Notes what the driver said to a call that makes a part; false: no. */
static bool made(struct sn_copier *c, const char *call, gw_cu_result result)
{
    if (result == GW_CU_SUCCESS) return true;
    c->failed = call;
    c->error = result;
    return false;
}

void sn_copier_make(struct sn_cuda_device *dev)
{
    const struct gw_cuda_driver *api = dev->api;
    struct sn_copier *c = &dev->copier;
    gw_cu_function f = NULL;
    gw_cu_module module;
    void *memory;

    if (!api->module_load || !api->module_function || !api->launch) return;
    if (!made(c, "cuModuleLoadData", api->module_load(&module, sn_kernel_text)) ||
        !made(c, "cuModuleGetFunction", api->module_function(&f, module, "gw_copy")) ||
        /* Otherwise the driver may put it off until the launch, which would then wait for whatever runs. */
        (api->function_load && !made(c, "cuFuncLoad", api->function_load(f))) ||
        !made(c, "cuStreamCreate", api->stream_create(&c->stream, GW_CU_STREAM_NON_BLOCKING)) ||
        !made(c, "cuEventCreate", api->event_create(&c->ended, GW_CU_EVENT_DISABLE_TIMING)) ||
        !made(c, "cuEventCreate", api->event_create(&c->redone, GW_CU_EVENT_DISABLE_TIMING)) ||
        !made(c, "cuMemHostAlloc",
              api->host_alloc(&memory, sizeof(*c->ring) + SN_CUDA_STAGE, GW_CU_HOST_ALLOC_PORTABLE)))
        return;
    c->ring = memory;
    c->bounce = (uint8_t *)memory + sizeof(*c->ring);
    memset(c->ring, 0, sizeof(*c->ring));
    c->pause_ns = PAUSE_MIN_NS;
    c->function = f;
}

/* ---- the kernel's life --------------------------------------------------------------------------------- */

/* It is not asked for again so soon. */
static void pause_it(struct sn_copier *c, uint64_t now)
{
    c->not_before = now + c->pause_ns;
    if (c->pause_ns < PAUSE_MAX_NS) c->pause_ns *= 2;
}

/* Only with nothing under way: the new one begins after what was issued. */
static void launch(struct sn_cuda_device *dev, uint64_t now)
{
    struct sn_copier *c = &dev->copier;
    gw_cu_result r;
    uint64_t first = c->issued + 1, number = c->launch + 1, idle = IDLE_NS, life = LIFE_NS;
    void *args[] = {&c->ring, &first, &number, &idle, &life};

    GW_ASSERT_HELD(&dev->lock);
    r = dev->api->launch(c->function, 1, 1, 1, SN_KERNEL_THREADS, 1, 1, 0, c->stream, args, NULL);
    c->failed = NULL;
    if (!made(c, "cuLaunchKernel", r)) {
        c->refused++;
        pause_it(c, now);
        return;
    }
    __atomic_store_n(&c->launch, number, __ATOMIC_RELAXED); /* sn_copier_ended looks at it without the lock */
    c->state = SN_COPIER_STARTING;
    dev->stats.launches++;
    if (dev->api->event_record(c->ended, c->stream)) dev->broken = true;
}

static bool copier_gone(const struct sn_copier *c)
{
    /* Acquire: what it did last was done before. */
    return __atomic_load_n(&c->ring->gone, __ATOMIC_ACQUIRE) == __atomic_load_n(&c->launch, __ATOMIC_RELAXED);
}

/* Written with the lock held, and read by sn_copier_ended without it: release, what it counts was done
 * before. */
static void set_done(struct sn_copier *c, uint64_t done)
{
    __atomic_store_n(&c->done, done, __ATOMIC_RELEASE);
}

static void see_done(struct sn_copier *c)
{
    uint64_t done = __atomic_load_n(&c->ring->done, __ATOMIC_ACQUIRE);

    /* Copies that a kernel left, and that engines did, are done as well. */
    if ((int64_t)(done - c->done) > 0) set_done(c, done);
}

bool sn_copier_done(const struct sn_copier *c, uint64_t number)
{
    return (int64_t)(__atomic_load_n(&c->ring->done, __ATOMIC_ACQUIRE) - number) >= 0 ||
           (int64_t)(__atomic_load_n(&c->done, __ATOMIC_ACQUIRE) - number) >= 0;
}

bool sn_copier_ended(const struct sn_copier *c, uint64_t number)
{
    return sn_copier_done(c, number) || copier_gone(c);
}

static bool copier_busy(struct sn_copier *c, uint64_t now)
{
    if (now - c->wanted_at > WANTED_NS) c->wanted = 0;
    c->wanted_at = now;
    if (c->wanted < WANTED) c->wanted++;
    return c->wanted == WANTED && now >= c->not_before;
}

bool sn_copier_ready(struct sn_cuda_device *dev)
{
    struct sn_copier *c = &dev->copier;
    uint64_t now;
    bool wanted;

    GW_ASSERT_HELD(&dev->lock);
    if (!c->function || dev->broken || !sn_copier_allowed()) return false;
    now = sn_now_ns();
    wanted = copier_busy(c, now);
    if (c->state != SN_COPIER_NONE && copier_gone(c)) {
        if (sn_copier_wait(dev, c->issued)) return false;
        c->state = SN_COPIER_NONE;
    }
    if (c->state == SN_COPIER_NONE && wanted) launch(dev, now);
    if (c->state == SN_COPIER_STARTING && __atomic_load_n(&c->ring->alive, __ATOMIC_ACQUIRE) == c->launch)
        c->state = SN_COPIER_RUNNING;
    return c->state == SN_COPIER_RUNNING;
}

/* ---- giving commands ----------------------------------------------------------------------------------- */

/* The widest unit that both addresses allow. A short copy must also be whole words of it: such a word may be
 * a flag, which must not be seen half written. */
static uint32_t unit_of(uint64_t dst, uint64_t src, uint32_t len)
{
    uint64_t same = dst ^ src;
    uint32_t shift = 4;

    if (len <= SHORT) same |= dst | len;
    while (shift && same & ((1u << shift) - 1)) shift--;
    return shift == 1 ? 0 : shift; /* there are no units of two bytes */
}

static void copier_describe(struct sn_kernel_command *k, uint64_t dst, uint64_t src, uint32_t len,
                            uint32_t how)
{
    /* Bytes in the command lie on a multiple of 8, and are not wider read. */
    uint64_t from = how & SN_KERNEL_HERE ? 8 : src;
    uint32_t shift = unit_of(dst, from, len), unit = 1u << shift, head = (uint32_t)-dst & (unit - 1), rest;

    if (head > len) head = len;
    rest = len - head;
    k->dst = dst;
    k->src = src;
    k->units = rest >> shift;
    k->how = how | shift | head << SN_KERNEL_HEAD_SHIFT | (rest & (unit - 1)) << SN_KERNEL_TAIL_SHIFT;
}

static uint32_t copier_length_of(const struct sn_kernel_command *k)
{
    return (k->units << (k->how & 255)) + (k->how >> SN_KERNEL_HEAD_SHIFT & 255) +
           (k->how >> SN_KERNEL_TAIL_SHIFT & 255);
}

static void copier_put(struct sn_kernel_ring *ring, uint64_t number, const struct sn_kernel_command *k)
{
    uint64_t *slot = ring->slot[number % SN_KERNEL_SLOTS];
    uint32_t word[SN_KERNEL_WORDS];

    memcpy(word, k, sizeof(word));
    /* Release: what is to be copied is there. */
    for (int i = 0; i < SN_KERNEL_WORDS; i++)
        __atomic_store_n(&slot[i], number << 32 | word[i], __ATOMIC_RELEASE);
}

static int copier_issue(struct sn_cuda_device *dev, uint64_t dst, uint64_t src, uint32_t len, uint32_t how,
                        const void *bytes, size_t n)
{
    struct sn_copier *c = &dev->copier;
    uint64_t number = c->issued + 1;
    struct sn_kernel_command *k = &c->ring->sent[number % SN_KERNEL_SLOTS];

    GW_ASSERT_HELD(&dev->lock);
    GW_ASSERT(c->issued - c->done <= SN_KERNEL_SLOTS);
    if (c->issued - c->done == SN_KERNEL_SLOTS && sn_copier_wait(dev, number - SN_KERNEL_SLOTS)) return -EIO;
    if (n) memcpy(k->bytes, bytes, n);
    copier_describe(k, dst, src, len, how);
    c->issued = number;
    copier_put(c->ring, number, k);
    dev->stats.kernel_copies++;
    dev->stats.kernel_bytes += len;
    return 0;
}

int sn_copier_copy(struct sn_cuda_device *dev, uint64_t dst, uint64_t src, uint32_t len, uint32_t how)
{
    return copier_issue(dev, dst, src, len, how, (const void *)(uintptr_t)src,
                        how & SN_KERNEL_HERE ? len : 0);
}

int sn_copier_copy_peer(struct sn_cuda_device *dev, uint64_t dst, uint64_t src, gw_cu_ctx ctx, uint32_t len)
{
    return copier_issue(dev, dst, src, len, SN_KERNEL_FROM_PEER, &ctx, sizeof(ctx));
}

/* ---- waiting ------------------------------------------------------------------------------------------- */

/* Between two places on the GPU: a part after the other through the same buffer, in one stream. */
static gw_cu_result bounce(struct sn_cuda_device *dev, const struct sn_kernel_command *k, uint32_t len)
{
    const struct gw_cuda_driver *api = dev->api;
    gw_cu_result r = GW_CU_SUCCESS;

    for (uint32_t at = 0, n; at < len && !r; at += n) {
        n = len - at < SN_CUDA_STAGE ? len - at : SN_CUDA_STAGE;
        r = api->copy_to_host(dev->copier.bounce, k->src + at, n, dev->in);
        if (!r) r = api->copy_to_device(k->dst + at, dev->copier.bounce, n, dev->in);
    }
    return r;
}

static gw_cu_result by_engine(struct sn_cuda_device *dev, const struct sn_kernel_command *k)
{
    uint32_t len = copier_length_of(k);

    if (k->how & SN_KERNEL_HERE) return dev->api->copy_to_device(k->dst, k->bytes, len, dev->in);
    if (k->how & SN_KERNEL_FROM_HOST)
        return dev->api->copy_to_device(k->dst, (const void *)(uintptr_t)k->src, len, dev->in);
    if (k->how & SN_KERNEL_TO_HOST)
        return dev->api->copy_to_host((void *)(uintptr_t)k->dst, k->src, len, dev->in);
    if (k->how & SN_KERNEL_FROM_PEER) {
        gw_cu_ctx ctx;

        memcpy(&ctx, k->bytes, sizeof(ctx));
        return dev->api->copy_peer(k->dst, dev->ctx, k->src, ctx, len, dev->in);
    }
    return bounce(dev, k, len);
}

/* The kernel has gone and left commands. */
static int redo(struct sn_cuda_device *dev)
{
    struct sn_copier *c = &dev->copier;

    GW_ASSERT_HELD(&dev->lock);
    for (uint64_t n = c->done + 1; n != c->issued + 1 && !dev->broken; n++)
        if (by_engine(dev, &c->ring->sent[n % SN_KERNEL_SLOTS])) dev->broken = true;
    if (!dev->broken && dev->api->event_record(c->redone, dev->in)) dev->broken = true;
    if (dev->broken || sn_cuda_wait_event(dev, c->redone)) return -EIO;
    set_done(c, c->issued);
    return 0;
}

/* It had to be waited for: it is let go, and not asked for again so soon. */
static void was_slow(struct sn_copier *c, uint64_t now)
{
    c->slow++;
    pause_it(c, now);
    if (c->state != SN_COPIER_RUNNING) return;
    __atomic_store_n(&c->ring->stop, c->launch, __ATOMIC_RELAXED);
    c->state = SN_COPIER_LEAVING;
}

/* Of one that does not answer the driver may know more. False: it is no use to wait. */
static bool asked(struct sn_cuda_device *dev, uint64_t since, uint64_t now)
{
    gw_cu_result r = dev->api->event_query(dev->copier.ended);

    /* Ended, and silently: no kernel of ours does that. */
    if (r == GW_CU_SUCCESS && copier_gone(&dev->copier)) return true;
    return r == GW_CU_NOT_READY && now - since < SN_CUDA_DEADLINE_NS;
}

int sn_copier_wait(struct sn_cuda_device *dev, uint64_t number)
{
    struct sn_copier *c = &dev->copier;
    uint64_t since = 0, now = 0, ask = 0;

    GW_ASSERT_HELD(&dev->lock);
    GW_ASSERT(number <= c->issued);
    if (dev->broken) return -EIO;
    for (unsigned look = 0; (int64_t)(c->done - number) < 0; look++) {
        bool left = copier_gone(c);

        see_done(c);
        if ((int64_t)(c->done - number) >= 0) break;
        if (left) return redo(dev);
        if (look % LOOKS) continue;
        now = sn_now_ns();
        if (!since) since = ask = now;
        if (now - since > YIELD_NS) sched_yield();
        if (now - ask < ASK_NS) continue;
        ask = now;
        if (!asked(dev, since, now)) {
            dev->broken = true;
            return -EIO;
        }
    }
    if (since && now - since > SLOW_NS) was_slow(c, now);
    return 0;
}
