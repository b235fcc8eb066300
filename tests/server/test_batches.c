/* SPDX-License-Identifier: Apache-2.0 */
/* A worker whose model takes several samples at once: callers on many threads share its runs, each gets its
 * own answer, and deadlines hold. In the whole loop, with a NIC. */
#include <errno.h>
#include <stdlib.h>

#include "tests/server/worker_rig.h"

enum { COLUMNS = 37, ROUNDS = 150 }; /* rows of 148 bytes: none of 16 */

/* ---- a model: y = 2 x, z = the row's first number ---- */

static uint64_t takes_ns;

static const struct gw_tensor_info tensors[] = {
    {.name = "x", .dtype = GW_DTYPE_F32, .rank = 2, .dims = {1, COLUMNS}, .bytes = COLUMNS * 4, .batched = 1},
    {.name = "y", .dtype = GW_DTYPE_F32, .rank = 2, .dims = {1, COLUMNS}, .bytes = COLUMNS * 4, .batched = 1},
    {.name = "z", .dtype = GW_DTYPE_F32, .rank = 1, .dims = {1}, .bytes = 4, .batched = 1}};

static uint32_t count(const void *model, int output)
{
    (void)model;
    return output ? 2 : 1;
}

static const struct gw_tensor_info *info(const void *model, int output, uint32_t i)
{
    (void)model;
    return &tensors[output ? 1 + i : 0];
}

static int run(void *p, const void *const in[], void *const out[])
{
    uint32_t rows = *(uint32_t *)p;
    const float *x = in[0];
    float *y = out[0], *z = out[1];
    uint64_t end = gw_deadline(__atomic_load_n(&takes_ns, __ATOMIC_RELAXED));
    for (uint32_t i = 0; i < rows * COLUMNS; i++) y[i] = 2 * x[i];
    for (uint32_t r = 0; r < rows; r++) z[r] = x[r * COLUMNS];
    while (gw_deadline(0) < end) continue;
    return 0;
}

static const struct gw_model_backend backend = {ROWS_BACKEND, .name = "twice", .count = count, .info = info,
                                                .run = run};

/* ---- its worker ---- */

static int begin(void **state)
{
    struct gw_model *m;
    const uint32_t batch[] = {1, 2, 4, 8};
    int error = begin_devices(*state ? *(uint32_t *)*state : 1);
    takes_ns = 100000;
    if (!error) error = gw_model_wrap(&backend, NULL, &m);
    if (!error) error = start_worker("twice", m, batch, 4, GW_RESIDENT_NEVER);
    if (error) print_message("%d, %s\n", error, gw_last_error());
    return error;
}

static int end(void **state)
{
    (void)state;
    int error = end_worker();
    return end_devices() | error;
}

static struct gw_call *ask(const struct gw_call_ask *q, float first)
{
    struct gw_call *call;
    uint64_t bytes;
    assert_int_equal(gw_call_take(gw_worker_calls(worker), "somebody", gw_deadline(WAIT_NS), &call), 0);
    float *x = gw_call_input(call, 0, q->rows, &bytes);
    assert_int_equal(bytes, q->rows * COLUMNS * sizeof(float));
    for (uint32_t i = 0; i < q->rows * COLUMNS; i++) x[i] = first + (float)i;
    assert_int_equal(gw_call_submit(call, q), 0);
    assert_int_equal(gw_call_wait(call, gw_deadline(WAIT_NS)), 0);
    return call;
}

static int is_right(const struct gw_call *call, uint32_t rows, float first)
{
    uint64_t bytes, more;
    const float *y = gw_call_output(call, 0, &bytes), *z = gw_call_output(call, 1, &more);
    if (call->error || bytes != rows * COLUMNS * sizeof(float) || more != rows * sizeof(float)) return 0;
    for (uint32_t i = 0; i < rows * COLUMNS; i++)
        if (y[i] != 2 * (first + (float)i)) return 0;
    for (uint32_t r = 0; r < rows; r++)
        if (z[r] != first + (float)(r * COLUMNS)) return 0;
    return call->reply->batch >= rows && call->reply->batch <= 8;
}

/* ---- tests ---- */

static void *ask_on(void *number)
{
    uintptr_t mine = (uintptr_t)number, wrong = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct gw_call_ask q = {.rows = 1 + (uint32_t)(i + mine) % 3, .priority = (uint32_t)(i + mine) % 11};
        float first = (float)(1000 * mine + i);
        struct gw_call *call = ask(&q, first);
        wrong += !is_right(call, q.rows, first);
        gw_call_give(call);
    }
    return (void *)wrong;
}

static void callers_share_runs(void **state)
{
    struct gw_serve_variant_counters v[GW_SERVE_VARIANTS];
    uint64_t runs = 0;
    (void)state;
    assert_int_equal(gw_worker_max_rows(worker), 8);
    run_callers(ask_on);
    struct gw_serve_counters t = counters(v);
    for (int i = 0; i < 4; i++) runs += v[i].executions;
    all_answered(&t, CALLERS * ROUNDS);
    assert_int_equal(t.inferences, CALLERS * ROUNDS * 2);
    assert_int_equal(t.executions, runs);
    assert_true(t.executions < t.successes && v[3].executions);
}

/* A request that cannot be answered in time is refused before it has cost a run. */
static void late_ones_are_told(void **state)
{
    struct gw_call_ask q = {.rows = 1};
    (void)state;
    __atomic_store_n(&takes_ns, 20000000, __ATOMIC_RELAXED);
    gw_call_give(ask(&q, 1));
    q.budget_ns = 5000000;
    struct gw_call *call = ask(&q, 2);
    assert_int_equal(call->error, -ETIME);
    gw_call_give(call);
    q.budget_ns = WAIT_NS;
    call = ask(&q, 3);
    assert_true(is_right(call, 1, 3));
    gw_call_give(call);
    struct gw_serve_variant_counters v[GW_SERVE_VARIANTS];
    struct gw_serve_counters t = counters(v);
    assert_int_equal(t.late, 1);
    assert_int_equal(t.executions, 2);
}

/* A worker that was stopped and started again answers what came in between. */
static void stopped_and_started(void **state)
{
    struct gw_call_ask q = {.rows = 2};
    struct gw_call *call;
    uint64_t bytes, ns;
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gw_worker_stop(worker, gw_deadline(WAIT_NS), &ns), 0);
        assert_int_equal(gw_call_take(gw_worker_calls(worker), "somebody", gw_deadline(WAIT_NS), &call), 0);
        float *x = gw_call_input(call, 0, 2, &bytes);
        for (int k = 0; k < 2 * COLUMNS; k++) x[k] = (float)(i + k);
        assert_int_equal(gw_call_submit(call, &q), 0);
        assert_int_equal(gw_call_wait(call, gw_deadline(20000000)), -ETIMEDOUT);
        assert_int_equal(gw_worker_start(worker), 0);
        assert_int_equal(gw_call_wait(call, gw_deadline(WAIT_NS)), 0);
        assert_true(is_right(call, 2, (float)i));
        gw_call_give(call);
    }
}

int main(void)
{
    static uint32_t four = 4;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(callers_share_runs, begin, end),
        cmocka_unit_test_prestate_setup_teardown(callers_share_runs, begin, end, &four),
        cmocka_unit_test_setup_teardown(late_ones_are_told, begin, end),
        cmocka_unit_test_setup_teardown(stopped_and_started, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
