/* SPDX-License-Identifier: Apache-2.0 */
/* Two queue pairs of one NIC: nothing leaves it, WRITEs and READs take no packets, long messages one. */
#include <sys/mman.h>

#include "tests/apart.h"
#include "tests/softnic/other_memory.h"
#include "tests/softnic/rig.h"

enum { LONG = 20000 };

static struct rig r;

static void up(const struct world_options *o)
{
    static const struct world_options plain = {.seed = 1};

    memset(&r, 0, sizeof(r));
    world_up(&r.w, o ? o : &plain);
    end_up(&r, &r.a, 0, IBV_QPT_RC);
    end_up(&r, &r.b, 0, IBV_QPT_RC);
    rig_connect(&r);
    rig_fill(&r);
}

static void run(void)
{
    world_settle(&r.w, 200 * MS);
}

static void writes_and_reads_take_no_packets(void **state)
{
    uint8_t was[5000];

    (void)state;
    up(NULL);
    memcpy(was, r.b.mem + 20000, 5000);
    post(&r, GW_MLX5_WRITE, 0, 5000, 100);
    post(&r, GW_MLX5_READ, 30000, 5000, 20000);
    post(&r, GW_MLX5_WRITE, 0, 0, 0);
    world_run(&r.w, 0);
    for (int i = 0; i < 3; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    assert_memory_equal(r.b.mem + 100, r.a.mem, 5000);
    assert_memory_equal(r.a.mem + 30000, was, 5000);
    assert_int_equal(counters(&r, 0).tx_packets, 0);
    assert_int_equal(counters(&r, 0).direct_requests, 3);
    rig_down(&r);
}

static void a_long_message_is_an_offer(void **state)
{
    (void)state;
    up(NULL);
    post_recv(&r.b, 100, LONG);
    post(&r, GW_MLX5_SEND, 0, LONG, 0);
    run();
    expect(&r.a, GW_MLX5_CQE_REQ);
    assert_int_equal(expect(&r.b, GW_MLX5_CQE_RESP_SEND).byte_cnt, LONG);
    assert_memory_equal(r.b.mem + 100, r.a.mem, LONG);
    assert_int_equal(counters(&r, 0).rndv_taken, 1);
    assert_int_equal(counters(&r, 0).tx_packets, 2); /* the offer and the acknowledgement */
    rig_down(&r);
}

/* A region of a's written to from where it overlaps: b is another queue pair of a's domain's NIC. */
static void overlapping_bytes_are_moved(void **state)
{
    struct sn_mr *mr;
    uint8_t was[5000];

    (void)state;
    up(NULL);
    mr = end_region(&r.b, r.a.mem, RIG_MEM);
    memcpy(was, r.a.mem, 5000);
    post_between(&r, GW_MLX5_WRITE, sge_of(&r.a, 0, 5000), (uintptr_t)r.a.mem + 77, sn_mr_key(mr));
    run();
    expect(&r.a, GW_MLX5_CQE_REQ);
    assert_memory_equal(r.a.mem + 77, was, 5000);
    assert_int_equal(sn_mr_destroy(mr), 0);
    rig_down(&r);
}

static void errors_are_those_of_packets(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        up(NULL);
        post_between(&r, k == 2 ? GW_MLX5_READ : GW_MLX5_WRITE, sge_of(&r.a, 0, 64),
                     (uintptr_t)r.b.mem + (k ? RIG_MEM - 63 : 0), r.b.key + (k == 0));
        run();
        expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_ACCESS);
        assert_int_equal(app_state(&r.b.qp), IBV_QPS_ERR);
        assert_int_equal(r.w.events[IBV_EVENT_QP_ACCESS_ERR], 1);
        rig_down(&r);
    }
}

