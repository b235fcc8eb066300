/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of sync.h share: the frames, and the state. */
#ifndef GW_BALANCE_CONTROL_SYNC_IMPL_H
#define GW_BALANCE_CONTROL_SYNC_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include <gpuwire/exec.h>

#include "src/balance/control/sync.h"

#define MS                   1000000ull
#define GW_BAL_SYNC_PATIENCE (5000 * MS)
#define GW_BAL_SYNC_MAGIC    0x31535747u /* "GWS1"; another one when the format changes */

enum { GW_BAL_SYNC_HELLO = 1, GW_BAL_SYNC_TABLE, GW_BAL_SYNC_FLOWS };

struct gw_bal_sync_frame {
    uint32_t magic, kind, bytes, record; /* record: the size of one, which both sides must have alike */
    uint64_t number;                     /* counts from 1 on each connection */
};

struct gw_bal_sync {
    struct bal *bal;
    const struct gw_bal_global *global;
    struct gw_bal_agent *agent;
    char *key;
    int end_fd, listen_fd;
    pthread_t sender, receiver;
    int sends, receives;
    _Atomic uint64_t sent, received, unknown, lost, connected;
};

/* Waits so long at most. 1: the threads are to end. */
static inline int gw_bal_sync_ended(const struct gw_bal_sync *s, uint64_t wait_ns)
{
    return gw_wait_fds(&s->end_fd, 1, gw_deadline(wait_ns)) > 0;
}

/* Takes what comes over a connection until it ends, is not such a stream, or the threads are to end. The
 * caller closes it. It uses bal, agent, key and end_fd, and counts. */
void gw_bal_sync_receive(struct gw_bal_sync *s, int fd);

#endif
