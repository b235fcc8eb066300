/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network on CPU threads. Its logits are the reference's, for random programs and steps, in every version
 * of the kernels. They are the same bits, whatever else is in the step and however many threads there are.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/generate/cpu/cpu.h"
#include "src/generate/cpu/kernels.h"
#include "src/generate/program/reference.h"
#include "tests/generate/random_program.h"
#include "tests/generate/steps.h"

static const char *const kernels[] = {"plain", "avx2", "avx512"};

/* Runs all sequences and keeps the logits in s. */
static void run(const struct gen_program *p, const struct gen_cpu_opts *o, struct steps *s, uint32_t length,
                uint64_t seed, uint32_t most_rows, bool alone)
{
    struct gen_net_shape shape;
    struct gen_net net;

    if (gen_cpu_net(p, o, &net)) fail_msg("seed %u: %s", (unsigned)seed, gw_last_error());
    net.ops->shape(net.own, &shape);
    steps_new(s, &shape, 3, length, seed);
    if (net.ops->bind(net.own, NULL, &s->memory)) fail_msg("seed %u: %s", (unsigned)seed, gw_last_error());
    while (steps_next(s, most_rows, alone)) {
        assert_int_equal(gen_cpu_step(&net), 0);
        steps_keep(s);
    }
    net.ops->free(net.own);
}

/* The greatest difference from the reference, as part of the largest logit. */
static double distance(const struct gen_program *p, const struct steps *s)
{
    float *logits = steps_alloc((size_t)s->length * s->vocab, sizeof(*logits));
    double worst = 0, most = 1e-3;

    for (uint32_t lane = 0; lane < s->lanes; lane++) {
        const float *ours = s->logits + (size_t)lane * s->length * s->vocab;

        assert_int_equal(
            gen_reference(p, s->token + (size_t)lane * s->length, s->length, s->memory.cache.dtype, logits),
            0);
        for (size_t i = 0; i < (size_t)s->length * s->vocab; i++) {
            uint32_t bits;

            memcpy(&bits, ours + i, 4);
            if (bits == 0xffffffff) continue; /* it was not wanted */
            if (!isfinite(ours[i])) return INFINITY;
            most = fmax(most, fabs(logits[i]));
            worst = fmax(worst, fabs((double)ours[i] - logits[i]));
        }
    }
    free(logits);
    return worst / most;
}

static void compare(const struct gen_cpu_opts *o, uint64_t seed, uint32_t length, double limit)
{
    struct gen_program *p = random_program(seed);
    struct steps s;
    double far;

    if (gen_program_check(p)) fail_msg("seed %u: %s", (unsigned)seed, gw_last_error());
    run(p, o, &s, length, seed, 1 + (uint32_t)seed % 90, false);
    far = distance(p, &s);
    if (!(far < limit))
        fail_msg("seed %u, %s, %u threads: off by %g", (unsigned)seed, o->kernels, o->threads, far);
    steps_free(&s);
    gen_program_free(p);
}

static void equals_reference(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 3; k++) {
        if (!gen_cpu_kernels(kernels[k])) continue;
        for (uint64_t seed = 0; seed < 25; seed++) {
            struct gen_cpu_opts o = {
                .threads = 1 + (uint32_t)seed % 4, .max_rows = 100, .kernels = kernels[k]};

            compare(&o, seed, 20 + (uint32_t)seed % 41, 2e-5);
        }
    }
}

static void narrow_caches(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 110; seed++) {
        struct gen_cpu_opts o = {.threads = 2, .max_rows = 64, .kernels = kernels[seed % 3]};

        if (!gen_cpu_kernels(o.kernels)) continue;
        o.dtype = seed % 2 ? GW_DTYPE_F16 : GW_DTYPE_BF16;
        compare(&o, seed, 40, seed % 2 ? 2e-3 : 1e-2);
    }
}

/* Runs one row at a time on one thread, then any mixture on several, which stays in *many. The logits must be
 * the same bits. Returns how many were compared. */
static uint32_t compare_bits(const struct gen_program *p, const struct gen_cpu_opts *o, uint32_t length,
                             uint64_t seed, struct steps *many)
{
    struct gen_cpu_opts one = {.threads = 1, .max_rows = 1, .dtype = o->dtype, .kernels = o->kernels};
    struct steps alone;
    uint32_t same = 0;

    run(p, &one, &alone, length, seed, 1, true);
    run(p, o, many, length, seed, o->max_rows, false);
    for (size_t i = 0; i < (size_t)alone.lanes * length; i++) {
        const float *x = alone.logits + i * alone.vocab, *y = many->logits + i * alone.vocab;
        uint32_t bits;

        memcpy(&bits, y, 4);
        if (bits == 0xffffffff) continue; /* it was not wanted */
        if (memcmp(x, y, alone.vocab * sizeof(*x)))
            fail_msg("seed %u, %s: the logits of position %zu differ", (unsigned)seed, o->kernels,
                     i % length);
        same++;
    }
    steps_free(&alone);
    return same;
}

static void same_bits(void **state)
{
    uint32_t same = 0;

    (void)state;
    for (uint64_t seed = 300; seed < 330; seed++) {
        struct gen_cpu_opts o = {.threads = 2 + seed % 3, .max_rows = 70, .kernels = kernels[seed % 3]};
        struct gen_program *p = random_program(seed);
        struct steps s;

        if (!gen_cpu_kernels(o.kernels)) o.kernels = "plain";
        if (seed % 5 == 0) o.dtype = GW_DTYPE_F16;
        assert_int_equal(gen_program_check(p), 0);
        same += compare_bits(p, &o, 50, seed, &s);
        steps_free(&s);
        gen_program_free(p);
    }
    assert_true(same > 300);
}

