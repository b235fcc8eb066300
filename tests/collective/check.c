/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation beside a plain reference, which has all ranks' data: the same bits. */
#include "tests/collective/peer.h"

/* ---- numbers ------------------------------------------------------------------------------------------- */

static uint32_t hash_of(uint32_t rank, uint64_t i)
{
    uint64_t v = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) + rank * UINT64_C(0xd1b54a32d192ed03);

    v = (v ^ v >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(v >> 32);
}

/* A type, as the compiler knows it. bf16 is rounded by hand. */
static float bf16_of(uint16_t v)
{
    uint32_t bits = (uint32_t)v << 16;
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

static uint16_t bf16_to(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    if (bits & 0x8000 && (bits & 0x7fff || bits & 0x10000)) bits += 0x10000; /* up, or to the even one */
    return (uint16_t)(bits >> 16);
}

/* Rank's element i of a vector. */
static void number_make(void *to, uint64_t at, uint32_t dtype, uint32_t rank, uint64_t i)
{
    uint32_t h = hash_of(rank, i);
    float f = (float)((double)(int32_t)h / 2147483648.0 * 8);

    switch (dtype) {
    case GW_DTYPE_F32: ((float *)to)[at] = f; break;
    case GW_DTYPE_F64: ((double *)to)[at] = (double)(int32_t)h / 3.0; break;
    case GW_DTYPE_F16: ((_Float16 *)to)[at] = (_Float16)f; break;
    case GW_DTYPE_BF16: ((uint16_t *)to)[at] = bf16_to(f); break;
    case GW_DTYPE_I64:
    case GW_DTYPE_U64: ((uint64_t *)to)[at] = (uint64_t)h << 32 | ~h; break;
    case GW_DTYPE_I32:
    case GW_DTYPE_U32: ((uint32_t *)to)[at] = h; break;
    case GW_DTYPE_I16:
    case GW_DTYPE_U16: ((uint16_t *)to)[at] = (uint16_t)h; break;
    default: ((uint8_t *)to)[at] = (uint8_t)h; break;
    }
}

#define COMBINE(type, math, get, put)                                                                        \
    {                                                                                                        \
        math x = get(((type *)a)[at]), y = get(((type *)b)[0]);                                              \
        math r = op == GW_PROD  ? (math)(x * y)                                                              \
                 : op == GW_MAX ? (x > y ? x : y)                                                            \
                 : op == GW_MIN ? (x < y ? x : y)                                                            \
                                : (math)(x + y);                                                             \
        ((type *)a)[at] = (type)put(r);                                                                      \
        break;                                                                                               \
    }
#define SAME(v) (v)

/* a[at] becomes a[at] op *b. */
static void number_combine(void *a, uint64_t at, const void *b, uint32_t dtype, uint32_t op)
{
    switch (dtype) {
    case GW_DTYPE_F32: COMBINE(float, float, SAME, SAME)
    case GW_DTYPE_F64: COMBINE(double, double, SAME, SAME)
    case GW_DTYPE_F16: COMBINE(_Float16, float, SAME, SAME)
    case GW_DTYPE_BF16: COMBINE(uint16_t, float, bf16_of, bf16_to)
    case GW_DTYPE_I64:
        if (op == GW_MAX || op == GW_MIN) COMBINE(int64_t, int64_t, SAME, SAME)
        COMBINE(uint64_t, uint64_t, SAME, SAME)
    case GW_DTYPE_U64: COMBINE(uint64_t, uint64_t, SAME, SAME)
    case GW_DTYPE_I32: COMBINE(int32_t, int64_t, SAME, SAME)
    case GW_DTYPE_U32: COMBINE(uint32_t, uint64_t, SAME, SAME)
    case GW_DTYPE_I16: COMBINE(int16_t, int64_t, SAME, SAME)
    case GW_DTYPE_U16: COMBINE(uint16_t, uint64_t, SAME, SAME)
    case GW_DTYPE_I8: COMBINE(int8_t, int32_t, SAME, SAME)
    default: COMBINE(uint8_t, uint32_t, SAME, SAME)
    }
}

static void number_divide(void *a, uint64_t at, uint32_t dtype, uint32_t by)
{
    switch (dtype) {
    case GW_DTYPE_F32: ((float *)a)[at] /= (float)by; break;
    case GW_DTYPE_F64: ((double *)a)[at] /= by; break;
    case GW_DTYPE_F16: ((_Float16 *)a)[at] = (_Float16)((float)((_Float16 *)a)[at] / (float)by); break;
    default: ((uint16_t *)a)[at] = bf16_to(bf16_of(((uint16_t *)a)[at]) / (float)by); break;
    }
}

/* ---- the reference
 * -------------------------------------------------------------------------------------- */

/* The reduction of element i (of all ranks' vectors), beginning with rank `first`'s. */
static void reference_reduce(const struct peer *p, const struct gw_coll *c, uint64_t at, uint64_t i,
                             uint32_t first)
{
    uint8_t *want = p->want.host;

    number_make(want, at, c->dtype, first, i);
    for (uint32_t k = 1; k < p->size; k++) {
        uint64_t one[2];

        number_make(one, 0, c->dtype, (first + k) % p->size, i);
        number_combine(want, at, one, c->dtype, c->op);
    }
    if (c->op == GW_AVG) number_divide(want, at, c->dtype, p->size);
}

/* Which rank's element a reduction begins with, if it goes round the ring: the one after the part's owner. */
static uint32_t ring_first(const struct peer *p, const struct gw_coll *c, const struct gw_coll_plan *plan,
                           uint64_t i)
{
    uint32_t each = (uint32_t)gw_dtype_bytes(c->dtype);

    if (plan->way != GW_WAY_RING || p->size == 1) return 0;
    if (c->kind == GW_COLL_REDUCE_SCATTER) return (p->rank + 1) % p->size;
    for (uint32_t b = 0; b < plan->blocks; b++) {
        struct gw_range_ share = gw_share_(c->count, each, b, plan->blocks);

        for (uint32_t q = 0; q < p->size; q++) {
            struct gw_range_ part = gw_share_(share.n, each, q, p->size);

            if (i >= share.at + part.at && i < share.at + part.at + part.n) return (q + 1) % p->size;
        }
    }
    return UINT32_MAX;
}

/* Elements of recv. */
static uint64_t reference_make(const struct peer *p, const struct gw_coll *c, const struct gw_coll_plan *plan)
{
    uint64_t n = gw_coll_extent_(c, p->size, 1);
    uint8_t *want = p->want.host;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t from = c->count ? (uint32_t)(i / c->count) : 0;

        switch (c->kind) {
        case GW_COLL_BROADCAST: number_make(want, i, c->dtype, c->root, i); break;
        case GW_COLL_ALLREDUCE: reference_reduce(p, c, i, i, ring_first(p, c, plan, i)); break;
        case GW_COLL_REDUCE_SCATTER:
            reference_reduce(p, c, i, p->rank * c->count + i, ring_first(p, c, plan, i));
            break;
        case GW_COLL_ALLGATHER: number_make(want, i, c->dtype, from, i % c->count); break;
        default: number_make(want, i, c->dtype, from, p->rank * c->count + i % c->count); break;
        }
    }
    return n;
}

