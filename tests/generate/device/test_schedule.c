/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler's rules, one by one: who gets lanes and pages, who is told what, and who ends. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tests/generate/device/clients.h"

#define MS UINT64_C(1000000)

static const struct world_opts usual = {.shape = {.sessions = 3,
                                                  .slots = 4,
                                                  .depth = 16,
                                                  .requests = 10,
                                                  .lanes = 4,
                                                  .pages = 40,
                                                  .context = 200,
                                                  .vocab = 101,
                                                  .size = {4, 16, 64},
                                                  .sizes = 3,
                                                  .mixed_rows = 16,
                                                  .picks = true,
                                                  .secret = 5},
                                        .block = 1,
                                        .ring = 64};

static uint32_t prompt[CLIENT_CONTEXT], other[CLIENT_CONTEXT];
static uint64_t ids;

static void begin_with(struct world_opts o)
{
    world_begin(&o);
    clients_begin(o.shape.sessions, o.shape.slots, o.ring);
    for (uint32_t i = 0; i < o.shape.sessions; i++) assert_true(world_open(i));
    for (uint32_t i = 0; i < CLIENT_CONTEXT; i++) {
        prompt[i] = (7 * i + 3) % o.shape.vocab;
        other[i] = (11 * i + 5) % o.shape.vocab;
    }
    ids = 0;
}

static int begin(void **state)
{
    (void)state;
    begin_with(usual);
    return 0;
}

/* With every client gone, no page is held. */
static int end(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < world_args()->sessions; i++) world_close(i);
    world_turn();
    assert_int_equal(world_args()->work->held_pages, 0);
    world_end();
    clients_end();
    return 0;
}

static struct gen_request asks(uint32_t n, uint32_t most)
{
    return world_request(++ids, n, most);
}

static void turns(uint32_t n)
{
    while (n--) {
        world_turn();
        clients_hear();
    }
}

static const struct gen_source_stats *stats(void)
{
    return &world_args()->board->stats;
}

/* ---- one request ---- */

static void a_request_gets_its_tokens(void **state)
{
    (void)state;
    struct asked *a = client_ask(0, 2, asks(5, 20), prompt);
    assert_int_equal(clients_finish(40), 0);
    assert_int_equal(a->status, GEN_LENGTH);
    assert_int_equal(a->made, 20);
    assert_int_equal(stats()->tokens, 20);
    assert_int_equal(stats()->steps, 20);
    assert_int_equal(stats()->ended[GEN_LENGTH], 1);
    assert_int_equal(stats()->first.n, 1);
    assert_int_equal(stats()->between.n, 19);
    assert_int_equal(stats()->running, 0);
}

static void a_stop_ends_it_but_not_before_min_tokens(void **state)
{
    (void)state;
    uint32_t token[CLIENT_CONTEXT], stop[2] = {0, 100};
    memcpy(token, prompt, sizeof(token));
    for (uint32_t i = 5; i < 9; i++) token[i] = world_next(token, i);
    stop[0] = token[8];
    struct gen_request q = asks(5, 20);
    q.stops = 2;
    struct asked *a = client_ask_more(0, 0, q, prompt, stop, NULL);
    assert_int_equal(clients_finish(40), 0);
    assert_int_equal(a->status, GEN_STOPPED);
    assert_int_equal(a->token[a->prompt + a->made - 1], stop[0]);
    assert_true(a->made <= 4);
    q = asks(5, 20);
    q.stops = 2;
    q.min_tokens = 12;
    a = client_of(0, 0);
    client_ask_more(0, 0, q, prompt, stop, NULL);
    a->warm = true; /* stops are not taken, though they be the most likely */
    assert_int_equal(clients_finish(40), 0);
    assert_true(a->made >= 12);
    for (uint32_t i = 0; i < 12; i++) assert_true(a->token[5 + i] != stop[0] && a->token[5 + i] != 100);
}

static void the_longest_context_ends_it(void **state)
{
    (void)state;
    struct asked *a = client_ask(0, 0, asks(150, 50), prompt);
    assert_int_equal(clients_finish(90), 0);
    assert_int_equal(a->status, GEN_LENGTH);
    assert_int_equal(a->made, 50);
}

