/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy's thread: when it looks and when it sleeps.
 *
 * It looks at everything in turn. With nothing to do it sleeps ever longer, a sixteenth of the time it has
 * been idle. So it sees what a kernel writes after an idle time t at most t/16 later. The longest sleep is 1
 * ms, or 256 times the cost of one look where that is more. Idle, the thread takes 0.4 % of a core, or a
 * little of what 1 ms allows. Completions of the NIC wake it at once, and so do CPU threads that ring.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#include "src/exec/helper.h"
#include "src/verbs/proxy.h"

#define SPIN_NS   20000u
#define NAP_MAX   1000000u
#define NAP_COSTS 256u      /* longer, if a look costs more than so small a part of it … */
#define NAP_LIMIT 20000000u /* … but not than this, on a machine that is too busy to tell */

static uint64_t cpu_ns(void)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool verbs_proxy_look(struct gw_proxy *p, bool quiet)
{
    bool rung = gw_doorbell_round(p), posted = gw_repost_round(p, quiet);

    GW_ASSERT_HELD(&p->lock);
    return rung || posted;
}

/* A look, and when there was nothing a sleep of that length at most. True when there was something or a
 * thread woke it. */
static bool verbs_proxy_nap(struct gw_proxy *p, uint64_t ns)
{
    int fds[2] = {p->wake_fd, -1};
    uint64_t count;
    int64_t woken;
    bool any;

    gw_st_relaxed_u32(&p->asleep, 1);
    /* Sleep announced before the last look: who rings after that look sees the announcement (gw_proxy_rang).
     */
    gw_fence_sc();
    pthread_mutex_lock(&p->lock);
    /* CQs that were asked for events before have had none since, or it would not be napping. */
    any = verbs_proxy_look(p, !gw_repost_arm(p));
    if (p->channel) fds[1] = p->channel->fd;
    pthread_mutex_unlock(&p->lock);
    woken = any ? 0 : gw_wait_fds(fds, 2, gw_clock_ns() + ns);
    gw_st_relaxed_u32(&p->asleep, 0);
    if (woken <= 0) return any;
    while (woken & 1 && read(p->wake_fd, &count, sizeof(count)) < 0 && errno == EINTR) continue;
    if (!(woken & 2)) return true;
    pthread_mutex_lock(&p->lock);
    gw_repost_events(p);
    pthread_mutex_unlock(&p->lock);
    return true;
}

/* How long to sleep after idle_ns without anything to do. cost: what a nap costs, as far as it is known. */
static uint64_t nap_ns(uint64_t idle, uint64_t cost)
{
    uint64_t most = cost * NAP_COSTS;

    if (most < NAP_MAX) most = NAP_MAX;
    if (most > NAP_LIMIT) most = NAP_LIMIT;
    return gw_nap_ns(idle, most);
}

/* Naps until there was something, or a thread has woken it. last: when there was something. */
static void idle(struct gw_proxy *p, uint64_t last)
{
    uint64_t cost = 0, before = cpu_ns(), now;
    bool any = false;

    while (!any && !gw_ld_acquire_u32(&p->stop)) {
        any = verbs_proxy_nap(p, nap_ns(gw_clock_ns() - last, cost));
        now = cpu_ns();
        /* An average: one nap that was disturbed says little. */
        cost = cost ? cost - cost / 8 + (now - before) / 8 : now - before;
        before = now;
    }
}

static void *verbs_proxy_run(void *arg)
{
    struct gw_proxy *p = arg;
    uint64_t last = gw_clock_ns(), now;
    bool any;

    pthread_setname_np(pthread_self(), "gw-proxy");
    gw_nap_exactly();
    while (!gw_ld_acquire_u32(&p->stop)) {
        pthread_mutex_lock(&p->lock);
        any = verbs_proxy_look(p, false);
        pthread_mutex_unlock(&p->lock);
        now = gw_clock_ns();
        if (any) {
            last = now;
        } else if (now - last > SPIN_NS) {
            idle(p, last);
            last = gw_clock_ns(); /* what ended the naps is done, and was not seen here */
        } else {
            gw_pause(64);
        }
    }
    return NULL;
}

static void verbs_proxy_release(struct gw_proxy *p)
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

    GW_ASSERT_HELD(&dev->lock);
    *out = p;
    if (p) return 0;
    p = calloc(1, sizeof(*p));
    if (!p) return gw_error_errno(-ENOMEM, "posting proxy");
    p->dev = dev;
    pthread_mutex_init(&p->lock, NULL);
    p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    err = p->wake_fd < 0 ? -errno : gw_arena_alloc(&dev->queues, sizeof(uint64_t), 64, &p->bell);
    if (!err) err = -pthread_create(&p->thread, NULL, verbs_proxy_run, p);
    if (err) {
        verbs_proxy_release(p);
        return gw_error_errno(err, "posting proxy: cannot start its thread");
    }
    gw_st_release_u64(&dev->proxy, (uint64_t)(uintptr_t)p); /* threads that ring look at it any time */
    *out = p;
    return 0;
}

static void verbs_proxy_wake(struct gw_proxy *p)
{
    const uint64_t one = 1;

    while (write(p->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR) continue;
}

void gw_proxy_rang(struct gw_device *dev)
{
    struct gw_proxy *p = (struct gw_proxy *)(uintptr_t)gw_ld_acquire_u64(&dev->proxy);

    /* The ring before this look at the announcement, as in nap the announcement before the look for rings:
     * one of them is seen. */
    gw_fence_sc();
    if (p && gw_ld_relaxed_u32(&p->asleep)) verbs_proxy_wake(p);
}

void gw_proxy_stop(struct gw_device *dev)
{
    struct gw_proxy *p = dev->proxy;

    if (!p) return;
    gw_st_release_u32(&p->stop, 1);
    verbs_proxy_wake(p);
    pthread_join(p->thread, NULL);
    dev->proxy = NULL;
    verbs_proxy_release(p);
}