/* ---- one operation
 * -------------------------------------------------------------------------------------- */

static int fill(const struct peer *p, const struct gw_coll *c, uint8_t *at)
{
    uint64_t n = gw_coll_extent_(c, p->size, 0);
    uint32_t each = (uint32_t)gw_dtype_bytes(c->dtype);

    for (uint64_t i = 0; i < n; i++) number_make(p->want.host, i, c->dtype, p->rank, i);
    return gw_copy_in(p->exec, at, p->want.host, n * each);
}

static int compare(const struct peer *p, const struct gw_coll *c, const struct gw_coll_plan *plan)
{
    static uint8_t got[MOST + 64];
    uint64_t bytes = reference_make(p, c, plan) * gw_dtype_bytes(c->dtype);

    TRY(bytes <= MOST);
    TRY(gw_copy_out(p->exec, got, c->recv, bytes + 64) == 0);
    for (uint64_t i = 0; i < bytes; i++)
        if (got[i] != ((uint8_t *)p->want.host)[i]) {
            fprintf(stderr,
                    "rank %u: kind %u, %s, op %u, way %u, blocks %u, count %llu: byte %llu is wrong\n",
                    p->rank, c->kind, gw_dtype_name(c->dtype), c->op, plan->way, plan->blocks,
                    (unsigned long long)c->count, (unsigned long long)i);
            return __LINE__;
        }
    for (uint32_t i = 0; i < 64; i++) TRY(got[bytes + i] == 0xee); /* nothing after it was written */
    return 0;
}

