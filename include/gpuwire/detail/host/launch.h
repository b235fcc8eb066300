/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.h: how kernels ask for launches. Included by host.h; names that end in _ are private.
 *
 * A question is a slot in host memory. A kernel takes it (a word of the kernels' own), and writes the
 * question and then its state. The server writes the result and then the state. If no kernel waits for a
 * slot, the next kernel that finds it ended takes it over.
 *
 * More than six arguments: what a call has worked out travels as arguments, since a struct whose address is
 * passed would be forced into memory on a GPU.
 */
#include <gpuwire/host.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_HOST_LAUNCH_H
#define GPUWIRE_DETAIL_HOST_LAUNCH_H

enum { GW_HOST_ASKS_ = 32, GW_HOST_NAME_ = 60 };

enum { GW_HOST_IDLE_ = 0, GW_HOST_ASKED_ = 1, GW_HOST_STARTED_ = 2, GW_HOST_ENDED_ = 3 };
enum { GW_HOST_FREE_ = 0, GW_HOST_TAKEN_ = 1, GW_HOST_LEFT_ = 2 /* no kernel waits */, GW_HOST_MOVING_ = 3 };

struct gw_host_ask_ {
    uint32_t state, kernel, grid, block;
    int32_t result;
    uint8_t arg[GW_KERNEL_ARG_MAX] __attribute__((aligned(64)));
} __attribute__((aligned(128)));

struct gw_host_kernel_ {
    uint32_t arg_size;
    char name[GW_HOST_NAME_]; /* with the 0 at its end */
};

/* The server writes this and kernels read it. */
struct gw_host_page_ {
    uint64_t ahead;                                 /* of the GPU's clock; modulo 2^64 */
    uint64_t printed __attribute__((aligned(128))); /* lines taken from the ring */
};

struct gw_host {
    uint32_t size, version;
    struct gw_host_server *server; /* on CPU threads: for waking and sleeping; else NULL */
    const struct gw_host_kernel_ *kernel;
    struct gw_host_ask_ *ask;
    struct gw_host_page_ *page;
    struct gw_print_line_ *line;
    uint32_t kernels, lines;
    /* Kernels' own. */
    uint32_t taken[GW_HOST_ASKS_], turn[GW_HOST_ASKS_]; /* turn: how often the slot was taken */
    uint64_t head __attribute__((aligned(128)));        /* lines given out */
    uint64_t seen;                                      /* page->printed, as last read */
    uint64_t lost;
};

#ifdef __CUDACC__
GW_FN void gw_cpu_host_wake_(struct gw_host_server *server)
{
    (void)server;
}
GW_FN uint32_t gw_cpu_host_news_(struct gw_host_server *server)
{
    (void)server;
    return 0;
}
GW_FN void gw_cpu_host_sleep_(struct gw_host_server *server, uint32_t news, uint64_t deadline_ns)
{
    (void)server, (void)news, (void)deadline_ns;
}
#else
#ifdef __cplusplus
extern "C" {
#endif
/* As those of sockets: waking the server; what it has changed so far; sleeping until there is more. */
GW_API void gw_cpu_host_wake_(struct gw_host_server *server);
GW_API uint32_t gw_cpu_host_news_(struct gw_host_server *server);
GW_API void gw_cpu_host_sleep_(struct gw_host_server *server, uint32_t news, uint64_t deadline_ns);
#ifdef __cplusplus
}
#endif
#endif

GW_FN uint64_t gw_time(const struct gw_host *h)
{
    return gw_clock_epoch_ns_(&h->page->ahead);
}

GW_SLOW_FN int gw_host_find(const struct gw_host *h, const char *name)
{
    uint32_t i, at;

    for (i = 0; i < h->kernels; i++) {
        const char *has = h->kernel[i].name;

        for (at = 0; at < GW_HOST_NAME_ - 1 && has[at] && has[at] == name[at]; at++) continue;
        if (at == GW_HOST_NAME_ - 1 || (!has[at] && !name[at])) return (int)i;
    }
    return -ENOENT;
}

/* ---- slots -------------------------------------------------------------------------------------------- */

/* Whether the slot is ours now. */
GW_FN int gw_host_try_(struct gw_host *h, uint32_t i)
{
    uint32_t *taken = &h->taken[i];

    if (gw_turn_try_(taken)) return 1;
    if (gw_ld_relaxed_u32_gpu(taken) != GW_HOST_LEFT_ ||
        gw_cas_acquire_u32_gpu(taken, GW_HOST_LEFT_, GW_HOST_TAKEN_) != GW_HOST_LEFT_)
        return 0;
    /* Acquire: the server has done with the slot before we write to it. */
    if (gw_ld_acquire_u32(&h->ask[i].state) == GW_HOST_ENDED_) return 1;
    gw_st_release_u32_gpu(taken, GW_HOST_LEFT_);
    return 0;
}

/* The slot's number, or an error. */
GW_SLOW_FN int gw_host_take_(struct gw_host *h, uint32_t kernel, uint64_t deadline_ns)
{
    uint32_t i, round = 0;

    if (h->size != sizeof(*h) || h->version != GW_HOST_VERSION || kernel >= h->kernels) return -EINVAL;
    for (i = 0; !gw_host_try_(h, i); i = (i + 1) % GW_HOST_ASKS_)
        if (i == GW_HOST_ASKS_ - 1) {
            if (gw_clock_ns() >= deadline_ns) return gw_expired_(deadline_ns);
            gw_pause(round++);
        }
    return (int)i;
}

/* Asks, when the argument is in the slot. */
GW_SLOW_FN uint64_t gw_host_ask_now_(struct gw_host *h, uint32_t i, uint32_t kernel, uint32_t grid,
                                     uint32_t block, int waited_for)
{
    struct gw_host_ask_ *ask = &h->ask[i];
    uint32_t turn = ++h->turn[i];

    ask->kernel = kernel;
    ask->grid = grid;
    ask->block = block;
    gw_st_release_u32(&ask->state,
                      GW_HOST_ASKED_); /* release: the question, and what the group has written, first */
    if (!waited_for) gw_st_release_u32_gpu(&h->taken[i], GW_HOST_LEFT_); /* release: with the state */
    if (h->server) gw_cpu_host_wake_(h->server);
    return (uint64_t)turn << 32 | i;
}

/* Between two looks at what the server writes; news: from before the look. 0, or the deadline has passed. */
GW_FN int gw_host_pause_(const struct gw_host *h, uint32_t news, uint32_t *round, uint64_t deadline_ns)
{
    if (gw_clock_ns() >= deadline_ns) return gw_expired_(deadline_ns);
    if (!h->server || *round < 64)
        gw_pause((*round)++);
    else
        gw_cpu_host_sleep_(h->server, news, deadline_ns);
    return 0;
}

GW_DEV int gw_host_wait_thread(struct gw_host *h, uint64_t ticket, uint64_t deadline_ns)
{
    uint32_t i = (uint32_t)ticket, turn = (uint32_t)(ticket >> 32), round = 0, news;
    int result;

    if (h->size != sizeof(*h) || i >= GW_HOST_ASKS_) return -EINVAL;
    for (;;) {
        /* Acquire: the turn is as it was when the slot was taken, or newer. */
        if (gw_ld_acquire_u32_gpu(&h->taken[i]) != GW_HOST_TAKEN_ ||
            gw_ld_relaxed_u32_gpu(&h->turn[i]) != turn)
            return -EINVAL;
        news = h->server ? gw_cpu_host_news_(h->server) : 0;
        /* Acquire: the result, and what the kernel has written. */
        if (gw_ld_acquire_u32(&h->ask[i].state) == GW_HOST_ENDED_) break;
        result = gw_host_pause_(h, news, &round, deadline_ns);
        if (result) return result;
    }
    result = h->ask[i].result;
    /* Of several who wait with one ticket, against the rules, one gives the slot back. */
    if (gw_cas_acquire_u32_gpu(&h->taken[i], GW_HOST_TAKEN_, GW_HOST_MOVING_) != GW_HOST_TAKEN_)
        return -EINVAL;
    gw_st_relaxed_u32(&h->ask[i].state, GW_HOST_IDLE_);
    gw_turn_leave_(&h->taken[i]);
    return result;
}

/* Waits, and leaves the slot to others if it takes too long. */
GW_SLOW_DEV int gw_host_outlast_(struct gw_host *h, uint64_t ticket, uint64_t deadline_ns)
{
    int err = gw_host_wait_thread(h, ticket, deadline_ns);

    if (err == -ETIMEDOUT && h->turn[(uint32_t)ticket] == (uint32_t)(ticket >> 32))
        (void)gw_cas_release_u32_gpu(&h->taken[(uint32_t)ticket], GW_HOST_TAKEN_, GW_HOST_LEFT_);
    return err;
}

/* ---- the forms ---------------------------------------------------------------------------------------- */

#define GW_HOST_FIRST_(g, call) (gw_group_first(g, gw_group_rank(g) == 0 ? (uint64_t)(int64_t)(call) : 0))

/* waited_for: the slot is the caller's until it has waited. */
GW_SLOW_DEV int gw_host_start_g_(enum gw_group g, struct gw_host *h, uint32_t kernel, uint32_t grid,
                                 uint32_t block, const void *arg, uint64_t *ticket, int waited_for,
                                 uint64_t deadline_ns)
{
    int i;

    gw_group_sync(g); /* what the others have written comes before the launch */
    i = (int)GW_HOST_FIRST_(g, gw_host_take_(h, kernel, deadline_ns));
    if (i < 0) return i;
    gw_copy_share(h->ask[i].arg, arg, h->kernel[kernel].arg_size, gw_group_rank(g), gw_group_size(g));
    gw_group_sync(g); /* all of the argument before the question */
    *ticket = GW_HOST_FIRST_(g, gw_host_ask_now_(h, (uint32_t)i, kernel, grid, block, waited_for));
    return 0;
}

GW_SLOW_DEV int gw_host_launch_g_(enum gw_group g, struct gw_host *h, uint32_t kernel, uint32_t grid,
                                  uint32_t block, const void *arg, uint64_t deadline_ns)
{
    int late = (int)GW_HOST_FIRST_(g, gw_clock_ns() >= deadline_ns ? gw_expired_(deadline_ns) : 0), err;
    uint64_t ticket;

    if (late) return late;
    err = gw_host_start_g_(g, h, kernel, grid, block, arg, &ticket, 1, deadline_ns);
    return err ? err : (int)GW_HOST_FIRST_(g, gw_host_outlast_(h, ticket, deadline_ns));
}

#define GW_HOST_FORM_(g, suffix)                                                                             \
    GW_DEV int gw_host_launch##suffix(struct gw_host *h, uint32_t kernel, uint32_t grid, uint32_t block,     \
                                      const void *arg, uint64_t deadline_ns)                                 \
    {                                                                                                        \
        return gw_host_launch_g_(g, h, kernel, grid, block, arg, deadline_ns);                               \
    }                                                                                                        \
    GW_DEV int gw_host_start##suffix(struct gw_host *h, uint32_t kernel, uint32_t grid, uint32_t block,      \
                                     const void *arg, uint64_t *ticket, uint64_t deadline_ns)                \
    {                                                                                                        \
        uint64_t unwanted;                                                                                   \
        return gw_host_start_g_(g, h, kernel, grid, block, arg, ticket ? ticket : &unwanted, ticket != NULL, \
                                deadline_ns);                                                                \
    }
GW_HOST_FORM_(GW_BLOCK, )
GW_HOST_FORM_(GW_WARP, _warp)
GW_HOST_FORM_(GW_THREAD, _thread)
#undef GW_HOST_FORM_

GW_DEV int gw_host_wait(struct gw_host *h, uint64_t ticket, uint64_t deadline_ns)
{
    return (int)GW_HOST_FIRST_(GW_BLOCK, gw_host_wait_thread(h, ticket, deadline_ns));
}

GW_DEV int gw_host_wait_warp(struct gw_host *h, uint64_t ticket, uint64_t deadline_ns)
{
    return (int)GW_HOST_FIRST_(GW_WARP, gw_host_wait_thread(h, ticket, deadline_ns));
}

#endif
