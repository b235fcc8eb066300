/* SPDX-License-Identifier: Apache-2.0 */
/* Channels: every form of every call, from kernels, through the NIC; what each error is; rogue peers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/socket/channel_kernels.h"
#include "tests/socket/launch.h"

GW_KERNEL_DECLARE(channel_kernel);

#define ENDS 64

/* ---- a set whose first half of endpoints is connected to its second half ------------------------------ */

struct duo {
    struct gw_channels *set;
    uint32_t half;
    uint32_t bytes;
    struct channel_script script[BLOCKS];
    struct channel_result result[BLOCKS][CH_STEPS];
};

static void join(struct gw_channels *a, uint32_t i, struct gw_channels *b, uint32_t j)
{
    struct gw_channel_end ea, eb;

    must(gw_channel_end(a, i, &ea), "gw_channel_end");
    must(gw_channel_end(b, j, &eb), "gw_channel_end");
    must(gw_channel_connect(a, i, &eb), "gw_channel_connect");
    must(gw_channel_connect(b, j, &ea), "gw_channel_connect");
}

static void duo_make(struct duo *d, uint32_t half, const struct gw_channel_attr *attr)
{
    struct gw_channel_attr a = *attr;

    memset(d, 0, sizeof(*d));
    d->half = half;
    a.count = 2 * half;
    d->bytes = a.bytes;
    must(gw_channels_create(dev, &a, &d->set), "gw_channels_create");
    for (uint32_t i = 0; i < half; i++) join(d->set, i, d->set, half + i);
}

static void duo_free(struct duo *d)
{
    must(gw_channels_destroy(d->set), "gw_channels_destroy");
}

static struct channel_step *add(struct duo *d, uint32_t block, enum channel_op op, enum gw_group form,
                                uint32_t ch, uint32_t n, uint64_t seed)
{
    struct channel_script *s = &d->script[block];
    struct channel_step *step = &s->step[s->steps++];

    *step = (struct channel_step){.op = op, .form = form, .ch = ch, .n = n, .seed = seed, .limit_ns = LIMIT};
    return step;
}

/* Runs the blocks' scripts; then there are none. */
static void run(struct duo *d)
{
    struct gw_mem script, result, buffer;
    struct channel_args args;

    must(gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(d->script), &script), "gw_mem_alloc");
    must(gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(d->result), &result), "gw_mem_alloc");
    must(gw_mem_alloc(exec, GW_MEM_DEVICE, (size_t)BLOCKS * lanes * (d->bytes + 16), &buffer),
         "gw_mem_alloc");
    must(gw_copy_in(exec, script.dev, d->script, sizeof(d->script)), "gw_copy_in");
    args.all = gw_channels_handles(d->set);
    args.script = script.dev;
    args.result = result.dev;
    args.buffer = buffer.dev;
    must(gw_launch(exec, &channel_kernel, BLOCKS, lanes, &args), "gw_launch");
    must(gw_exec_sync(exec, gw_deadline(240u * (uint64_t)SECOND)), "gw_exec_sync");
    must(gw_copy_out(exec, d->result, result.dev, sizeof(d->result)), "gw_copy_out");
    gw_mem_free(&script);
    gw_mem_free(&result);
    gw_mem_free(&buffer);
    memset(d->script, 0, sizeof(d->script));
}

static void expect(const struct duo *d, uint32_t block, uint32_t step, uint32_t done, int err)
{
    const struct channel_result *r = &d->result[block][step];

    if (r->done != done || r->err != err)
        fail_msg("block %u, step %u: %u calls and then %d; not %u and %d", block, step, r->done, r->err, done,
                 err);
}

/* ---- messages ----------------------------------------------------------------------------------------- */

