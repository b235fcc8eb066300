/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes are a hostile peer's conversation with `gpuwire perf`. After the checks, nothing may go wrong
 * with buffers, slots and queues, and texts must be plain.
 */
#include <stdlib.h>
#include <string.h>

#include "src/cli/perf/perf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) abort();
}

/* The way perf_side_open reads it. */
static void bounded(const struct perf_shape *p)
{
    uint64_t span = perf_span(p);
    struct perf_place at = perf_place_of(span, p->size);

    require(span * p->qps / p->qps == span && span * p->qps <= PERF_MAX_MEMORY);
    require(at.stride >= p->size && at.slots >= 2 && at.slots >= p->posters);
    require((uint64_t)p->qps * p->depth <= 1u << 20 && (uint64_t)p->qps * p->posters <= 1u << 20);
}

/* Where the kernels of a step read and write. */
static void step(const struct perf_shape *p, const struct perf_msg *m)
{
    struct perf_place at;

    if (perf_step_wrong(p, m)) return;
    at = perf_place_of(perf_span(p), m->size);
    require(m->size <= p->size && at.slots && at.stride >= m->size);
    require((uint64_t)at.slots * at.stride <= perf_span(p));
    if (p->both) require(m->inbox.length >= perf_span(p) * p->qps);
}

static void stop(const struct perf_shape *p, const struct perf_msg *m)
{
    if (perf_stop_wrong(p, m)) return;
    require(m->size <= p->size);
    require(m->count <= perf_place_of(perf_span(p), p->op == PERF_SEND ? p->size : m->size).slots);
}

/* Numbers near what is allowed, so that the code after the first check is reached. */
static void nearer(struct perf_msg *m)
{
    struct perf_shape *p = &m->shape;

    p->test %= PERF_TESTS + 1, p->op %= PERF_OPS + 1, p->qps %= 1026, p->depth %= 32770,
        p->posters %= 1u << 21;
    p->verify %= 3, p->both %= 3, p->events %= 3, p->inl %= 1026, p->batch %= 32770, p->timeout %= 33;
    p->mtu = 64u << p->mtu % 8 & ~64u, p->size %= PERF_MAX_SIZE + 2;
    m->size %= PERF_MAX_SIZE + 2;
    m->count %= 1u << 20;
}

/* The first byte says how long the message is; the rest is one, with the magic number put right most of the
 * time. */
static bool next(const uint8_t **data, size_t *size, struct perf_msg *m)
{
    struct perf_msg raw;
    uint64_t n = sizeof(raw);
    size_t took = *size < sizeof(raw) ? *size : sizeof(raw);
    uint8_t how;

    if (!*size) return false;
    how = **data;
    memset(&raw, 0, sizeof(raw));
    memcpy(&raw, *data, took);
    *data += took, *size -= took;
    if (how % 8) raw.magic = PERF_MAGIC;
    if (how >= 128) nearer(&raw);
    if (how % 16 == 9) n -= how / 16 + 1;
    if (how % 16 == 10) n += how / 16 + 1;
    if (!perf_msg_take(m, &raw, n)) return true;
    require(n == sizeof(raw) && raw.magic == PERF_MAGIC);
    for (const char *t = m->text; *t; t++) require(*t >= ' ' && *t <= '~');
    require(strnlen(m->text, sizeof(m->text)) < sizeof(m->text));
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct perf_msg m = {0};
    struct perf_shape shape;

    while (next(&data, &size, &m)) {
        shape = m.shape;
        if (perf_shape_wrong(&shape)) continue;
        bounded(&shape);
        while (next(&data, &size, &m)) {
            step(&shape, &m);
            stop(&shape, &m);
        }
    }
    return 0;
}
