/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's agent with an emulated engine, among a controller and clients that do what they should not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fleet/worker_rig.h"

enum { MANY = 500, TABLE = 10000 };

static struct rig rig;
static struct rig_controller ctl, other;

static void start(const struct rig_opts *o)
{
    static const struct rig_opts usual;
    rig_controller_start(&ctl, 7);
    rig.ctl = &ctl;
    rig_start(&rig, o ? o : &usual);
}

/* A worker as usual, and a client that is connected to it. */
static void start_with(struct rig_client *k)
{
    start(NULL);
    rig_client_open(&rig, k);
    rig_until(&rig, k->open);
}

static int stop(void **state)
{
    (void)state;
    if (rig.agent) rig_stop(&rig);
    if (other.loop) rig_controller_stop(&other);
    return 0;
}

static struct fleet_agent_view view(void)
{
    struct fleet_agent_view v;
    fleet_agent_view(rig.agent, &v);
    return v;
}

/* ---- what a leader learns */

static void test_tells_all(void **state)
{
    (void)state;
    start(&(struct rig_opts){.models = 300, .slots = 77, .leases = 99});
    assert_int_equal(ctl.models, 300);
    assert_int_equal(ctl.worker.models, 300);
    assert_int_equal(ctl.worker.slots, 77);
    assert_int_equal(ctl.worker.leases, 99);
    assert_int_equal(ctl.worker.emulated, 1);
    assert_string_equal(ctl.worker.address, view().address);
    assert_string_equal(ctl.last_model.name, "m-299");
    assert_int_equal(ctl.last_model.where, UINT32_MAX); /* host memory has room for 32 of 2 pages */
    assert_int_equal(view().term, 7);
    rig_until(&rig, ctl.tellings > 2);
    assert_int_equal(ctl.told.seq, ctl.told.seq_again);
    assert_int_equal(ctl.told.host_used, 64);
}

static void test_telemetry_counts(void **state)
{
    (void)state;
    struct rig_client k = {0};
    start_with(&k);
    rig_serve(&rig, &k, 3, 1);
    for (uint64_t i = 0; i < 10; i++) rig_client_request(&k, 3, 0x1003, i, 0);
    rig_client_request(&k, 3, 0x9999, 11, 0);
    rig_until(&rig, k.answers == 11);
    rig_until(&rig, ctl.told.answered == 10 && ctl.told.refused == 1);
    assert_int_equal(ctl.told.gpu_used, 2);
    assert_int_equal(ctl.told.queue, 0);
}

/* ---- windows */

static void test_windows(void **state)
{
    (void)state;
    start(NULL);
    int64_t now = rig_now();
    uint64_t late = rig_action(&ctl, FLEET_LOAD, 0, 0, now - MS);
    uint64_t soon = rig_action(&ctl, FLEET_LOAD, 1, now + 30 * MS, now + SECOND);
    uint64_t wrong = rig_action(&ctl, FLEET_LOAD, 2, now + 2 * SECOND, now + SECOND);
    rig_until(&rig, ctl.results == 3);
    assert_int_equal(rig_outcome(&ctl, late), FLEET_TOO_LATE);
    assert_int_equal(rig_outcome(&ctl, wrong), FLEET_BAD);
    assert_int_equal(rig_outcome(&ctl, soon), FLEET_DONE);
    const struct fleet_result *r = &ctl.result[soon % RIG_RESULTS];
    assert_true(r->began_at >= now + 30 * MS && r->ended_at >= r->began_at + 2 * MS);
    assert_int_equal(r->where, FLEET_GPU);
    assert_non_null(strstr(ctl.result[late % RIG_RESULTS].why, "before it could begin"));
}

/* Loads stand in a row: the last one's window ends while the others are copied. */
static void test_window_ends_in_the_row(void **state)
{
    (void)state;
    uint64_t seq[4];
    start(NULL);
    int64_t latest = rig_now() + 3 * MS;
    for (uint32_t i = 0; i < 4; i++) seq[i] = rig_action(&ctl, FLEET_LOAD, i, 0, latest);
    rig_until(&rig, ctl.results == 4);
    assert_int_equal(rig_outcome(&ctl, seq[3]), FLEET_TOO_LATE);
}

