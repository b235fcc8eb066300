/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several models in one loop, in the whole loop and with a NIC: callers ask all of them at once, leases come,
 * go and are renewed, and models leave and come back while requests wait.
 *
 *     test_serve_many [--exec cpu|gpu]
 *
 * On CPU threads the models are written in C, and kernels run with 1, 4 and 32 lanes. Exit code 77: no GPU.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "src/server/worker/many.h"
#include "tests/model/pack.h"
#include "tests/server/worker_rig.h"

#define MS        1000000u
#define TOLERANCE 1e-3f
enum { MODELS = 3, MORE = 4, BATCHES = 3, MAX_ROWS = 8, ROUNDS = 60, LEASES = 10000, OWNER = 5 };

/* ---- models in C: y = factor * x ---- */

static struct subject {
    struct gw_tensor_info in, out;
    float factor;
    uint64_t takes_ns; /* atomic */
    uint32_t running;  /* atomic: runs under way */
    uint32_t held;     /* atomic: 1: they do not end */

    struct gw_model *model;
    struct gw_plan *plan[BATCHES], *check; /* check: one row, on the CPU */
    struct gw_layout layout[2];
    uint32_t number;
} subject[MODELS];

struct c_plan {
    struct subject *of;
    uint32_t rows;
};

static uint32_t c_count(const void *model, int output)
{
    (void)model, (void)output;
    return 1;
}

static const struct gw_tensor_info *c_info(const void *model, int output, uint32_t i)
{
    const struct subject *s = model;
    (void)i;
    return output ? &s->out : &s->in;
}

static int c_plan(const void *model, const struct gw_plan_options *options, void **out, char *err,
                  size_t errlen)
{
    struct c_plan *p = malloc(sizeof(*p));
    (void)err, (void)errlen;
    *p = (struct c_plan){(struct subject *)(uintptr_t)model, options->rows ? options->rows : 1};
    *out = p;
    return 0;
}

static int c_run(void *plan, const void *const in[], void *const out[])
{
    const struct c_plan *p = plan;
    const float *x = in[0];
    float *y = out[0];
    uint64_t end = gw_deadline(__atomic_load_n(&p->of->takes_ns, __ATOMIC_RELAXED));
    __atomic_add_fetch(&p->of->running, 1, __ATOMIC_RELAXED);
    for (uint64_t i = 0; i < p->rows * p->of->in.bytes / sizeof(float); i++) y[i] = p->of->factor * x[i];
    while (gw_deadline(0) < end || __atomic_load_n(&p->of->held, __ATOMIC_RELAXED)) continue;
    __atomic_sub_fetch(&p->of->running, 1, __ATOMIC_RELEASE);
    return 0;
}

static const struct gw_model_backend backend = {.abi = GW_MODEL_ABI,
                                                .unload = rows_unload,
                                                .plan = c_plan,
                                                .plan_free = free,
                                                .stats = rows_stats,
                                                .name = "times",
                                                .count = c_count,
                                                .info = c_info,
                                                .run = c_run};

static int on_gpu(void)
{
    return !strcmp(exec_name, "gpu");
}

/* ---- the rig ---- */

static struct gw_many *many;

static int open_model(uint32_t i)
{
    struct subject *s = &subject[i];
    uint32_t columns = 37 + 24 * i;
    char path[4096];
    if (on_gpu()) {
        pack_path(path, sizeof(path), 0, "mlp.onnx");
        return gw_model_open(path, &s->model, NULL, 0);
    }
    s->in = (struct gw_tensor_info){.name = "x",
                                    .dtype = GW_DTYPE_F32,
                                    .rank = 2,
                                    .dims = {1, columns},
                                    .bytes = columns * 4,
                                    .batched = 1};
    s->out = s->in;
    s->out.name = "y";
    s->factor = (float)(i + 2);
    s->takes_ns = 0;
    return gw_model_wrap(&backend, s, &s->model);
}

static int plan_model(uint32_t i)
{
    static const uint32_t rows[BATCHES] = {1, 2, MAX_ROWS};
    struct subject *s = &subject[i];
    int err = gw_plan_create(s->model, NULL, &s->check, NULL, 0);
    for (uint32_t k = 0; !err && k < BATCHES; k++) {
        /* Own kernels: graphs of these can be made beside the loop. */
        struct gw_plan_options o = {.place = on_gpu() ? GW_PLACE_GPU : GW_PLACE_CPU,
                                    .threads = 1,
                                    .exec = exec,
                                    .rows = rows[k],
                                    .flags = GW_PLAN_OWN};
        err = gw_plan_create(s->model, &o, &s->plan[k], NULL, 0);
    }
    for (int output = 0; !err && output < 2; output++)
        err = gw_layout_of_model(s->model, output, MAX_ROWS, &s->layout[output]);
    return err;
}

