/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything through a NIC, within one process: each operation with its data, many posters, errors, starting
 * again, sleeping.
 * --exec gpu runs the same on a GPU: its kernels post to a peer queue pair and poll completions themselves.
 */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>

#include "tests/verbs/device.h"
#include "tests/verbs/loopback.h"

GW_KERNEL_DECLARE(share_kernel);
GW_KERNEL_DECLARE(ping_kernel);
GW_KERNEL_DECLARE(ticket_kernel);

/* The variants of every test that moves data. */
static const struct {
    uint32_t mem, qp_flags;
    const char *name;
} variant[] = {
    {GW_MEM_HOST, 0, "host memory"},
    {GW_MEM_DEVICE, GW_QP_ONE_POSTER, "executor's memory, one poster"},
    {GW_MEM_HOST, GW_QP_LOCK_FREE, "host memory, lock-free"},
};
#define VARIANTS (sizeof(variant) / sizeof(variant[0]))

/* 0 when this variant cannot be had here: GPU memory that the NIC does not reach. */
static int vary(size_t i, struct pair_opts *o)
{
    struct gw_device_info info;

    gw_device_query(dev, &info);
    if (variant[i].mem == GW_MEM_DEVICE && info.gpu_reach == GW_REACH_NONE) {
        printf("gpu: memory of its own skipped: %s\n", info.gpu_why);
        return 0;
    }
    o->mem = variant[i].mem;
    o->qp_flags |= variant[i].qp_flags;
    return 1;
}

static void same(struct pair *p, size_t from, size_t to, size_t len)
{
    uint8_t *a = malloc(len + 1), *b = malloc(len + 1);

    pair_read(p, 0, from, a, len);
    pair_read(p, 1, to, b, len);
    assert_memory_equal(a, b, len);
    free(a);
    free(b);
}

