/* SPDX-License-Identifier: Apache-2.0 */
/* Promises of planning: operators are fused where they may be, memory never overlaps, running allocates
 * nothing. */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <gpuwire/exec.h>
#include <gpuwire/model.h>

#include "src/model/graph/arena.h"
#include "src/model/graph/graph.h"
#include "src/model/import/import.h"
#include "tests/model/pack.h"
#include "tests/rnd.h"

/* ---- the arena ---- */

static int overlap(const struct gwm_span *a, const struct gwm_span *b)
{
    int time = a->first <= b->last && b->first <= a->last;

    return time && a->bytes && b->bytes && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

static void test_arena_never_overlaps(void **state)
{
    struct rnd r = {7};

    (void)state;
    printf("seed 7\n");
    for (int round = 0; round < 300; round++) {
        struct gwm_span s[60];
        size_t n = 1 + rnd_below(&r, 60), total, sum = 0;
        for (size_t i = 0; i < n; i++) {
            s[i].bytes = rnd_below(&r, 5) ? rnd_below(&r, 5000) : 0;
            s[i].first = (int)rnd_below(&r, 40);
            s[i].last = s[i].first + (int)rnd_below(&r, 8);
            sum += s[i].bytes + GWM_ARENA_ALIGN;
        }
        assert_int_equal(gwm_arena_plan(s, n, GWM_ARENA_MAX, &total), 0);
        assert_true(total <= sum);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(s[i].offset % GWM_ARENA_ALIGN, 0);
            assert_true(s[i].offset + s[i].bytes <= total);
            for (size_t k = 0; k < i; k++) assert_false(overlap(&s[i], &s[k]));
        }
    }
}

/* A chain of equal results needs two places, however long it is. */
static void test_arena_reuses(void **state)
{
    struct gwm_span s[50];
    size_t total;

    (void)state;
    for (int i = 0; i < 50; i++) s[i] = (struct gwm_span){1000, i, i + 1, 0};
    assert_int_equal(gwm_arena_plan(s, 50, GWM_ARENA_MAX, &total), 0);
    assert_int_equal(total, 2 * 1024);
}

static void test_arena_too_large(void **state)
{
    struct gwm_span one[1] = {{SIZE_MAX - 4, 0, 1, 0}}, s[20];
    size_t total;

    (void)state;
    assert_int_equal(gwm_arena_plan(one, 1, GWM_ARENA_MAX, &total), -E2BIG);
    for (int i = 0; i < 20; i++) s[i] = (struct gwm_span){(size_t)1 << 30, 0, 1, 0};
    assert_int_equal(gwm_arena_plan(s, 8, GWM_ARENA_MAX, &total), 0);
    assert_int_equal(gwm_arena_plan(s, 20, GWM_ARENA_MAX, &total), -E2BIG);
}

/* ---- constants that plans have copied ---- */

static void test_keep(void **state)
{
    struct gwm_graph *g = gwm_graph_new(1 << 20);
    char *at[3];

    (void)state;
    for (int i = 0; i < 3; i++) memset(at[i] = gwm_alloc(g, 50000), i, 50000);
    char *small = gwm_alloc(g, 100);
    size_t before = mallinfo2().uordblks; /* 0: another allocator, which does not tell */
    const void *one[] = {at[1] + 49999};
    gwm_graph_keep(g, one, 1); /* the last byte of one of them */
    assert_true(!before || mallinfo2().uordblks + 100000 <= before);
    assert_int_equal(at[1][0], 1);
    assert_memory_equal(at[1], at[1] + 1, 49999);
    small[99] = 1;
    gwm_graph_keep(g, NULL, 0);
    assert_true(!before || mallinfo2().uordblks + 150000 <= before);
    small[99] = 2; /* what is small stays */
    gwm_graph_free(g);
}

/* ---- fusion ---- */

struct golden {
    const void *onnx;
    size_t len;
};

static struct pack goldens;

