/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c: makes the engine, says what it has, and ends it. */
#include "src/fleet/real/real.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "src/fleet/real/impl.h"

#define REAL_STOP_NS    30000000000u
#define REAL_MAX_MODELS 1024
#define REAL_SCAN_NS    2000000000

int64_t real_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void real_say(const struct real *r, const char *form, ...)
{
    char line[512];
    va_list args;

    if (!r->o.say) return;
    va_start(args, form);
    vsnprintf(line, sizeof(line), form, args);
    va_end(args);
    r->o.say(r->o.ctx, line);
}

/* ---- what it has ---- */

static void real_facts(const struct fleet_engine *e, struct fleet_hello_worker *out)
{
    const struct real *r = real_of(e);

    *out = (struct fleet_hello_worker){.gpu_pages = r->o.gpu_pages,
                                       .host_pages = r->o.host_pages,
                                       .slots = r->o.sessions * r->o.slots,
                                       .leases = r->o.leases,
                                       .models = real_models(r),
                                       .reply_bytes = r->reply_bytes};
}

static uint64_t real_largest(const struct fleet_engine *e)
{
    const struct real *r = real_of(e);
    uint64_t most = 0;

    for (uint32_t i = 0, n = real_models(r); i < n; i++) {
        uint64_t bytes = gw_layout_bytes(&r->model[i]->in, r->model[i]->facts.max_batch);
        if (bytes > most) most = bytes;
    }
    return most;
}

static void real_model(const struct fleet_engine *e, uint32_t model, struct fleet_has_model *out)
{
    const struct real_model *m = real_of(e)->model[model];

    *out = m->facts;
    out->where = fleet_weights_where(m->weights);
}

/* The newest of that name: the last of them. */
static int64_t find_named(const struct real *r, const char *name)
{
    uint32_t low = 0, high = r->listed;

    while (low < high) {
        uint32_t at = (low + high) / 2;
        if (strcmp(r->model[r->by_name[at]]->facts.name, name) <= 0)
            low = at + 1;
        else
            high = at;
    }
    bool is = low && !strcmp(r->model[r->by_name[low - 1]]->facts.name, name);
    return is ? (int64_t)r->by_name[low - 1] : gw_error(-ENOENT, "no such model");
}

static int64_t real_find(const struct fleet_engine *e, const char *name)
{
    struct real *r = real_of(e);

    pthread_mutex_lock(&r->names);
    int64_t model = find_named(r, name);
    pthread_mutex_unlock(&r->names);
    return model;
}

static json_t *tensors_json(const struct gw_model *m, int output)
{
    uint32_t n = output ? gw_model_outputs(m) : gw_model_inputs(m);
    json_t *all = json_array();

    for (uint32_t i = 0; i < n; i++) {
        const struct gw_tensor_info *t = output ? gw_model_output(m, i) : gw_model_input(m, i);
        json_t *shape = json_array();
        for (uint32_t d = 0; d < t->rank; d++)
            json_array_append_new(shape, json_integer(!d && t->batched ? -1 : (json_int_t)t->dims[d]));
        json_array_append_new(all, json_pack("{s:s, s:s, s:o}", "name", t->name, "datatype",
                                             gw_dtype_name(t->dtype), "shape", shape));
    }
    return all;
}

static int real_describe(const struct fleet_engine *e, uint32_t model, char *out, size_t max)
{
    const struct real *r = real_of(e);
    char version[16];

    if (model >= real_models(r)) return gw_error(-ENOENT, "no model %u", model);
    const struct real_model *m = r->model[model];
    snprintf(version, sizeof(version), "%u", m->facts.version);
    json_t *all = json_pack("{s:s, s:[s], s:s, s:o, s:o}", "name", m->facts.name, "versions", version,
                            "platform", gw_model_kind(m->model), "inputs", tensors_json(m->model, 0),
                            "outputs", tensors_json(m->model, 1));
    size_t n = all ? json_dumpb(all, out, max, JSON_COMPACT) : 0;
    json_decref(all);
    return n ? (int)n : gw_error(-ENOMEM, "no memory");
}