static const uint32_t lengths[] = {0, 1, 3, 64, 1023, 1024, 1025, 4096, 10000, 65000};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static void put_each_length(struct pair *p)
{
    size_t off = 0, at[LENGTHS];
    size_t i;

    pair_fill(p, 0, 1);
    pair_fill(p, 1, 2);
    for (i = 0; i < LENGTHS; i++) {
        at[i] = off;
        if (i & 1) pair_step(p, STEP_RECV, 1, 0, 0, 0, 100 + i / 2);
        pair_step(p, i & 1 ? STEP_PUT_IMM : STEP_PUT, 0, off, lengths[i], off + 5, 10 + i)->imm =
            0x12345600u + (uint32_t)i;
        off += lengths[i] + 7;
    }
    pair_wait(p, 0, LENGTHS);
    pair_wait(p, 1, LENGTHS / 2);
    pair_step(p, STEP_EXPECT_EMPTY, 1, 0, 0, 0, 0);
    pair_run_ok(p);
    for (i = 0; i < LENGTHS; i++) {
        same(p, at[i], at[i] + 5, lengths[i]);
        assert_int_equal(p->out.wc[i].wr_id, 10 + i);
        assert_int_equal(p->out.wc[i].opcode, IBV_WC_RDMA_WRITE);
    }
    for (i = 0; i < LENGTHS / 2; i++) {
        const struct ibv_wc *wc = &p->out.wc[LENGTHS + i];

        assert_int_equal(wc->wr_id, 100 + i);
        assert_int_equal(wc->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
        assert_int_equal(wc->wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
        assert_int_equal(gw_wc_imm(wc), 0x12345600u + 2 * i + 1);
        assert_int_equal(wc->byte_len, lengths[2 * i + 1]);
        assert_int_equal(wc->qp_num, gw_qp_num(p->qp[1]));
    }
}

static void get_and_send(struct pair *p)
{
    size_t i;

    pair_fill(p, 0, 3);
    pair_fill(p, 1, 4);
    for (i = 0; i < LENGTHS; i++) {
        if (lengths[i] > 16000) break;
        /* READ of what the peer has at 20000 into our 0; then SEND that back into the peer's receive at
         * 40000. */
        pair_step(p, STEP_GET, 0, 0, lengths[i], 20000, 1);
        pair_wait(p, 0, 1);
        pair_step(p, STEP_RECV, 1, 40000, 16000, 0, 2);
        pair_step(p, STEP_SEND, 0, 0, lengths[i], 0, 3);
        pair_wait(p, 1, 1);
        pair_wait(p, 0, 1);
        pair_run_ok(p);
        same(p, 0, 20000, lengths[i]);
        same(p, 0, 40000, lengths[i]);
        assert_int_equal(p->out.wc[0].opcode, IBV_WC_RDMA_READ);
        assert_int_equal(p->out.wc[0].byte_len, lengths[i]);
        assert_int_equal(p->out.wc[1].opcode, IBV_WC_RECV);
        assert_int_equal(p->out.wc[1].byte_len, lengths[i]);
        assert_int_equal(p->out.wc[2].opcode, IBV_WC_SEND);
    }
}

static void defer_and_wrap(struct pair *p)
{
    pair_fill(p, 0, 5);
    for (uint32_t round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < 7; i++)
            pair_step(p, STEP_PUT, 0, 100 * i, 100, 100 * i + 1, round)->flags =
                GW_DEFER | (i == 6 ? GW_SIGNALED : 0);
        pair_step(p, STEP_RING, 0, 0, 0, 0, 0);
        pair_wait(p, 0, 1);
        pair_run_ok(p);
        assert_int_equal(p->out.wc[0].wr_id, round);
    }
    same(p, 0, 1, 700);
}

static void test_operations(void **state)
{
    (void)state;
    for (size_t i = 0; i < VARIANTS; i++) {
        struct pair_opts o = {.half = 131072};
        struct pair p;

        if (!vary(i, &o)) continue;
        pair_make(&p, dev, &o);
        put_each_length(&p);
        get_and_send(&p);
        defer_and_wrap(&p);
        pair_free(&p);
        printf("gpu: operations pass: %s\n", variant[i].name);
    }
}

/*
 * A region whose addresses are not those of its memory: the NIC translates them, the CPU cannot. GPU memory
 * is so to a CPU thread that carries requests and completions. Short messages, which a NIC may put into their
 * completions.
 */
static void test_memory_that_only_the_nic_reaches(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct pair_opts o = {.qp_flags = GW_QP_SIGNAL_ALL};
    uint8_t expected[32], *decoy;
    struct ibv_mr *mr;
    struct gw_mem mem;
    struct step *s;
    struct pair p;

    (void)state;
    pair_make(&p, dev, &o);
    pair_fill(&p, 0, 31);
    must(gw_mem_alloc(exec, GW_MEM_HOST, page, &mem), "gw_mem_alloc");
    decoy = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(decoy != MAP_FAILED);
    mr = ibv_reg_mr_iova(p.pd->pd, mem.host, page, (uintptr_t)decoy, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
    s = pair_step(&p, STEP_RECV, 1, 0, 32, 0, 1);
    s->sge[0].addr = (uintptr_t)decoy;
    s->sge[0].lkey = mr->lkey;
    pair_step(&p, STEP_SEND, 0, 0, 32, 0, 2);
    pair_wait(&p, 1, 1);
    pair_wait(&p, 0, 1);
    s = pair_step(&p, STEP_GET, 1, 0, 16, 64, 3);
    s->sge[0].addr = (uintptr_t)decoy + 100;
    s->sge[0].lkey = mr->lkey;
    pair_wait(&p, 1, 1);
    pair_run_ok(&p);
    pair_read(&p, 0, 0, expected, 32);
    assert_memory_equal(mem.host, expected, 32);
    pair_read(&p, 0, 64, expected, 16);
    assert_memory_equal((uint8_t *)mem.host + 100, expected, 16);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(decoy, page);
    gw_mem_free(&mem);
    pair_free(&p);
}

/* The struct calls: scattered, inline, immediate; and the atomics where the device has them. */
static void test_ibv_calls(void **state)
{
    struct pair_opts o = {.max_inline = 200};
    struct pair p;
    struct step *s;
    uint64_t word;

    (void)state;
    pair_make(&p, dev, &o);
    pair_fill(&p, 0, 7);
    pair_fill(&p, 1, 8);
    s = pair_step(&p, STEP_IBV_SEND, 0, 0, 100, 1000,
                  1); /* three pieces, one of them empty, into one stretch */
    s->opcode = IBV_WR_RDMA_WRITE;
    s->num_sge = 4;
    s->sge[1] = s->sge[2] = s->sge[3] = s->sge[0];
    s->sge[1].addr += 100;
    s->sge[2].length = 0;
    s->sge[3].addr += 200;
    s->more = 1;
    s = pair_step(&p, STEP_IBV_SEND, 0, 300, 150, 1300, 2);
    s->opcode = IBV_WR_RDMA_WRITE;
    s->flags |= o.mem == GW_MEM_DEVICE ? 0 : IBV_SEND_INLINE;
    pair_step(&p, STEP_IBV_RECV, 1, 5000, 100, 0, 3)->num_sge = 1;
    s = pair_step(&p, STEP_IBV_SEND, 0, 450, 60, 0, 4);
    s->opcode = IBV_WR_SEND_WITH_IMM;
    s->imm = 77;
    pair_wait(&p, 0, 3);
    pair_wait(&p, 1, 1);
    s = pair_step(&p, STEP_IBV_SEND, 0, 8000, 450, 1000, 5);
    s->opcode = IBV_WR_RDMA_READ;
    pair_wait(&p, 0, 1);
    pair_run_ok(&p);
    same(&p, 0, 1000, 450);
    same(&p, 450, 5000, 60);
    same(&p, 8000, 1000, 450);
    assert_int_equal(gw_wc_imm(&p.out.wc[3]), 77);
    if (strstr(test_exec_name, "cpu") &&
        gw_qp_handle(p.qp[0])->size) { /* atomics: the word that was there comes back */
        struct ibv_device_attr attr;

        assert_int_equal(ibv_query_device(gw_device_context(dev), &attr), 0);
        if (attr.atomic_cap != IBV_ATOMIC_NONE) {
            word = 1000;
            pair_write(&p, 1, 800, &word, 8);
            s = pair_step(&p, STEP_IBV_SEND, 0, 16, 8, 800, 6);
            s->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
            s->compare_add = 5;
            s = pair_step(&p, STEP_IBV_SEND, 0, 24, 8, 800, 7);
            s->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
            s->compare_add = 1005;
            s->swap = 9;
            pair_wait(&p, 0, 2);
            pair_run_ok(&p);
            pair_read(&p, 1, 800, &word, 8);
            assert_int_equal(word, 9);
            pair_read(&p, 0, 16, &word, 8);
            assert_int_equal(word, 1000);
            pair_read(&p, 0, 24, &word, 8);
            assert_int_equal(word, 1005);
        }
    }
    pair_free(&p);
}

static void share(uint32_t grid, uint32_t block, uint32_t warp, size_t v)
{
    uint32_t threads = grid * test_block_dim(exec, block), each = 8, len = 96;
    struct pair_opts o = {.send_wr = 64, .half = (size_t)threads * each * len};
    struct share_args args;
    struct gw_mem done;
    struct pair p;
    uint32_t got[3];

    if (!vary(v, &o)) return;
    o.qp_flags &= ~(uint32_t)GW_QP_ONE_POSTER;
    pair_make(&p, dev, &o);
    pair_fill(&p, 0, 9);
    pair_fill(&p, 1, 10);
    must(gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(got), &done), "gw_mem_alloc");
    args.qp = gw_qp_handle(p.qp[0]);
    args.cq = gw_cq_handle(p.cq[0]);
    args.src = p.base;
    args.dst = p.base + p.half;
    args.lkey = p.mr->lkey;
    args.rkey = p.mr->rkey;
    args.each = each;
    args.len = len;
    args.warp = warp;
    args.limit_ns = 60000000000u;
    args.done = done.dev;
    must(gw_launch(exec, &share_kernel, grid, block, &args), "gw_launch");
    must(gw_exec_sync(exec, gw_deadline(120000000000u)), "gw_exec_sync");
    must(gw_copy_out(exec, got, done.dev, sizeof(got)), "gw_copy_out");
    assert_int_equal(got[1], 0);
    assert_int_equal(got[2], 0);
    assert_int_equal(got[0], threads * each);
    same(&p, 0, 0, p.half);
    gw_mem_free(&done);
    pair_free(&p);
}

static void test_shared_queue_pair(void **state)
{
    uint32_t blocks = gw_exec_resident_blocks(exec) < 4 ? gw_exec_resident_blocks(exec) : 4;

    (void)state;
    for (size_t v = 0; v < VARIANTS; v++) {
        share(blocks, 32, 0, v);
        share(blocks, 32, 1, v);
    }
}

static void run_tickets(struct pair *p, uint32_t fail, int32_t ret[TICKET_STEPS])
{
    struct ticket_args args;
    struct gw_mem mem;

    must(gw_mem_alloc(exec, GW_MEM_DEVICE, TICKET_STEPS * sizeof(*ret), &mem), "gw_mem_alloc");
    args.qp = gw_qp_handle(p->qp[0]);
    args.src = p->base;
    args.dst = p->base + p->half;
    args.lkey = p->mr->lkey;
    args.rkey = p->mr->rkey;
    args.fail = fail;
    args.limit_ns = 60000000000u;
    args.ret = mem.dev;
    must(gw_launch(exec, &ticket_kernel, 1, 1, &args), "gw_launch");
    must(gw_exec_sync(exec, gw_deadline(120000000000u)), "gw_exec_sync");
    must(gw_copy_out(exec, ret, mem.dev, TICKET_STEPS * sizeof(*ret)), "gw_copy_out");
    gw_mem_free(&mem);
}

/* The fast calls through the NIC: what each moves, and what a ticket says when a request before it has
 * failed. */
static uint64_t word_at(struct pair *p, int side, size_t off)
{
    uint64_t word;

    pair_read(p, side, off, &word, 8);
    return word;
}

static void tickets(struct pair *p)
{
    struct gw_device_info info;
    int32_t ret[TICKET_STEPS];
    uint64_t word = 1000, count = 7;
    int masked; /* libibverbs has no masked atomics that a proxy could post */

    gw_device_query(dev, &info);
    masked = info.post_mode != GW_POST_PROXY_POST;
    pair_fill(p, 0, 21);
    pair_fill(p, 1, 22);
    pair_write(p, 1, 1000, &word, 8);
    pair_write(p, 1, 504, &count, 8);
    run_tickets(p, 0, ret);
    for (int i = 0; i < TICKET_STEPS; i++)
        assert_int_equal(ret[i], i == 8 ? -EINVAL : (i == 10 || i == 11) && !masked ? -EOPNOTSUPP : 0);
    same(p, 0, 0, 500);
    same(p, 2000, 2000, 700);
    assert_true(word_at(p, 1, 504) == 0x1122334455667788u + 7); /* a signal adds */
    /* 0x101, and of 0xabcd the digits of 0xf0f0 */
    assert_int_equal(word_at(p, 1, 1000), masked ? 0xa1c1 : 9);
    assert_int_equal(word_at(p, 0, 1000), 1000);
    assert_int_equal(word_at(p, 0, 1008), 1005);
    if (masked) assert_int_equal(word_at(p, 0, 1016), 9);
    if (masked) assert_int_equal(word_at(p, 0, 1024), 0x101);
    run_tickets(p, 1, ret);
    assert_int_equal(ret[1], 0);
    assert_int_equal(ret[6], -EIO);
    assert_int_equal(ret[7], 0); /* what came before the failure stays valid */
    assert_int_equal(ret[9], -EIO);
    run_tickets(p, 0, ret);
    assert_int_equal(ret[0], 0); /* accepted, and flushed */
    assert_int_equal(ret[1], -EIO);
}

static void test_tickets(void **state)
{
    struct ibv_device_attr attr;

    (void)state;
    assert_int_equal(ibv_query_device(gw_device_context(dev), &attr), 0);
    if (attr.atomic_cap == IBV_ATOMIC_NONE) skip();
    for (size_t i = 0; i < VARIANTS; i++) {
        struct pair_opts o = {.half = 131072};
        struct pair p;

        if (!vary(i, &o)) continue;
        pair_make(&p, dev, &o);
        tickets(&p);
        pair_free(&p);
    }
}

static void test_ping_pong(void **state)
{
    (void)state;
    for (size_t v = 0; v < VARIANTS; v++) {
        struct pair_opts o = {0};
        struct ping_args args;
        struct gw_mem mem;
        struct pair p;
        uint64_t ns[2];

        if (!vary(v, &o)) continue;
        pair_make(&p, dev, &o);
        must(gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(ns), &mem), "gw_mem_alloc");
        for (int i = 0; i < 2; i++) {
            args.qp[i] = gw_qp_handle(p.qp[i]);
            args.cq[i] = gw_cq_handle(p.cq[i]);
        }
        args.src = p.base;
        args.dst = p.base + p.half;
        args.lkey = p.mr->lkey;
        args.rkey = p.mr->rkey;
        args.len = 64;
        args.rounds = 300;
        args.limit_ns = 60000000000u;
        args.ns = mem.dev;
        must(gw_launch(exec, &ping_kernel, 1, 1, &args), "gw_launch");
        must(gw_exec_sync(exec, gw_deadline(120000000000u)), "gw_exec_sync");
        must(gw_copy_out(exec, ns, mem.dev, sizeof(ns)), "gw_copy_out");
        assert_int_equal(ns[1], args.rounds);
        printf("measured: 64-byte write with immediate, posted and polled by a kernel, there and back: %.1f "
               "us (%s)\n",
               (double)ns[0] / args.rounds / 1000, variant[v].name);
        gw_mem_free(&mem);
        pair_free(&p);
    }
}

