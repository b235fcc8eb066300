/* SPDX-License-Identifier: Apache-2.0 */
/* Many queue pairs that ring one register, where the later ring hides the earlier: none is lost, and none is
 * late. */
#include <sys/mman.h>

#include "tests/softnic/fixture.h"

enum { MANY = 40, STEP = 64 };

static struct app_qp from[MANY], to[MANY];

static int many_up(void **state)
{
    const struct app_qp_options o = {.uidx = 9};

    (void)up(state);
    r.w.now += MS; /* no register has been swept lately */
    for (int i = 0; i < MANY; i++) {
        app_qp_up(&from[i], &r.w.nics[0], r.a.pd, r.a.uar, &r.a.cq, &r.a.cq, &o);
        app_qp_up(&to[i], &r.w.nics[1], r.b.pd, r.b.uar, &r.b.cq, &r.b.cq, &o);
        app_connect(&from[i], &to[i], &app_connect_default);
    }
    return 0;
}

static int many_down(void **state)
{
    for (int i = 0; i < MANY; i++) {
        if (from[i].qp) app_qp_down(&from[i]);
        app_qp_down(&to[i]);
    }
    return down(state);
}

/* A byte to this one's place in the peer's memory. All ring the same half: one ring is to be seen. */
static void write_one(int i, uint8_t byte)
{
    struct gw_mlx5_sge s = sge_of(&r.a, (uint32_t)i * STEP, 1);
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_WRITE, .num_sge = 1, .sge = &s};

    r.a.mem[i * STEP] = byte;
    wr.raddr = (uintptr_t)r.b.mem + (uint32_t)i * STEP;
    wr.rkey = r.b.key;
    from[i].half = 0;
    app_post(&from[i], &wr);
}

static int arrived(uint8_t byte)
{
    int n = 0;

    for (int i = 0; i < MANY; i++) n += r.b.mem[i * STEP] == byte;
    return n;
}

static void hidden_rings_are_seen(void **state)
{
    (void)state;
    for (uint8_t round = 1; round < 10; round++) {
        write_one(0, round); /* which has the register swept, just before the others ring */
        world_run(&r.w, 0);
        for (int i = 1; i < MANY; i++) write_one(i, round);
        world_settle(&r.w, 10 * MS);
        assert_int_equal(arrived(round), MANY);
        assert_int_equal(counters(&r, 0).doorbells, 2 * round);
    }
    assert_int_equal(r.w.reports, 0);
}

/* The queue pair that the ring names does not wait for the others, and they wait for microseconds. */
static void named_first_hidden_soon(void **state)
{
    uint64_t next, now = r.w.now;

    (void)state;
    write_one(0, 1);
    world_run(&r.w, 0);
    for (int i = 0; i < MANY; i++) write_one(i, 2);
    next = sn_nic_progress(r.w.nics[0].nic, now);
    assert_int_equal(counters(&r, 0).wqes, 2);
    assert_true(next > now && next <= now + 10000);
    (void)sn_nic_progress(r.w.nics[0].nic, next);
    assert_int_equal(counters(&r, 0).wqes, 1 + MANY);
    world_settle(&r.w, 10 * MS);
    assert_int_equal(arrived(2), MANY);
}

/* A thread that posts may not come again. The thread that takes over is told to look once, and from then on
 * knows when. */
static void who_posts_leaves_word(void **state)
{
    (void)state;
    write_one(0, 1);
    world_run(&r.w, 0);
    assert_true(sn_nic_posted(r.w.nics[0].nic, r.w.now) > r.w.now);
    for (int i = 0; i < MANY; i++) write_one(i, 2);
    assert_int_equal(sn_nic_posted(r.w.nics[0].nic, r.w.now), r.w.now);
    write_one(0, 2);
    assert_true(sn_nic_posted(r.w.nics[0].nic, r.w.now) > r.w.now);
    world_settle(&r.w, 10 * MS);
    assert_int_equal(arrived(2), MANY);
    assert_true(sn_nic_posted(r.w.nics[0].nic, r.w.now) > r.w.now);
}

/* A queue pair that goes has rung, whichever ring hid that. */
static void a_hidden_ring_is_not_called_missing(void **state)
{
    (void)state;
    write_one(0, 1);
    world_run(&r.w, 0);
    write_one(1, 2);
    write_one(2, 2);
    world_run(&r.w, 0);
    app_qp_down(&from[1]);
    from[1].qp = NULL;
    assert_int_equal(r.w.reports, 0);
    world_settle(&r.w, 10 * MS);
}

/* libmlx5 resets a queue pair first and clears its record then: what stands there in between is of before. */
static void a_record_of_before_is_no_ring(void **state)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

    (void)state;
    write_one(1, 1);
    write_one(1, 1);
    world_settle(&r.w, 10 * MS);
    write_one(1, 1); /* and one that it has rung for, which the NIC has not seen */
    assert_int_equal(sn_qp_modify(from[1].qp, &reset, IBV_QP_STATE), 0);
    write_one(2, 2);
    world_settle(&r.w, 10 * MS);
    assert_int_equal(r.w.reports, 0);
    write_one(1, 1); /* not any more */
    write_one(2, 3);
    world_settle(&r.w, 10 * MS);
    assert_true(r.w.reports > 0);
    expect_report(&r, "not yet in RTS");
}

/* One whose record cannot be read any more fails, and no other. */
static void a_record_that_is_gone_stops_nobody(void **state)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sn_qp_init q = {.type = IBV_QPT_RC, .pd = r.a.pd, .send_cq = r.a.cq.cq, .recv_cq = r.a.cq.cq};
    struct sn_qp *qp;

    (void)state;
    q.sq_buf = page;
    q.sq_wqebbs = 4;
    q.dbrec = (uint32_t *)page + 128;
    q.uar = r.a.uar;
    assert_int_equal(sn_qp_create(r.w.nics[0].nic, &q, &qp), 0);
    munmap(page, 4096);
    for (int i = 0; i < MANY; i++) write_one(i, 3);
    world_settle(&r.w, 10 * MS);
    assert_int_equal(arrived(3), MANY);
    assert_true(r.w.reports > 0);
    assert_int_equal(sn_qp_destroy(qp), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hidden_rings_are_seen, many_up, many_down),
        cmocka_unit_test_setup_teardown(named_first_hidden_soon, many_up, many_down),
        cmocka_unit_test_setup_teardown(who_posts_leaves_word, many_up, many_down),
        cmocka_unit_test_setup_teardown(a_hidden_ring_is_not_called_missing, many_up, many_down),
        cmocka_unit_test_setup_teardown(a_record_of_before_is_no_ring, many_up, many_down),
        cmocka_unit_test_setup_teardown(a_record_that_is_gone_stops_nobody, many_up, many_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
