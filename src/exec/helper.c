/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that serves kernels: when it looks and when it sleeps. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "src/exec/cpu.h"
#include "src/exec/helper.h"

#define NAP_MIN_NS 20000u
#define NAP_MAX_NS                                                                                           \
    1000000u /* what a GPU may have written is looked at so rarely when there has been nothing for long */

/* ---- news ---------------------------------------------------------------------------------------------- */

void gw_news_tell(uint32_t *news, uint32_t *sleepers)
{
    gw_add_acq_rel_u32(news, 1); /* release: what has changed comes first */
    gw_fence_sc();               /* news before the look at who sleeps, as there the other way round */
    if (gw_ld_relaxed_u32(sleepers)) syscall(SYS_futex, news, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void gw_news_wait(uint32_t *news, uint32_t *sleepers, uint32_t seen, uint64_t deadline_ns)
{
    uint64_t now = gw_clock_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
    struct timespec t;

    if (left > 1000000000u) left = 1000000000u; /* a sleeper looks again now and then */
    t.tv_sec = (time_t)(left / 1000000000u);
    t.tv_nsec = (long)(left % 1000000000u);
    gw_add_acq_rel_u32(sleepers, 1);
    gw_fence_sc(); /* as in gw_news_tell; the futex looks at news again */
    syscall(SYS_futex, news, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
    gw_add_acq_rel_u32(sleepers, (uint32_t)-1);
}

void gw_helper_tell(struct gw_helper *h)
{
    uint64_t count;

    gw_news_tell(&h->news, &h->sleepers);
    count = gw_ld_relaxed_u32(&h->pollers); /* after the fence in there, as for the others */
    if (count) (void)!write(h->poll_fd, &count, sizeof(count)); /* fails when it is full of them anyway */
}

uint32_t gw_helper_news(const struct gw_helper *h)
{
    return gw_ld_acquire_u32(&h->news);
}

void gw_helper_wait(struct gw_helper *h, uint32_t news, uint64_t deadline_ns)
{
    gw_news_wait(&h->news, &h->sleepers, news, deadline_ns);
}

/* ---- naps ---------------------------------------------------------------------------------------------- */

uint64_t gw_nap_ns(uint64_t idle_ns, uint64_t max_ns)
{
    uint64_t ns = idle_ns / 16;

    return ns < NAP_MIN_NS ? NAP_MIN_NS : ns > max_ns ? max_ns : ns;
}

void gw_nap_exactly(void)
{
    prctl(PR_SET_TIMERSLACK, 1000);
}

void gw_helper_poll(struct gw_helper *h, uint32_t news, struct pollfd *fds, uint32_t n, uint64_t deadline_ns)
{
    uint64_t now = gw_clock_ns(), left = deadline_ns > now ? deadline_ns - now : 0, count;
    struct timespec t = {.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)};

    fds[0] = (struct pollfd){.fd = h->poll_fd, .events = POLLIN};
    gw_add_acq_rel_u32(&h->pollers, 1);
    gw_fence_sc(); /* as in gw_helper_tell */
    if (gw_helper_news(h) == news && ppoll(fds, n, &t, NULL) < 0)
        for (uint32_t i = 0; i < n; i++) fds[i].revents = 0;
    gw_add_acq_rel_u32(&h->pollers, (uint32_t)-1);
    if (fds[0].revents) (void)!read(h->poll_fd, &count, sizeof(count)); /* one of the count */
}

/* ---- the thread ---------------------------------------------------------------------------------------- */

static void ring(struct gw_helper *h)
{
    uint64_t one = 1;

    (void)!write(h->fd[0], &one, sizeof(one)); /* fails when it is awake anyway */
}

void gw_helper_wake(struct gw_helper *h)
{
    /* Our writes come before the look at `asleep`, and there `asleep` comes before the look at our writes. So
     * one of the two sees the other. */
    gw_fence_sc();
    if (gw_ld_relaxed_u32(&h->asleep)) ring(h);
}

/* For `ns` at most; 0: not at all. */
static void exec_helper_wait_for(struct gw_helper *h, uint64_t ns)
{
    uint64_t count;

    if (h->wait && h->wait(h->arg, ns)) return;
    if (ns && gw_wait_fds(h->fd, 1 + GW_HELPER_FDS, ns == GW_NEVER ? GW_NEVER : gw_deadline(ns)) & 1)
        (void)!read(h->fd[0], &count, sizeof(count));
}

static void wait_and_tell_how_long(struct gw_helper *h, uint64_t ns)
{
    uint64_t begin = h->linger_ns ? gw_clock_ns() : 0;

    exec_helper_wait_for(h, ns);
    h->brief = begin && gw_clock_ns() - begin < h->linger_ns;
}

/* Announces that it sleeps, looks once more, and sleeps for `ns` if there was nothing; whether there was.
 */
static bool sleep_for(struct gw_helper *h, uint64_t ns)
{
    bool any;

    gw_st_relaxed_u32(&h->asleep, 1);
    gw_fence_sc(); /* as in gw_helper_wake */
    any = h->look(h->arg) || gw_ld_acquire_u32(&h->stop);
    if (!any) wait_and_tell_how_long(h, h->polled ? ns : GW_NEVER);
    gw_st_relaxed_u32(&h->asleep, 0);
    return any;
}

/* Looks, and lets others have the processor when there has been nothing for a while. How often that was so in
 * a row. */
static uint32_t be_busy(struct gw_helper *h, uint32_t round)
{
    if (h->look(h->arg)) return 0;
    exec_helper_wait_for(h, 0);
    gw_pause(round);
    return round + 1;
}

/* Looks on for as long as a sleep would be too short to be worth it. Whether there was anything. */
static bool linger(struct gw_helper *h)
{
    uint64_t until = gw_deadline(h->linger_ns);
    uint32_t round = 0;

    if (!h->brief) return false;
    while (gw_clock_ns() < until && !gw_ld_acquire_u32(&h->stop)) {
        round = be_busy(h, round);
        if (!round) return true;
    }
    h->brief = false;
    return false;
}

static void *exec_helper_run(void *arg)
{
    struct gw_helper *h = arg;
    uint64_t last = gw_clock_ns(); /* when there was something to do */
    uint32_t round = 0;

    if (h->polled) gw_nap_exactly();
    if (h->enter) h->enter(h->arg);
    while (!gw_ld_acquire_u32(&h->stop)) {
        if (h->busy)
            round = be_busy(h, round);
        else if (h->look(h->arg) || linger(h) || sleep_for(h, gw_nap_ns(gw_clock_ns() - last, NAP_MAX_NS)))
            last = gw_clock_ns();
    }
    if (h->leave) h->leave(h->arg);
    return NULL;
}

int gw_helper_init(struct gw_helper *h, const struct gw_exec *exec, bool (*look)(void *arg), void *arg)
{
    memset(h, 0, sizeof(*h));
    h->look = look;
    h->arg = arg;
    h->polled = gw_exec_kind(exec) == GW_EXEC_GPU;
    for (int i = 1; i <= GW_HELPER_FDS; i++) h->fd[i] = -1;
    h->fd[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    h->poll_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    return h->fd[0] < 0 || h->poll_fd < 0 ? -errno : 0;
}

int gw_helper_start(struct gw_helper *h, const char *name)
{
    int err = gw_cpu_thread_start(&h->thread, name, 0, exec_helper_run, h);

    if (err) return err;
    h->running = true;
    return 0;
}

void gw_helper_stop(struct gw_helper *h)
{
    if (h->running) {
        gw_st_release_u32(&h->stop, 1);
        ring(h);
        pthread_join(h->thread, NULL);
    }
    if (h->look && h->fd[0] >= 0) close(h->fd[0]);
    if (h->look && h->poll_fd >= 0) close(h->poll_fd);
    memset(h, 0, sizeof(*h));
}
