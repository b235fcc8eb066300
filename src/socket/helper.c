/* SPDX-License-Identifier: Apache-2.0 */
/* The helper thread: answers what kernels ask, and keeps the sockets' states. It never waits for a peer. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <limits.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "src/socket/net.h"

/* ---- news for kernels --------------------------------------------------------------------------------- */

static void tell(struct gw_sockets *set)
{
    gw_add_release_u32(&set->news, 1); /* release: what has changed comes first */
    syscall(SYS_futex, &set->news, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void gw_sock_publish(struct gw_sockets *set, struct sock *k, uint32_t state)
{
    gw_st_release_u32(&k->info->state, state); /* release: the rest of *info first */
    tell(set);
}

void gw_cpu_sock_wake_(struct gw_sockets *set)
{
    uint64_t one = 1;

    (void)!write(set->wake_fd, &one, sizeof(one)); /* fails when it is awake anyway */
}

uint32_t gw_cpu_sock_news_(struct gw_sockets *set)
{
    return gw_ld_acquire_u32(&set->news);
}

void gw_cpu_sock_sleep_(struct gw_sockets *set, uint32_t news, uint64_t deadline_ns)
{
    uint64_t now = gw_clock_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
    struct timespec t;

    if (left > 1000000000u) left = 1000000000u; /* whoever sleeps looks again now and then */
    t.tv_sec = (time_t)(left / 1000000000u);
    t.tv_nsec = (long)(left % 1000000000u);
    syscall(SYS_futex, &set->news, FUTEX_WAIT_PRIVATE, news, &t, NULL, 0);
}

/* ---- sockets given out and back ----------------------------------------------------------------------- */

struct sock *gw_sock_take_free(struct gw_sockets *set)
{
    for (uint32_t i = 0; i < set->attr.count; i++) {
        struct sock *k = &set->sock[(set->hint + i) % set->attr.count];

        if (k->step != SOCK_FREE) continue;
        set->hint = (uint32_t)(k - set->sock + 1) % set->attr.count;
        gw_add_relaxed_u32(&set->open, 1);
        k->bound = false;
        k->backlog = k->waiting = 0;
        k->listener = k->next = k->first = NULL;
        k->last = &k->first;
        k->info->error = 0;
        k->info->ready = 0;
        memset(&k->info->local, 0, sizeof(k->info->local));
        memset(&k->info->remote, 0, sizeof(k->info->remote));
        return k;
    }
    return NULL;
}

void gw_sock_release(struct gw_sockets *set, struct sock *k)
{
    gw_sock_cm_close(k);
    gw_sock_publish(set, k, GW_SOCK_FREE_);
    /* A queue pair that cannot be made new is lost to the set, until it is destroyed. */
    k->step = gw_sock_renew(set, k) ? SOCK_BROKEN : SOCK_FREE;
    gw_add_relaxed_u32(&set->open, (uint32_t)-1);
}

uint32_t gw_sockets_open(struct gw_sockets *set)
{
    return gw_ld_relaxed_u32(&set->open);
}

/* ---- what kernels ask --------------------------------------------------------------------------------- */

static int take_ready(struct gw_sockets *set, struct sock *l, struct gw_sock_addr_ *peer)
{
    struct sock *k = l->first;

    if (l->step != SOCK_LISTENING) return -EINVAL;
    if (!k) return -EAGAIN;
    l->first = k->next;
    if (!l->first) l->last = &l->first;
    l->waiting--;
    gw_st_relaxed_u32(&l->info->ready, l->info->ready - 1);
    k->listener = k->next = NULL;
    k->step = SOCK_CONNECTED;
    *peer = k->info->remote;
    return (int)(k - set->sock);
}

/* Connections that nobody will accept any more. */
static void close_waiting(struct gw_sockets *set, struct sock *l)
{
    for (uint32_t i = 0; l->step == SOCK_LISTENING && i < set->attr.count; i++)
        if (set->sock[i].listener == l) gw_sock_release(set, &set->sock[i]);
}

static int answer(struct gw_sockets *set, struct gw_sock_ask_ *ask)
{
    struct sock *k = (uint32_t)ask->sock < set->attr.count ? &set->sock[ask->sock] : NULL;

    if (ask->op == GW_SOCK_OPEN_) {
        k = gw_sock_take_free(set);
        if (!k) return -EMFILE;
        k->step = SOCK_OPENED;
        gw_sock_publish(set, k, GW_SOCK_OPENED_);
        return (int)(k - set->sock);
    }
    if (!k || k->step == SOCK_FREE || k->step == SOCK_BROKEN || k->step == SOCK_ACCEPTING ||
        k->step == SOCK_READY)
        return -EBADF;
    switch (ask->op) {
    case GW_SOCK_BIND_: return k->step == SOCK_OPENED ? gw_sock_cm_bind(set, k, &ask->addr) : -EINVAL;
    case GW_SOCK_LISTEN_: return gw_sock_cm_listen(set, k, ask->number);
    case GW_SOCK_ACCEPT_: return take_ready(set, k, &ask->addr);
    case GW_SOCK_CONNECT_: return k->step == SOCK_OPENED ? gw_sock_cm_connect(set, k, &ask->addr) : -EALREADY;
    case GW_SOCK_CLOSE_:
        close_waiting(set, k);
        gw_sock_release(set, k);
        return 0;
    default: return -EINVAL;
    }
}

/* How many were answered. */
static uint32_t answer_all(struct gw_sockets *set)
{
    struct gw_sock_ask_ *ask = set->shared.host;
    uint32_t n = 0;

    for (uint32_t i = 0; i < GW_SOCK_ASKS_; i++, ask++) {
        if (gw_ld_acquire_u32(&ask->state) != GW_SOCK_ASKED_) continue; /* acquire: the question behind it */
        ask->result = answer(set, ask);
        gw_st_release_u32(&ask->state, GW_SOCK_ANSWERED_); /* release: the answer first */
        n++;
    }
    if (n) tell(set);
    return n;
}

/* ---- the thread --------------------------------------------------------------------------------------- */

#define BUSY_NS 20000u   /* looks at a GPU's slots so soon after the last question … */
#define IDLE_NS 1000000u /* … and so rarely when there has been none for long */

static void *run(void *arg)
{
    struct gw_sockets *set = arg;
    bool polled = gw_exec_kind(gw_device_exec(set->dev)) == GW_EXEC_GPU;
    int fds[2] = {set->wake_fd, set->channel->fd};
    uint64_t nap = BUSY_NS, count;

    pthread_setname_np(pthread_self(), "gw-sockets");
    while (!gw_ld_acquire_u32(&set->stop)) {
        if (answer_all(set)) nap = BUSY_NS;
        gw_sock_cm_events(set);
        if (gw_wait_fds(fds, 2, polled ? gw_deadline(nap) : GW_NEVER) & 1)
            (void)!read(set->wake_fd, &count, sizeof(count));
        nap = nap * 2 < IDLE_NS ? nap * 2 : IDLE_NS;
    }
    return NULL;
}

int gw_sock_helper_start(struct gw_sockets *set)
{
    int flags, err;

    set->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (set->wake_fd < 0) return gw_error_errno(-errno, "sockets");
    set->channel = rdma_create_event_channel();
    if (!set->channel) return gw_error_errno(-ENODEV, "no rdma_cm on this machine (`modprobe rdma_ucm`)");
    flags = fcntl(set->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(set->channel->fd, F_SETFL, flags | O_NONBLOCK))
        return gw_error_errno(-errno, "rdma_cm's event channel");
    err = pthread_create(&set->thread, NULL, run, set);
    if (err) return gw_error_errno(-err, "sockets: no thread for their helper");
    set->running = true;
    return 0;
}

void gw_sock_helper_stop(struct gw_sockets *set)
{
    if (set->running) {
        gw_st_release_u32(&set->stop, 1);
        gw_cpu_sock_wake_(set);
        pthread_join(set->thread, NULL);
    }
    for (uint32_t i = 0; set->sock && i < set->attr.count; i++) gw_sock_cm_close(&set->sock[i]);
    if (set->channel) rdma_destroy_event_channel(set->channel);
    if (set->wake_fd >= 0) close(set->wake_fd);
}