static struct gw_many_model description(uint32_t i)
{
    struct gw_many_model m = {
        .name = "times", .in = subject[i].layout[0], .out = subject[i].layout[1], .batches = BATCHES};
    static const uint32_t rows[BATCHES] = {1, 2, MAX_ROWS};
    for (uint32_t k = 0; k < BATCHES; k++) m.batch[k] = (struct gw_many_batch){rows[k], subject[i].plan[k]};
    return m;
}

static void wait_placed(uint32_t i)
{
    uint64_t end = gw_deadline(WAIT_NS);
    while (!gw_many_placed(many, subject[i].number)) assert_true(gw_deadline(0) < end);
}

static void place(uint32_t i, enum gw_model_state state)
{
    assert_int_equal(gw_many_place(many, subject[i].number, state, 7 * MS), 0);
    wait_placed(i);
}

static int begin_many(void)
{
    const struct gw_many_opts o = {.name = "several",
                                   .exec = exec,
                                   .dev = dev,
                                   .sessions = 1,
                                   .slots = 16,
                                   .in_bytes = 1 << 16,
                                   .out_bytes = 1 << 16,
                                   .max_models = MODELS + MORE,
                                   .max_rows = MAX_ROWS,
                                   .max_leases = LEASES,
                                   .own_sessions = 2,
                                   .own_dev = own_dev};
    return gw_many_create(&o, &many);
}

/* The first models are there before the loop starts. */
static int begin(void **state)
{
    int err = begin_devices(*state ? *(uint32_t *)*state : 1);
    memset(subject, 0, sizeof(subject));
    for (uint32_t i = 0; !err && i < MODELS; i++) err = open_model(i);
    for (uint32_t i = 0; !err && i < MODELS; i++) err = plan_model(i);
    if (!err) err = begin_many();
    for (uint32_t i = 0; !err && i < MODELS; i++) {
        struct gw_many_model m = description(i);
        err = gw_many_add(many, &m, &subject[i].number);
    }
    print_message("the loop starts\n");
    if (!err) err = gw_many_start(many);
    for (uint32_t i = 0; !err && i < MODELS; i++) place(i, GW_MODEL_PRESENT);
    print_message("its models are there\n");
    if (err) print_message("%d, %s\n", err, gw_last_error());
    return err;
}

static int end(void **state)
{
    (void)state;
    gw_calls_close(gw_many_calls(many), gw_deadline(WAIT_NS));
    int err = gw_many_stop(many, gw_deadline(WAIT_NS));
    if (!err) err = gw_many_destroy(many);
    for (uint32_t i = 0; i < MODELS; i++) {
        for (uint32_t k = 0; k < BATCHES; k++) gw_plan_free(subject[i].plan[k]);
        gw_plan_free(subject[i].check);
        gw_model_close(subject[i].model);
    }
    return end_devices() | err;
}

/* ---- asking ---- */

struct question {
    uint32_t model, rows, lease; /* lease: number + 1 */
    uint32_t number;             /* of the same model, added once more; 0: as it was added first */
    uint64_t key, budget_ns;
    float first;
};

/* On any thread: one that cannot ask ends the test. */
static void must(int err)
{
    if (!err) return;
    print_message("%d, %s\n", err, gw_last_error());
    abort();
}

static struct gw_call *submit(struct question q)
{
    const struct subject *s = &subject[q.model];
    uint64_t number = q.number ? q.number : s->number;
    const struct gw_call_target t = {&s->layout[0], &s->layout[1], MAX_ROWS, q.lease,
                                     q.lease ? q.key : number};
    const struct gw_call_ask ask = {.rows = q.rows, .budget_ns = q.budget_ns};
    struct gw_call *call;
    uint64_t bytes;
    must(gw_call_take(gw_many_calls(many), "somebody", gw_deadline(WAIT_NS), &call));
    must(gw_call_aim(call, &t));
    float *x = gw_call_input(call, 0, q.rows, &bytes);
    for (uint64_t i = 0; i < bytes / sizeof(*x); i++) x[i] = sinf(q.first + (float)i);
    must(gw_call_submit(call, &ask));
    return call;
}

