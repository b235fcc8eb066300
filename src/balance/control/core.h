/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane at work: the model under its lock, and what the data plane last said. The API's threads
 * and the daemon's share it. */
#ifndef GW_BALANCE_CONTROL_CORE_H
#define GW_BALANCE_CONTROL_CORE_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>

#include "src/balance/control/config.h"
#include "src/balance/control/history.h"
#include "src/balance/control/model.h"

/* A queue pair that its ends have connected by themselves. */
struct gw_bal_qp {
    struct gw_bal_qp *next;
    uint32_t service, worker, qpn;
    struct gw_bal_addr client;
    uint8_t ends;
};

#define GW_BAL_QPS       4096u  /* that may wait for the data plane */
#define GW_BAL_PAIRS     65536u /* that may be live */
#define GW_BAL_PAIR_ROWS 4096u

struct gw_bal_core {
    pthread_mutex_t lock;
    struct gw_bal_model model;
    json_t *stats;     /* what the data plane said last; NULL: nothing yet */
    uint64_t stats_ns; /* when */
    struct gw_bal_history *history;
    uint64_t started_ns;
    uint64_t heard_ns;                  /* when it last answered */
    int attached;                       /* there is a data plane */
    uint64_t restarts;                  /* of the data plane */
    char refused[256];                  /* why it refused the last version; "" when it did not */
    const struct gw_bal_global *global; /* NULL: there is none, in tests */
    int wake_fd;                        /* an eventfd: something has changed */
    struct gw_bal_qp *qps, **qps_end;   /* to be told to the data plane; pairs.h */
    uint32_t qps_waiting;
    uint64_t qps_told, qps_done;          /* the number put there, and the number that the data plane has */
    uint64_t applied;                     /* the model's version that the data plane has */
    uint64_t reloads_asked, reloads_done; /* how often the file was to be read again, and was */
    char reload_why[512];                 /* why the last one failed; "": it did not */
    pthread_cond_t moved;                 /* qps_done, applied, or reloads_done */
    struct gw_bal_pair *pair[GW_BAL_PAIR_ROWS]; /* those that live */
    uint32_t pairs;
    uint64_t pairs_version; /* of the model that they were looked through for */
};

/* Is there a data plane, and has it spoken within seconds? One that stands still forwards nothing. */
bool gw_bal_core_alive(const struct gw_bal_core *c);

int gw_bal_core_init(struct gw_bal_core *c);
void gw_bal_core_free(struct gw_bal_core *c);
void gw_bal_core_wake(struct gw_bal_core *c);

/* With the lock: wakes the daemon, and waits until `*has` is `wanted`; false when it is not within a
 * second, or when there is no data plane. */
bool gw_bal_core_wait(struct gw_bal_core *c, const uint64_t *has, uint64_t wanted);
/* The file is read again. 0; -EINVAL with the reason: nothing has changed; -EAGAIN: not yet. */
int gw_bal_core_reload(struct gw_bal_core *c);

/* Prometheus' text; the caller holds the lock and frees it. NULL: no memory. */
char *gw_bal_metrics(const struct gw_bal_core *c);

#endif
