/* SPDX-License-Identifier: Apache-2.0 */
#include "src/infer/stats.h"

void gw_infer_stats(const struct gw_worker *w, struct gw_infer_stats *s)
{
    struct gw_session_pool *pool = gw_worker_sessions(w);
    struct gw_calls *calls = gw_worker_calls(w);
    *s = (struct gw_infer_stats){.sessions = gw_session_pool_size(pool),
                                 .sessions_open = gw_session_pool_open_count(pool),
                                 .calls = calls ? gw_calls_size(calls) : 0,
                                 .calls_taken = calls ? gw_calls_taken(calls) : 0};
    gw_session_pool_totals(pool, &s->successes, &s->refused);
    s->inferences = s->executions = s->successes;
}
