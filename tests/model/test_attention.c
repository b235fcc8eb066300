/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention as exporters write it becomes one launch in a plan with fp16 or TF32. Its result is that of the
 * plain loops, for each size of a head, whatever the lengths and the batch. It runs on CPU threads, and on
 * a GPU where there is one.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <gpuwire/exec.h>
#include <gpuwire/model.h>

#include "src/model/gpu/plan.h"
#include "src/model/gpu/run.h"
#include "src/model/graph/graph.h"
#include "src/model/graph/move.h"
#include "src/model/graph/msg.h"
#include "src/model/kernels/args.h"
#include "src/model/ref/ref.h"
#include "tests/rnd.h"

struct sizes {
    int32_t batch, heads, length, size;
};

static int value(struct gwm_graph *g, uint32_t rank, const int32_t *d)
{
    struct gwm_shape s = {.rank = rank};

    memcpy(s.d, d, rank * sizeof(*d));
    int v = gwm_value_new(g, "value", GWM_F32, &s);
    assert_true(v >= 0);
    return v;
}

static struct gwm_node *node(struct gwm_graph *g, enum gwm_op op, int a, int b, int out)
{
    const int in[] = {a, b};
    int n = gwm_node_new(g, op, in, b < 0 ? 1 : 2, out);

    assert_true(n >= 0);
    g->node[n].name = g->node[n].type = "node";
    return &g->node[n];
}

static int turn(struct gwm_graph *g, int from, const int32_t d[4], const int32_t perm[4])
{
    const int32_t to[] = {d[perm[0]], d[perm[1]], d[perm[2]], d[perm[3]]};
    int out = value(g, 4, to);
    struct gwm_node *n = node(g, GWM_MOVE, from, -1, out);

    n->mv.move = gwm_alloc(g, sizeof(*n->mv.move));
    gwm_move_permute(n->mv.move, d, 4, perm);
    return out;
}

/* One of the three parts of all[3][length][batch][heads size], with its dimensions turned. */
static int part(struct gwm_graph *g, const struct sizes *s, int all, int64_t which, const int32_t perm[4])
{
    const int32_t one = 1, d[] = {s->length, s->batch, s->heads, s->size};
    struct gwm_shape scalar = {.rank = 1, .d = {1}};
    int index = gwm_value_new(g, "index", GWM_I64, &scalar), out = value(g, 4, d);
    int64_t *data = gwm_alloc(g, sizeof(*data));

    *data = which;
    g->value[index].data = data;
    g->value[index].count = one;
    node(g, GWM_GATHER, all, index, out)->gather =
        (struct gwm_gather){1, 3, gwm_count(&g->value[out].shape), 1};
    return turn(g, out, d, perm);
}

static void product(struct gwm_graph *g, int a, int b, int out, int32_t m, int32_t n, int32_t k)
{
    int32_t products = g->value[out].count / m / n, one = 1, am = m * k, bn = k * n;
    struct gwm_gemm *q = &node(g, GWM_GEMM, a, b, out)->gemm;

    *q = (struct gwm_gemm){.m = m, .n = n, .k = k, .alpha = 1, .products = products};
    q->batch = (struct gwm_broadcast){.rank = one, .dims = {products}, .a = {am}, .b = {bn}};
}

static struct gwm_graph *make(const struct sizes *s)
{
    static const int32_t rows[] = {1, 2, 0, 3}, columns[] = {1, 2, 3, 0}, back[] = {2, 0, 1, 3},
                         split[] = {2, 0, 1, 3};
    const int32_t in[] = {s->length, s->batch, 3, s->heads * s->size}, t = s->length;
    const int32_t score[] = {s->batch, s->heads, t, t}, sum[] = {s->batch, s->heads, t, s->size};
    struct gwm_graph *g = gwm_graph_new((size_t)1 << 28);
    int x = value(g, 4, in), all = turn(g, x, in, split);
    int q = part(g, s, all, 0, rows), k = part(g, s, all, 1, columns), v = part(g, s, all, 2, rows);
    int scores = value(g, 4, score), scaled = value(g, 4, score), weights = value(g, 4, score),
        o = value(g, 4, sum);

