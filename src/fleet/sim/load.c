/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.c: when requests come, and for which model. All models together are one Poisson process whose rate
 * changes; the model is drawn by its part of the rate, from sums in a tree (Fenwick).
 *
 * SIM_AZURE follows "Serverless in the Wild" (USENIX ATC 2020, section 3) on Azure's functions. The shares of
 * timers and the span of rates were looked up. The other numbers are from memory, and were not checked:
 *
 *     45 % are invoked once an hour or less, 81 % once a minute or less
 *     the others have 99.6 % of all invocations; the rates span eight orders of magnitude
 *     timers start 16 % of the functions, and make 2 % of the invocations
 *     half of the load is there all day, and half follows the day
 *     about half of the functions come in bursts: their coefficient of variation is over 1
 *
 * It is a generator with these numbers, not the trace. All rates are scaled to the one that the options name.
 */
#include <math.h>

#include "src/fleet/sim/world.h"

#define LOAD_ON_S  1.0 /* mean length of a burst */
#define LOAD_BURST 4   /* a burst's rate over the mean; the part of the time is its inverse */
enum { LOAD_STEPS = 48 /* of a day's wave */ };

static void load_set(struct sim_world *w, uint32_t model, double rate, double *now)
{
    double change = rate - *now;
    *now = rate;
    w->total_rate += change;
    for (uint32_t i = model + 1; i <= w->o.models; i += i & -i) w->fenwick[i] += change;
}

uint32_t sim_load_pick(struct sim_world *w)
{
    double left = sim_unit(&w->load) * w->total_rate;
    uint32_t at = 0, step = 1U << (31 - __builtin_clz(w->o.models));
    for (; step; step >>= 1) {
        if (at + step <= w->o.models && w->fenwick[at + step] < left) left -= w->fenwick[at += step];
    }
    return at < w->o.models ? at : w->o.models - 1;
}

void sim_load_next(struct sim_world *w)
{
    if (w->arrived >= w->o.requests || w->total_rate < 1e-6)
        w->next_arrival_ns = INT64_MAX;
    else
        w->next_arrival_ns = w->now_ns + 1 + (int64_t)sim_exponential(&w->load, 1e9 / w->total_rate);
}

/* How far a day has come makes this of a mean rate. */
static double load_wave(const struct sim_world *w, const struct sim_model *m)
{
    if (w->o.load != SIM_AZURE) return 1;
    return 0.75 + 0.25 * 2 * sin(6.283185307179586 * ((double)w->now_ns * 1e-9 / w->o.day_s + m->phase));
}

static void load_again(struct sim_world *w, uint32_t model, double seconds)
{
    sim_at(w, w->now_ns + 1 + (int64_t)(seconds * 1e9), EV_RATE, model, 0);
}

void sim_load_rate(struct sim_world *w, uint32_t model)
{
    struct sim_model *m = &w->models[model];
    if (w->arrived >= w->o.requests) return;
    if (m->timer) {
        sim_client_request(w, model);
        load_again(w, model, 1 / m->rate);
        return;
    }
    double rate = m->rate * load_wave(w, m);
    if (m->bursty) {
        m->on = !m->on;
        double mean = m->on ? LOAD_ON_S : LOAD_ON_S * (LOAD_BURST - 1);
        /* Azure's bursts are of many lengths; 1.5 gives them a mean, and no variance. */
        double length =
            w->o.load == SIM_AZURE ? sim_pareto(&w->load, mean / 3, 1.5) : sim_exponential(&w->load, mean);
        load_set(w, model, m->on ? rate * LOAD_BURST : 0, &m->rate_now);
        load_again(w, model, length);
    } else {
        load_set(w, model, rate, &m->rate_now);
        if (w->o.load == SIM_AZURE) load_again(w, model, w->o.day_s / LOAD_STEPS);
    }
    sim_load_next(w); /* nothing was remembered: the next one is drawn again */
}

/* Invocations a day of a function. */
static double load_azure(struct sim_random *r)
{
    double u = sim_unit(r), v = sim_unit(r);
    if (u < 0.45) return exp(log(0.1) + v * log(240));
    if (u < 0.81) return exp(log(24) + v * log(60));
    return exp(log(1440) + v * log(1e8 / 1440));
}

void sim_load_start(struct sim_world *w)
{
    double sum = 0;
    for (uint32_t i = 0; i < w->o.models; i++) {
        struct sim_model *m = &w->models[i];
        m->rate = w->o.load == SIM_AZURE ? load_azure(&w->load) : pow(i + 1, -w->o.skew);
        m->phase = sim_unit(&w->load);
        sum += m->rate;
    }
    for (uint32_t i = 0; i < w->o.models; i++) {
        struct sim_model *m = &w->models[i];
        double day = m->rate;
        m->rate *= w->o.rate / sum;
        if (w->o.load == SIM_AZURE) {
            m->timer = day < 1e5 && sim_unit(&w->load) < 0.17;
            m->bursty = !m->timer && sim_unit(&w->load) < 0.6;
        } else {
            m->bursty = w->o.load == SIM_ONOFF;
        }
        if (m->timer)
            load_again(w, i, sim_unit(&w->load) / m->rate);
        else if (m->bursty)
            m->on = sim_unit(&w->load) * LOAD_BURST > 1;
        if (!m->timer) sim_load_rate(w, i);
    }
    sim_load_next(w);
}
