/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network on a GPU against the meaning of programs: steps of any mixture of rows, in all types, by
 * kernels of all sizes. On CPU threads the same kernels run, with tensor cores that are made of exchanges.
 */
#include <errno.h>

#include "tests/generate/gpu/rig.h"
#include "tests/generate/gpu/turn_kernels.h"

#include "examples/options.h"
#include "tests/generate/random_program.h"

static struct gw_exec *exec;

/* How far logits may be from the reference's, which rounds nothing but the cache. */
static double tolerance(uint32_t type)
{
    return type == GW_DTYPE_F32 ? 2e-4 : type == GW_DTYPE_F16 ? 1e-2 : 6e-2;
}

/* What is compared: of texts of that number of tokens. A prompt fills all but the last few. */
struct plan {
    uint32_t type, cache, lanes, tokens, keep;
};

static void compare(struct gen_program *p, const struct plan *q, uint64_t seed)
{
    static const uint32_t size[] = {1, 8, 16, 32, 64};
    struct gen_gpu_options o = {
        .exec = exec, .type = q->type, .cache_type = q->cache, .size = size, .sizes = 5};
    struct rig r = {.tokens = q->tokens, .lanes = q->lanes};

    rig_must(gen_program_check(p), "gen_program_check");
    rig_open(&r, p, &o, seed + 1);
    gen_program_free(p); /* the network has copied it */
    while (q->keep && rig_go(&r, RIG_ROWS, q->keep)) {
    }
    for (uint32_t i = 0; rig_go(&r, r.shape.size[q->keep ? i % 2 * 5 : (seed + i) % r.shape.sizes], 0);)
        i += 1 + i % 2;
    if (!(r.worst <= tolerance(q->type)))
        fail_msg("seed %u, type %u, cache %u: logits are off by %g", (unsigned)seed, q->type, q->cache,
                 r.worst);
    assert_true(rig_untouched(&r));
    rig_close(&r);
}

/* Small enough for CPU threads. */
static struct random_shape small_shape(uint64_t seed)
{
    struct random_shape s = random_shape_of(seed);

    s.layers = 1 + (uint32_t)(seed % 2);
    s.hidden = 16 + s.hidden % 48 / 8 * 8;
    s.inner = s.inner % 64 + 16;
    s.vocab = s.vocab % 64 + 20;
    if (s.heads > 4) s.heads = s.kv_heads = 2;
    return s;
}

static void any_program(void **state)
{
    static const uint32_t types[] = {GW_DTYPE_F16, GW_DTYPE_F32, GW_DTYPE_BF16};

    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) { /* one of each type */
        struct random_shape s = small_shape(seed);
        struct plan q = {.type = types[seed % 3], .tokens = 7};
        q.cache = seed % 5 == 4 ? types[(seed + 1) % 3] : q.type;
        compare(random_program_of(&s, seed), &q, seed);
    }
}

/* Texts of several pages; heads of all sizes, windows, caps, sinks, and many heads with the same keys. */
static void attention(void **state)
{
    static const uint32_t head[] = {16, 64, 80, 96, 128, 256, 24};
    static const uint32_t heads[] = {1, 4, 3, 2, 1, 1, 18};

    (void)state;
    for (uint64_t i = 0; i < 7; i++) {
        struct random_shape s = {
            .layers = 2, .hidden = 16, .inner = 16, .vocab = 24, .positions = RIG_TOKENS};
        struct plan q = {.type = i % 2 ? GW_DTYPE_BF16 : GW_DTYPE_F16, .lanes = 2, .tokens = 34, .keep = 2};
        s.kv_heads = 1 + (i == 1);
        s.heads = heads[i] * s.kv_heads;
        s.head = s.value_head = head[i];
        s.half = s.head / 2;
        s.block = 16;
        s.window = 21;
        s.sinks = i % 3 == 1;
        s.cap = i % 3 == 2 ? 4 : 0;
        q.cache = q.type;
        compare(random_program_of(&s, i), &q, i);
    }
}

/* More than 16 heads with the same keys, on tensor cores. */
static void groups(void **state)
{
    struct random_shape s = {.layers = 1, .hidden = 16, .heads = 20, .kv_heads = 1, .head = 16, .half = 8};
    struct plan q = {.type = GW_DTYPE_F16, .cache = GW_DTYPE_F16, .lanes = 2, .tokens = 40, .keep = 3};

    (void)state;
    s.value_head = 16;
    s.inner = s.block = 16;
    s.vocab = 24;
    s.positions = RIG_TOKENS;
    compare(random_program_of(&s, 5), &q, 5);
}