static void test_no_such_thing(void **state)
{
    (void)state;
    start(NULL);
    uint64_t model = rig_action(&ctl, FLEET_LOAD, 8, 0, INT64_MAX);
    uint64_t kind = rig_action(&ctl, FLEET_SHED, 1, 0, INT64_MAX);
    rig_until(&rig, ctl.results == 2);
    assert_int_equal(rig_outcome(&ctl, model), FLEET_NO_MODEL);
    assert_int_equal(rig_outcome(&ctl, kind), FLEET_BAD);
    struct rig_client k = {0};
    struct fleet_lease l = rig_lease_of(&ctl, &k, 1, 8), key = rig_lease_of(&ctl, &k, 1, 1), rate = key,
                       left = key;
    key.key = 0;
    rate.rate = -1;
    left.left_ns = -5;
    uint64_t seq[] = {rig_lease(&ctl, &l), rig_lease(&ctl, &key), rig_lease(&ctl, &rate),
                      rig_lease(&ctl, &left)};
    rig_until(&rig, ctl.results == 6);
    assert_int_equal(rig_outcome(&ctl, seq[0]), FLEET_NO_MODEL);
    for (int i = 1; i < 4; i++) assert_int_equal(rig_outcome(&ctl, seq[i]), FLEET_BAD);
}

static void test_pages(void **state)
{
    (void)state;
    uint64_t seq[6];
    start(&(struct rig_opts){.gpu_pages = 4});
    for (uint32_t i = 0; i < 3; i++) seq[i] = rig_action(&ctl, FLEET_LOAD, i, 0, INT64_MAX);
    rig_until(&rig, ctl.results == 3);
    assert_int_equal(rig_outcome(&ctl, seq[0]), FLEET_DONE);
    assert_int_equal(rig_outcome(&ctl, seq[2]), FLEET_NO_ROOM);
    seq[3] = rig_action(&ctl, FLEET_EVICT, 0, 0, INT64_MAX);
    seq[4] = rig_action(&ctl, FLEET_LOAD, 2, 0, INT64_MAX);
    seq[5] = rig_action(&ctl, FLEET_DROP, 1, 0, INT64_MAX);
    rig_until(&rig, ctl.results == 6);
    for (int i = 3; i < 6; i++) assert_int_equal(rig_outcome(&ctl, seq[i]), FLEET_DONE);
    assert_int_equal(ctl.result[seq[5] % RIG_RESULTS].where, UINT32_MAX);
    rig_until(&rig, ctl.told.gpu_used == 2 && ctl.told.host_used == 14);
}

/* ---- terms */

static void test_old_terms(void **state)
{
    (void)state;
    struct rig_client k = {0};
    start(NULL);
    ctl.term = 9;
    uint64_t newer = rig_action(&ctl, FLEET_LOAD, 0, 0, INT64_MAX);
    ctl.term = 8;
    struct fleet_lease l = rig_lease_of(&ctl, &k, 1, 1);
    uint64_t older = rig_action(&ctl, FLEET_LOAD, 1, 0, INT64_MAX), lease = rig_lease(&ctl, &l);
    rig_until(&rig, ctl.results == 3);
    assert_int_equal(rig_outcome(&ctl, newer), FLEET_DONE);
    assert_int_equal(rig_outcome(&ctl, older), FLEET_OLD_TERM);
    assert_int_equal(rig_outcome(&ctl, lease), FLEET_OLD_TERM);
    assert_int_equal(view().term, 9);
    /* After it has connected again it has not forgotten: this controller leads no more. */
    int opened = ctl.opened;
    fleet_conn_close(ctl.c, 0, "a try");
    ctl.c = NULL;
    rig_until(&rig, ctl.opened > opened + 1);
    assert_string_equal(view().leader, "");
    ctl.term = 10;
    rig_until(&rig, ctl.ready && view().term == 10);
}

