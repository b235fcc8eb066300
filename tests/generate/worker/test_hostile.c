/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that write what they like into their sessions: they hurt themselves alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "tests/generate/worker/foe.h"

static struct rig rig;

static int begin(void **state)
{
    (void)state;
    rig_begin(&rig, 1, (struct gen_worker_opts){.sessions = 4, .slots = FOE_SLOTS, .own_sessions = 1});
    return 0;
}

static int end(void **state)
{
    (void)state;
    rig_end(&rig);
    return 0;
}

/* Others are served as ever. */
static void others_are_served(void)
{
    struct told t;
    assert_int_equal(told_submit(&rig, &t, 5, 20, 30, ""), 0);
    assert_int_equal(told_wait(&rig, &t), GEN_LENGTH);
}

static void open_soon(struct foe *f, uint32_t receives)
{
    uint64_t until = gw_deadline(PATIENCE);
    int err;
    while ((err = foe_open(f, receives)) == -EAGAIN && gw_deadline(0) < until) usleep(2000);
    assert_int_equal(err, 0);
}

/* One mistake in a request. */
enum mistake {
    MAGIC,
    VERSION,
    SLOT,
    ID,
    FLAGS,
    NO_PROMPT,
    LONG_PROMPT,
    MILLION,
    RING,
    STOPS,
    BIASES,
    TOPS,
    TOKEN,
    SHORT,
    LENGTH,
    NAN_HEAT,
    NEGATIVE,
    TOP_P,
    MIN_P,
    REPETITION,
    INFINITE,
    MISTAKES
};

static void make_mistake(struct gen_request *r, enum mistake m, uint32_t *bytes)
{
    switch (m) {
    case MAGIC: r->magic = 1; break;
    case VERSION: r->version = 9; break;
    case SLOT: r->slot = 3; break;
    case ID: r->id = 0; break;
    case FLAGS: r->flags = 0x80; break;
    case NO_PROMPT: r->prompt = 0; break;
    case LONG_PROMPT: r->prompt = UINT32_MAX; break;
    case MILLION: r->max_tokens = 1000000; break;
    case RING: r->max_tokens = FOE_RING + 1; break;
    case STOPS: r->stops = UINT32_MAX; break;
    case BIASES: r->biases = GEN_MAX_BIAS + 1; break;
    case TOPS: r->tops = GEN_MAX_TOPS + 1; break;
    case TOKEN: ((uint32_t *)(r + 1))[3] = FAKE_VOCAB; break;
    case SHORT: *bytes = 16; break;
    case LENGTH: *bytes += 4; break;
    case NAN_HEAT: r->temperature = NAN; break;
    case NEGATIVE: r->temperature = -1; break;
    case TOP_P: r->top_p = 0; break;
    case MIN_P: r->min_p = 1; break;
    case REPETITION: r->repetition = 0; break;
    default: r->presence = INFINITY; break;
    }
}

static uint32_t detail_of(enum mistake m)
{
    return m == TOKEN         ? GEN_BAD_TOKEN
           : m == LONG_PROMPT ? GEN_TOO_LONG
           : m >= NAN_HEAT    ? GEN_BAD_SAMPLING
                              : GEN_BAD_HEADER;
}

static void requests_that_make_no_sense(void **state)
{
    (void)state;
    for (enum mistake m = 0; m < MISTAKES; m++) {
        struct foe f;
        uint32_t bytes, detail = 0;
        foe_make(&f, &rig);
        open_soon(&f, 64);
        make_mistake(foe_request(&f, 2, 10, 20, &bytes), m, &bytes);
        foe_send(&f, 2, bytes, 2);
        assert_int_equal(foe_status(&f, &detail), GEN_INVALID);
        assert_int_equal(detail, detail_of(m));
        foe_request(&f, 4, 10, 20, &bytes); /* the session goes on */
        foe_send(&f, 4, bytes, 4);
        assert_int_equal(foe_status(&f, NULL), GEN_LENGTH);
        foe_free(&f);
    }
    others_are_served();
}

