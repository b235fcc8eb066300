/* SPDX-License-Identifier: Apache-2.0 */
/* Mistakes of programs, peers and memory. Both sides learn of them. */
#include <sys/mman.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/apart.h"
#include "tests/softnic/fixture.h"

static void refused(uint8_t syndrome, enum ibv_event_type event)
{
    world_settle(&r.w, 10 * MS);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, syndrome);
    expect_nothing(&r.a);
    assert_int_equal(app_state(&r.a.qp), IBV_QPS_ERR);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_ERR);
    assert_int_equal(r.w.events[event], 1);
}

static void untouched(void)
{
    for (int i = 0; i < RIG_MEM; i++) assert_int_equal(r.b.mem[i], 0);
}

static void request(uint8_t opcode, uint64_t raddr, uint32_t rkey, uint32_t len)
{
    struct gw_mlx5_sge s = sge_of(&r.a, 0, len);
    struct gw_mlx5_wr wr = {
        .opcode = opcode, .flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &s, .rkey = rkey, .raddr = raddr};

    memset(r.a.mem, 0x77, RIG_MEM);
    app_post(&r.a.qp, &wr);
}

static void a_wrong_key_is_refused(void **state)
{
    (void)state;
    request(GW_MLX5_WRITE, (uintptr_t)r.b.mem, r.b.key ^ 1, 100);
    refused(GW_MLX5_SYND_REM_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
    untouched();
    expect_report(&r, "rkey 0x");
    assert_int_equal(counters(&r, 1).naks_access_sent, 1);
}

static void a_byte_past_the_end_is_refused_and_nothing_written(void **state)
{
    (void)state;
    request(GW_MLX5_WRITE, (uintptr_t)r.b.mem + RIG_MEM - 5000, r.b.key, 5001);
    refused(GW_MLX5_SYND_REM_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
    untouched();
}

static void addresses_that_wrap_are_refused(void **state)
{
    (void)state;
    request(GW_MLX5_WRITE, UINT64_MAX - 10, r.b.key, 100);
    refused(GW_MLX5_SYND_REM_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
}

static void reads_are_checked_too(void **state)
{
    (void)state;
    request(GW_MLX5_READ, (uintptr_t)r.b.mem - 1, r.b.key, 10);
    refused(GW_MLX5_SYND_REM_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
}

static void another_domains_key_is_worth_nothing(void **state)
{
    struct sn_mr_init i = {.addr = (uintptr_t)r.b.mem,
                           .length = RIG_MEM,
                           .iova = (uintptr_t)r.b.mem,
                           .access = (uint32_t)rig_access};
    struct sn_pd *pd;
    struct sn_mr *mr;

    (void)state;
    assert_int_equal(sn_pd_create(r.w.nics[1].nic, &pd), 0);
    assert_int_equal(sn_mr_create(pd, &i, &mr), 0);
    request(GW_MLX5_WRITE, (uintptr_t)r.b.mem, sn_mr_key(mr), 100);
    refused(GW_MLX5_SYND_REM_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
    untouched();
    sn_mr_destroy(mr);
    sn_pd_destroy(pd);
}

static void a_right_that_was_not_given_is_refused(void **state)
{
    struct sn_mr_init i = {
        .addr = (uintptr_t)r.b.mem, .length = RIG_MEM, .iova = 0, .access = IBV_ACCESS_REMOTE_READ};
    struct sn_mr *mr;

    (void)state;
    assert_int_equal(sn_mr_create(r.b.pd, &i, &mr), 0);
    r.b.mem[9] = 42;
    request(GW_MLX5_READ, 9, sn_mr_key(mr), 1); /* by its own addresses, from 0 */
    world_settle(&r.w, 10 * MS);
    expect(&r.a, GW_MLX5_CQE_REQ);
    assert_int_equal(r.a.mem[0], 42);
    request(GW_MLX5_WRITE, 9, sn_mr_key(mr), 1);
    refused(GW_MLX5_SYND_REM_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
    assert_int_equal(r.b.mem[9], 42);
    sn_mr_destroy(mr);
}

static void the_queue_pair_has_a_say(void **state)
{
    struct ibv_qp_attr none = {.qp_access_flags = 0};

    (void)state;
    assert_int_equal(sn_qp_modify(r.b.qp.qp, &none, IBV_QP_ACCESS_FLAGS), 0);
    request(GW_MLX5_WRITE, (uintptr_t)r.b.mem, r.b.key, 100);
    refused(GW_MLX5_SYND_REM_INV_REQ, IBV_EVENT_QP_REQ_ERR);
    untouched();
}

static void nothing_needs_no_key(void **state)
{
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_WRITE, .flags = GW_MLX5_SIGNALED, .rkey = 0xdead, .raddr = 1};

    (void)state;
    app_post(&r.a.qp, &wr);
    wr.opcode = GW_MLX5_READ;
    app_post(&r.a.qp, &wr);
    world_settle(&r.w, 10 * MS);
    expect(&r.a, GW_MLX5_CQE_REQ);
    expect(&r.a, GW_MLX5_CQE_REQ);
}

static void a_wrong_local_key_fails_here_alone(void **state)
{
    struct gw_mlx5_sge s = {(uintptr_t)r.a.mem, 100, r.a.key ^ 1};
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_SEND, .num_sge = 1, .sge = &s};

    (void)state;
    post_recv(&r.b, 0, 100);
    app_post(&r.a.qp, &wr);
    world_settle(&r.w, 10 * MS);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_LOCAL_PROT); /* though it was not signalled */
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
    expect_nothing(&r.b);
}

static void a_message_longer_than_the_receive_fails_at_both_ends(void **state)
{
    (void)state;
    post_recv(&r.b, 0, 1500);
    post_recv(&r.b, 2000, 100);
    post(&r, GW_MLX5_SEND, 0, 1501, 0);
    world_settle(&r.w, 10 * MS);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_INV_REQ);
    expect_error(&r.b, GW_MLX5_CQE_RESP_ERR, GW_MLX5_SYND_LOCAL_LENGTH);
    expect_error(&r.b, GW_MLX5_CQE_RESP_ERR, GW_MLX5_SYND_FLUSHED);
}

static void a_receive_with_a_wrong_key_fails_at_both_ends(void **state)
{
    struct gw_mlx5_sge s = {(uintptr_t)r.b.mem, 100, r.b.key ^ 1};

    (void)state;
    app_recv(&r.b.qp, &s, 1);
    post(&r, GW_MLX5_SEND, 0, 50, 0);
    world_settle(&r.w, 10 * MS);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_OP);
    expect_error(&r.b, GW_MLX5_CQE_RESP_ERR, GW_MLX5_SYND_LOCAL_PROT);
}

static void a_dead_peer_is_given_up(void **state)
{
    (void)state;
    r.w.cut = true;
    post(&r, GW_MLX5_WRITE, 0, 5000, 0);
    post(&r, GW_MLX5_SEND, 0, 10, 0);
    world_settle(&r.w, 1000u * MS);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_RETRY_EXC);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_FLUSHED);
    assert_int_equal(counters(&r, 0).timeouts, 8); /* and 7 repeats */
    expect_report(&r, "no answer");
}