static void nonsense_is_told_why(void **state)
{
    (void)state;
    struct wrong {
        size_t at;
        uint32_t value, detail;
    } wrong[] = {{offsetof(struct gen_request, magic), 1, GEN_BAD_HEADER},
                 {offsetof(struct gen_request, prompt), 0, GEN_BAD_HEADER},
                 {offsetof(struct gen_request, flags), 2, GEN_BAD_HEADER},
                 {offsetof(struct gen_request, tops), 21, GEN_BAD_HEADER},
                 {offsetof(struct gen_request, max_tokens), 65, GEN_BAD_HEADER},
                 {offsetof(struct gen_request, max_tokens), 0, GEN_BAD_HEADER},
                 {offsetof(struct gen_request, stops), 17, GEN_BAD_HEADER},
                 {offsetof(struct gen_request, biases), 513, GEN_BAD_HEADER},
                 {offsetof(struct gen_request, prompt), 4, GEN_BAD_HEADER}, /* another length came */
                 {offsetof(struct gen_request, prompt), 190, GEN_TOO_LONG},
                 {offsetof(struct gen_request, prompt), UINT32_MAX, GEN_TOO_LONG},
                 {offsetof(struct gen_request, temperature), 0x7fc00000, GEN_BAD_SAMPLING},
                 {offsetof(struct gen_request, top_p), 0x7fc00000, GEN_BAD_SAMPLING},
                 {offsetof(struct gen_request, top_p), 0, GEN_BAD_SAMPLING},
                 {offsetof(struct gen_request, min_p), 0x3f800000, GEN_BAD_SAMPLING},
                 {offsetof(struct gen_request, repetition), 0x80000000, GEN_BAD_SAMPLING},
                 {offsetof(struct gen_request, frequency), 0x7f800000, GEN_BAD_SAMPLING}};
    for (uint32_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct asked *a = client_of(0, 1);
        struct {
            struct gen_request q;
            uint32_t token[5];
        } m = {asks(5, 20), {1, 2, 3, 4, 5}};
        m.q.slot = 1;
        memcpy((uint8_t *)&m.q + wrong[i].at, &wrong[i].value, 4);
        memset(a, 0, sizeof(*a));
        a->id = m.q.id;
        a->live = world_ask_raw(0, 1, 1, &m, sizeof(m.q) + sizeof(m.token));
        turns(2);
        assert_false(a->live);
        assert_int_equal(a->status, GEN_INVALID);
        assert_int_equal(a->detail, wrong[i].detail);
    }
    assert_int_equal(stats()->ended[GEN_INVALID], sizeof(wrong) / sizeof(*wrong));
}

static void tokens_beyond_the_vocabulary_are_refused(void **state)
{
    (void)state;
    uint32_t stop = 101;
    struct gen_top bias = {101, 1}, nan = {5, 0};
    other[30] = 101;
    struct asked *a = client_ask(0, 0, asks(31, 2), other), *b = client_of(0, 1), *c = client_of(0, 2);
    struct gen_request q = asks(3, 2);
    q.stops = 1;
    client_ask_more(0, 1, q, prompt, &stop, NULL);
    q = asks(3, 2);
    q.biases = 1;
    client_ask_more(0, 2, q, prompt, NULL, &bias);
    turns(2);
    assert_int_equal(a->status, GEN_INVALID);
    assert_int_equal(a->detail, GEN_BAD_TOKEN);
    assert_int_equal(b->detail, GEN_BAD_TOKEN);
    assert_int_equal(c->detail, GEN_BAD_TOKEN);
    memset(&nan.logprob, 0xff, 4);
    q = asks(3, 2);
    q.biases = 1;
    client_ask_more(0, 2, q, prompt, NULL, &nan);
    turns(2);
    assert_int_equal(c->detail, GEN_BAD_SAMPLING);
}

static void a_slot_that_was_not_the_clients_breaks_the_session(void **state)
{
    (void)state;
    struct gen_request q = asks(5, 20);
    client_ask(0, 0, q, prompt);
    struct asked *b = client_ask(1, 0, asks(6, 20), prompt);
    turns(3);
    world_ask(0, 0, &q, prompt, NULL, NULL);
    world_ask_raw(1, 0, 77, &q, sizeof(q)); /* no slot at all: there is none to answer */
    turns(1);
    assert_int_equal(world_args()->board->broken, 1);
    world_die(0);
    client_gone(0);
    b->live = false; /* its slot was overwritten by the test */
    world_die(1);
    turns(1);
    assert_int_equal(world_args()->board->broken, 2);
    assert_int_equal(stats()->running, 0);
}