static uint32_t real_telemetry(struct fleet_engine *e, struct fleet_telemetry *t,
                               struct fleet_telemetry_model *models, uint32_t max)
{
    struct real *r = real_of(e);
    struct gw_serve_counters all;
    uint32_t n = 0, all_models = real_models(r);

    gw_many_total(r->many, &all);
    fleet_pages_used(r->pages, &t->gpu_used, &t->host_used);
    t->queue = (uint32_t)all.waiting;
    t->sessions = gw_session_pool_open_count(gw_many_sessions(r->many));
    t->answered = all.successes;
    t->late = all.late;
    t->refused = all.refused;
    /* Where nothing has come or ended, no model has anything to tell. The models' counts may lag behind the
     * sum, so they are looked at once more. */
    uint64_t sum = all.successes + all.failures + all.refused + all.late + all.closing;
    bool fresh = sum != r->told || all.waiting, again = fresh || r->untold;
    r->told = sum;
    for (uint32_t k = 0; again && k < all_models && n < max; k++) {
        uint32_t i = (r->tell_from + k) % all_models; /* each has its turn, however few are asked for */
        struct real_model *m = r->model[i];
        struct gw_serve_model_counters c = {0};
        gw_many_counters(r->many, i, &c);
        uint64_t requests = c.answered + c.failed + c.late + c.refused;
        if (requests == m->told && !c.waiting) continue;
        m->told = requests;
        models[n] = (struct fleet_telemetry_model){
            .model = i, .queue = (uint32_t)c.waiting, .requests = requests, .refused = c.refused};
        for (uint32_t s = 0; s < m->batches; s++) models[n].p99_ns[s] = (int64_t)gw_many_p99(r->many, i, s);
        if (++n == max) r->tell_from = i + 1;
    }
    r->untold = fresh || n == max;
    return n;
}

static bool real_idle(const struct fleet_engine *e)
{
    return gw_many_idle(real_of(e)->many);
}

/* ---- its life ---- */

/* What a loop has that ended by itself is not waited for. */
static uint64_t real_stop_deadline(const struct real *r)
{
    struct pollfd ended = {.fd = gw_many_fd(r->many), .events = POLLIN};
    return gw_deadline(poll(&ended, 1, 0) == 1 ? 0 : REAL_STOP_NS);
}

static void real_stop(struct fleet_engine *e)
{
    struct real *r = real_of(e);

    __atomic_store_n(&r->stopped, true, __ATOMIC_RELAXED); /* threads look at it between two steps */
    fleet_lane_destroy(r->scans);
    r->scans = NULL;
    gw_many_close(r->many);
    gw_calls_close(r->calls, real_stop_deadline(r));
    fleet_pages_stop(r->pages);
    fleet_lane_destroy(r->work);
    r->work = NULL;
    if (gw_many_stop(r->many, gw_deadline(REAL_STOP_NS))) real_say(r, "the loop: %s", gw_last_error());
}

static void real_destroy(struct fleet_engine *e)
{
    struct real *r = real_of(e);

    __atomic_store_n(&r->stopped, true, __ATOMIC_RELAXED);
    fleet_lane_destroy(r->scans);
    fleet_lane_destroy(r->work);
    if (r->pages) fleet_pages_stop(r->pages);
    if (r->many && gw_many_destroy(r->many)) return; /* it still runs: nothing that it uses may go */
    real_scan_close(r);
    fleet_pages_destroy(r->pages);
    gw_plan_arena_free(r->arena);
    pthread_mutex_destroy(&r->host);
    pthread_mutex_destroy(&r->clients);
    pthread_mutex_destroy(&r->names);
    free(r->model);
    free(r->by_name);
    free(r->lease);
    free(r->owner);
    free(r->bucket);
    free(r);
}

static const struct fleet_engine_ops real_ops = {.facts = real_facts,
                                                 .largest = real_largest,
                                                 .model = real_model,
                                                 .find = real_find,
                                                 .describe = real_describe,
                                                 .move = real_move,
                                                 .lease = real_set_lease,
                                                 .open = real_open,
                                                 .close = real_close,
                                                 .submit = real_submit,
                                                 .recall = real_recall,
                                                 .release = real_release,
                                                 .telemetry = real_telemetry,
                                                 .idle = real_idle,
                                                 .stop = real_stop,
                                                 .destroy = real_destroy};

