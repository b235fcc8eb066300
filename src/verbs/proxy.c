/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy's thread: when it looks and when it sleeps.
 *
 * It looks at everything in turn. With nothing to do it sleeps ever longer, a sixteenth of the time it has
 * been idle, from 20 µs to 1 ms: what a kernel writes after an idle time t is seen t/16 later at most.
 * Completions of the NIC wake it at once, and so do CPU threads that ring.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/verbs/proxy.h"

#define SPIN_NS 20000u
#define NAP_MIN 20000u
#define NAP_MAX 1000000u

static bool look(struct gw_proxy *p)
{
    bool rung = gw_doorbell_round(p), posted = gw_repost_round(p);

    return rung || posted;
}

/* A sleep of that length at most; true when there was something to do instead. */
static bool nap(struct gw_proxy *p, uint64_t ns)
{
    int fds[2] = {p->wake_fd, -1};
    uint64_t count;
    int64_t woken;
    bool any;

    gw_st_relaxed_u32(&p->asleep, 1);
    /* Sleep announced before the last look: who rings after that look sees the announcement (gw_proxy_nudge).
     */
    gw_fence_sc();
    pthread_mutex_lock(&p->lock);
    gw_repost_arm(p);
    any = look(p);
    if (p->channel) fds[1] = p->channel->fd;
    pthread_mutex_unlock(&p->lock);
    woken = any ? 0 : gw_wait_fds(fds, 2, gw_clock_ns() + ns);
    gw_st_relaxed_u32(&p->asleep, 0);
    if (woken <= 0) return any;
    while (woken & 1 && read(p->wake_fd, &count, sizeof(count)) < 0 && errno == EINTR) continue;
    if (!(woken & 2)) return false;
    pthread_mutex_lock(&p->lock);
    gw_repost_events(p);
    pthread_mutex_unlock(&p->lock);
    return false;
}

static void *run(void *arg)
{
    struct gw_proxy *p = arg;
    uint64_t last = gw_clock_ns(), now, ns;
    bool any;

    pthread_setname_np(pthread_self(), "gw-proxy");
    while (!gw_ld_acquire_u32(&p->stop)) {
        pthread_mutex_lock(&p->lock);
        any = look(p);
        pthread_mutex_unlock(&p->lock);
        now = gw_clock_ns();
        if (!any && now - last > SPIN_NS) {
            ns = (now - last) / 16;
            any = nap(p, ns < NAP_MIN ? NAP_MIN : ns > NAP_MAX ? NAP_MAX : ns);
        } else if (!any) {
            gw_pause(64);
        }
        if (any) last = now;
    }
    return NULL;
}

static void release(struct gw_proxy *p)
{
    if (p->channel) ibv_destroy_comp_channel(p->channel);
    if (p->wake_fd >= 0) close(p->wake_fd);
    gw_arena_free(&p->dev->queues, p->bell.host);
    pthread_mutex_destroy(&p->lock);
    free(p->routes);
    free(p);
}

int gw_proxy_get(struct gw_device *dev, struct gw_proxy **out)
{
    struct gw_proxy *p = dev->proxy;
    int err;

    *out = p;
    if (p) return 0;
    p = calloc(1, sizeof(*p));
    if (!p) return gw_error_errno(-ENOMEM, "posting proxy");
    p->dev = dev;
    pthread_mutex_init(&p->lock, NULL);
    p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    err = p->wake_fd < 0 ? -errno : gw_arena_alloc(&dev->queues, sizeof(uint64_t), 64, &p->bell);
    if (!err) err = -pthread_create(&p->thread, NULL, run, p);
    if (err) {
        release(p);
        return gw_error_errno(err, "posting proxy: cannot start its thread");
    }
    gw_st_release_u64(&dev->proxy, (uint64_t)(uintptr_t)p); /* threads that ring look at it any time */
    *out = p;
    return 0;
}

static void wake(struct gw_proxy *p)
{
    const uint64_t one = 1;

    while (write(p->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR) continue;
}

void gw_proxy_nudge(struct gw_device *dev)
{
    struct gw_proxy *p = (struct gw_proxy *)(uintptr_t)gw_ld_acquire_u64(&dev->proxy);

    /* A poster's full fence stands between its ring and this look at the announcement. One of them is seen.
     */
    if (p && gw_ld_relaxed_u32(&p->asleep) && gw_ld_relaxed_u64(p->bell.host)) wake(p);
}

void gw_proxy_stop(struct gw_device *dev)
{
    struct gw_proxy *p = dev->proxy;

    if (!p) return;
    gw_st_release_u32(&p->stop, 1);
    wake(p);
    pthread_join(p->thread, NULL);
    dev->proxy = NULL;
    release(p);
}