/* ---- cancellation, deadlines ---- */

static void what_is_taken_back_ends(void **state)
{
    (void)state;
    struct asked *a[5];
    for (uint32_t i = 0; i < 5; i++) a[i] = client_ask(i / 4, i % 4, asks(20, 60), prompt);
    turns(4);
    assert_int_equal(stats()->running, 4);
    assert_int_equal(stats()->waiting, 1);
    world_cancel(0, 1, a[1]->id); /* it runs */
    world_cancel(1, 0, a[4]->id); /* it waits */
    world_cancel(0, 0, a[1]->id); /* another one's id: it goes on */
    turns(2);
    assert_int_equal(a[1]->status, GEN_CANCELLED);
    assert_int_equal(a[4]->status, GEN_CANCELLED);
    assert_int_equal(a[4]->made, 0);
    assert_true(a[0]->live);
    assert_int_equal(stats()->running, 3);
}

static void deadlines_end_requests(void **state)
{
    (void)state;
    struct gen_request q = asks(10, 60);
    for (uint32_t i = 0; i < 4; i++) client_ask(0, i, asks(20, 60), prompt);
    turns(2);
    q.first_ns = 3 * MS;
    struct asked *waits = client_ask(1, 0, q, prompt);
    q = asks(10, 60);
    q.each_ns = 5 * MS;
    turns(3);
    assert_true(waits->live);
    world_pass(4 * MS);
    turns(2);
    assert_int_equal(waits->status, GEN_LATE);
    world_cancel(0, 0, client_of(0, 0)->id);
    struct asked *slow = client_ask(1, 1, q, prompt);
    turns(5);
    assert_true(slow->live && slow->made > 1);
    world_pass(6 * MS);
    turns(2);
    assert_int_equal(slow->status, GEN_LATE);
    assert_int_equal(stats()->ended[GEN_LATE], 2);
}

/* ---- the queue ---- */

static void a_full_queue_refuses(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 12; i++) client_ask(i / 4, i % 4, asks(5, 60), prompt);
    turns(1);
    uint32_t full = 0;
    for (uint32_t i = 0; i < 12; i++) full += client_of(i / 4, i % 4)->status == GEN_FULL;
    clients_hear();
    turns(1);
    for (uint32_t i = full = 0; i < 12; i++) full += client_of(i / 4, i % 4)->status == GEN_FULL;
    assert_int_equal(full, 2);
    assert_int_equal(clients_finish(400), 0);
    assert_int_equal(stats()->ended[GEN_LENGTH], 10);
}

static void a_higher_priority_takes_a_lane(void **state)
{
    (void)state;
    struct asked *a[6];
    for (uint32_t i = 0; i < 4; i++) {
        struct gen_request q = asks(20, 40);
        q.priority = i == 2 ? 5 : 3;
        a[i] = client_ask(0, i, q, prompt);
    }
    turns(5);
    struct gen_request q = asks(20, 10);
    q.priority = 1;
    a[4] = client_ask(1, 0, q, other);
    q = asks(20, 10);
    q.priority = 5; /* as low as the lowest: it waits */
    a[5] = client_ask(1, 1, q, other);
    turns(5);
    assert_int_equal(stats()->preempted, 1);
    assert_true(a[4]->made);
    assert_int_equal(a[5]->made, 0);
    uint32_t made = a[2]->made;
    turns(2);
    assert_int_equal(a[2]->made, made);
    assert_int_equal(clients_finish(200), 0);
    for (uint32_t i = 0; i < 6; i++) assert_int_equal(a[i]->status, GEN_LENGTH);
}

/* A client with many requests does not keep another one waiting that has few. Equal shares are of spans of
 * 1,024 tokens: five of these requests. */
static void clients_share_alike(void **state)
{
    (void)state;
    struct world_opts o = usual;
    o.shape.lanes = 1;
    o.shape.slots = o.shape.requests = 16;
    end(state);
    begin_with(o);
    for (uint32_t i = 0; i < 12; i++) client_ask(0, i, asks(150, 50), prompt);
    turns(1);
    struct asked *b = client_ask(1, 0, asks(5, 3), other);
    assert_int_equal(clients_finish(900), 0);
    assert_true(client_of(0, 4)->posted < b->posted);
    assert_true(client_of(0, 7)->posted > b->posted);
}

/* ---- pages ---- */

