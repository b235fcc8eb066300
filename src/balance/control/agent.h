/* SPDX-License-Identifier: Apache-2.0 */
/* The data plane's end of the wire: a thread of the process that forwards packets. It keeps the state that
 * was applied last, which a new control plane asks for. It answers:
 *
 *     {"op": "apply", "state": …}      {"version": n, "refused": [["worker", id, "why"], …]}: what cannot run
 *     {"op": "change", "from": n, "part": …}   the same; what is other than in version n
 *     {"op": "state"}                  {"state": …}, null before the first apply
 *     {"op": "load", "loads": [[worker, queue, bytes], …]}
 *     {"op": "queue_pair", "service": n, "worker": n, "client": "…", "qpn": n, "ended": false}
 *     {"op": "stats"}                  {"settled": version, "totals": …, "workers": [[id, packets, …], …]}
 *     {"op": "ready"}                  {"ready": true}: packets flow
 *     {"op": "stop"}
 *
 * A refusal of the whole is {"error": "…"}: it has changed nothing. "settled" is the last version that every
 * core had taken before the counts. Workers that have had no packet are not among these. */
#ifndef GW_BALANCE_CONTROL_AGENT_H
#define GW_BALANCE_CONTROL_AGENT_H

#include <jansson.h>

#include "src/balance/control/config.h"
#include "src/balance/services.h"

struct gw_bal_agent;

/* Listens in RUN_DIR, which is made if it is not there. 0 or a negative errno with the reason in
 * gw_last_error(). `stop` is called once, on the agent's thread, when the control plane wants the process
 * to end. */
int gw_bal_agent_start(struct bal *bal, const struct gw_bal_global *g, void (*stop)(void *ctx), void *ctx,
                       struct gw_bal_agent **out);
/* Packets flow. Any thread. */
void gw_bal_agent_ready(struct gw_bal_agent *a);
/* Whose counts `stats` tells, too; NULL: none. Any thread. */
struct gw_bal_sync;
void gw_bal_agent_sync(struct gw_bal_agent *a, const struct gw_bal_sync *sync);
void gw_bal_agent_stop(struct gw_bal_agent *a);

/* One question; returns a new reference, NULL without memory. */
json_t *gw_bal_agent_answer(struct gw_bal_agent *a, const json_t *question);

/* Calls with the applied model, under the agent's lock: what sync.c translates numbers with. */
void gw_bal_agent_model(struct gw_bal_agent *a,
                        void (*look)(void *ctx, const struct gw_bal_model *m, uint64_t version), void *ctx);

#endif
