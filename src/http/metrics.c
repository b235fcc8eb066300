/* SPDX-License-Identifier: Apache-2.0 */
/* /metrics: Prometheus' text format, with Triton's names and ours. */
#include <stdlib.h>
#include <string.h>

#include "src/http/calls.h"
#include "src/http/text.h"
#include "src/infer/stats.h"
#include "src/serve/cputime.h"

#define US 1000u

/* What is told of each model. */
enum what {
    SUCCESS,
    FAILURE,
    COUNT,
    EXECUTIONS,
    PENDING,
    REQUEST_US,
    QUEUE_US,
    INPUT_US,
    INFER_US,
    OUTPUT_US,
    LATE,
    REFUSED,
    SESSIONS,
    SESSIONS_OPEN,
    CALLS,
    CALLS_TAKEN
};

static const struct {
    const char *name, *type, *help;
} metrics[] = {
    [SUCCESS] = {"nv_inference_request_success", "counter", "Requests that were answered"},
    [FAILURE] = {"nv_inference_request_failure", "counter",
                 "Requests that were not: refused, late, or failed"},
    [COUNT] = {"nv_inference_count", "counter", "Samples that were answered"},
    [EXECUTIONS] = {"nv_inference_exec_count", "counter", "Runs of the model"},
    [PENDING] = {"nv_inference_pending_request_count", "gauge", "Requests that wait"},
    [REQUEST_US] = {"nv_inference_request_duration_us", "counter",
                    "Time of all answered requests, in microseconds"},
    [QUEUE_US] = {"nv_inference_queue_duration_us", "counter",
                  "Of it: until the request was put into a batch"},
    [INPUT_US] = {"nv_inference_compute_input_duration_us", "counter",
                  "Of it: while its batch was put together"},
    [INFER_US] = {"nv_inference_compute_infer_duration_us", "counter", "Of it: in the model"},
    [OUTPUT_US] = {"nv_inference_compute_output_duration_us", "counter",
                   "Of it: until its answer was posted"},
    [LATE] = {"gpuwire_request_late", "counter",
              "Requests whose answer would have come after their deadline"},
    [REFUSED] = {"gpuwire_request_refused", "counter", "Requests that made no sense"},
    [SESSIONS] = {"gpuwire_sessions_limit", "gauge", "RDMA sessions that clients can have"},
    [SESSIONS_OPEN] = {"gpuwire_sessions_open", "gauge", "RDMA sessions that are open"},
    [CALLS] = {"gpuwire_door_slots_limit", "gauge", "Slots for requests that come by HTTP or gRPC"},
    [CALLS_TAKEN] = {"gpuwire_door_slots_taken", "gauge", "Slots of these that are in use"},
};

static uint64_t value_of(const struct gw_infer_stats *s, enum what what)
{
    switch (what) {
    case SUCCESS: return s->successes;
    case FAILURE: return s->failures + s->refused + s->late;
    case COUNT: return s->inferences;
    case EXECUTIONS: return s->executions;
    case PENDING: return s->waiting;
    case REQUEST_US: return (s->queue_ns + s->input_ns + s->infer_ns + s->output_ns) / US;
    case QUEUE_US: return s->queue_ns / US;
    case INPUT_US: return s->input_ns / US;
    case INFER_US: return s->infer_ns / US;
    case OUTPUT_US: return s->output_ns / US;
    case LATE: return s->late;
    case REFUSED: return s->refused;
    case SESSIONS: return s->sessions;
    case SESSIONS_OPEN: return s->sessions_open;
    case CALLS: return s->calls;
    default: return s->calls_taken;
    }
}

/* A label's value: quotes and backslashes are escaped. */
static void write_label(struct gw_text *t, const char *value)
{
    for (; *value; value++) {
        if (*value == '"' || *value == '\\') gw_text_add(t, "\\", 1);
        gw_text_add(t, *value == '\n' ? " " : value, 1);
    }
}

static void write_model(struct gw_text *t, const char *name, const struct gw_worker *w)
{
    gw_text_printf(t, "%s{model=\"", name);
    write_label(t, gw_worker_name(w));
    gw_text_printf(t, "\",version=\"%u\"", gw_worker_version(w));
}

static void write_head(struct gw_text *t, const char *name, const char *type, const char *help)
{
    gw_text_printf(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A number for each batch size of each model. */
static void write_each_batch(struct gw_text *t, struct gw_api *api, const char *name,
                             uint64_t (*of)(const struct gw_infer_stats *s, uint32_t k))
{
    struct gw_infer_stats s;
    for (size_t i = 0; i < *api->server.workers; i++) {
        gw_infer_stats(api->server.worker[i], &s);
        for (uint32_t k = 0; k < s.batches; k++) {
            write_model(t, name, api->server.worker[i]);
            gw_text_printf(t, ",batch_size=\"%u\"} %llu\n", s.batch[k].rows, (unsigned long long)of(&s, k));
        }
    }
}

static uint64_t executions_of(const struct gw_infer_stats *s, uint32_t k)
{
    return s->batch[k].executions;
}

static uint64_t resident_of(const struct gw_infer_stats *s, uint32_t k)
{
    return s->batch[k].resident;
}

static void write_batches(struct gw_text *t, struct gw_api *api)
{
    write_head(t, "gpuwire_batch_exec_count", "counter", "Runs of the model, by batch size");
    write_each_batch(t, api, "gpuwire_batch_exec_count", executions_of);
    write_head(t, "gpuwire_batch_resident", "gauge",
               "1: the kernel that waits for requests runs the model itself");
    write_each_batch(t, api, "gpuwire_batch_resident", resident_of);
}

static void write_cpu(struct gw_text *t)
{
    struct gw_cputime cpu = {0};
    gw_cputime_read(&cpu);
    write_head(t, "gpuwire_cpu_seconds_total", "counter", "CPU time of the server, and of its software NIC");
    gw_text_printf(t, "gpuwire_cpu_seconds_total{part=\"server\"} %.3f\n", (double)cpu.own_ns / 1e9);
    gw_text_printf(t, "gpuwire_cpu_seconds_total{part=\"nic\"} %.3f\n", (double)cpu.nic_ns / 1e9);
}

unsigned gw_http_metrics(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                         json_t **reply)
{
    struct gw_text t = {0};
    struct gw_infer_stats s;
    if (*rest) return gw_http_nothing(reply);
    if (strcmp(r->method, "GET")) return gw_http_fail(405, reply, "GET only");
    for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++) {
        write_head(&t, metrics[m].name, metrics[m].type, metrics[m].help);
        for (size_t i = 0; i < *api->server.workers; i++) {
            gw_infer_stats(api->server.worker[i], &s);
            write_model(&t, metrics[m].name, api->server.worker[i]);
            gw_text_printf(&t, "} %llu\n", (unsigned long long)value_of(&s, (enum what)m));
        }
    }
    write_batches(&t, api);
    write_cpu(&t);
    json_t *text = t.broken ? NULL : json_stringn(t.at, t.bytes);
    free(t.at);
    return gw_http_done(200, reply, text);
}