/* Sums over many columns: each warp has several slices, and the last one is short. */
static void long_sums(void **state)
{
    static const uint32_t blocks[] = {0, 16, 128};

    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        struct random_shape s = {
            .layers = 1, .hidden = 1400, .heads = 1, .kv_heads = 1, .head = 16, .half = 8};
        struct plan q = {.type = i == 1 ? GW_DTYPE_BF16 : GW_DTYPE_F16, .lanes = 2, .tokens = 2};
        s.value_head = 16;
        s.inner = 16;
        s.vocab = 24;
        s.positions = RIG_TOKENS;
        s.packed = true;
        s.format = i ? GEN_Q4 : GEN_BF16;
        s.block = i ? blocks[i] : 16;
        s.scale_type = GEN_F16;
        s.zeros = s.zeros_are_floats = i == 2;
        q.cache = q.type;
        compare(random_program_of(&s, i), &q, i);
    }
}

/* A lane alone, a token at a time; then with others, in steps of all sizes: the same bits. */
static void same_bits_of(uint32_t type, uint32_t tokens)
{
    static const uint32_t size[] = {1, 8, 16, 32};
    struct random_shape s = {.layers = 2, .hidden = 24, .heads = 2, .kv_heads = 1, .head = 64, .half = 32};
    float *first;

    s.value_head = 64;
    s.inner = s.block = 16;
    s.vocab = 24;
    s.positions = RIG_TOKENS;
    first = malloc(tokens * s.vocab * sizeof(float));
    for (uint32_t again = 0; again < 2; again++) {
        struct gen_gpu_options o = {.exec = exec, .type = type, .size = size, .sizes = 4, .same = true};
        struct rig r = {.tokens = tokens, .lanes = again ? 3 : 1, .first = first, .again = again};
        struct gen_program *p = random_program_of(&s, 9);
        rig_must(gen_program_check(p), "gen_program_check");
        rig_open(&r, p, &o, 9);
        gen_program_free(p);
        for (uint32_t i = 0; rig_go(&r, again ? r.shape.size[i % r.shape.sizes] : 1, 0);) i++;
        assert_true(r.worst <= tolerance(type));
        assert_int_equal(r.different, 0);
        assert_true(!again || r.equal > 2);
        rig_close(&r);
    }
    free(first);
}

static void same_bits(void **state)
{
    (void)state;
    same_bits_of(GW_DTYPE_F32, 44);
    same_bits_of(GW_DTYPE_F16, 17);
}

/* Steps that are made before the loop begins; its turn takes one after another. */
enum { TURNS = 14 };
struct turns {
    struct gen_step step[TURNS];
    uint32_t variant[TURNS], at;
    uint32_t token[TURNS][RIG_ROWS], position[TURNS][RIG_ROWS], lane[TURNS][RIG_ROWS];
    uint32_t out[TURNS][RIG_LANES];
    struct gen_run run[TURNS][RIG_ROWS];
};

static void *seen_by(const struct gw_mem *m, const void *host)
{
    return (char *)m->dev + ((const char *)host - (const char *)m->host);
}

/* Step i, for any of the sizes; false: there are no tokens left. */
static bool turns_make(struct rig *r, const struct gw_mem *m, uint32_t i)
{
    struct turns *t = m->host;
    uint32_t which = i % r->shape.sizes;

    rig_compose(r, r->shape.size[which], 0);
    memcpy(t->token[i], r->token, sizeof(t->token[i]));
    memcpy(t->position[i], r->position, sizeof(t->position[i]));
    memcpy(t->lane[i], r->lane, sizeof(t->lane[i]));
    memcpy(t->out[i], r->out, sizeof(t->out[i]));
    memcpy(t->run[i], r->run, sizeof(t->run[i]));
    t->variant[i] = which + 1;
    t->step[i] = *r->step;
    t->step[i].size = r->shape.size[which];
    t->step[i].token = seen_by(m, t->token[i]);
    t->step[i].position = seen_by(m, t->position[i]);
    t->step[i].lane = seen_by(m, t->lane[i]);
    t->step[i].out = seen_by(m, t->out[i]);
    t->step[i].run = seen_by(m, t->run[i]);
    return r->step->rows > 0;
}

/* Looks at what step i has made. */
static void turns_check(struct rig *r, const struct turns *t, uint32_t i, const float *kept)
{
    r->step->outs = t->step[i].outs;
    memcpy(r->position, t->position[i], sizeof(t->position[i]));
    memcpy(r->lane, t->lane[i], sizeof(t->lane[i]));
    memcpy(r->out, t->out[i], sizeof(t->out[i]));
    memcpy(r->logits.host, kept, RIG_LANES * r->at.logit_stride * sizeof(float));
    rig_check(r);
}

