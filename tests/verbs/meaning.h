/* SPDX-License-Identifier: Apache-2.0 */
/* meaning.h: what tests of calls share, whose NIC is a thread: the rig, requests, completions. */
#ifndef TESTS_VERBS_MEANING_H
#define TESTS_VERBS_MEANING_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "src/mlx5/wqe.h"
#include "tests/verbs/rig.h"

static struct gw_exec *exec;
static struct rig r;
static uint32_t lock_free; /* GW_QP_LOCK_FREE: everything once more so */

static inline void start(uint32_t wqebbs, uint32_t fail_at)
{
    struct rig_opts o = {.wqebbs = wqebbs,
                         .wqes = 8,
                         .cqes = wqebbs + 8,
                         .tokens = 1000,
                         .fail_at = fail_at,
                         .qp_flags = lock_free};

    while (o.cqes & (o.cqes - 1)) o.cqes++;
    rig_start(&r, exec, &o);
}

static inline void end(void)
{
    rig_stop(&r);
    assert_string_equal(r.wrong, "");
    rig_free(&r);
}

/* Takes n completions, or fails after ten seconds. */
static inline void take(int n, struct ibv_wc *wc)
{
    uint64_t deadline = gw_clock_ns() + 60000000000u;
    int got = 0;

    while (got < n) {
        int k = gw_wait_cq(r.cqh, n - got, wc + got, deadline, NULL, -1);

        if (k <= 0) fail_msg("%d completions of %d", got, n);
        got += k;
    }
}

static struct ibv_sge sge[20];

static inline void make(struct ibv_send_wr *wr, uint64_t token, int num_sge, struct ibv_send_wr *next)
{
    memset(wr, 0, sizeof(*wr));
    wr->wr_id = token;
    wr->sg_list = sge;
    wr->num_sge = num_sge;
    wr->opcode = IBV_WR_RDMA_WRITE;
    wr->send_flags = IBV_SEND_SIGNALED;
    wr->wr.rdma.remote_addr = token;
    wr->next = next;
}

static inline int open_exec(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) sge[i] = (struct ibv_sge){.addr = 0x1000, .length = 8, .lkey = 1};
    return gw_exec_create("cpu", NULL, &exec);
}

static inline int close_exec(void **state)
{
    (void)state;
    return gw_exec_destroy(exec);
}

/* The tests, once with locks and once without. How many failed. */
#define RUN_MEANING(tests)                                                                                   \
    (cmocka_run_group_tests(tests, open_exec, close_exec) +                                                  \
     (lock_free = GW_QP_LOCK_FREE, cmocka_run_group_tests(tests, open_exec, close_exec)))

#endif
