/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's lock, and waiting until the data plane has followed. */
#include "src/balance/control/core.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/balance/control/pairs.h"

int gw_bal_core_init(struct gw_bal_core *c)
{
    memset(c, 0, sizeof(*c));
    c->started_ns = gw_deadline(0);
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->wake_fd < 0) return gw_error_errno(-errno, "eventfd");
    c->history = calloc(1, sizeof(*c->history));
    if (!c->history) {
        close(c->wake_fd);
        return gw_error_errno(-ENOMEM, "balance");
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&c->moved, &clock);
    pthread_condattr_destroy(&clock);
    c->qps_end = &c->qps;
    return 0;
}

void gw_bal_core_free(struct gw_bal_core *c)
{
    gw_bal_pairs_free(c);
    pthread_cond_destroy(&c->moved);
    gw_bal_model_free(&c->model);
    json_decref(c->stats);
    gw_bal_history_free(c->history);
    close(c->wake_fd);
    pthread_mutex_destroy(&c->lock);
}

#define FRESH_NS 5000000000u /* it is asked for its counts five times a second */

bool gw_bal_core_alive(const struct gw_bal_core *c)
{
    return c->attached && gw_deadline(0) - c->heard_ns < FRESH_NS;
}

void gw_bal_core_wake(struct gw_bal_core *c)
{
    uint64_t one = 1;
    if (write(c->wake_fd, &one, sizeof(one)) < 0) { /* it is full: readable anyway */
    }
}

#define RELOAD_TRIES 8u /* seconds: less than a client waits */

int gw_bal_core_reload(struct gw_bal_core *c)
{
    uint64_t mine = ++c->reloads_asked;
    for (unsigned i = 0; i < RELOAD_TRIES; i++)
        if (gw_bal_core_wait(c, &c->reloads_done, mine))
            return c->reload_why[0] ? gw_error(-EINVAL, "%s", c->reload_why) : 0;
    return gw_error(-EAGAIN, "the balancer has not read the file yet");
}

bool gw_bal_core_wait(struct gw_bal_core *c, const uint64_t *has, uint64_t wanted)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec++;
    gw_bal_core_wake(c);
    while (c->attached && *has < wanted)
        if (pthread_cond_timedwait(&c->moved, &c->lock, &end)) break;
    return *has >= wanted;
}