/* in: whether recv is where send is, or a part of it. */
static int run_one(struct peer *p, struct gw_coll c, bool in_place, uint32_t shift)
{
    uint32_t each = (uint32_t)gw_dtype_bytes(c.dtype);
    uint8_t *send = (uint8_t *)p->send.dev + shift * each, *recv = (uint8_t *)p->recv.dev + shift * each;
    struct gw_coll_plan plan;

    memset(p->want.host, 0xee, MOST + 4096);
    TRY(gw_copy_in(p->exec, p->recv.dev, p->want.host, MOST + 4096) == 0);
    c.recv = recv;
    c.send = in_place ? recv : send;
    if (in_place && c.kind == GW_COLL_ALLGATHER) c.send = recv + p->rank * c.count * each;
    TRY(fill(p, &c, (uint8_t *)(uintptr_t)c.send) == 0);
    TRY(gw_coll_plan(p->comm, &c, &plan) == 0);
    TRY(gw_coll_start(p->comm, &c, LIMIT) == 0);
    TRY(gw_coll_wait(p->comm) == 0);
    return compare(p, &c, &plan);
}

/* ---- all of them
 * ---------------------------------------------------------------------------------------- */

static const uint64_t counts[] = {0, 1, 7, 1000, 4099, 30001, 1};

static int check_sizes(struct peer *p, uint32_t kind, uint32_t way)
{
    for (uint32_t i = 0; i<sizeof(counts) / sizeof(counts[0]); i += p->size> 3 ? 2 : 1) {
        struct gw_coll c = {.kind = kind, .dtype = GW_DTYPE_F32, .way = way, .count = counts[i]};
        bool may = kind == GW_COLL_ALLREDUCE || kind == GW_COLL_BROADCAST || kind == GW_COLL_ALLGATHER;

        c.root = i % p->size;
        TRY(run_one(p, c, false, 0) == 0);
        TRY(run_one(p, c, false, 1) == 0); /* not aligned to 16 */
        if (may) TRY(run_one(p, c, true, i % 2) == 0);
    }
    return 0;
}

static int check_types(struct peer *p, uint32_t kind, uint32_t way)
{
    for (uint32_t dtype = GW_DTYPE_F32; dtype <= GW_DTYPE_I64; dtype += p->size > 2 ? 3 : 1)
        for (uint32_t op = GW_SUM; op <= GW_AVG; op++) {
            struct gw_coll c = {.kind = kind, .dtype = dtype, .op = op, .way = way, .count = 1003};

            if (op == GW_AVG && dtype > GW_DTYPE_F64) continue;
            if (dtype == GW_DTYPE_BOOL && op < GW_MAX) continue; /* a byte above 1 is no boolean */
            TRY(run_one(p, c, false, dtype % 2) == 0);
        }
    return 0;
}

