/* SPDX-License-Identifier: Apache-2.0 */
/* A NIC whose parts do not agree ends the program, and says which statement fails. */
#include "softnic/engine/engine.h"
#include "tests/exec/dies.h"
#include "tests/softnic/fixture.h"

#ifdef GW_ASSERTS

/* One way to break the NIC of end a, and what is said then. */
struct broken {
    void (*way)(struct sn_qp *qp);
    const char *file, *expression;
};

static void no_lock(struct sn_qp *qp)
{
    sn_nic_unlock(qp->nic);
    sn_qp_wake(qp);
}

static void before_its_doorbell(struct sn_qp *qp)
{
    qp->sq_next++;
    sn_sq_check(qp);
}

static void more_than_the_queue(struct sn_qp *qp)
{
    qp->sq_pi = (uint16_t)(qp->sq_ci + qp->init.sq_wqebbs + 1);
    sn_sq_check(qp);
}

static void lost_request(struct sn_qp *qp)
{
    qp->req.una = qp->req.cur = qp->req.end - 1;
    sn_sq_check(qp);
}

static void acknowledged_before_sent(struct sn_qp *qp)
{
    qp->req.una_psn = roce_psn_add(qp->req.max_psn, 1);
    sn_requester_check(qp);
}

static void wide_window(struct sn_qp *qp)
{
    qp->req.window = qp->req.window_max + 1;
    sn_requester_check(qp);
}

static void too_many_reads(struct sn_qp *qp)
{
    qp->req.read_tail = qp->req.read_head + SN_MAX_RD_ATOMIC + 1;
    sn_requester_check(qp);
}

static void answer_beyond_the_read(struct sn_qp *qp)
{
    qp->resp.slots[0] = (struct sn_slot_rd){.kind = SN_SLOT_READ, .pending = true, .packets = 1, .count = 2};
    sn_responder_check(qp);
}

static void late_timer(struct sn_qp *qp)
{
    sn_timer_set(qp, qp->nic->now + MS);
    qp->heap_time += 1;
    sn_qp_check(qp);
}

static void stray_timer(struct sn_qp *qp)
{
    sn_timer_set(qp, qp->nic->now + MS);
    qp->heap_at++;
    sn_nic_check(qp->nic);
}

static void error_without_state(struct sn_qp *qp)
{
    sn_list_add(&qp->nic->errs, &qp->err_link);
    sn_qp_check(qp);
}

static void broken_link(struct sn_qp *qp)
{
    qp->all_link.next = &qp->all_link;
    sn_list_del(&qp->all_link);
}

static void copies_left(struct sn_qp *qp)
{
    qp->nic->direct.peer = (struct sn_peer *)qp;
    sn_nic_check(qp->nic);
}

static void miscounted(struct sn_qp *qp)
{
    qp->nic->qp_count++;
    sn_nic_check(qp->nic);
}

static void forgotten_user(struct sn_qp *qp)
{
    qp->init.pd->users = 0;
    sn_nic_unlock(qp->nic);
    sn_mr_destroy(r.a.mr);
}

static void long_completion(struct sn_qp *qp)
{
    sn_cq_post_now(qp->init.send_cq, qp, &(struct gw_mlx5_wc){0}, NULL, SN_INLINE_ROOM + 1);
}

static const struct broken ways[] = {
    {no_lock, "object/qp.c:", "this thread holds &qp->nic->lock"},
    {before_its_doorbell,
     "queue/sq.c:", "(uint16_t)(qp->sq_next - qp->sq_ci) <= (uint16_t)(qp->sq_pi - qp->sq_ci)"},
    {more_than_the_queue, "queue/sq.c:", "(uint16_t)(qp->sq_pi - qp->sq_ci) <= qp->init.sq_wqebbs"},
    {lost_request, "queue/sq.c:", "r->ring || r->una == r->end"},
    {acknowledged_before_sent, "transport/requester.c:", "roce_psn_diff(r->max_psn, r->una_psn) >= 0"},
    {wide_window, "transport/requester.c:", "r->window <= r->window_max"},
    {too_many_reads, "transport/requester.c:", "r->read_tail - r->read_head <= SN_MAX_RD_ATOMIC"},
    {answer_beyond_the_read, "transport/responder_tx.c:", "slot->count <= slot->packets"},
    {late_timer, "engine/check.c:", "qp->heap_time <= first"},
    {stray_timer, "engine/check.c:", "nic->heap[i]->heap_at == i + 1"},
    {error_without_state, "engine/check.c:", "qp->state != IBV_QPS_ERR"},
    {broken_link, "base/list.h:", "l->prev->next == l && l->next->prev == l"},
    {copies_left, "engine/check.c:", "!nic->direct.peer"},
    {miscounted, "engine/check.c:", "qps == nic->qp_count"},
    {forgotten_user, "region/mr.c:", "mr->pd->users > 0"},
    {long_completion, "queue/cq.c:", "len <= SN_INLINE_ROOM"},
};

/* In a child, which takes the lock itself: its thread has another number. */
static void break_it(void *arg)
{
    const struct broken *b = arg;
    struct sn_qp *qp;

    sn_nic_lock(r.w.nics[0].nic);
    qp = sn_qp_find(r.w.nics[0].nic, r.a.qp.sq.qpn);
    sn_nic_check(qp->nic); /* all is well so far */
    b->way(qp);
}

static void each_is_seen(void **state)
{
    (void)state;
    post_recv(&r.b, 0, 100);
    post(&r, GW_MLX5_SEND, 0, 100, 0);
    post(&r, GW_MLX5_READ, 0, 5000, 0);
    world_settle(&r.w, 10 * MS);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        if (!dies_of(break_it, (void *)&ways[i], ways[i].file, ways[i].expression))
            fail_msg("way %zu is not seen: %s", i, ways[i].expression);
}

#else

static void each_is_seen(void **state)
{
    (void)state;
    skip(); /* this build checks nothing */
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(each_is_seen, up, down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
