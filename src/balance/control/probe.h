/* SPDX-License-Identifier: Apache-2.0 */
/* Health checks under way: each is a socket that does not block, a thread for RDMA, or a process. One thread
 * uses a set. */
#ifndef GW_BALANCE_CONTROL_PROBE_H
#define GW_BALANCE_CONTROL_PROBE_H

#include <poll.h>
#include <stdbool.h>

#include "src/balance/control/model.h"

struct gw_bal_probe; /* probe_impl.h */

/* Each worker has one check under way at most. So there are as many places as workers that are checked at
 * once. The descriptors that the process may have set the limit. */
struct gw_bal_probes {
    struct gw_bal_probe *probe;
    unsigned places, most; /* that there are now, and that there may be */
    unsigned next;         /* no place before this one is free */
    unsigned reserved;     /* for scripts */
};

/* `why` NULL: it went well. `weight` is what a script said, or -1. */
typedef void (*gw_bal_probe_done)(void *ctx, uint32_t worker, const char *why, int weight);

void gw_bal_probes_init(struct gw_bal_probes *p);
void gw_bal_probes_free(struct gw_bal_probes *p);
/* Is there room for this check now? */
bool gw_bal_probe_room(struct gw_bal_probes *p, const struct gw_bal_check *c);
/* Begins a check, for which there is room; `done` may be called at once. */
void gw_bal_probe_begin(struct gw_bal_probes *p, const struct gw_bal_service *s,
                        const struct gw_bal_worker *w, uint64_t now_ns, gw_bal_probe_done done, void *ctx);
/* Fills fds (room for p->places) with what to wait for; returns how many, and lowers *until_ns. */
unsigned gw_bal_probes_fds(const struct gw_bal_probes *p, struct pollfd *fds, uint64_t *until_ns);
/* Goes on with all that can, and ends those whose time is over. */
void gw_bal_probes_run(struct gw_bal_probes *p, uint64_t now_ns, gw_bal_probe_done done, void *ctx);

#endif
