/* SPDX-License-Identifier: Apache-2.0 */
/* Several models in one loop: makes the loop, adds models to it, and gives the device its orders. */
#include "src/server/worker/many.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/loop.h>
#include <gpuwire/serve.h>

#include "src/server/worker/session_pool.h"
#include "src/server/worker/stages.h"

#define MOST_MODELS   65536u
#define MOST_LEASES   (1u << 20)
#define MOST_SLOTS    65536u       /* of a lease */
#define MOST_INTERVAL (1ull << 40) /* ns between two samples of a lease */

/* The GPU's clock may run by this part slower or faster than the host's: 100 in a million. */
#define CLOCK_DRIFT 10000

struct many_model {
    char *name;
    struct gw_layout in, out; /* callers look at them */
    uint32_t first, batches;
    uint32_t word; /* of the last order */
};

struct gw_many {
    struct gw_many_opts opts;
    char *name;
    struct gw_session_pool *pool;
    struct gw_calls *calls;
    struct gw_loop *loop;
    struct gw_serve_args args;
    struct many_model *model;
    struct gw_stages_model *batch; /* of all models */
    uint32_t models;               /* added so far; atomic */
    uint32_t batches;
    int started;
    /* GPU: how far its clock is before the host's, at least, and when that was found. 0: it is not known. */
    int64_t clock_offset;
    uint64_t clock_seen;
};

/* ---- making it ---- */

static int many_check(const struct gw_many_opts *o)
{
    if (!o->max_models || o->max_models > MOST_MODELS)
        return gw_error(-EINVAL, "a loop has 1 to %u models, and not %u", MOST_MODELS, o->max_models);
    if (o->max_batches > GW_LOOP_MAX_VARIANTS || o->max_leases > MOST_LEASES)
        return gw_error(-EINVAL, "a loop has %u batch sizes and %u leases at most", GW_LOOP_MAX_VARIANTS,
                        MOST_LEASES);
    if (!o->max_rows || o->max_rows > GW_SERVING_MAX_ROWS)
        return gw_error(-EINVAL, "a batch has 1 to %u samples, and not %u", GW_SERVING_MAX_ROWS, o->max_rows);
    if (!o->in_bytes || !o->out_bytes || o->in_bytes > GW_LAYOUT_MAX_BYTES ||
        o->out_bytes > GW_LAYOUT_MAX_BYTES)
        return gw_error(-EINVAL, "a slot's tensors take 1 to %u bytes each way", GW_LAYOUT_MAX_BYTES);
    return 0;
}

static int many_make_pool(struct gw_many *m)
{
    const struct gw_many_opts *o = &m->opts;
    struct gw_device_info nic;
    gw_device_query(o->dev, &nic);
    struct gw_session_pool_opts opts = {
        .dev = o->dev,
        .exec = o->exec,
        .sessions = o->sessions + o->own_sessions,
        .slots = o->slots,
        .kept = o->own_sessions,
        .gpu_memory = nic.gpu_reach == GW_REACH_DIRECT || nic.gpu_reach == GW_REACH_DMABUF,
        .name = m->name,
        .tables = {.models = o->max_models,
                   .variants = o->max_batches,
                   .leases = o->max_leases,
                   .rows = o->max_rows,
                   .in_bytes = o->in_bytes,
                   .out_bytes = o->out_bytes},
    };
    return gw_session_pool_create(&opts, &m->pool);
}

static int many_make_calls(struct gw_many *m)
{
    const struct gw_many_opts *o = &m->opts;
    struct gw_calls_opts opts = {.name = m->name,
                                 .pool = m->pool,
                                 .dev = o->own_dev,
                                 .sessions = o->own_sessions,
                                 .slots = o->slots,
                                 .in_bytes = o->in_bytes,
                                 .out_bytes = o->out_bytes};
    return o->own_sessions ? gw_calls_create(&opts, &m->calls) : 0;
}

static struct gw_stages many_stages(const struct gw_many *m)
{
    return (struct gw_stages){.loop = m->loop, .exec = m->opts.exec, .args = &m->args};
}

/* The stage that waits is all that there is before the first model. */
static int many_make_loop(struct gw_many *m)
{
    struct gw_loop_opts opts = {.name = m->name, .variants = m->opts.max_batches};
    bool on_gpu = gw_exec_kind(m->opts.exec) == GW_EXEC_GPU;
    int err = gw_loop_create(m->opts.exec, &opts, &m->loop);
    if (err) return err;
    struct gw_loop_ctl *ctl = gw_loop_ctl(m->loop);
    err = gw_session_pool_args(m->pool, ctl, on_gpu ? -1 : ctl->wake_fd, &m->args);
    struct gw_stages s = many_stages(m);
    if (!err) err = gw_stages_kernel(&s, 0, &gw_serve_wait, 1, 1, 0);
    return err ? err : gw_loop_prepare(m->loop);
}