static void memory_that_went_fails_its_request(void **state)
{
    (void)state;
    for (int there = 0; there < 2; there++) {
        uint8_t *page = map_apart(4096);
        struct sn_mr *mr;

        up(NULL);
        mr = end_region(there ? &r.b : &r.a, page, 4096);
        assert_int_equal(munmap(page, 4096), 0);
        if (there)
            post_between(&r, GW_MLX5_WRITE, sge_of(&r.a, 0, 64), (uintptr_t)page, sn_mr_key(mr));
        else
            post_between(&r, GW_MLX5_WRITE, (struct gw_mlx5_sge){(uintptr_t)page, 64, sn_mr_key(mr)},
                         (uintptr_t)r.b.mem, r.b.key);
        run();
        expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, there ? GW_MLX5_SYND_REM_OP : GW_MLX5_SYND_LOCAL_PROT);
        assert_int_equal(sn_mr_destroy(mr), 0);
        rig_down(&r);
    }
}

/* ---- memory that is reached in another way, as a GPU's is ---------------------------------------------- */

static unsigned moves;

static int other_move(void *ctx, uint64_t addr, void *from, uint64_t src, uint32_t len)
{
    moves++;
    memmove((char *)ctx + addr, (char *)from + src, len);
    return 0;
}

static const struct sn_dma_ops other_ops = {.read = other_read, .write = other_write, .move = other_move};

static void post_other(uint32_t at, uint32_t len, struct sn_mr *from, struct sn_mr *to)
{
    post_between(&r, GW_MLX5_WRITE_IMM, (struct gw_mlx5_sge){at, len, sn_mr_key(from)}, at, sn_mr_key(to));
}

/* However short: moved there, all in a row at once, and then told of. After a message of another kind they
 * wait. */
static void messages_in_other_memory_are_placed(void **state)
{
    struct sn_mr *from, *to;

    (void)state;
    up(NULL);
    moves = 0;
    from = other_region(&r.a, &other_ops);
    to = other_region(&r.b, &other_ops);
    post(&r, GW_MLX5_SEND, 60000, 64, 0);
    for (uint32_t i = 0; i < 5; i++) post_other(i * 100, 8 + i, from, to);
    world_settle(&r.w, MS / 10);
    assert_int_equal(moves, 0);
    for (int i = 0; i < 6; i++) post_recv(&r.b, 50000, 64);
    run();
    for (int i = 0; i < 6; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM).byte_cnt, 8 + i);
        assert_memory_equal(r.b.mem + i * 100, r.a.mem + i * 100, 8 + i);
    }
    assert_int_equal(moves, 5);
    assert_int_equal(counters(&r, 0).direct_copies, 1);
    assert_int_equal(counters(&r, 0).eager_taken, 5);
    assert_int_equal(sn_mr_destroy(from), 0);
    assert_int_equal(sn_mr_destroy(to), 0);
    rig_down(&r);
}

/* Where packets are to be seen or disturbed, and where placement is to be late. */
static void packets_where_they_are_asked_for(void **state)
{
    const struct world_options o[] = {{.seed = 1, .loop_on_wire = true}, {.seed = 1, .hostile = true}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        up(&o[i]);
        post_recv(&r.b, 0, LONG);
        post(&r, GW_MLX5_WRITE, 0, 5000, 30000);
        post(&r, GW_MLX5_SEND, 0, LONG, 0);
        run();
        for (int k = 0; k < 2; k++) expect(&r.a, GW_MLX5_CQE_REQ);
        expect(&r.b, GW_MLX5_CQE_RESP_SEND);
        assert_memory_equal(r.b.mem, r.a.mem, LONG);
        assert_memory_equal(r.b.mem + 30000, r.a.mem, 5000);
        assert_int_equal(counters(&r, 0).direct_requests, 0);
        assert_int_equal(counters(&r, 0).rndv_sent, 0);
        rig_down(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_and_reads_take_no_packets),
        cmocka_unit_test(a_long_message_is_an_offer),
        cmocka_unit_test(overlapping_bytes_are_moved),
        cmocka_unit_test(errors_are_those_of_packets),
        cmocka_unit_test(memory_that_went_fails_its_request),
        cmocka_unit_test(messages_in_other_memory_are_placed),
        cmocka_unit_test(packets_where_they_are_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