static struct gw_call *ended(struct gw_call *call)
{
    must(gw_call_wait(call, gw_deadline(WAIT_NS)));
    return call;
}

/* What a request ends with: 0 or a negative errno. */
static int outcome(struct gw_call *call)
{
    int error = ended(call)->error;
    gw_call_give(call);
    return error;
}

/* Each row is what the model makes of that row alone. One thread at a time checks. */
static int is_right(const struct gw_call *call, struct question q)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static float x[1 << 12] __attribute__((aligned(64))), y[1 << 12] __attribute__((aligned(64)));
    const struct subject *s = &subject[q.model];
    uint64_t in = gw_model_input(s->model, 0)->bytes / 4, out = gw_model_output(s->model, 0)->bytes / 4,
             bytes;
    const float *answer = gw_call_output(call, 0, &bytes);
    int right = !call->error && bytes == q.rows * out * sizeof(float) && call->reply->batch >= q.rows;
    pthread_mutex_lock(&lock);
    for (uint32_t r = 0; right && r < q.rows; r++) {
        for (uint64_t i = 0; i < in; i++) x[i] = sinf(q.first + (float)(r * in + i));
        right = !gw_plan_run(s->check, (const void *[]){x}, (void *[]){y});
        for (uint64_t i = 0; i < out; i++) right &= fabsf(answer[r * out + i] - y[i]) < TOLERANCE;
    }
    pthread_mutex_unlock(&lock);
    return right;
}

static void lease(uint32_t number, struct gw_many_lease l, uint64_t lasts_ns)
{
    uint64_t until = gw_deadline(WAIT_NS);
    int err;
    l.owner = l.owner ? l.owner : OWNER;
    l.until_ns = gw_deadline(lasts_ns);
    while ((err = gw_many_lease(many, number, &l)) == -EAGAIN && gw_deadline(0) < until) continue;
    assert_int_equal(err, 0);
}

static struct gw_serve_model_counters counts(uint32_t i)
{
    struct gw_serve_model_counters c;
    assert_int_equal(gw_many_counters(many, subject[i].number, &c), 0);
    return c;
}

static void takes(uint32_t i, uint64_t ns)
{
    __atomic_store_n(&subject[i].takes_ns, ns, __ATOMIC_RELAXED);
}

/* Keeps the loop at work until it is let go: what is submitted in between arrives together. */
static struct gw_call *hold(uint32_t model)
{
    uint64_t end = gw_deadline(WAIT_NS);
    __atomic_store_n(&subject[model].held, 1, __ATOMIC_RELAXED);
    struct gw_call *call = submit((struct question){.model = model, .rows = 1});
    while (!__atomic_load_n(&subject[model].running, __ATOMIC_RELAXED)) assert_true(gw_deadline(0) < end);
    return call;
}

/* After a time in which all that was submitted arrives. */
static void let_go(uint32_t model)
{
    struct timespec nap = {.tv_nsec = 60 * MS};
    nanosleep(&nap, NULL);
    __atomic_store_n(&subject[model].held, 0, __ATOMIC_RELAXED);
}

/* ---- tests ---- */

static void *ask_all(void *number)
{
    uintptr_t mine = (uintptr_t)number, wrong = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct question q = {.model = (uint32_t)(i + mine) % MODELS,
                             .rows = 1 + (uint32_t)(i * 7 + mine) % 3,
                             .first = (float)(100 * mine + i)};
        struct gw_call *call = ended(submit(q));
        wrong += !is_right(call, q);
        gw_call_give(call);
    }
    return (void *)wrong;
}

/* Callers of all models at once: each gets its own answer, of its own model. */
static void models_take_turns(void **state)
{
    struct gw_serve_counters t;
    uint64_t answered = 0, end = gw_deadline(WAIT_NS);
    (void)state;
    for (uint32_t i = 0; i < MODELS; i++) takes(i, 200000);
    run_callers(ask_all);
    while (!gw_many_idle(many)) assert_true(gw_deadline(0) < end);
    gw_many_total(many, &t);
    for (uint32_t i = 0; i < MODELS; i++) answered += counts(i).answered;
    assert_int_equal(answered, CALLERS * ROUNDS);
    assert_int_equal(t.successes, CALLERS * ROUNDS);
    assert_true(t.executions < t.successes);
    assert_true(gw_many_p99(many, subject[0].number, 0) + gw_many_p99(many, subject[0].number, 1) > 0);
    print_message("%u requests in %u runs\n", (unsigned)t.successes, (unsigned)t.executions);
}

