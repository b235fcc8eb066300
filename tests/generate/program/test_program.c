/* SPDX-License-Identifier: Apache-2.0 */
/* Row programs: building one, what the check refuses, what the elements of weights are, and the reference. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/generate/program/program.h"
#include "src/generate/program/reference.h"
#include "tests/generate/random_program.h"

static struct gen_op *find(struct gen_program *p, enum gen_op_kind kind)
{
    for (uint32_t i = 0; i < p->ops; i++)
        if (p->op[i].kind == kind) return p->op + i;
    return NULL;
}

static void all_seeds_pass(void **state)
{
    uint32_t seen = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct gen_program *p = random_program(seed);
        struct random_shape s = random_shape_of(seed);

        if (gen_program_check(p)) fail_msg("seed %u: %s", (unsigned)seed, gw_last_error());
        assert_int_equal(p->layers, s.layers);
        assert_int_equal(p->heads, s.kv_heads);
        assert_int_equal(p->head, s.head > s.value_head ? s.head : s.value_head);
        for (uint32_t i = 0; i < p->ops; i++) seen |= 1u << p->op[i].kind;
        gen_program_free(p);
    }
    assert_int_equal(seen, (1u << (GEN_PICK + 1)) - 1);
}

/* A program with all operators. */
static struct gen_program *whole(void)
{
    struct random_shape s = {
        .layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .head = 8, .value_head = 8};

    s.inner = 48;
    s.vocab = 60;
    s.positions = 64;
    s.format = GEN_Q4;
    s.block = 16;
    s.zeros = s.zeros_are_floats = s.gated = s.biases = s.scaled = s.sinks = true;
    s.half = 4;
    s.cap = s.final_cap = 4;
    return random_program_of(&s, 1);
}

struct fault {
    enum gen_op_kind kind;
    size_t at, size; /* where in its struct gen_op; of how many bytes */
    int64_t value;
    const char *text;
};
#define FAULT(kind, field, value, text)                                                                      \
    {                                                                                                        \
        kind, offsetof(struct gen_op, field), sizeof(((struct gen_op *)0)->field), value, text               \
    }

