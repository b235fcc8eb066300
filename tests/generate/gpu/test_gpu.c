/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network on a GPU against the meaning of programs: steps of any mixture of rows, in all types, by
 * kernels of all sizes. On CPU threads the same kernels run, with tensor cores that are made of exchanges.
 */
#include "tests/generate/gpu/rig.h"

#include "examples/options.h"
#include "tests/generate/random_program.h"

static struct gw_exec *exec;

/* How far logits may be from the reference's, which rounds nothing but the cache. */
static double tolerance(uint32_t type)
{
    return type == GW_DTYPE_F32 ? 2e-4 : type == GW_DTYPE_F16 ? 1e-2 : 6e-2;
}

static void compare(struct gen_program *p, uint32_t type, uint32_t cache, uint64_t seed, uint32_t tokens)
{
    static const uint32_t size[] = {1, 8, 16, 32, 64};
    struct gen_gpu_options o = {.exec = exec, .type = type, .cache_type = cache, .size = size, .sizes = 5};
    struct rig r = {.tokens = tokens};

    rig_must(gen_program_check(p), "gen_program_check");
    rig_open(&r, p, &o, seed + 1);
    gen_program_free(p); /* the network has copied it */
    for (uint32_t i = 0; rig_go(&r, r.shape.size[(seed + i) % r.shape.sizes]);) i += 1 + i % 2;
    if (!(r.worst <= tolerance(type)))
        fail_msg("seed %u, type %u, cache %u: logits are off by %g", (unsigned)seed, type, cache, r.worst);
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
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct random_shape s = small_shape(seed);
        uint32_t type = types[seed % 3], cache = seed % 5 == 4 ? types[(seed + 1) % 3] : type;
        compare(random_program_of(&s, seed), type, cache, seed, 14);
    }
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_program)};

    test_exec_opts.lanes = GEN_GPU_LANES;
    test_exec_opts.blocks = 2; /* of 128 threads each */
    test_options(argc, argv);
    if (test_pattern) cmocka_set_test_filter(test_pattern);
    return cmocka_run_group_tests(tests, setup, teardown);
}
