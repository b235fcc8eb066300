/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler in the serving kernels: batches, priorities, deadlines, and what it counts; on a NIC and a
 * clock of the test's own. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "src/server/device/cost.h"
#include "src/server/device/queue.h"
#include "src/server/worker/session.h"
#include "tests/exec/dies.h"
#include "tests/fuzz/serve_world.h"
#include "tests/rnd.h"

#define MS 1000000u

static struct gw_session_pool *pool;

/* The answers that clients got, in order. */
static struct heard {
    uint64_t id;
    uint32_t session, status, batch;
    uint8_t intact;
} heard[256];
static uint32_t answers;

/* The request's record: its id says where to look. */
static struct {
    uint32_t rows, session;
} asked[256];

static void hear(uint32_t session, const struct gw_serve_reply *reply, uint32_t imm)
{
    struct heard *h = &heard[answers++ % 256];
    (void)imm;
    assert_true(reply->id < 256 && asked[reply->id].session == session);
    *h = (struct heard){.id = reply->id, .session = session, .status = reply->status, .batch = reply->batch};
    h->intact = world_is_echo(reply, asked[reply->id].rows, session + 1, (uint8_t)reply->id);
}

static void open_session(uint32_t client)
{
    struct gw_session_wish wish = {.reply_addr = 0x1000, .reply_stride = 4096, .reply_rkey = client};
    struct gw_session_grant grant;
    world_endpoint(client, &wish.endpoint);
    assert_int_equal(gw_session_open(pool, &wish, &grant), 0);
    assert_int_equal(grant.index, client - 1);
    world_granted(client, &wish, &grant);
}

static int begin(void **state)
{
    (void)state;
    pool = world_begin(NULL);
    answers = 0;
    for (uint32_t i = 1; i <= WORLD_SESSIONS; i++) open_session(i);
    world_listen(hear);
    return 0;
}

static int end(void **state)
{
    (void)state;
    world_end();
    return 0;
}

struct ask {
    uint64_t id;
    uint32_t session, slot, rows, priority;
    uint64_t budget_ns;
};

static void ask(struct ask q)
{
    uint32_t rows = q.rows ? q.rows : 1;
    struct world_message m = {.header = {.magic = GW_SERVE_MAGIC,
                                         .version = GW_SERVE_VERSION,
                                         .slot = (uint16_t)q.slot,
                                         .id = q.id,
                                         .bytes = world_bytes(rows),
                                         .rows = rows,
                                         .priority = q.priority,
                                         .budget_ns = q.budget_ns},
                              .addr = world_address(q.session) + q.slot * world_stride(),
                              .rkey = world_key(q.session),
                              .bytes = (uint32_t)(sizeof(struct gw_serve_request) + world_bytes(rows)),
                              .imm = q.slot,
                              .with_imm = true,
                              .seed = (uint8_t)q.id};
    asked[q.id].rows = rows;
    asked[q.id].session = q.session;
    world_send(q.session + 1, q.session, &m);
}

static void turns(uint32_t n)
{
    while (n--) {
        world_turn(NULL, NULL);
        for (uint32_t s = 0; s < WORLD_SESSIONS; s++) world_acknowledge(s);
    }
}

static void check(uint32_t at, uint64_t id, uint32_t status, uint32_t batch)
{
    assert_true(at < answers);
    assert_int_equal(heard[at].id, id);
    assert_int_equal(heard[at].status, status);
    assert_int_equal(heard[at].batch, batch);
    assert_int_equal(heard[at].intact, status == GW_SERVE_OK);
}

static struct gw_serve_counters counted(struct gw_serve_variant_counters v[GW_SERVE_VARIANTS])
{
    struct gw_serve_counters t;
    gw_session_pool_counters(pool, &t, v);
    return t;
}

/* ---- the queue ---- */

enum { PEERS = 3, SLOTS = 2, MOST = PEERS * (SLOTS + 1) }; /* MOST: as many requests as there are receives */

