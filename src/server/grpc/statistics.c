/* SPDX-License-Identifier: Apache-2.0 */
/* ModelStatistics, and the repository: which models there are, and what they have done. */
#include <stdio.h>

#include "inference.pb-c.h"
#include "src/server/grpc/methods.h"
#include "src/server/grpc/reply.h"
#include "src/server/requests/stats.h"

typedef Inference__RepositoryIndexResponse__ModelIndex index_t;

/* ---- statistics ---- */

/* One model's, with all that they point to. */
struct statistics {
    Inference__ModelStatistics message;
    Inference__InferStatistics parts;
    Inference__StatisticDuration success, fail, queue, input, infer, output;
    Inference__InferBatchStatistics batch[GW_SERVE_VARIANTS], *batches[GW_SERVE_VARIANTS];
    Inference__StatisticDuration batch_infer[GW_SERVE_VARIANTS];
    char version[16];
};

static Inference__StatisticDuration *grpc_statistics_duration(Inference__StatisticDuration *d, uint64_t count,
                                                              uint64_t ns)
{
    inference__statistic_duration__init(d);
    d->count = count;
    d->ns = ns;
    return d;
}

static void grpc_statistics_add_batches(struct statistics *s, const struct gw_infer_stats *n)
{
    for (uint32_t i = 0; i < n->batches; i++) {
        if (!n->batch[i].executions) continue;
        size_t at = s->message.n_batch_stats++;
        inference__infer_batch_statistics__init(&s->batch[at]);
        s->batch[at].batch_size = n->batch[i].rows;
        s->batch[at].compute_infer =
            grpc_statistics_duration(&s->batch_infer[at], n->batch[i].executions, n->batch[i].infer_ns);
        s->batches[at] = &s->batch[at];
    }
    s->message.batch_stats = s->batches;
}

static Inference__ModelStatistics *grpc_statistics_describe(struct statistics *s, struct gw_infer *infer,
                                                            const struct gw_infer_model *m)
{
    struct gw_infer_stats n;
    gw_infer_stats(infer, m, &n);
    uint64_t all_ns = n.queue_ns + n.input_ns + n.infer_ns + n.output_ns;
    inference__model_statistics__init(&s->message);
    inference__infer_statistics__init(&s->parts);
    snprintf(s->version, sizeof(s->version), "%u", m->version);
    s->parts.success = grpc_statistics_duration(&s->success, n.successes, all_ns);
    s->parts.fail = grpc_statistics_duration(&s->fail, n.failures + n.refused + n.late, 0);
    s->parts.queue = grpc_statistics_duration(&s->queue, n.successes, n.queue_ns);
    s->parts.compute_input = grpc_statistics_duration(&s->input, n.successes, n.input_ns);
    s->parts.compute_infer = grpc_statistics_duration(&s->infer, n.successes, n.infer_ns);
    s->parts.compute_output = grpc_statistics_duration(&s->output, n.successes, n.output_ns);
    s->message.name = (char *)m->name;
    s->message.version = s->version;
    s->message.inference_count = n.inferences;
    s->message.execution_count = n.executions;
    s->message.inference_stats = &s->parts;
    grpc_statistics_add_batches(s, &n);
    return &s->message;
}

static size_t count_models(struct gw_grpc_service *s)
{
    struct gw_infer_model m;
    size_t n = 0;
    while (gw_infer_model(s->infer, n, &m)) n++;
    return n;
}

/* Of one model, or of all. NULL: no memory. */
static Inference__ModelStatistics **grpc_statistics_collect(struct gw_grpc_service *s,
                                                            struct gw_grpc_arena *arena,
                                                            const struct gw_infer_model *only, size_t *count)
{
    size_t most = only ? 1 : count_models(s);
    struct gw_infer_model m;
    Inference__ModelStatistics **list = gw_grpc_arena_take(arena, (most + 1) * sizeof(*list));
    *count = 0;
    /* Models of other hosts may have become fewer. */
    while (list && *count < most && (only || gw_infer_model(s->infer, *count, &m))) {
        struct statistics *one = gw_grpc_arena_take(arena, sizeof(*one));
        if (!one) return NULL;
        list[(*count)++] = grpc_statistics_describe(one, s->infer, only ? only : &m);
    }
    return list;
}

void gw_grpc_model_statistics(void *service, struct gw_grpc_turn *turn)
{
    struct gw_grpc_service *s = service;
    struct gw_grpc_arena arena;
    struct gw_infer_error error;
    struct gw_infer_model only;
    Inference__ModelStatisticsResponse r = INFERENCE__MODEL_STATISTICS_RESPONSE__INIT;
    const Inference__ModelStatisticsRequest *q = (const Inference__ModelStatisticsRequest *)gw_grpc_request(
        turn, &inference__model_statistics_request__descriptor, &arena);
    gw_infer_enter(s->infer); /* the models stay until the answer is encoded */
    if (q && *q->name && gw_infer_find(s->infer, q->name, q->version, &only, &error)) {
        gw_grpc_fail(turn, &error);
    } else if (q) {
        r.model_stats = grpc_statistics_collect(s, &arena, *q->name ? &only : NULL, &r.n_model_stats);
        if (r.model_stats)
            gw_grpc_reply(turn, &r.base);
        else
            gw_grpc_answer(turn, NULL);
    }
    gw_infer_leave(s->infer);
    gw_grpc_arena_close(&arena);
}