/* Two controllers say that they lead. The worker obeys the one with the larger term. */
static void test_two_leaders(void **state)
{
    (void)state;
    char both[2 * FLEET_ADDRESS];
    rig_controller_start(&other, 3);
    rig_controller_start(&ctl, 7);
    snprintf(both, sizeof(both), "%s,%s", ctl.address, other.address);
    rig.ctl = &ctl;
    rig_start(&rig, &(struct rig_opts){.controllers = both});
    fleet_conn_close(ctl.c, 0, "I stop"); /* it goes to the old one, which it must not obey */
    ctl.c = NULL;
    ctl.ready = 0;
    int64_t end = rig_now() + 5 * SECOND;
    while (!(ctl.ready && other.opened) && rig_now() < end) {
        rig_turn(&rig);
        fleet_loop_run(other.loop, rig_now() + MS / 5);
    }
    assert_true(ctl.ready && other.opened);
    assert_int_equal(other.ready, 0);
    assert_string_equal(view().leader, ctl.address);
}

static void test_elsewhere(void **state)
{
    (void)state;
    rig_controller_start(&ctl, 7);
    rig_controller_start(&other, 0);
    other.leader = ctl.address;
    rig.ctl = &ctl;
    struct rig_opts o = {.controllers = other.address};
    ctl.term = 0; /* rig_start does not wait */
    rig_start(&rig, &o);
    ctl.term = 7;
    for (int64_t end = rig_now() + 5 * SECOND; !ctl.ready && rig_now() < end;) {
        rig_turn(&rig);
        fleet_loop_run(other.loop, rig_now() + MS / 5);
    }
    assert_int_equal(ctl.models, 8);
    assert_int_equal(other.models, 0);
    assert_string_equal(view().leader, ctl.address);
}

/* The registry says that another one leads. */
static void test_leader_from_registry(void **state)
{
    (void)state;
    start(NULL);
    rig_controller_start(&other, 8);
    fleet_agent_leader(rig.agent, other.address, 8);
    for (int64_t end = rig_now() + 5 * SECOND; !other.ready && rig_now() < end;) {
        rig_turn(&rig);
        fleet_loop_run(other.loop, rig_now() + MS / 5);
    }
    assert_int_equal(other.models, 8);
    assert_int_equal(view().term, 8);
}

/* ---- leases */

static void test_refusals(void **state)
{
    (void)state;
    struct rig_client k = {0}, stranger = {0};
    start(NULL);
    rig_client_open(&rig, &k);
    rig_client_open(&rig, &stranger);
    rig_until(&rig, k.open && stranger.open);
    rig_serve(&rig, &k, 5, 2);
    rig_client_request(&k, 5, 0x1005, 1, 0);
    rig_until(&rig, k.answers == 1);
    assert_int_equal(k.last.status, GW_SERVE_OK);
    assert_int_equal(k.last.id, 1);
    assert_int_equal(k.last.bytes, 16);
    assert_true(k.last.done_at - k.last.started_at > 500000 && k.last.started_at >= k.last.arrived_at);
    rig_client_request(&k, 5, 0x1004, 2, 0); /* forged */
    rig_client_request(&k, 6, 0x1005, 3, 0); /* no such lease */
    rig_client_request(&k, UINT32_MAX, 0x1005, 4, 0);
    rig_client_request(&stranger, 5, 0x1005, 5, 0); /* foreign */
    rig_client_request(&k, 5, 0x1005, 6, 500000);   /* cannot be done in time */
    rig_until(&rig, k.answers == 5 && stranger.answers == 1);
    assert_int_equal(k.of_status[GW_SERVE_NO_LEASE], 3);
    assert_int_equal(stranger.of_status[GW_SERVE_NO_LEASE], 1);
    assert_int_equal(k.of_status[GW_SERVE_LATE], 1);
    uint64_t evict = rig_action(&ctl, FLEET_EVICT, 2, 0, INT64_MAX);
    rig_until(&rig, rig_outcome(&ctl, evict) == FLEET_DONE);
    rig_client_request(&k, 5, 0x1005, 7, 0);
    rig_until(&rig, k.answers == 6);
    assert_int_equal(k.last.status, GW_SERVE_NOT_THERE);
    assert_int_equal(k.last.retry_ns, 2 * MS);
}