/* The queue alone, and what should be in it. */
struct queue {
    struct gw_serve_session session[PEERS];
    struct gw_serve_work work;
    struct gw_serve_model model;
    struct gw_serve_key heap[2 * MOST];
    struct gw_serve_arrival arrival[MOST];
    struct gw_serve_args args;
    struct gw_serve_arrival held[MOST];
    uint32_t parked[MOST], n;
};

static void put_in(struct queue *q, uint64_t order, uint32_t priority, uint32_t session)
{
    struct gw_serve_arrival r = {.rank = gw_serve_rank(priority, UINT64_MAX),
                                 .order = (uint32_t)order,
                                 .id = ~order,
                                 .session = session,
                                 .rows = 1};
    if (q->n == MOST) return;
    gw_serve_enqueue(&q->args, &r);
    q->parked[q->n] = 0;
    q->held[q->n++] = r;
}

static bool comes_before(const struct gw_serve_arrival *x, const struct gw_serve_arrival *y)
{
    struct gw_serve_key first = {x->rank, x->order, 0}, second = {y->rank, y->order, 0};
    return gw_serve_before(&first, &second);
}

/* The one that should be first; q->n: all are parked. */
static uint32_t first_of(const struct queue *q)
{
    uint32_t first = q->n;
    for (uint32_t i = 0; i < q->n; i++)
        if (!q->parked[i] && (first == q->n || comes_before(&q->held[i], &q->held[first]))) first = i;
    return first;
}

static void take_out(struct queue *q, int park)
{
    uint32_t first = first_of(q);
    assert_int_equal(q->work.waiting != 0, first < q->n);
    if (first == q->n) return;
    assert_int_equal(gw_serve_waiting(&q->args, 0)->id, q->held[first].id);
    if (park) {
        gw_serve_park(&q->args, 0);
        q->parked[first] = 1;
    } else {
        assert_int_equal(gw_serve_dequeue(&q->args, 0).id, q->held[first].id);
        q->held[first] = q->held[--q->n];
        q->parked[first] = q->parked[q->n];
    }
}

static void back_again(struct queue *q, uint32_t session)
{
    gw_serve_unpark(&q->args, session, 1);
    for (uint32_t i = 0; i < q->n; i++)
        if (q->held[i].session == session) q->parked[i] = 0;
}

/* Requests come and go in any order, are parked and come back: the first is always the right one, and none is
 * lost. The array is small, so its end is reached again and again. */
static void test_queue(void **state)
{
    static struct queue q;
    struct rnd rnd = {11};
    (void)state;
    memset(&q, 0, sizeof(q));
    q.args = (struct gw_serve_args){.session = q.session,
                                    .work = &q.work,
                                    .model = &q.model,
                                    .heap = q.heap,
                                    .arrival = q.arrival,
                                    .sessions = PEERS,
                                    .slots = SLOTS};
    for (uint32_t step = 0; step < 200000; step++) {
        uint32_t what = rnd_below(&rnd, 16), session = rnd_below(&rnd, PEERS);
        int mixed = step / 1000 % 2; /* priorities in every second thousand of steps */
        if (what < 8)
            put_in(&q, step, mixed ? 1 + rnd_below(&rnd, 3) : 5, session);
        else if (what < 15)
            take_out(&q, what < 10);
        else
            back_again(&q, session);
    }
    for (uint32_t i = 0; i < PEERS; i++) back_again(&q, i);
    while (q.n) take_out(&q, 0);
    assert_int_equal(q.work.waiting + q.work.parked, 0);
}

/* ---- batches ---- */

static void test_together(void **state)
{
    struct gw_serve_variant_counters v[GW_SERVE_VARIANTS];
    (void)state;
    world_model(0, MS, 0);
    for (uint32_t i = 0; i < 3; i++) ask((struct ask){.id = i, .session = i});
    turns(1);
    assert_int_equal(answers, 3);
    for (uint32_t i = 0; i < 3; i++) check(i, i, GW_SERVE_OK, 3);
    ask((struct ask){.id = 3, .session = 1, .slot = 2});
    turns(1);
    check(3, 3, GW_SERVE_OK, 1);
    struct gw_serve_counters t = counted(v);
    assert_int_equal(t.successes, 4);
    assert_int_equal(t.inferences, 4);
    assert_int_equal(t.executions, 2);
    assert_int_equal(t.waiting, 0);
    assert_in_range(t.infer_ns, 4 * MS, 4 * MS + 10000);
    assert_int_equal(v[0].executions, 1);
    assert_int_equal(v[1].executions, 0);
    assert_int_equal(v[2].executions, 1);
    assert_in_range(v[2].p99_ns, MS, MS + MS / 2);
}