static void equal_prompts_share_pages(void **state)
{
    (void)state;
    struct gen_request q = asks(64, 4);
    struct asked *a = client_ask(0, 0, q, prompt), *b, *c, *d;
    assert_int_equal(clients_finish(20), 0);
    assert_int_equal(a->cached, 0);
    b = client_ask(0, 1, asks(70, 30), prompt);
    q = asks(64, 4);
    q.salt = 9;
    c = client_ask(1, 0, q, prompt); /* another salt */
    turns(6);
    assert_int_equal(b->cached, 64);
    assert_int_equal(c->cached, 0);
    q = asks(64, 30);
    d = client_ask(1, 1, q, prompt); /* one token is computed, always: not its last page */
    turns(3);
    assert_int_equal(d->cached, 48);
    assert_true(stats()->pages_shared >= 3);
    q = asks(64, 4);
    q.flags = GEN_NO_SHARE;
    c = client_ask(1, 2, q, prompt);
    turns(4);
    assert_int_equal(c->cached, 0);
    assert_int_equal(clients_finish(80), 0);
    assert_int_equal(stats()->prompt_cached, 64 + 48);
}

/* Asks for a prompt of four full pages: how many of its tokens are there? */
static uint32_t found_again(void)
{
    struct asked *a = client_ask(1, 3, asks(65, 1), prompt);
    assert_int_equal(clients_finish(20), 0);
    return a->cached;
}

/* Pages of equal hashes are not the same: tokens, salt and the page before are compared. */
static void a_hash_alone_shares_nothing(void **state)
{
    (void)state;
    for (uint32_t what = 0; what < 4; what++) {
        end(state);
        begin_with(usual);
        struct gen_page *page = world_args()->page;
        found_again();
        page[1].token[15] ^= what == 1;
        page[0].salt ^= what == 2;
        if (what == 3) page[2].before = 1; /* after the first page: not after the second one */
        assert_int_equal(found_again(), what == 0 ? 64 : what == 1 ? 16 : what == 2 ? 0 : 32);
        page[2].before = 2; /* the account finds the others right */
    }
}

/* Of requests that come together only one computes what they have in common. */
static void equal_prompts_are_computed_once(void **state)
{
    (void)state;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < 4; i++) client_ask(i % 2, i, asks(120, 1), prompt);
    for (uint32_t i = 0; i < 40; i++) {
        rows += world_turn();
        clients_hear();
    }
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(client_of(i % 2, i)->status, GEN_LENGTH);
    assert_int_equal(rows, 120 + 3 * 8); /* seven pages of 16, and the rest */
    assert_int_equal(client_of(1, 3)->cached, 112);
    assert_int_equal(client_of(0, 0)->cached, 0);
}

/* One that takes its time to be sent holds no other up. */
static void no_lane_waits_for_one_that_rests(void **state)
{
    (void)state;
    client_ask(0, 0, asks(120, 60), prompt);
    turns(12);
    world_stall(0, true);
    turns(30);
    for (uint32_t i = 0; i < 2; i++) client_ask(1, i, asks(180, 10), prompt);
    turns(60);
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(client_of(1, i)->status, GEN_LENGTH);
    world_stall(0, false);
    assert_int_equal(clients_finish(100), 0);
}

/* Two that make the same tokens at the same time end up with the same pages. */
static void pages_that_turn_out_equal_become_one(void **state)
{
    (void)state;
    client_ask(0, 0, asks(60, 40), prompt);
    client_ask(1, 0, asks(60, 40), prompt);
    turns(24);
    assert_true(stats()->pages_shared >= 4);
    assert_int_equal(clients_finish(80), 0);
}

static void when_pages_run_out_the_youngest_gives_way(void **state)
{
    (void)state;
    struct world_opts o = usual;
    o.shape.pages = 11;
    end(state);
    begin_with(o);
    struct asked *a = client_ask(0, 0, asks(64, 60), prompt);
    turns(2);
    struct asked *b = client_ask(0, 1, asks(60, 60), other);
    assert_int_equal(clients_finish(600), 0);
    assert_int_equal(a->status, GEN_LENGTH);
    assert_int_equal(b->status, GEN_LENGTH);
    assert_true(stats()->preempted >= 1);
    assert_true(a->posted < b->posted);
}

