/* SPDX-License-Identifier: Apache-2.0 */
/* Several models and their leases in the serving kernels: who may send what, when it is refused, and what a
 * batch holds; on a NIC and a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "src/server/worker/session.h"
#include "tests/fuzz/serve_world.h"
#include "tests/rnd.h"

#define MS 1000000ull
enum { LEASES = 10000, KEY = 0x5eed };

static struct gw_session_pool *pool;

/* The answers that clients got, in order. */
static struct heard {
    uint64_t id, retry_ns;
    uint32_t session, status, batch;
    uint8_t intact;
} heard[1024];
static uint32_t answers;
static uint32_t asked_rows[256];

static void hear(uint32_t session, const struct gw_serve_reply *reply, uint32_t imm)
{
    struct heard *h = &heard[answers++ % 1024];
    (void)imm;
    assert_true(reply->id < 256);
    *h = (struct heard){.id = reply->id,
                        .retry_ns = reply->done - reply->arrived,
                        .session = session,
                        .status = reply->status,
                        .batch = reply->batch};
    h->intact = world_is_echo(reply, asked_rows[reply->id], session + 1, (uint8_t)reply->id);
}

/* Client i has session i - 1, and is owner i. */
static void open_session(uint32_t client)
{
    struct gw_session_wish wish = {
        .reply_addr = 0x1000, .reply_stride = 4096, .reply_rkey = client, .owner = client};
    struct gw_session_grant grant;
    world_endpoint(client, &wish.endpoint);
    assert_int_equal(gw_session_open(pool, &wish, &grant), 0);
    assert_int_equal(grant.index, client - 1);
    world_granted(client, &wish, &grant);
}

static void place(uint32_t model, enum gw_model_state state)
{
    static uint32_t generation;
    world_order(&(struct gw_serve_order){
        .kind = GW_ORDER_MODEL, .number = model, .word = ++generation << 2 | state, .retry_ns = 9 * MS});
}

static int begin(void **state)
{
    (void)state;
    pool = world_begin_tables(NULL, LEASES);
    answers = 0;
    for (uint32_t i = 1; i <= WORLD_SESSIONS; i++) open_session(i);
    world_listen(hear);
    for (uint32_t m = 0; m < WORLD_MODELS; m++) place(m, GW_MODEL_PRESENT);
    return 0;
}

static int end(void **state)
{
    (void)state;
    world_end();
    return 0;
}

struct lease {
    uint32_t number, owner, model, slots, max_rows;
    uint64_t key, lasts_ns, interval_ns;
};

static void lease(struct lease l)
{
    world_order(&(struct gw_serve_order){.kind = GW_ORDER_LEASE,
                                         .number = l.number,
                                         .key = l.key ? l.key : KEY,
                                         .owner = l.owner ? l.owner : 1,
                                         .model = l.model,
                                         .slots = l.slots ? l.slots : 8,
                                         .max_rows = l.max_rows,
                                         .interval_ns = l.interval_ns,
                                         .until = world_clock() + (l.lasts_ns ? l.lasts_ns : 1000000 * MS)});
}

/* lease: number + 1. */
struct ask {
    uint64_t id, key, budget_ns;
    uint32_t session, slot, rows, lease, priority;
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
                                         .lease = q.lease,
                                         .key = q.key ? q.key : KEY,
                                         .budget_ns = q.budget_ns},
                              .addr = world_address(q.session) + q.slot * world_stride(),
                              .rkey = world_key(q.session),
                              .bytes = (uint32_t)(sizeof(struct gw_serve_request) + world_bytes(rows)),
                              .imm = q.slot,
                              .with_imm = true,
                              .seed = (uint8_t)q.id};
    asked_rows[q.id] = rows;
    world_send(q.session + 1, q.session, &m);
}

static void acknowledge(void)
{
    for (uint32_t s = 0; s < WORLD_SESSIONS; s++) world_acknowledge(s);
}