int gw_many_create(const struct gw_many_opts *opts, struct gw_many **out)
{
    int err = many_check(opts);
    if (err) return err;
    struct gw_many *m = calloc(1, sizeof(*m));
    if (!m) return -ENOMEM;
    m->opts = *opts;
    if (!m->opts.max_batches) {
        uint64_t all = (uint64_t)opts->max_models * GW_SERVE_VARIANTS;
        m->opts.max_batches = all < GW_LOOP_MAX_VARIANTS ? (uint32_t)all : GW_LOOP_MAX_VARIANTS;
    }
    m->name = strdup(opts->name);
    m->model = calloc(m->opts.max_models, sizeof(*m->model));
    m->batch = calloc(m->opts.max_batches, sizeof(*m->batch));
    err = m->name && m->model && m->batch ? many_make_pool(m) : -ENOMEM;
    if (!err) err = many_make_calls(m);
    if (!err) err = many_make_loop(m);
    if (err)
        gw_many_destroy(m);
    else
        *out = m;
    return err;
}

int gw_many_start(struct gw_many *m)
{
    int err = m->started ? gw_loop_restart(m->loop) : gw_loop_start(m->loop);
    m->started |= !err;
    return err;
}

void gw_many_close(struct gw_many *m)
{
    gw_session_pool_closing(m->pool);
}

int gw_many_stop(struct gw_many *m, uint64_t deadline_ns)
{
    struct gw_loop_end end = {0};
    int err;
    gw_loop_stop(m->loop);
    while ((err = gw_loop_wait(m->loop, deadline_ns, &end)) == -EINTR) continue;
    return err ? err : end.error;
}

int gw_many_destroy(struct gw_many *m)
{
    if (!m) return 0;
    int err = m->loop ? gw_loop_destroy(m->loop) : 0;
    if (err) return err; /* it still runs: nothing it uses may go */
    gw_calls_destroy(m->calls);
    gw_session_pool_destroy(m->pool);
    for (uint32_t i = 0; m->model && i < m->models; i++) free(m->model[i].name);
    free(m->batch);
    free(m->model);
    free(m->name);
    free(m);
    return 0;
}

int gw_many_fd(const struct gw_many *m)
{
    return gw_loop_fd(m->loop);
}
struct gw_session_pool *gw_many_sessions(const struct gw_many *m)
{
    return m->pool;
}
struct gw_calls *gw_many_calls(const struct gw_many *m)
{
    return m->calls;
}

/* ---- models ---- */

static int many_check_model(const struct gw_many *m, const struct gw_many_model *model)
{
    const struct gw_many_opts *o = &m->opts;
    uint32_t rows = 0;
    if (!model->batches || model->batches > GW_SERVE_VARIANTS)
        return gw_error(-EINVAL, "model %s: 1 to %d batch sizes, and not %u", model->name, GW_SERVE_VARIANTS,
                        model->batches);
    for (uint32_t i = 0; i < model->batches; rows = model->batch[i++].rows)
        if (model->batch[i].rows <= rows || model->batch[i].rows > o->max_rows)
            return gw_error(-EINVAL, "model %s: batch sizes are ascending numbers from 1 to %u", model->name,
                            o->max_rows);
    if (m->models == o->max_models || model->batches > o->max_batches - m->batches)
        return gw_error(-ENOSPC, "model %s: there is room for %u models with %u batch sizes", model->name,
                        o->max_models, o->max_batches);
    if (gw_layout_bytes(&model->in, rows) > o->in_bytes || gw_layout_bytes(&model->out, rows) > o->out_bytes)
        return gw_error(-EFBIG, "model %s: the tensors of %u samples do not fit into a slot", model->name,
                        rows);
    return 0;
}

/* The graph of a batch size, from the kernel that waits on. On a GPU all have the kernel that receives beside
 * the model, so that a request is refused before a long run is over. */
static int many_add_batch(struct gw_many *m, uint32_t number, const struct gw_many_batch *b)
{
    struct gw_stages s = many_stages(m);
    m->batch[number].plan = b->plan;
    int err = gw_stages_before(&s, number + 1, true, true);
    if (!err) err = gw_stages_model(&s, number + 1, &m->batch[number]);
    if (!err) err = gw_stages_after(&s, number + 1, b->rows);
    return err ? err : gw_loop_extend(m->loop, number + 1);
}