static void what_does_not_fit_alone_is_told(void **state)
{
    (void)state;
    struct world_opts o = usual;
    o.shape.pages = 6;
    end(state);
    begin_with(o);
    struct asked *a = client_ask(0, 0, asks(96, 3), prompt), *b = client_ask(0, 1, asks(80, 40), prompt);
    assert_int_equal(clients_finish(100), 0);
    assert_int_equal(a->status, GEN_FULL);
    assert_int_equal(b->status, GEN_FULL); /* but it got what there was room for */
    assert_int_equal(b->made, 17);
}

static void long_prompts_do_not_stop_others(void **state)
{
    (void)state;
    struct asked *a = client_ask(0, 0, asks(5, 60), prompt);
    turns(3);
    struct asked *b = client_ask(0, 1, asks(180, 5), other);
    for (uint32_t i = 0; !b->made; i++) {
        uint32_t made = a->made;
        assert_true(world_turn() <= 16 + 4);
        clients_hear();
        assert_true(i < 1 || a->made == made + 1);
    }
    assert_true(a->made > 10);
    assert_int_equal(clients_finish(100), 0);
}

/* A step with fewer rows than lanes serves them in turn. */
static void lanes_take_turns_where_steps_are_small(void **state)
{
    (void)state;
    struct world_opts o = usual;
    o.shape.size[0] = 3;
    o.shape.sizes = 1;
    o.shape.mixed_rows = 0;
    end(state);
    begin_with(o);
    for (uint32_t i = 0; i < 4; i++) client_ask(0, i, asks(2 + i, 60), prompt + i);
    uint32_t made[4];
    turns(15); /* prompts are computed */
    for (uint32_t i = 0; i < 4; i++) made[i] = client_of(0, i)->made;
    turns(40);
    for (uint32_t i = 0; i < 4; i++) assert_in_range(client_of(0, i)->made - made[i], 29, 31);
    assert_int_equal(clients_finish(100), 0);
}

static void lanes_with_pages_of_their_own(void **state)
{
    (void)state;
    struct world_opts o = usual;
    o.shape.fixed = true;
    o.shape.pages = 4 * 13;
    end(state);
    begin_with(o);
    for (uint32_t i = 0; i < 9; i++) client_ask(i / 4, i % 4, asks(150, 50), i % 2 ? prompt : other);
    assert_int_equal(clients_finish(800), 0);
    assert_int_equal(stats()->ended[GEN_LENGTH], 9);
    assert_int_equal(stats()->prompt_cached, 0);
    assert_int_equal(stats()->preempted, 0);
}

/* ---- clients that take nothing, and that vanish ---- */

static void a_client_that_takes_nothing_loses_its_requests(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) client_ask(0, i, asks(30, 60), prompt);
    turns(3);
    world_stall(0, true);
    turns(20); /* its queue of 16 is full; its lanes rest, but pages and lanes are kept for a while */
    assert_int_equal(stats()->running, 4);
    struct asked *b = client_ask(1, 0, asks(30, 10), other);
    turns(100);
    assert_false(b->live);
    assert_int_equal(b->status, GEN_LENGTH);
    assert_int_equal(world_args()->board->broken, 0);
    world_pass(GEN_STALL_NS);
    turns(2);
    assert_int_equal(world_args()->board->broken, 1);
    assert_int_equal(stats()->running, 0);
    client_gone(0);
}

static void a_client_that_comes_back_in_time_misses_nothing(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) client_ask(0, i, asks(30, 60), prompt);
    turns(3);
    world_stall(0, true);
    turns(20);
    client_ask(1, 0, asks(30, 10), other); /* takes a lane of the one that rests */
    turns(100);
    world_cancel(0, 3, client_of(0, 3)->id); /* its last token is still under way */
    turns(3);
    world_stall(0, false);
    assert_int_equal(clients_finish(400), 0);
    assert_int_equal(world_args()->board->broken, 0);
    assert_int_equal(stats()->ended[GEN_LENGTH], 4);
    assert_int_equal(client_of(0, 3)->status, GEN_CANCELLED);
    assert_true(stats()->preempted >= 1);
}

static void clients_vanish_and_sessions_are_used_again(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < 4; i++) client_ask(0, i, asks(30, 60), prompt);
        turns(4);
        world_die(0);
        client_gone(0);
        turns(1);
        assert_int_equal(stats()->running, 0);
        assert_int_equal(world_args()->board->broken, round + 1);
        assert_true(world_close(0));
        turns(1);
        assert_true(world_open(0));
    }
    client_ask(0, 0, asks(30, 20), prompt); /* before the kernel has looked at the notice */
    assert_int_equal(clients_finish(40), 0);
}