/* ---- the repository ---- */

struct listed {
    index_t index;
    char version[16];
};

static index_t *list_one(struct gw_grpc_arena *arena, const char *name, unsigned version, const char *state,
                         const char *reason)
{
    struct listed *one = gw_grpc_arena_take(arena, sizeof(*one));
    if (!one) return NULL;
    inference__repository_index_response__model_index__init(&one->index);
    snprintf(one->version, sizeof(one->version), "%u", version);
    one->index.name = (char *)name;
    if (version) one->index.version = one->version;
    one->index.state = (char *)state;
    one->index.reason = (char *)reason;
    return &one->index;
}

/* All that there are, or those that are served. NULL: no memory. */
static index_t **grpc_statistics_list_models(struct gw_grpc_service *s, struct gw_grpc_arena *arena,
                                             int only_ready, size_t *count)
{
    const struct gw_missing_model *m;
    struct gw_infer_model one;
    size_t served = count_models(s), more = 0;
    while (!only_ready && gw_infer_missing(s->infer, more)) more++;
    index_t **list = gw_grpc_arena_take(arena, (served + more + 1) * sizeof(*list));
    *count = 0;
    while (list && *count < served && gw_infer_model(s->infer, *count, &one)) /* as above */
        if (!(list[(*count)++] = list_one(arena, one.name, one.version, "READY", ""))) return NULL;
    for (size_t i = 0; list && i < more; i++) {
        m = gw_infer_missing(s->infer, i);
        if (!(list[(*count)++] = list_one(arena, m->name, m->version, "UNAVAILABLE", m->why))) return NULL;
    }
    return list;
}

void gw_grpc_repository_index(void *service, struct gw_grpc_turn *turn)
{
    struct gw_grpc_service *s = service;
    struct gw_grpc_arena arena;
    Inference__RepositoryIndexResponse r = INFERENCE__REPOSITORY_INDEX_RESPONSE__INIT;
    const Inference__RepositoryIndexRequest *q = (const Inference__RepositoryIndexRequest *)gw_grpc_request(
        turn, &inference__repository_index_request__descriptor, &arena);
    if (q) {
        gw_infer_enter(s->infer); /* as above */
        r.models = grpc_statistics_list_models(s, &arena, q->ready, &r.n_models);
        if (r.models)
            gw_grpc_reply(turn, &r.base);
        else
            gw_grpc_answer(turn, NULL);
        gw_infer_leave(s->infer);
    }
    gw_grpc_arena_close(&arena);
}

/* Both wait until it is done: requests that wait for the model are answered first. */
static void grpc_statistics_change(struct gw_grpc_service *s, struct gw_grpc_turn *turn,
                                   enum gw_control_what what, const char *model, const ProtobufCMessage *done)
{
    struct gw_infer_error error;
    if (gw_infer_change(s->infer, what, model, &error))
        gw_grpc_fail(turn, &error);
    else
        gw_grpc_reply(turn, done);
}

void gw_grpc_repository_load(void *service, struct gw_grpc_turn *turn)
{
    struct gw_grpc_arena arena;
    Inference__RepositoryModelLoadResponse r = INFERENCE__REPOSITORY_MODEL_LOAD_RESPONSE__INIT;
    const Inference__RepositoryModelLoadRequest *q =
        (const Inference__RepositoryModelLoadRequest *)gw_grpc_request(
            turn, &inference__repository_model_load_request__descriptor, &arena);
    if (q && q->n_parameters)
        gw_grpc_refuse(turn, GW_GRPC_UNIMPLEMENTED,
                       "a model is loaded as the repository has it: no parameters");
    else if (q)
        grpc_statistics_change(service, turn, GW_CONTROL_LOAD, q->model_name, &r.base);
    gw_grpc_arena_close(&arena);
}

void gw_grpc_repository_unload(void *service, struct gw_grpc_turn *turn)
{
    struct gw_grpc_arena arena;
    Inference__RepositoryModelUnloadResponse r = INFERENCE__REPOSITORY_MODEL_UNLOAD_RESPONSE__INIT;
    const Inference__RepositoryModelUnloadRequest *q =
        (const Inference__RepositoryModelUnloadRequest *)gw_grpc_request(
            turn, &inference__repository_model_unload_request__descriptor, &arena);
    if (q) grpc_statistics_change(service, turn, GW_CONTROL_UNLOAD, q->model_name, &r.base);
    gw_grpc_arena_close(&arena);
}