/* What the device needs to know; nothing there looks at it before the model is present. */
static int many_tell_device(struct gw_many *m, const struct gw_many_model *model,
                            const struct many_model *own)
{
    struct gw_serve_variant *v = m->args.variant + own->first;
    struct gw_serve_shape shape = {.in = model->in,
                                   .out = model->out,
                                   .delay_ns = model->delay_ns,
                                   .rows = model->batch[model->batches - 1].rows,
                                   .first = own->first,
                                   .variants = model->batches,
                                   .name = own->name};
    int err = gw_copy_in(m->opts.exec, (void *)(m->args.shape + m->models), &shape, sizeof(shape));
    for (uint32_t i = 0; !err && i < model->batches; i++) {
        struct gw_serve_variant one = {.rows = model->batch[i].rows};
        gw_session_place_batch(m->pool, &model->in, &model->out, &one);
        err = gw_copy_in(m->opts.exec, v + i, &one, sizeof(one));
    }
    return err;
}

int gw_many_add(struct gw_many *m, const struct gw_many_model *model, uint32_t *number)
{
    int err = many_check_model(m, model);
    if (err) return err;
    struct many_model *own = &m->model[m->models];
    *own = (struct many_model){.name = strdup(model->name),
                               .in = model->in,
                               .out = model->out,
                               .first = m->batches,
                               .batches = model->batches};
    err = own->name ? many_tell_device(m, model, own) : -ENOMEM;
    for (uint32_t i = 0; !err && i < model->batches; i++) {
        /* A number whose stages were begun is not used again. */
        err = many_add_batch(m, m->batches++, &model->batch[i]);
    }
    if (err) {
        free(own->name);
        own->name = NULL;
        return err;
    }
    *number = m->models;
    /* Release: a thread that sees the number sees the model. */
    __atomic_store_n(&m->models, m->models + 1, __ATOMIC_RELEASE);
    return 0;
}

/* The model of that number, or NULL. Any thread. */
static const struct many_model *many_model_of(const struct gw_many *m, uint32_t number)
{
    /* Acquire: the model that it counts is complete. */
    return number < __atomic_load_n(&m->models, __ATOMIC_ACQUIRE) ? &m->model[number] : NULL;
}

static struct gw_serve_model_board *model_board(const struct gw_many *m, uint32_t number)
{
    return (struct gw_serve_model_board *)board_place(m->pool, m->pool->boards.model) + number;
}

/* ---- orders ---- */

static int many_order(struct gw_many *m, const struct gw_serve_order *o)
{
    struct gw_serve_board *b = board(m->pool);
    struct gw_serve_order *places = board_place(m->pool, m->pool->boards.order);
    uint32_t all = m->pool->boards.orders, given = gw_ld_relaxed_u32(&b->orders);
    uint32_t open = given - gw_ld_acquire_u32(&b->taken); /* acquire: the device has read what it has taken */
    if (open >= all / 2) gw_session_wake(m->pool);
    if (open == all) return gw_error(-EAGAIN, "%s: %u orders wait for the device", m->name, all);
    places[given & (all - 1)] = *o;
    gw_st_release_u32(&b->orders, given + 1); /* release: the order is whole before it is counted */
    return 0;
}

int gw_many_place(struct gw_many *m, uint32_t number, enum gw_model_state state, uint64_t retry_ns)
{
    if (!many_model_of(m, number)) return gw_error(-EINVAL, "%s: there is no model %u", m->name, number);
    struct many_model *model = &m->model[number];
    uint32_t word = ((model->word >> 2) + 1) << 2 | state;
    struct gw_serve_order o = {.kind = GW_ORDER_MODEL, .number = number, .word = word, .retry_ns = retry_ns};
    int err = many_order(m, &o);
    if (err) return err;
    __atomic_store_n(&model->word, word, __ATOMIC_RELAXED); /* gw_many_placed compares it, and no more */
    gw_session_wake(m->pool);                               /* the host waits for the answer */
    return 0;
}

bool gw_many_placed(const struct gw_many *m, uint32_t number)
{
    const struct many_model *model = many_model_of(m, number);
    /* Acquire: what the device has done before it answered is over. */
    if (!model ||
        gw_ld_acquire_u32(&model_board(m, number)->seen) != __atomic_load_n(&model->word, __ATOMIC_RELAXED))
        return false;
    gw_session_rest(m->pool);
    return true;
}

