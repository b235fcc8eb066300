/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests that wait: a heap, the next one on top. One thread.
 *
 * Lower numbers of priority come first. Within one, clients get equal shares. Each client has an account of
 * the tokens that its requests may take, prompt and answer. A request is charged when it arrives. Its rank is
 * what the account was before. An account that has rested begins where the others are: no client saves up.
 * The account gets back what a request did not take. Ranks count in spans of 1,024 tokens. Within a span an
 * earlier deadline comes first, then an earlier arrival.
 */
#ifndef GW_GENERATE_DEVICE_QUEUE_H
#define GW_GENERATE_DEVICE_QUEUE_H

#include <stdbool.h>

#include <gpuwire/detail/assert.h>

#include "src/generate/device/shared.h"

#define GEN_SPAN_SHIFT 10

/* Is x before y among jobs that arrived at some time? */
GW_DEV bool gen_order_before(uint32_t x, uint32_t y)
{
    return (int32_t)(x - y) < 0;
}

GW_DEV bool gen_key_before(const struct gen_key *x, const struct gen_key *y)
{
    if (x->rank != y->rank) return x->rank < y->rank;
    if (x->deadline != y->deadline) return x->deadline < y->deadline;
    return gen_order_before(x->order, y->order);
}

/* Charges the request to its client, and so gives it its rank. */
GW_DEV void gen_job_charge(const struct gen_args *a, struct gen_job *j)
{
    uint64_t *given = &a->session[j->session].given[j->priority];
    uint64_t served = a->work->served[j->priority];
    if (*given < served) *given = served;
    j->rank = (uint64_t)j->priority << 60 | *given >> GEN_SPAN_SHIFT;
    j->charged = j->prompt + j->max_tokens;
    *given += j->charged;
}

/* The request is over: its client gets back what it has not taken. */
GW_DEV void gen_job_refund(const struct gen_args *a, struct gen_job *j)
{
    uint64_t *given = &a->session[j->session].given[j->priority];
    uint32_t took = j->admitted ? j->prompt + j->made : 0;
    uint64_t back = j->charged - (took < j->charged ? took : j->charged);
    *given -= back < *given ? back : *given;
    j->charged = 0;
}

/* Its turn has come: accounts that rest go on from there. */
GW_DEV void gen_job_served(const struct gen_args *a, const struct gen_job *j)
{
    uint64_t at = (j->rank & ~(UINT64_C(15) << 60)) << GEN_SPAN_SHIFT;
    if (a->work->served[j->priority] < at) a->work->served[j->priority] = at;
}

/* When the request's next token is due; UINT64_MAX: no time is set. */
GW_DEV uint64_t gen_job_due(const struct gen_job *j)
{
    uint64_t from = j->made ? j->token_at : j->arrived, in = j->made ? j->each_ns : j->first_ns;
    return in && in < UINT64_MAX - from ? from + in : UINT64_MAX;
}

/* ---- the heap ---- */

GW_DEV void gen_heap_put(const struct gen_args *a, uint32_t at, const struct gen_key *k)
{
    a->heap[at] = *k;
    a->job[k->job].at = at;
}

GW_DEV void gen_heap_up(const struct gen_args *a, uint32_t at, const struct gen_key *k)
{
    GW_NO_UNROLL_
    while (at && gen_key_before(k, &a->heap[(at - 1) / 2])) {
        gen_heap_put(a, at, &a->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    gen_heap_put(a, at, k);
}

GW_DEV void gen_queue_push(const struct gen_args *a, uint32_t job)
{
    struct gen_job *j = &a->job[job];
    struct gen_key k = {j->rank, gen_job_due(j), j->order, job};
    j->state = GEN_JOB_WAITING;
    GW_ASSERT(a->work->waiting < a->requests);
    gen_heap_up(a, a->work->waiting++, &k);
}

GW_DEV void gen_queue_remove(const struct gen_args *a, uint32_t job)
{
    struct gen_work *w = a->work;
    uint32_t at = a->job[job].at;
    GW_ASSERT(at < w->waiting && a->heap[at].job == job);
    if (at == --w->waiting) return;
    struct gen_key k = a->heap[w->waiting];
    GW_NO_UNROLL_
    for (uint32_t child; (child = 2 * at + 1) < w->waiting; at = child) {
        if (child + 1 < w->waiting && gen_key_before(&a->heap[child + 1], &a->heap[child])) child++;
        if (!gen_key_before(&a->heap[child], &k)) break;
        gen_heap_put(a, at, &a->heap[child]);
    }
    gen_heap_up(a, at, &k);
}

#endif