/* A model is added beside the loop, which goes on, and is there at once. The number of failures. */
static void *add_more(void *unused)
{
    uintptr_t wrong = 0;
    (void)unused;
    for (uint32_t i = 0; i < MORE; i++) {
        struct gw_many_model m = description(i % MODELS);
        struct question q = {.model = i % MODELS, .rows = 2, .first = (float)i};
        uint64_t start = gw_deadline(0);
        must(gw_many_add(many, &m, &q.number));
        print_message("measured: added in %u us\n", (unsigned)((gw_deadline(0) - start) / 1000));
        must(gw_many_place(many, q.number, GW_MODEL_PRESENT, 0));
        struct gw_call *call = ended(submit(q));
        wrong += !is_right(call, q);
        gw_call_give(call);
    }
    return (void *)wrong;
}

static void models_come_under_load(void **state)
{
    struct gw_serve_model_counters c;
    pthread_t thread;
    void *wrong;
    (void)state;
    for (uint32_t i = 0; i < MODELS; i++) takes(i, 200000);
    assert_int_equal(pthread_create(&thread, NULL, add_more, NULL), 0);
    run_callers(ask_all);
    pthread_join(thread, &wrong);
    assert_null(wrong);
    for (uint32_t i = 0; i < MORE; i++) {
        assert_int_equal(gw_many_counters(many, MODELS + i, &c), 0);
        assert_int_equal(c.answered, 1);
    }
}

static int on_lease(uint32_t lease, uint64_t key)
{
    return outcome(submit((struct question){.rows = 1, .lease = lease, .key = key}));
}

/* A lease is its number, its key and its time. */
static void leases_are_looked_at(void **state)
{
    const struct gw_many_lease l = {.key = 0x1234, .model = subject[0].number, .slots = 4};
    struct timespec nap = {.tv_nsec = 30 * MS};
    (void)state;
    lease(3, l, WAIT_NS);
    assert_int_equal(on_lease(4, 0x1234), 0);
    assert_int_equal(on_lease(4, 0x1235), -EKEYEXPIRED);
    assert_int_equal(on_lease(4, 0), -EKEYEXPIRED);
    assert_int_equal(on_lease(5, 0x1234), -EKEYEXPIRED);
    assert_int_equal(on_lease(5, 0), -EKEYEXPIRED); /* there never was one */
    assert_int_equal(on_lease(LEASES + 1, 0x1234), -EKEYEXPIRED);
    assert_int_equal(on_lease(UINT32_MAX, 0x1234), -EKEYEXPIRED);
    lease(3, l, 20 * MS);
    nanosleep(&nap, NULL);
    assert_int_equal(on_lease(4, 0x1234), -EKEYEXPIRED);
    lease(3, l, WAIT_NS);
    assert_int_equal(on_lease(4, 0x1234), 0);
    assert_int_equal(gw_many_lease_end(many, 3), 0);
    assert_int_equal(on_lease(4, 0x1234), -EKEYEXPIRED);
    assert_int_equal(counts(0).answered, 2);
    assert_int_equal(counts(0).refused, 0); /* those name no model */
}

/* Requests beyond the slots and beyond the rate are refused, and learn when to try again. */
static void budgets_hold(void **state)
{
    struct gw_call *call[4];
    uint32_t over = 0;
    (void)state;
    lease(0, (struct gw_many_lease){.key = 1, .model = subject[0].number, .slots = 2, .max_batch = 2},
          WAIT_NS);
    assert_int_equal(outcome(submit((struct question){.rows = 3, .lease = 1, .key = 1})), -EDQUOT);
    if (!on_gpu()) {
        struct gw_call *held = hold(1);
        for (int i = 0; i < 4; i++) call[i] = submit((struct question){.rows = 1, .lease = 1, .key = 1});
        let_go(1);
        for (int i = 0; i < 4; i++) over += outcome(call[i]) == -EDQUOT;
        assert_int_equal(over, 2);
        assert_int_equal(outcome(held), 0);
    }
    for (int i = 0; i < 8; i++) assert_int_equal(on_lease(1, 1), 0); /* its slots come back */
    lease(1, (struct gw_many_lease){.key = 2, .model = subject[0].number, .slots = 2, .rate = 2}, WAIT_NS);
    assert_int_equal(on_lease(2, 2), 0);
    assert_int_equal(on_lease(2, 2), 0);
    struct gw_call *refused = ended(submit((struct question){.rows = 1, .lease = 2, .key = 2}));
    uint64_t retry = gw_call_retry_ns(refused);
    assert_int_equal(refused->error, -EDQUOT);
    assert_in_range(retry, 1, 500 * MS);
    gw_call_give(refused);
    struct timespec nap = {.tv_nsec = (long)retry + MS};
    nanosleep(&nap, NULL);
    assert_int_equal(on_lease(2, 2), 0);
}

