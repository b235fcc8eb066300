/* SPDX-License-Identifier: Apache-2.0 */
/* Collects a model's counts for the doors. */
#include "src/server/requests/stats.h"

static void copy_batches(const struct gw_worker *w, const struct gw_serve_variant_counters *v,
                         struct gw_infer_stats *s)
{
    uint32_t rows[GW_SERVE_VARIANTS];
    s->batches = gw_worker_batches(w, rows);
    for (uint32_t i = 0; i < s->batches; i++) {
        s->batch[i].rows = rows[i];
        s->batch[i].resident = gw_worker_resident(w, i) != 0;
        s->batch[i].graph_ns = gw_worker_choice(w, i)->graph_ns;
        s->batch[i].own_ns = gw_worker_choice(w, i)->own_ns;
        s->batch[i].executions = v[i].executions;
        s->batch[i].infer_ns = v[i].infer_ns;
        s->batch[i].p99_ns = v[i].p99_ns;
    }
}

void gw_infer_worker_stats(const struct gw_worker *w, struct gw_infer_stats *s)
{
    struct gw_session_pool *pool = gw_worker_sessions(w);
    struct gw_calls *calls = gw_worker_calls(w);
    struct gw_serve_variant_counters v[GW_SERVE_VARIANTS];
    struct gw_serve_counters c;
    gw_session_pool_counters(pool, &c, v);
    *s = (struct gw_infer_stats){.successes = c.successes,
                                 .failures = c.failures,
                                 .refused = c.refused + c.closing,
                                 .late = c.late,
                                 .inferences = c.inferences,
                                 .executions = c.executions,
                                 .waiting = c.waiting + (calls ? gw_calls_held(calls) : 0),
                                 .queue_ns = c.queue_ns,
                                 .input_ns = c.input_ns,
                                 .infer_ns = c.infer_ns,
                                 .output_ns = c.output_ns,
                                 .sessions = gw_session_pool_size(pool),
                                 .sessions_open = gw_session_pool_open_count(pool),
                                 .calls = calls ? gw_calls_size(calls) : 0,
                                 .calls_taken = calls ? gw_calls_taken(calls) : 0};
    gw_session_pool_latency(pool, s->latency);
    copy_batches(w, v, s);
}