static void a_closed_session_leaves_at_once(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) client_ask(0, i, asks(30, 60), prompt);
    client_ask(1, 0, asks(30, 20), other);
    turns(4);
    assert_true(world_close(0));
    client_gone(0);
    turns(1);
    assert_int_equal(stats()->running, 1);
    assert_int_equal(clients_finish(40), 0);
}

/* ---- ends ---- */

static void a_network_that_fails_ends_its_requests(void **state)
{
    (void)state;
    struct asked *a = client_ask(0, 0, asks(5, 60), prompt), *b;
    turns(3);
    b = client_ask(0, 1, asks(150, 5), other); /* it has no wanted row yet when the network fails */
    turns(1);
    world_fail();
    turns(3);
    assert_int_equal(a->status, GEN_FAILED);
    assert_int_equal(b->status, GEN_FAILED);
    client_ask(0, 0, asks(5, 10), prompt);
    assert_int_equal(clients_finish(40), 0);
    assert_int_equal(client_of(0, 0)->status, GEN_LENGTH);
}

static void closing_ends_what_waits_then_what_runs(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 6; i++) client_ask(i / 4, i % 4, asks(30, 60), prompt);
    turns(4);
    world_args()->board->closing = 1;
    turns(2);
    assert_int_equal(client_of(1, 0)->status, GEN_CLOSING);
    assert_int_equal(client_of(1, 1)->status, GEN_CLOSING);
    struct asked *late = client_ask(1, 2, asks(30, 60), prompt);
    turns(2);
    assert_int_equal(late->status, GEN_CLOSING);
    assert_true(client_of(0, 0)->live);
    world_args()->board->closing = 2;
    turns(2);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(client_of(0, i)->status, GEN_CLOSING);
}

/* A seed gives the same text whatever else runs. */
static void a_seed_gives_the_same_text_in_company(void **state)
{
    (void)state;
    struct gen_request q = asks(20, 50);
    uint32_t alone[50];
    q.temperature = 0.9f;
    q.top_p = 0.95f;
    q.seed = 1234;
    struct asked *a = client_ask(0, 0, q, prompt);
    assert_int_equal(clients_finish(80), 0);
    memcpy(alone, a->token + 20, sizeof(alone));
    for (uint32_t i = 0; i < 7; i++) client_ask(1 + i / 4, i % 4, asks(25 + i, 40), other);
    turns(5);
    q.id = ++ids;
    q.flags = GEN_NO_SHARE;
    client_ask(0, 0, q, prompt);
    assert_int_equal(clients_finish(200), 0);
    assert_memory_equal(alone, a->token + 20, sizeof(alone));
    q.seed++;
    q.id = ++ids;
    client_ask(0, 0, q, prompt);
    assert_int_equal(clients_finish(200), 0);
    assert_memory_not_equal(alone, a->token + 20, sizeof(alone));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_gets_its_tokens),
        TEST(a_stop_ends_it_but_not_before_min_tokens),
        TEST(the_longest_context_ends_it),
        TEST(nonsense_is_told_why),
        TEST(tokens_beyond_the_vocabulary_are_refused),
        TEST(a_slot_that_was_not_the_clients_breaks_the_session),
        TEST(what_is_taken_back_ends),
        TEST(deadlines_end_requests),
        TEST(a_full_queue_refuses),
        TEST(a_higher_priority_takes_a_lane),
        TEST(clients_share_alike),
        TEST(equal_prompts_share_pages),
        TEST(a_hash_alone_shares_nothing),
        TEST(equal_prompts_are_computed_once),
        TEST(no_lane_waits_for_one_that_rests),
        TEST(pages_that_turn_out_equal_become_one),
        TEST(when_pages_run_out_the_youngest_gives_way),
        TEST(what_does_not_fit_alone_is_told),
        TEST(long_prompts_do_not_stop_others),
        TEST(lanes_take_turns_where_steps_are_small),
        TEST(lanes_with_pages_of_their_own),
        TEST(a_client_that_takes_nothing_loses_its_requests),
        TEST(a_client_that_comes_back_in_time_misses_nothing),
        TEST(clients_vanish_and_sessions_are_used_again),
        TEST(a_closed_session_leaves_at_once),
        TEST(a_network_that_fails_ends_its_requests),
        TEST(closing_ends_what_waits_then_what_runs),
        TEST(a_seed_gives_the_same_text_in_company),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
