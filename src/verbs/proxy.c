/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doorbell proxy: where the NIC's doorbell page cannot be mapped into a GPU, kernels write what they
 * would have written there into a mailbox in host memory, and a thread named gw-doorbell carries it to the
 * register. The queues, the records and the device API are the same as without it.
 *
 * The thread looks at all mailboxes in turn. With nothing to do it sleeps ever longer, a sixteenth of the
 * time it has been idle, from 20 µs to 1 ms: a ring after an idle time t is late by t/16 at most.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/verbs/impl.h"

#define SPIN_NS 20000u
#define NAP_MIN 20000u
#define NAP_MAX 1000000u

struct route {
    uint64_t *mailbox, *reg;
};

struct gw_proxy {
    pthread_t thread;
    pthread_mutex_t lock; /* routes; the thread holds it during a round */
    struct route *routes;
    uint32_t count, room;
    int stop_fd;
    uint32_t stop;
};

/* One look at every mailbox; true when there was something in one. */
static bool carry(struct gw_proxy *p)
{
    bool any = false;

    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < p->count; i++) {
        struct route *r = &p->routes[i];
        uint64_t v;

        if (!gw_ld_relaxed_u64(r->mailbox)) continue;
        /* Taken out by exchange: a ring that comes in between is either in v or still there at the next look.
         * Acquire: the record, written before the mailbox, comes before the register. */
        v = gw_exch_acquire_u64(r->mailbox, 0);
        gw_mmio_st64(r->reg, v);
        gw_fence_sc(); /* out of the write-combining buffer, before the next one is written over it */
        any = true;
    }
    pthread_mutex_unlock(&p->lock);
    return any;
}

static void *run(void *arg)
{
    struct gw_proxy *p = arg;
    uint64_t last = gw_clock_ns(), now, nap;

    pthread_setname_np(pthread_self(), "gw-doorbell");
    while (!gw_ld_acquire_u32(&p->stop)) {
        now = gw_clock_ns();
        if (carry(p)) {
            last = now;
        } else if (now - last > SPIN_NS) {
            nap = (now - last) / 16;
            nap = nap < NAP_MIN ? NAP_MIN : nap > NAP_MAX ? NAP_MAX : nap;
            (void)gw_wait_fds(&p->stop_fd, 1, now + nap);
        } else {
            gw_pause(64);
        }
    }
    return NULL;
}

static int start(struct gw_device *dev)
{
    struct gw_proxy *p = calloc(1, sizeof(*p));
    int err;

    if (!p) return gw_error_errno(-ENOMEM, "doorbell proxy");
    pthread_mutex_init(&p->lock, NULL);
    p->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    err = p->stop_fd < 0 ? errno : pthread_create(&p->thread, NULL, run, p);
    if (err) {
        if (p->stop_fd >= 0) close(p->stop_fd);
        pthread_mutex_destroy(&p->lock);
        free(p);
        return gw_error_errno(-err, "doorbell proxy: cannot start its thread");
    }
    dev->proxy = p;
    return 0;
}

int gw_proxy_add(struct gw_device *dev, uint64_t *reg, uint64_t **mailbox, void **dev_mailbox)
{
    struct gw_piece piece;
    struct gw_proxy *p;
    int err = dev->proxy ? 0 : start(dev);

    if (err) return err;
    p = dev->proxy;
    err = gw_arena_alloc(&dev->queues, sizeof(uint64_t), 64, &piece);
    if (err) return gw_error_errno(err, "doorbell proxy");
    pthread_mutex_lock(&p->lock);
    if (p->count == p->room) {
        uint32_t room = p->room ? 2 * p->room : 16;
        struct route *r = realloc(p->routes, room * sizeof(*r));

        if (r) p->routes = r, p->room = room;
    }
    if (p->count < p->room)
        p->routes[p->count++] = (struct route){piece.host, reg};
    else
        err = -ENOMEM;
    pthread_mutex_unlock(&p->lock);
    if (err) {
        gw_arena_free(&dev->queues, piece.host);
        return gw_error_errno(err, "doorbell proxy");
    }
    *mailbox = piece.host;
    *dev_mailbox = piece.dev;
    return 0;
}

void gw_proxy_remove(struct gw_device *dev, uint64_t *mailbox)
{
    struct gw_proxy *p = dev->proxy;

    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < p->count; i++)
        if (p->routes[i].mailbox == mailbox) {
            p->routes[i] = p->routes[--p->count];
            break;
        }
    pthread_mutex_unlock(&p->lock);
    gw_arena_free(&dev->queues, mailbox);
}

void gw_proxy_stop(struct gw_device *dev)
{
    struct gw_proxy *p = dev->proxy;
    uint64_t one = 1;

    if (!p) return;
    gw_st_release_u32(&p->stop, 1);
    while (write(p->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR) continue;
    pthread_join(p->thread, NULL);
    close(p->stop_fd);
    pthread_mutex_destroy(&p->lock);
    free(p->routes);
    free(p);
    dev->proxy = NULL;
}