/* Rows of several requests, in the order they were asked for; one that does not fit waits for the next
 * batch. */
static void test_rows(void **state)
{
    (void)state;
    ask((struct ask){.id = 1, .session = 0, .slot = 1, .rows = 2});
    ask((struct ask){.id = 2, .session = 1, .slot = 0, .rows = 1});
    ask((struct ask){.id = 3, .session = 2, .slot = 2, .rows = 2});
    ask((struct ask){.id = 4, .session = 0, .slot = 2, .rows = 1});
    turns(1);
    check(0, 1, GW_SERVE_OK, 3);
    check(1, 2, GW_SERVE_OK, 3);
    assert_int_equal(answers, 2);
    turns(1);
    check(2, 3, GW_SERVE_OK, 3);
    check(3, 4, GW_SERVE_OK, 3);
    for (uint32_t rows = 1; rows <= WORLD_ROWS;
         rows++) { /* alone: also where it does not fill the batch size */
        ask((struct ask){.id = 10 + rows, .session = 1, .slot = 1, .rows = rows});
        turns(1);
        check(3 + rows, 10 + rows, GW_SERVE_OK, rows);
    }
}

static void test_wrong_rows(void **state)
{
    (void)state;
    struct world_message m = {.header = {.magic = GW_SERVE_MAGIC, .version = GW_SERVE_VERSION, .id = 7},
                              .addr = world_address(0),
                              .rkey = world_key(0),
                              .with_imm = true};
    const struct {
        uint32_t rows, carried, said;
    } wrong[] = {{0, 1, 1}, {5, 4, 4}, {2, 1, 1}, {2, 2, 1}, {1, 2, 2}, {UINT32_MAX, 1, 1}};
    for (uint32_t i = 0; i < 6; i++) {
        m.header.rows = wrong[i].rows;
        m.header.bytes = world_bytes(wrong[i].said);
        m.bytes = (uint32_t)(sizeof(m.header) + world_bytes(wrong[i].carried));
        asked[7].rows = 1;
        world_send(1, 0, &m);
        turns(1);
        check(i, 7, GW_SERVE_BAD_REQUEST, 0);
    }
    assert_int_equal(counted((struct gw_serve_variant_counters[GW_SERVE_VARIANTS]){0}).refused, 6);
}

/* A request waits for others as long as it was told to, unless there are enough, or its deadline comes
 * near. */
static void test_delay(void **state)
{
    (void)state;
    world_model(MS, 0, 0);
    ask((struct ask){.id = 1, .session = 0});
    turns(3);
    assert_int_equal(answers, 0);
    ask((struct ask){.id = 2, .session = 1});
    world_pass(MS);
    turns(1);
    check(0, 1, GW_SERVE_OK, 2);
    check(1, 2, GW_SERVE_OK, 2);
    ask((struct ask){.id = 3, .session = 1, .rows = 4});
    turns(1);
    check(2, 3, GW_SERVE_OK, 4);
    ask((struct ask){.id = 4, .session = 2, .budget_ns = MS / 2});
    turns(1);
    assert_int_equal(answers, 3);
    world_pass(MS / 2 - 1000);
    turns(1);
    check(3, 4, GW_SERVE_OK, 1);
}

/* ---- whose turn it is ---- */