static const struct fault faults[] = {
    FAULT(GEN_EMBED, out, -1, "it writes no value"),
    FAULT(GEN_EMBED, out, 70000, "it writes no value"),
    FAULT(GEN_NORM, out, 0, "written before"),
    FAULT(GEN_NORM, a.value, -1, "an input is missing"),
    FAULT(GEN_NORM, a.value, 1 << 30, "an input is missing"),
    FAULT(GEN_NORM, a.value, 12, "not written before"),
    FAULT(GEN_LINEAR, a.first, 1, "exceeds its value"),
    FAULT(GEN_LINEAR, a.first, 0xffffffff, "exceeds its value"),
    FAULT(GEN_LINEAR, a.width, 0, "exceeds its value"),
    FAULT(GEN_LINEAR, a.width, 0xffffffff, "exceeds its value"),
    FAULT(GEN_LINEAR, weight.n, 1, "another shape"),
    FAULT(GEN_LINEAR, weight.n, 0, "another shape"),
    FAULT(GEN_LINEAR, weight.k, 31, "another shape"),
    FAULT(GEN_LINEAR, weight.format, 9, "no known format"),
    FAULT(GEN_LINEAR, weight.format, -1, "no known format"),
    FAULT(GEN_LINEAR, weight.block, 0, "blocks must have"),
    FAULT(GEN_LINEAR, weight.block, 24, "blocks must have"),
    FAULT(GEN_LINEAR, weight.data, 0, "missing or not aligned"),
    FAULT(GEN_LINEAR, weight.scale, 0, "scales are missing"),
    FAULT(GEN_LINEAR, weight.scale, 1, "scales are missing"),
    FAULT(GEN_LINEAR, weight.zero, 1, "zeros are not aligned"),
    FAULT(GEN_LINEAR, weight.scale_type, GEN_Q4, "no known type"),
    FAULT(GEN_LINEAR, bias, 2, "not aligned"),
    FAULT(GEN_EMBED, weight.n, 59, "too few rows"),
    FAULT(GEN_EMBED, weight.k, 33, "another shape"),
    FAULT(GEN_EMBED, scale, 0x7fc00000, "no finite number"),
    FAULT(GEN_NORM, segment, 0, "segments do not fit"),
    FAULT(GEN_NORM, segment, 5, "segments do not fit"),
    FAULT(GEN_NORM, epsilon, 0xbf800000, "epsilon"),
    FAULT(GEN_NORM, epsilon, 0x7fc00000, "epsilon"),
    FAULT(GEN_ROTATE, head, 0, "heads do not fit"),
    FAULT(GEN_ROTATE, head, 5, "heads do not fit"),
    FAULT(GEN_ROTATE, half, 0, "more than a head"),
    FAULT(GEN_ROTATE, half, 5, "more than a head"),
    FAULT(GEN_ROTATE, half, 0x80000004, "more than a head"),
    FAULT(GEN_ROTATE, positions, 63, "too few positions"),
    FAULT(GEN_ROTATE, cosine, 0, "numbers are missing"),
    FAULT(GEN_ATTEND, heads, 0, "no multiple"),
    FAULT(GEN_ATTEND, heads, 3, "no multiple"),
    FAULT(GEN_ATTEND, heads, 6, "queries do not fit"),
    FAULT(GEN_ATTEND, kv_heads, 0, "no multiple"),
    FAULT(GEN_ATTEND, kv_heads, 1, "keys do not fit"),
    FAULT(GEN_ATTEND, value_head, 16, "values do not fit"),
    FAULT(GEN_ATTEND, value_head, 0, "no elements"),
    FAULT(GEN_ATTEND, head, 0, "no elements"),
    FAULT(GEN_ATTEND, layer, 1, "has been attended to"),
    FAULT(GEN_ATTEND, layer, 0xffffffff, "no layer of that number"),
    FAULT(GEN_ATTEND, layer, 7, "lacks layer"),
    FAULT(GEN_ATTEND, cap, 0xbf800000, "cap"),
    FAULT(GEN_ATTEND, scale, 0x7f800000, "no finite number"),
    FAULT(GEN_ATTEND, sink, 3, "not aligned"),
    FAULT(GEN_ADD, b.width, 16, "differ in width"),
    FAULT(GEN_MUL, scale, 0x7f800000, "no finite number"),
    FAULT(GEN_GATE, b.value, -1, "an input is missing"),
    FAULT(GEN_GATE, act, 6, "not known"),
    FAULT(GEN_CAP, cap, 0, "cap"),
    FAULT(GEN_PICK, kind, GEN_ACT, "no PICK"),
    FAULT(GEN_CAP, kind, GEN_PICK, "another PICK"),
    FAULT(GEN_CAP, kind, 12, "no known kind"),
    FAULT(GEN_CAP, kind, -1, "no known kind"),
};

/* One wrong number at a time is refused, and the message says which. */
static void faults_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
        struct gen_program *p = whole();
        const struct fault *f = faults + i;

        memcpy((char *)find(p, f->kind) + f->at, &f->value, f->size);
        if (gen_program_check(p) != -EINVAL) fail_msg("fault %zu (%s) was not refused", i, f->text);
        if (!strstr(gw_last_error(), f->text))
            fail_msg("fault %zu: \"%s\" does not say \"%s\"", i, gw_last_error(), f->text);
        gen_program_free(p);
    }
}

static void programs_are_refused(void **state)
{
    struct gen_program *p = gen_program_new();

    (void)state;
    assert_int_equal(gen_program_check(p), -EINVAL);
    assert_int_equal(gen_program_value(p, GEN_PROGRAM_MAX_WIDTH + 1), -E2BIG);
    for (uint32_t i = 0; i < GEN_PROGRAM_MAX_VALUES; i++) assert_int_equal(gen_program_value(p, 1), i);
    assert_int_equal(gen_program_value(p, 1), -E2BIG);
    gen_program_free(p);
    gen_program_free(NULL);

    p = whole();
    p->vocab--;
    assert_int_equal(gen_program_check(p), -EINVAL);
    p->vocab += 2;
    assert_int_equal(gen_program_check(p), -EINVAL);
    p->vocab--;
    p->max_position = 0;
    assert_int_equal(gen_program_check(p), -EINVAL);
    p->max_position = 65; /* the tables have 64 */
    assert_int_equal(gen_program_check(p), -EINVAL);
    p->max_position = 64;
    p->width[3] = 0;
    assert_int_equal(gen_program_check(p), -EINVAL);
    p->width[3] = 32;
    p->logits = 0; /* of all rows */
    assert_int_equal(gen_program_check(p), -EINVAL);
    gen_program_free(p);
}

