/* SPDX-License-Identifier: Apache-2.0 */
/* /metrics: Prometheus' text format, with Triton's names and ours. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "src/server/http/calls.h"
#include "src/door/text.h"
#include "src/server/requests/stats.h"
#include "src/server/device/cost.h"
#include "src/server/lifecycle/cputime.h"
#include "src/server/lifecycle/gpu_use.h"

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

static uint64_t http_metrics_value_of(const struct gw_infer_stats *s, enum what what)
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

static void write_model(struct gw_text *t, const char *name, const struct gw_infer_model *m)
{
    gw_text_printf(t, "%s{model=\"", name);
    write_label(t, m->name);
    gw_text_printf(t, "\",version=\"%u\"", m->version);
}

static void http_metrics_write_head(struct gw_text *t, const char *name, const char *type, const char *help)
{
    gw_text_printf(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A number for each batch size of each model. */
static void write_each_batch(struct gw_text *t, struct gw_api *api, const char *name,
                             uint64_t (*of)(const struct gw_infer_stats *s, uint32_t k))
{
    struct gw_infer_model m;
    struct gw_infer_stats s;
    for (size_t i = 0; gw_infer_known_model(api->infer, &i, &m);) {
        gw_infer_stats(api->infer, &m, &s);
        for (uint32_t k = 0; k < s.batches; k++) {
            write_model(t, name, &m);
            gw_text_printf(t, ",batch_size=\"%u\"} %llu\n", s.batch[k].rows, (unsigned long long)of(&s, k));
        }
    }
}

/* Prometheus adds up what lies below each bound. Half octaves are enough for it, and half as long. */
static void write_latency(struct gw_text *t, const struct gw_infer_model *m, const struct gw_infer_stats *s)
{
    const char *bucket = "gpuwire_request_duration_seconds_bucket";
    uint64_t count = 0, sum = s->queue_ns + s->input_ns + s->infer_ns + s->output_ns;
    for (uint32_t i = 0; i < GW_SERVE_BUCKETS; i++) {
        count += s->latency[i];
        if (i % 2 == 0) continue;
        write_model(t, bucket, m);
        if (i == GW_SERVE_BUCKETS - 1)
            gw_text_printf(t, ",le=\"+Inf\"} %llu\n", (unsigned long long)count);
        else
            gw_text_printf(t, ",le=\"%.9g\"} %llu\n", (double)gw_serve_bucket_end(i) / 1e9,
                           (unsigned long long)count);
    }
    write_model(t, "gpuwire_request_duration_seconds_sum", m);
    gw_text_printf(t, "} %.9f\n", (double)sum / 1e9);
    write_model(t, "gpuwire_request_duration_seconds_count", m);
    gw_text_printf(t, "} %llu\n", (unsigned long long)count);
}

static void write_latencies(struct gw_text *t, struct gw_api *api)
{
    struct gw_infer_model m;
    struct gw_infer_stats s;
    http_metrics_write_head(t, "gpuwire_request_duration_seconds", "histogram",
                            "Time of answered requests, from arrival until the answer was posted");
    for (size_t i = 0; gw_infer_known_model(api->infer, &i, &m);) {
        gw_infer_stats(api->infer, &m, &s);
        write_latency(t, &m, &s);
    }
}

static void write_server(struct gw_text *t, struct gw_api *api)
{
    http_metrics_write_head(t, "gpuwire_server_info", "gauge", "The server's version");
    gw_text_printf(t, "gpuwire_server_info{version=\"%s\",executor=\"%s\"} 1\n", GW_VERSION,
                   gw_infer_executor(api->infer));
    http_metrics_write_head(t, "gpuwire_server_draining", "gauge",
                            "1: the server is about to end, and takes nothing new");
    gw_text_printf(t, "gpuwire_server_draining %d\n", gw_infer_draining(api->infer));
    http_metrics_write_head(t, "gpuwire_access_log_lost_total", "counter", "Lines that the access log lacks");
    gw_text_printf(t, "gpuwire_access_log_lost_total %llu\n",
                   (unsigned long long)gw_access_dropped(gw_infer_access(api->infer)));
}

static void write_gpu(struct gw_text *t, const char *name, const struct gw_gpu_use *gpu, double value)
{
    gw_text_printf(t, "%s{gpu_uuid=\"", name);
    write_label(t, gpu->uuid);
    gw_text_printf(t, "\"} %.9g\n", value);
}

