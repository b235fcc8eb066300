/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of one end's requests to the other, and the places of operations: pure functions. All numbers of a
 * message pass through here before they are used. */
#include <string.h>

#include "src/cli/perf/perf.h"

#define KEEP_SLOTS (256u << 10) /* bytes: more would only wear out the caches */
#define LONGEST_NS UINT64_C(1000000000000000)

static uint64_t align64(uint64_t n)
{
    return (n + 63) & ~UINT64_C(63);
}

uint64_t perf_extra(uint32_t op)
{
    return op == PERF_SIGNAL || op == PERF_DATAGRAM ? 64 : 0;
}

uint64_t perf_span(const struct perf_shape *p)
{
    uint64_t stride = align64(p->size), slots = KEEP_SLOTS / stride;

    if (slots > p->depth) slots = p->depth;
    if (slots < p->posters) slots = p->posters; /* so that each writes where no other does */
    if (slots < 2) slots = 2;                   /* ping-pong: an outbox and an inbox */
    return slots * stride;
}

struct perf_place perf_place_of(uint64_t span, uint64_t size)
{
    uint64_t stride = align64(size);

    return (struct perf_place){.span = span, .stride = (uint32_t)stride, .slots = (uint32_t)(span / stride)};
}

static bool one_sided(uint32_t op)
{
    return op == PERF_PUT || op == PERF_GET;
}

const char *perf_shape_wrong(const struct perf_shape *p)
{
    if (p->test <= PERF_TEST_POST || p->test >= PERF_TESTS || p->op >= PERF_OPS || !p->qps || p->qps > 1024 ||
        !p->depth || p->depth > 32768 || !p->posters || p->posters > (1u << 20) / p->qps || !p->size ||
        p->size > PERF_MAX_SIZE || p->timeout > 31 || p->inl > 1024 || !p->batch || p->batch > 32768 ||
        p->verify > 1 || p->both > 1 || p->events > 1)
        return "a measurement out of all bounds is asked for";
    if (p->mtu && (p->mtu < 256 || p->mtu > 4096 || p->mtu & (p->mtu - 1)))
        return "the path MTU is 256, 512, 1024, 2048 or 4096";
    if (p->test == PERF_TEST_LAT && p->qps > 1) return "one queue pair measures latency";
    if (perf_extra(p->op) && (p->test != PERF_TEST_LAT || p->size <= perf_extra(p->op)))
        return "signals and datagrams are for latency";
    if (p->both && (p->test == PERF_TEST_LAT || !one_sided(p->op) || p->verify))
        return "both directions at once go with bw and msgrate, put and get, without --verify";
    if ((uint64_t)p->qps * p->depth > 1u << 20)
        return "queues for more than 2^20 requests would be needed: use fewer queue pairs (-q) or shorter "
               "ones (-t)";
    if (perf_span(p) * p->qps >
        PERF_MAX_MEMORY) /* 2^30 bytes in 2^20 slots of 2^10 queue pairs do not overflow */
        return "buffers of more than 4 GiB would be needed: use fewer queue pairs or posters, or smaller "
               "operations";
    return NULL;
}

const char *perf_step_wrong(const struct perf_shape *p, const struct perf_msg *m)
{
    if (!m->size || m->size > p->size - perf_extra(p->op)) return "a step of a size that was not agreed on";
    if (m->count > UINT64_C(1) << 48 || m->limit_ns > LONGEST_NS) return "a step without end";
    if (p->both && m->inbox.length < perf_span(p) * p->qps) return "too little memory is offered";
    return NULL;
}

const char *perf_stop_wrong(const struct perf_shape *p, const struct perf_msg *m)
{
    if (!m->size || m->size > p->size) return "a stop of a size that was not agreed on";
    if (m->count > perf_place_of(perf_span(p), p->op == PERF_SEND ? p->size : m->size).slots)
        return "more is to be looked at than there is";
    return NULL;
}

bool perf_msg_take(struct perf_msg *m, const void *bytes, uint64_t n)
{
    if (n != sizeof(*m)) return false;
    memcpy(m, bytes, sizeof(*m));
    if (m->magic != PERF_MAGIC) return false;
    m->text[sizeof(m->text) - 1] = 0;
    for (char *t = m->text; *t; t++)
        if (*t < ' ' || *t > '~') *t = '?'; /* nothing of it steers a terminal */
    return true;
}