static void turns(uint32_t n)
{
    while (n--) {
        world_turn(NULL, NULL);
        acknowledge();
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

/* One request alone: its status. */
static uint32_t try(struct ask q)
{
    uint32_t before = answers;
    ask(q);
    turns(1);
    assert_int_equal(answers, before + 1);
    assert_int_equal(heard[before].id, q.id);
    return heard[before].status;
}

static uint64_t retry(void)
{
    return heard[answers - 1].retry_ns;
}

/* ---- who ---- */

static void test_owner(void **state)
{
    (void)state;
    lease((struct lease){.number = 4, .owner = 1});
    assert_int_equal(try((struct ask){.session = 0, .lease = 5}), GW_SERVE_OK);
    assert_int_equal(try((struct ask){.session = 1, .lease = 5}), GW_SERVE_NO_LEASE);
    assert_int_equal(try((struct ask){.session = 0, .lease = 5, .key = KEY + 1}), GW_SERVE_NO_LEASE);
    assert_int_equal(try((struct ask){.session = 0, .lease = 6}), GW_SERVE_NO_LEASE);
    assert_int_equal(try((struct ask){.session = 0, .lease = LEASES + 1}), GW_SERVE_NO_LEASE);
    assert_int_equal(try((struct ask){.session = 0, .lease = UINT32_MAX}), GW_SERVE_NO_LEASE);
    assert_int_equal(try((struct ask){.session = 0, .lease = 0, .key = 1}), GW_SERVE_NO_LEASE);
    lease((struct lease){.number = 4, .owner = 2}); /* it goes to another client */
    assert_int_equal(try((struct ask){.session = 0, .lease = 5}), GW_SERVE_NO_LEASE);
    assert_int_equal(try((struct ask){.session = 1, .lease = 5}), GW_SERVE_OK);
    assert_int_equal(world_in_flight(4), 0);
}

static void test_end(void **state)
{
    (void)state;
    lease((struct lease){.number = 0, .lasts_ns = MS});
    assert_int_equal(try((struct ask){.lease = 1}), GW_SERVE_OK);
    world_pass(MS);
    assert_int_equal(try((struct ask){.lease = 1}), GW_SERVE_NO_LEASE);
    lease((struct lease){.number = 0, .lasts_ns = MS});
    assert_int_equal(try((struct ask){.lease = 1}), GW_SERVE_OK);
    world_order(&(struct gw_serve_order){.kind = GW_ORDER_LEASE, .number = 0});
    turns(1);
    assert_int_equal(try((struct ask){.lease = 1}), GW_SERVE_NO_LEASE);
}

/* The client's reply slots have no room for the answer. */
static void test_narrow_reply(void **state)
{
    struct gw_session_wish wish = {.reply_addr = 0x1000,
                                   .reply_stride = sizeof(struct gw_serve_reply) + world_bytes(2),
                                   .reply_rkey = 1,
                                   .owner = 1};
    struct gw_session_grant grant;
    (void)state;
    gw_session_close(pool, 0);
    turns(1);
    assert_int_equal(gw_session_pool_tend(pool), 0);
    world_endpoint(1, &wish.endpoint);
    assert_int_equal(gw_session_open(pool, &wish, &grant), 0);
    world_granted(1, &wish, &grant);
    lease((struct lease){.number = 0});
    assert_int_equal(try((struct ask){.lease = 1, .rows = 2}), GW_SERVE_OK);
    assert_int_equal(try((struct ask){.lease = 1, .rows = 3}), GW_SERVE_BAD_REQUEST);
}

/* ---- how much ---- */

static void test_slots(void **state)
{
    (void)state;
    lease((struct lease){.number = 7, .slots = 2});
    for (uint32_t i = 0; i < 3; i++) ask((struct ask){.id = i, .slot = i, .lease = 8});
    turns(1);
    assert_int_equal(answers, 3);
    check(0, 2, GW_SERVE_OVER_BUDGET, 0); /* before those that are served */
    check(1, 0, GW_SERVE_OK, 2);
    check(2, 1, GW_SERVE_OK, 2);
    assert_int_equal(world_in_flight(7), 0);
    lease((struct lease){.number = 7, .slots = 2, .max_rows = 3});
    turns(1);
    assert_int_equal(try((struct ask){.lease = 8, .rows = 4}), GW_SERVE_OVER_BUDGET);
    assert_int_equal(try((struct ask){.lease = 8, .rows = 3}), GW_SERVE_OK);
}

/* A session that ends with requests in the queue gives their slots back. */
static void test_slots_return(void **state)
{
    (void)state;
    lease((struct lease){.number = 7, .slots = 3});
    for (uint32_t i = 0; i < 3; i++) ask((struct ask){.id = i, .slot = i, .lease = 8, .rows = 4});
    turns(1);
    assert_int_equal(world_in_flight(7), 2);
    gw_session_close(pool, 0);
    turns(1);
    assert_int_equal(world_in_flight(7), 0);
    assert_int_equal(gw_session_pool_tend(pool), 0);
    open_session(1);
    for (uint32_t i = 0; i < 3; i++) ask((struct ask){.id = 10 + i, .slot = i, .lease = 8});
    turns(1);
    check(answers - 1, 12, GW_SERVE_OK, 3);
}

static void test_rate(void **state)
{
    uint32_t served = 0;
    (void)state;
    lease((struct lease){.number = 0, .slots = 3, .interval_ns = 10 * MS});
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(try((struct ask){.lease = 1}), GW_SERVE_OK);
    assert_int_equal(try((struct ask){.lease = 1}), GW_SERVE_OVER_BUDGET);
    assert_in_range(retry(), 9 * MS, 10 * MS);
    world_pass(retry());
    assert_int_equal(try((struct ask){.lease = 1}), GW_SERVE_OK);
    assert_int_equal(try((struct ask){.lease = 1}), GW_SERVE_OVER_BUDGET);
    for (uint32_t i = 0; i < 1000; i++) { /* a client that does not care */
        served += try((struct ask){.lease = 1}) == GW_SERVE_OK;
        world_pass(MS);
    }
    assert_in_range(served, 99, 101);
    world_pass(100 * MS); /* what was not used does not add up beyond the slots */
    for (uint32_t i = served = 0; i < 10; i++) served += try((struct ask){.lease = 1}) == GW_SERVE_OK;
    assert_int_equal(served, 3);
    world_pass(100 * MS);
    assert_int_equal(try((struct ask){.lease = 1, .rows = 4}), GW_SERVE_OK); /* samples count */
    world_pass(15 * MS);
    assert_int_equal(try((struct ask){.lease = 1}), GW_SERVE_OVER_BUDGET);
    world_pass(10 * MS);
    assert_int_equal(try((struct ask){.lease = 1}), GW_SERVE_OK);
}

/* ---- when ---- */

/* A request is refused when it comes if those before it leave no time; one that is due before them is not. */
static void test_deadline(void **state)
{
    (void)state;
    world_model(0, 10 * MS, 0);
    lease((struct lease){.number = 0, .owner = 1});
    lease((struct lease){.number = 1, .owner = 2, .model = 1});
    assert_int_equal(try((struct ask){.lease = 1, .rows = 4}), GW_SERVE_OK); /* ten of them are known now */
    assert_int_equal(try((struct ask){.lease = 2, .rows = 4, .session = 1}), GW_SERVE_OK);
    answers = 0;
    ask((struct ask){.id = 1, .lease = 1, .rows = 4, .slot = 0, .budget_ns = 50 * MS});
    ask((struct ask){.id = 2, .lease = 1, .rows = 4, .slot = 1, .budget_ns = 50 * MS});
    ask((struct ask){.id = 3, .lease = 2, .rows = 4, .slot = 0, .budget_ns = 25 * MS, .session = 1});
    ask((struct ask){.id = 4, .lease = 2, .rows = 4, .slot = 1, .budget_ns = 30 * MS, .session = 1});
    ask((struct ask){.id = 5, .lease = 1, .rows = 4, .slot = 2, .budget_ns = 52 * MS});
    turns(1);
    check(0, 5, GW_SERVE_LATE, 0); /* four runs of over 10 ms come before it */
    assert_in_range(heard[0].retry_ns, 1, 15 * MS);
    check(1, 3, GW_SERVE_OK, 4);
    turns(3);
    assert_int_equal(answers, 5);
    check(2, 4, GW_SERVE_OK, 4);
    check(3, 1, GW_SERVE_OK, 4);
    check(4, 2, GW_SERVE_OK, 4);
}

static uint32_t beside_answers;

static void wait_too_long(void *ctx)
{
    (void)ctx;
    ask((struct ask){.id = 7, .lease = 1, .slot = 2});
    world_beside();
    beside_answers = answers;
    world_pass(30 * MS);
    world_beside();
}

/* While a batch runs, what waits becomes late, and is told before the batch ends. */
static void test_refused_early(void **state)
{
    (void)state;
    world_model(0, MS, 0);
    lease((struct lease){.number = 0});
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(try((struct ask){.lease = 1, .rows = 4}), GW_SERVE_OK);
    answers = 0;
    ask((struct ask){.id = 1, .lease = 1, .rows = 4, .slot = 0, .budget_ns = 10 * MS});
    ask((struct ask){.id = 2, .lease = 1, .rows = 4, .slot = 1, .budget_ns = 20 * MS});
    world_turn(wait_too_long, NULL);
    assert_int_equal(beside_answers, 0);
    check(0, 2, GW_SERVE_LATE, 0);
    check(1, 1, GW_SERVE_OK, 4);
    turns(1);
    check(2, 7, GW_SERVE_OK, 1);
}

/* ---- batches ---- */

static void test_one_model(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) lease((struct lease){.number = i, .owner = i + 1, .model = i % 2});
    ask((struct ask){.id = 1, .lease = 1, .session = 0, .slot = 0, .budget_ns = 40 * MS});
    ask((struct ask){.id = 2, .lease = 2, .session = 1, .slot = 0, .budget_ns = 50 * MS});
    ask((struct ask){.id = 3, .lease = 3, .session = 2, .slot = 0, .budget_ns = 60 * MS});
    ask((struct ask){.id = 4, .lease = 2, .session = 1, .slot = 1, .budget_ns = 70 * MS});
    ask((struct ask){.id = 5, .lease = 1, .session = 0, .slot = 1, .budget_ns = 90 * MS});
    ask((struct ask){.id = 6, .lease = 3, .session = 2, .slot = 1, .budget_ns = 80 * MS});
    turns(1);
    assert_int_equal(answers, 4); /* the first one's model, by deadline */
    check(0, 1, GW_SERVE_OK, 4);
    check(1, 3, GW_SERVE_OK, 4);
    check(2, 6, GW_SERVE_OK, 4);
    check(3, 5, GW_SERVE_OK, 4);
    turns(1);
    check(4, 2, GW_SERVE_OK, 2);
    check(5, 4, GW_SERVE_OK, 2);
}

/* A lease keeps all batches of its model small, until it would have ended. */
static void test_small_batches(void **state)
{
    (void)state;
    lease((struct lease){.number = 0, .max_rows = 2, .lasts_ns = 100 * MS});
    lease((struct lease){.number = 1, .owner = 2});
    lease((struct lease){.number = 2, .owner = 3, .model = 1});
    for (uint32_t i = 0; i < 3; i++) ask((struct ask){.id = i, .lease = 2, .session = 1, .slot = i});
    turns(1);
    check(0, 0, GW_SERVE_OK, 2);
    turns(1);
    check(2, 2, GW_SERVE_OK, 1);
    for (uint32_t i = 0; i < 3; i++) ask((struct ask){.id = i, .lease = 3, .session = 2, .slot = i});
    turns(1);
    check(3, 0, GW_SERVE_OK, 3);                                                           /* another model */
    assert_int_equal(try((struct ask){.lease = 2, .session = 1, .rows = 4}), GW_SERVE_OK); /* alone */
    world_pass(100 * MS);
    for (uint32_t i = 0; i < 3; i++) ask((struct ask){.id = i, .lease = 2, .session = 1, .slot = i});
    turns(1);
    check(answers - 1, 2, GW_SERVE_OK, 3);
}

/* ---- models ---- */

static uint32_t seen_within;

static void leave_within(void *ctx)
{
    (void)ctx;
    place(0, GW_MODEL_LEAVING);
    ask((struct ask){.id = 3, .lease = 1, .slot = 2});
    world_pass(MS);
    world_beside();
    seen_within = world_seen(0);
}

/* The batch that runs is answered; what waits or comes is refused; then the kernel says that it is gone. */
static void test_leaving(void **state)
{
    (void)state;
    lease((struct lease){.number = 0});
    lease((struct lease){.number = 1, .owner = 2, .model = 1});
    ask((struct ask){.id = 1, .lease = 1, .slot = 0, .rows = 4});
    ask((struct ask){.id = 2, .lease = 1, .slot = 1, .rows = 4});
    world_turn(leave_within, NULL);
    acknowledge();
    assert_int_equal(seen_within & 3, GW_MODEL_PRESENT);
    assert_int_equal(world_seen(0) & 3, GW_MODEL_LEAVING);
    check(0, 2, GW_SERVE_NOT_THERE, 0);
    assert_int_equal(heard[0].retry_ns, 9 * MS);
    check(1, 3, GW_SERVE_NOT_THERE, 0);
    check(2, 1, GW_SERVE_OK, 4);
    assert_int_equal(world_in_flight(0), 0);
    assert_int_equal(try((struct ask){.id = 4, .lease = 1}), GW_SERVE_NOT_THERE);
    assert_int_equal(try((struct ask){.id = 5, .lease = 2, .session = 1}), GW_SERVE_OK);
    place(0, GW_MODEL_PRESENT);
    assert_int_equal(try((struct ask){.id = 6, .lease = 1}), GW_SERVE_OK);
    assert_int_equal(world_seen(0) & 3, GW_MODEL_PRESENT);
}

/* A lease that another one replaces: what waits on it is refused. */
static void test_replaced(void **state)
{
    (void)state;
    lease((struct lease){.number = 0, .slots = 3});
    for (uint32_t i = 0; i < 3; i++) ask((struct ask){.id = i, .lease = 1, .slot = i, .rows = 4});
    turns(1);
    lease((struct lease){.number = 0, .slots = 3, .key = KEY + 1});
    turns(1);
    check(0, 0, GW_SERVE_OK, 4);
    check(1, 1, GW_SERVE_NO_LEASE, 0);
    check(2, 2, GW_SERVE_NO_LEASE, 0);
    assert_int_equal(world_in_flight(0), 0);
}

/* A peer that acknowledges nothing gets its refusals later, and holds up no other peer. */
static void test_no_room(void **state)
{
    (void)state;
    lease((struct lease){.number = 0});
    lease((struct lease){.number = 1, .owner = 2});
    for (uint32_t i = 0; i < 3; i++) {
        ask((struct ask){.id = i, .lease = 1, .slot = i});
        world_turn(NULL, NULL);
    }
    assert_int_equal(answers, 3);
    for (uint32_t i = 0; i < 3; i++)
        ask((struct ask){.id = 10 + i, .lease = 1, .slot = i, .key = i ? KEY : 1});
    ask((struct ask){.id = 20, .lease = 2, .session = 1});
    world_turn(NULL, NULL);
    check(3, 20, GW_SERVE_OK, 1);
    place(0, GW_MODEL_LEAVING);
    world_turn(NULL, NULL);
    assert_int_equal(answers, 4);
    turns(3);
    assert_int_equal(answers, 7);
    for (uint32_t i = 4; i < 7; i++)
        assert_int_equal(heard[i].status, heard[i].id == 10 ? GW_SERVE_NO_LEASE : GW_SERVE_NOT_THERE);
    assert_int_equal(world_in_flight(0), 0);
}

/* ---- all of it at once ---- */

/* What the leases were told; each request is checked against it. */
static struct {
    uint64_t key, until;
    uint32_t owner, slots;
} told[LEASES];

static void tell(struct rnd *rnd, uint32_t n)
{
    struct lease l = {.number = n,
                      .owner = 1 + rnd_below(rnd, WORLD_SESSIONS),
                      .model = rnd_below(rnd, WORLD_MODELS),
                      .slots = 1 + rnd_below(rnd, 4),
                      .key = 1 + rnd_below(rnd, 3),
                      .lasts_ns = 1 + rnd_below(rnd, 200) * MS};
    told[n].key = l.key;
    told[n].until = world_clock() + l.lasts_ns;
    told[n].owner = l.owner;
    told[n].slots = l.slots;
    lease(l);
}

static uint32_t expected(uint32_t n, uint64_t key, uint32_t owner)
{
    return told[n].key == key && told[n].owner == owner && world_clock() < told[n].until ? GW_SERVE_OK
                                                                                         : GW_SERVE_NO_LEASE;
}

static void test_ten_thousand(void **state)
{
    struct rnd rnd = {38};
    uint32_t good = 0;
    (void)state;
    for (uint32_t n = 0; n < LEASES; n++) tell(&rnd, n);
    for (uint32_t i = 0; i < 50000; i++) {
        uint32_t n = rnd_below(&rnd, LEASES), session = rnd_below(&rnd, WORLD_SESSIONS);
        uint64_t key = rnd_below(&rnd, 2) ? told[n].key : 1 + rnd_below(&rnd, 3);
        if (i % 7 == 0) tell(&rnd, rnd_below(&rnd, 2) ? n : rnd_below(&rnd, LEASES));
        if (i % 1000 == 0) world_pass(MS);
        uint32_t status = expected(n, key, session + 1);
        answers = 0;
        assert_int_equal(try((struct ask){.lease = n + 1, .session = session, .key = key}), status);
        good += status == GW_SERVE_OK;
    }
    assert_in_range(good, 1000, 40000);
    for (uint32_t n = 0; n < LEASES; n++) assert_int_equal(world_in_flight(n), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_owner, begin, end),
        cmocka_unit_test_setup_teardown(test_end, begin, end),
        cmocka_unit_test_setup_teardown(test_narrow_reply, begin, end),
        cmocka_unit_test_setup_teardown(test_slots, begin, end),
        cmocka_unit_test_setup_teardown(test_slots_return, begin, end),
        cmocka_unit_test_setup_teardown(test_rate, begin, end),
        cmocka_unit_test_setup_teardown(test_deadline, begin, end),
        cmocka_unit_test_setup_teardown(test_refused_early, begin, end),
        cmocka_unit_test_setup_teardown(test_one_model, begin, end),
        cmocka_unit_test_setup_teardown(test_small_batches, begin, end),
        cmocka_unit_test_setup_teardown(test_leaving, begin, end),
        cmocka_unit_test_setup_teardown(test_replaced, begin, end),
        cmocka_unit_test_setup_teardown(test_no_room, begin, end),
        cmocka_unit_test_setup_teardown(test_ten_thousand, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