static void test_expired(void **state)
{
    (void)state;
    struct rig_client k = {0};
    start_with(&k);
    rig_serve(&rig, &k, 5, 2);
    struct fleet_lease l = rig_lease_of(&ctl, &k, 5, 2);
    l.left_ns = 20 * MS;
    rig_lease(&ctl, &l);
    rig_sleep(&rig, 30 * MS);
    rig_client_request(&k, 5, 0x1005, 1, 0);
    rig_until(&rig, k.answers == 1);
    assert_int_equal(k.last.status, GW_SERVE_NO_LEASE);
    rig_until(&rig, view().leases == 0);
}

/* A client that ignores its budget gets what it was granted. */
static void test_budget(void **state)
{
    (void)state;
    struct rig_client k = {0}, good = {0};
    start(NULL);
    rig_client_open(&rig, &k);
    rig_client_open(&rig, &good);
    rig_until(&rig, k.open && good.open);
    rig_serve(&rig, &k, 1, 2);
    struct fleet_lease l = rig_lease_of(&ctl, &k, 1, 2), g = rig_lease_of(&ctl, &good, 2, 2);
    l.slots = 4;
    l.rate = 20;
    rig_until(&rig, rig_outcome(&ctl, rig_lease(&ctl, &l)) || 1);
    rig_lease(&ctl, &g);
    rig_sleep(&rig, 10 * MS);
    for (uint64_t i = 0; i < 1000; i++) assert_int_equal(rig_client_request(&k, 1, 0x1001, i, 0), 0);
    for (uint64_t i = 0; i < 20; i++) rig_client_request(&good, 2, 0x1002, i, 100 * MS);
    rig_until(&rig, k.answers == 1000 && good.answers == 20);
    assert_true(k.of_status[GW_SERVE_OK] >= 4 && k.of_status[GW_SERVE_OK] <= 30);
    assert_int_equal(k.of_status[GW_SERVE_OVER_BUDGET], 1000 - k.of_status[GW_SERVE_OK]);
    assert_true(k.refusal.retry_ns > 0 && k.refusal.retry_ns <= 50 * MS);
    assert_int_equal(good.of_status[GW_SERVE_OK], 20);
}

static void test_lease_table(void **state)
{
    (void)state;
    struct rig_client k = {0};
    static uint64_t seq[TABLE]; /* PINGs have numbers, too */
    start(&(struct rig_opts){.leases = TABLE, .slots = TABLE});
    for (uint32_t i = 0; i < TABLE; i++) {
        struct fleet_lease l = rig_lease_of(&ctl, &k, i, i % 8);
        l.slots = 1;
        seq[i] = rig_lease(&ctl, &l);
        if (i % 500 == 0) rig_turn(&rig);
    }
    rig_until(&rig, ctl.results == TABLE);
    for (uint32_t i = 0; i < TABLE; i++) assert_int_equal(rig_outcome(&ctl, seq[i]), FLEET_DONE);
    assert_int_equal(view().leases, TABLE);
    struct fleet_lease over = rig_lease_of(&ctl, &k, TABLE, 0), slots = rig_lease_of(&ctl, &k, 1, 0);
    slots.slots = 2;
    uint64_t full = rig_lease(&ctl, &over), many = rig_lease(&ctl, &slots);
    rig_until(&rig, ctl.results == TABLE + 2);
    assert_int_equal(rig_outcome(&ctl, full), FLEET_NO_ROOM);
    assert_int_equal(rig_outcome(&ctl, many), FLEET_NO_ROOM);
    /* A new leader learns them all. */
    fleet_conn_close(ctl.c, 0, "another leads");
    ctl.c = NULL;
    ctl.ready = 0;
    ctl.term = 8;
    rig_until(&rig, ctl.ready);
    assert_int_equal(ctl.held, TABLE);
    for (uint32_t i = 0; i < TABLE; i++) {
        assert_int_equal(ctl.lease[i].key, 0x1000 + ctl.lease[i].lease);
        assert_int_equal(ctl.lease[i].slots, 1);
        assert_true(ctl.lease[i].left_ns > 5 * SECOND);
    }
    for (uint32_t i = 0; i < TABLE; i++)
        rig_lease(&ctl, &(struct fleet_lease){.term = 8, .lease = i, .left_ns = 0});
    rig_until(&rig, view().leases == 0);
}