/* All steps by a loop with a variant for each size. */
static void turns_run(struct rig *r, const struct turn_args *args)
{
    struct turn_args a = *args;
    struct gw_loop_stage stage = {.kernel = &turn_kernel, .grid = 1, .block = 32, .arg = &a};
    struct gw_loop *loop;
    struct gw_loop_end end;

    rig_must(gw_loop_create(exec, NULL, &loop), "gw_loop_create");
    a.ctl = gw_loop_ctl(loop);
    rig_must(gw_loop_add(loop, &stage), "gw_loop_add");
    for (uint32_t i = 0; i < r->shape.sizes; i++)
        rig_must(r->net.ops->add(r->net.own, loop, i + 1, r->shape.size[i]), "add");
    assert_int_equal(r->net.ops->add(r->net.own, loop, 1, 3), -EINVAL); /* there is no such size */
    rig_must(gw_loop_start(loop), "gw_loop_start");
    rig_must(gw_loop_wait(loop, gw_deadline(UINT64_C(600000000000)), &end), "gw_loop_wait");
    assert_int_equal(end.error, TURN_END);
    rig_must(gw_loop_destroy(loop), "gw_loop_destroy");
}

/* The stages of each size are a variant of a loop, which the GPU launches itself. */
static void in_a_loop(void **state)
{
    struct random_shape s = small_shape(3);
    struct gen_gpu_options o = {.exec = exec, .type = GW_DTYPE_F16};
    struct rig r = {.tokens = 8, .lanes = 4};
    struct turn_args a = {0};
    struct gw_mem list, kept;
    struct gen_program *p = random_program_of(&s, 3);

    (void)state;
    rig_must(gen_program_check(p), "gen_program_check");
    rig_open(&r, p, &o, 3);
    gen_program_free(p);
    a.floats = RIG_LANES * r.at.logit_stride;
    rig_must(gw_mem_alloc(exec, GW_MEM_HOST, sizeof(struct turns), &list), "memory");
    rig_must(gw_mem_alloc(exec, GW_MEM_HOST, TURNS * a.floats * sizeof(float), &kept), "memory");
    struct turns *t = list.host;
    while (a.n < TURNS && turns_make(&r, &list, a.n)) a.n++;
    assert_in_range(a.n, 4, TURNS);
    a.step = r.at.step, a.list = list.dev, a.variant = seen_by(&list, t->variant);
    a.at = seen_by(&list, &t->at);
    a.logits = r.at.logits, a.kept = kept.dev;
    turns_run(&r, &a);
    for (uint32_t i = 0; i < a.n; i++) turns_check(&r, t, i, (const float *)kept.host + (size_t)i * a.floats);
    assert_true(r.worst > 0 && r.worst <= tolerance(GW_DTYPE_F16));
    gw_mem_free(&list);
    gw_mem_free(&kept);
    rig_close(&r);
}

/* Options, and memory of another shape. */
static void refused(void **state)
{
    struct random_shape s = small_shape(3);
    struct gen_program *p = random_program_of(&s, 3);
    struct gen_gpu_options o = {.exec = exec, .max_rows = 8, .lanes = 4}, bad;
    struct gen_net_memory m = {0};
    struct gen_net net;
    static const uint32_t falls[] = {4, 2};

    (void)state;
    rig_must(gen_program_check(p), "gen_program_check");
    bad = o, bad.max_rows = GEN_MAX_ROWS + 1;
    assert_int_equal(gen_gpu_net(p, &bad, &net), -EINVAL);
    bad = o, bad.lanes = 0;
    assert_int_equal(gen_gpu_net(p, &bad, &net), -EINVAL);
    bad = o, bad.type = GW_DTYPE_I32;
    assert_int_equal(gen_gpu_net(p, &bad, &net), -EINVAL);
    bad = o, bad.size = falls, bad.sizes = 2;
    assert_int_equal(gen_gpu_net(p, &bad, &net), -EINVAL);
    rig_must(gen_gpu_net(p, &o, &net), "gen_gpu_net");
    assert_int_equal(gen_gpu_enqueue(&net, 8, NULL), -EINVAL); /* not bound */
    assert_int_equal(net.ops->bind(net.own, exec, &m), -EINVAL);
    net.ops->free(net.own);
    for (uint32_t i = 0; i < p->ops; i++)
        if (p->op[i].kind == GEN_ATTEND) p->op[i].head = 256 + 1;
    assert_int_equal(gen_gpu_net(p, &o, &net), -EINVAL);
    gen_program_free(p);
}

static int setup(void **state)
{
    (void)state;
    exec = test_exec();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return gw_exec_destroy(exec);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_program), cmocka_unit_test(attention),
                                       cmocka_unit_test(groups),      cmocka_unit_test(long_sums),
                                       cmocka_unit_test(same_bits),   cmocka_unit_test(in_a_loop),
                                       cmocka_unit_test(refused)};

    test_exec_opts.lanes = GEN_GPU_LANES;
    test_exec_opts.blocks = 2; /* of 128 threads each */
    test_options(argc, argv);
    if (test_pattern) cmocka_set_test_filter(test_pattern);
    return cmocka_run_group_tests(tests, setup, teardown);
}
