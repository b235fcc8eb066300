/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small models run inside the kernel that waits for requests. Its answers equal those of the model's
 * plan on the CPU, for requests that come alone and together.
 *
 *     test_serve_resident [--exec cpu|gpu]
 *
 * The mode is `always`, with one CPU thread and with four. On a GPU it is `auto` and `never`, too. For each
 * it prints the measurement when the model was loaded, and how long requests then take. That shows whether
 * `auto` has chosen well. Exit code 77: no GPU.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/door/log.h"
#include "tests/model/pack.h"
#include "tests/server/worker_rig.h"

#define TOLERANCE 1e-3f /* of numbers that are no larger than 10 */
enum { ROUNDS = 100, MAX_ROWS = 8 };

static struct gw_model *model; /* the same, for its plan on the CPU */
static struct gw_plan *plan;

struct setup {
    uint32_t lanes, batches;
    enum gw_resident_mode mode;
    const char *file;
};

static int begin(void **state)
{
    const struct setup *s = *state;
    char path[4096];
    struct gw_repository_entry entry = {.name = "model", .version = 1, .path = path};
    int error = begin_devices(s->lanes);
    struct gw_worker_opts opts = worker_opts();
    opts.batch[0] = 1;
    opts.batch[1] = s->batches == 2 ? MAX_ROWS : 3;
    opts.batch[2] = MAX_ROWS;
    opts.batches = s->batches;
    opts.resident = s->mode;
    pack_path(path, sizeof(path), 0, s->file);
    if (!error) error = gw_worker_create(&entry, &opts, &worker);
    if (!error) error = gw_worker_start(worker);
    if (!error) error = gw_model_open(path, &model, NULL, 0);
    if (!error) error = gw_plan_create(model, NULL, &plan, NULL, 0);
    if (error) print_message("%d, %s\n", error, gw_last_error());
    return error;
}

static int end(void **state)
{
    (void)state;
    int error = end_worker();
    gw_plan_free(plan);
    gw_model_close(model);
    return end_devices() | error;
}

static float input(uint32_t seed, size_t i)
{
    return sinf((float)(seed * 131 + i * 7));
}

static size_t floats(const struct gw_tensor_info *t)
{
    return t->bytes / sizeof(float);
}

static float *room(const struct gw_tensor_info *t)
{
    return aligned_alloc(64, (t->bytes + 63) / 64 * 64);
}

/* Compares one sample of each output with what the CPU's plan makes of it. One thread at a time. */
static int as_the_cpu(uint32_t seed, uint32_t row, const float *const answer[])
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const struct gw_tensor_info *in = gw_model_input(model, 0);
    float *x = room(in), *y[GW_MODEL_MAX_IO] = {0};
    uint32_t outputs = gw_model_outputs(model);
    int right = x != NULL;
    for (size_t i = 0; right && i < floats(in); i++) x[i] = input(seed, row * floats(in) + i);
    for (uint32_t k = 0; k < outputs; k++) right &= (y[k] = room(gw_model_output(model, k))) != NULL;
    pthread_mutex_lock(&lock);
    right = right && !gw_plan_run(plan, (const void *[]){x}, (void *const *)y);
    pthread_mutex_unlock(&lock);
    for (uint32_t k = 0; right && k < outputs; k++) {
        size_t n = floats(gw_model_output(model, k));
        for (size_t i = 0; i < n; i++) right &= fabsf(y[k][i] - answer[k][row * n + i]) < TOLERANCE;
    }
    free(x);
    for (uint32_t k = 0; k < outputs; k++) free(y[k]);
    return right;
}

static int ask(uint32_t rows, uint32_t seed)
{
    struct gw_call_ask q = {.rows = rows};
    struct gw_call *call;
    uint64_t bytes;
    const float *answer[GW_MODEL_MAX_IO];
    if (gw_call_take(gw_worker_calls(worker), "somebody", gw_deadline(WAIT_NS), &call)) return 0;
    float *x = gw_call_input(call, 0, rows, &bytes);
    for (size_t i = 0; i < bytes / sizeof(*x); i++) x[i] = input(seed, i);
    int right = !gw_call_submit(call, &q) && !gw_call_wait(call, gw_deadline(WAIT_NS)) && !call->error;
    for (uint32_t k = 0; right && k < gw_model_outputs(model); k++) {
        answer[k] = gw_call_output(call, k, &bytes);
        right = bytes == rows * gw_model_output(model, k)->bytes;
    }
    for (uint32_t r = 0; r < rows && right; r++) right = as_the_cpu(seed, r, answer);
    gw_call_give(call);
    return right;
}

static void *ask_on(void *number)
{
    uint32_t mine = (uint32_t)(uintptr_t)number, most = gw_worker_max_rows(worker) > 1 ? 3 : 1;
    uintptr_t wrong = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) wrong += !ask(1 + (i + mine) % most, mine * ROUNDS + i);
    return (void *)wrong;
}