/* Both directions of one channel at a time, far more messages than slots. */
static void test_both_ways(void **state)
{
    static const struct {
        uint32_t bytes, slots, mem, n;
        enum gw_group form;
        int zero_copy;
    } v[] = {
        {64, 16, GW_MEM_HOST, 500, GW_BLOCK, 0},
        {1, 1, GW_MEM_DEVICE, 40, GW_BLOCK, 0},
        {5001, 3, 0, 200, GW_WARP, 1},
        {40, 2, GW_MEM_HOST, 300, GW_THREAD, 1},
        {100000, 4, GW_MEM_DEVICE, 40, GW_BLOCK, 1},
        {256, 64, GW_MEM_DEVICE, 500, GW_THREAD, 0},
    };
    struct duo d;

    (void)state;
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        struct gw_channel_attr a = {.bytes = v[i].bytes, .slots = v[i].slots, .mem = v[i].mem};
        enum channel_op send = v[i].zero_copy ? CH_RESERVE : CH_SEND,
                        recv = v[i].zero_copy ? CH_BORROW : CH_RECV;

        duo_make(&d, 1, &a);
        add(&d, 0, send, v[i].form, 0, v[i].n, 1000);
        add(&d, 1, recv, v[i].form, 1, v[i].n, 1000);
        add(&d, 2, send, v[i].form, 1, v[i].n, 5000000);
        add(&d, 3, recv, v[i].form, 0, v[i].n, 5000000);
        run(&d);
        for (uint32_t b = 0; b < 4; b++) expect(&d, b, 0, v[i].n, 0);
        duo_free(&d);
    }
}

/* One side asks, the other answers, in one block each: a call at a time, with every mix of forms. */
static void test_ping_pong(void **state)
{
    struct gw_channel_attr a = {.bytes = 333, .slots = 4};
    struct duo d;

    (void)state;
    duo_make(&d, 1, &a);
    for (uint32_t i = 0; i < 3; i++) {
        add(&d, 0, CH_SEND, (enum gw_group)i, 0, 1, i);
        add(&d, 0, CH_RECV, (enum gw_group)((i + 1) % 3), 0, 1, 10 + i);
        add(&d, 1, CH_BORROW, (enum gw_group)((i + 2) % 3), 1, 1, i);
        add(&d, 1, CH_RESERVE, (enum gw_group)i, 1, 1, 10 + i);
    }
    run(&d);
    for (uint32_t s = 0; s < 6; s++) {
        expect(&d, 0, s, 1, 0);
        expect(&d, 1, s, 1, 0);
    }
    duo_free(&d);
}

/* Every thread of two blocks has a channel to its like. */
static void test_a_channel_per_thread(void **state)
{
    struct gw_channel_attr a = {.bytes = 48, .slots = 4};
    uint32_t half = lanes < ENDS ? lanes : ENDS;
    struct duo d;

    (void)state;
    duo_make(&d, half, &a);
    add(&d, 0, CH_SEND, GW_THREAD, 0, 30, 7)->each = 1;
    add(&d, 0, CH_FINISH, GW_THREAD, 0, 1, 0)->each = 1;
    add(&d, 1, CH_RECV, GW_THREAD, half, 31, 7)->each = 1;
    run(&d);
    expect(&d, 0, 0, 30 * lanes, 0);
    expect(&d, 0, 1, lanes, 0);
    expect(&d, 1, 0, 30 * lanes, -ESHUTDOWN);
    duo_free(&d);
}

/* Three blocks send through one endpoint: nothing is lost, and each sender's messages keep their order. */
static void test_shared_endpoint(void **state)
{
    struct gw_channel_attr a = {.bytes = 200, .slots = 8};
    struct duo d;

    (void)state;
    duo_make(&d, 1, &a);
    add(&d, 0, CH_SEND, GW_BLOCK, 0, 150, (uint64_t)1 << 32);
    add(&d, 1, CH_SEND, GW_WARP, 0, 150, (uint64_t)2 << 32);
    add(&d, 2, CH_RESERVE, GW_THREAD, 0, 150, (uint64_t)3 << 32);
    add(&d, 3, CH_RECV, GW_THREAD, 1, 450, 0)->any = 1;
    run(&d);
    for (uint32_t b = 0; b < 3; b++) expect(&d, b, 0, 150, 0);
    expect(&d, 3, 0, 450, 0);
    duo_free(&d);
}

/* ---- errors ------------------------------------------------------------------------------------------- */

static void test_deadlines_and_credits(void **state)
{
    struct gw_channel_attr a = {.bytes = 64, .slots = 8};
    struct duo d;

    (void)state;
    duo_make(&d, 1, &a);
    add(&d, 0, CH_RECV, GW_BLOCK, 0, 1, 0)->limit_ns = 0;
    add(&d, 0, CH_RECV, GW_WARP, 0, 1, 0)->limit_ns = 20000000;
    add(&d, 0, CH_SEND, GW_BLOCK, 0, 100, 0)->limit_ns = 0; /* as many as the peer has slots */
    add(&d, 0, CH_RESERVE, GW_WARP, 0, 1, 0)->limit_ns = 20000000;
    add(&d, 0, CH_BORROW, GW_THREAD, 1, 8, 0); /* the peer's side takes them */
    add(&d, 0, CH_SEND, GW_BLOCK, 0, 8, 8);    /* and there is room again */
    add(&d, 0, CH_RECV, GW_BLOCK, 1, 8, 8);
    run(&d);
    expect(&d, 0, 0, 0, -EAGAIN);
    expect(&d, 0, 1, 0, -ETIMEDOUT);
    expect(&d, 0, 2, 8, -EAGAIN);
    expect(&d, 0, 3, 0, -ETIMEDOUT);
    for (uint32_t s = 4; s < 7; s++) expect(&d, 0, s, 8, 0);
    duo_free(&d);
}