/* A model that leaves: the batch that runs is answered, what waits is refused, and no run begins after the
 * device has said that it is gone. */
static void models_leave_and_return(void **state)
{
    struct gw_call *waiting[5];
    (void)state;
    for (int turn = 0; turn < 3; turn++) {
        struct gw_call *runs = on_gpu() ? submit((struct question){.rows = 1}) : hold(0);
        for (int i = 0; i < 5; i++) waiting[i] = submit((struct question){.rows = 1});
        assert_int_equal(gw_many_place(many, subject[0].number, GW_MODEL_LEAVING, 7 * MS), 0);
        if (!on_gpu()) assert_false(gw_many_placed(many, subject[0].number)); /* its batch runs */
        let_go(0);
        wait_placed(0);
        assert_int_equal(__atomic_load_n(&subject[0].running, __ATOMIC_ACQUIRE), 0);
        uint64_t answered = counts(0).answered;
        int error = outcome(runs);
        if (!on_gpu()) assert_int_equal(error, 0);
        for (int i = 0; i < 5; i++) {
            error = outcome(waiting[i]);
            if (!on_gpu()) assert_int_equal(error, -EAGAIN);
            assert_true(!error || error == -EAGAIN);
        }
        struct gw_call *refused = ended(submit((struct question){.rows = 1}));
        assert_int_equal(refused->error, -EAGAIN);
        assert_int_equal(gw_call_retry_ns(refused), 7 * MS);
        gw_call_give(refused);
        assert_int_equal(counts(0).answered, answered);
        assert_int_equal(outcome(submit((struct question){.model = 1, .rows = 1})), 0);
        place(0, GW_MODEL_PRESENT);
        assert_int_equal(outcome(submit((struct question){.rows = 1})), 0);
    }
}

/* What waits on a lease that another one replaces is refused. */
static void keys_change(void **state)
{
    const struct gw_many_lease l = {.key = 10, .model = subject[0].number, .slots = 8};
    struct gw_many_lease other = l;
    struct gw_call *waiting[3];
    (void)state;
    if (on_gpu()) skip(); /* no model there can be held up */
    other.key = 11;
    lease(0, l, WAIT_NS);
    struct gw_call *held = hold(1);
    for (int i = 0; i < 3; i++) waiting[i] = submit((struct question){.rows = 1, .lease = 1, .key = 10});
    lease(0, other, WAIT_NS);
    let_go(1);
    assert_int_equal(on_lease(1, 11), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(outcome(waiting[i]), -EKEYEXPIRED);
    assert_int_equal(outcome(held), 0);
    for (int i = 0; i < 20; i++) assert_int_equal(on_lease(1, 11), 0);
}

static uint32_t renewing; /* atomic */

static void *renew(void *arg)
{
    const struct gw_many_lease l = {.key = 77, .model = subject[1].number, .slots = 64};
    struct timespec nap = {.tv_nsec = 2 * MS};
    (void)arg;
    while (__atomic_load_n(&renewing, __ATOMIC_RELAXED)) {
        lease(9, l, 2000 * (uint64_t)MS);
        nanosleep(&nap, NULL);
    }
    return NULL;
}

static void *ask_on_lease(void *number)
{
    uintptr_t mine = (uintptr_t)number, wrong = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct question q = {.model = 1, .rows = 1, .lease = 10, .key = 77, .first = (float)(100 * mine + i)};
        struct gw_call *call = ended(submit(q));
        wrong += !is_right(call, q);
        gw_call_give(call);
    }
    return (void *)wrong;
}