static int on_gpu(void)
{
    return !strcmp(exec_name, "gpu");
}

/* How long one request after the other takes since `before`, on the server. */
static void report(const struct setup *s, const struct gw_serve_counters *before)
{
    struct gw_serve_variant_counters v[GW_SERVE_VARIANTS];
    struct gw_serve_counters t;
    gw_session_pool_counters(gw_worker_sessions(worker), &t, v);
    double n = (double)(t.successes - before->successes) * 1000;
    static const char *const name[] = {"never", "auto", "always"};
    print_message(
        "bench: --resident %s, batches of 1 %s: in the queue %.1f us, together %.1f us, model %.1f us, "
        "answer %.1f us\n",
        name[s->mode], gw_worker_resident(worker, 0) ? "in the kernel" : "as a graph",
        (double)(t.queue_ns - before->queue_ns) / n, (double)(t.input_ns - before->input_ns) / n,
        (double)(t.infer_ns - before->infer_ns) / n, (double)(t.output_ns - before->output_ns) / n);
}

/* Callers on many threads; then what the kernel has counted. */
static void answers_are_right(void **state)
{
    const struct setup *s = *state;
    struct gw_serve_variant_counters v[GW_SERVE_VARIANTS];
    struct gw_serve_counters t;
    uint32_t rows[GW_SERVE_VARIANTS], n = gw_worker_batches(worker, rows);
    for (uint32_t i = 0; i < n; i++) {
        const struct gw_resident_choice *c = gw_worker_choice(worker, i);
        int resident = gw_worker_resident(worker, i);
        if (s->mode != GW_RESIDENT_AUTO) assert_int_equal(resident, s->mode == GW_RESIDENT_ALWAYS);
        if (resident) assert_true(c->blocks);
        if (on_gpu()) assert_true(s->mode == GW_RESIDENT_ALWAYS || c->graph_ns);
        if (on_gpu()) assert_true(s->mode == GW_RESIDENT_NEVER || c->own_ns || *c->why);
    }
    run_callers(ask_on);
    t = counters(v);
    if (on_gpu()) /* one caller alone: what the server takes for a request */
        for (uint32_t i = 0; i < 2000; i++) assert_true(ask(1, i));
    if (on_gpu()) report(s, &t);
    all_answered(&t, CALLERS * ROUNDS);
}

/* What is too large for the kernel makes it end; it comes back for the next small batch. */
static void large_batches_have_graphs(void **state)
{
    (void)state;
    assert_true(gw_worker_resident(worker, 0));
    assert_false(gw_worker_resident(worker, 1));
    assert_string_not_equal(gw_worker_choice(worker, 1)->why, "");
    for (uint32_t i = 0; i < 12; i++) assert_true(ask(i % 3 == 1 ? 3 : 1, i));
}

/* It stops while nothing comes, and goes on where it was. */
static void stopped_and_started(void **state)
{
    uint64_t ns;
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(ask(1, i));
        assert_int_equal(gw_worker_stop(worker, gw_deadline(WAIT_NS), &ns), 0);
        assert_int_equal(gw_worker_start(worker), 0);
        assert_true(ask(1, 100 + i));
    }
}

int main(int argc, char **argv)
{
    static struct setup one = {1, 0, GW_RESIDENT_ALWAYS, "mlp.onnx"},
                        batches = {1, 3, GW_RESIDENT_ALWAYS, "mlp.onnx"},
                        lanes = {4, 3, GW_RESIDENT_ALWAYS, "mlp.onnx"},
                        never = {1, 3, GW_RESIDENT_NEVER, "mlp.onnx"},
                        alone = {1, 0, GW_RESIDENT_AUTO, "mlp.onnx"},
                        best = {1, 3, GW_RESIDENT_AUTO, "mlp.onnx"},
                        wide = {1, 2, GW_RESIDENT_ALWAYS, "wide.onnx"};
    char why[256];
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--exec")) exec_name = argv[++i];
    if (!strcmp(exec_name, "gpu")) {
        if (!gw_exec_gpu_available(why, sizeof(why))) {
            printf("skipped: %s\n", why);
            return 77;
        }
    }
    gw_log_set(GW_LOG_DEBUG);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(answers_are_right, begin, end, &alone),
        cmocka_unit_test_prestate_setup_teardown(answers_are_right, begin, end, &best),
        cmocka_unit_test_prestate_setup_teardown(answers_are_right, begin, end, &never),
        cmocka_unit_test_prestate_setup_teardown(answers_are_right, begin, end, &one),
        cmocka_unit_test_prestate_setup_teardown(answers_are_right, begin, end, &batches),
        cmocka_unit_test_prestate_setup_teardown(answers_are_right, begin, end, &lanes),
        cmocka_unit_test_prestate_setup_teardown(large_batches_have_graphs, begin, end, &wide),
        cmocka_unit_test_prestate_setup_teardown(stopped_and_started, begin, end, &batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
