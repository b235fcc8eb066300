/* SPDX-License-Identifier: Apache-2.0 */
/* Launches that kernels have asked for. */
#include <errno.h>

#include "src/host/server.h"

static void launch_end(struct gw_host_server *s, struct gw_host_ask_ *ask, int result)
{
    ask->result = result;
    gw_add_relaxed_u64(&s->launches, 1);
    if (result) gw_add_relaxed_u64(&s->failed, 1);
    gw_st_release_u32(&ask->state, GW_HOST_ENDED_); /* release: the result, and the launch, first */
    gw_helper_tell(&s->helper);
}

/* What has ended. An executor is asked without waiting: -ETIMEDOUT says that it is busy. */
static bool launch_reap(struct gw_host_server *s)
{
    bool any = false;

    for (uint32_t i = 0; i < s->attr.at_once; i++) {
        struct gw_host_runner *r = &s->runner[i];
        int err = r->ask ? gw_exec_sync(r->exec, 0) : -ETIMEDOUT;

        if (err == -ETIMEDOUT) continue;
        launch_end(s, r->ask, err);
        r->ask = NULL;
        any = true;
    }
    return any;
}

static struct gw_host_runner *free_runner(struct gw_host_server *s)
{
    for (uint32_t i = 0; i < s->attr.at_once; i++)
        if (!s->runner[i].ask) return &s->runner[i];
    return NULL;
}

static void launch_start(struct gw_host_server *s, struct gw_host_runner *r, struct gw_host_ask_ *ask)
{
    uint32_t kernel = gw_ld_relaxed_u32(&ask->kernel); /* once: what was checked is what is used */
    int err = kernel < s->attr.count ? 0 : -EINVAL;

    gw_st_relaxed_u32(&ask->state, GW_HOST_STARTED_);
    if (!err) err = gw_launch(r->exec, s->attr.kernels[kernel], ask->grid, ask->block, ask->arg);
    if (err)
        launch_end(s, ask, err);
    else
        r->ask = ask;
}

bool gw_host_launches(struct gw_host_server *s)
{
    bool any = launch_reap(s);
    struct gw_host_runner *r = free_runner(s);

    /* From another slot each time, so that none is passed over forever when there are many. */
    for (uint32_t i = 0; r && i < GW_HOST_ASKS_; i++) {
        struct gw_host_ask_ *ask = &s->ask[(s->next + i) % GW_HOST_ASKS_];

        if (gw_ld_acquire_u32(&ask->state) != GW_HOST_ASKED_)
            continue; /* acquire: the question is read after it */
        launch_start(s, r, ask);
        r = free_runner(s);
        any = true;
    }
    s->next++;
    return any;
}

uint32_t gw_host_pending(const struct gw_host_server *s)
{
    uint32_t n = 0, state;

    for (uint32_t i = 0; i < GW_HOST_ASKS_; i++) {
        state = gw_ld_acquire_u32(&s->ask[i].state);
        n += state == GW_HOST_ASKED_ || state == GW_HOST_STARTED_;
    }
    return n;
}
