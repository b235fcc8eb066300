/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many clients of the scheduler come, go, ask, cancel, take nothing for a while and vanish, at random. After
 * each turn every page and request is accounted for, and each token is the one that its client calculates.
 *
 *     test_random [SEED [SECONDS [BLOCK]]]
 *
 * A seed with a block of one thread prints the same numbers each time. It takes 1,500 turns. With SECONDS,
 * further seeds follow.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/generate/device/clients.h"
#include "tests/rnd.h"

enum { SESSIONS = 16, SLOTS = 4, STEMS = 5 };

static struct rnd rnd;
static uint64_t ids;
static uint32_t stem[STEMS][CLIENT_CONTEXT];
static uint64_t stalled_until[SESSIONS]; /* turns */

/* Small pools and large ones, by the seed. */
static struct world_opts options(uint32_t seed, uint32_t block)
{
    static const uint32_t pages[] = {14, 40, 100, 400};
    static const uint32_t lanes[] = {1, 5, 16, 64};
    struct world_opts o = {.shape = {.sessions = SESSIONS,
                                     .slots = SLOTS,
                                     .depth = 3 + seed % 9,
                                     .requests = 64 - seed % 3 * 12,
                                     .lanes = lanes[seed / 4 % 4],
                                     .pages = pages[seed % 4],
                                     .context = 200,
                                     .vocab = 61,
                                     .size = {8, 32, 128},
                                     .sizes = seed % 5 ? 3 : 1,
                                     .mixed_rows = seed % 2 ? 24 : 0,
                                     .picks = seed % 5 != 0,
                                     .secret = seed},
                           .block = block,
                           .ring = 90};
    if (!o.shape.picks) o.shape.size[0] = 128;
    if (seed % 7 == 6) { /* fewer rows than lanes */
        o.shape.size[0] = 1 + seed / 7 % 5;
        o.shape.sizes = 1;
        o.shape.mixed_rows = 0;
    }
    o.shape.fixed = seed % 11 == 10;
    if (o.shape.requests < o.shape.lanes) o.shape.requests = o.shape.lanes;
    if (o.shape.fixed) o.shape.pages = o.shape.lanes * 13;
    return o;
}

static void ask_something(uint32_t session, uint32_t slot)
{
    uint32_t prompt[CLIENT_CONTEXT], own = rnd_below(&rnd, 120), n = own + 1 + rnd_below(&rnd, 12);
    memcpy(prompt, stem[rnd_below(&rnd, STEMS)], own * sizeof(*prompt));
    for (uint32_t i = own; i < n; i++) prompt[i] = rnd_below(&rnd, 61);
    struct gen_request q = world_request(++ids, n, 1 + rnd_below(&rnd, 66));
    q.priority = rnd_below(&rnd, 4);
    q.salt = rnd_below(&rnd, 8) == 0;
    q.flags = rnd_below(&rnd, 10) ? 0 : GEN_NO_SHARE;
    q.temperature = rnd_below(&rnd, 4) ? 0 : 0.7f;
    q.tops = rnd_below(&rnd, 3);
    q.frequency = q.temperature > 0 && rnd_below(&rnd, 2) ? 0.5f : 0;
    q.seed = ids;
    if (!rnd_below(&rnd, 10)) q.first_ns = 100000;
    if (!rnd_below(&rnd, 10)) q.each_ns = 20000;
    client_ask(session, slot, q, prompt);
}

/* Something happens to a client. */
static void happen(uint64_t turn)
{
    uint32_t s = rnd_below(&rnd, SESSIONS), slot = rnd_below(&rnd, SLOTS), what = rnd_below(&rnd, 200);
    struct asked *a = client_of(s, slot);
    if (!world_is_open(s)) {
        if (what < 100 && !world_open(s)) world_close(s); /* one that has died is closed first */
    } else if (what < 120) {
        if (!a->live) ask_something(s, slot);
    } else if (what < 130) {
        if (a->live) world_cancel(s, slot, a->id);
    } else if (what < 134) {
        world_stall(s, true);
        stalled_until[s] = turn + 1 + rnd_below(&rnd, 40);
    } else if (what == 134) {
        world_die(s);
        client_gone(s);
    } else if (what == 135) {
        if (world_close(s)) client_gone(s);
    } else if (what == 136) {
        world_pass(UINT64_C(1) << rnd_below(&rnd, 29));
    }
}

static void begin(uint32_t seed, uint32_t block)
{
    struct world_opts o = options(seed, block);
    rnd = (struct rnd){seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    world_begin(&o);
    clients_begin(SESSIONS, SLOTS, o.ring);
    memset(stalled_until, 0, sizeof(stalled_until));
    for (uint32_t i = 0; i < STEMS; i++)
        for (uint32_t k = 0; k < CLIENT_CONTEXT; k++) stem[i][k] = rnd_below(&rnd, 61);
}

/* With all clients patient, every request ends; with all gone, no page is held. */
static void end(void)
{
    for (uint32_t s = 0; s < SESSIONS; s++) world_stall(s, false);
    require(!clients_finish(20000));
    for (uint32_t s = 0; s < SESSIONS; s++) world_close(s);
    world_turn();
    const struct gen_args *a = world_args();
    const struct gen_source_stats *t = &a->board->stats;
    require(!a->work->held_pages && !a->work->running && !a->work->waiting);
    printf("steps %lu tokens %lu cached %lu preempted %lu broken %u; ended", t->steps, t->tokens,
           t->prompt_cached, t->preempted, a->board->broken);
    for (uint32_t i = 0; i <= GEN_FAILED; i++) printf(" %lu", t->ended[i]);
    printf("\n");
    clients_end();
    world_end();
}

static void run(uint32_t seed, uint32_t block, uint64_t turns)
{
    begin(seed, block);
    for (uint64_t turn = 0; turn < turns; turn++) {
        for (uint32_t n = rnd_below(&rnd, 8); n--;) happen(turn);
        for (uint32_t s = 0; s < SESSIONS; s++)
            if (stalled_until[s] == turn) world_stall(s, false);
        if (!rnd_below(&rnd, 300)) world_fail();
        world_turn();
        clients_hear();
    }
    printf("seed %u: ", seed);
    end();
}

int main(int argc, char **argv)
{
    uint32_t seed = argc > 1 ? (uint32_t)atoi(argv[1]) : 1, block = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
    time_t until = time(NULL) + (argc > 2 ? atoi(argv[2]) : 0);
    do {
        run(seed++, block, 1500);
    } while (time(NULL) < until);
    return 0;
}