/* Every GPU of the machine, as Triton tells them. */
static void write_gpus(struct gw_text *t)
{
    static const char *const name[][2] = {
        {"nv_gpu_utilization", "Share of the last moments in which a kernel ran, from 0 to 1"},
        {"nv_gpu_memory_total_bytes", "Memory of the GPU"},
        {"nv_gpu_memory_used_bytes", "Of it: in use"},
        {"nv_gpu_power_usage", "Power that the GPU takes, in watts"}};
    struct gw_gpu_use gpu[GW_GPU_USE_MAX];
    uint32_t n = gw_gpu_use_read(gpu, GW_GPU_USE_MAX);
    for (uint32_t k = 0; n && k < 4; k++) {
        http_metrics_write_head(t, name[k][0], "gauge", name[k][1]);
        for (uint32_t i = 0; i < n; i++) {
            const double value[] = {gpu[i].utilization, (double)gpu[i].memory, (double)gpu[i].memory_used,
                                    gpu[i].watts};
            write_gpu(t, name[k][0], &gpu[i], value[k]);
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

static uint64_t graph_ns_of(const struct gw_infer_stats *s, uint32_t k)
{
    return s->batch[k].graph_ns;
}

static uint64_t own_ns_of(const struct gw_infer_stats *s, uint32_t k)
{
    return s->batch[k].own_ns;
}

static void write_batches(struct gw_text *t, struct gw_api *api)
{
    http_metrics_write_head(t, "gpuwire_batch_exec_count", "counter", "Runs of the model, by batch size");
    write_each_batch(t, api, "gpuwire_batch_exec_count", executions_of);
    http_metrics_write_head(t, "gpuwire_batch_resident", "gauge",
                            "1: the kernel that waits for requests runs the model itself");
    write_each_batch(t, api, "gpuwire_batch_resident", resident_of);
    http_metrics_write_head(t, "gpuwire_batch_graph_ns", "gauge",
                            "A run as a graph when the model was loaded, in nanoseconds; 0: not measured");
    write_each_batch(t, api, "gpuwire_batch_graph_ns", graph_ns_of);
    http_metrics_write_head(t, "gpuwire_batch_resident_ns", "gauge",
                            "A run inside the kernel that waits when the model was loaded; 0: not measured");
    write_each_batch(t, api, "gpuwire_batch_resident_ns", own_ns_of);
}

static void write_cpu(struct gw_text *t)
{
    struct gw_cputime cpu = {0};
    gw_cputime_read(&cpu);
    http_metrics_write_head(t, "gpuwire_cpu_seconds_total", "counter",
                            "CPU time of the server, and of its software NIC");
    gw_text_printf(t, "gpuwire_cpu_seconds_total{part=\"server\"} %.3f\n", (double)cpu.own_ns / 1e9);
    gw_text_printf(t, "gpuwire_cpu_seconds_total{part=\"nic\"} %.3f\n", (double)cpu.nic_ns / 1e9);
}

/* A leak shows here, and nothing else does: pages that are touched for the first time, and room that malloc
 * keeps, are not counted. */
static void write_heap(struct gw_text *t)
{
    struct mallinfo2 heap = mallinfo2();
    http_metrics_write_head(t, "gpuwire_heap_bytes", "gauge",
                            "Memory that the server has allocated and not freed");
    gw_text_printf(t, "gpuwire_heap_bytes %zu\n", heap.uordblks + heap.hblkhd);
}

unsigned gw_http_metrics(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                         json_t **reply)
{
    struct gw_text t = {0};
    struct gw_infer_model model;
    struct gw_infer_stats s;
    if (*rest) return gw_http_nothing(reply);
    if (strcmp(r->method, "GET")) return gw_http_fail(405, reply, "GET only");
    for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++) {
        http_metrics_write_head(&t, metrics[m].name, metrics[m].type, metrics[m].help);
        for (size_t i = 0; gw_infer_known_model(api->infer, &i, &model);) {
            gw_infer_stats(api->infer, &model, &s);
            write_model(&t, metrics[m].name, &model);
            gw_text_printf(&t, "} %llu\n", (unsigned long long)http_metrics_value_of(&s, (enum what)m));
        }
    }
    write_batches(&t, api);
    write_latencies(&t, api);
    write_cpu(&t);
    write_heap(&t);
    if (api->server.on_gpu) write_gpus(&t);
    write_server(&t, api);
    gw_infer_metrics(api->infer, &t);
    int err = api->beside_metrics ? api->beside_metrics(api->beside, &t) : 0;
    json_t *text = err || t.broken ? NULL : json_stringn(t.at, t.bytes);
    free(t.at);
    return gw_http_done(200, reply, text);
}
