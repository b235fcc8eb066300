/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a batch that meet: seen in the graph and by runs of the model, for each way in which rows can meet.
 * Neither says so of a model whose rows stay apart. And what a worker then does. */
#include <errno.h>
#include <stdlib.h>

#include "src/model/inside.h"
#include "src/server/worker/apart.h"
#include "src/server/worker/session_pool.h"
#include "tests/model/pack.h"
#include "tests/server/worker_rig.h"

enum { APART, MEET, RUNS_APART, RUNS_MEET }; /* of a record in rows.bin */

struct record {
    char name[64];
    const void *onnx;
    size_t len;
    uint32_t is;
};

static const uint32_t sizes[] = {2, 3, 4, 8};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

static int next_record(struct pack *p, struct record *r)
{
    if (!p->bytes && pack_open(p, "rows.bin")) exit(1);
    if (p->at == p->len) {
        pack_close(p);
        return 0;
    }
    pack_text(p, r->name, sizeof(r->name));
    r->onnx = pack_blob(p, &r->len);
    r->is = pack_u32(p);
    return 1;
}

static struct gw_model *open_record(const struct record *r)
{
    char err[GW_MODEL_ERR] = "";
    struct gw_model *m = NULL;
    if (gw_model_open_bytes(r->onnx, r->len, r->name, &m, err, sizeof(err))) print_message("%s\n", err);
    assert_non_null(m);
    return m;
}

/* ---- the graph ---- */

static void graph_tells(void **state)
{
    static const char *const words[] = {"apart", "meet", "unknown"};
    struct pack p = {0};
    struct record r;
    int wrong = 0, seen = 0;
    (void)state;
    while (next_record(&p, &r)) {
        struct gw_model *m = open_record(&r);
        char node[128] = "";
        int is = GWM_ROWS_APART;
        for (int i = 0; i < SIZES; i++) {
            char here[128];
            enum gwm_rows found = gwm_model_rows(m, sizes[i], here, sizeof(here));
            if (found == GWM_ROWS_APART || is == GWM_ROWS_MEET) continue;
            is = (int)found;
            memcpy(node, here, sizeof(here));
        }
        int expected = r.is == RUNS_MEET ? GWM_ROWS_UNKNOWN : (int)r.is;
        if (is != expected || (is != GWM_ROWS_APART && !strncmp(node, "node '' ", 8))) {
            print_message("%s: rows are said to be %s, %s\n", r.name, words[is], node);
            wrong++;
        }
        seen++;
        gw_model_close(m);
    }
    print_message("%d models\n", seen);
    assert_int_equal(wrong, 0);
}

/* ---- runs ---- */

static int run_plan(void *plan, const void *const in[], void *const out[])
{
    return gw_plan_run(plan, in, out);
}

static int try_record(const struct gw_model *m, const struct gw_plan_options *o)
{
    struct gw_layout in, out;
    struct gw_plan *plan;
    if (gw_plan_create(m, o, &plan, NULL, 0)) return -ENOTSUP;
    assert_int_equal(gw_layout_of_model(m, 0, o->rows, &in), 0);
    assert_int_equal(gw_layout_of_model(m, 1, o->rows, &out), 0);
    const struct gw_apart_trial t = {
        .model = m, .in = &in, .out = &out, .rows = o->rows, .run = run_plan, .ctx = plan};
    int found = gw_apart_try(&t);
    gw_plan_free(plan);
    return found;
}

static void runs_tell(void **state)
{
    struct pack p = {0};
    struct record r;
    int wrong = 0;
    (void)state;
    while (next_record(&p, &r)) {
        if (strstr(r.name, "the number of rows")) continue; /* which is the same in all runs */
        struct gw_model *m = open_record(&r);
        int is = GW_APART;
        for (int i = 0; i < SIZES && is == GW_APART; i++) {
            const struct gw_plan_options o = {.rows = sizes[i]};
            int found = try_record(m, &o);
            is = found == -ENOTSUP ? GW_APART : found;
        }
        int expected = r.is == MEET || r.is == RUNS_MEET;
        if (is != expected) {
            print_message("%s: runs say %d\n", r.name, is);
            wrong++;
        }
        gw_model_close(m);
    }
    assert_int_equal(wrong, 0);
}

/* ---- a worker ---- */

static void start(struct gw_model *m, enum gw_resident_mode resident)
{
    const uint32_t batch[] = {1, 4};
    assert_int_equal(start_worker("rows", m, batch, 2, resident), 0);
}

/* All inputs of `rows` rows are one number. */
static struct gw_call *ask(const char *who, uint32_t rows, float number)
{
    struct gw_call_ask q = {.rows = rows};
    struct gw_call *call;
    assert_int_equal(gw_call_take(gw_worker_calls(worker), who, gw_deadline(WAIT_NS), &call), 0);
    for (uint32_t k = 0; k < gw_model_inputs(gw_worker_model(worker)); k++) {
        const struct gw_tensor_info *t = gw_model_input(gw_worker_model(worker), k);
        uint64_t bytes;
        void *x = gw_call_input(call, k, rows, &bytes);
        for (uint64_t i = 0; i < bytes; i += gw_dtype_bytes(t->dtype))
            if (t->dtype == GW_DTYPE_F32)
                memcpy((char *)x + i, &number, sizeof(number));
            else
                memset((char *)x + i, 0, gw_dtype_bytes(t->dtype));
    }
    assert_int_equal(gw_call_submit(call, &q), 0);
    assert_int_equal(gw_call_wait(call, gw_deadline(WAIT_NS)), 0);
    assert_int_equal(call->error, 0);
    return call;
}