static void elements(void **state)
{
    static const uint16_t half[] = {0x3c00, 0xc000}, brain[] = {0x3f80, 0xc000}; /* 1, -2 */
    static const uint8_t quants[2][2][8] = {{{0x10, 0x32}, {0xf0}}, {{0x98}, {0x08}}};
    static const float scale[] = {1, 0.5f, 2, 4}, floats[] = {0.5f, 8, 8, 1};
    static const uint8_t zeros[] = {0x53, 0x18};
    struct gen_weight w = {.format = GEN_F16, .n = 1, .k = 2, .data = half};

    (void)state;
    assert_true(gen_weight_at(&w, 0, 0) == 1 && gen_weight_at(&w, 0, 1) == -2);
    assert_int_equal(gen_weight_bytes(&w), 4);
    w.format = GEN_BF16;
    w.data = brain;
    assert_true(gen_weight_at(&w, 0, 0) == 1 && gen_weight_at(&w, 0, 1) == -2);
    w = (struct gen_weight){.format = GEN_Q4, .n = 2, .k = 20, .data = quants, .block = 16, .scale = scale};
    assert_true(gen_weight_at(&w, 0, 0) == -8 && gen_weight_at(&w, 0, 3) == -5);
    assert_true(gen_weight_at(&w, 0, 16) == -4 && gen_weight_at(&w, 0, 17) == 3.5f);
    assert_true(gen_weight_at(&w, 1, 1) == 2 && gen_weight_at(&w, 1, 16) == 0);
    assert_int_equal(gen_weight_bytes(&w), 32 + 16);
    w.zero = zeros;
    assert_true(gen_weight_at(&w, 0, 1) == -2 && gen_weight_at(&w, 0, 17) == 5);
    assert_true(gen_weight_at(&w, 1, 0) == 0 && gen_weight_at(&w, 1, 16) == 28);
    assert_int_equal(gen_weight_bytes(&w), 32 + 16 + 2);
    w.zero = floats;
    w.zero_is_float = true;
    assert_true(gen_weight_at(&w, 0, 1) == 0.5f && gen_weight_at(&w, 1, 17) == -4);
    assert_int_equal(gen_weight_bytes(&w), 32 + 16 + 16);
}

/* The sequence's start does not see its end, and the end sees the start. */
static void reference_is_causal(void **state)
{
    uint32_t token[9] = {5, 7, 1, 3, 3, 9, 2, 8, 4};
    float a[9 * 60], b[9 * 60];
    struct gen_program *p = whole();

    (void)state;
    assert_int_equal(gen_program_check(p), 0);
    assert_int_equal(gen_reference(p, token, 9, GW_DTYPE_F32, a), 0);
    for (int i = 0; i < 9 * 60; i++) assert_true(isfinite(a[i]) && fabsf(a[i]) <= 4);
    assert_int_equal(gen_reference(p, token, 5, GW_DTYPE_F32, b), 0);
    assert_memory_equal(a, b, 5 * 60 * sizeof(*a));
    token[0] = 6;
    assert_int_equal(gen_reference(p, token, 9, GW_DTYPE_F32, b), 0);
    for (int i = 0; i < 9; i++) assert_memory_not_equal(a + 60 * i, b + 60 * i, 60 * sizeof(*a));
    assert_int_equal(gen_reference(p, token, 9, GW_DTYPE_BF16, a), 0);
    for (int i = 0; i < 9 * 60; i++) assert_true(fabsf(a[i] - b[i]) < 0.2f);
    assert_memory_not_equal(a, b, sizeof(a));
    gen_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_seeds_pass),       cmocka_unit_test(faults_are_refused),
        cmocka_unit_test(programs_are_refused), cmocka_unit_test(elements),
        cmocka_unit_test(reference_is_causal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