/* An immediate that names no slot is no request. */
static void slots_that_do_not_exist(void **state)
{
    (void)state;
    struct foe f;
    uint32_t bytes;
    foe_make(&f, &rig);
    open_soon(&f, 64);
    foe_request(&f, 0, 10, 20, &bytes);
    foe_send(&f, 0, bytes, FOE_SLOTS);
    foe_send(&f, 0, bytes, UINT32_MAX);
    foe_request(&f, 1, 10, 20, &bytes);
    foe_send(&f, 1, bytes, 1);
    assert_int_equal(foe_status(&f, NULL), GEN_LENGTH);
    foe_free(&f);
    others_are_served();
}

/* The client is gone, or is cut off: its session is made ready for the next one. */
static void session_ends(struct foe *f)
{
    uint64_t until = gw_deadline(PATIENCE);
    while (gen_pool_has(gen_worker_pool(rig.worker), &f->grant) && gw_deadline(0) < until) usleep(2000);
    assert_false(gen_pool_has(gen_worker_pool(rig.worker), &f->grant));
}

static void slots_that_are_at_work(void **state)
{
    (void)state;
    struct foe f;
    uint32_t bytes;
    rig_slow(&rig, 3000);
    foe_make(&f, &rig);
    open_soon(&f, 256);
    foe_request(&f, 0, 10, 100, &bytes);
    foe_send(&f, 0, bytes, 0);
    foe_send(&f, 0, bytes, 0);
    session_ends(&f);
    foe_free(&f);
    rig_slow(&rig, 0);
    others_are_served();
    rig_calm(&rig);
}

/* The generator reads a request once: bytes that the client changes later change nothing. */
static void slots_that_are_overwritten(void **state)
{
    (void)state;
    struct foe f;
    uint32_t bytes, prompt[40];
    foe_make(&f, &rig);
    open_soon(&f, 256);
    struct gen_request *r = foe_request(&f, 0, 30, 10, &bytes);
    memcpy(prompt, r + 1, 30 * sizeof(*prompt));
    foe_send(&f, 0, bytes, 0);
    uint32_t slot;
    assert_true(foe_event(&f, PATIENCE, &slot)); /* it is at work */
    memset(r, 0xff, bytes);
    struct gw_op op =
        gw_put_op(f.out_mr->addr, f.out_mr->lkey, f.grant.request_addr, f.grant.request_rkey, bytes);
    assert_int_equal(gw_post_op(gw_qp_handle(f.qp), op, GW_SIGNALED, 0), 0);
    for (uint32_t i = 1; i < 10; i++) assert_true(foe_event(&f, PATIENCE, &slot));
    const struct gen_event *e = f.in.host;
    for (uint32_t i = 0; i < 10; i++) {
        prompt[30 + i] = e[i].token;
        assert_int_equal(e[i].token, fake_net_next(prompt, 30 + i));
    }
    foe_free(&f);
}

/* The keys of a session open nothing to another one: neither its slots, nor its client's rings. */
static void keys_of_others(void **state)
{
    (void)state;
    struct foe a, b, c;
    uint32_t bytes;
    foe_make(&a, &rig);
    foe_make(&b, &rig);
    foe_make(&c, &rig);
    open_soon(&a, 64);
    open_soon(&b, 64);
    struct gen_grant own = a.grant;
    a.grant.request_addr = b.grant.request_addr;
    a.grant.request_rkey = b.grant.request_rkey;
    foe_request(&a, 0, 10, 20, &bytes);
    foe_send(&a, 0, bytes, 0);
    assert_int_equal(foe_status(&a, NULL), -1);
    a.grant = own;
    c.wish.event_addr = b.wish.event_addr; /* its events are to go to b */
    c.wish.event_rkey = b.wish.event_rkey;
    open_soon(&c, 64);
    foe_request(&c, 0, 10, 20, &bytes);
    foe_send(&c, 0, bytes, 0);
    session_ends(&c);
    const struct gen_event *e = b.in.host;
    for (uint32_t i = 0; i < FOE_SLOTS * FOE_RING; i++) assert_int_equal(e[i].id, 0);
    foe_request(&b, 0, 10, 20, &bytes); /* b has not noticed */
    foe_send(&b, 0, bytes, 0);
    assert_int_equal(foe_status(&b, NULL), GEN_LENGTH);
    foe_free(&a);
    foe_free(&b);
    foe_free(&c);
    others_are_served();
}