/* A lease that is renewed under load never refuses a request. */
static void leases_are_renewed(void **state)
{
    pthread_t thread;
    (void)state;
    takes(1, MS);
    lease(9, (struct gw_many_lease){.key = 77, .model = subject[1].number, .slots = 64}, WAIT_NS);
    __atomic_store_n(&renewing, 1, __ATOMIC_RELAXED);
    assert_int_equal(pthread_create(&thread, NULL, renew, NULL), 0);
    run_callers(ask_on_lease);
    __atomic_store_n(&renewing, 0, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    assert_int_equal(counts(1).answered, CALLERS * ROUNDS);
    assert_int_equal(counts(1).refused, 0);
}

static uint64_t key_of(uint32_t lease)
{
    return (lease + 1) * 0x9e3779b97f4a7c15ull;
}

static void many_leases(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LEASES; i++)
        lease(i, (struct gw_many_lease){.key = key_of(i), .model = subject[i % MODELS].number, .slots = 2},
              WAIT_NS);
    for (uint32_t i = 0; i < LEASES; i += 101) {
        struct question q = {
            .model = i % MODELS, .rows = 2, .lease = i + 1, .key = key_of(i), .first = (float)i};
        struct gw_call *call = ended(submit(q));
        assert_true(is_right(call, q));
        gw_call_give(call);
        q.key = key_of(i + 1);
        assert_int_equal(outcome(submit(q)), -EKEYEXPIRED);
    }
}

/* What cannot be, and a stop in between. */
static void limits_are_told(void **state)
{
    struct gw_many_model m = description(0);
    struct gw_many_lease l = {.key = 1, .model = subject[0].number, .slots = 1, .owner = OWNER};
    uint32_t number;
    (void)state;
    for (uint32_t i = 0; i < MORE; i++) assert_int_equal(gw_many_add(many, &m, &number), 0);
    assert_int_equal(gw_many_add(many, &m, &number), -ENOSPC);
    m.batch[2].rows = 1;
    assert_int_equal(gw_many_add(many, &m, &number), -EINVAL);
    assert_int_equal(gw_many_place(many, MODELS + MORE, GW_MODEL_PRESENT, 0), -EINVAL);
    assert_int_equal(gw_many_lease(many, LEASES, &l), -EINVAL);
    assert_int_equal(gw_many_lease_end(many, LEASES), -EINVAL);
    l.slots = 0;
    assert_int_equal(gw_many_lease(many, 0, &l), -EINVAL);
    l.slots = 1, l.rate = NAN;
    assert_int_equal(gw_many_lease(many, 0, &l), -EINVAL);
    l.rate = 0, l.owner = GW_SERVE_OWN;
    assert_int_equal(gw_many_lease(many, 0, &l), -EINVAL);
    assert_int_equal(gw_many_stop(many, gw_deadline(WAIT_NS)), 0);
    struct gw_call *call = submit((struct question){.rows = 1});
    assert_int_equal(gw_many_start(many), 0);
    assert_int_equal(outcome(call), 0);
    gw_many_close(many);
    uint64_t end = gw_deadline(WAIT_NS);
    int error; /* the device may see the first request before it looks at the board */
    while (!(error = outcome(submit((struct question){.rows = 1})))) assert_true(gw_deadline(0) < end);
    assert_int_equal(error, -ESHUTDOWN);
}

#define WITH(test, lanes) cmocka_unit_test_prestate_setup_teardown(test, begin, end, lanes)

int main(int argc, char **argv)
{
    static uint32_t one = 1, four = 4, most = 32;
    char why[256];
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--exec")) exec_name = argv[++i];
    if (on_gpu() && !gw_exec_gpu_available(why, sizeof(why))) {
        printf("skipped: %s\n", why);
        return 77;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    const struct CMUnitTest once[] = {
        WITH(models_take_turns, &one),       WITH(models_come_under_load, &one),
        WITH(leases_are_looked_at, &one),    WITH(budgets_hold, &one),
        WITH(models_leave_and_return, &one), WITH(keys_change, &one),
        WITH(leases_are_renewed, &one),      WITH(many_leases, &one),
        WITH(limits_are_told, &one),
    };
    const struct CMUnitTest lanes[] = {
        WITH(models_take_turns, &four),       WITH(models_take_turns, &most),
        WITH(models_come_under_load, &four),  WITH(budgets_hold, &four),
        WITH(models_leave_and_return, &most), WITH(leases_are_renewed, &four),
    };
    int failed = cmocka_run_group_tests(once, NULL, NULL);
    return on_gpu() || failed ? failed : cmocka_run_group_tests(lanes, NULL, NULL);
}
