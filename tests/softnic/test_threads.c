/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several threads drive one NIC. The promise under test: after a ring and one call of sn_nic_progress the
 * request is executed. That call may have found another thread inside. Still no thread needs to call again.
 */
#include <pthread.h>
#include <time.h>

#include "tests/softnic/rig.h"

enum { THREADS = 4, POSTS = 3000, WAIT_S = 60 };

static struct world w;
static struct sn_pd *pd;
static int lost;

struct worker {
    pthread_t id;
    struct sn_uar *uar;
    struct sn_mr *mr;
    struct app_cq cq;
    struct app_qp qp;
    uint64_t memory[2];
};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool completed(struct worker *k)
{
    uint64_t end = now_ns() + WAIT_S * UINT64_C(1000000000);
    struct gw_mlx5_wc wc;

    while (!app_poll(&k->cq, &wc, NULL)) {
        if (now_ns() > end) return false;
        sched_yield();
    }
    return !gw_mlx5_wc_is_error(&wc);
}

static void *work(void *arg)
{
    struct worker *k = arg;
    struct gw_mlx5_sge s = {(uintptr_t)&k->memory[0], 8, sn_mr_key(k->mr)};
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_WRITE, .flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &s};

    wr.raddr = (uintptr_t)&k->memory[1];
    wr.rkey = s.lkey;
    for (uint64_t i = 1; i <= POSTS; i++) {
        uint64_t next, now;

        k->memory[0] = i;
        app_post(&k->qp, &wr);
        do {
            now = now_ns();
            next = sn_nic_progress(w.nics[0].nic, now);
        } while (next != SN_CONTENDED && next <= now); /* it says that there is work left */
        if (!completed(k) || k->memory[1] != i) {
            __atomic_fetch_add(&lost, 1, __ATOMIC_RELAXED);
            return NULL;
        }
    }
    return NULL;
}

static void worker_up(struct worker *k)
{
    struct sn_mr_init mr = {.length = 16, .access = (uint32_t)rig_access};
    struct app_qp_options o = {.uidx = 1};

    assert_int_equal(sn_uar_create(w.nics[0].nic, &k->uar), 0);
    mr.addr = mr.iova = (uintptr_t)k->memory;
    assert_int_equal(sn_mr_create(pd, &mr, &k->mr), 0);
    app_cq_up(&k->cq, &w.nics[0], k->uar, 64, 64);
    app_qp_up(&k->qp, &w.nics[0], pd, k->uar, &k->cq, &k->cq, &o);
    app_connect(&k->qp, &k->qp, &app_connect_default);
}

static void worker_down(struct worker *k)
{
    app_qp_down(&k->qp);
    app_cq_down(&k->cq);
    assert_int_equal(sn_mr_destroy(k->mr), 0);
    assert_int_equal(sn_uar_destroy(k->uar), 0);
}

static void no_ring_is_lost(void **state)
{
    struct world_options o = {.seed = 1, .only = 1};
    static struct worker workers[THREADS];

    (void)state;
    world_up(&w, &o);
    assert_int_equal(sn_pd_create(w.nics[0].nic, &pd), 0);
    for (int i = 0; i < THREADS; i++) worker_up(&workers[i]);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i].id, NULL, work, &workers[i]), 0);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(workers[i].id, NULL), 0);
    assert_int_equal(lost, 0);
    for (int i = 0; i < THREADS; i++) worker_down(&workers[i]);
    assert_int_equal(sn_pd_destroy(pd), 0);
    world_down(&w);
}

/* Objects come and go while another thread drives. */
static int stop;

static void *drive(void *arg)
{
    (void)arg;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) sn_nic_progress(w.nics[0].nic, now_ns());
    return NULL;
}

static void objects_come_and_go(void **state)
{
    struct world_options o = {.seed = 2, .only = 1, .hostile = true};
    struct worker k;
    pthread_t id;

    (void)state;
    world_up(&w, &o);
    assert_int_equal(sn_pd_create(w.nics[0].nic, &pd), 0);
    assert_int_equal(pthread_create(&id, NULL, drive, NULL), 0);
    for (int i = 0; i < 200; i++) {
        struct gw_mlx5_wr wr = {.opcode = GW_MLX5_WRITE, .flags = GW_MLX5_SIGNALED};

        memset(&k, 0, sizeof(k));
        worker_up(&k);
        app_post(&k.qp, &wr);
        if (i & 1) assert_true(completed(&k));
        worker_down(&k);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(id, NULL), 0);
    assert_int_equal(sn_pd_destroy(pd), 0);
    world_down(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_ring_is_lost),
        cmocka_unit_test(objects_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