static int check_large(struct peer *p)
{
    uint32_t most = p->size > 2 ? MOST / 8 : MOST; /* processors are few */

    for (uint32_t kind = GW_COLL_BROADCAST; kind <= GW_COLL_ALLTOALL; kind++)
        for (uint32_t way = GW_WAY_AUTO; way <= GW_WAY_RING; way++) {
            bool whole = kind == GW_COLL_ALLREDUCE || kind == GW_COLL_BROADCAST;
            struct gw_coll c = {.kind = kind, .dtype = GW_DTYPE_F32, .way = way};

            c.count = most / 4 / (whole ? 1 : p->size) - 5;
            TRY(run_one(p, c, false, 0) == 0);
        }
    return 0;
}

/* What rank a sends to rank b: much, little or nothing. */
static uint64_t skew(uint32_t a, uint32_t b, uint32_t round)
{
    static const uint64_t some[] = {0, 1, 30011, 17, 0, 4096, 3};

    return some[(a * 3 + b * 5 + round) % 7];
}

static int alltoallv_compare(struct peer *p, const uint64_t *count, uint32_t round)
{
    static uint32_t got[MOST / 4];
    uint64_t at = 0;

    TRY(gw_copy_out(p->exec, got, p->recv.dev, MOST) == 0);
    for (uint32_t from = 0; from < p->size; from++)
        for (uint64_t i = 0; i < count[from]; i++, at++) {
            uint64_t before = 0; /* elements that `from` sends to lower ranks */

            for (uint32_t k = 0; k < p->rank; k++) before += skew(from, k, round);
            TRY(got[at] == hash_of(from, before + i));
        }
    return 0;
}

static int check_alltoallv(struct peer *p)
{
    for (uint32_t round = 0; round < 7; round++) {
        uint64_t out[GW_COMM_MAX_RANKS], in[GW_COMM_MAX_RANKS], total = 0;
        struct gw_parts send = {.base = p->send.dev, .count = out}, recv = {.base = p->recv.dev, .count = in};

        for (uint32_t k = 0; k < p->size; k++) {
            out[k] = skew(p->rank, k, round);
            in[k] = skew(k, p->rank, round);
            total += out[k];
        }
        for (uint64_t i = 0; i < total; i++) ((uint32_t *)p->want.host)[i] = hash_of(p->rank, i);
        TRY(gw_copy_in(p->exec, p->send.dev, p->want.host, total * 4) == 0);
        TRY(gw_alltoallv(p->comm, &send, &recv, GW_DTYPE_U32, LIMIT) == 0);
        TRY(alltoallv_compare(p, in, round) == 0);
    }
    return 0;
}

static int check_kinds(struct peer *p)
{
    for (uint32_t kind = GW_COLL_BROADCAST; kind <= GW_COLL_ALLTOALL; kind++)
        for (uint32_t way = GW_WAY_DIRECT; way <= GW_WAY_RING; way++) TRY(check_sizes(p, kind, way) == 0);
    TRY(check_types(p, GW_COLL_ALLREDUCE, GW_WAY_DIRECT) == 0);
    TRY(check_types(p, GW_COLL_ALLREDUCE, GW_WAY_RING) == 0);
    TRY(check_types(p, GW_COLL_REDUCE_SCATTER, GW_WAY_AUTO) == 0);
    TRY(check_alltoallv(p) == 0);
    return check_large(p);
}

int check_all(struct peer *p)
{
    uint32_t a, b;

    for (uint32_t i = 0; i < 20; i++) TRY(gw_barrier(p->comm, LIMIT) == 0);
    TRY(check_kinds(p) == 0);
    /* Once more in registered memory. */
    TRY(gw_comm_register(p->comm, p->send.dev, p->send.size, LIMIT, &a) == 0);
    TRY(gw_comm_register(p->comm, p->recv.dev, p->recv.size, LIMIT, &b) == 0);
    TRY(check_kinds(p) == 0);
    TRY(gw_barrier(p->comm, LIMIT) == 0);
    TRY(gw_comm_unregister(p->comm, a) == 0 && gw_comm_unregister(p->comm, b) == 0);
    TRY(gw_comm_unregister(p->comm, b) == -EINVAL);
    TRY(gw_barrier(p->comm, LIMIT) == 0);
    return 0;
}
