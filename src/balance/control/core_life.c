/* SPDX-License-Identifier: Apache-2.0 */
/* The model with its lock begins and ends, and with it what stands beside it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/balance/control/core.h"
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
