/* SPDX-License-Identifier: Apache-2.0 */
#include "src/balance/control/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

int gw_bal_core_init(struct gw_bal_core *c)
{
    memset(c, 0, sizeof(*c));
    c->started_ns = gw_deadline(0);
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->wake_fd < 0) return gw_error_errno(-errno, "eventfd");
    pthread_mutex_init(&c->lock, NULL);
    return 0;
}

void gw_bal_core_free(struct gw_bal_core *c)
{
    for (struct gw_bal_qp *q = c->qps, *next; q; q = next) {
        next = q->next;
        free(q);
    }
    gw_bal_model_free(&c->model);
    json_decref(c->stats);
    close(c->wake_fd);
    pthread_mutex_destroy(&c->lock);
}

void gw_bal_core_wake(struct gw_bal_core *c)
{
    uint64_t one = 1;
    if (write(c->wake_fd, &one, sizeof(one)) < 0) { /* it is full: readable anyway */
    }
}