/* Leases outlive a leader that falls silent, and end by themselves. */
static void test_silent_controller(void **state)
{
    (void)state;
    struct rig_client k = {0};
    start(&(struct rig_opts){.silent_ns = 300 * MS});
    rig_client_open(&rig, &k);
    rig_until(&rig, k.open);
    rig_serve(&rig, &k, 1, 0);
    struct fleet_lease l = rig_lease_of(&ctl, &k, 1, 0);
    l.left_ns = SECOND;
    uint64_t seq = rig_lease(&ctl, &l);
    rig_until(&rig, ctl.seq_of[seq % RIG_RESULTS] == seq);
    rig.ctl = NULL; /* silent from now on */
    for (uint64_t i = 0; view().leader[0]; i++) {
        rig_client_request(&k, 1, 0x1001, i, 0);
        rig_sleep(&rig, 5 * MS);
    }
    int before = k.of_status[GW_SERVE_OK];
    rig_client_request(&k, 1, 0x1001, 1, 0);
    rig_until(&rig, k.of_status[GW_SERVE_OK] > before);
    assert_int_equal(k.of_status[GW_SERVE_NO_LEASE], 0);
    rig_sleep(&rig, 1100 * MS);
    rig_client_request(&k, 1, 0x1001, 2, 0);
    rig_until(&rig, k.of_status[GW_SERVE_NO_LEASE] == 1);
    rig.ctl = &ctl;
    rig_until(&rig, ctl.ready);
    assert_int_equal(ctl.held, 0);
}

/* An ACTION ends after its leader has gone: the next leader learns where the model is. */
static void test_move_outlives_leader(void **state)
{
    (void)state;
    struct fleet_profile slow = rig_profile;
    slow.load_ns = 600 * MS;
    start(&(struct rig_opts){.profile = &slow});
    rig_action(&ctl, FLEET_LOAD, 4, 0, INT64_MAX);
    rig_action(&ctl, FLEET_LOAD, 5, rig_now() + 900 * MS, INT64_MAX); /* never begins */
    rig_until(&rig, view().moves == 2);
    fleet_conn_close(ctl.c, 0, "another leads");
    ctl.c = NULL;
    ctl.ready = 0;
    ctl.term = 8;
    rig_until(&rig, ctl.ready);
    assert_int_equal(view().moves, 1);
    rig_until(&rig, ctl.late_models == 1);
    assert_int_equal(ctl.last_model.model, 4);
    assert_int_equal(ctl.last_model.where, FLEET_GPU);
    assert_int_equal(ctl.results, 0);
}

/* ---- clients */

static void test_describe(void **state)
{
    (void)state;
    struct rig_client k = {0};
    struct fleet_describe d = {.model = "m-3"};
    start_with(&k);
    fleet_send(k.c, FLEET_DESCRIBE, 0, &d, sizeof(d), NULL, 0, NULL);
    rig_until(&rig, k.described);
    assert_non_null(strstr(k.text, "\"name\":\"m-3\""));
    assert_non_null(strstr(k.text, "\"shape\":[-1,16]"));
    static const char *const none[] = {"m-8", "m-03", "m-", "m", "", "m-99999999999999999999", "x-1"};
    for (int i = 0; i < 7; i++) {
        memset(d.model, 0, sizeof(d.model));
        snprintf(d.model, sizeof(d.model), "%s", none[i]);
        fleet_send(k.c, FLEET_DESCRIBE, 0, &d, sizeof(d), NULL, 0, NULL);
        rig_until(&rig, k.nothing == i + 1);
    }
    memset(d.model, 'x', sizeof(d.model)); /* no final zero */
    fleet_send(k.c, FLEET_DESCRIBE, 0, &d, sizeof(d), NULL, 0, NULL);
    rig_until(&rig, k.closed);
    assert_non_null(strstr(k.why, "DESCRIBE"));
}