static void a_peer_without_receives_is_waited_for(void **state)
{
    (void)state;
    post(&r, GW_MLX5_SEND, 0, 3000, 0);
    world_settle(&r.w, MS);
    expect_nothing(&r.a);
    assert_in_range(counters(&r, 1).rnr_sent, 20, 110); /* every 10 us */
    post_recv(&r.b, 0, 4000);
    world_settle(&r.w, MS);
    expect(&r.a, GW_MLX5_CQE_REQ);
    assert_int_equal(expect(&r.b, GW_MLX5_CQE_RESP_SEND).byte_cnt, 3000);
    assert_int_equal(counters(&r, 0).timeouts, 0);
}

static void and_given_up_when_the_program_says_so(void **state)
{
    struct app_connect c = app_connect_default;
    struct rig s;

    (void)state;
    rig_up(&s, NULL);
    c.rnr_retry = 2;
    app_connect(&s.a.qp, &s.b.qp, &c);
    post(&s, GW_MLX5_SEND, 0, 10, 0);
    world_settle(&s.w, 10 * MS);
    expect_error(&s.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_RNR_EXC);
    assert_int_equal(counters(&s, 1).rnr_sent, 3);
    rig_down(&s);
}

/* Lost with nothing after it that would tell of the gap: long before the timeout of 4 s it is there all the
 * same. */
static void a_loss_at_the_end_is_made_good_early(void **state)
{
    struct app_connect c = app_connect_default;
    struct rig s;

    (void)state;
    for (int timeout = 0; timeout <= 20; timeout += 20) {
        rig_up(&s, NULL);
        c.timeout = (uint8_t)timeout;
        app_connect(&s.a.qp, &s.b.qp, &c);
        post(&s, GW_MLX5_WRITE, 0, 100, 0);
        world_settle(&s.w, MS);
        expect(&s.a, GW_MLX5_CQE_REQ);
        s.w.faults.loss = 10000;
        post(&s, GW_MLX5_WRITE, 0, 100, 0);
        world_settle(&s.w, MS / 2);
        s.w.faults.loss = 0;
        world_settle(&s.w, 10 * MS);
        assert_int_equal(counters(&s, 0).timeouts, 0);
        if (timeout)
            expect(&s.a, GW_MLX5_CQE_REQ);
        else
            expect_nothing(&s.a); /* no timeout is no repeat */
        rig_down(&s);
    }
}

