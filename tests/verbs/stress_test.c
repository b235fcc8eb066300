/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks, warps and threads share a queue pair, with every form of posting and every operation at once,
 * through a NIC. The test accounts for every request once: by the bytes that it left in memory or fetched,
 * its completion, and its message to the peer. A put is followed by an add to the same word, so that one that
 * is executed again later is seen. STRESS_SECONDS: over and over for that time, with other shapes each time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "tests/rnd.h"
#include "tests/verbs/device.h"
#include "tests/verbs/pair.h"
#include "tests/verbs/stress_kernels.h"

GW_KERNEL_DECLARE(stress_kernel);

#define LIMIT_NS 40000000000u
#define GRID     7u /* block 0 takes in */

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

struct shape {
    uint32_t structs, block, each, send_wr;
    bool lock_free; /* on CPU threads, which else take turns */
};

struct run {
    const struct shape *s;
    uint32_t dim, tokens, posted, receives;
    uint64_t *here, *there;
    uint32_t *seen;
};

/* As the kernel decides it: does the token's thread take part? */
static bool on(const struct run *r, uint32_t token)
{
    uint32_t thread = token / r->s->each, i = token % r->s->each, form = thread / r->dim % 3,
             place = thread % r->dim;
    uint32_t warp = r->dim - (place & ~31u) < 32 ? r->dim - (place & ~31u) : 32;
    uint32_t group = form == 0 ? 1 : form == 1 ? warp : r->dim;

    return r->s->structs || group == 1 || (form == 1 ? place & 31 : place) != i / ST_OPS % group;
}

static void fill(struct run *r)
{
    for (uint32_t t = 0; t < r->tokens; t++) {
        bool posts = on(r, t);

        r->here[t] = ST_VALUE(t);
        r->here[r->tokens + t] = ~0ull;
        r->there[t] = ST_WAS(t);
        r->there[r->tokens + t] = 0;
        r->posted += posts;
        r->receives += posts && t % r->s->each % ST_OPS == ST_PUT_IMM;
    }
    r->there[2 * r->tokens] = 0;
}

static void expect(uint32_t token, const char *what, uint64_t got, uint64_t want)
{
    if (got != want)
        fail_msg("request %u, %s: %llx, not %llx", token, what, (unsigned long long)got,
                 (unsigned long long)want);
}

/* The traces of one request; counted: which numbers the counter has given out. */
static void check_one(const struct run *r, uint32_t t, uint8_t *counted, uint32_t *counts)
{
    uint32_t what = t % r->s->each % ST_OPS;
    uint64_t fetched = r->here[r->tokens + t], left = r->there[t], was = ST_WAS(t), value = ST_VALUE(t);
    bool posts = on(r, t), writes = what == ST_PUT || what == ST_PUT_IMM || what == ST_SIGNAL;

    /* A list's signal is an ordinary write, and its neighbours' words are as they were. */
    expect(t, "what it wrote", left,
           !posts                      ? was
           : what == ST_PUT            ? value + 1
           : writes || what == ST_SWAP ? value
                                       : was);
    if (what == ST_SIGNAL)
        expect(t, "its signal", r->there[r->tokens + t], posts && !r->s->structs ? value : 0);
    if (posts && what == ST_ADD) expect(t, "what was there before its add", fetched, ST_VALUE(t - 1));
    if (posts && (what == ST_GET || what == ST_SWAP)) expect(t, "what it fetched", fetched, was);
    if (!posts || writes) expect(t, "what nothing was fetched to", fetched, ~0ull);
    if (posts && what == ST_COUNT) {
        assert_true(fetched < r->posted);
        expect(t, "a number of the counter, given out before", counted[fetched]++, 0);
        ++*counts;
    }
    expect(t, "its immediates", r->seen[t] >> 16, posts && what == ST_PUT_IMM);
    if (r->s->structs) expect(t, "its completions", r->seen[t] & 0xffff, 1);
}