static void test_priorities(void **state)
{
    (void)state;
    ask((struct ask){.id = 1, .session = 0, .slot = 0, .rows = 4, .priority = 9});
    ask((struct ask){.id = 2, .session = 1, .slot = 0, .rows = 4});
    ask((struct ask){.id = 3, .session = 2, .slot = 0, .rows = 4, .priority = 1});
    ask((struct ask){.id = 4, .session = 0, .slot = 1, .rows = 4, .priority = 1000});
    ask((struct ask){.id = 5, .session = 1, .slot = 1, .rows = 4, .priority = 4});
    ask((struct ask){
        .id = 6, .session = 2, .slot = 1, .rows = 4, .priority = 5, .budget_ns = 1000 * (uint64_t)MS});
    ask((struct ask){
        .id = 7, .session = 2, .slot = 2, .rows = 4, .priority = 5, .budget_ns = 900 * (uint64_t)MS});
    const uint64_t order[] = {3, 5, 7, 6, 2, 1, 4};
    turns(7);
    for (uint32_t i = 0; i < 7; i++) check(i, order[i], GW_SERVE_OK, 4);
}

/* Others of a higher priority come all the time; it gets its turn within sixteen batches. */
static void test_no_starvation(void **state)
{
    (void)state;
    ask((struct ask){.id = 99, .session = 2, .rows = 4, .priority = 9});
    for (uint32_t i = 0; i < 17; i++) {
        ask((struct ask){.id = i, .session = i % 2, .slot = i % 3, .rows = 4, .priority = 1});
        turns(1);
        if (heard[answers - 1].id != 99) continue;
        assert_int_equal(i, 15);
        return;
    }
    fail_msg("it was never served");
}

/* ---- deadlines ---- */

static void test_late(void **state)
{
    (void)state;
    world_model(0, MS, 0);
    ask((struct ask){.id = 1, .session = 0, .budget_ns = MS / 2}); /* nothing is known yet */
    turns(1);
    check(0, 1, GW_SERVE_OK, 1);
    ask((struct ask){.id = 2, .session = 0, .budget_ns = MS / 2});
    ask((struct ask){.id = 3, .session = 1, .budget_ns = 2 * MS});
    turns(1);
    check(1, 2, GW_SERVE_LATE, 0);
    check(2, 3, GW_SERVE_OK, 1);
    world_model(10 * MS, MS, 0);
    ask((struct ask){.id = 4, .session = 1, .budget_ns = 3 * MS});
    turns(1); /* it waits for others */
    world_pass(4 * MS);
    turns(1);
    check(3, 4, GW_SERVE_LATE, 0);
    world_model(0, MS, 0);
    ask((struct ask){.id = 5, .session = 1, .budget_ns = UINT64_MAX});
    turns(1);
    check(4, 5, GW_SERVE_OK, 1);
    assert_int_equal(counted((struct gw_serve_variant_counters[GW_SERVE_VARIANTS]){0}).late, 2);
}

/* An estimate that is too high does not stay: some requests are run against it. */
static void test_probes(void **state)
{
    uint32_t served = 0;
    (void)state;
    world_model(0, 50 * MS, 0);
    ask((struct ask){.id = 1, .session = 0});
    turns(1);
    world_model(0, MS, 0);
    for (uint32_t i = 0; i < 10000 && served < 120; i++) {
        ask((struct ask){.id = 2, .session = 0, .budget_ns = 10 * MS});
        turns(1);
        served += heard[(answers - 1) % 256].status == GW_SERVE_OK;
    }
    assert_int_equal(served, 120);
    ask((struct ask){.id = 3, .session = 0, .budget_ns = 10 * MS});
    turns(1);
    assert_int_equal(heard[(answers - 1) % 256].status, GW_SERVE_OK);
}

/* A request does not join a batch that would then be too slow for one that is in it. */
static void test_deadline_keeps_batch_small(void **state)
{
    (void)state;
    world_model(0, 100 * MS, 0);
    ask((struct ask){.id = 1, .session = 0, .rows = 4});
    turns(1);
    world_model(0, MS, 0);
    ask((struct ask){.id = 2, .session = 0});
    turns(1);
    ask((struct ask){.id = 3, .session = 0, .slot = 0, .budget_ns = 10 * MS});
    ask((struct ask){.id = 4, .session = 1, .slot = 0});
    ask((struct ask){.id = 5, .session = 2, .slot = 0});
    turns(1);
    check(2, 3, GW_SERVE_OK, 2); /* how long two rows take is not known yet; of three it is */
    check(3, 4, GW_SERVE_OK, 2);
    turns(1);
    check(4, 5, GW_SERVE_OK, 1);
}