static int engine_make_pages(struct real *r)
{
    const struct fleet_pages_opts pages = {.exec = r->o.exec,
                                           .gpu_pages = r->o.gpu_pages,
                                           .host_pages = r->o.host_pages,
                                           .page = r->o.page,
                                           .delay_ns = r->o.load_delay_ns,
                                           .folder = r->o.folder,
                                           .arrived = real_arrived,
                                           .leave = real_leave,
                                           .ctx = r};
    int err = fleet_pages_create(&pages, &r->pages);

    if (!err) err = gw_plan_arena_create(NULL, &r->arena);
    if (!err) err = fleet_lane_create("gw-sessions", &r->work);
    if (!err) err = fleet_lane_create("gw-models", &r->scans);
    return err;
}

/* All that were opened; one that the loop does not take is left out. */
static int add_all(struct real *r)
{
    uint32_t n = r->models;

    r->models = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct real_model *m = r->model[i];
        if (!real_scan_add(r, m)) continue;
        real_say(r, "model %s: not served: %s", m->facts.name, gw_last_error());
        real_model_close(m);
    }
    return r->models ? 0 : gw_error(-ENOENT, "%s: none of its models can be served", r->o.models);
}

static int engine_make_loop(struct real *r)
{
    struct gw_many_opts many = {.name = "fleet",
                                .exec = r->o.exec,
                                .dev = r->o.dev,
                                .sessions = r->o.sessions,
                                .slots = r->o.slots,
                                .max_models = r->o.max_models,
                                .max_rows = r->o.max_batch,
                                .max_leases = r->o.leases,
                                .own_sessions = (r->o.calls + r->o.slots - 1) / r->o.slots,
                                .own_dev = r->o.own_dev};

    for (uint32_t i = 0; i < r->models; i++) {
        const struct real_model *m = r->model[i];
        uint64_t in = gw_layout_bytes(&m->in, m->facts.max_batch),
                 out = gw_layout_bytes(&m->out, m->facts.max_batch);
        if (in > many.in_bytes) many.in_bytes = in;
        if (out > many.out_bytes) many.out_bytes = out;
    }
    r->reply_bytes = many.out_bytes;
    int err = gw_many_create(&many, &r->many);
    if (!err) err = add_all(r);
    fleet_pages_serve(r->pages);
    if (!err) err = gw_many_start(r->many);
    r->calls = r->many ? gw_many_calls(r->many) : NULL;
    return err;
}

int fleet_real_fd(const struct fleet_engine *e)
{
    return gw_many_fd(real_of(e)->many);
}

int fleet_real_create(const struct fleet_real_opts *opts, struct fleet_engine **out)
{
    struct real *r = (struct real *)calloc(1, sizeof(*r));

    *out = NULL;
    if (!r) return gw_error(-ENOMEM, "no memory for the engine");
    r->engine.ops = &real_ops;
    r->o = *opts;
    if (!r->o.max_models) r->o.max_models = REAL_MAX_MODELS;
    if (!r->o.max_batch || r->o.max_batch > FLEET_MAX_BATCH) r->o.max_batch = FLEET_MAX_BATCH;
    if (!r->o.threads) r->o.threads = 1;
    if (!r->o.scan_ns) r->o.scan_ns = REAL_SCAN_NS;
    r->free_owner = UINT32_MAX;
    pthread_mutex_init(&r->host, NULL);
    pthread_mutex_init(&r->clients, NULL);
    pthread_mutex_init(&r->names, NULL);
    r->by_name = (uint32_t *)calloc(r->o.max_models, sizeof(*r->by_name));
    r->model = (struct real_model **)calloc(r->o.max_models, sizeof(struct real_model *));
    r->lease = (struct real_lease *)calloc(r->o.leases + 1, sizeof(*r->lease));
    int err = r->model && r->lease && r->by_name ? engine_make_pages(r)
                                                 : gw_error(-ENOMEM, "no memory for the engine");
    if (!err) err = real_scan_open(r);
    if (!err) err = engine_make_loop(r);
    if (!err) real_scan_start(r);
    if (err)
        real_destroy(&r->engine);
    else
        *out = &r->engine;
    return err;
}
