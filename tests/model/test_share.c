/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans whose memory is the caller's: the results are the same, to the bit, also after the weights have come
 * back in other memory. And plans of one model for several batch sizes, which keep one copy of the constants.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include <gpuwire/exec.h>
#include <gpuwire/model.h>

#include "src/model/inside.h"
#include "tests/model/pack.h"

#define RANGE ((size_t)64 << 20)

/* A range of addresses, of which the first bytes are there. On a GPU all of them are. */
struct range {
    char *at;
    uint64_t backed;
    struct gw_mem gpu;
    int calls, fails; /* fails: `back` has no more memory from the fails-th call on */
};

static int back(void *ctx, uint64_t bytes)
{
    struct range *r = ctx;

    if (++r->calls == r->fails) return -ENOSPC;
    if (bytes <= r->backed) return 0;
    r->backed = (bytes + 4095) / 4096 * 4096;
    return r->gpu.exec || !mprotect(r->at, r->backed, PROT_READ | PROT_WRITE) ? 0 : -errno;
}

static struct gw_range range_new(struct range *r, struct gw_exec *exec)
{
    memset(r, 0, sizeof(*r));
    if (exec && gw_exec_kind(exec) == GW_EXEC_GPU) {
        assert_int_equal(gw_mem_alloc(exec, GW_MEM_DEVICE, RANGE, &r->gpu), 0);
        r->at = r->gpu.dev;
    } else {
        r->at = mmap(NULL, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_true(r->at != MAP_FAILED);
    }
    return (struct gw_range){.at = r->at, .most = RANGE, .back = back, .ctx = r};
}

static void range_free(struct range *r)
{
    if (r->gpu.exec)
        gw_mem_free(&r->gpu);
    else
        munmap(r->at, RANGE);
}

static void range_read(const struct range *r, void *to, size_t bytes)
{
    if (r->gpu.exec)
        assert_int_equal(gw_copy_out(r->gpu.exec, to, r->at, bytes), 0);
    else
        memcpy(to, r->at, bytes);
}

/* Other memory comes there, with this content at its beginning. On a GPU it stays the same memory. */
static void range_again(struct range *r, const void *content, size_t bytes, int fill)
{
    char *all = memset(malloc(r->backed + 1), fill, r->backed);

    memcpy(all, content, bytes);
    if (r->gpu.exec) {
        assert_int_equal(gw_copy_in(r->gpu.exec, r->at, all, r->backed), 0);
    } else {
        void *fresh =
            mmap(r->at, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        assert_true(fresh == r->at);
        assert_int_equal(mprotect(r->at, r->backed, PROT_READ | PROT_WRITE), 0);
        memcpy(r->at, all, r->backed);
    }
    free(all);
}

struct sample {
    char name[128];
    const void *onnx;
    size_t len;
    uint32_t nin, nout, rows;
    struct pack_tensor in[16], out[16];
};

static void read_sample(struct pack *p, struct sample *s)
{
    pack_text(p, s->name, sizeof(s->name));
    s->onnx = pack_blob(p, &s->len);
    s->nin = pack_u32(p);
    for (uint32_t i = 0; i < s->nin; i++) pack_tensor(p, &s->in[i]);
    s->rows = strncmp(s->name, "net rows", 8) ? 1 : s->in[0].dims[0];
    s->nout = pack_u32(p);
    for (uint32_t i = 0; i < s->nout; i++) pack_tensor(p, &s->out[i]);
}

static void free_sample(struct sample *s)
{
    for (uint32_t i = 0; i < s->nin; i++) free(s->in[i].data);
    for (uint32_t i = 0; i < s->nout; i++) free(s->out[i].data);
}

static void run(struct gw_plan *plan, const struct sample *s, void *got[])
{
    const void *in[16];

    for (uint32_t i = 0; i < s->nin; i++) in[i] = s->in[i].data;
    for (uint32_t i = 0; i < s->nout; i++) memset(got[i], 0xee, s->out[i].bytes);
    assert_int_equal(gw_plan_run(plan, in, got), 0);
}

static void same(const struct sample *s, void *const want[], void *const got[], const char *when)
{
    for (uint32_t i = 0; i < s->nout; i++)
        if (memcmp(want[i], got[i], s->out[i].bytes)) fail_msg("%s: other results %s", s->name, when);
}

/* One sample: alone, with given memory, and with given memory that went and came. */
static void check_sample(const struct sample *s, struct gw_exec *exec)
{
    struct gw_plan_options o = {
        .place = exec ? GW_PLACE_GPU : GW_PLACE_CPU, .exec = exec, .rows = s->rows, .flags = GW_PLAN_GPU_IO};
    struct range w, a;
    struct gw_range weights = range_new(&w, exec), arena = range_new(&a, exec);
    struct gw_plan *alone, *given, *more;
    struct gw_plan_stats stats;
    struct gw_model *m;
    void *want[16], *got[16];

    for (uint32_t i = 0; i < s->nout; i++) {
        want[i] = aligned_alloc(64, (s->out[i].bytes + 64) / 64 * 64);
        got[i] = aligned_alloc(64, (s->out[i].bytes + 64) / 64 * 64);
    }
    assert_int_equal(gw_model_open_bytes(s->onnx, s->len, s->name, &m, NULL, 0), 0);
    assert_int_equal(gw_plan_create(m, &o, &alone, NULL, 0), 0);
    gw_plan_stats(alone, &stats);
    assert_int_equal(stats.shares, 0);
    assert_int_equal(gw_weights_create(&weights, &o.weights), 0);
    assert_int_equal(gw_plan_arena_create(&arena, &o.arena), 0);
    assert_int_equal(gw_plan_create(m, &o, &given, NULL, 0), 0);
    gw_plan_stats(given, &stats);
    assert_int_equal(stats.shares, GW_PLAN_SHARES_WEIGHTS | GW_PLAN_SHARES_ARENA);
    run(alone, s, want);
    run(given, s, got);
    same(s, want, got, "with given memory");
    size_t bytes = gw_weights_bytes(o.weights);
    char *image = malloc(bytes + 1);
    range_read(&w, image, bytes);
    range_again(&w, image, bytes, 0xaa);
    range_again(&a, image, 0, 0xbb);
    run(given, s, got);
    same(s, want, got, "when the weights are back");
    free(image);
    assert_int_equal(gwm_model_slim(m, (struct gw_plan *[]){alone, given}, 2), 0);
    run(alone, s, got);
    same(s, want, got, "when constants have gone");
    run(given, s, got);
    same(s, want, got, "when constants have gone, with given memory");
    assert_int_equal(gw_plan_create(m, &o, &more, NULL, 0), -EINVAL);
    gw_plan_free(alone);
    gw_plan_free(given);
    gw_weights_free(o.weights);
    gw_plan_arena_free(o.arena);
    gw_model_close(m);
    for (uint32_t i = 0; i < s->nout; i++) {
        free(want[i]);
        free(got[i]);
    }
    range_free(&w);
    range_free(&a);
}

static int check_pack(const char *name, const char *only, struct gw_exec *exec)
{
    struct pack p;
    int n = 0;

    assert_int_equal(pack_open(&p, name), 0);
    while (p.at < p.len) {
        static struct sample s;
        read_sample(&p, &s);
        if (!only || strstr(s.name, only)) {
            check_sample(&s, exec);
            n++;
        }
        free_sample(&s);
    }
    pack_close(&p);
    return n;
}

static void test_cpu(void **state)
{
    (void)state;
    assert_true(check_pack("goldens.bin", NULL, NULL) > 20);
    assert_true(check_pack("operators.bin", NULL, NULL) > 20);
}

/* The GPU's kernels, on CPU threads. */
static void test_kernels(void **state)
{
    struct gw_exec_opts lanes = {.lanes = 128, .blocks = 1};
    struct gw_exec *exec;

    (void)state;
    assert_int_equal(gw_exec_create("cpu", &lanes, &exec), 0);
    assert_true(check_pack("goldens.bin", "net espcn", exec) > 1);
    assert_true(check_pack("operators.bin", "net rows", exec) > 0);
    gw_exec_destroy(exec);
}

/* On a GPU; there is one if main says so. */
static void test_gpu(void **state)
{
    struct gw_exec *exec;

    (void)state;
    assert_int_equal(gw_exec_create("gpu", NULL, &exec), 0);
    assert_true(check_pack("goldens.bin", "net", exec) > 5);
    gw_exec_destroy(exec);
}

static struct gw_model *open_data(const char *name)
{
    char path[1024], err[GW_MODEL_ERR] = "";
    struct gw_model *m;

    pack_path(path, sizeof(path), 0, name);
    if (gw_model_open(path, &m, err, sizeof(err))) fail_msg("%s", err);
    return m;
}

/* Five batch sizes: the constants of one, and what another layout needs. */
static void test_one_copy(void **state)
{
    struct gw_model *m = open_data("mlp.onnx");
    struct gw_plan *plan[5];
    struct gw_plan_stats s;
    struct gw_plan_options o = {0};
    uint64_t alone = 0, arena = 0, first = 0;

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        o.rows = 16u >> i;
        assert_int_equal(gw_plan_create(m, &o, &plan[i], NULL, 0), 0);
        gw_plan_stats(plan[i], &s);
        alone += s.weight_bytes;
        gw_plan_free(plan[i]);
    }
    assert_int_equal(gw_weights_create(NULL, &o.weights), 0);
    assert_int_equal(gw_plan_arena_create(NULL, &o.arena), 0);
    for (uint32_t i = 0; i < 5; i++) {
        o.rows = 16u >> i;
        assert_int_equal(gw_plan_create(m, &o, &plan[i], NULL, 0), 0);
        gw_plan_stats(plan[i], &s);
        arena += s.arena_bytes;
        if (!i) first = s.arena_bytes;
    }
    printf("measured: %llu bytes of constants for five batch sizes, %llu in one copy of each\n",
           (unsigned long long)alone, (unsigned long long)gw_weights_bytes(o.weights));
    assert_true(gw_weights_bytes(o.weights) * 2 < alone);
    assert_int_equal(arena, first); /* the largest one's is enough for all */
    for (uint32_t i = 0; i < 5; i++) gw_plan_free(plan[i]);
    gw_weights_free(o.weights);
    gw_plan_arena_free(o.arena);
    gw_model_close(m);
}

/* A plan that cannot be made leaves the weights as they were; one that can be made follows. */
static void test_no_room(void **state)
{
    struct gw_model *m = open_data("mlp.onnx");
    struct range w;
    struct gw_range weights = range_new(&w, NULL), small = {.at = w.at, .most = 256}, odd = {.at = w.at + 8};
    struct gw_plan_options o = {.rows = 2};
    struct gw_plan *plan = NULL;

    (void)state;
    assert_int_equal(gw_weights_create(&odd, &o.weights), -EINVAL);
    assert_int_equal(gw_plan_arena_create(&odd, &o.arena), -EINVAL);
    w.fails = 2;
    assert_int_equal(gw_weights_create(&weights, &o.weights), 0);
    assert_int_equal(gw_plan_create(m, &o, &plan, NULL, 0), -ENOSPC);
    assert_int_equal(gw_weights_bytes(o.weights), 0);
    assert_int_equal(gw_plan_create(m, &o, &plan, NULL, 0), 0);
    assert_true(gw_weights_bytes(o.weights) > 0);
    gw_plan_free(plan);
    gw_weights_free(o.weights);
    assert_int_equal(gw_weights_create(&small, &o.weights), 0);
    assert_int_equal(gw_plan_create(m, &o, &plan, NULL, 0), -E2BIG);
    gw_weights_free(o.weights);
    o.weights = NULL;
    small.at = w.at;
    assert_int_equal(gw_plan_arena_create(&small, &o.arena), 0);
    assert_int_equal(gw_plan_create(m, &o, &plan, NULL, 0), -E2BIG);
    gw_plan_arena_free(o.arena);
    gw_model_close(m);
    range_free(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest gpu[] = {cmocka_unit_test(test_gpu)};
    char why[256];

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_one_copy),
        cmocka_unit_test(test_no_room),
    };

    setenv("GPUWIRE_PLAN_CACHE", "off", 0); /* a test leaves no files */
    if (argc < 2) return cmocka_run_group_tests(tests, NULL, NULL);
    if (strcmp(argv[1], "gpu")) {
        fprintf(stderr, "usage: test_model_share [gpu]\n");
        return 2;
    }
    if (gw_exec_gpu_available(why, sizeof(why))) return cmocka_run_group_tests(gpu, NULL, NULL);
    printf("skipped: %s\n", why);
    return 77;
}