/* Its NIC takes no event, since it never posts a receive. Others do not wait for it. */
static void rings_that_are_never_read(void **state)
{
    (void)state;
    struct foe f;
    uint32_t bytes;
    foe_make(&f, &rig);
    open_soon(&f, 0);
    for (uint32_t slot = 0; slot < FOE_SLOTS; slot++) {
        foe_request(&f, slot, 10, 100, &bytes);
        foe_send(&f, slot, bytes, slot);
    }
    usleep(20000);
    for (int i = 0; i < 20; i++) others_are_served();
    foe_free(&f);
    session_ends(&f);
    rig_calm(&rig);
}

/* In the midst of its requests the queue pair is gone, without a word. */
static void clients_that_vanish(void **state)
{
    (void)state;
    rig_slow(&rig, 1000);
    for (int round = 0; round < 2; round++) {
        struct foe f;
        uint32_t bytes, slot;
        foe_make(&f, &rig);
        open_soon(&f, 256);
        for (uint32_t i = 0; i < FOE_SLOTS; i++) {
            foe_request(&f, i, 10, 100, &bytes);
            foe_send(&f, i, bytes, i);
        }
        assert_true(foe_event(&f, PATIENCE, &slot));
        gw_qp_abort(f.qp);
        session_ends(&f);
        rig_calm(&rig);
        foe_free(&f);
    }
    rig_slow(&rig, 0);
    others_are_served();
}

/* A session's next client has other keys, and its slots are empty. */
static void a_thousand_sessions(void **state)
{
    (void)state;
    struct foe f;
    uint32_t last = 0, bytes;
    foe_make(&f, &rig);
    for (int i = 0; i < 1000; i++) {
        gw_qp_endpoint(f.qp, &f.wish.endpoint);
        open_soon(&f, 16);
        assert_true(f.grant.request_rkey != last);
        last = f.grant.request_rkey;
        if (i % 50 == 0) {
            memset(f.in.host, 0, f.in.size);
            foe_request(&f, 0, 10, 5, &bytes);
            foe_send(&f, 0, bytes, 0);
            assert_int_equal(foe_status(&f, NULL), GEN_LENGTH);
        }
        gen_pool_close(gen_worker_pool(rig.worker), &f.grant);
        assert_int_equal(gw_qp_reset(f.qp, GW_RESET_QUIET, gw_deadline(PATIENCE)), 0);
    }
    foe_free(&f);
    others_are_served();
}

static void wishes_that_make_no_sense(void **state)
{
    (void)state;
    struct foe f;
    foe_make(&f, &rig);
    const struct gen_wish sound = f.wish;
    f.wish.ring = 0;
    assert_int_equal(foe_open(&f, 0), -EINVAL);
    f.wish = sound;
    f.wish.ring = RIG_CONTEXT + 1;
    assert_int_equal(foe_open(&f, 0), -EINVAL);
    f.wish = sound;
    f.wish.event_stride = 8;
    assert_int_equal(foe_open(&f, 0), -EINVAL);
    f.wish = sound;
    f.wish.event_addr = UINT64_MAX - 8;
    assert_int_equal(foe_open(&f, 0), -EINVAL);
    foe_free(&f);
    others_are_served();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wishes_that_make_no_sense), cmocka_unit_test(requests_that_make_no_sense),
        cmocka_unit_test(slots_that_do_not_exist),   cmocka_unit_test(slots_that_are_overwritten),
        cmocka_unit_test(slots_that_are_at_work),    cmocka_unit_test(keys_of_others),
        cmocka_unit_test(rings_that_are_never_read), cmocka_unit_test(clients_that_vanish),
        cmocka_unit_test(a_thousand_sessions),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