/* The device is in the mode that was asked for, and its objects are, too. */
static void test_mode(void **state)
{
    static const char *const name[] = {"auto", "direct", "proxy-doorbell", "proxy-post"};
    const char *asked = getenv("GPUWIRE_POST");
    struct gw_cq_attr ca = {.cqe = 16, .post_mode = GW_POST_PROXY_POST};
    struct gw_qp_attr qa = {.max_send_wr = 1, .max_recv_wr = 1, .post_mode = GW_POST_PROXY_DOORBELL};
    struct gw_device_info info;
    struct gw_device *other;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;

    (void)state;
    gw_device_query(dev, &info);
    printf("gpu: posting mode: %s\n", name[info.post_mode]);
    if (asked) assert_string_equal(name[info.post_mode], asked);
    must(gw_pd_create(dev, &pd), "gw_pd_create");
    must(gw_cq_create(dev, &ca, &cq), "gw_cq_create");
    qa.send_cq = qa.recv_cq = cq;
    assert_int_equal(gw_qp_create(pd, &qa, &qp), -EINVAL);
    assert_non_null(strstr(gw_last_error(), "made for proxy-post"));
    qa.post_mode = GW_POST_AUTO; /* as its completion queues */
    must(gw_qp_create(pd, &qa, &qp), "gw_qp_create");
    must(gw_qp_destroy(qp), "gw_qp_destroy");
    must(gw_cq_destroy(cq), "gw_cq_destroy");
    must(gw_pd_destroy(pd), "gw_pd_destroy");
    if (!asked) return;
    setenv("GPUWIRE_POST", "sometimes", 1);
    assert_int_equal(gw_device_open("softnic", exec, &other), -EINVAL);
    assert_non_null(strstr(gw_last_error(), "proxy-post"));
    setenv("GPUWIRE_POST", name[info.post_mode], 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_memory_that_only_the_nic_reaches),
        cmocka_unit_test(test_ibv_calls),
        cmocka_unit_test(test_tickets),
        cmocka_unit_test(test_shared_queue_pair),
        cmocka_unit_test(test_wrong_keys),
        cmocka_unit_test(test_peer_without_receive),
        cmocka_unit_test(test_peer_gone),
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_reset_forgets_what_was_ready),
        cmocka_unit_test(test_ping_pong),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_mode),
    };

    setenv("GPUWIRE_NIC", "addr=127.0.0.1,hostile=1", 0);
    test_options(argc, argv);
    return cmocka_run_group_tests(tests, open_all, close_all);
}