static void test_cost(void **state)
{
    struct gw_serve_cost c = {0};
    (void)state;
    for (uint32_t shift = 0; shift < 40; shift++) {
        uint64_t ns = (uint64_t)1234 << shift;
        uint32_t bucket = gw_serve_bucket_of(ns);
        assert_true(bucket < GW_SERVE_BUCKETS);
        if (bucket < GW_SERVE_BUCKETS - 1) assert_true(gw_serve_bucket_end(bucket) > ns);
        if (bucket < GW_SERVE_BUCKETS - 1) assert_true(gw_serve_bucket_end(bucket) <= ns + ns / 4 + 256);
    }
    assert_int_equal(gw_serve_bucket_of(0), 0);
    for (uint32_t i = 0; i < 200; i++) gw_serve_cost_add(&c, i == 100 ? 1000 * MS : MS);
    assert_in_range(c.p99_ns, MS, MS + MS / 4); /* one of 200 is more than a hundredth's share */
    for (uint32_t i = 0; i < 40; i++) gw_serve_cost_add(&c, 1000 * (uint64_t)MS);
    assert_in_range(c.p99_ns, 1000 * (uint64_t)MS, 1250 * (uint64_t)MS);
    for (uint32_t i = 0; i < 2000; i++) gw_serve_cost_add(&c, MS); /* long ago */
    assert_in_range(c.p99_ns, MS, MS + MS / 4);
}

/* ---- what else may happen ---- */

static void test_closing(void **state)
{
    (void)state;
    world_model(10 * MS, 0, 0);
    ask((struct ask){.id = 1, .session = 0});
    turns(1);
    gw_session_pool_closing(pool);
    turns(1);
    check(0, 1, GW_SERVE_OK, 1);
    ask((struct ask){.id = 2, .session = 1});
    turns(1);
    check(1, 2, GW_SERVE_CLOSING, 0);
}

/* The host makes a closed session ready again, and the next client opens it. */
static void reopen(void *ctx)
{
    (void)ctx;
    assert_int_equal(gw_session_pool_tend(pool), 0);
    open_session(1);
}

/* The kernel has polled what the session's last client left. Before it looks, the session is
 * another's. */
static void test_left_behind(void **state)
{
    (void)state;
    ask((struct ask){.id = 1, .session = 0});
    turns(1);
    check(0, 1, GW_SERVE_OK, 1);
    gw_session_close(pool, 0);
    turns(1); /* the kernel lets go of the session */
    world_flush(0);
    world_after_poll(reopen, NULL);
    turns(1);
    assert_int_equal(gw_session_pool_open_count(pool), WORLD_SESSIONS);
    ask((struct ask){.id = 2, .session = 0});
    turns(1);
    assert_int_equal(answers, 2);
    check(1, 2, GW_SERVE_OK, 1);
}

/* A peer whose NIC acknowledges nothing waits; the others go on. */
static void test_no_room(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        ask((struct ask){.id = i, .session = 0, .slot = i});
        world_turn(NULL, NULL);
    }
    assert_int_equal(answers, 3);
    for (uint32_t i = 0; i < 3; i++) ask((struct ask){.id = 10 + i, .session = 0, .slot = i});
    ask((struct ask){.id = 20, .session = 1});
    world_turn(NULL, NULL);
    check(3, 20, GW_SERVE_OK, 1);
    world_turn(NULL, NULL);
    assert_int_equal(answers, 4);
    assert_int_equal(counted((struct gw_serve_variant_counters[GW_SERVE_VARIANTS]){0}).waiting, 3);
    turns(3);
    assert_int_equal(answers, 7);
    for (uint32_t i = 4; i < 7; i++) assert_int_equal(heard[i].intact, 1);
}