static struct golden find(const char *want)
{
    char name[128];
    struct golden g = {0};

    goldens.at = 0;
    while (goldens.at < goldens.len) {
        struct golden at;
        pack_text(&goldens, name, sizeof(name));
        at.onnx = pack_blob(&goldens, &at.len);
        pack_skip_tensors(&goldens);
        if (!strcmp(name, want)) g = at;
    }
    assert_non_null(g.onnx);
    return g;
}

static struct gwm_graph *import(const char *name)
{
    char err[GW_MODEL_ERR];
    struct gwm_msg msg = {err, sizeof(err), name};
    struct golden m = find(name);
    struct gwm_graph *g;

    assert_int_equal(gwm_import(m.onnx, m.len, &g, &msg), 0);
    return g;
}

static void assert_ops(const char *name, const enum gwm_op *ops, int n)
{
    struct gwm_graph *g = import(name);

    for (int i = 0; i < g->nnode && i < n; i++)
        if (g->node[i].op != ops[i])
            fail_msg("%s: node %d is of kind %d, expected %d", name, i, g->node[i].op, ops[i]);
    assert_int_equal(g->nnode, n);
    gwm_graph_free(g);
}

static void test_fused(void **state)
{
    struct gwm_graph *g = import("net conv bn mul sub leaky");

    (void)state;
    assert_int_equal(g->nnode, 1);
    assert_int_equal(g->node[0].op, GWM_CONV);
    assert_int_equal(g->node[0].act.kind, GWM_ACT_LEAKY);
    gwm_graph_free(g);
    assert_ops("net espcn", (enum gwm_op[]){GWM_CONV, GWM_CONV, GWM_CONV, GWM_MOVE}, 4);
    assert_ops("net espcn clip", (enum gwm_op[]){GWM_CONV, GWM_CONV, GWM_CONV, GWM_MOVE}, 4);
    assert_ops("matmul add relu", (enum gwm_op[]){GWM_GEMM}, 1);
    assert_ops("net resnet",
               (enum gwm_op[]){GWM_CONV, GWM_POOL, GWM_CONV, GWM_CONV, GWM_BINARY, GWM_POOL, GWM_GEMM}, 7);
}

static void test_not_fused(void **state)
{
    (void)state;
    /* The convolution's own result is used and is an output: its activation must stay apart. */
    assert_ops("net value used twice", (enum gwm_op[]){GWM_CONV, GWM_UNARY, GWM_BINARY, GWM_UNARY}, 4);
    assert_ops("identity", (enum gwm_op[]){GWM_UNARY}, 1);
}

static uint32_t steps(const char *name, struct gw_exec *exec, uint32_t flags)
{
    struct gw_plan_options o = {.place = GW_PLACE_GPU, .exec = exec, .flags = flags};
    struct golden m = find(name);
    struct gw_plan_stats s;
    struct gw_model *model;
    struct gw_plan *plan;

    assert_int_equal(gw_model_open_bytes(m.onnx, m.len, name, &model, NULL, 0), 0);
    assert_int_equal(gw_plan_create(model, &o, &plan, NULL, 0), 0);
    gw_plan_stats(plan, &s);
    gw_plan_free(plan);
    gw_model_close(model);
    return s.steps;
}