    product(g, q, k, scores, t, t, s->size);
    node(g, GWM_UNARY, scores, -1, scaled)->act =
        (struct gwm_act){GWM_ACT_AFFINE, 1 / sqrtf((float)s->size), 0};
    node(g, GWM_SOFTMAX, scaled, -1, weights)->softmax =
        (struct gwm_softmax){s->batch * s->heads * t, t, 1, false};
    product(g, weights, v, o, t, s->size, t);
    g->input[0] = x;
    g->value[x].input = 0;
    g->output[0] = turn(g, o, sum, back);
    g->value[g->output[0]].output = 0;
    g->ninput = g->noutput = 1;
    g->info[0][0].bytes = gwm_bytes(&g->value[x]);
    g->info[1][0].bytes = gwm_bytes(&g->value[g->output[0]]);
    return g;
}

static float *reference(const struct gwm_graph *g, const float *x)
{
    void **at = calloc((size_t)g->nvalue, sizeof(*at));

    for (int i = 0; i < g->nvalue; i++) at[i] = malloc(gwm_bytes(&g->value[i]) + 1);
    memcpy(at[g->input[0]], x, gwm_bytes(&g->value[g->input[0]]));
    for (int i = 0; i < g->nnode; i++) {
        const struct gwm_node *n = &g->node[i];
        const void *in[2] = {at[n->in[0]], n->nin > 1 ? at[n->in[1]] : NULL};
        if (n->op == GWM_GATHER) in[1] = g->value[n->in[1]].data;
        gwm_ref_eval(n, g, in, at[n->out]);
    }
    float *y = at[g->output[0]];
    for (int i = 0; i < g->nvalue; i++)
        if (at[i] != y) free(at[i]);
    free(at);
    return y;
}

static void check(struct gw_exec *exec, const struct sizes *s, uint32_t flag)
{
    struct gwm_graph *g = make(s);
    int32_t in = g->value[g->input[0]].count, out = g->value[g->output[0]].count;
    float *x = malloc((size_t)in * sizeof(*x)), *y = malloc((size_t)out * sizeof(*y)), worst = 0;
    struct gw_plan_options o = {
        .place = GW_PLACE_GPU, .exec = exec, .flags = flag | GW_PLAN_OWN | GW_PLAN_GPU_IO};
    const struct gwm_msg msg = {(char[GW_MODEL_ERR]){""}, GW_MODEL_ERR, "attention"};
    struct gwm_gpu *p = NULL;
    struct gw_plan_stats stats;
    struct rnd r = {11};

    for (int32_t i = 0; i < in; i++) x[i] = (float)rnd_below(&r, 4096) / 1024 - 2;
    float *want = reference(g, x);
    if (gwm_gpu_plan(g, &o, &p, &msg)) fail_msg("%s", msg.text);
    gwm_gpu_stats(p, &stats);
    assert_int_equal(gwm_gpu_run(p, (const void *[]){x}, (void *[]){y}), 0);
    for (int32_t i = 0; i < out; i++) worst = fmaxf(worst, fabsf(y[i] - want[i]));
    printf("%s: %d x %d heads of %d x %d: %u launches, largest difference %.1e\n",
           flag == GW_PLAN_F16 ? "fp16" : "TF32", s->batch, s->heads, s->length, s->size, stats.steps,
           (double)worst);
    assert_true(worst < 4e-3f);
    assert_in_range(stats.steps, 1, 3); /* the input as halves, attention; perhaps a copy */
    gwm_gpu_free(p);
    gwm_graph_free(g);
    free(x);
    free(y);
    free(want);
}

static void check_all(struct gw_exec *exec)
{
    static const struct sizes all[] = {
        {1, 2, 70, 32}, {2, 3, 64, 64}, {3, 1, 17, 80}, {2, 2, 1, 96}, {1, 2, 130, 128}};

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        check(exec, &all[i], GW_PLAN_F16);
        check(exec, &all[i], GW_PLAN_TF32);
    }
}

static void test_threads(void **state)
{
    struct gw_exec_opts o = {.lanes = GWM_CONV_THREADS};
    struct gw_exec *exec;

    (void)state;
    assert_int_equal(gw_exec_create("cpu", &o, &exec), 0);
    check_all(exec);
    gw_exec_destroy(exec);
}

static void test_gpu(void **state)
{
    struct gw_exec *exec;
    char why[256];

    (void)state;
    if (!gw_exec_gpu_available(why, sizeof(why))) skip();
    assert_int_equal(gw_exec_create("gpu", NULL, &exec), 0);
    check_all(exec);
    gw_exec_destroy(exec);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads), cmocka_unit_test(test_gpu)};

    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