static void check(const struct run *r, const struct stress_result *got)
{
    uint8_t *counted = calloc(r->posted + 1, 1);
    uint32_t counts = 0;

    printf("gpu: %s%s, %u blocks of %u, queue of %u: %u posted, %u taken, full %u times\n",
           r->s->structs ? "structs" : "tickets", r->s->lock_free ? " without a lock" : "", GRID - 1, r->dim,
           r->s->send_wr, got->posted, got->taken, got->full);
    assert_int_equal(got->late, 0);
    assert_int_equal(got->errors, 0);
    assert_int_equal(got->not_mine, 0);
    assert_int_equal(got->posted, r->posted);
    assert_int_equal(got->taken, r->receives);
    if (r->s->structs) assert_int_equal(got->completed, r->posted);
    for (uint32_t t = 0; t < r->tokens; t++) check_one(r, t, counted, &counts);
    expect(0, "the counter", r->there[2 * r->tokens], counts);
    free(counted);
}

/* abort_ns: not 0: the queue pair is taken down that long after the beginning. */
static void launch(struct pair *p, struct run *r, struct stress_result *got, long abort_ns)
{
    const struct timespec nap = {.tv_nsec = abort_ns};
    struct gw_mem mem;
    size_t seen = r->tokens * sizeof(*r->seen);

    must(gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(*got) + 64 + seen, &mem), "gw_mem_alloc");
    struct stress_args a = {.qp = gw_qp_handle(p->qp[0]),
                            .peer = gw_qp_handle(p->qp[1]),
                            .cq = gw_cq_handle(p->cq[0]),
                            .peer_cq = gw_cq_handle(p->cq[1]),
                            .structs = r->s->structs,
                            .each = r->s->each,
                            .tokens = r->tokens,
                            .receives = r->receives,
                            .here = p->base,
                            .there = p->base + p->half,
                            .lkey = p->mr->lkey,
                            .rkey = p->mr->rkey,
                            .limit_ns = LIMIT_NS,
                            .seen = (uint32_t *)((uint8_t *)mem.dev + 64),
                            .result = mem.dev};
    must(gw_launch(exec, &stress_kernel, GRID, r->s->block, &a), "gw_launch");
    if (abort_ns) {
        nanosleep(&nap, NULL);
        must(gw_qp_abort(p->qp[0]), "gw_qp_abort");
    }
    must(gw_exec_sync(exec, gw_deadline(2 * (uint64_t)LIMIT_NS)), "gw_exec_sync");
    must(gw_copy_out(exec, got, mem.dev, sizeof(*got)), "gw_copy_out");
    must(gw_copy_out(exec, r->seen, (uint8_t *)mem.dev + 64, seen), "gw_copy_out");
    gw_mem_free(&mem);
}

/* The memory of a run; the bytes of each side's memory. */
static size_t begin(struct run *r, struct pair *p, const struct shape *s)
{
    struct pair_opts o = {
        .send_wr = s->send_wr, .recv_wr = 64, .qp_flags = s->lock_free ? GW_QP_LOCK_FREE : 0};
    size_t bytes;

    *r = (struct run){.s = s, .dim = test_block_dim(exec, s->block)};
    r->tokens = (GRID - 1) * r->dim * s->each;
    bytes = 8 * (2 * (size_t)r->tokens + 1);
    o.half = (bytes + 4095) & ~(size_t)4095;
    pair_make(p, dev, &o);
    r->here = malloc(bytes);
    r->there = malloc(bytes);
    r->seen = malloc(r->tokens * sizeof(*r->seen));
    fill(r);
    pair_write(p, 0, 0, r->here, bytes);
    pair_write(p, 1, 0, r->there, bytes);
    return bytes;
}

static void end(struct run *r, struct pair *p)
{
    free(r->here);
    free(r->there);
    free(r->seen);
    pair_free(p);
}

