/* SPDX-License-Identifier: Apache-2.0 */
/* Small states of a fleet made by hand, for tests of the planner. */
#ifndef FLEET_PLAN_RIG_H
#define FLEET_PLAN_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "src/fleet/plan/plan.h"

#define MS INT64_C(1000000)
enum { MAX_ACTIONS = 4096 };

static struct fleet_action actions[MAX_ACTIONS];
static void *memory;

/* Workers of 100 pages; models of 10 pages and 1 ms, 0.2 ms for each further request, and deadlines of 20
 * ms. */
static struct fleet_state *make(uint32_t workers, uint32_t models)
{
    struct fleet_limits l = {workers, models, workers * models};
    size_t bytes = (fleet_state_size(&l) + 63) / 64 * 64;
    free(memory);
    memory = aligned_alloc(64, bytes);
    assert_non_null(memory);
    struct fleet_state *s = fleet_state_init(memory, &l);
    for (uint32_t i = 0; i < workers; i++) {
        s->workers[i].gpu_pages = 100;
        s->workers[i].host_pages = 10000;
        s->workers[i].slots = 1024;
        s->workers[i].health = FLEET_ACTIVE;
    }
    for (uint32_t i = 0; i < models; i++) {
        s->models[i].pages = 10;
        s->models[i].load_ns = 10 * MS;
        for (int k = 0; k < FLEET_SIZES; k++) s->models[i].exec_ns[k] = MS + MS / 5 * ((1 << k) - 1);
        s->demand[i].class[0].deadline_ns = 20 * MS;
        assert_true(fleet_profile_ok(&s->models[i]));
    }
    return s;
}

__attribute__((unused)) static void rate(struct fleet_state *s, uint32_t model, float rate)
{
    for (int i = 0; i < FLEET_WINDOWS; i++) s->demand[model].rate[i] = rate;
    s->demand[model].class[0].rate = rate;
}

static uint32_t plan(struct fleet_state *s, int64_t now)
{
    struct fleet_tuning t;
    fleet_tuning_default(&t);
    return fleet_plan(s, &t, now, actions, MAX_ACTIONS);
}

/* What workers do with the actions: all succeeds at once. */
static void obey(struct fleet_state *s, uint32_t n, int64_t now)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct fleet_action *a = &actions[i];
        if (a->kind == FLEET_EVICT) fleet_place_move(s, a->place, FLEET_HOST, now);
        if (a->kind == FLEET_LOAD) fleet_loaded(s, a->place, true, now);
        if (a->kind == FLEET_DROP) fleet_place_remove(s, a->place);
    }
    fleet_state_check(s);
}

/* Rounds of 20 ms until one has nothing to do. Returns the time after. */
__attribute__((unused)) static int64_t settle(struct fleet_state *s, int64_t now)
{
    for (int i = 0; i < 100; i++, now += 20 * MS) {
        uint32_t n = plan(s, now);
        if (!n) return now;
        obey(s, n, now);
    }
    fail_msg("the planner does not settle");
    return 0;
}

__attribute__((unused)) static uint32_t count(const struct fleet_state *s, uint32_t model, bool leased)
{
    uint32_t n = 0;
    for (uint32_t i = s->models[model].first; i != FLEET_NONE; i = s->places[i].next_of_model) {
        n += s->places[i].where == FLEET_GPU && (!leased || (s->places[i].slots && !s->places[i].spill));
    }
    return n;
}

__attribute__((unused)) static uint32_t kinds(uint32_t n, enum fleet_kind kind)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++) k += actions[i].kind == kind;
    return k;
}

__attribute__((unused)) static uint32_t count_spill(const struct fleet_state *s, uint32_t model)
{
    uint32_t n = 0;
    for (uint32_t i = s->models[model].first; i != FLEET_NONE; i = s->places[i].next_of_model) {
        n += s->places[i].slots && s->places[i].spill;
    }
    return n;
}

#endif