/* ---- leases ---- */

/* The device's time at `at`. It tells its own time when it looks at the board, so what is read is late by an
 * unknown time: the least late of all counts, less the clocks' drift since. -EAGAIN: it has told none. */
static int many_device_time(struct gw_many *m, uint64_t at, uint64_t *time)
{
    *time = at;
    if (gw_exec_kind(m->opts.exec) == GW_EXEC_CPU) return 0; /* it is the same clock */
    uint64_t device = gw_ld_relaxed_u64(&board(m->pool)->clock), now = gw_deadline(0);
    if (!device) return gw_error(-EAGAIN, "%s: the device has not told its time yet", m->name);
    int64_t found = (int64_t)(device - now);
    int64_t known = m->clock_offset - (int64_t)((now - m->clock_seen) / CLOCK_DRIFT);
    m->clock_offset = !m->clock_seen || found > known ? found : known;
    m->clock_seen = now;
    *time = at + (uint64_t)m->clock_offset;
    return 0;
}

static int many_check_lease(const struct gw_many *m, uint32_t number, const struct gw_many_lease *l)
{
    if (number >= m->opts.max_leases)
        return gw_error(-EINVAL, "%s: lease %u: there are %u", m->name, number, m->opts.max_leases);
    if (!many_model_of(m, l->model) || !l->key || l->owner == GW_SERVE_OWN || !l->slots ||
        l->slots > MOST_SLOTS || !(l->rate >= 0) || isinf(l->rate))
        return gw_error(-EINVAL, "%s: lease %u names no model, key or owner, or not 1 to %u slots", m->name,
                        number, MOST_SLOTS);
    return 0;
}

int gw_many_lease(struct gw_many *m, uint32_t number, const struct gw_many_lease *l)
{
    struct gw_serve_order o = {.kind = GW_ORDER_LEASE,
                               .number = number,
                               .key = l->key,
                               .owner = l->owner,
                               .model = l->model,
                               .slots = l->slots,
                               .max_rows = l->max_batch};
    int err = many_check_lease(m, number, l);
    if (!err) err = many_device_time(m, l->until_ns, &o.until);
    if (err) return err;
    if (l->rate > 0)
        o.interval_ns = 1e9 / l->rate < (double)MOST_INTERVAL ? (uint64_t)(1e9 / l->rate) : MOST_INTERVAL;
    return many_order(m, &o);
}

int gw_many_lease_end(struct gw_many *m, uint32_t number)
{
    struct gw_serve_order o = {.kind = GW_ORDER_LEASE, .number = number};
    if (number >= m->opts.max_leases)
        return gw_error(-EINVAL, "%s: lease %u: there are %u", m->name, number, m->opts.max_leases);
    return many_order(m, &o);
}

/* ---- counts ---- */

int gw_many_counters(const struct gw_many *m, uint32_t number, struct gw_serve_model_counters *out)
{
    if (!many_model_of(m, number)) return gw_error(-EINVAL, "%s: there is no model %u", m->name, number);
    const struct gw_serve_model_counters *t = &model_board(m, number)->total;
    *out = (struct gw_serve_model_counters){.answered = gw_ld_relaxed_u64(&t->answered),
                                            .failed = gw_ld_relaxed_u64(&t->failed),
                                            .late = gw_ld_relaxed_u64(&t->late),
                                            .refused = gw_ld_relaxed_u64(&t->refused),
                                            .waiting = gw_ld_relaxed_u64(&t->waiting)};
    return 0;
}

uint64_t gw_many_p99(const struct gw_many *m, uint32_t number, uint32_t i)
{
    const struct many_model *model = many_model_of(m, number);
    const struct gw_serve_variant_counters *v = board_place(m->pool, m->pool->boards.variant);
    return model && i < model->batches ? gw_ld_relaxed_u64(&v[model->first + i].p99_ns) : 0;
}

void gw_many_total(const struct gw_many *m, struct gw_serve_counters *out)
{
    struct gw_serve_variant_counters unused[GW_SERVE_VARIANTS];
    gw_session_pool_counters(m->pool, out, unused);
}

bool gw_many_idle(const struct gw_many *m)
{
    const struct gw_serve_board *b = board(m->pool);
    /* A batch that begins is told before the queue gets shorter; one that ends is told after the queue. So if
     * none was at work before and after the queue was empty, there is no request. Acquire: in this order. */
    return !gw_ld_acquire_u32(&b->busy) && !gw_ld_acquire_u64(&b->total.waiting) &&
           !gw_ld_relaxed_u32(&b->busy);
}