static void test_finish(void **state)
{
    struct gw_channel_attr a = {.bytes = 64, .slots = 8};
    struct duo d;

    (void)state;
    duo_make(&d, 1, &a);
    add(&d, 0, CH_SEND, GW_BLOCK, 0, 5, 0);
    add(&d, 0, CH_FINISH, GW_BLOCK, 0, 2, 0);
    add(&d, 0, CH_SEND, GW_BLOCK, 0, 1, 0);
    add(&d, 0, CH_RECV, GW_BLOCK, 1, 6, 0);
    add(&d, 0, CH_SEND, GW_BLOCK, 1, 20, 50)->limit_ns = 0; /* the other direction is open */
    add(&d, 0, CH_RECV, GW_BLOCK, 0, 8, 50);
    run(&d);
    expect(&d, 0, 0, 5, 0);
    expect(&d, 0, 1, 2, 0);
    expect(&d, 0, 2, 0, -EPIPE);
    expect(&d, 0, 3, 5, -ESHUTDOWN);
    expect(&d, 0, 4, 8, -EAGAIN);
    expect(&d, 0, 5, 8, 0);
    /* Far more than fits, so that a side that has finished must still give credits. */
    add(&d, 0, CH_SEND, GW_BLOCK, 1, 100, 300);
    add(&d, 1, CH_RECV, GW_BLOCK, 0, 100, 300);
    run(&d);
    expect(&d, 0, 0, 100, 0);
    expect(&d, 1, 0, 100, 0);
    duo_free(&d);
}

/* The peer goes away silently: what had arrived is received, and a waiting receiver finds out through
 * the keep-alive. After a reset both work again, with another peer. */
static void test_peer_dies(void **state)
{
    struct gw_channel_attr a = {.count = 1, .bytes = 64, .slots = 8, .keepalive_ns = SECOND / 20};
    struct gw_channels *peer;
    struct gw_fault fault;
    struct duo d;

    (void)state;
    duo_make(&d, 1, &a);
    add(&d, 0, CH_SEND, GW_BLOCK, 1, 3, 70);
    run(&d);
    usleep(
        300000); /* sent is not arrived: the NIC still carries what a GPU has posted when its kernel ends */
    must(gw_channel_reset(d.set, 1), "gw_channel_reset"); /* for its peer it is gone */
    add(&d, 0, CH_RECV, GW_BLOCK, 0, 4, 70);
    add(&d, 0, CH_SEND, GW_BLOCK, 0, 1, 0);
    add(&d, 0, CH_SEND, GW_BLOCK, 1, 1, 0);
    run(&d);
    expect(&d, 0, 0, 3, -ECONNRESET);
    expect(&d, 0, 1, 0, -ECONNRESET);
    expect(&d, 0, 2, 0, -ENOTCONN);
    assert_int_equal(gw_channel_fault(d.set, 0, &fault), 1);

    must(gw_channels_create(dev, &a, &peer), "gw_channels_create");
    must(gw_channel_reset(d.set, 0), "gw_channel_reset");
    join(d.set, 0, d.set, 1);
    add(&d, 0, CH_SEND, GW_BLOCK, 0, 8, 9);
    add(&d, 0, CH_RECV, GW_BLOCK, 1, 8, 9);
    run(&d);
    expect(&d, 0, 0, 8, 0);
    expect(&d, 0, 1, 8, 0);
    must(gw_channels_destroy(peer), "gw_channels_destroy");
    duo_free(&d);
}

/* ---- rogue peers -------------------------------------------------------------------------------------- */

/* A bare queue pair that says it is an endpoint, and what it does then. CPU threads only. */
struct rogue {
    struct gw_channels *set;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_channel_end end;
    struct gw_mem mem;
    struct gw_mr *mr;
};