/* More than two stretches of positions, windows that begin anywhere, and steps of up to 300 rows. */
static void long_sequences(void **state)
{
    (void)state;
    for (uint64_t seed = 200; seed < 203; seed++) {
        struct random_shape shape = random_shape_of(seed);
        struct gen_cpu_opts o = {.threads = 2, .max_rows = 300};
        struct gen_program *p;
        struct steps s;
        double far;

        shape.hidden = 48;
        shape.inner = 64;
        shape.vocab = 64;
        shape.layers = 2;
        shape.window = seed % 2 ? 0 : 150;
        p = random_program_of(&shape, seed);
        assert_int_equal(gen_program_check(p), 0);
        assert_true(compare_bits(p, &o, 400, seed, &s) > 10);
        far = distance(p, &s);
        if (!(far < 2e-5)) fail_msg("seed %u: off by %g", (unsigned)seed, far);
        steps_free(&s);
        gen_program_free(p);
    }
}

struct turn {
    struct gw_loop *loop;
    struct steps s;
};

/* The common stage: keeps what the last step made, and composes the next one. */
static int next_turn(void *ctx)
{
    struct turn *t = ctx;

    steps_keep(&t->s);
    if (steps_next(&t->s, 20, false))
        gw_loop_pick(gw_loop_ctl(t->loop), 1);
    else
        gw_loop_stop(t->loop);
    return 0;
}

static void runs_in_a_loop(void **state)
{
    struct gen_cpu_opts o = {.threads = 3, .max_rows = 40};
    struct gen_program *p = random_program(7);
    struct gw_loop_stage stage = {.name = "turn", .run = next_turn};
    struct gen_net_shape shape;
    struct gw_exec *exec;
    struct gen_net net;
    struct turn t;

    (void)state;
    assert_int_equal(gen_program_check(p), 0);
    assert_int_equal(gw_exec_create("cpu", NULL, &exec), 0);
    assert_int_equal(gw_loop_create(exec, NULL, &t.loop), 0);
    assert_int_equal(gen_cpu_net(p, &o, &net), 0);
    net.ops->shape(net.own, &shape);
    steps_new(&t.s, &shape, 3, 50, 7);
    assert_int_equal(net.ops->bind(net.own, exec, &t.s.memory), 0);
    stage.ctx = &t;
    assert_int_equal(gw_loop_add(t.loop, &stage), 0);
    assert_int_equal(net.ops->add(net.own, t.loop, 1, 39), -EINVAL);
    assert_int_equal(net.ops->add(net.own, t.loop, 1, 40), 0);
    assert_int_equal(gw_loop_start(t.loop), 0);
    assert_int_equal(gw_loop_wait(t.loop, gw_deadline(UINT64_C(100000000000)), NULL), 0);
    assert_int_equal(gw_loop_destroy(t.loop), 0);
    assert_true(t.s.at[0] == 50 && t.s.at[1] == 50 && t.s.at[2] == 50);
    assert_true(distance(p, &t.s) < 2e-5);
    net.ops->free(net.own);
    gw_exec_destroy(exec);
    steps_free(&t.s);
    gen_program_free(p);
}

static void wrong_memory_is_refused(void **state)
{
    struct gen_cpu_opts o = {.threads = 1, .max_rows = 8};
    struct gen_program *p = random_program(1);
    struct gen_net_shape shape;
    struct gen_net net;
    struct steps s;

    (void)state;
    assert_int_equal(gen_program_check(p), 0);
    o.kernels = "sse9";
    assert_int_equal(gen_cpu_net(p, &o, &net), -ENOTSUP);
    o.kernels = NULL;
    o.dtype = GW_DTYPE_I8;
    assert_int_equal(gen_cpu_net(p, &o, &net), -EINVAL);
    o.dtype = 0;
    o.max_rows = GEN_MAX_ROWS + 1;
    assert_int_equal(gen_cpu_net(p, &o, &net), -EINVAL);
    o.max_rows = 8;
    assert_int_equal(gen_cpu_net(p, &o, &net), 0);
    assert_non_null(strstr(gen_cpu_name(&net), "1 thread"));
    net.ops->shape(net.own, &shape);
    assert_int_equal(net.ops->add(net.own, NULL, 1, 8), -EINVAL); /* not bound */
    steps_new(&s, &shape, 2, 20, 1);
    s.memory.cache.layers--;
    assert_int_equal(net.ops->bind(net.own, NULL, &s.memory), -EINVAL);
    s.memory.cache.layers++;
    s.memory.logit_stride = s.vocab - 1;
    assert_int_equal(net.ops->bind(net.own, NULL, &s.memory), -EINVAL);
    s.memory.logit_stride = s.vocab;
    s.step.max_rows = 9;
    assert_int_equal(net.ops->bind(net.own, NULL, &s.memory), -EINVAL);
    s.step.max_rows = 8;
    assert_int_equal(net.ops->bind(net.own, NULL, &s.memory), 0);
    s.step.rows = 0;
    assert_int_equal(gen_cpu_step(&net), 0);
    net.ops->free(net.own);
    net.ops->free(NULL);
    steps_free(&s);
    gen_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_reference), cmocka_unit_test(narrow_caches),
        cmocka_unit_test(long_sequences),   cmocka_unit_test(same_bits),
        cmocka_unit_test(runs_in_a_loop),   cmocka_unit_test(wrong_memory_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
