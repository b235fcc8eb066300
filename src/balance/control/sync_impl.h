/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of the halves of sync.h: the frames, and the state. The active balancer sends tables, flows
 * and questions; the standby answers each frame with its number. */
#ifndef GW_BALANCE_CONTROL_SYNC_IMPL_H
#define GW_BALANCE_CONTROL_SYNC_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <gpuwire/exec.h>

#include "src/balance/control/config.h"
#include "src/balance/control/sync_tls.h"

#define MS                   1000000ull
#define GW_BAL_SYNC_BEAT     (1000 * MS) /* the active balancer says something at least that often */
#define GW_BAL_SYNC_PATIENCE (5000 * MS) /* of each side with the other's silence */
#define GW_BAL_SYNC_MAGIC    0x32535747u /* "GWS2"; another one when the format changes */

/* ASK and ANSWER carry no data; an answer has the number of the last frame that was taken. */
enum { GW_BAL_SYNC_ASK = 1, GW_BAL_SYNC_TABLE, GW_BAL_SYNC_FLOWS, GW_BAL_SYNC_ANSWER };

struct gw_bal_sync_frame {
    uint32_t magic, kind, bytes, record; /* record: the size of one, which both sides must have alike */
    uint64_t number;                     /* counts from 1 on each connection */
};

struct gw_bal_agent;

struct gw_bal_sync {
    struct bal *bal;
    const struct gw_bal_global *global;
    struct gw_bal_agent *agent;
    struct gw_bal_tls_key key;
    int end_fd, listen_fd;
    pthread_t sender, listener;
    int sends, receives;
    _Atomic uint64_t sent, received, unknown, lost;
    _Atomic uint64_t heard_ns; /* when the other one spoke last */
    _Atomic uint32_t standby;  /* 1: it answers */
    _Atomic uint32_t active;   /* connections of active balancers that speak */
};

/* Waits at most that long. True: the threads must end. */
static inline bool gw_bal_sync_ended(const struct gw_bal_sync *s, uint64_t wait_ns)
{
    return gw_wait_fds(&s->end_fd, 1, gw_deadline(wait_ns)) > 0;
}

/* The threads' functions; `arg` is the gw_bal_sync. */
void *gw_bal_sync_send(void *arg);
void *gw_bal_sync_listen(void *arg);

/* Takes what comes over a connection that has proved the key, and answers it. Returns why it ended:
 * -ETIMEDOUT: the active balancer is silent. -EPROTO: it speaks another version. Or another errno. */
int gw_bal_sync_receive(struct gw_bal_sync *s, struct gw_bal_tls *t);

#endif