/* On the GPU a depth-to-space, with the sum before it, goes into the convolution's store. */
static void test_gpu_kernels(void **state)
{
    struct gw_exec_opts lanes = {.lanes = 128, .blocks = 1}, few = {.lanes = 4};
    struct gw_exec *exec;
    char err[GW_MODEL_ERR];

    (void)state;
    assert_int_equal(gw_exec_create("cpu", &lanes, &exec), 0);
    assert_int_equal(steps("net espcn", exec, GW_PLAN_GPU_IO), 3);
    assert_int_equal(steps("net espcn clip", exec, GW_PLAN_GPU_IO), 3);
    assert_int_equal(steps("net residual depth to space", exec, GW_PLAN_GPU_IO), 3);
    /* Where tensors may lie in host memory they are copied in one go, but for what is copied in one go
     * anyhow. */
    assert_int_equal(steps("net espcn", exec, 0), 5);
    assert_int_equal(steps("identity", exec, 0), 1);
    gw_exec_destroy(exec);
    /* Kernels that count on 128 threads are not given fewer. */
    assert_int_equal(gw_exec_create("cpu", &few, &exec), 0);
    struct gw_plan_options o = {.place = GW_PLACE_GPU, .exec = exec};
    struct golden m = find("net espcn");
    struct gw_model *model;
    struct gw_plan *plan;
    assert_int_equal(gw_model_open_bytes(m.onnx, m.len, "x", &model, NULL, 0), 0);
    assert_int_equal(gw_plan_create(model, &o, &plan, err, sizeof(err)), -EINVAL);
    assert_non_null(strstr(err, "128 lanes"));
    gw_model_close(model);
    gw_exec_destroy(exec);
}

/* ---- running ---- */

static void test_run(void **state)
{
    struct golden m = find("net resnet");
    struct gw_plan_options o = {.threads = 2};
    struct gw_model *model;
    struct gw_plan *plan;
    float *x = aligned_alloc(64, 3 * 32 * 32 * 4), y[16] __attribute__((aligned(64)));
    const void *in[] = {x}, *bad[] = {(char *)x + 4};
    void *out[] = {y};

    (void)state;
    for (int i = 0; i < 3 * 32 * 32; i++) x[i] = (float)i / 3072;
    assert_int_equal(gw_model_open_bytes(m.onnx, m.len, "x", &model, NULL, 0), 0);
    assert_string_equal(gw_model_kind(model), "onnx");
    assert_null(gw_model_input(model, 1));
    assert_int_equal(gw_plan_create(model, &o, &plan, NULL, 0), 0);
    assert_int_equal(gw_plan_run(plan, bad, out), -EINVAL);
    assert_int_equal(gw_plan_run(plan, in, (void *[]){NULL}), -EINVAL);
    assert_int_equal(gw_plan_enqueue(plan, NULL, in, out), -ENOTSUP);
    for (int i = 0; i < 20; i++) assert_int_equal(gw_plan_run(plan, in, out), 0);
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < 500; i++) assert_int_equal(gw_plan_run(plan, in, out), 0);
    assert_int_equal(mallinfo2().uordblks, before);
    gw_plan_free(plan);
    gw_model_close(model);
    free(x);
}

/* The caller's buffers follow from the rows, so no plan may write more. */
static void test_rows_do_not_fit(void **state)
{
    struct gw_plan_options o = {.rows = 2};
    char path[1024], err[GW_MODEL_ERR] = "";
    struct gw_model *model;
    struct gw_plan *plan;

    (void)state;
    pack_path(path, sizeof(path), 0, "uneven.onnx");
    assert_int_equal(gw_model_open(path, &model, err, sizeof(err)), 0);
    assert_true(gw_model_output(model, 0)->batched);
    assert_int_equal(gw_plan_create(model, &o, &plan, err, sizeof(err)), 0);
    gw_plan_free(plan);
    o.rows = 3;
    assert_int_equal(gw_plan_create(model, &o, &plan, err, sizeof(err)), -ENOTSUP);
    assert_string_equal(err, "plan: 3 rows: output 'y' does not hold one sample for each");
    gw_model_close(model);
}

static int open_goldens(void **state)
{
    (void)state;
    return pack_open(&goldens, "goldens.bin");
}

static int close_goldens(void **state)
{
    (void)state;
    pack_close(&goldens);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena_never_overlaps),
        cmocka_unit_test(test_arena_reuses),
        cmocka_unit_test(test_arena_too_large),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_fused),
        cmocka_unit_test(test_not_fused),
        cmocka_unit_test(test_gpu_kernels),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_rows_do_not_fit),
    };
    return cmocka_run_group_tests(tests, open_goldens, close_goldens);
}
