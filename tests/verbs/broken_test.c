/* SPDX-License-Identifier: Apache-2.0 */
/* Posting that breaks its own rules ends the program. Calls of kernels are inline, so here they have
 * assertions in every build. */
#undef GW_ASSERTS
#define GW_ASSERTS 1

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <gpuwire/verbs_device.h>

#include "tests/exec/dies.h"

enum { WQEBBS = 8, RECEIVES = 4 };

static struct gw_sq_slot slots[WQEBBS];
static uint32_t ready[RECEIVES];
static struct gw_qp_handle qp = {.sq = {.wqebbs = WQEBBS},
                                 .slot = slots,
                                 .rq = {.wqes = RECEIVES},
                                 .rq_wqes = RECEIVES,
                                 .rq_ready = ready};

struct broken {
    void (*way)(void);
    const char *file, *expression;
};

static void unlock_unlocked(void)
{
    gw_sq_unlock_(&qp);
}

static void publish_unreserved(void)
{
    struct gw_sq_ q = gw_sq_of_(&qp);

    (void)gw_sq_publish_run_(&q, 0, 0, 1, 1, GW_DEFER, 0);
}

static void publish_less_than_reserved(void)
{
    struct gw_sq_ q = gw_sq_of_(&qp);

    gw_sq_lock_(&qp);
    qp.sq_resv = 2;
    gw_sq_publish_locked_(&q, 1, GW_DEFER);
}

static void receive_unreserved(void)
{
    gw_rq_publish_(&qp, 0, 1, 0);
}

static void receives_beyond_the_queue(void)
{
    qp.rq_resv = RECEIVES + 1;
    gw_rq_publish_(&qp, 0, RECEIVES + 1, 0);
}

static void more_ready_than_there_are(void)
{
    ready[0] = RECEIVES + 1;
    (void)gw_rq_hear_(&qp, 0);
}

static const struct broken ways[] = {
    {unlock_unlocked, "verbs/lock.h:", "&qp->sq_lock) == 1"},
    {publish_unreserved, "verbs/ring.h:", "&q->qp->sq_resv) >= first + n"},
    {publish_less_than_reserved, "verbs/lock.h:", "&q->qp->sq_resv) == next"},
    {receive_unreserved, "verbs/rq.h:", "&qp->rq_resv) >= first + n"},
    {receives_beyond_the_queue, "verbs/rq.h:", "n <= qp->rq_wqes"},
    {more_ready_than_there_are, "verbs/rq.h:", "at - from <= qp->rq_wqes"},
};

static void break_it(void *arg)
{
    ((const struct broken *)arg)->way();
}

static void each_is_seen(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        if (!dies_of(break_it, (void *)&ways[i], ways[i].file, ways[i].expression))
            fail_msg("way %zu is not seen: %s", i, ways[i].expression);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_is_seen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
