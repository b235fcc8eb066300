/* SPDX-License-Identifier: Apache-2.0 */
/* Waking the daemon, and waiting until the data plane has followed. */
#include "src/balance/control/core.h"

#include <errno.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

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