static void rogue_make(struct rogue *r)
{
    struct gw_channel_attr a = {.count = 1, .bytes = 64, .slots = 4};
    struct gw_cq_attr ca = {.cqe = 256};
    struct gw_qp_attr qa = {.max_send_wr = 64, .max_recv_wr = 16};
    struct gw_channel_end fake = {.addr = 4096, .rkey = 1, .bytes = 64, .slots = 4};

    must(gw_channels_create(dev, &a, &r->set), "gw_channels_create");
    must(gw_pd_create(dev, &r->pd), "gw_pd_create");
    must(gw_cq_create(dev, &ca, &r->cq), "gw_cq_create");
    qa.send_cq = qa.recv_cq = r->cq;
    must(gw_qp_create(r->pd, &qa, &r->qp), "gw_qp_create");
    must(gw_qp_recv_empty(r->qp, 16, 0), "gw_qp_recv_empty");
    assert_int_equal(gw_qp_recv_empty(r->qp, 1, 0), -EAGAIN);
    must(gw_mem_alloc(exec, GW_MEM_HOST, 64, &r->mem), "gw_mem_alloc");
    must(gw_mr_register(r->pd, r->mem.host, 64, 0, &r->mr), "gw_mr_register");
    gw_qp_endpoint(r->qp, &fake.qp);
    must(gw_channel_end(r->set, 0, &r->end), "gw_channel_end");
    must(gw_channel_connect(r->set, 0, &fake), "gw_channel_connect");
    must(gw_qp_connect(r->qp, &r->end.qp, NULL), "gw_qp_connect");
}

static void rogue_free(struct rogue *r)
{
    must(gw_channels_destroy(r->set), "gw_channels_destroy");
    must(gw_qp_destroy(r->qp), "gw_qp_destroy");
    must(gw_cq_destroy(r->cq), "gw_cq_destroy");
    must(gw_mr_free(r->mr), "gw_mr_free");
    must(gw_pd_destroy(r->pd), "gw_pd_destroy");
    gw_mem_free(&r->mem);
}

/* Writes with an immediate: a message's bytes with what says to be one, one byte fewer with `cut`. */
static int rogue_put(struct rogue *r, uint32_t imm, uint32_t cut)
{
    uint32_t len = imm >> 30 ? 0 : 64 - cut;

    return gw_post_op(gw_qp_handle(r->qp),
                      gw_put_imm_op(r->mr->addr, r->mr->lkey, r->end.addr, r->end.rkey, len, imm),
                      GW_SIGNALED, 0);
}

static void test_rogue_peers(void **state)
{
    static const struct {
        uint32_t imm[8], n;
        int sends, err;
        uint32_t good; /* messages that are received first */
        uint32_t cut;
    } v[] = {
        {{0, 0, 0, 0, 0}, 5, 0, -EPROTO, 4, 0},            /* more messages than slots */
        {{1u << 30 | 1}, 1, 0, -EPROTO, 0, 0},             /* credits for what was not sent */
        {{0, 0, 1u << 30 | 1000}, 3, 0, -EPROTO, 2, 0},    /* … after messages */
        {{3u << 30}, 1, 0, -EPROTO, 0, 0},                 /* a write of no kind */
        {{2u << 30, 0}, 2, 0, -EPROTO, 0, 0},              /* a message after the finish */
        {{2u << 30}, 1, 0, -ESHUTDOWN, 0, 0},              /* nothing wrong with that */
        {{1u << 30 | 0x3fffffff}, 1, 0, -ETIMEDOUT, 0, 0}, /* credits that went back say nothing */
        {{0}, 0, 1, -EPROTO, 0, 0},                        /* a send, which has no immediate */
        {{0}, 1, 0, -EPROTO, 0, 1},                        /* a message that is too short */
    };
    struct gw_channel *ch;
    struct ibv_wc wc;
    struct rogue r;
    char msg[64];
    int err;

    (void)state;
    if (gw_exec_kind(exec) != GW_EXEC_CPU) skip(); /* the rogue's calls are the CPU's */
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        uint32_t good = 0;

        rogue_make(&r);
        for (uint32_t k = 0; k < v[i].n; k++) assert_int_equal(rogue_put(&r, v[i].imm[k], v[i].cut), 0);
        if (v[i].sends) assert_int_equal(gw_send(gw_qp_handle(r.qp), 0, 0, 0, GW_SIGNALED, 0), 0);
        for (uint32_t k = 0; k < v[i].n + (uint32_t)v[i].sends; k++) /* all have arrived */
            assert_int_equal(gw_wait_cq(gw_cq_handle(r.cq), 1, &wc, gw_clock_ns() + LIMIT, NULL, -1), 1);
        ch = gw_channels_handles(r.set);
        for (;; good++) {
            uint64_t limit = v[i].err == -ETIMEDOUT ? SECOND / 2 : LIMIT;

            err = gw_channel_borrow_thread(ch, &(const void *){NULL}, gw_clock_ns() + limit);
            if (err || good == v[i].good) break;
            gw_channel_give_back_thread(ch);
        }
        if (err != v[i].err || good > v[i].good) fail_msg("peer %zu: %u messages, then %d", i, good, err);
        if (err == -EPROTO) assert_int_equal(gw_channel_send_thread(ch, msg, 0), -EPROTO);
        rogue_free(&r);
    }
}