static void stress(const struct shape *s)
{
    struct stress_result got;
    struct pair p;
    struct run r;
    size_t bytes = begin(&r, &p, s);

    launch(&p, &r, &got, 0);
    pair_read(&p, 0, 0, r.here, bytes);
    pair_read(&p, 1, 0, r.there, bytes);
    check(&r, &got);
    end(&r, &p);
}

/* Taken down while all forms post: every thread ends with an error, none waits forever, and the queue pairs
 * can be used again. Of the structs single threads only: the lanes of a warp would see the end at different
 * places of its loop. */
static void taken_down(void **state)
{
    static const struct shape shapes[] = {{0, 1, ST_OPS * 3000, 64, false}, {1, 1, ST_OPS * 3000, 64, false},
                                          {0, 32, ST_OPS * 300, 64, false}, {0, 1, ST_OPS * 3000, 64, true},
                                          {1, 1, ST_OPS * 3000, 64, true},  {0, 32, ST_OPS * 300, 64, true}};
    struct stress_result got;
    struct pair p;
    struct run r;

    (void)state;
    for (int i = 0; i < 12; i++) {
        begin(&r, &p, &shapes[i % 6]);
        launch(&p, &r, &got, 2000000 * (1 + i / 6));
        printf("gpu: taken down: %u of %u posted, %u errors\n", got.posted, r.posted, got.errors);
        assert_int_equal(got.late, 0);
        assert_int_equal(got.not_mine, 0);
        assert_true(got.errors || got.posted == r.posted);
        for (int k = 0; k < 2; k++) must(gw_qp_reset(p.qp[k], GW_RESET_QUIET, 0), "gw_qp_reset");
        pair_connect(&p, NULL);
        pair_step(&p, STEP_PUT, 0, 0, 64, 0, 1);
        pair_wait(&p, 0, 1);
        pair_run_ok(&p);
        end(&r, &p);
    }
}

/* How many rounds of operations: on CPU threads those of a warp go in step, and slowly. */
static uint32_t each_of(uint32_t block)
{
    return ST_OPS * (test_block_dim(exec, block) > 1 ? 4 : 60);
}

static void every_form(void **state)
{
    static const uint32_t blocks[] = {1, 32, 45}, queues[] = {64, 256};

    (void)state;
    for (uint32_t structs = 0; structs < 2; structs++)
        for (int b = 0; b < 3; b++) {
            struct shape s = {structs, blocks[b], each_of(blocks[b]), queues[b == 2], false};

            if (b && test_block_dim(exec, blocks[b]) == test_block_dim(exec, blocks[b - 1])) continue;
            stress(&s);
            s.lock_free = true;
            if (gw_exec_kind(exec) == GW_EXEC_CPU) stress(&s);
        }
}

static void over_and_over(void **state)
{
    const char *seconds = getenv("STRESS_SECONDS");
    uint64_t end = gw_deadline(seconds ? strtoull(seconds, NULL, 10) * 1000000000u : 0);
    struct rnd r = {gw_clock_ns() | 1};
    uint32_t n = 0;

    (void)state;
    if (!seconds) skip();
    for (; gw_clock_ns() < end; n++) {
        uint32_t block = 1 + rnd_below(&r, 64);
        struct shape s = {rnd_below(&r, 2), block, each_of(block) * (1 + rnd_below(&r, 4)),
                          128u << rnd_below(&r, 3), rnd_below(&r, 2)};

        stress(&s);
    }
    printf("gpu: %u times\n", n);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_form), cmocka_unit_test(taken_down),
                                       cmocka_unit_test(over_and_over)};

    setenv("GPUWIRE_NIC", "addr=127.0.0.1,hostile=1", 0);
    test_exec_opts.blocks = GRID; /* all at once: they wait for each other */
    test_options(argc, argv);
    return cmocka_run_group_tests(tests, open_all, close_all);
}