/* Wrong lengths get an answer, or end this connection alone. */
static void test_wrong_lengths(void **state)
{
    (void)state;
    static char body[4096];
    struct rig_client k = {0}, good = {0};
    start(NULL);
    rig_client_open(&rig, &k);
    rig_client_open(&rig, &good);
    rig_until(&rig, k.open && good.open);
    rig_serve(&rig, &k, 1, 0);
    struct fleet_request q = {.lease = 1, .rows = 1, .key = 0x1001, .bytes = 64};
    static const uint64_t said[] = {0, 63, 65, UINT64_MAX, 1 << 30};
    for (int i = 0; i < 5; i++) {
        q.bytes = said[i];
        fleet_send(k.c, FLEET_REQUEST, 0, &q, sizeof(q), body, 64, NULL);
    }
    static const uint32_t rows[] = {0, 2, 17, UINT32_MAX};
    q.bytes = 64;
    for (int i = 0; i < 4; i++) {
        q.rows = rows[i];
        fleet_send(k.c, FLEET_REQUEST, 0, &q, sizeof(q), body, 64, NULL);
    }
    rig_until(&rig, k.answers == 9);
    assert_int_equal(k.of_status[GW_SERVE_BAD_REQUEST], 9);
    fleet_send(k.c, FLEET_RESULT, 0, body, 7, NULL, 0, NULL); /* not a client's to send: nothing happens */
    fleet_send(k.c, FLEET_REQUEST, 0, &q, sizeof(q) - 1, NULL, 0, NULL);
    rig_until(&rig, k.closed);
    rig_client_open(&rig, &k);
    rig_until(&rig, k.open);
    fleet_send(k.c, FLEET_OPEN, 0, body, 3, NULL, 0, NULL);
    rig_until(&rig, k.closed == 2);
    rig_client_open(&rig, &k);
    rig_until(&rig, k.open);
    fleet_send(k.c, FLEET_OPEN, 0, body, sizeof(struct fleet_open), NULL, 0, NULL);
    rig_until(&rig, k.closed == 3);
    assert_non_null(strstr(k.why, "RDMA"));
    rig_client_request(&good, 1, 0, 1, 0);
    rig_until(&rig, good.answers == 1);
}

static void test_many_clients(void **state)
{
    (void)state;
    struct rig_client *k = calloc(MANY, sizeof(*k));
    int open = 0, answers = 0, ok = 0;
    assert_non_null(k);
    start(&(struct rig_opts){.leases = MANY, .slots = 4 * MANY});
    uint64_t load = rig_action(&ctl, FLEET_LOAD, 0, 0, INT64_MAX);
    for (int i = 0; i < MANY; i++) {
        rig_client_open(&rig, &k[i]);
        struct fleet_lease l = rig_lease_of(&ctl, &k[i], (uint32_t)i, 0);
        l.slots = 4;
        rig_lease(&ctl, &l);
        if (i % 50 == 0) rig_turn(&rig);
    }
    rig_until(&rig, rig_outcome(&ctl, load) == FLEET_DONE && view().leases == MANY);
    while (open < MANY) {
        rig_turn(&rig);
        for (int i = open = 0; i < MANY; i++) open += k[i].open;
    }
    for (uint32_t i = 0; i < MANY; i++)
        for (uint64_t j = 0; j < 4; j++) rig_client_request(&k[i], i, 0x1000 + i, j, 0);
    while (answers < 4 * MANY) {
        rig_turn(&rig);
        for (int i = answers = 0; i < MANY; i++) answers += k[i].answers;
    }
    for (int i = 0; i < MANY; i++) ok += k[i].of_status[GW_SERVE_OK];
    assert_int_equal(ok, 4 * MANY);
    for (int i = 0; i < MANY; i++) fleet_conn_close(k[i].c, 0, NULL);
    rig_until(&rig, view().clients == 0);
    free(k);
}