/* Registered, and unmapped since: an error, and no end of the process. */
static void memory_that_went_away(void **state)
{
    uint8_t *p = map_apart(65536);
    struct sn_mr_init i = {
        .addr = (uintptr_t)p, .length = 65536, .iova = (uintptr_t)p, .access = (uint32_t)rig_access};
    struct sn_mr *mr;

    (void)state;
    assert_non_null(p);
    assert_int_equal(sn_mr_create(r.b.pd, &i, &mr), 0);
    munmap(p + 8192, 65536 - 8192);
    request(GW_MLX5_WRITE, (uintptr_t)p, sn_mr_key(mr), 8192);
    world_settle(&r.w, 10 * MS);
    expect(&r.a, GW_MLX5_CQE_REQ);
    request(GW_MLX5_WRITE, (uintptr_t)p, sn_mr_key(mr), 8193);
    refused(GW_MLX5_SYND_REM_OP, IBV_EVENT_QP_ACCESS_ERR);
    expect_report(&r, "cannot be accessed");
    sn_mr_destroy(mr);
    munmap(p, 8192);
}

static void own_memory_that_went_away(void **state)
{
    uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sn_mr_init i = {
        .addr = (uintptr_t)p, .length = 4096, .iova = (uintptr_t)p, .access = (uint32_t)rig_access};
    struct gw_mlx5_sge s;
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_READ, .num_sge = 1, .sge = &s};
    struct sn_mr *mr;

    (void)state;
    assert_int_equal(sn_mr_create(r.a.pd, &i, &mr), 0);
    mprotect(p, 4096, PROT_READ);
    s = (struct gw_mlx5_sge){(uintptr_t)p, 100, sn_mr_key(mr)};
    wr.raddr = (uintptr_t)r.b.mem;
    wr.rkey = r.b.key;
    app_post(&r.a.qp, &wr);
    world_settle(&r.w, 10 * MS);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_LOCAL_PROT);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
    sn_mr_destroy(mr);
    munmap(p, 4096);
}

static void a_region_that_goes_in_the_middle_of_a_read(void **state)
{
    struct world_options o = {.seed = 1, .budget = 4};
    struct rig s;

    (void)state;
    rig_up(&s, &o);
    rig_connect(&s);
    post(&s, GW_MLX5_READ, 0, 60000, 0);
    while (counters(&s, 1).tx_packets == 0) {
        world_run(&s.w, 0);
        world_run(&s.w, 1);
        world_advance(&s.w, 700);
    }
    sn_mr_destroy(s.b.mr);
    s.b.mr = NULL;
    world_settle(&s.w, 10 * MS);
    expect_error(&s.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_ACCESS);
    expect_report(&s, "deregistered");
    rig_down(&s);
}

/* The same with the placement that hostile mode holds back: nothing is written after sn_mr_destroy. */
static void nothing_is_written_to_a_region_that_is_gone(void **state)
{
    struct world_options o = {.seed = 5, .hostile = true};
    struct rig s;

    (void)state;
    for (unsigned steps = 1; steps < 12; steps++) {
        rig_up(&s, &o);
        rig_connect(&s);
        memset(s.a.mem, 0x55, RIG_MEM);
        post(&s, GW_MLX5_WRITE, 0, 60000, 0);
        for (unsigned i = 0; i < steps; i++) {
            world_run(&s.w, 0);
            world_run(&s.w, 1);
            world_advance(&s.w, 500);
        }
        sn_mr_destroy(s.b.mr);
        s.b.mr = NULL;
        memset(s.b.mem, 0, RIG_MEM);
        world_settle(&s.w, 10 * MS);
        for (int i = 0; i < RIG_MEM; i++) assert_int_equal(s.b.mem[i], 0);
        rig_down(&s);
    }
}

static void faults_of_others_still_end_the_process(void **state)
{
    volatile uintptr_t nowhere = 8;
    pid_t pid = fork();
    int status;

    (void)state;
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        sn_mr_destroy(r.b.mr);
        struct sn_mr_init i = {.length = 1, .addr = (uintptr_t)r.b.mem, .iova = 0};
        sn_mr_create(r.b.pd, &i, &r.b.mr); /* puts the guard in place, on top of the default */
        *(volatile char *)nowhere = 1;
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0); /* sanitizers turn it into an exit */
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, up, down)
    const struct CMUnitTest tests[] = {
        T(a_wrong_key_is_refused),
        T(a_byte_past_the_end_is_refused_and_nothing_written),
        T(addresses_that_wrap_are_refused),
        T(reads_are_checked_too),
        T(another_domains_key_is_worth_nothing),
        T(a_right_that_was_not_given_is_refused),
        T(the_queue_pair_has_a_say),
        T(nothing_needs_no_key),
        T(a_wrong_local_key_fails_here_alone),
        T(a_message_longer_than_the_receive_fails_at_both_ends),
        T(a_receive_with_a_wrong_key_fails_at_both_ends),
        T(a_dead_peer_is_given_up),
        T(a_peer_without_receives_is_waited_for),
        T(and_given_up_when_the_program_says_so),
        T(a_loss_at_the_end_is_made_good_early),
        T(memory_that_went_away),
        T(own_memory_that_went_away),
        T(a_region_that_goes_in_the_middle_of_a_read),
        T(nothing_is_written_to_a_region_that_is_gone),
        T(faults_of_others_still_end_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