/* One client's answer, before and after another client has asked. */
static void asks_alone(const struct record *r)
{
    uint64_t bytes;
    struct gw_call *first = ask("one", 1, 0.5f);
    const void *y = gw_call_output(first, 0, &bytes);
    void *alone = malloc(bytes);
    memcpy(alone, y, bytes);
    gw_call_give(first);
    for (int i = 0; i < 20; i++) gw_call_give(ask("two", 1, 777));
    for (int i = 0; i < 20; i++) {
        struct gw_call *again = ask("one", 1, 0.5f);
        if (memcmp(alone, gw_call_output(again, 0, &bytes), bytes)) fail_msg("%s: another answer", r->name);
        gw_call_give(again);
    }
    free(alone);
}

static void workers_take_no_batches(void **state)
{
    struct pack p = {0};
    struct record r;
    (void)state;
    assert_int_equal(begin_devices(1), 0);
    while (next_record(&p, &r)) {
        if (r.is == APART) continue;
        struct gw_model *m = open_record(&r);
        int open = gw_model_input(m, 0)->batched;
        start(m, GW_RESIDENT_NEVER);
        int alone = r.is != RUNS_APART;
        if (open && alone != gw_worker_is_alone(worker)) fail_msg("%s: alone %d", r.name, !alone);
        if (alone) assert_int_equal(gw_worker_max_rows(worker), 1);
        asks_alone(&r);
        assert_int_equal(end_worker(), 0);
    }
    assert_int_equal(end_devices(), 0);
}

/* ---- rows that stay empty ---- */

/* The rows that the model has read last, after the first `rows` rows. */
static void rest_is_zero(uint32_t rows)
{
    const struct gw_session_pool *pool = gw_worker_sessions(worker);
    const struct gw_plan_io *io = pool->kernel.dev;
    const struct gw_tensor_info *t = gw_model_input(gw_worker_model(worker), 0);
    const uint8_t *x = io->in[0];
    uint64_t ones = 0;
    for (uint64_t i = 0; i < rows * t->bytes; i++) ones += x[i] != 0;
    assert_true(ones != 0);
    for (uint64_t i = rows * t->bytes; i < 4 * t->bytes; i++) assert_int_equal(x[i], 0);
}

/* In the slot itself, and where requests are put together, which the two outputs of mlp.onnx ask for. */
static void rest_is_cleared(void **state)
{
    static const char *const files[] = {"mlp.onnx", "wide.onnx"};
    static const uint32_t lanes[] = {1, 4};
    (void)state;
    for (int k = 0; k < 8; k++) {
        char path[4096], err[GW_MODEL_ERR] = "";
        struct gw_model *m;
        assert_int_equal(begin_devices(lanes[k >> 1 & 1]), 0);
        pack_path(path, sizeof(path), 0, files[k & 1]);
        assert_int_equal(gw_model_open(path, &m, err, sizeof(err)), 0);
        start(m, k >> 2 ? GW_RESIDENT_ALWAYS : GW_RESIDENT_NEVER);
        assert_int_equal(gw_worker_max_rows(worker), 4);
        /* Each slot once, so that all of them hold what the other client has sent. */
        for (int i = 0; i < 16; i++) gw_call_give(ask("two", 4, 777));
        for (uint32_t rows = 2; rows < 4; rows++) {
            gw_call_give(ask("one", rows, 0.5f));
            rest_is_zero(rows);
            gw_call_give(ask("two", 4, 777));
        }
        assert_int_equal(end_worker(), 0);
        assert_int_equal(end_devices(), 0);
    }
}

/* ---- a model that keeps what it was given ---- */

static float kept;

static const struct gw_tensor_info tensors[] = {
    {.name = "x", .dtype = GW_DTYPE_F32, .rank = 2, .dims = {1, 1}, .bytes = 4, .batched = 1},
    {.name = "y", .dtype = GW_DTYPE_F32, .rank = 2, .dims = {1, 1}, .bytes = 4, .batched = 1}};

static uint32_t count(const void *model, int output)
{
    (void)model, (void)output;
    return 1;
}

static const struct gw_tensor_info *info(const void *model, int output, uint32_t i)
{
    (void)model, (void)i;
    return &tensors[output];
}

static int run(void *p, const void *const in[], void *const out[])
{
    uint32_t rows = *(uint32_t *)p;
    for (uint32_t i = 0; i < rows; i++) ((float *)out[0])[i] = kept;
    kept = ((const float *)in[0])[rows - 1];
    return 0;
}

static void state_is_noticed(void **state)
{
    static const struct gw_model_backend backend = {ROWS_BACKEND, .name = "keeps", .count = count,
                                                    .info = info, .run = run};
    struct gw_model *m;
    (void)state;
    assert_int_equal(gw_model_wrap(&backend, NULL, &m), 0);
    const struct gw_plan_options o = {.rows = 1};
    assert_int_equal(try_record(m, &o), GW_APART_CHANGES);
    assert_int_equal(begin_devices(1), 0);
    start(m, GW_RESIDENT_NEVER);
    assert_int_equal(gw_worker_max_rows(worker), 1);
    assert_int_equal(end_worker(), 0);
    assert_int_equal(end_devices(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graph_tells),
        cmocka_unit_test(runs_tell),
        cmocka_unit_test(workers_take_no_batches),
        cmocka_unit_test(rest_is_cleared),
        cmocka_unit_test(state_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