/* A client that does not read its answers is cut off; the rest is served. */
static void test_does_not_read(void **state)
{
    (void)state;
    struct fleet_profile large = rig_profile;
    large.answer_bytes = 1 << 20;
    struct rig_client k = {0}, good = {0};
    start(&(struct rig_opts){.profile = &large, .backlog = 4 << 20});
    rig_client_open(&rig, &good);
    rig_until(&rig, good.open);
    rig_serve(&rig, &good, 1, 0);
    struct fleet_loop *mine, *shared = rig.clients;
    assert_int_equal(fleet_loop_create(&mine), 0);
    rig.clients = mine;
    rig_client_open(&rig, &k);
    rig_until(&rig, k.open);
    struct fleet_lease l = rig_lease_of(&ctl, &k, 2, 0);
    rig_lease(&ctl, &l);
    rig_until(&rig, view().leases == 2);
    for (uint64_t i = 0; i < 64; i++) rig_client_request(&k, 2, 0x1002, i, 0);
    fleet_loop_run(mine, rig_now()); /* they leave */
    rig.clients = shared;            /* and nothing is read any more */
    rig_until(&rig, view().clients == 1);
    rig_client_request(&good, 1, 0x1001, 1, 0);
    rig_until(&rig, good.answers == 1);
    fleet_loop_destroy(mine);
}

/* What a client had under way when it went ends without it. */
static void test_client_goes(void **state)
{
    (void)state;
    struct fleet_profile slow = rig_profile;
    for (int i = 0; i < 5; i++) slow.exec_ns[i] = 100 * MS;
    struct rig_client k = {0}, again = {0};
    start(&(struct rig_opts){.profile = &slow});
    rig_client_open(&rig, &k);
    rig_until(&rig, k.open);
    rig_serve(&rig, &k, 1, 0);
    for (uint64_t i = 0; i < 40; i++) rig_client_request(&k, 1, 0x1001, i, 0);
    rig_until(&rig, view().calls == 40);
    fleet_conn_close(k.c, 0, NULL);
    rig_until(&rig, view().clients == 0);
    memcpy(again.id, k.id, sizeof(k.id)); /* the same life of the client, on a new connection */
    rig_client_open(&rig, &again);
    rig_until(&rig, again.open);
    rig_client_request(&again, 1, 0x1001, 7, 0);
    rig_until(&rig, again.answers == 1);
    assert_int_equal(again.last.status, GW_SERVE_OK);
    rig_until(&rig, view().calls == 0);
}

/* ---- the orderly end */

static void left(void *ctx)
{
    int *n = ctx;
    ++*n;
}

static void test_leave(void **state)
{
    (void)state;
    struct rig_client k = {0};
    start_with(&k);
    rig_serve(&rig, &k, 1, 0);
    for (uint64_t i = 0; i < 50; i++) rig_client_request(&k, 1, 0x1001, i, 0);
    rig_until(&rig, view().calls > 0);
    fleet_agent_leave(rig.agent, 20 * SECOND, left, &rig.left);
    rig_until(&rig, ctl.leaves == 1);
    struct fleet_lease l = rig_lease_of(&ctl, &k, 2, 0), same = rig_lease_of(&ctl, &k, 1, 0);
    uint64_t fresh = rig_lease(&ctl, &l), renewed = rig_lease(&ctl, &same);
    rig_until(&rig, rig_outcome(&ctl, fresh) >= 0 && rig_outcome(&ctl, renewed) >= 0);
    assert_int_equal(rig_outcome(&ctl, fresh), FLEET_NO_ROOM);
    assert_int_equal(rig_outcome(&ctl, renewed), FLEET_DONE);
    rig_until(&rig, k.answers == 50);
    assert_int_equal(k.of_status[GW_SERVE_OK], 50);
    assert_int_equal(rig.left, 0); /* the lease is in force */
    same.left_ns = 0;
    uint64_t ended = rig_lease(&ctl, &same);
    rig_until(&rig, rig_outcome(&ctl, ended) == FLEET_DONE);
    rig_client_request(&k, 1, 0x1001, 98, 0); /* its client does not know yet */
    rig_until(&rig, k.answers == 51);
    assert_int_equal(k.last.status, GW_SERVE_OK);
    rig_until(&rig, view().leases == 0);
    rig_client_request(&k, 1, 0x1001, 99, 0); /* one that was on its way */
    rig_until(&rig, k.answers == 52);
    assert_int_equal(k.last.status, GW_SERVE_NO_LEASE);
    rig_until(&rig, rig.left == 1);
    rig_until(&rig, k.closed && ctl.closed == 1);
    assert_non_null(strstr(k.why, "leaves"));
}