static void test_model_fails(void **state)
{
    (void)state;
    world_model(0, 0, -EIO);
    ask((struct ask){.id = 1, .session = 0});
    ask((struct ask){.id = 2, .session = 1});
    turns(1);
    check(0, 1, GW_SERVE_FAILED, 2);
    check(1, 2, GW_SERVE_FAILED, 2);
    struct gw_serve_counters t = counted((struct gw_serve_variant_counters[GW_SERVE_VARIANTS]){0});
    assert_int_equal(t.failures, 2);
    assert_int_equal(t.successes, 0);
    assert_int_equal(gw_session_pool_failures(pool), 2);
}

/* The largest slots that there can be, and those that are too large. */
static void test_layout(void **state)
{
    struct gw_layout l = {0};
    (void)state;
    assert_int_equal(gw_layout_bytes(&l, 3), 0);
    assert_int_equal(gw_layout_add(&l, 10, 1, 4), 0);
    assert_int_equal(gw_layout_add(&l, 100, 0, 4), 0);
    assert_int_equal(gw_layout_add(&l, 4, 1, 4), 0);
    assert_int_equal(gw_layout_offset(&l, 1, 4), 64);
    assert_int_equal(gw_layout_offset(&l, 1, 7), 128);
    assert_int_equal(gw_layout_offset(&l, 2, 4), 192);
    assert_int_equal(gw_layout_bytes(&l, 4), 208);
    assert_int_equal(gw_layout_add(&l, GW_LAYOUT_MAX_BYTES / 4 + 1, 1, 4), -EFBIG);
    assert_int_equal(gw_layout_add(&l, UINT64_MAX, 1, 1), -EFBIG);
    assert_int_equal(gw_layout_add(&l, GW_LAYOUT_MAX_BYTES - 64, 0, 4), -EFBIG);
    for (struct gw_layout many = {0};;) {
        int error = gw_layout_add(&many, 1, 1, 1);
        if (!error) continue;
        assert_int_equal(error, -E2BIG);
        assert_int_equal(many.tensors, GW_MODEL_MAX_IO);
        break;
    }
}

#ifdef GW_ASSERTS

static struct gw_serve_arrival places[2];
static struct gw_serve_key keys[4];
static struct gw_serve_model model;
static struct gw_serve_work work;
static const struct gw_serve_args one_slot = {
    .sessions = 1, .slots = 1, .work = &work, .model = &model, .heap = keys, .arrival = places};

static void take_from_none(void *arg)
{
    (void)arg;
    (void)gw_serve_dequeue(&one_slot, 0);
}

static void queue_too_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) gw_serve_enqueue(&one_slot, &(struct gw_serve_arrival){.rows = 1});
}

/* The queue has a place for each receive: what would overrun it ends the program. */
static void test_broken(void **state)
{
    (void)state;
    assert_true(dies_of(take_from_none, NULL, "device/queue.h:", "at < w->waiting"));
    assert_true(
        dies_of(queue_too_many, NULL, "device/queue.h:", "< gw_serve_arrivals(a->sessions, a->slots)"));
}

#else

static void test_broken(void **state)
{
    (void)state;
    skip(); /* this build checks nothing */
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue),
        cmocka_unit_test_setup_teardown(test_together, begin, end),
        cmocka_unit_test_setup_teardown(test_rows, begin, end),
        cmocka_unit_test_setup_teardown(test_wrong_rows, begin, end),
        cmocka_unit_test_setup_teardown(test_delay, begin, end),
        cmocka_unit_test_setup_teardown(test_priorities, begin, end),
        cmocka_unit_test_setup_teardown(test_no_starvation, begin, end),
        cmocka_unit_test_setup_teardown(test_late, begin, end),
        cmocka_unit_test_setup_teardown(test_probes, begin, end),
        cmocka_unit_test_setup_teardown(test_deadline_keeps_batch_small, begin, end),
        cmocka_unit_test(test_cost),
        cmocka_unit_test_setup_teardown(test_closing, begin, end),
        cmocka_unit_test_setup_teardown(test_left_behind, begin, end),
        cmocka_unit_test_setup_teardown(test_no_room, begin, end),
        cmocka_unit_test_setup_teardown(test_model_fails, begin, end),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