/* ---- ends and attributes ------------------------------------------------------------------------------ */

static void test_ends_as_text(void **state)
{
    static const char *const bad[] = {"", "gw:1:", "gwc:1:", "gwc:2:0:1:64:4:", "gwc:1:0:1:64:4:gw:1:"};
    struct gw_channel_end e, again;
    char text[GW_CHANNEL_END_TEXT], other[GW_CHANNEL_END_TEXT];
    struct gw_channel_attr a = {.bytes = 100};
    struct duo d;

    (void)state;
    duo_make(&d, 1, &a);
    must(gw_channel_end(d.set, 0, &e), "gw_channel_end");
    gw_channel_end_format(&e, text);
    must(gw_channel_end_parse(text, &again), "gw_channel_end_parse");
    assert_memory_equal(&e, &again, sizeof(e));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(gw_channel_end_parse(bad[i], &again), -EINVAL);
    for (size_t i = 0; i < strlen(text); i++) { /* cut anywhere, or with a blank anywhere */
        snprintf(other, sizeof(other), "%.*s", (int)i, text);
        assert_int_equal(gw_channel_end_parse(other, &again), -EINVAL);
        snprintf(other, sizeof(other), "%.*s %s", (int)i, text, text + i);
        assert_int_equal(gw_channel_end_parse(other, &again), -EINVAL);
    }
    e.slots = 3;
    gw_channel_end_format(&e, text);
    assert_int_equal(gw_channel_end_parse(text, &again), -EINVAL);
    assert_int_equal(gw_channel_end(d.set, 2, &e), -EINVAL);
    duo_free(&d);
}

static void test_refused(void **state)
{
    static const struct gw_channel_attr bad[] = {
        {.count = 0, .bytes = 1},
        {.count = 1, .bytes = 0},
        {.count = 1, .bytes = GW_CHANNEL_BYTES_MAX + 1},
        {.count = 1, .bytes = 1, .slots = GW_CHANNEL_SLOTS_MAX + 1},
        {.count = 1, .bytes = 1, .mem = 3},
    };
    struct gw_channel_attr a = {.count = 2, .bytes = 8};
    struct gw_channels *set;
    struct gw_channel_end e;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(gw_channels_create(dev, &bad[i], &set), -EINVAL);
        assert_null(set);
    }
    must(gw_channels_create(dev, &a, &set), "gw_channels_create");
    must(gw_channel_end(set, 1, &e), "gw_channel_end");
    e.bytes = 9;
    assert_int_equal(gw_channel_connect(set, 0, &e), -EMSGSIZE);
    e.bytes = 8;
    e.slots = 5;
    assert_int_equal(gw_channel_connect(set, 0, &e), -EINVAL);
    e.slots = 4;
    assert_int_equal(gw_channel_connect(set, 9, &e), -EINVAL);
    must(gw_channel_connect(set, 0, &e), "gw_channel_connect");
    assert_int_equal(gw_channel_connect(set, 0, &e), -EISCONN);
    must(gw_channels_destroy(set), "gw_channels_destroy");
    must(gw_channels_destroy(NULL), "gw_channels_destroy");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_ping_pong),
        cmocka_unit_test(test_a_channel_per_thread),
        cmocka_unit_test(test_shared_endpoint),
        cmocka_unit_test(test_deadlines_and_credits),
        cmocka_unit_test(test_finish),
        cmocka_unit_test(test_peer_dies),
        cmocka_unit_test(test_rogue_peers),
        cmocka_unit_test(test_ends_as_text),
        cmocka_unit_test(test_refused),
    };

    test_options(argc, argv);
    setenv("GPUWIRE_NIC", "addr=127.0.0.1,hostile=1", 0);
    return cmocka_run_group_tests(tests, open_dev, close_all);
}