/* Without a leader, and with a client that goes on, it goes when its time is over. */
static void test_leave_alone(void **state)
{
    (void)state;
    struct rig_client k = {0};
    start_with(&k);
    rig_serve(&rig, &k, 1, 0);
    rig.ctl = NULL;
    int64_t began = rig_now();
    fleet_agent_leave(rig.agent, 400 * MS, left, &rig.left);
    for (uint64_t i = 0; !rig.left; i++) {
        rig_client_request(&k, 1, 0x1001, i, 0);
        rig_turn(&rig);
        assert_true(rig_now() - began < 5 * SECOND);
    }
    assert_true(rig_now() - began >= 400 * MS);
    rig.ctl = &ctl;
}

/* It ends at once, with all kinds of things under way. */
static void test_destroyed_at_work(void **state)
{
    (void)state;
    struct fleet_profile slow = rig_profile;
    for (int i = 0; i < 5; i++) slow.exec_ns[i] = SECOND;
    slow.load_ns = 20 * MS;
    struct rig_client k = {0}, gone = {0};
    start(&(struct rig_opts){.profile = &slow});
    rig_client_open(&rig, &k);
    rig_client_open(&rig, &gone);
    rig_until(&rig, k.open && gone.open);
    rig_serve(&rig, &k, 1, 0);
    struct fleet_lease l = rig_lease_of(&ctl, &gone, 2, 0);
    rig_lease(&ctl, &l);
    rig_until(&rig, view().leases == 2);
    for (uint64_t i = 0; i < 40; i++) rig_client_request(&k, 1, 0x1001, i, 0);
    for (uint64_t i = 0; i < 10; i++) rig_client_request(&gone, 2, 0x1002, i, 0);
    rig_until(&rig, view().calls == 50);
    fleet_conn_close(gone.c, 0, NULL);
    rig_action(&ctl, FLEET_LOAD, 1, 0, INT64_MAX);
    rig_action(&ctl, FLEET_EVICT, 0, 0, INT64_MAX);
    rig_action(&ctl, FLEET_LOAD, 2, rig_now() + SECOND, INT64_MAX);
    rig_until(&rig, view().moves == 3 && view().clients == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_tells_all, stop),
        cmocka_unit_test_teardown(test_telemetry_counts, stop),
        cmocka_unit_test_teardown(test_windows, stop),
        cmocka_unit_test_teardown(test_window_ends_in_the_row, stop),
        cmocka_unit_test_teardown(test_no_such_thing, stop),
        cmocka_unit_test_teardown(test_pages, stop),
        cmocka_unit_test_teardown(test_old_terms, stop),
        cmocka_unit_test_teardown(test_two_leaders, stop),
        cmocka_unit_test_teardown(test_elsewhere, stop),
        cmocka_unit_test_teardown(test_leader_from_registry, stop),
        cmocka_unit_test_teardown(test_refusals, stop),
        cmocka_unit_test_teardown(test_expired, stop),
        cmocka_unit_test_teardown(test_budget, stop),
        cmocka_unit_test_teardown(test_lease_table, stop),
        cmocka_unit_test_teardown(test_silent_controller, stop),
        cmocka_unit_test_teardown(test_move_outlives_leader, stop),
        cmocka_unit_test_teardown(test_describe, stop),
        cmocka_unit_test_teardown(test_wrong_lengths, stop),
        cmocka_unit_test_teardown(test_many_clients, stop),
        cmocka_unit_test_teardown(test_does_not_read, stop),
        cmocka_unit_test_teardown(test_client_goes, stop),
        cmocka_unit_test_teardown(test_leave, stop),
        cmocka_unit_test_teardown(test_leave_alone, stop),
        cmocka_unit_test_teardown(test_destroyed_at_work, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
